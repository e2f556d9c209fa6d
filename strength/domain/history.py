"""How strong a memory was over time, from few points: pure (SPEC M9: strength has a history of its own).

Only what happened to a memory is kept, a row for each sort of event and day. What it lost in between is not kept
but computed: each point knows how far the memory had faded by then, and the loss is spread over the nights between.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from strength.domain.strength import left_of


class PointKind(StrEnum):
    """What happened. `created`, `slept` and `now` are computed, the others kept."""

    CREATED = "created"
    USED = "used"
    IMPACT = "impact"
    SET = "set"
    SLEPT = "slept"
    NOW = "now"


@dataclass(frozen=True, slots=True)
class Point:
    """How strong a memory was after an event, and before the first event of the same sort on that day."""

    at: datetime
    kind: PointKind
    strength: float
    before: float
    faded: float
    level: int
    times: int = 1
    began_at: datetime | None = None
    """When the first event of the sort was, where that is known; and how far the memory had faded by then."""
    faded_before: float | None = None

    @property
    def beginning(self) -> datetime:
        """Return when the first event of the sort was, as far as is known."""
        return self.at if self.began_at is None else self.began_at

    @property
    def born(self) -> float:
        """Return how strong the memory was when it was made, where nothing else happened to it before."""
        faded = self.faded if self.faded_before is None else self.faded_before
        return left_of(self.before, -faded)


def curve(
    kept: Iterable[Point],
    *,
    created_at: datetime,
    now: datetime,
    strength: float,
    faded: float,
    level: int,
    nights: Sequence[datetime],
) -> list[Point]:
    """Return a memory's points from its creation until now, the nights between them filled in, in order of time.

    `strength`, `faded` and `level` are the memory's own now, `nights` the moments its actor's sleeps reckoned for.
    """
    events = sorted(kept, key=lambda point: point.at)
    end = Point(now, PointKind.NOW, strength, strength, faded, level)
    # What happened again and again may have begun before what ended before it.
    born = min(events, key=lambda point: point.beginning, default=end).born
    start = Point(created_at, PointKind.CREATED, born, born, 0.0, 0)
    whole = [start, *events, end]
    filled = [
        point
        for earlier, later in pairwise(whole)
        for point in [earlier, *_nights_between(earlier, later, nights)]
    ]
    return [*filled, end]


def _nights_between(earlier: Point, later: Point, nights: Sequence[datetime]) -> list[Point]:
    """Return what each night left, so that all of them together leave what the later point says."""
    within = [night for night in nights if earlier.at < night <= later.at]
    lost = later.faded - earlier.faded
    if not within or not lost:
        return []
    spans = _spans(earlier.at, within)
    whole = sum(spans, timedelta())
    points, passed = [], timedelta()
    for night, span in zip(within, spans, strict=True):
        passed += span
        faded = lost * (passed / whole)
        left = left_of(earlier.strength, faded)
        points.append(Point(night, PointKind.SLEPT, left, left, earlier.faded + faded, earlier.level))
    return points


def _spans(begin: datetime, nights: Sequence[datetime]) -> list[timedelta]:
    moments = [begin, *nights]
    return [later - earlier for earlier, later in pairwise(moments)]
