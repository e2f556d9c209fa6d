"""What a memory's page tells besides its fields: its text, its strength over time, its changes, what it replaced."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Left
from django.http import HttpRequest
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext

from conversations.admin.weighing import LAYERS, PARTS, REASONS, WEIGHTED
from conversations.models import Message, Receipt
from memoryhub.admin.base import READ_FOR_EXCERPT, excerpt, link_to
from memoryhub.admin.diff import inline_diff, page_deadline
from memoryhub.admin.labels import principal_label
from memoryhub.tenancy.policies import effective_policy
from strength.actions.revisions import strength_history, succession_of
from strength.admin.charts import HEIGHT, LEFT, RIGHT, SHAPES, WIDTH, strength_chart
from strength.admin.labels import FIELDS, IMPACTS, MERGE_STATES, POINT_COLOURS, POINTS, STATUSES, VERBS
from strength.domain.policy import StrengthPolicy
from strength.domain.strength import PointKind
from strength.models import Memory, MemoryRevision, MemorySource, Merge

REVISIONS_AT_ONCE: Final = 10
LATEST_POINTS: Final = 200
LATEST_MERGES: Final = 20
LONGEST_HEAD: Final = 2_000
LONGEST_IN_FORM: Final = 60_000
"""Bytes of a text on the page, where a `"` has six: a text area that holds more makes the page heavy."""


def fits_the_form(text: str) -> bool:
    """Return whether a text is short enough to stand in the form whenever the page is opened."""
    return len(escape(text).encode()) <= LONGEST_IN_FORM


def head_of(memory: Memory) -> dict[str, Any]:
    """Return the text as it is read first, and how much of it is left out there."""
    return {
        "head": memory.content[:LONGEST_HEAD],
        "head_left_out": max(0, len(memory.content) - LONGEST_HEAD),
        "state": STATUSES.get(memory.status, memory.status),
    }


def memory_context(request: HttpRequest, memory: Memory, *, now: datetime) -> dict[str, Any]:
    """Return a memory's story; `memory` has its numbers, actor and agent loaded."""
    numbers = getattr(memory, "numbers", None)
    perspectives = list(memory.perspectives.all())
    return {
        "numbers": numbers,
        "perspectives": [(each, each.now(numbers)) for each in perspectives] if numbers else [],
        "impacts": list(IMPACTS.items()),
        "may_see_receipts": request.user.has_perm("conversations.view_receipt"),
        **head_of(memory),
        **sources_of(request, memory),
        **_revisions(request, memory),
        **_merges(request, memory),
        "succession": _succession(memory),
        **(_over_time(memory, now) if numbers else {}),
    }


def _revisions(request: HttpRequest, memory: Memory) -> dict[str, Any]:
    """Return some of a memory's changes, the latest unless the address asks for earlier ones."""
    rows = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory_id=memory.pk).defer("after")
    before = request.GET.get("before", "")
    earlier = before.isascii() and before.isdecimal() and len(before) < 10
    if earlier:
        rows = rows.filter(number__lt=int(before))
    found = list(rows[: REVISIONS_AT_ONCE + 1])
    shown = found[:REVISIONS_AT_ONCE]
    return {
        "revisions": [
            {**change, "who": principal_label(each.who_name, each.who_kind)}
            for each, change in zip(shown, changes_of(shown), strict=True)
        ],
        "shows_latest": not earlier,
        "earlier_than": shown[-1].number if len(found) > REVISIONS_AT_ONCE else None,
    }


def _succession(memory: Memory) -> list[dict[str, Any]]:
    """Return what held one after the other in the memory's place; nothing where it stands alone."""
    steps = succession_of(memory)
    if len(steps) == 1:
        return []
    rows = (
        Memory.objects.of([memory.actor_id])
        .defer("content")
        .annotate(opening=Left("content", READ_FOR_EXCERPT))
    )
    found: dict[Any, Any] = rows.in_bulk([key for key, _step in steps])
    return [
        {"memory": found[key], "opening": excerpt(found[key].opening, 200), "step": step,
         "state": STATUSES.get(found[key].status, found[key].status)}
        for key, step in steps if key in found
    ]  # fmt: skip


