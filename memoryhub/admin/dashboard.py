"""The admin's first page: counts, pending decisions, recent activity, providers.

Each app registers its own tiles (`PANELS`). Counting stays cheap: all are counted together, and
where the planner expects a count to read much of a large table, its own estimate is shown instead, marked as one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, cast

from django.conf import settings
from django.contrib import admin
from django.db import connection, transaction
from django.db.models import Model, QuerySet, Value
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.formats import number_format
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import clock
from memoryhub.admin.jobs import MOODS, BackgroundStatus, background_status
from memoryhub.admin.labels import audit_title, model_of
from memoryhub.auth.domain import PrincipalKind
from memoryhub.auth.models import ApiKey, AuditEntry
from memoryhub.jobs.domain import State
from memoryhub.jobs.models import Job
from memoryhub.jobs.status import Mood, jobs_status
from memoryhub.llm.usage.domain import OK
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.runtime.disk import disk_space
from memoryhub.search.models import EmbeddingSpace, index_models
from memoryhub.tenancy.models import Actor, Agent

# In the planner's unit, about one page read in order each: some 100,000 narrow rows, tens of milliseconds.
DEAREST_COUNT = 5_000.0

RECENT = timedelta(days=7)
LOOKED_THROUGH = 40
MOST_HAPPENINGS = 10
MOST_WAITING = 10_000


@dataclass(frozen=True)
class Count:
    """A number of rows, estimated where counting would read too much."""

    number: int
    is_estimate: bool = False

    def __str__(self) -> str:
        shown = number_format(self.number, use_l10n=True, force_grouping=True)
        return gettext("about %(number)s") % {"number": shown} if self.is_estimate else shown


class Section(StrEnum):
    """Sections of the page, in order."""

    DECIDE = "decide"
    BACKGROUND = "background"
    HOLDINGS = "holdings"


SECTION_TITLES: dict[Section, Any] = {
    Section.DECIDE: _("Needs a decision"),
    Section.BACKGROUND: _("In the background"),
    Section.HOLDINGS: _("Contents"),
}


@dataclass(frozen=True)
class Tile:
    """One figure of the first page: what it counts, the figure, a line below it, and the list behind it.

    `figure` and `recent` (the last seven days) may be rows: those of all tiles are counted together. `alarm` is shown
    above all tiles. `page` names a page of `PAGES` where that is the better way to go on than the list.
    """

    title: Any
    figure: Any
    note: Any
    model: type[Model]
    query: str = ""
    section: Section = Section.HOLDINGS
    recent: Any = None
    page: str = ""
    alarm: BackgroundStatus | None = None

    @property
    def href(self) -> str:
        if self.page:
            try:
                return reverse(self.page)
            except NoReverseMatch:
                pass
        opts = self.model._meta
        return reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist") + self.query

    @property
    def permission(self) -> str:
        return may_see(self.model)

    @property
    def is_waiting(self) -> bool:
        return self.section is Section.DECIDE and bool(self.figure.number)


@dataclass(frozen=True)
class Happening:
    """A recent action: when, its title, by whom, and the row's page."""

    at: datetime
    text: Any
    who: str
    model: type[Model]
    key: object = None

    @property
    def href(self) -> str:
        opts = self.model._meta
        if self.key is None or not admin.site.is_registered(self.model):
            return ""
        return reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[self.key])

    @property
    def permission(self) -> str:
        return may_see(self.model)


def may_see(model: type[Model]) -> str:
    return f"{model._meta.app_label}.view_{model._meta.model_name}"


Panel = Callable[[datetime], Iterable[Tile | Happening]]

PANELS: Final[list[Panel]] = []
"""The panels of all apps, in order; apps register theirs when they are ready."""


def counted(tiles: Sequence[Tile]) -> list[Tile]:
    """Return the tiles with their counts, read by three statements."""
    wanted = [each for tile in tiles for each in (tile.figure, tile.recent) if isinstance(each, QuerySet)]
    figures = iter(_counts(wanted) if wanted else [])

    def known(figure: Any) -> Any:
        return next(figures) if isinstance(figure, QuerySet) else figure

    return [replace(tile, figure=known(tile.figure), recent=known(tile.recent)) for tile in tiles]


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
    counts = [f"(SELECT count(*) FROM ({sql}) AS rows)" for sql, _ in compiled]  # noqa: S608 - Django's own
    return " UNION ALL ".join(counts), [value for _, values in compiled for value in values]


