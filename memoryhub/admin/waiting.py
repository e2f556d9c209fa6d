"""Kinds of rows that wait for a person. The dashboard, the review page and the sidebar's count are made from the list.

Each app registers its kinds when it is ready. A test demands that every state of every model waits here or is known
not to wait.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db.models import Model, QuerySet
from django.http import HttpRequest

from memoryhub.admin.dashboard import Count, Section, Tile, with_counts
from memoryhub.auth.row_security import is_closed


@dataclass(frozen=True)
class Waiting:
    """A kind of rows that a person decides about, on `page` or in the list of `model` narrowed by `query`.

    `states` holds the values of the model's fields by which a row waits. Counting stops at `max_counted`, where the
    planner's estimate would be far off.
    """

    title: Any
    note: Any
    model: type[Model]
    rows: Callable[[datetime], QuerySet[Any]]
    states: Mapping[str, Sequence[str]] = field(default_factory=dict)
    query: str = ""
    page: str = ""
    max_counted: int | None = None

    def tile(self, now: datetime) -> Tile:
        figure: Any = self.rows(now)
        if self.max_counted is not None:
            counted = figure[: self.max_counted + 1].count()
            figure = Count(min(counted, self.max_counted), is_estimate=counted > self.max_counted)
        return Tile(self.title, figure, self.note, self.model, self.query, section=Section.DECIDE, page=self.page)


WAITING: Final[list[Waiting]] = []
"""All kinds; the dashboard lists those of the review page first."""


def _open_kinds() -> list[Waiting]:
    return [kind for kind in WAITING if not is_closed(kind.model)]


def waiting_panel(now: datetime) -> list[Tile]:
    return [kind.tile(now) for kind in sorted(_open_kinds(), key=lambda kind: not kind.page)]


def waiting_elsewhere(request: HttpRequest, page: str, now: datetime) -> list[Tile]:
    """Return what waits on other pages than `page`, as far as the person may see it."""
    return waiting_for(request.user, now, without=page)


def waiting_for(person: Any, now: datetime, *, without: str = "") -> list[Tile]:
    """Return what waits for a person, as far as the person may see it, but for what waits on a page."""
    tiles = [kind.tile(now) for kind in _open_kinds() if not without or kind.page != without]
    visible = [tile for tile in tiles if person.has_perm(tile.permission)]
    return [tile for tile in with_counts(visible) if tile.is_waiting]
