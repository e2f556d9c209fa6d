"""Assemble a context: select candidates within the budget, write them, validate the result, and report on it.

Pure: candidates, policy, nonce and token counter come in as values, the context and its receipt's items go out.
Fetching the candidates, storing the receipt and calling the model belong to the actions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from conversations.domain.budget import COMPRESSION_REASONS, Reason, Selection, ShareUse, select_within_budget
from conversations.domain.content import excerpt
from conversations.domain.formats import CountTokens, Format, PromptWriter
from conversations.domain.layers import (
    PINNED,
    PROFILE,
    PROJECT,
    RECALL,
    SEMANTIC,
    SESSION_SUMMARY,
    SYSTEM,
    USER_MESSAGE,
    WORKING,
    Candidate,
    LayerResult,
)
from conversations.domain.prompt import Frame, render_system
from memoryhub.errors import DomainError
from memoryhub.llm.types import IMAGE_TOKENS

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyRequest(Frame):
    """The frame, the layers' candidates, and the form to write; `project` is the name for the metadata."""

    layers: tuple[LayerResult, ...] = ()
    format: Format = "anthropic"
    project: str | None = None

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return tuple(candidate for layer in self.layers for candidate in layer.candidates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Figures of what is in the result, not of what was offered (SPEC X8)."""

    working_memory_count: int
    semantic_memory_count: int
    recall_count: int
    pinned_count: int
    profile_count: int
    has_session_summary: bool
    project: str | None
    total_tokens: int
    token_limit: int
    compression_applied: bool
    degraded: tuple[str, ...]


class Item(NamedTuple):
    """One line of the receipt (SPEC X9); `tokens` counts the entry by itself, `reason` is a `Reason`."""

    layer: str
    excerpt: str
    tokens: int
    included: bool
    reason: str
    source_id: str | None = None
    relevance: float | None = None
    final_score: float | None = None
    score_breakdown: Mapping[str, float] | None = None
    memory_ids: tuple[str, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return its values; `memory_ids` only where it is a line that rests on memories."""
        values = self._asdict()
        if self.memory_ids is None:
            del values["memory_ids"]
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """A finished context; `system` is None in the OpenAI form, where it is the first message."""

    system: str | list[dict[str, Any]] | None
    messages: list[dict[str, Any]]
    metadata: Metadata
    items: tuple[Item, ...]
    layer_budgets: tuple[ShareUse, ...]

    @property
    def prompt_and_turns(self) -> tuple[str | list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the system prompt and the turns apart, in whichever form they were written."""
        if self.system is None:
            return self.messages[0]["content"], self.messages[1:]
        return self.system, self.messages


def assemble(request: AssemblyRequest, count: CountTokens) -> Assembly:
    """Return the fullest context that stays within the policy's token limit; `count` returns the tokens of one text.

    Raises InvalidContext for a blank message without attachments, ContextTooLarge where system prompt and message alone
    exceed the limit, NonceCollision where the caller must draw another nonce.
    """
    if not request.message.strip() and not request.attachments:
        raise InvalidContext(["the user's message is empty"])
    writer = PromptWriter(request, request.candidates, request.format, count)
    selection = select_within_budget(writer)
    system, messages = writer.write(selection.contents)
    layers = [writer.candidates[place].layer for place in selection.contents]
    metadata = Metadata(
        working_memory_count=layers.count(WORKING),
        semantic_memory_count=layers.count(SEMANTIC),
        recall_count=layers.count(RECALL),
        pinned_count=layers.count(PINNED),
        profile_count=layers.count(PROFILE),
        has_session_summary=SESSION_SUMMARY in layers,
        project=request.project if PROJECT in layers else None,
        total_tokens=writer.count_written((system, messages)),
        token_limit=request.policy.token_limit,
        compression_applied=not COMPRESSION_REASONS.isdisjoint(selection.reasons.values()),
        degraded=tuple(dict.fromkeys(name for layer in request.layers for name in layer.degraded)),
    )
    last = request.candidates[-1] if request.candidates else None
    continues = last is not None and last.is_current and last.role == "assistant"
    check_context(system, messages, metadata.total_tokens, metadata.token_limit, continues=continues)
    return Assembly(
        system=system,
        messages=messages,
        metadata=metadata,
        items=_items(writer, selection),
        layer_budgets=tuple(selection.shares),
    )


def _items(writer: PromptWriter, selection: Selection) -> tuple[Item, ...]:
    offered = [
        Item(
            layer=candidate.layer,
            source_id=candidate.source_id,
            memory_ids=candidate.memory_ids,
            excerpt=excerpt(candidate.content, writer.frame.language),
            tokens=writer.cost(place, selection.contents.get(place, candidate.content)),
            relevance=candidate.relevance,
            final_score=candidate.final_score,
            score_breakdown=candidate.score_breakdown,
            included=place in selection.contents,
            reason=selection.reasons[place].value,
        )
        for place, candidate in enumerate(writer.candidates)
        # Memories that another layer offers are not candidates of the profile.
        if (candidate.layer, selection.reasons[place]) != (PROFILE, Reason.DUPLICATE)
    ]
    system = _fixed_item(writer, SYSTEM, render_system(writer.frame))
    message = writer.frame.message
    return (system, *offered, _fixed_item(writer, USER_MESSAGE, message, IMAGE_TOKENS * writer.frame.image_count))


def _fixed_item(writer: PromptWriter, layer: str, text: str, more: int = 0) -> Item:
    beginning, reason = excerpt(text, writer.frame.language), Reason.INCLUDED.value
    return Item(layer=layer, excerpt=beginning, tokens=writer.count(text) + more, included=True, reason=reason)


class InvalidContext(DomainError, ValueError):
    """A context breaks a rule that providers or this project hold; `problems` names each."""

    field = "message"

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))


def check_context(
    system: str | Sequence[Message] | None,
    messages: Sequence[Message],
    total: int,
    limit: int,
    *,
    continues: bool = False,
) -> None:
    """Raise InvalidContext naming every broken rule; `system` is None where it is the first message.

    Only where the model `continues` an answer does the assistant have the last word.
    """
    if system is None and messages and messages[0].get("role") == "system":
        system, messages = messages[0].get("content"), messages[1:]
    problems = [] if system is not None and _is_filled(system) else ["system is empty"]
    problems += _message_problems(messages)
    if messages and not continues and messages[-1].get("role") not in ("user", "tool"):
        problems.append("the last message is not the user's")
    if total > limit:
        problems.append(f"{total} tokens are more than the limit of {limit}")
    if problems:
        raise InvalidContext(problems)


def _message_problems(turns: Sequence[Message]) -> list[str]:
    if not turns:
        return ["there is no message"]
    problems = []
    for number, turn in enumerate(turns):
        if turn.get("role") not in ("user", "assistant", "tool"):
            problems.append(f"message {number} has the role {turn.get('role')!r}")
        if not (turn.get("role") == "tool" or turn.get("tool_calls") or _is_filled(turn.get("content"))):
            problems.append(f"message {number} is empty, or has an empty block")
    problems += [
        f"messages {number} and {number + 1} have the same role"
        for number, (turn, following) in enumerate(pairwise(turns))
        if turn.get("role") == following.get("role") != "tool"
    ]
    problems += _tool_problems(turns)
    if turns[0].get("role") != "user":
        problems.append("the first message is not the user's")
    return problems


def _tool_problems(turns: Sequence[Message]) -> list[str]:
    """Return calls without a result right after them, and results of no call, in either form."""
    problems = []
    called: list[str] = []
    for number, turn in enumerate(turns):
        answered = [each["tool_use_id"] for each in _blocks_of_type(turn, "tool_result")]
        answered += [turn["tool_call_id"]] if turn.get("role") == "tool" else []
        if not set(answered) <= set(called):
            problems.append(f"message {number} has the result of no call")
        called = [each for each in called if each not in answered]
        if called and turn.get("role") != "tool":
            problems.append(f"message {number} leaves a call without its result")
        if turn.get("role") == "assistant":
            blocks = [*_blocks_of_type(turn, "tool_use"), *turn.get("tool_calls", ())]
            called = [each["id"] for each in blocks]
    return [*problems, *(["the last call has no result"] if called else [])]


def _blocks_of_type(turn: Message, kind: str) -> list[Message]:
    content = turn.get("content")
    blocks = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
    return [block for block in blocks if block.get("type") == kind]


def _is_filled(content: object) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    if not isinstance(content, Sequence) or not content:
        return False
    return all(block.get("type") != "text" or bool(block.get("text", "").strip()) for block in content)
