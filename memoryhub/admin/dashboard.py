"""Admin dashboard (SPEC W7): pending work, background status, the last sleep, 30-day charts, and recent actions.

Each app registers its own panels (`PANELS`). All counts are read together; where the planner expects a count to read
much of a large table, its estimate is shown instead, marked as one.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Final, cast

from django.conf import settings
from django.contrib import admin
from django.db import connection, transaction
from django.db.models import Count as CountRows
from django.db.models import DateTimeField, F, FloatField, Model, QuerySet, Value
from django.db.models.functions import Cast, TruncDate
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import EXCERPT_LENGTH, clock, format_count, truncated
from memoryhub.admin.columns import dollars, since_query
from memoryhub.admin.labels import PROVIDERS, audit_title, model_of, row_labels
from memoryhub.auth.expiring import expiring_keys
from memoryhub.auth.models import ApiKey, AuditEntry
from memoryhub.auth.principals import PrincipalKind
from memoryhub.auth.row_security import is_closed
from memoryhub.auth.screening import screened_entries
from memoryhub.db import reach
from memoryhub.jobs.models import Job
from memoryhub.jobs.retries import State
from memoryhub.jobs.status import HEALTH_LABELS, JobsStatus, jobs_status
from memoryhub.llm.usage.caps import OK
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.runtime.postgres import disk_space
from memoryhub.search.models import EmbeddingSpace, index_models
from memoryhub.tenancy.models import Agent
from memoryhub.unfold import may_open
from memoryhub.zones import day_start

# Planner cost units (about one sequential page read): some 100,000 narrow rows, tens of milliseconds.
MAX_COUNT_COST = 5_000.0

RECENT = timedelta(days=7)
AUDIT_ENTRIES_READ = 40
MAX_ACTIONS = 10
CURVE_DAYS = 30
MAX_WAITING = 10_000


@dataclass(frozen=True)
class Count:
    """A number of rows, estimated where counting would read too much."""

    number: int
    is_estimate: bool = False

    def __str__(self) -> str:
        shown = format_count(self.number)
        return gettext("about %(number)s") % {"number": shown} if self.is_estimate else shown


class Section(StrEnum):
    """Sections of the page, in order."""

    DECIDE = "decide"
    BACKGROUND = "background"
    HOLDINGS = "holdings"


def view_permission(model: type[Model]) -> str:
    return f"{model._meta.app_label}.view_{model._meta.model_name}"


class PanelItem:
    """An entry of a panel, shown to those who may see its model."""

    model: type[Model]

    @property
    def permission(self) -> str:
        return view_permission(self.model)


class LinkedItem(PanelItem):
    """Item that links to a filtered list, or to `page` (a name in `PAGES`)."""

    query: str
    page: str

    @property
    def href(self) -> str:
        name = f"admin:{self.model._meta.app_label}_{self.model._meta.model_name}_changelist"
        return reverse(self.page or name) + self.query


@dataclass(frozen=True)
class Tile(LinkedItem):
    """Figure with title, note and link, to a list of as many rows.

    `figure` and `recent` (the last seven days) may be querysets, which are counted together for all tiles. `alarm` is
    shown above all tiles.
    """

    title: Any
    figure: Any
    note: Any
    model: type[Model]
    query: str = ""
    section: Section = Section.HOLDINGS
    recent: Any = None
    page: str = ""
    alarm: JobsStatus | None = None

    @property
    def is_waiting(self) -> bool:
        return self.section is Section.DECIDE and bool(self.figure.number)


@dataclass(frozen=True)
class RecentAction(PanelItem):
    """A recent action with time, title, user and link to its row."""

    at: datetime
    text: Any
    who: str
    model: type[Model]
    key: object = None
    words: str = ""

    @property
    def href(self) -> str:
        opts = self.model._meta
        if self.key is None or not admin.site.is_registered(self.model):
            return ""
        return reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[self.key])


@dataclass(frozen=True)
class AutomaticEvent(PanelItem):
    """An automatic event, with a link to it and to a page that asks whether to undo it."""

    text: str
    model: type[Model]
    href: str
    at: datetime
    undo_href: str = ""
    undo_permission: str = ""


@dataclass(frozen=True)
class Curve(LinkedItem):
    """A figure of each of the last CURVE_DAYS days: the sum of `value` over rows by the moment or day in `by`."""

    title: Any
    rows: QuerySet[Any]
    by: str
    model: type[Model]
    value: Any = None
    query: str = ""
    page: str = ""
    is_money: bool = False

    def sums(self, number: int, first: date) -> QuerySet[Any]:
        """Return the days' sums as rows of this curve's number, the day and the sum."""
        is_moment = isinstance(self.rows.model._meta.get_field(self.by), DateTimeField)
        since = day_start(first, timezone.get_current_timezone()) if is_moment else first
        day = TruncDate(self.by) if is_moment else F(self.by)
        recent_rows = self.rows.order_by().filter(**{f"{self.by}__gte": since})
        daily = recent_rows.values(curve=Value(number), on=day).annotate(sum=self.value or CountRows("*"))
        rows: QuerySet[Any] = daily.values_list("curve", "on", Cast("sum", FloatField()))
        return rows


def _chart_data(curves: Sequence[Curve], now: datetime) -> Iterator[dict[str, Any]]:
    """Yield the sum of each curve, and its days as data of unfold's bar chart; they are read by one statement."""
    today = timezone.localdate(now)
    days = [today - timedelta(days=age) for age in range(CURVE_DAYS - 1, -1, -1)]
    statements = [curve.sums(number, days[0]) for number, curve in enumerate(curves)]
    rows = statements[0].union(*statements[1:], all=True) if statements else []
    sums = {(number, day): total or 0.0 for number, day, total in rows}
    labels = [date_format(day, "MONTH_DAY_FORMAT") for day in days]
    for number, curve in enumerate(curves):
        values = [sums.get((number, day), 0.0) for day in days]
        formatted = dollars if curve.is_money else partial(number_format, decimal_pos=0, force_grouping=True)
        dataset = {"data": values, "backgroundColor": "var(--color-primary-600)", "borderRadius": 2}
        yield {
            "title": curve.title,
            "total": formatted(sum(values)),
            "highest": formatted(max(values)),
            "href": curve.href,
            "data": json.dumps({"labels": labels, "datasets": [dataset]}),
        }


