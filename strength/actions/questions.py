"""Questions to a language model about untrusted texts, and one treatment of answers that cannot be used.

After a refused or invalid answer about several items the first half of them is asked about, down to the one item that
spoils the others. That one is skipped where the item is at fault: the model refuses its content, or no answer about it
is usable. A request that is refused for its form is a misconfiguration: the job fails, and nothing is skipped.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from memoryhub.llm.client import ask, is_patient
from memoryhub.llm.errors import BadAnswer, ProviderRejected
from memoryhub.llm.prompts import fenced, prompt
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation
from memoryhub.tenancy.models import Actor

Item = TypeVar("Item")
Answer = TypeVar("Answer")

DEADLINE_SECONDS: Final = 60.0
ANSWER_TOKENS: Final = 4_000
FENCE_BYTES: Final = 16

CONTENT_REFUSED: Final = "refused"
"""The code of a refusal of content; any other code is about the form of the request."""


def ask_about(
    actor: Actor,
    operation: Operation,
    name: str,
    blocks: Mapping[str, str],
    schema: Mapping[str, Any],
    *,
    deadline_seconds: float | None = None,
    answer_tokens: int = ANSWER_TOKENS,
    **values: object,
) -> Any:
    """Return a model's parsed answer to the prompt `name` about these texts; network, so outside any transaction.

    Raises ProviderError.
    """
    fence = secrets.token_hex(FENCE_BYTES)
    request = CompletionRequest(
        operation=operation,
        messages=(ChatMessage("user", fenced(blocks, fence)),),
        max_output_tokens=answer_tokens,
        deadline_seconds=deadline_seconds or DEADLINE_SECONDS,
        system=prompt(name, actor.agent.language, fence=fence, **values),
        json_schema=schema,
    )
    return ask(request, actor=actor).data


def ask_in_halves(
    items: Sequence[Item],
    question: Callable[[Sequence[Item]], Answer],
    *,
    spoilt: int,
    control: Callable[[], object] = lambda: None,
) -> tuple[Sequence[Item], Answer | None, ProviderRejected | BadAnswer | None]:
    """Ask about items, or about the first half of them where the model cannot deal with all.

    Returns the items asked about with the answer, or one item with None and the error for which it is skipped. `spoilt`
    counts the job's attempts that ended in unusable answers: while others follow, such an answer fails the attempt.
    `control` asks about something harmless before an item is skipped for unusable answers, so that a model that answers
    nothing usable at all fails the attempt. Raises ProviderError.
    """
    while True:
        try:
            return items, question(items), None
        except (ProviderRejected, BadAnswer) as error:
            if _fails_attempt(error, spoilt=spoilt, is_last=len(items) <= 1):
                raise
            if len(items) <= 1:
                if isinstance(error, BadAnswer) and not error.permanent:
                    control()
                return items, None, error
            items = items[: len(items) // 2]


def _fails_attempt(error: ProviderRejected | BadAnswer, *, spoilt: int, is_last: bool) -> bool:
    if isinstance(error, BadAnswer):
        return not error.permanent and is_patient(spoilt)
    return is_last and error.code != CONTENT_REFUSED
