"""Calendar of nights: the sleep runs of each day summed up in a sentence and bars, and the undo of a whole night."""

import calendar as calendars
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from django.contrib import messages
from django.contrib.admin import site
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, Max, Q, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import clock, format_count, render_page
from memoryhub.admin.dashboard import AutomaticEvent
from memoryhub.admin.object_actions import submitted_change, submitted_text
from memoryhub.errors import DomainError
from memoryhub.unfold import Page
from memoryhub.zones import day_end, day_start
from strength.actions.sleep_runs import undo_sleeps
from strength.domain.sleep import RunState, Trigger
from strength.models import SleepRun

CALENDAR_COUNTS: Final = ("decayed_count", "archived_count", "proposed_count")
SUMMED_COUNTS: Final = (*CALENDAR_COUNTS, "merged_count", "held_count")
COUNTS: Final = {
    "decayed_count": (_("faded"), _("Faded")),
    "archived_count": (_("archived"), _("Archived")),
    "held_count": (_("postponed"), _("Postponed")),
    "consolidated_count": (_("levels"), _("Level changed")),
    "merged_count": (_("merged"), _("Merged by the run")),
    "proposed_count": (_("proposed"), _("Proposed to be merged")),
}
"""The columns of counts, with their names in lists and on pages."""

DASHBOARD_PERIOD: Final = timedelta(hours=36)
MAX_UNDONE: Final = 500
FIRST_YEAR: Final = 2000
IS_LATEST: Final = Q(state=RunState.DONE, dry_run=False, actor__sleep_state__runs=F("number"))
IS_UNDOABLE: Final = IS_LATEST & ~Q(before={})
"""A run that may be undone: its actor's latest, and not imported, since imports lack the values before the run."""

IS_IMPORTED: Final = IS_LATEST & Q(before={})
"""A run that could be undone if it had not come with an import."""

CHANGE: Final = "strength.change_sleeprun"
LIST: Final = "admin:strength_sleeprun_changelist"


@dataclass(frozen=True)
class Night:
    """Sums of a day's sleep runs; runs that were undone are counted apart."""

    day: date
    runs: int
    undone: int
    undoable: int
    imported: int
    decayed_count: int
    archived_count: int
    held_count: int
    merged_count: int
    proposed_count: int
    at: datetime

    @property
    def sentence(self) -> str:
        if self.undone == self.runs:
            return gettext("Undone.")
        parts = [text % {"count": format_count(count)} for count, text in self._parts() if count]
        return gettext("%(parts)s.") % {"parts": gettext(", ").join(parts)} if parts else gettext("Nothing changed.")

    def _parts(self) -> Iterator[tuple[int, str]]:
        count = self.archived_count
        yield count, ngettext("%(count)s memory was archived", "%(count)s memories were archived", count)
        count = self.held_count
        yield (
            count,
            ngettext(
                "%(count)s more waits for your decision, as the night archives a part at most",
                "%(count)s more wait for your decision, as the night archives a part at most",
                count,
            ),
        )
        count = self.merged_count
        yield count, ngettext("%(count)s pair was merged", "%(count)s pairs were merged", count)
        count = self.proposed_count
        yield (
            count,
            ngettext("%(count)s pair was proposed to be merged", "%(count)s pairs were proposed to be merged", count),
        )
        count = self.decayed_count
        yield count, ngettext("%(count)s memory faded", "%(count)s memories faded", count)

    @property
    def href(self) -> str:
        # Query string of the list's filter by period.
        day = self.day.isoformat()
        return f"{reverse(LIST)}?dry_run__exact=0&now_from_0={day}&now_from_1=00:00:00&now_to_0={day}&now_to_1=23:59:59"


def nights_of(rows: QuerySet[SleepRun], first: date, last: date) -> list[Night]:
    """Return the nights with a sleep run from the first to the last day, in the person's zone; by one statement."""
    rows = _within(rows.filter(dry_run=False), first, last)
    not_undone = ~Q(state=RunState.UNDONE)
    sums = {name: Sum(name, filter=not_undone, default=0) for name in SUMMED_COUNTS}
    by_day: QuerySet[Any] = (
        rows.order_by()
        .values(day=TruncDate("now"))
        .annotate(
            runs=Count("pk"),
            undone=Count("pk", filter=~not_undone),
            undoable=Count("pk", filter=IS_UNDOABLE),
            imported=Count("pk", filter=IS_IMPORTED),
            at=Max("now"),
            **sums,
        )
    )
    return [Night(**row) for row in by_day.order_by("day")]


def _within(rows: QuerySet[SleepRun], first: date, last: date) -> QuerySet[SleepRun]:
    zone = timezone.get_current_timezone()
    return rows.filter(now__gte=day_start(first, zone), now__lt=day_end(last, zone))


