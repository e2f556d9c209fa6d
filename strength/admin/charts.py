"""A memory's strength over time as a drawing: from points to places in a picture, pure.

It knows neither words nor colours; the template has those. Places are texts, for a template would write numbers
as people of its language do, which no drawing understands.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from strength.domain.strength import Point, PointKind

WIDTH: Final = 720
HEIGHT: Final = 240
LEFT, RIGHT, TOP, BOTTOM = 80, 40, 12, 28
MOST_VERTICES: Final = 600
MOST_MARKS: Final = 60
"""Marks of one sort; those that would lie upon each other are one."""

SMALLEST_SCALE: Final = 0.01
DAY: Final = timedelta(days=1)

# Drawn around the place of the mark: told apart by form, not by colour alone.
SHAPES: Final = {
    PointKind.CREATED: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    PointKind.USED: "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
    PointKind.IMPACT: "M0-5L5 4H-5Z",
    PointKind.SET: "M-4-4H4V4H-4Z",
    PointKind.NOW: "M0-5L5 0L0 5L-5 0Z",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """What happened, and where in the picture; `times` are those of all that lie there."""

    kind: PointKind
    x: str
    y: str
    at: datetime
    strength: float
    times: int

    @property
    def shape(self) -> str:
        """Return the form of its sort."""
        return SHAPES[self.kind]


@dataclass(frozen=True, slots=True)
class Height:
    """A line across the picture: where it lies, and for which strength it stands."""

    y: str
    strength: float

    @property
    def label(self) -> str:
        """Return the strength in few characters."""
        return f"{self.strength:,.10g}"


@dataclass(frozen=True, slots=True)
class Moment:
    """A place on the axis of time."""

    x: str
    at: datetime


@dataclass(frozen=True, slots=True)
class StrengthChart:
    """A picture of WIDTH by HEIGHT. `line` are the vertices, `nights` the forms of all sleeps in one path."""

    line: str
    marks: list[Mark]
    nights: str
    threshold: Height | None
    heights: list[Height]
    moments: list[Moment]
    shows_hours: bool
    lowest: float
    highest: float

    @property
    def kinds(self) -> list[PointKind]:
        """Return the sorts of marks that there are, for the legend."""
        return [kind for kind in SHAPES if any(mark.kind is kind for mark in self.marks)]


def strength_chart(points: Sequence[Point], *, threshold: float) -> StrengthChart:
    """Return the drawing of at least one point; `threshold` is the strength at which a memory is archived."""
    ordered = sorted(points, key=lambda point: point.at)
    highest = max(point.strength for point in ordered)
    heights = _round_heights(max(highest, threshold))
    frame = _Frame(ordered[0].at, ordered[-1].at, heights[-1])
    shows_hours = frame.span < 4 * DAY
    return StrengthChart(
        line=" ".join(f"{x:.1f},{y:.1f}" for x, y in _vertices(frame, ordered)),
        marks=_marks(frame, ordered),
        nights=_nights(frame, ordered),
        threshold=frame.height(threshold) if threshold > 0 else None,
        heights=[frame.height(strength) for strength in heights],
        moments=[Moment(f"{frame.x(at):.1f}", at) for at in _round_moments(frame)],
        shows_hours=shows_hours,
        lowest=min(point.strength for point in ordered),
        highest=highest,
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where moments and strengths lie."""

    start: datetime
    end: datetime
    top: float

    @property
    def span(self) -> timedelta:
        return self.end - self.start

    def x(self, at: datetime) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * ((at - self.start) / (self.span or DAY))

    def y(self, strength: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (strength / self.top)

    def height(self, strength: float) -> Height:
        return Height(f"{self.y(strength):.1f}", strength)


def _round_heights(highest: float) -> list[float]:
    """Return round strengths at even distances, from 0 to the highest or just above it."""
    most = max(highest, SMALLEST_SCALE)
    rough = most / 4
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * each for each in (1, 2, 2.5, 5, 10) if size * each >= rough * (1 - 1e-9))
    return [step * number for number in range(math.ceil(most / step - 1e-9) + 1)]


def _round_moments(frame: _Frame) -> list[datetime]:
    """Return at most seven moments: midnights, or parts of a few days."""
    if not frame.span:
        return [frame.start]
    if frame.span < 4 * DAY:
        return [frame.start + frame.span * part / 4 for part in range(5)]
    step = math.ceil(frame.span / DAY / 6)
    midnight = frame.start.replace(hour=0, minute=0, second=0, microsecond=0) + DAY
    count = (frame.end - midnight) // (step * DAY) + 1
    return [midnight + number * step * DAY for number in range(count)]


def _vertices(frame: _Frame, points: Sequence[Point]) -> list[tuple[float, float]]:
    """Return the line's vertices: a strength holds until something happens, unless steps are too small to be seen."""
    places = [(frame.x(point.at), frame.y(point.strength)) for point in points]
    if len(places) > MOST_VERTICES // 2:
        return _thinned(places)
    steps = [places[0]]
    for x, y in places[1:]:
        if y != steps[-1][1]:
            steps.append((x, steps[-1][1]))
        steps.append((x, y))
    return steps


def _thinned(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the first, last, lowest and highest place of each of some columns, so that no peak is lost."""
    columns: dict[int, list[int]] = {}
    wide = (WIDTH - LEFT - RIGHT) / (MOST_VERTICES // 4 - 1)
    for number, (x, _) in enumerate(places):
        columns.setdefault(int((x - LEFT) / wide), []).append(number)
    kept: list[int] = []
    for numbers in columns.values():
        by_height = sorted(numbers, key=lambda number: places[number][1])
        kept += sorted({numbers[0], numbers[-1], by_height[0], by_height[-1]})
    return [places[number] for number in kept]


def _marks(frame: _Frame, points: Iterable[Point]) -> list[Mark]:
    """Return the marks in the order in which they are drawn: the present, which is no event, hides none."""
    wide = (WIDTH - LEFT - RIGHT) / (MOST_MARKS - 1)
    marks: dict[tuple[PointKind, int], Mark] = {}
    for point in points:
        if point.kind not in SHAPES:
            continue
        x = frame.x(point.at)
        place = (point.kind, int((x - LEFT) / wide))
        times = point.times + (marks[place].times if place in marks else 0)
        y = frame.y(point.strength)
        marks[place] = Mark(point.kind, f"{x:.1f}", f"{y:.1f}", point.at, point.strength, times)
    return sorted(marks.values(), key=lambda mark: mark.kind is not PointKind.NOW)


def _nights(frame: _Frame, points: Iterable[Point]) -> str:
    """Return short lines that stand on the axis, at most one for each unit of width."""
    places = dict.fromkeys(round(frame.x(point.at)) for point in points if point.kind is PointKind.SLEPT)
    return "".join(f"M{x} {HEIGHT - BOTTOM}v-6" for x in places)
