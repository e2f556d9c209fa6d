"""Distrust a model that often fails the checks: then all that it draws waits for a person (SPEC L6, ADR 71). Pure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from conversations.domain.statements.grounding import UNRELIABLE, Doubt
from strength.domain.extraction import Item

RECENT: Final = 40
"""Statements of a user by which a model is judged, those of the present answer included."""

FEWEST: Final = 5
"""Statements from which on it is judged."""

FAILED_SHARE: Final = 0.4
"""Share of failed ones from which on the rest waits, too. Models that follow the prompt are near 0.02."""


def often_fails(failed: Sequence[bool]) -> bool:
    """Return whether a model is distrusted; `failed`: of its last statements, whether each failed."""
    return len(failed) >= FEWEST and sum(failed) >= FAILED_SHARE * len(failed)


def distrusted(items: Sequence[Item], earlier: Sequence[bool]) -> list[Item]:
    """Return an answer's items, each with a doubt where the model often fails.

    `earlier`: of statements drawn before, newest first, whether they failed a check or a person rejected them.
    """
    failed = [*(item.doubt is not None for item in items), *earlier][:RECENT]
    if not often_fails(failed):
        return list(items)
    return [replace(item, doubt=item.doubt or Doubt(UNRELIABLE)) for item in items]
