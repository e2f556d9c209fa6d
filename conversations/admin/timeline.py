"""A session's timeline (SPEC W5): its messages in order, with the entries of all apps between them, a page at a time.

Each app contributes its kinds of entries (`ENTRY_KINDS`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, tzinfo
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import F, Func, JSONField, Min, QuerySet, Value
from django.db.models.functions import Left, Length
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.dateparse import parse_date
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext_lazy as _

from conversations.domain.content import calls_in, one_line, results_in, text_of_result
from conversations.domain.messages import Role, TurnState
from conversations.models import ChatTurn, Message, MessageQuerySet, Receipt, Session
from memoryhub.admin.base import as_uuid, format_count, truncated
from memoryhub.admin.object_actions import submitted_number, submitted_text
from memoryhub.tenancy.policies import zone_of
from memoryhub.zones import day_start, local_time

MAX_ENTRIES_PER_KIND = 60
"""Entries of one kind on a page; the page shows which kinds have more."""


@dataclass(frozen=True, kw_only=True)
class TimelineWindow:
    """The part of a session that a page shows: some messages, and the time from the first to the next page's.

    `since` and `until` are None at the session's ends. With `is_search` the messages are search results, so only
    entries that belong to one of them are wanted.
    """

    session: Session
    actor_id: UUID
    message_ids: frozenset[UUID]
    first_seq: int
    last_seq: int
    since: datetime | None
    until: datetime | None
    is_search: bool = False

    def times(self, name: str) -> dict[str, datetime]:
        bounds = {f"{name}__gte": self.since, f"{name}__lt": self.until}
        return {condition: bound for condition, bound in bounds.items() if bound is not None}


@dataclass(frozen=True, kw_only=True)
class TimelineEntry:
    """Something in a session, placed after a message or its number, or by time; `text` is user content."""

    title: Any
    at: datetime
    text: str = field(default="", repr=False)
    page: str | None = None
    message_id: UUID | None = None
    after_seq: int | None = None
    state: Any = ""
    colour: str = ""
    details: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EntryKind:
    """A kind of entries: its label, the permissions to see it, and the function that yields them."""

    name: str
    label: Any
    needs: tuple[str, ...]
    events: Callable[[TimelineWindow], Iterable[TimelineEntry]]


ENTRY_KINDS: Final[list[EntryKind]] = []
"""The kinds of entries of all apps, in order; apps register theirs when they are ready."""


EXCERPT_LENGTH: Final = 200
TURN_STATE_LABELS: Final = {
    TurnState.ANSWERING: (_("being answered"), "info"),
    TurnState.ANSWERED: (_("answered"), "success"),
    TurnState.FAILED: (_("failed"), "danger"),
}


def _questions(window: TimelineWindow) -> Iterator[TimelineEntry]:
    rows = ChatTurn.objects.filter(
        actor_id=window.actor_id, session_id=window.session.pk, question_id__in=window.message_ids
    )
    for turn in rows.defer("context_metadata", "usage", "routing").order_by("id")[: MAX_ENTRIES_PER_KIND + 1]:
        state, colour = TURN_STATE_LABELS.get(TurnState(turn.state), (turn.state, ""))
        took = (turn.finished_at - turn.created_at).total_seconds() if turn.finished_at else None
        yield TimelineEntry(
            title=_("Model call"),
            at=turn.created_at,
            message_id=turn.question_id,
            state=state,
            colour=colour,
            page=reverse("admin:conversations_chatturn_change", args=[turn.pk]),
            details=tuple(filter(None, (turn.model, turn.error, "" if took is None else f"{took:.1f} s"))),
        )


def _contexts(window: TimelineWindow) -> Iterator[TimelineEntry]:
    rows = Receipt.objects.filter(actor_id=window.actor_id, session_id=window.session.pk)
    if window.is_search:
        return
    rows = rows.filter(**window.times("created_at")).defer("items", "query", "source_ids")
    for receipt in rows.annotate(opening=Left("query", EXCERPT_LENGTH + 1)).order_by("id")[: MAX_ENTRIES_PER_KIND + 1]:
        figures = {"total": format_count(receipt.total_tokens), "limit": format_count(receipt.token_limit)}
        yield TimelineEntry(
            title=_("Context assembled for"),
            text=truncated(receipt.opening, EXCERPT_LENGTH),
            at=receipt.created_at,
            page=reverse("admin:conversations_receipt_change", args=[receipt.pk]),
            details=(_("%(total)s of %(limit)s tokens") % figures,),
        )


QUESTIONS = EntryKind(name="question", label=_("Questions"), needs=("conversations.view_chatturn",), events=_questions)
CONTEXTS = EntryKind(name="context", label=_("Receipts"), needs=("conversations.view_receipt",), events=_contexts)

PAGE_SIZE: Final = 50
SEARCH_BATCH_SIZE: Final = 20_000
"""Messages that one page of a search reads; links continue from there."""

MAX_SHOWN_LENGTH: Final = 1_000
MAX_QUERY_LENGTH: Final = 200
REFERENCES_PATH: Final = (
    '$[*] ? (@.type == "image" || @.type == "file").keyvalue() ? (@.key == "name" || @.key == "type")'
)
"""Names and types of a message's images and files; their bytes stay in the database."""