CURVE_OPTIONS: Final = json.dumps(
    {
        "animation": False,
        "responsive": True,
        "maintainAspectRatio": False,
        "plugins": {"legend": {"display": False}},
        "scales": {"x": {"display": False}, "y": {"display": False, "beginAtZero": True}},
    }
)

Panel = Callable[[datetime], Iterable[PanelItem]]

PANELS: Final[list[Panel]] = []
"""The panels of all apps, in order; apps register theirs when they are ready."""

REVIEW_COUNTS: Final[list[Callable[[Any, datetime], Count]]] = []
"""What counts the items of the review for a person."""


def with_counts(tiles: Sequence[Tile]) -> list[Tile]:
    """Return the tiles with their counts, read by three statements."""
    querysets = [value for tile in tiles for value in (tile.figure, tile.recent) if isinstance(value, QuerySet)]
    figures = iter(_count_rows(querysets) if querysets else [])

    def resolved(figure: Any) -> Any:
        return next(figures) if isinstance(figure, QuerySet) else figure

    return [replace(tile, figure=resolved(tile.figure), recent=resolved(tile.recent)) for tile in tiles]


@transaction.atomic
def _count_rows(querysets: Sequence[QuerySet[Any]]) -> list[Count]:
    compiled = [rows.order_by().values_list(Value(1)).query.sql_with_params() for rows in querysets]
    with connection.cursor() as cursor:
        # Without parallel workers, each node of the plan has the estimate of all of its rows.
        cursor.execute("SELECT set_config('max_parallel_workers_per_gather', '0', TRUE)")
        statement, values = _union_all(compiled)
        cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", values)
        plan = cursor.fetchone()[0][0]["Plan"]
        plans = plan["Plans"] if len(querysets) > 1 else [plan]
        # An estimate would be one of all agents' rows.
        may_estimate = reach.agents() is None
        is_expensive = [may_estimate and item["Total Cost"] > MAX_COUNT_COST for item in plans]
        cheap = [item for item, expensive in zip(compiled, is_expensive, strict=True) if not expensive]
        if cheap:
            cursor.execute(*_union_all(cheap))
        exact = iter(cursor.fetchall() if cheap else [])
    return [
        Count(int(item["Plans"][0]["Plan Rows"]), is_estimate=True) if expensive else Count(next(exact)[0])
        for item, expensive in zip(plans, is_expensive, strict=True)
    ]


