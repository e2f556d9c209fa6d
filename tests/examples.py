"""Numbers of examples for property tests: few in `make test`, all of them in `make test-slow`."""

from typing import Final

from hypothesis import settings

QUICK: Final = "quick"


def examples(number: int) -> int:
    """Return how many examples to try where `number` is enough to find rare faults."""
    return max(3, number // 10) if settings.get_current_profile_name() == QUICK else number