def ground_tiles(now: datetime) -> list[Tile | Happening]:
    usable = ApiKey.objects.usable(now)
    return [
        Tile(_("Agents"), Agent.objects.all(), _("with a memory of their own"), Agent),
        Tile(_("Actors"), Actor.objects.all(), _("agents and their users"), Actor),
        Tile(_("API keys"), usable, _("usable now"), ApiKey, "?state=usable"),
        _background_tile(now),
        *(
            Happening(
                entry.at, audit_title(entry.verb, entry.object_kind), entry.who_name, model, entry.object_id
            )
            for entry in AuditEntry.objects.filter(who_kind=PrincipalKind.CURATOR)[:LOOKED_THROUGH]
            if (model := model_of(entry.object_kind)) is not None
        ),
    ]


def _background_tile(now: datetime) -> Tile:
    state = jobs_status(now)
    ended_badly = state.jobs.get(State.FAILED, 0) + state.jobs.get(State.DEAD, 0)
    if ended_badly and state.mood in (Mood.IDLE, Mood.WORKING):
        query = "?state__in=failed,dead"
        return Tile(
            _("Jobs"), Count(ended_badly), _("failed or dead"), Job, query, section=Section.BACKGROUND
        )
    waiting, words = Count(state.jobs.get(State.QUEUED, 0)), background_status(state)
    alarm = None if words.is_well else words
    return Tile(_("Jobs"), waiting, MOODS[state.mood], Job, section=Section.BACKGROUND, alarm=alarm)


def _providers(now: datetime, *, with_calls: bool) -> Iterator[dict[str, Any]]:
    """Yield each configured provider with its last call of the week."""
    names = ((_("Language model"), settings.LLM.provider), (_("Embedder"), settings.EMBEDDING.provider))
    for purpose, name in names:
        week = LedgerEntry.objects.filter(created_at__gte=now - RECENT, provider=name)
        last = week.order_by("-created_at", "-id").first() if with_calls else None
        is_well = last is not None and last.outcome == OK
        yield {"purpose": purpose, "name": name, "last": last, "is_well": is_well}


def _spaces() -> dict[str, Any]:
    spaces = list(EmbeddingSpace.objects.exclude(state=EmbeddingSpace.State.RETIRED))
    active = next((space for space in spaces if space.state == EmbeddingSpace.State.ACTIVE), None)
    waiting = sum(
        model.objects.filter(space=active, vector=None, is_refused=False)[:MOST_WAITING].count()
        for model in (index_models() if active else ())
    )
    return {
        "space": active,
        "filling": [space for space in spaces if space.state == EmbeddingSpace.State.FILLING],
        "without_vector": Count(waiting, is_estimate=waiting >= MOST_WAITING),
    }


@dataclass(frozen=True)
class DiskAlarm:
    """A warning that the disk fills up, with advice."""

    sentence: str
    advice: str


def _disk_alarms() -> list[DiskAlarm]:
    space = disk_space(settings.ENVIRONMENT)
    if space is None or not space.is_low:
        return []
    words = {"free": space.free_mb, "least": space.min_free_mb}
    if space.is_full:
        sentence = gettext(
            "The disk is full (%(free)d MB free): programs' writes are refused, and jobs wait."
        )
    else:
        sentence = gettext("The disk fills up: %(free)d MB are free. Below %(least)d MB, writes are refused.")
    advice = gettext(
        "Make room where the database lies; “manage.py doctor” says where. All goes on by itself then."
    )
    return [DiskAlarm(sentence % words, advice)]


def first_page(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add what this person may see to the context (`DASHBOARD_CALLBACK` of unfold)."""
    now, user = clock(), cast(Any, request.user)
    offered = [each for panel in PANELS for each in panel(now)]
    seen = [each for each in offered if user.has_perm(each.permission)]
    tiles = counted([each for each in seen if isinstance(each, Tile)])
    tiles.sort(key=lambda tile: not tile.is_waiting)
    happenings = sorted((each for each in seen if isinstance(each, Happening)), key=lambda each: each.at)
    context |= {
        "tiles": tiles,
        "sections": [
            {"name": section, "title": title, "tiles": [tile for tile in tiles if tile.section is section]}
            for section, title in SECTION_TITLES.items()
        ],
        "nothing_to_decide": not any(tile.is_waiting for tile in tiles),
        "happenings": happenings[: -MOST_HAPPENINGS - 1 : -1],
        "alarms": [*_disk_alarms(), *(tile.alarm for tile in tiles if tile.alarm is not None)],
        "providers": list(_providers(now, with_calls=user.has_perm(may_see(LedgerEntry)))),
        "sees_anything": bool(tiles),
        **_spaces(),
    }
    return context
