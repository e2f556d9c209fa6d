"""News page: what became of each memory since the person last marked the news as read (SPEC W14)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.db.models import Q
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import EXCERPT_SOURCE_LENGTH, clock, format_count, render_page, short_time
from memoryhub.admin.columns import owner_chips
from memoryhub.admin.diff import inline_diff, page_deadline
from memoryhub.admin.labels import principal_label
from memoryhub.admin.object_actions import report_done, submitted_text
from memoryhub.admin.waiting import waiting_for
from memoryhub.tenancy.models import Agent
from memoryhub.unfold import Page
from memoryhub.zones import day_start
from strength.actions.news import (
    MAX_CHANGES,
    NewsKind,
    NewsLine,
    Window,
    count_forgotten,
    count_news,
    last_committed_change,
    mark_as_read,
    news_lines,
    place_before,
    place_of,
    want_mail,
)
from strength.admin.labels import SLEEP_REASON_LABELS, VERB_LABELS
from strength.admin.memory_detail import revision_changes
from strength.admin.memory_list import edit_link, pin_button, row_buttons, state_chip
from strength.domain.memories import changed_values
from strength.models import Memory, MemoryRevision, NewsPlace

PERMISSIONS: Final = ("strength.view_memory",)
PAGE_SIZE: Final = 50
MAX_AGENTS: Final = 200
UNREAD: Final = ""
FIRST_DAYS: Final = 7
"""Days that are shown to a person who has marked nothing as read yet."""

KIND_LABELS: Final = {
    NewsKind.LEARNT: pgettext_lazy("news", "Learnt"),
    NewsKind.CHANGED: pgettext_lazy("news", "Changed"),
    NewsKind.CONTRADICTED: pgettext_lazy("news", "Contradicted"),
    NewsKind.FADED: pgettext_lazy("news", "Faded"),
    NewsKind.ARCHIVED: pgettext_lazy("news", "Archived"),
    NewsKind.REJECTED: pgettext_lazy("news", "Rejected"),
}
PERIODS: Final = {
    UNREAD: _("not marked as read yet"),
    "1": _("the last 24 hours"),
    "7": _("the last 7 days"),
    "30": _("the last 30 days"),
}
STATE_FIELDS: Final = frozenset({"status", "pinned", "valid_to"})
"""Fields that the kind and the state of a line state already."""


@dataclass(frozen=True)
class NewsParams:
    """The page as its address names it; a day wins over a period of days."""

    agent_id: str = ""
    user_id: str = ""
    kind: NewsKind | None = None
    period: str = UNREAD
    day: date | None = None
    with_own: bool = False
    until: int | None = None
    after: int | None = None

    @classmethod
    def of(cls, request: HttpRequest) -> "NewsParams":
        values = {name: str(text).replace("\x00", "").strip()[:255] for name, text in request.GET.items()}
        kind, period = values.get("kind"), values.get("since", UNREAD)
        try:
            day = parse_date(values.get("day", ""))
        except ValueError:
            day = None
        return cls(
            values.get("agent", ""),
            values.get("user", ""),
            NewsKind(kind) if kind in list(NewsKind) else None,
            period if period in PERIODS else UNREAD,
            day,
            values.get("own") == "1",
            _place(values.get("until", "")),
            _place(values.get("after", "")),
        )

    @property
    def is_filtered(self) -> bool:
        return bool(self.agent_id or self.user_id or self.kind)

    def address(self, **changes: Any) -> str:
        """Return the address of the page with other parameters."""
        other = replace(self, **changes)
        values = {
            "agent": other.agent_id,
            "user": other.user_id,
            "kind": other.kind,
            "since": "" if other.day else other.period,
            "day": other.day and other.day.isoformat(),
            "own": "1" if other.with_own else "",
            "until": other.until,
            "after": other.after,
        }
        query = urlencode({name: value for name, value in values.items() if value not in (None, "")})
        return reverse("news") + (f"?{query}" if query else "")

    def starts_at(self, place: NewsPlace, now: datetime) -> datetime | None:
        """Return the moment since which changes are shown; None for the place that was marked as read."""
        if self.day is not None:
            return day_start(self.day, timezone.get_current_timezone())
        if self.period == UNREAD and place.place is not None:
            return None
        return now - timedelta(days=int(self.period or FIRST_DAYS))


def _place(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def news(request: HttpRequest) -> HttpResponse:
    """Show the news, or keep how far a person has read and whether the counts come by mail."""
    params, person = NewsParams.of(request), _person(request)
    if request.method == "POST":
        return _save(request, params, person)
    now, place, last = clock(), place_of(person), last_committed_change()
    params = replace(params, until=min(last, last if params.until is None else params.until))
    window, since_at = news_window(params, person, place, last, now)
    lines = news_lines(window, after=params.after, limit=PAGE_SIZE + 1)
    page = lines[:PAGE_SIZE]
    totals, by_actor = count_news(window, {line.actor_id for line in page})
    forgotten = [] if params.kind else count_forgotten(window)
    waiting = waiting_for(person, now)
    return render_page(
        request,
        "admin/strength/news/page.html",
        title=_("News"),
        groups=list(_groups(request, page, by_actor)),
        forgotten=[(owner_chips(agent, user or ""), format_count(count)) for agent, user, count in forgotten],
        tabs=list(_tabs(params, totals)),
        waiting=waiting,
        total=sum(totals.values()),
        is_empty=not (totals or forgotten),
        since=short_time(since_at or place.read_at or now),
        is_marked=place.place is not None,
        first_days=FIRST_DAYS,
        most=format_count(MAX_CHANGES) if window.is_cut else "",
        params=params,
        filters=_filters(params),
        form_url=params.address(after=None),
        back=params.address(),
        following=params.address(after=page[-1].place) if len(lines) > PAGE_SIZE else "",
        first_page=params.address(after=None) if params.after else "",
        everything=reverse("news"),
        may_mark=not params.is_filtered and window.until > (place.place or -1),
        wants_mail=place.wants_mail,
        mail_address=person.email,
        sends_mail=bool(settings.EMAIL_HOST),
    )


def _person(request: HttpRequest) -> Any:
    return request.user


def news_window(
    params: NewsParams, person: Any, place: NewsPlace, last: int, now: datetime
) -> tuple[Window, datetime | None]:
    """Return a person's window of the feed, and the moment at which it begins; None for the place marked as read."""
    since_at, until = params.starts_at(place, now), last if params.until is None else params.until
    since = int(place.place or 0) if since_at is None else place_before(since_at, until=until)
    window = Window(
        since=min(since, until),
        until=until,
        moment=since_at,
        agent_id=params.agent_id,
        user_id=params.user_id,
        kind=params.kind,
        person="" if params.with_own else str(person.pk),
    )
    return window, since_at


