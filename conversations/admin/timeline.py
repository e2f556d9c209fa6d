"""A session's timeline: its messages in order, and between them what came of them. Read a page at a time.

What stands here of a memory, a summary or a route comes from the apps that have them (`stretches`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import F, Func, JSONField, Max, Min, QuerySet, Value
from django.db.models.functions import Left, Length
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.dateparse import parse_date
from django.utils.timezone import get_current_timezone, localtime, make_aware
from django.utils.translation import gettext_lazy as _

from conversations.admin.timeline_entries import (
    ENTRY_KINDS,
    EXCERPT,
    MAX_ENTRIES_PER_KIND,
    EntryKind,
    TimelineEntry,
    TimelineWindow,
)
from conversations.domain.messages import Role
from conversations.models import Message, Session
from memoryhub.admin.base import as_uuid
from memoryhub.admin.object_actions import submitted_number, submitted_text

PAGE: Final = 50
SEARCHED_AT_ONCE: Final = 20_000
"""Messages that one page of a search reads; links go on from there."""

LONGEST_SHOWN: Final = 1_000
LONGEST_QUERY: Final = 200
SUMMARISE: Final = "summaries_session_summarise"
"""The page that writes a summary now; summaries live above this app, so it is known by name only."""

REFERENCES: Final = '$[*] ? (@.type != "text").keyvalue() ? (@.key == "name" || @.key == "type")'
"""Names and types of a message's images and files; their bytes stay in the database."""

ROLES: Final = {
    Role.USER: _("user"),
    Role.ASSISTANT: _("assistant"),
    Role.SYSTEM: _("system"),
    Role.TOOL: _("tool"),
}


@dataclass(frozen=True)
class TimelineQuery:
    """What of the session is to be seen: which page, which sorts, which words."""

    after: int | None = None
    before: int | None = None
    at: UUID | None = None
    day: date | None = None
    is_last: bool = False
    words: str = field(default="", repr=False)
    chosen: frozenset[str] = frozenset()

    @property
    def kept(self) -> list[tuple[str, str]]:
        """Return what the links to other pages keep."""
        words = [("q", self.words)] if self.words else []
        return [*words, *(("show", name) for name in sorted(self.chosen))]


@dataclass(frozen=True)
class MessageRow:
    """One message as it is shown, and what came of it."""

    message: Any
    role: Any
    references: list[str]
    day: date | None
    """Told where it is another than that of the message before."""
    events: list[TimelineEntry]


@dataclass(frozen=True)
class TimelinePage:
    """One page of a timeline."""

    said: list[MessageRow]
    first: list[TimelineEntry]
    """What happened before the first message of the page."""
    earlier: int | None
    later: int | None
    left_out: list[Any]
    """Which sorts have more events than are shown."""
    searched: tuple[int, int] | None
    """The first and the last message that a search read; None where it read the whole session."""


@dataclass(frozen=True)
class MessageSlice:
    """The messages of a page, and from which number on there are, or may be found, others."""

    messages: list[Any]
    earlier: int | None
    later: int | None
    searched: tuple[int, int] | None = None


def parse_query(request: HttpRequest) -> TimelineQuery:
    """Return what the address asks for; what cannot be read is not asked."""
    return TimelineQuery(
        after=submitted_number(request, "after"),
        before=submitted_number(request, "before"),
        at=as_uuid(submitted_text(request, "at")),
        day=_day(submitted_text(request, "date")),
        is_last=bool(submitted_text(request, "last")),
        words=submitted_text(request, "q")[:LONGEST_QUERY],
        chosen=frozenset(request.GET.getlist("show")),
    )


def _day(text: str) -> date | None:
    try:
        return parse_date(text)
    except ValueError:
        return None


def timeline_context(request: HttpRequest, session: Session) -> dict[str, Any]:
    """Return what a session's timeline shows to this person."""
    wish = parse_query(request)
    allowed = [sort for sort in ENTRY_KINDS if request.user.has_perms(sort.needs)]
    shown = [sort for sort in allowed if not wish.chosen or sort.name in wish.chosen]
    shows_messages = not wish.chosen or "message" in wish.chosen
    leaf = load_page(session, wish, shown)
    address = reverse("admin:conversations_session_timeline", args=[session.pk])
    return {
        "leaf": leaf,
        "wish": wish,
        "shows_messages": shows_messages,
        "longest_shown": LONGEST_SHOWN,
        "address": address,
        "earlier": _link(address, wish, before=leaf.earlier),
        "later": _link(address, wish, after=leaf.later),
        "first": _link(address, wish, after=0),
        "last": _link(address, wish, last=1),
        "sorts": [
            {"name": "message", "label": _("Messages"), "chosen": shows_messages},
            *({"name": sort.name, "label": sort.label, "chosen": sort in shown} for sort in allowed),
        ],
        "span": Message.objects.of([session.actor_id])
        .filter(session_id=session.pk, seq__in=[1, session.message_count])
        .aggregate(first=Min("created_at"), last=Max("created_at")),
        "most_of_a_sort": MAX_ENTRIES_PER_KIND,
    }