def _union_all(compiled: Sequence[tuple[str, Any]]) -> tuple[str, list[Any]]:
    counts = [f"(SELECT count(*) FROM ({sql}) AS rows)" for sql, _ in compiled]  # noqa: S608 - Django's own
    return " UNION ALL ".join(counts), [value for _, values in compiled for value in values]


def core_panel(now: datetime) -> list[PanelItem]:
    return [
        Tile(_("Agents"), Agent.objects.all(), _("with memories"), Agent),
        *([] if is_closed(ApiKey) else [_keys_tile(now)]),
        _background_tile(now),
        Tile(
            _("Secrets removed"),
            screened_entries().filter(at__gte=now - RECENT),
            _("texts of the last 7 days"),
            AuditEntry,
            f"?verb__exact=redact&{since_query('at', now - RECENT)}",
            section=Section.BACKGROUND,
        ),
        *(
            RecentAction(
                entry.at,
                audit_title(entry.verb, entry.object_kind, entry.details),
                entry.who_name,
                model,
                entry.object_id,
            )
            for entry in AuditEntry.objects.filter(who_kind=PrincipalKind.CURATOR)[:AUDIT_ENTRIES_READ]
            if (model := model_of(entry.object_kind)) is not None
        ),
    ]


def _keys_tile(now: datetime) -> Tile:
    """Count the keys that expire soon, where there are any, else those that are usable."""
    if expiring := expiring_keys(now).count():
        said, query = _("expire within 14 days"), "?state=expiring"
        return Tile(_("API keys"), Count(expiring), said, ApiKey, query, section=Section.BACKGROUND)
    usable = ApiKey.objects.usable(now)
    return Tile(_("API keys"), usable, _("usable now"), ApiKey, "?state=usable", section=Section.BACKGROUND)


def _background_tile(now: datetime) -> Tile:
    state = jobs_status(now)
    ended_badly = state.jobs.get(State.FAILED, 0) + state.jobs.get(State.DEAD, 0)
    if ended_badly and state.is_healthy:
        query = "?state__in=failed,dead"
        return Tile(_("Jobs"), Count(ended_badly), _("failed or dead"), Job, query, section=Section.BACKGROUND)
    waiting, alarm = Count(state.jobs.get(State.QUEUED, 0)), None if state.is_healthy else state
    query, said = f"?state__exact={State.QUEUED}", HEALTH_LABELS[state.health]
    return Tile(_("Jobs"), waiting, said, Job, query, section=Section.BACKGROUND, alarm=alarm)


def _providers(now: datetime, *, with_calls: bool) -> Iterator[dict[str, Any]]:
    """Yield each configured provider with its last call of the week."""
    names = ((_("Language model"), settings.LLM.provider), (_("Embedder"), settings.EMBEDDING.provider))
    week = LedgerEntry.objects.filter(created_at__gte=now - RECENT).order_by("-created_at", "-id")
    latest = [week.filter(provider=name)[:1] for _purpose, name in names]
    calls = {call.provider: call for call in latest[0].union(latest[1])} if with_calls else {}
    for purpose, name in names:
        last = calls.get(name)
        is_healthy = last is not None and last.outcome == OK
        yield {"purpose": purpose, "name": PROVIDERS.get(name, name), "last": last, "is_healthy": is_healthy}