# What a person keeps


def _save(request: HttpRequest, params: NewsParams, person: Any) -> HttpResponse:
    verb = submitted_text(request, "verb")
    if verb == "mail":
        want_mail(person=person, wants_mail=submitted_text(request, "wants_mail") == "1")
        messages.success(request, gettext("Your choice was saved."))
        return HttpResponseRedirect(params.address())
    place = _place(submitted_text(request, "place"))
    if verb == "read" and place is not None:
        former = place_of(person).place
        mark_as_read(person=person, place=min(place, last_committed_change()), now=clock())
        undo = f"{reverse('news')}?{urlencode({'verb': 'unread', 'place': '' if former is None else former})}"
        report_done(request, gettext("Marked as read."), undo=undo)
    elif verb == "unread":
        mark_as_read(person=person, place=place, now=clock())
        messages.success(request, gettext("The news is unread again."))
    else:
        messages.error(request, gettext("Unknown action. Reload the page and try again."))
    return HttpResponseRedirect(reverse("news"))


# Lines


def _groups(
    request: HttpRequest, lines: Sequence[NewsLine], counts: dict[UUID, dict[str, int]]
) -> Iterator[dict[str, Any]]:
    """Yield the lines of each agent and user, with the counts of all their lines."""
    rows = _rows(request, lines)
    for actor_id, group in groupby(lines, key=lambda line: line.actor_id):
        of_actor = list(group)
        yield {
            "owner": owner_chips(of_actor[0].agent_id, of_actor[0].user_id),
            "counts": [
                (label, format_count(counts[actor_id][kind]))
                for kind, label in KIND_LABELS.items()
                if kind in counts.get(actor_id, {})
            ],
            "rows": [rows[line.memory_id] for line in of_actor if line.memory_id in rows],
        }


