"""One step of a summary: asked again for less where the answer was cut, since the same question would be cut again."""

from collections.abc import Callable
from typing import Final

from memoryhub.providers.errors import BadAnswer
from summaries.actions.writers import Writer, Written
from summaries.domain.rolling import Call

TOO_LONG: Final = frozenset({"truncated", "too_large"})
ASKED_AGAIN: Final = 3
"""How often: each time for half as many words, and from the second on of half as many messages."""

LEAST_SECONDS: Final = 5.0
"""What must be left of the time for another question."""


def take_step(writer: Writer, call: Call, *, seconds_left: Callable[[], float]) -> tuple[Call, Written]:
    """Return a call that was answered whole, and its answer: the one given, or one with fewer of its messages.

    Raises ProviderError; the one about length only where shorter questions do not help either.
    """
    for again in range(ASKED_AGAIN + 1):
        call = call.half if again > 1 else call
        try:
            return call, writer.write(call, deadline_seconds=seconds_left(), shorter=again)
        except BadAnswer as error:
            if error.code not in TOO_LONG or again == ASKED_AGAIN or seconds_left() < LEAST_SECONDS:
                raise
    raise AssertionError("the last question either answers or raises")