def _link(address: str, wish: TimelineQuery, **where: int | None) -> str | None:
    """Return the address of another page, or None where there is none."""
    ((name, value),) = where.items()
    return None if value is None else f"{address}?{urlencode([(name, value), *wish.kept])}"


def load_page(session: Session, wish: TimelineQuery, shown: Sequence[EntryKind]) -> TimelinePage:
    """Return the messages of a page with what came of them."""
    rows = Message.objects.of([session.actor_id]).filter(session_id=session.pk)
    cut = _found(rows, wish) if wish.words else _page(rows, wish)
    messages, has_earlier = cut.messages, cut.earlier is not None
    following = _next_moment(rows, messages)
    stretch = TimelineWindow(
        session=session,
        actor_id=session.actor_id,
        message_ids=frozenset(message.pk for message in messages),
        first_seq=messages[0].seq if messages and has_earlier else 0,
        last_seq=messages[-1].seq if messages else 0,
        since=messages[0].created_at if messages and has_earlier else None,
        until=following,
        is_search=bool(wish.words),
    )
    events, left_out = _events(stretch, shown)
    first, said = _woven(messages, events)
    return TimelinePage(
        said=said,
        first=first,
        earlier=cut.earlier,
        later=cut.later,
        left_out=left_out,
        searched=cut.searched,
    )


def _shown(rows: QuerySet[Message]) -> QuerySet[Message]:
    """Return the messages with what a page shows of them."""
    return rows.defer("content", "blocks", "metadata").annotate(
        opening=Left(F("content"), LONGEST_SHOWN),
        length=Length("content"),
        named=Func(
            F("blocks"), Value(REFERENCES), template="jsonb_path_query_array(%(expressions)s::jsonpath)",
            output_field=JSONField(),
        ),
    )  # fmt: skip


def _page(rows: QuerySet[Message], wish: TimelineQuery) -> MessageSlice:
    """Return one page's messages in their order."""
    shown = _shown(rows)
    if wish.is_last or wish.before is not None:
        earlier = shown if wish.is_last else shown.filter(seq__lt=wish.before)
        backwards = list(earlier.order_by("-seq")[: PAGE + 1])
        return _cut(backwards[:PAGE][::-1], len(backwards) > PAGE, bool(backwards) and not wish.is_last)
    after = _begin(rows, wish)
    onwards = list(shown.filter(seq__gt=after).order_by("seq")[: PAGE + 1])
    if not onwards and after > 0:  # beyond the end: the last page is nearest
        return _page(rows, TimelineQuery(is_last=True))
    has_earlier = after > 0 and rows.filter(seq__lte=after).exists()
    return _cut(onwards[:PAGE], has_earlier, len(onwards) > PAGE)


def _cut(messages: list[Any], has_earlier: bool, has_later: bool) -> MessageSlice:
    return MessageSlice(
        messages, messages[0].seq if has_earlier else None, messages[-1].seq if has_later else None
    )


def _found(rows: QuerySet[Message], wish: TimelineQuery) -> MessageSlice:
    """Return a page of the messages that have the words; no more than SEARCHED_AT_ONCE are read for it."""
    last = rows.aggregate(last=Max("seq"))["last"] or 0
    after = last if wish.is_last or wish.before is not None else _begin(rows, wish)
    if after >= last:  # from the end, from where it is asked backwards, or beyond the end
        return _found_before(
            rows, wish, min(last + 1 if wish.before is None else wish.before, last + 1), last
        )
    end = min(after + SEARCHED_AT_ONCE, last)
    found = list(_with_words(rows, wish, after, end).order_by("seq")[: PAGE + 1])
    reached = found[PAGE - 1].seq if len(found) > PAGE else end
    return MessageSlice(
        messages=found[:PAGE],
        earlier=after + 1 if after > 0 else None,
        later=reached if reached < last else None,
        searched=_part(after + 1, reached, last),
    )


