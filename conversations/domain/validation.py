"""What every context must hold before it leaves (SPEC X7), whoever wrote it."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from memoryhub.errors import DomainError

Message = Mapping[str, Any]


class InvalidContext(DomainError, ValueError):
    """A context breaks a rule that providers or this project hold; `problems` names each."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Keep the problems one by one."""
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))


def check_context(
    system: str | Sequence[Message] | None, messages: Sequence[Message], total: int, limit: int
) -> None:
    """Raise InvalidContext naming every broken rule; `system` is None where it is the first message."""
    problems = [*_system_problems(system, messages), *_message_problems(_turns(system, messages))]
    if total > limit:
        problems.append(f"{total} tokens are more than the limit of {limit}")
    if problems:
        raise InvalidContext(problems)


def _turns(system: object, messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages without the one that carries `system`."""
    return messages[1:] if system is None and messages and messages[0].get("role") == "system" else messages


def _system_problems(system: str | Sequence[Message] | None, messages: Sequence[Message]) -> list[str]:
    if system is None:
        first = messages[0] if messages else {}
        system = first.get("content") if first.get("role") == "system" else None
    return [] if system is not None and _is_filled(system) else ["system is empty"]


def _message_problems(turns: Sequence[Message]) -> list[str]:
    if not turns:
        return ["there is no message"]
    problems = [problem for number, turn in enumerate(turns) for problem in _turn_problems(number, turn)]
    problems += [
        f"messages {number} and {number + 1} have the same role"
        for number, (turn, following) in enumerate(pairwise(turns))
        if turn.get("role") == following.get("role")
    ]
    ends = {"first": turns[0], "last": turns[-1]}
    problems += [
        f"the {which} message is not the user's" for which, turn in ends.items() if turn.get("role") != "user"
    ]
    return problems


def _turn_problems(number: int, turn: Message) -> list[str]:
    problems = []
    if turn.get("role") not in ("user", "assistant"):
        problems.append(f"message {number} has the role {turn.get('role')!r}")
    if not _is_filled(turn.get("content")):
        problems.append(f"message {number} is empty, or has an empty block")
    return problems


def _is_filled(content: object) -> bool:
    """Tell whether content is text that is not blank, or blocks that all are."""
    if isinstance(content, str):
        return bool(content.strip())
    if not isinstance(content, Sequence) or not content:
        return False
    return all(block.get("type") != "text" or bool(block.get("text", "").strip()) for block in content)
