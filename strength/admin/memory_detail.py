"""Sections of a memory's page: sources, revisions, succession, merges, strength over time, receipts."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Left
from django.http import HttpRequest
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext

from conversations.admin.context_breakdown import LAYER_LABELS, SCORE_LABELS, WEIGHTED_SCORES, reason_label
from conversations.models import Message, Receipt
from memoryhub.admin.base import EXCERPT_SOURCE_LENGTH, excerpt, link_to
from memoryhub.admin.columns import full_time, relative_time
from memoryhub.admin.diff import inline_diff, page_deadline
from memoryhub.admin.labels import principal_label
from memoryhub.admin.object_actions import submitted_number
from memoryhub.admin.stored_texts import translated
from memoryhub.tenancy.policies import effective_policy
from strength.actions.revisions import strength_history, succession_of
from strength.admin.labels import (
    FIELD_LABELS,
    IMPACT_LABELS,
    MERGE_STATE_LABELS,
    POINT_LABELS,
    SLEEP_REASON_LABELS,
    STATUS_LABELS,
    VERB_LABELS,
)
from strength.admin.review_team import memory_team_context
from strength.domain.memories import Status
from strength.domain.policy import StrengthPolicy
from strength.domain.strength import Point, PointKind, threshold_time
from strength.models import Memory, MemoryRevision, MemorySource, Merge, ReviewRule

REVISIONS_PAGE_SIZE: Final = 10
MAX_POINTS: Final = 200
MAX_MERGES: Final = 20

CHART_SLOTS: Final = 240
_GREY: Final = "#9ca3af"
CHART_OPTIONS: Final = {
    "animation": False,
    "responsive": True,
    "maintainAspectRatio": False,
    "plugins": {
        "legend": {
            "position": "bottom",
            "labels": {"boxHeight": 6, "color": _GREY, "padding": 8, "usePointStyle": True},
        }
    },
    "scales": {
        "x": {"grid": {"display": False}, "ticks": {"color": _GREY, "maxTicksLimit": 3, "maxRotation": 0}},
        "y": {"grid": {"display": True}, "ticks": {"color": _GREY, "maxTicksLimit": 6}, "beginAtZero": True},
    },
}
LINE_STYLE: Final = {"pointStyle": "line", "pointRadius": 0}
STRENGTH_LINE: Final = {"borderColor": "var(--color-primary-600)", "borderWidth": 2}
THRESHOLD_LINE: Final = {"borderColor": "#c2410c", "borderDash": [6, 4], "borderWidth": 1}


FORECAST_LINE: Final = {"borderColor": "#a78bfa", "borderDash": [2, 4], "borderWidth": 2}


def _marker(style: str, colour: str, **values: Any) -> dict[str, Any]:
    style_options = {"pointStyle": style, "pointRadius": 5, "borderColor": colour, "backgroundColor": colour}
    return {"showLine": False, **style_options, **values}


# Distinguished by shape, not by colour alone.
POINT_MARKERS: Final = {
    PointKind.CREATED: _marker("circle", "var(--color-primary-600)"),
    PointKind.USED: _marker("rectRounded", "#15803d"),
    PointKind.IMPACT: _marker("triangle", "#1d4ed8"),
    PointKind.SET: _marker("rect", "#b91c1c"),
    PointKind.SLEPT: _marker("line", _GREY, rotation=90),
    PointKind.NOW: _marker("rectRot", "var(--color-primary-600)"),
}
ARCHIVED_MARKER: Final = _marker("crossRot", "#c2410c", pointRadius=6, borderWidth=2)
MAX_HEAD_LENGTH: Final = 2_000
MAX_CONTEXTS: Final = 40
MAX_CONTEXTS_SHOWN: Final = 3
MAX_ARCHIVINGS: Final = 3
MIN_FORECAST: Final = timedelta(days=30)


def memory_context(request: HttpRequest, memory: Memory, *, now: datetime) -> dict[str, Any]:
    """Return the template context of a memory with its numbers, actor and agent loaded."""
    numbers = getattr(memory, "numbers", None)
    sources = memory.source_rows[: MAX_SOURCES + 1]
    return {
        "numbers": numbers,
        "last_decay_at": numbers and numbers.decayed_until(memory.state),
        "perspectives": [
            (perspective, numbers.of_perspective(perspective, memory.state))
            for perspective in memory.perspective_rows
            if numbers
        ],
        "impacts": list(IMPACT_LABELS.items()),
        "may_see_receipts": request.user.has_perm("conversations.view_receipt"),
        "head": memory.content[:MAX_HEAD_LENGTH],
        "head_left_out": max(0, len(memory.content) - MAX_HEAD_LENGTH),
        "state": STATUS_LABELS.get(memory.status, memory.status),
        "sources": source_messages(request, memory, sources[:MAX_SOURCES]),
        "more_sources": len(sources) > MAX_SOURCES,
        **_revisions(request, memory),
        **_merges(request, memory),
        "succession": _succession(memory),
        **memory_team_context(request, memory),
        **(_strength_over_time(memory, now) if numbers else {}),
        **(_latest_contexts(memory, now) if request.user.has_perm("conversations.view_receipt") else {}),
    }


def _revisions(request: HttpRequest, memory: Memory) -> dict[str, Any]:
    query = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory_id=memory.pk).defer("after")
    before = submitted_number(request, "before")
    if before is not None:
        query = query.filter(number__lt=before)
    rows = list(query[: REVISIONS_PAGE_SIZE + 1])
    page = rows[:REVISIONS_PAGE_SIZE]
    deadline = page_deadline()  # of all texts together
    batches = [revision.batch for revision in page if revision.batch]
    rules = ReviewRule.objects.filter(actor_id=memory.actor_id).in_bulk(batches)
    return {
        "revisions": [
            {
                "revision": revision,
                "verb": VERB_LABELS.get(revision.verb, revision.verb),
                "who": principal_label(revision.who_name, revision.who_kind),
                "reason": SLEEP_REASON_LABELS.get(revision.reason) or translated(revision.reason),
                "changes": revision_changes(revision, deadline),
                "first_text": excerpt(revision.changed_after.get("content") or "", MAX_VALUE_LENGTH)
                if revision.verb == "create"
                else "",
                "rule": rules.get(revision.batch) if revision.batch else None,
            }
            for revision in page
        ],
        "shows_latest": before is None,
        "before_number": page[-1].number if len(rows) > REVISIONS_PAGE_SIZE else None,
    }


def _succession(memory: Memory) -> list[dict[str, Any]]:
    """Return the chain of memories that replaced each other; empty for a memory alone."""
    steps = succession_of(memory)
    if len(steps) == 1:
        return []
    rows = Memory.objects.of([memory.actor_id]).defer("content")
    memories: dict[Any, Any] = rows.annotate(opening=Left("content", EXCERPT_SOURCE_LENGTH)).in_bulk(dict(steps))
    return [
        {
            "memory": memories[key],
            "opening": excerpt(memories[key].opening, 200),
            "step": step,
            "state": STATUS_LABELS.get(memories[key].status, memories[key].status),
        }
        for key, step in steps
        if key in memories
    ]


def _strength_over_time(memory: Memory, now: datetime) -> dict[str, Any]:
    """Return the chart of the strength from creation to forecast archiving, with its events."""
    numbers, state = memory.numbers, memory.state
    points = sorted(strength_history(memory=memory, now=now), key=lambda point: point.at)
    threshold = effective_policy(StrengthPolicy, memory.agent, memory.actor).archive_threshold
    fades_at = None
    if memory.status == Status.ACTIVE and state is not None:
        fades_at = threshold_time(
            threshold,
            strength=numbers.strength,
            mark=numbers.mark,
            level=numbers.consolidation_level,
            clock=state.as_clock(),
        )
    archivings = _archivings(memory)
    latest = points[-MAX_POINTS:]
    return {
        "chart": strength_chart(
            points, threshold=threshold, fades_at=fades_at, archived_at=[at for at, _cause in archivings]
        ),
        "chart_options": json.dumps(CHART_OPTIONS),
        "points": [(point, POINT_LABELS[point.kind]) for point in reversed(latest)],
        "points_left_out": len(points) - len(latest),
        "first_point": points[0],
        "last_point": points[-1],
        "lowest": min(point.strength for point in points),
        "highest": max(point.strength for point in points),
        "nights": sum(point.kind is PointKind.SLEPT for point in points),
        "threshold": f"{threshold:,.10g}",
        "fades_at": fades_at,
        "is_faded": fades_at is not None and fades_at <= now,
        "archivings": archivings[:MAX_ARCHIVINGS],
    }


def _archivings(memory: Memory) -> list[tuple[datetime, Any]]:
    """Return time and cause of archivings, latest first, except those undone at once."""
    history = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory_id=memory.pk)
    undone = history.filter(number=OuterRef("number") + 1, verb="undo")
    archived = history.filter(~Exists(undone), changed_after__status=Status.ARCHIVED)
    rows = archived.order_by("-number")[:MAX_MERGES]
    return [
        (
            row.created_at,
            SLEEP_REASON_LABELS.get(row.reason)
            or translated(row.reason)
            or principal_label(row.who_name, row.who_kind),
        )
        for row in rows
    ]


def _latest_contexts(memory: Memory, now: datetime) -> dict[str, Any]:
    """Return how many of the latest contexts included the memory, and the latest of them.

    A user's memory can be in all of the user's contexts; of an agent's own, those count that list it as a candidate.
    Dry runs of the playground are no uses.
    """
    is_own = bool(memory.actor.user_id)
    readers = Receipt.objects.filter(actor_id=memory.actor_id) if is_own else Receipt.objects.about(memory.pk)
    latest = readers.exclude(metadata__has_key="is_trial").order_by("-created_at", "-id")
    as_source = [{"source_id": str(memory.pk), "included": True}]
    as_profile_line = [{"memory_ids": [str(memory.pk)], "included": True}]
    rows = latest.filter(pk__in=list(latest.values_list("pk", flat=True)[:MAX_CONTEXTS]))
    annotated = rows.defer("metadata", "query", "items").annotate(
        opening=Left(F("query"), EXCERPT_SOURCE_LENGTH),
        entered=Q(items__contains=as_source) | Q(items__contains=as_profile_line),
    )
    receipts: list[Any] = list(annotated)
    entered = [receipt for receipt in receipts if receipt.entered]
    return {
        "contexts": len(receipts),
        "contexts_are_own": is_own,
        "entered_count": len(entered),
        "entered": [
            (receipt, excerpt(receipt.opening, 90), relative_time(receipt.created_at, now))
            for receipt in entered[:MAX_CONTEXTS_SHOWN]
        ],
    }


def strength_chart(
    points: Sequence[Point], *, threshold: float, fades_at: datetime | None = None, archived_at: Sequence[datetime] = ()
) -> str:
    """Return the data of unfold's line chart, as JSON, for at least one point in order of time.

    The x axis has slots of equal length: a strength holds until something happens, and of events of one kind in a slot
    the strongest is marked. `threshold` is the strength at which a memory is archived, forecast for `fades_at`. The
    axis extends to then, at most by the memory's age or `MIN_FORECAST`.
    """
    start, now = points[0].at, points[-1].at
    end = min(max(now, fades_at or now), now + max(now - start, MIN_FORECAST))
    span = end - start
    slots = CHART_SLOTS if span else 1

    def slot_of(at: datetime) -> int:
        return round((slots - 1) * ((at - start) / span)) if span else 0

    line, marks = _chart_series(points, slots, slot_of)
    datasets: list[dict[str, Any]] = [
        {"label": str(POINT_LABELS[kind]), "data": values, **POINT_MARKERS[kind]} for kind, values in marks.items()
    ]
    datasets.append({"label": gettext("strength"), "data": line, **LINE_STYLE, **STRENGTH_LINE})
    if archived := {slot_of(at) for at in archived_at if span and start <= at <= now}:
        at_archivings = [line[slot] if slot in archived else None for slot in range(slots)]
        datasets.append({"label": gettext("archived"), "data": at_archivings, **ARCHIVED_MARKER})
    forecast = None
    if fades_at is not None and end > now and 0 < threshold < points[-1].strength:
        last = slot_of(now)
        at_fading = last + (slots - 1) * ((fades_at - now) / span)
        forecast = _forecast(points[-1].strength, threshold, last, at_fading, slots)
    datasets += _threshold_lines(threshold, forecast, slots)
    moments = [start + span * slot / max(1, slots - 1) for slot in range(slots)]
    date_style = "SHORT_DATETIME_FORMAT" if span < timedelta(days=4) else "SHORT_DATE_FORMAT"
    return json.dumps(
        {"labels": [date_format(localtime(moment), date_style) for moment in moments], "datasets": datasets}
    )


def _threshold_lines(threshold: float, forecast: list[float | None] | None, slots: int) -> list[Any]:
    """Return the line of the archive threshold, and the forecast, if any."""
    if threshold <= 0:
        return []
    label = gettext("archived at %(threshold)s or below") % {"threshold": f"{threshold:,.10g}"}
    forecast_line = {"label": gettext("forecast"), "data": forecast, **LINE_STYLE, **FORECAST_LINE}
    threshold_line = {"label": label, "data": [threshold] * slots, **LINE_STYLE, **THRESHOLD_LINE}
    return [threshold_line] if forecast is None else [forecast_line, threshold_line]


def _forecast(strength: float, threshold: float, last: int, at_fading: float, slots: int) -> list[float | None]:
    """Return the strength of each slot from `last` on, which reaches the threshold at the slot `at_fading`."""
    decline = math.log(threshold / strength) / (at_fading - last)
    return [None if slot < last else strength * math.exp(decline * (slot - last)) for slot in range(slots)]


def _chart_series(
    points: Sequence[Point], slots: int, slot_of: Callable[[datetime], int]
) -> tuple[list[float | None], dict[PointKind, list[float | None]]]:
    """Return the strength by slot up to the last point, and the markers by kind of event."""
    latest: list[float | None] = [None] * slots
    marks: dict[PointKind, list[float | None]] = {}
    for point in points:
        slot = slot_of(point.at)
        latest[slot] = point.strength
        if point.kind in POINT_MARKERS:
            values = marks.setdefault(point.kind, [None] * slots)
            values[slot] = max(values[slot] or 0.0, 0.0 if point.kind is PointKind.SLEPT else point.strength)
    filled: list[float | None] = []
    for value in latest[: slot_of(points[-1].at) + 1]:
        filled.append(filled[-1] if value is None else value)
    return [*filled, *[None] * (slots - len(filled))], marks


def _merges(request: HttpRequest, memory: Memory) -> dict[str, Any]:
    either = Q(kept_id=memory.pk) | Q(absorbed_id=memory.pk)
    rows = Merge.objects.filter(either, actor_id=memory.actor_id).defer("undo")[:MAX_MERGES]
    others = {merge: merge.absorbed_id if merge.kept_id == memory.pk else merge.kept_id for merge in rows}
    superseded_by = memory.superseded_by_id
    if not others and superseded_by is None:
        return {"merges": [], "superseded_by_link": None}
    links = memory_links(request, [*others.values(), superseded_by])
    return {
        "merges": [
            {
                "merge": merge,
                "other": links[str(other)],
                "is_kept": merge.kept_id == memory.pk,
                "state": MERGE_STATE_LABELS.get(merge.state, merge.state),
            }
            for merge, other in others.items()
        ],
        "superseded_by_link": links.get(str(superseded_by)),
    }


def may_read_memories(request: HttpRequest) -> bool:
    user: Any = request.user
    return bool(user.has_perm("strength.view_memory") or user.has_perm("strength.change_memory"))


def memory_links(request: HttpRequest, keys: Iterable[Any]) -> dict[str, SafeString]:
    """Return linked excerpts of memories by id, in one query; plain ids for users who may not read memories.

    Not filtered by actor: what a user's row names may be a memory of the agent, or of another agent that shares it.
    """
    requested_ids = list({str(key) for key in keys if key})
    if not may_read_memories(request):
        return {key: SafeString(excerpt(key)) for key in requested_ids}
    rows = Memory.objects.filter(pk__in=requested_ids)
    contents = {str(pk): text for pk, text in rows.values_list("pk", Left("content", EXCERPT_SOURCE_LENGTH))}
    missing = gettext("a memory that no longer exists")
    return {
        key: link_to("admin:strength_memory_change", key, excerpt(contents[key]))
        if key in contents
        else SafeString(excerpt(missing))
        for key in requested_ids
    }


MAX_SOURCES: Final = 20
RECEIPTS_PAGE_SIZE: Final = 20
MAX_QUOTE_LENGTH: Final = 300
TIMELINE_PAGE: Final = "admin:conversations_session_timeline"


def source_messages(request: HttpRequest, memory: Memory, sources: Sequence[MemorySource]) -> list[dict[str, Any]]:
    """Return the source messages of a memory, with quotes and links for users who may read them."""
    user: Any = request.user
    messages: dict[Any, Any] = {}
    if sources and user.has_perm("conversations.view_message"):
        rows = Message.objects.of([memory.actor_id]).defer("content", "blocks", "metadata")
        annotated = rows.annotate(opening=Left(F("content"), EXCERPT_SOURCE_LENGTH))
        messages = annotated.in_bulk([source.message_id for source in sources])
    result = []
    for source in sources:
        message = messages.get(source.message_id)
        quote = excerpt(message.opening, MAX_QUOTE_LENGTH) if message is not None else ""
        timeline = reverse(TIMELINE_PAGE, args=[source.session_id])
        href = f"{timeline}?at={source.message_id}#message-{source.message_id}"
        result.append({"source": source, "message": message, "quote": quote, "href": href})
    return result


def retrieval_page(memory: Memory, *, offset: int) -> dict[str, Any]:
    """Return a page of the contexts that a memory was a candidate for, latest first, each with its rank and outcome."""
    rows: Any = Receipt.objects.about(memory.pk).defer("metadata", "query")
    rows = rows.annotate(opening=Left(F("query"), EXCERPT_SOURCE_LENGTH))
    page = list(rows[offset : offset + RECEIPTS_PAGE_SIZE + 1])
    receipts = []
    for receipt in page[:RECEIPTS_PAGE_SIZE]:
        item_of_memory: dict[str, Any] = next(
            (item for item in receipt.items if str(memory.pk) in (item.get("source_id"), *item.get("memory_ids", ()))),
            {},
        )
        candidates = [item for item in receipt.items if item["layer"] == item_of_memory.get("layer")]
        scores = item_of_memory.get("score_breakdown") or {}
        parts = [(SCORE_LABELS[name], scores.get(name)) for name in WEIGHTED_SCORES]
        receipts.append(
            {
                "receipt": receipt,
                "query": excerpt(receipt.opening, MAX_QUOTE_LENGTH),
                "item": item_of_memory,
                "layer": LAYER_LABELS.get(item_of_memory.get("layer", ""), item_of_memory.get("layer", "")),
                "rank": candidates.index(item_of_memory) + 1 if item_of_memory else 0,
                "candidate_count": len(candidates),
                "reason": reason_label(item_of_memory),
                "parts": [(name, score) for name, score in parts if isinstance(score, int | float)],
            }
        )
    has_more = len(page) > RECEIPTS_PAGE_SIZE
    return {"receipts": receipts, "next_place": offset + RECEIPTS_PAGE_SIZE if has_more else None}


MAX_VALUE_LENGTH: Final = 300
DATE_FIELDS: Final = ("valid_from", "valid_to")
CHOICE_FIELDS: Final = ("kind", "scope_level")
"""Fields with choices, shown by their labels."""


NO_VALUES: Final[tuple[Any, ...]] = (None, "", [], {})


def revision_changes(revision: MemoryRevision, deadline: float) -> list[dict[str, Any]]:
    """Return a revision's changes by field; texts are compared until the deadline."""
    before, after = revision.changed_before, revision.changed_after
    changes = []
    for name in [] if revision.verb == "create" else sorted({*before, *after} - {"locked"}):
        old, new = before.get(name), after.get(name)
        if old in NO_VALUES and new in NO_VALUES:  # older snapshots lack fields that are empty in newer ones
            continue
        diff = inline_diff(old or "", new or "", deadline) if name == "content" else None
        texts = (
            {"before": "", "after": ""}
            if diff
            else {"before": _format_value(name, old), "after": _format_value(name, new)}
        )
        changes.append({"name": FIELD_LABELS.get(name, name), "runs": diff, **texts})
    return changes


def _format_value(name: str, value: Any) -> str:
    if value in NO_VALUES:
        return "–"
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if name in DATE_FIELDS and (moment := parse_datetime(str(value))):
        return full_time(moment)
    if name == "status":
        return str(STATUS_LABELS.get(value, value))
    if name in CHOICE_FIELDS:
        field: Any = Memory._meta.get_field(name)
        return str(dict(field.flatchoices).get(value, value))
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return excerpt(text, MAX_VALUE_LENGTH)
