"""Find how many cuts make a context fit, counting as seldom as possible what is really written.

Counting a written context is dear (a tokenizer reads the whole remembered block), so cheap figures of what
each cut frees say where to look, and the true total decides. The answer is never above the limit, and
putting the last cut back would be.
"""

from collections.abc import Callable, Sequence
from functools import cache

from memoryhub.errors import DomainError


class ContextTooLarge(DomainError, ValueError):
    """System prompt and user message alone are more than the limit (SPEC X4)."""

    def __init__(self, required_tokens: int, token_limit: int) -> None:
        """Keep the figures for the answer."""
        self.required_tokens = required_tokens
        self.token_limit = token_limit
        super().__init__(
            f"system prompt and user message need {required_tokens} tokens; the limit is {token_limit}"
        )


def cuts_needed(
    total_at: Callable[[int], int], *, count: int, freed: Callable[[], Sequence[int]], limit: int
) -> int:
    """Return how many of `count` cuts to make; `total_at(n)` is the true total after n of them.

    `freed` (asked only when something must give way) estimates what each cut frees.
    Raises ContextTooLarge where all of them do not suffice.
    """
    total_at = cache(total_at)
    taken = 0
    while total_at(taken) > limit:
        if taken == count:
            raise ContextTooLarge(total_at(count), limit)
        taken += _enough(freed()[taken:], total_at(taken) - limit)
    while taken and total_at(taken - 1) <= limit:
        taken -= 1
    return taken


def _enough(freed: Sequence[int], excess: int) -> int:
    """Return how many of the next cuts free `excess` by estimate: at least one, at most all."""
    for number, tokens in enumerate(freed, start=1):
        excess -= tokens
        if excess <= 0:
            return number
    return len(freed)