def _over_time(memory: Memory, now: datetime) -> dict[str, Any]:
    """Return the drawing of a memory's strength, and the latest of its points in words."""
    points = strength_history(memory=memory, now=now)
    threshold = effective_policy(StrengthPolicy, memory.agent, memory.actor).archive_threshold
    chart = strength_chart(points, threshold=threshold)
    latest = points[-LATEST_POINTS:]
    return {
        "chart": chart,
        "chart_frame": {
            "width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "below": HEIGHT - 8,
            "text": LEFT - 8,
        },
        "chart_marks": [(mark, POINTS[mark.kind], POINT_COLOURS[mark.kind]) for mark in chart.marks],
        "chart_legend": [(SHAPES[kind], POINTS[kind], POINT_COLOURS[kind]) for kind in chart.kinds],
        "points": [(point, POINTS[point.kind]) for point in reversed(latest)],
        "points_left_out": len(points) - len(latest),
        "first_point": points[0],
        "last_point": points[-1],
        "nights": sum(point.kind is PointKind.SLEPT for point in points),
        "threshold": threshold,
    }  # fmt: skip


def _merges(request: HttpRequest, memory: Memory) -> dict[str, Any]:
    """Return the merges that the memory took part in, and what stands in its place."""
    either = Q(kept_id=memory.pk) | Q(absorbed_id=memory.pk)
    rows = Merge.objects.filter(either, actor_id=memory.actor_id).defer("undo")[:LATEST_MERGES]
    others = {each: each.absorbed_id if each.kept_id == memory.pk else each.kept_id for each in rows}
    superseded_by = memory.superseded_by_id
    if not others and superseded_by is None:
        return {"merges": [], "superseded_by_link": None}
    shown = memory_links(request, memory.actor_id, [*others.values(), superseded_by])
    return {
        "merges": [
            {"merge": each, "other": shown[str(other)], "is_kept": each.kept_id == memory.pk,
             "state": MERGE_STATES.get(each.state, each.state)}
            for each, other in others.items()
        ],
        "superseded_by_link": shown.get(str(superseded_by)),
    }  # fmt: skip


def may_read_memories(request: HttpRequest) -> bool:
    """Return whether a person may see the texts of memories, whatever other screen they stand on."""
    user: Any = request.user
    return bool(user.has_perm("strength.view_memory") or user.has_perm("strength.change_memory"))


def memory_links(request: HttpRequest, actor_id: UUID, keys: Iterable[Any]) -> dict[str, SafeString]:
    """Return the beginnings of an actor's memories, linked to their pages, by id; one query for all of them.

    Who may not read memories gets their ids.
    """
    wanted = list({str(key) for key in keys if key})
    if not may_read_memories(request):
        return {key: SafeString(excerpt(key)) for key in wanted}
    rows = Memory.objects.of([actor_id]).filter(pk__in=wanted)
    found = {str(pk): text for pk, text in rows.values_list("pk", Left("content", READ_FOR_EXCERPT))}
    gone = gettext("a memory that is not there any more")
    return {
        key: link_to("admin:strength_memory_change", key, excerpt(found[key]))
        if key in found
        else SafeString(excerpt(gone))
        for key in wanted
    }


MOST_SOURCES: Final = 20
RECEIPTS_AT_ONCE: Final = 20
LONGEST_QUOTE: Final = 300
TIMELINE: Final = "admin:conversations_session_timeline"


def sources_of(request: HttpRequest, memory: Memory) -> dict[str, Any]:
    """Return the messages that a memory comes from, with what was said for whoever may read messages."""
    rows = MemorySource.objects.filter(actor_id=memory.actor_id, memory_id=memory.pk)
    sources = list(rows[: MOST_SOURCES + 1])
    messages = _messages(request, memory, sources) if sources else {}
    return {
        "sources": [
            {"source": each, "message": message, "quote": _quote(message), "href": message_page(each)}
            for each in sources[:MOST_SOURCES]
            for message in [messages.get(each.message_id)]
        ],
        "more_sources": len(sources) > MOST_SOURCES,
        "reads_messages": may_read_messages(request),
    }  # fmt: skip


def may_read_messages(request: HttpRequest) -> bool:
    """Return whether a person may see what was said."""
    user: Any = request.user
    return bool(user.has_perm("conversations.view_message"))