ROLE_LABELS: Final = {
    Role.USER: _("user"),
    Role.ASSISTANT: _("assistant"),
    Role.SYSTEM: _("system"),
    Role.TOOL: _("tool"),
}


@dataclass(frozen=True)
class TimelineQuery:
    after: int | None
    before: int | None
    at: UUID | None
    day: date | None
    is_last: bool
    words: str = field(repr=False)
    chosen: frozenset[str]
    zone: tzinfo
    speakers_zone: tzinfo

    @property
    def params(self) -> list[tuple[str, str]]:
        words = [("q", self.words)] if self.words else []
        return [*words, *(("show", name) for name in sorted(self.chosen))]


@dataclass(frozen=True)
class MessageSlice:
    """The messages of a page, and the numbers from which there are, or a search may find, others.

    `searched` are the numbers of the first and last message that a search read; None where it read the whole session.
    """

    messages: list[Any]
    earlier: int | None
    later: int | None
    searched: tuple[int, int] | None = None


def parse_query(request: HttpRequest, session: Session) -> TimelineQuery:
    """Return the query of an address; unreadable values count as missing."""
    return TimelineQuery(
        after=submitted_number(request, "after"),
        before=submitted_number(request, "before"),
        at=as_uuid(submitted_text(request, "at")),
        day=_day(submitted_text(request, "date")),
        is_last=bool(submitted_text(request, "last")),
        words=submitted_text(request, "q")[:MAX_QUERY_LENGTH],
        chosen=frozenset(request.GET.getlist("show")),
        zone=get_current_timezone(),
        speakers_zone=zone_of(session.actor.agent, session.actor),
    )


def _day(text: str) -> date | None:
    try:
        return parse_date(text)
    except ValueError:
        return None


def timeline_context(request: HttpRequest, session: Session) -> dict[str, Any]:
    query = parse_query(request, session)
    allowed = [kind for kind in ENTRY_KINDS if request.user.has_perms(kind.needs)]
    visible_kinds = [kind for kind in allowed if not query.chosen or kind.name in query.chosen]
    shows_messages = not query.chosen or "message" in query.chosen
    page = load_page(session, query, visible_kinds)
    address = reverse("admin:conversations_session_timeline", args=[session.pk])
    return {
        "page": page,
        "query": query,
        "zone": query.zone,
        "shows_messages": shows_messages,
        "max_shown_length": MAX_SHOWN_LENGTH,
        "address": address,
        "earlier": _link(address, query, before=page["earlier"]),
        "later": _link(address, query, after=page["later"]),
        "first": _link(address, query, after=0),
        "last": _link(address, query, last=1),
        "kinds": [
            {"name": "message", "label": _("Messages"), "chosen": shows_messages},
            *({"name": kind.name, "label": kind.label, "chosen": kind in visible_kinds} for kind in allowed),
        ],
        "began_at": Message.objects.of([session.actor_id])
        .filter(session_id=session.pk)
        .order_by("seq")
        .values_list("created_at", flat=True)
        .first(),
        "max_entries": MAX_ENTRIES_PER_KIND,
    }