def last_night(now: datetime) -> Iterable[AutomaticEvent]:
    """Yield the latest night as a sentence of the dashboard."""
    today = timezone.localdate(now)
    runs = SleepRun.objects.filter(trigger=Trigger.SCHEDULE)
    nights = nights_of(runs, today - timedelta(days=1), today)
    if nights and now - nights[-1].at < DASHBOARD_PERIOD:
        night = nights[-1]
        undo = reverse("sleep_undo", args=[night.day.isoformat()]) if night.undoable else ""
        yield AutomaticEvent(night.sentence, SleepRun, night.href, night.at, undo, CHANGE)


# The calendar


def sleep_calendar(request: HttpRequest) -> HttpResponse:
    first = _month(submitted_text(request, "month")) or timezone.localdate(clock()).replace(day=1)
    last = first.replace(day=calendars.monthrange(first.year, first.month)[1])
    nights = nights_of(SleepRun.objects.all(), first, last)
    tallest = {name: max((getattr(night, name) for night in nights), default=0) for name in CALENDAR_COUNTS}
    by_day = {night.day: night for night in nights}
    weeks = calendars.Calendar(firstweekday=0).monthdatescalendar(first.year, first.month)
    today = timezone.localdate(clock())
    return render_page(
        request,
        "admin/strength/sleeprun/calendar.html",
        title=_("Calendar"),
        month=first,
        weekdays=[date_format(day, "D") for day in weeks[0]],
        days=[
            {
                "day": day,
                "is_outside": day.month != first.month,
                "is_today": day == today,
                "night": by_day.get(day),
                "bars": _bars(by_day.get(day), tallest),
            }
            for week in weeks
            for day in week
        ],
        nights=nights,
        labels=[(name, COUNTS[name][1]) for name in CALENDAR_COUNTS],
        totals=[
            (COUNTS[name][1], format_count(sum(getattr(night, name) for night in nights))) for name in CALENDAR_COUNTS
        ],
        earlier=(first - timedelta(days=1)).replace(day=1) if first.year > FIRST_YEAR else None,
        later=last + timedelta(days=1) if last < today else None,
        may_begin=request.user.has_perm(CHANGE),
    )


def _month(text: str) -> date | None:
    try:
        month = datetime.strptime(text, "%Y-%m").date()
    except ValueError:
        return None
    return month if FIRST_YEAR <= month.year <= FIRST_YEAR + 200 else None


def _bars(night: Night | None, tallest: dict[str, int]) -> list[dict[str, Any]]:
    """Return a bar for each count, in percent of the month's highest: counts differ by orders of magnitude."""
    if night is None:
        return []
    counts = [(name, getattr(night, name), index) for index, name in enumerate(CALENDAR_COUNTS)]
    return [
        {"name": name, "percent": max(2, round(100 * count / tallest[name])), "y": 7 * index}
        for name, count, index in counts
        if count
    ]


def undo_night(request: HttpRequest, day: str) -> HttpResponse:
    """Show a confirmation page for the undo of a night; a POST undoes it as far as possible."""
    if not request.user.has_perm(CHANGE):
        raise PermissionDenied
    try:
        night_day = date.fromisoformat(day)
        nights = nights_of(SleepRun.objects.filter(IS_UNDOABLE), night_day, night_day)
    except (ValueError, OverflowError):
        raise Http404 from None
    back = f"{reverse('sleep')}?month={night_day:%Y-%m}"
    if not nights:
        messages.error(request, gettext("This night cannot be undone, or no longer."))
        return HttpResponseRedirect(back)
    if request.method == "POST":
        undo_runs(request, _within(SleepRun.objects.filter(IS_UNDOABLE), night_day, night_day))
        return HttpResponseRedirect(back)
    return render_page(
        request,
        "admin/strength/sleeprun/undo.html",
        title=_("Undo this night?"),
        original=nights[0],
        action=reverse("sleep_undo", args=[day]),
        back=back,
    )


def undo_runs(request: HttpRequest, rows: QuerySet[SleepRun]) -> None:
    """Undo sleep runs as far as possible, log those that were, and report it."""
    change = submitted_change(request)
    runs = list(rows.select_related("actor__agent").order_by("pk")[:MAX_UNDONE])
    try:
        processed = undo_sleeps(runs=runs, **change) if runs else []
    except DomainError as error:
        messages.error(request, str(error))
        return
    undone = [run for run in processed if run.state == RunState.UNDONE]
    model_admin: Any = site.get_model_admin(SleepRun)
    for run in undone:
        model_admin.log_change(request, run, "undo")
    count = len(undone)
    text = ngettext("%(count)d sleep run was undone.", "%(count)d sleep runs were undone.", count)
    messages.add_message(request, messages.SUCCESS if count else messages.WARNING, text % {"count": count})
    if len(processed) < len(runs):
        messages.warning(request, _("The user was erased at the same time."))


NEEDS: Final = ("strength.view_sleeprun",)
PAGES = [
    Page("sleep/", "sleep", sleep_calendar, NEEDS),
    Page("sleep/<str:day>/undo/", "sleep_undo", undo_night, (*NEEDS, CHANGE)),
]
