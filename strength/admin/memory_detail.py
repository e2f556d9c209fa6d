"""Sections of a memory's page: sources, revisions, succession, merges, strength over time, receipts."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
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

from conversations.admin.context_breakdown import LAYERS, PARTS, REASONS, WEIGHTED
from conversations.models import Message, Receipt
from memoryhub.admin.base import READ_FOR_EXCERPT, excerpt, link_to
from memoryhub.admin.diff import inline_diff, page_deadline
from memoryhub.admin.labels import principal_label
from memoryhub.tenancy.policies import effective_policy
from strength.actions.revisions import strength_history, succession_of
from strength.admin.labels import FIELDS, IMPACTS, MERGE_STATES, POINTS, STATUSES, VERBS
from strength.domain.policy import StrengthPolicy
from strength.domain.strength import Point, PointKind
from strength.models import Memory, MemoryRevision, MemorySource, Merge

REVISIONS_AT_ONCE: Final = 10
LATEST_POINTS: Final = 200
LATEST_MERGES: Final = 20

CHART_SLOTS: Final = 240
_GREY: Final = "#9ca3af"
CHART_OPTIONS: Final = {
    "animation": False,
    "responsive": True,
    "maintainAspectRatio": False,
    "plugins": {"legend": {"position": "bottom", "labels": {"color": _GREY, "usePointStyle": True}}},
    "scales": {
        "x": {"grid": {"display": False}, "ticks": {"color": _GREY, "maxTicksLimit": 7, "maxRotation": 0}},
        "y": {"grid": {"display": True}, "ticks": {"color": _GREY, "maxTicksLimit": 6}, "beginAtZero": True},
    },
}
LINE: Final = {"borderColor": "var(--color-primary-600)", "borderWidth": 2}
THRESHOLD_LINE: Final = {"borderColor": "#c2410c", "borderDash": [6, 4], "borderWidth": 1}


def _mark(style: str, colour: str, **values: Any) -> dict[str, Any]:
    return {"pointStyle": style, "borderColor": colour, "backgroundColor": colour, **values}


# Told apart by form, not by colour alone.
MARKS: Final = {
    PointKind.CREATED: _mark("circle", "var(--color-primary-600)"),
    PointKind.USED: _mark("rectRounded", "#15803d"),
    PointKind.IMPACT: _mark("triangle", "#1d4ed8"),
    PointKind.SET: _mark("rect", "#b91c1c"),
    PointKind.SLEPT: _mark("line", _GREY, rotation=90),
    PointKind.NOW: _mark("rectRot", "var(--color-primary-600)"),
}
LONGEST_HEAD: Final = 2_000
LONGEST_IN_FORM: Final = 60_000
"""Bytes of a text on the page, where a `"` has six: a text area that holds more makes the page heavy."""


def fits_the_form(text: str) -> bool:
    return len(escape(text).encode()) <= LONGEST_IN_FORM


def head_of(memory: Memory) -> dict[str, Any]:
    return {
        "head": memory.content[:LONGEST_HEAD],
        "head_left_out": max(0, len(memory.content) - LONGEST_HEAD),
        "state": STATUSES.get(memory.status, memory.status),
    }


def memory_context(request: HttpRequest, memory: Memory, *, now: datetime) -> dict[str, Any]:
    """Return the template context of a memory with its numbers, actor and agent loaded."""
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
        **(_strength_over_time(memory, now) if numbers else {}),
    }


def _revisions(request: HttpRequest, memory: Memory) -> dict[str, Any]:
    """Return a page of revisions, the latest unless the address asks for earlier ones."""
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
    """Return the chain of memories that replaced each other; empty for a memory alone."""
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


def _strength_over_time(memory: Memory, now: datetime) -> dict[str, Any]:
    points = sorted(strength_history(memory=memory, now=now), key=lambda point: point.at)
    threshold = effective_policy(StrengthPolicy, memory.agent, memory.actor).archive_threshold
    latest = points[-LATEST_POINTS:]
    return {
        "chart": strength_chart(points, threshold=threshold),
        "chart_options": json.dumps(CHART_OPTIONS),
        "points": [(point, POINTS[point.kind]) for point in reversed(latest)],
        "points_left_out": len(points) - len(latest),
        "first_point": points[0],
        "last_point": points[-1],
        "lowest": min(point.strength for point in points),
        "highest": max(point.strength for point in points),
        "nights": sum(point.kind is PointKind.SLEPT for point in points),
        "threshold": threshold,
    }


def strength_chart(points: Sequence[Point], *, threshold: float) -> str:
    """Return the data of unfold's line chart, as JSON, for at least one point in order of time.

    The x axis has slots of equal length: a strength holds until something happens, and of events of one kind in a slot
    the strongest is marked. `threshold` is the strength at which a memory is archived.
    """
    start, span = points[0].at, points[-1].at - points[0].at
    slots = CHART_SLOTS if span else 1
    line: list[float | None] = [None] * slots
    marks: dict[PointKind, list[float | None]] = {}
    for point in points:
        slot = round((slots - 1) * ((point.at - start) / span)) if span else 0
        line[slot] = point.strength
        if point.kind in MARKS:
            values = marks.setdefault(point.kind, [None] * slots)
            values[slot] = max(values[slot] or 0.0, 0.0 if point.kind is PointKind.SLEPT else point.strength)
    held: list[float] = []
    for value in line:
        held.append(held[-1] if value is None else value)
    shape = "SHORT_DATETIME_FORMAT" if span < timedelta(days=4) else "SHORT_DATE_FORMAT"
    moments = [start + span * slot / max(1, slots - 1) for slot in range(slots)]
    return json.dumps(
        {
            "labels": [date_format(localtime(moment), shape) for moment in moments],
            "datasets": [
                *(
                    {
                        "label": str(POINTS[kind]),
                        "data": values,
                        "showLine": False,
                        "pointRadius": 5,
                        **MARKS[kind],
                    }
                    for kind, values in marks.items()
                ),
                {"label": gettext("strength"), "data": held, "pointStyle": False, **LINE},
                *([_threshold_line(threshold, slots)] if threshold > 0 else []),
            ],
        }
    )


def _threshold_line(threshold: float, slots: int) -> dict[str, Any]:
    label = gettext("archived at %(threshold)s or below") % {"threshold": f"{threshold:,.10g}"}
    return {"label": label, "data": [threshold] * slots, "pointStyle": False, **THRESHOLD_LINE}


def _merges(request: HttpRequest, memory: Memory) -> dict[str, Any]:
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
    user: Any = request.user
    return bool(user.has_perm("strength.view_memory") or user.has_perm("strength.change_memory"))


def memory_links(request: HttpRequest, actor_id: UUID, keys: Iterable[Any]) -> dict[str, SafeString]:
    """Return linked excerpts of an actor's memories by id, in one query; ids for those who may not read memories."""
    wanted = list({str(key) for key in keys if key})
    if not may_read_memories(request):
        return {key: SafeString(excerpt(key)) for key in wanted}
    rows = Memory.objects.of([actor_id]).filter(pk__in=wanted)
    found = {str(pk): text for pk, text in rows.values_list("pk", Left("content", READ_FOR_EXCERPT))}
    gone = gettext("a memory that no longer exists")
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
    rows = MemorySource.objects.filter(actor_id=memory.actor_id, memory_id=memory.pk)
    sources = list(rows[: MOST_SOURCES + 1])
    return {
        "sources": source_messages(request, memory, sources[:MOST_SOURCES]),
        "more_sources": len(sources) > MOST_SOURCES,
    }