def _link(address: str, query: TimelineQuery, **position: int | None) -> str | None:
    ((name, value),) = position.items()
    return None if value is None else f"{address}?{urlencode([(name, value), *query.params])}"


def load_page(session: Session, query: TimelineQuery, visible_kinds: Sequence[EntryKind]) -> dict[str, Any]:
    """Return a page's messages, the entries before the first, and the labels of kinds that have more entries."""
    rows = Message.objects.of([session.actor_id]).filter(session_id=session.pk)
    message_slice = _load_slice(rows, query, session.message_count)
    messages, has_earlier = message_slice.messages, message_slice.earlier is not None
    following = rows.filter(seq__gt=messages[-1].seq).order_by("seq") if messages else rows.none()
    window = TimelineWindow(
        session=session,
        actor_id=session.actor_id,
        message_ids=frozenset(message.pk for message in messages),
        first_seq=messages[0].seq if messages and has_earlier else 0,
        last_seq=messages[-1].seq if messages else 0,
        since=messages[0].created_at if messages and has_earlier else None,
        until=following.values_list("created_at", flat=True).first(),
        is_search=bool(query.words),
    )
    entries: list[TimelineEntry] = []
    left_out = []
    for kind in visible_kinds:
        entries_of_kind = list(islice(kind.events(window), MAX_ENTRIES_PER_KIND + 1))
        if len(entries_of_kind) > MAX_ENTRIES_PER_KIND:
            left_out.append(kind.label)
        entries += entries_of_kind[:MAX_ENTRIES_PER_KIND]
    first, message_rows = _interleaved(messages, entries, query)
    return {**vars(message_slice), "messages": message_rows, "first": first, "left_out": left_out}


def _with_openings(rows: MessageQuerySet) -> QuerySet[Message]:
    return (
        rows.with_tools()
        .defer("content", "blocks", "metadata")
        .annotate(
            opening=Left(F("content"), MAX_SHOWN_LENGTH),
            length=Length("content"),
            named=Func(
                F("blocks"),
                Value(REFERENCES_PATH),
                template="jsonb_path_query_array(%(expressions)s::jsonpath)",
                output_field=JSONField(),
            ),
        )
    )


def _load_slice(rows: MessageQuerySet, query: TimelineQuery, last: int) -> MessageSlice:
    """Return a page of the messages, or of those that contain the words, of `last` in the session.

    A search reads at most SEARCH_BATCH_SIZE messages.
    """
    limit = SEARCH_BATCH_SIZE if query.words else last
    after = last if query.is_last or query.before is not None else _begin(rows, query)
    if after >= last:  # backwards or past the end: show the last page
        before = last + 1 if query.before is None else min(query.before, last + 1)
        begin = max(0, before - 1 - limit)
        matches = list(_slice_between(rows, query, begin, before - 1).order_by("-seq")[: PAGE_SIZE + 1])
        bound = matches[PAGE_SIZE - 1].seq if len(matches) > PAGE_SIZE else begin + 1
        return MessageSlice(
            messages=matches[:PAGE_SIZE][::-1],
            earlier=bound if bound > 1 else None,
            later=before - 1 if 0 < before <= last else None,
            searched=_searched_part(query, bound, before - 1, last),
        )
    end = min(after + limit, last)
    matches = list(_slice_between(rows, query, after, end).order_by("seq")[: PAGE_SIZE + 1])
    bound = matches[PAGE_SIZE - 1].seq if len(matches) > PAGE_SIZE else end
    return MessageSlice(
        messages=matches[:PAGE_SIZE],
        earlier=after + 1 if after > 0 else None,
        later=bound if bound < last else None,
        searched=_searched_part(query, after + 1, bound, last),
    )