def _found_before(rows: QuerySet[Message], wish: TimelineQuery, before: int, last: int) -> MessageSlice:
    begin = max(0, before - 1 - SEARCHED_AT_ONCE)
    found = list(_with_words(rows, wish, begin, before - 1).order_by("-seq")[: PAGE + 1])
    reached = found[PAGE - 1].seq if len(found) > PAGE else begin + 1
    return MessageSlice(
        messages=found[:PAGE][::-1],
        earlier=reached if reached > 1 else None,
        later=before - 1 if 0 < before <= last else None,
        searched=_part(reached, before - 1, last),
    )


def _with_words(rows: QuerySet[Message], wish: TimelineQuery, after: int, end: int) -> QuerySet[Message]:
    return _shown(rows.filter(seq__gt=after, seq__lte=end, content__icontains=wish.words))


def _part(first: int, end: int, last: int) -> tuple[int, int] | None:
    """Return which messages were read; None where that was all of them, or none."""
    return None if first > end or (first == 1 and end == last) else (first, end)


def _begin(rows: QuerySet[Message], wish: TimelineQuery) -> int:
    """Return the number after which the page begins."""
    if wish.at is not None:
        seq = rows.filter(pk=wish.at).values_list("seq", flat=True).first()
        return max(0, (seq or 1) - 1 - PAGE // 5)  # some of what was said before it
    if wish.day is not None:
        midnight = make_aware(datetime.combine(wish.day, time.min), get_current_timezone())
        seq = rows.filter(created_at__gte=midnight).aggregate(first=Min("seq"))["first"]
        return 2**31 - 1 if seq is None else seq - 1
    return wish.after or 0


def _next_moment(rows: QuerySet[Message], messages: Sequence[Any]) -> datetime | None:
    """Return when the message after the page was said; None where there is none."""
    if not messages:
        return None
    later = rows.filter(seq__gt=messages[-1].seq).order_by("seq")
    return later.values_list("created_at", flat=True).first()


def _events(stretch: TimelineWindow, shown: Iterable[EntryKind]) -> tuple[list[TimelineEntry], list[Any]]:
    events: list[TimelineEntry] = []
    left_out = []
    for sort in shown:
        told = list(islice(sort.events(stretch), MAX_ENTRIES_PER_KIND + 1))
        if len(told) > MAX_ENTRIES_PER_KIND:
            left_out.append(sort.label)
        events += told[:MAX_ENTRIES_PER_KIND]
    return events, left_out


def _woven(
    messages: Sequence[Any], events: Iterable[TimelineEntry]
) -> tuple[list[TimelineEntry], list[MessageRow]]:
    """Return the messages, each with the events that follow it, and the events before the first."""
    places: list[list[TimelineEntry]] = [[] for _message in range(len(messages) + 1)]
    for event in sorted(events, key=lambda each: each.at):
        places[_place(event, messages)].append(event)
    said, day = [], None
    for message, after in zip(messages, places[1:], strict=True):
        today = localtime(message.created_at).date()
        said.append(
            MessageRow(
                message=message,
                role=ROLES.get(message.role, message.role),
                references=_references(message.named or []),
                day=today if today != day else None,
                events=after,
            )
        )
        day = today
    return places[0], said


def _place(event: TimelineEntry, messages: Sequence[Any]) -> int:
    """Return after how many of the messages an event stands."""
    if event.message_id is not None:
        numbers = [number for number, each in enumerate(messages, start=1) if each.pk == event.message_id]
        return numbers[0] if numbers else len(messages)
    if event.after_seq is not None:
        return sum(1 for each in messages if each.seq <= event.after_seq)
    return sum(1 for each in messages if each.created_at <= event.at)


def _references(named: Iterable[dict[str, Any]]) -> list[str]:
    """Return a message's images and files in words: sort and name."""
    blocks: dict[Any, dict[str, str]] = {}
    for pair in named:
        blocks.setdefault(pair["id"], {})[pair["key"]] = str(pair["value"])
    return [
        " ".join(filter(None, (each.get("type"), each.get("name"))))[:EXCERPT] for each in blocks.values()
    ]


def summarise_address(session: Session) -> str | None:
    """Return where the button posts to that has a summary written; None where nobody writes any."""
    try:
        return reverse(SUMMARISE, args=[session.pk])
    except NoReverseMatch:
        return None