def _rows(request: HttpRequest, lines: Sequence[NewsLine]) -> dict[UUID, dict[str, Any]]:
    actor_ids = {line.actor_id for line in lines}
    memories: Any = Memory.objects.of(actor_ids).defer("content")
    memories = memories.annotate(opening=Left("content", EXCERPT_SOURCE_LENGTH))
    found = memories.in_bulk([line.memory_id for line in lines])
    successors = memories.in_bulk([each.superseded_by_id for each in found.values() if each.superseded_by_id])
    revisions = _revisions(lines)
    may_change, deadline = request.user.has_perm("strength.change_memory"), page_deadline()
    rows = {}
    for line in lines:
        memory, last = found.get(line.memory_id), revisions.get((line.memory_id, line.last))
        if memory is None or last is None:  # deleted in the meantime
            continue
        memory.may_change = may_change
        first = revisions.get((line.memory_id, line.first), last)
        rows[line.memory_id] = {
            "memory": memory,
            "kind": KIND_LABELS[NewsKind(line.kind)],
            "kind_name": line.kind,
            "state": state_chip(memory),
            "verb": VERB_LABELS.get(last.verb, last.verb),
            "who": principal_label(last.who_name, last.who_kind),
            "at": last.created_at,
            "reason": SLEEP_REASON_LABELS.get(last.reason, last.reason),
            "changes": line.changes,
            "pin": pin_button(memory) if may_change else "",
            "buttons": row_buttons(memory),
            "edit": edit_link(memory) if may_change else "",
            **_difference(line, memory, first, last, successors.get(memory.superseded_by_id), deadline),
        }
    return rows


def _revisions(lines: Sequence[NewsLine]) -> dict[tuple[UUID, int], MemoryRevision]:
    """Return the first and the last revision of each line, by memory and number."""
    pairs = Q()
    for line in lines:
        numbers = {line.first, line.last}
        pairs |= Q(actor_id=line.actor_id, memory_id=line.memory_id, number__in=numbers)
    rows = MemoryRevision.objects.filter(pairs) if lines else MemoryRevision.objects.none()
    return {(row.memory_id, row.number): row for row in rows}


def _difference(
    line: NewsLine, memory: Any, first: MemoryRevision, last: MemoryRevision, successor: Any, deadline: float
) -> dict[str, Any]:
    """Return the text as a difference from the first to the last state, and the other values that differ."""
    if line.kind == NewsKind.CONTRADICTED and successor is not None:
        return {"runs": inline_diff(memory.opening, successor.opening, deadline), "successor": successor}
    if line.first == line.last and line.kind != NewsKind.CHANGED:
        return {}
    is_new = first.verb == "create"
    before = first.after if is_new else {**first.after, **first.changed_before}
    changed_before, changed_after = changed_values(before, last.after)
    hidden = STATE_FIELDS if line.kind != NewsKind.CHANGED else frozenset()
    net = MemoryRevision(
        verb="edit",
        changed_before={name: value for name, value in changed_before.items() if name not in hidden},
        changed_after={name: value for name, value in changed_after.items() if name not in hidden},
    )
    changes = revision_changes(net, deadline)
    runs = next((each["runs"] for each in changes if each["runs"]), None)
    others = [each for each in changes if not each["runs"]]
    is_reverted = line.kind == NewsKind.CHANGED and not changes
    return {"runs": runs, "others": others, "is_reverted": is_reverted}


# Filters


def _tabs(params: NewsParams, totals: dict[str, int]) -> Iterator[dict[str, Any]]:
    yield {
        "title": _("All"),
        "href": params.address(kind=None, after=None),
        "count": format_count(sum(totals.values())),
        "is_chosen": params.kind is None,
    }
    for kind, label in KIND_LABELS.items():
        if kind in totals or params.kind is kind:
            yield {
                "title": label,
                "href": params.address(kind=kind, after=None),
                "count": format_count(totals.get(kind, 0)),
                "is_chosen": params.kind is kind,
            }


def _filters(params: NewsParams) -> dict[str, Any]:
    return {
        "agents": list(Agent.objects.order_by("pk").values_list("pk", flat=True)[:MAX_AGENTS]),
        "periods": [(value, words, not params.day and value == params.period) for value, words in PERIODS.items()],
        "day": params.day.isoformat() if params.day else "",
        "is_open": params.is_filtered or params.period != UNREAD or bool(params.day) or params.with_own,
    }


PAGES = [Page("news/", "news", news, PERMISSIONS)]