def _slice_between(rows: MessageQuerySet, query: TimelineQuery, after: int, end: int) -> QuerySet[Message]:
    rows = rows.filter(seq__gt=after, seq__lte=end)
    return _with_openings(rows.filter(content__icontains=query.words) if query.words else rows)


def _searched_part(query: TimelineQuery, first: int, end: int, last: int) -> tuple[int, int] | None:
    is_whole = not query.words or first > end or (first == 1 and end == last)
    return None if is_whole else (first, end)


def _begin(rows: MessageQuerySet, query: TimelineQuery) -> int:
    if query.at is not None:
        seq = rows.filter(pk=query.at).values_list("seq", flat=True).first()
        return max(0, (seq or 1) - 1 - PAGE_SIZE // 5)  # with some messages before it
    if query.day is not None:
        seq = rows.filter(created_at__gte=day_start(query.day, query.zone)).aggregate(first=Min("seq"))["first"]
        return 2**31 - 1 if seq is None else seq - 1
    return query.after or 0


def _interleaved(
    messages: Sequence[Any], entries: Iterable[TimelineEntry], query: TimelineQuery
) -> tuple[list[TimelineEntry], list[dict[str, Any]]]:
    """Return the entries before the first message, and the messages, each with the entries that follow it."""
    entries_after: list[list[TimelineEntry]] = [[] for _message in range(len(messages) + 1)]
    for entry in sorted(entries, key=lambda row: row.at):
        entries_after[_insertion_index(entry, messages)].append(entry)
    message_rows, day = [], None
    for message, after in zip(messages, entries_after[1:], strict=True):
        said_at = local_time(message.created_at, query.zone)
        by_speaker, today = message.local_time(query.speakers_zone), said_at.date()
        references = _references(message.named or [])
        row = {
            "message": message,
            "role": ROLE_LABELS.get(message.role, message.role),
            "references": references,
            "tools": tool_lines(message.tools or []),
            "said_at": said_at,
            "by_speaker": by_speaker if by_speaker.utcoffset() != said_at.utcoffset() else None,
        }
        message_rows.append({**row, "day": today if today != day else None, "entries": after})
        day = today
    return entries_after[0], message_rows


def _insertion_index(entry: TimelineEntry, messages: Sequence[Any]) -> int:
    if entry.message_id is not None:
        numbers = [number for number, message in enumerate(messages, start=1) if message.pk == entry.message_id]
        return numbers[0] if numbers else len(messages)
    if entry.after_seq is not None:
        return sum(1 for message in messages if message.seq <= entry.after_seq)
    return sum(1 for message in messages if message.created_at <= entry.at)


def _references(pairs: Iterable[dict[str, Any]]) -> list[str]:
    blocks: dict[Any, dict[str, str]] = {}
    for pair in pairs:
        blocks.setdefault(pair["id"], {})[pair["key"]] = str(pair["value"])
    return [
        " ".join(filter(None, (block.get("type"), block.get("name"))))[:EXCERPT_LENGTH] for block in blocks.values()
    ]


def tool_lines(blocks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each call of a tool, with its arguments, and each result, with its beginning."""
    calls = []
    for call in calls_in(blocks):
        arguments = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in call["input"].items())
        calls.append(f"{call['name']}({_shortened(', '.join(arguments))})")
    return [*calls, *(f"→ {_shortened(text_of_result(block))}" for block in results_in(blocks))]


def _shortened(text: str) -> str:
    line = one_line(text[: 4 * EXCERPT_LENGTH])
    is_whole = len(line) <= EXCERPT_LENGTH and len(text) <= 4 * EXCERPT_LENGTH
    return line if is_whole else f"{line[:EXCERPT_LENGTH].rstrip()}…"


def summarise_url(session: Session) -> str | None:
    """Return the URL that enqueues a summary; None if no app writes summaries."""
    try:
        return reverse("summaries_session_summarise", args=[session.pk])
    except NoReverseMatch:
        return None
