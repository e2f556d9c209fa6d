"""What a memory's page tells besides its fields: its text, its strength over time, its changes, what it replaced."""

from datetime import datetime
from typing import Any, Final

from django.db.models import Q
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.html import escape

from memoryhub.admin.base import READ_FOR_EXCERPT, excerpt
from memoryhub.admin.trail import who_did_it
from memoryhub.tenancy.policies import effective_policy
from strength.actions.history import strength_history
from strength.actions.succession import succession_of
from strength.admin.changes import changes_of
from strength.admin.charts import HEIGHT, LEFT, RIGHT, SHAPES, WIDTH, strength_chart
from strength.admin.shown import shown_memories
from strength.admin.sources import sources_of
from strength.admin.words import IMPACTS, MERGE_STATES, POINT_COLOURS, POINTS, STATUSES
from strength.domain.history import PointKind
from strength.domain.policy import StrengthPolicy
from strength.models import Memory, MemoryRevision, Merge

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


def story_of(request: HttpRequest, memory: Memory, *, now: datetime) -> dict[str, Any]:
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
            {**change, "who": who_did_it(each.who_name, each.who_kind)}
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
    shown = shown_memories(request, memory.actor_id, [*others.values(), superseded_by])
    return {
        "merges": [
            {"merge": each, "other": shown[str(other)], "is_kept": each.kept_id == memory.pk,
             "state": MERGE_STATES.get(each.state, each.state)}
            for each, other in others.items()
        ],
        "superseded_by_link": shown.get(str(superseded_by)),
    }  # fmt: skip
