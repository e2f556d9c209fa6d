"""The formulas of `strength.domain` rendered for the database; one parity test feeds both the same cases."""

from collections.abc import Sequence

from django.db.models import Case, Expression, F, PositiveSmallIntegerField, Value, When


def consolidation_level(thresholds: Sequence[int], *, added_uses: int = 0) -> Expression:
    """Return the level for the row's access count plus `added_uses` (twin of `domain.strength`)."""
    levels = [
        When(access_count__gte=threshold - added_uses, then=Value(level))
        for level, threshold in reversed(list(enumerate(thresholds)))
    ]
    return Case(*levels, default=Value(0), output_field=PositiveSmallIntegerField())


def grown(increment: float) -> Expression:
    """Return the row's strength plus an increment: added in the database, so that no use is lost."""
    return F("strength") + Value(float(increment))
