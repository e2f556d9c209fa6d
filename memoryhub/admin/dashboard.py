"""The admin's first page: what there is, how much of it, and where to go next.

Each app offers its own counts through `settings.DASHBOARD_PANELS`. Counting stays cheap: all are counted together, and
where the planner expects a count to read much of a large table, its own estimate is shown instead, and marked as one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Model, QuerySet, Value
from django.http import HttpRequest
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.module_loading import import_string
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.access.models import ApiKey
from memoryhub.admin.base import clock
from memoryhub.jobs.domain import State
from memoryhub.jobs.models import Job
from memoryhub.jobs.watching import Mood, background
from memoryhub.search.models import EmbeddingSpace
from memoryhub.tenants.models import Actor, Agent

# In the planner's unit, about one page read in order each: some 100,000 narrow rows, tens of milliseconds.
DEAREST_COUNT = 5_000.0


@dataclass(frozen=True)
class Count:
    """A number of rows; an estimate where counting would have read too much."""

    number: int
    is_estimate: bool = False

    def __str__(self) -> str:
        shown = number_format(self.number, use_l10n=True, force_grouping=True)
        return gettext("about %(number)s") % {"number": shown} if self.is_estimate else shown


@dataclass(frozen=True)
class Uncounted:
    """Rows that are counted together with those of the other tiles."""

    rows: QuerySet[Any]


@dataclass(frozen=True)
class Tile:
    """One figure of the first page: what it counts, the figure, a line below it, and the list behind it."""

    title: Any
    figure: Any
    note: Any
    model: type[Model]
    query: str = ""

    @property
    def href(self) -> str:
        """Return the address of the list."""
        opts = self.model._meta
        return reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist") + self.query

    @property
    def permission(self) -> str:
        """Return what a person needs to see the figure."""
        return f"{self.model._meta.app_label}.view_{self.model._meta.model_name}"


Panel = Callable[[datetime], Iterable[Tile]]


def count(rows: QuerySet[Any]) -> Uncounted:
    """Have rows counted, exactly where that is cheap."""
    return Uncounted(rows)


def counted(tiles: Sequence[Tile]) -> list[Tile]:
    """Return the tiles with their figures, by three statements however many there are."""
    wanted = [tile.figure.rows for tile in tiles if isinstance(tile.figure, Uncounted)]
    figures = iter(_counts(wanted) if wanted else [])
    return [
        replace(tile, figure=next(figures)) if isinstance(tile.figure, Uncounted) else tile for tile in tiles
    ]


@transaction.atomic
def _counts(wanted: Sequence[QuerySet[Any]]) -> list[Count]:
    compiled = [rows.order_by().values_list(Value(1)).query.sql_with_params() for rows in wanted]
    with connection.cursor() as cursor:
        # Without workers each part of the plan tells of all of its rows.
        cursor.execute("SELECT set_config('max_parallel_workers_per_gather', '0', TRUE)")
        statement, values = _together(compiled)
        cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", values)
        plan = cursor.fetchone()[0][0]["Plan"]
        plans = plan["Plans"] if len(wanted) > 1 else [plan]
        is_dear = [each["Total Cost"] > DEAREST_COUNT for each in plans]
        cheap = [each for each, dear in zip(compiled, is_dear, strict=True) if not dear]
        if cheap:
            cursor.execute(*_together(cheap))
        exact = iter(cursor.fetchall() if cheap else [])
    return [
        Count(int(each["Plans"][0]["Plan Rows"]), is_estimate=True) if dear else Count(next(exact)[0])
        for each, dear in zip(plans, is_dear, strict=True)
    ]


def _together(compiled: Sequence[tuple[str, Any]]) -> tuple[str, list[Any]]:
    """Return one statement that counts the rows of each, in order, and its values."""
    counts = [f"(SELECT count(*) FROM ({sql}) AS rows)" for sql, _ in compiled]  # noqa: S608 - Django's own
    return " UNION ALL ".join(counts), [value for _, values in compiled for value in values]


def ground_tiles(now: datetime) -> list[Tile]:
    """Return the ground's figures."""
    usable = ApiKey.objects.usable(now)
    return [
        Tile(_("Agents"), count(Agent.objects.all()), _("who remember"), Agent),
        Tile(_("Actors"), count(Actor.objects.all()), _("agents and their users"), Actor),
        Tile(_("API keys"), count(usable), _("usable now"), ApiKey, "?state=usable"),
        _background_tile(now),
    ]


def _background_tile(now: datetime) -> Tile:
    """Return the figure of what waits or ended badly, and whether anybody works; the worst news first."""
    state = background(now)
    ended_badly = state.jobs.get(State.FAILED, 0) + state.jobs.get(State.DEAD, 0)
    if ended_badly and state.mood in (Mood.IDLE, Mood.WORKING):
        return Tile(_("Jobs"), Count(ended_badly), _("ended badly"), Job, "?state__in=failed,dead")
    moods = {
        Mood.IDLE: _("idle"),
        Mood.WORKING: _("at work"),
        Mood.BEHIND: _("behind"),
        Mood.DOWN: _("no worker is there"),
    }
    return Tile(_("Jobs"), Count(state.jobs.get(State.QUEUED, 0)), moods[state.mood], Job)


def first_page(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the figures that this person may see; unfold calls it (`DASHBOARD_CALLBACK`)."""
    panels = [cast(Panel, import_string(path)) for path in settings.DASHBOARD_PANELS]
    tiles = [tile for panel in panels for tile in panel(clock())]
    user: Any = request.user
    context["tiles"] = counted([tile for tile in tiles if user.has_perm(tile.permission)])
    context["space"] = EmbeddingSpace.objects.filter(state=EmbeddingSpace.State.ACTIVE).first()
    context["embedding_provider"] = settings.EMBEDDING.provider
    context["llm_provider"] = settings.LLM.provider
    return context
