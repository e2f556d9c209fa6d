"""A memory's strength over time (SPEC M9)."""

from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from strength.domain.history import Point, PointKind, curve
from strength.domain.sleep import RunState
from strength.models import CurrentNumbers, Memory, SleepRun, StrengthPoint

MOST_NIGHTS: Final = 1_000
KEPT_IN_FULL: Final = timedelta(days=400)

# Of what is older, each month keeps its last point of a sort, with the times of the others, and how it was before them.
THIN = """
WITH old AS (
    SELECT actor_id, memory_id, kind, date_trunc('month', day)::date AS month, max(day) AS last,
        sum(times) AS times, (array_agg(before ORDER BY day))[1] AS before,
        (array_agg(coalesce(began_at, at) ORDER BY day))[1] AS began_at,
        (array_agg(coalesce(faded_before, faded) ORDER BY day))[1] AS faded_before
    FROM strength_strengthpoint WHERE day < %(before)s GROUP BY 1, 2, 3, 4 HAVING count(*) > 1 LIMIT %(most)s
), summed AS (
    UPDATE strength_strengthpoint AS point SET times = old.times, before = old.before, began_at = old.began_at,
        faded_before = old.faded_before FROM old
    WHERE point.actor_id = old.actor_id AND point.memory_id = old.memory_id AND point.kind = old.kind
        AND point.day = old.last
)
DELETE FROM strength_strengthpoint AS point USING old
WHERE point.actor_id = old.actor_id AND point.memory_id = old.memory_id AND point.kind = old.kind
    AND point.day >= old.month AND point.day < old.last
"""


def strength_history(*, memory: Memory, now: datetime) -> list[Point]:
    """Return how strong a memory was after each day's events and each sleep, from its creation until now."""
    numbers = CurrentNumbers.objects.get(actor_id=memory.actor_id, memory=memory)
    rows = StrengthPoint.objects.filter(actor_id=memory.actor_id, memory=memory)
    kept = [_point(row) for row in rows]
    runs = SleepRun.objects.filter(actor_id=memory.actor_id, dry_run=False, now__gte=memory.created_at)
    nights = runs.filter(state=RunState.DONE).order_by("-now").values_list("now", flat=True)[:MOST_NIGHTS]
    return curve(
        kept,
        created_at=memory.created_at,
        now=now,
        strength=numbers.strength,
        faded=numbers.faded,
        level=numbers.consolidation_level,
        nights=sorted(nights),
    )


def _point(row: StrengthPoint) -> Point:
    return Point(
        row.at, PointKind(row.kind), row.strength, row.before, row.faded, row.level, row.times,
        began_at=row.began_at, faded_before=row.faded_before,
    )  # fmt: skip


def thin_history(*, now: datetime, most: int) -> int:
    """Thin out the points of long ago, those of at most so many months; return how many rows went."""
    with connection.cursor() as cursor:
        cursor.execute(THIN, {"before": (now - KEPT_IN_FULL).date(), "most": most})
        return int(cursor.rowcount)