def _messages(request: HttpRequest, memory: Memory, sources: list[MemorySource]) -> dict[Any, Any]:
    if not may_read_messages(request):
        return {}
    rows = Message.objects.of([memory.actor_id]).defer("content", "blocks", "metadata")
    shown = rows.annotate(opening=Left(F("content"), READ_FOR_EXCERPT))
    return shown.in_bulk([each.message_id for each in sources])


def _quote(message: Any) -> str:
    return excerpt(message.opening, LONGEST_QUOTE) if message is not None else ""


def message_page(source: MemorySource) -> str:
    """Return the address of a message among the others of its session."""
    timeline = reverse(TIMELINE, args=[source.session_id])
    return f"{timeline}?at={source.message_id}#message-{source.message_id}"


def retrieved(memory: Memory, *, place: int) -> dict[str, Any]:
    """Return the contexts that a memory was a candidate for, the latest first: some of them from a place on."""
    rows = Receipt.objects.about(memory.actor_id, memory.pk).defer("metadata", "query")
    found = list(
        rows.annotate(opening=Left(F("query"), READ_FOR_EXCERPT))[place : place + RECEIPTS_AT_ONCE + 1]
    )
    has_more = len(found) > RECEIPTS_AT_ONCE
    return {
        "receipts": [_part(each, str(memory.pk)) for each in found[:RECEIPTS_AT_ONCE]],
        "next_place": place + RECEIPTS_AT_ONCE if has_more else None,
    }


def _part(receipt: Any, memory_id: str) -> dict[str, Any]:
    """Return what became of the memory in one receipt: in which layer, as which of its candidates, and why."""
    items = receipt.items
    own: dict[str, Any] = next((item for item in items if item.get("source_id") == memory_id), {})
    rivals = [item for item in items if item["layer"] == own.get("layer")]
    return {
        "receipt": receipt,
        "query": excerpt(receipt.opening, LONGEST_QUOTE),
        "item": own,
        "layer": LAYERS.get(own.get("layer", ""), own.get("layer", "")),
        "rank": rivals.index(own) + 1 if own else 0,
        "rivals": len(rivals),
        "reason": REASONS.get(own.get("reason", ""), own.get("reason", "")),
        "parts": _parts(own.get("score_breakdown") or {}),
    }


def _parts(breakdown: Mapping[str, Any]) -> list[tuple[Any, float]]:
    numbers = {name: breakdown.get(name) for name in WEIGHTED}
    return [(PARTS[name], value) for name, value in numbers.items() if isinstance(value, int | float)]


LONGEST_VALUE: Final = 300
DATES: Final = ("valid_from", "valid_to")
CHOSEN: Final = ("kind", "scope_level")
"""Fields that hold one of a few words, which have other names for people."""


def changes_of(revisions: Sequence[MemoryRevision]) -> list[dict[str, Any]]:
    """Return what each revision changed, in words; as many texts are compared as a page has time for."""
    deadline = page_deadline()
    return [_change_of(revision, deadline) for revision in revisions]


def _change_of(revision: MemoryRevision, deadline: float) -> dict[str, Any]:
    before, after = revision.changed_before, revision.changed_after
    names = [] if revision.verb == "create" else sorted({*before, *after} - {"locked"})
    return {
        "revision": revision,
        "verb": VERBS.get(revision.verb, revision.verb),
        "changes": [_change(name, before.get(name), after.get(name), deadline) for name in names],
    }


def _change(name: str, before: Any, after: Any, deadline: float) -> dict[str, Any]:
    runs = inline_diff(before or "", after or "", deadline) if name == "content" else None
    return {
        "name": FIELDS.get(name, name), "runs": runs,
        "before": "" if runs else _value(name, before), "after": "" if runs else _value(name, after),
    }  # fmt: skip


def _value(name: str, value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "–"
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if name in DATES and (moment := parse_datetime(str(value))):
        return date_format(localtime(moment), "DATETIME_FORMAT")
    if name == "status":
        return str(STATUSES.get(value, value))
    if name in CHOSEN:
        field: Any = Memory._meta.get_field(name)
        return str(dict(field.flatchoices).get(value, value))
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return excerpt(text, LONGEST_VALUE)