def source_messages(
    request: HttpRequest, memory: Memory, sources: Sequence[MemorySource]
) -> list[dict[str, Any]]:
    """Return the messages that a memory comes from, with a quote and a link for whoever may read them."""
    user: Any = request.user
    messages: dict[Any, Any] = {}
    if sources and user.has_perm("conversations.view_message"):
        rows = Message.objects.of([memory.actor_id]).defer("content", "blocks", "metadata")
        shown = rows.annotate(opening=Left(F("content"), READ_FOR_EXCERPT))
        messages = shown.in_bulk([each.message_id for each in sources])
    return [
        {
            "source": each,
            "message": message,
            "quote": excerpt(message.opening, LONGEST_QUOTE) if message is not None else "",
            "href": _message_page(each),
        }
        for each in sources
        for message in [messages.get(each.message_id)]
    ]


def _message_page(source: MemorySource) -> str:
    timeline = reverse(TIMELINE, args=[source.session_id])
    return f"{timeline}?at={source.message_id}#message-{source.message_id}"


def retrieved(memory: Memory, *, place: int) -> dict[str, Any]:
    """Return a page of the contexts that a memory was a candidate for, latest first."""
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
    """Return the memory's layer, rank and outcome in one receipt."""
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
    """Return each revision's changes; all texts share the page's deadline."""
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