def _spaces() -> dict[str, Any]:
    spaces = list(EmbeddingSpace.objects.exclude(state=EmbeddingSpace.State.RETIRED))
    active = next((space for space in spaces if space.state == EmbeddingSpace.State.ACTIVE), None)
    waiting = sum(
        model.objects.filter(space=active, vector=None, is_refused=False)[:MAX_WAITING].count()
        for model in (index_models() if active else ())
    )
    return {
        "space": active,
        "filling": [space for space in spaces if space.state == EmbeddingSpace.State.FILLING],
        "without_vector": Count(waiting, is_estimate=waiting >= MAX_WAITING),
    }


def _disk_alarms() -> list[dict[str, str]]:
    """Return a warning where the disk fills up, with advice."""
    space = disk_space(settings.ENVIRONMENT)
    if space is None or not space.is_low:
        return []
    words = {"free": space.free_mb, "least": space.min_free_mb}
    if space.is_full:
        sentence = gettext("The disk is full (%(free)d MB free): programs' writes are refused, and jobs wait.")
    else:
        sentence = gettext("The disk is almost full: %(free)d MB are free. Below %(least)d MB, writes are refused.")
    advice = gettext(
        "Free space on the database's disk; “manage.py doctor” shows its folder. Work then continues automatically."
    )
    return [{"sentence": sentence % words, "advice": advice}]


def _with_row_labels(request: HttpRequest, actions: Iterable[RecentAction]) -> list[RecentAction]:
    """Return the latest actions with labels of their rows, read by one statement for each model.

    An action without a row, or with a deleted one, has neither label nor link.
    """
    latest = sorted(actions, key=lambda action: action.at)[: -MAX_ACTIONS - 1 : -1]
    labels = row_labels(request, ((action.model, action.key) for action in latest))
    labelled = [(action, labels.get((action.model, str(action.key)))) for action in latest]
    return [
        replace(action, words=truncated(text or "", EXCERPT_LENGTH), key=text and action.key)
        for action, text in labelled
    ]


def dashboard_context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the panels that the user may see to the context (`DASHBOARD_CALLBACK` of unfold)."""
    now, user = clock(), cast(Any, request.user)
    items = [item for panel in PANELS for item in panel(now)]
    visible = [item for item in items if user.has_perm(item.permission)]
    tiles = with_counts([item for item in visible if isinstance(item, Tile)])
    tiles.sort(key=lambda tile: not tile.is_waiting)
    waiting = [tile for tile in tiles if tile.is_waiting]
    context |= {
        "title": _("Home"),
        "tiles": tiles,
        "waiting": waiting,
        "may_read_news": may_open("news", request),
        "may_talk": may_open("talk", request),
        "to_review": next((count(user, now) for count in REVIEW_COUNTS if may_open("review", request)), None),
        "background": [tile for tile in tiles if tile.section is Section.BACKGROUND],
        "contents": [tile for tile in tiles if tile.section is Section.HOLDINGS],
        "sentences": [
            (item, not item.undo_permission or user.has_perm(item.undo_permission))
            for item in visible
            if isinstance(item, AutomaticEvent)
        ],
        "curves": list(_chart_data([item for item in visible if isinstance(item, Curve)], now)),
        "curve_options": CURVE_OPTIONS,
        "events": _with_row_labels(request, (item for item in visible if isinstance(item, RecentAction))),
        "alarms": [*_disk_alarms(), *(tile.alarm for tile in tiles if tile.alarm is not None)],
        "providers": list(_providers(now, with_calls=user.has_perm(view_permission(LedgerEntry)))),
        "sees_anything": bool(tiles),
        **_spaces(),
    }
    return context
