"""What a memory's page tells besides its fields: its strength over time, its numbers, its changes, its merges."""

from datetime import datetime
from typing import Any

from django.db.models import Q
from django.http import HttpRequest

from conversations.models import Receipt
from memoryhub.admin.base import excerpt
from memoryhub.tenants.policies import effective_policy
from strength.actions.history import strength_history
from strength.admin.charts import HEIGHT, LEFT, RIGHT, SHAPES, WIDTH, strength_chart
from strength.admin.shown import shown_memories
from strength.admin.words import IMPACTS, MERGE_STATES, POINT_COLOURS, POINTS
from strength.domain.history import PointKind
from strength.domain.policy import StrengthPolicy
from strength.models import Memory, MemoryRevision, Merge

LATEST_RECEIPTS = 10
LATEST_REVISIONS = 50
LATEST_POINTS = 200
LATEST_MERGES = 20


def story_of(request: HttpRequest, memory: Memory, *, now: datetime) -> dict[str, Any]:
    """Return a memory's story; `memory` has its numbers, actor and agent loaded."""
    numbers = getattr(memory, "numbers", None)
    revisions = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory_id=memory.pk)
    sees_receipts = request.user.has_perm("conversations.view_receipt")
    receipts = Receipt.objects.about(memory.actor_id, memory.pk) if sees_receipts else Receipt.objects.none()
    perspectives = list(memory.perspectives.all())
    return {
        "numbers": numbers,
        "perspectives": [(each, each.now(numbers)) for each in perspectives] if numbers else [],
        "impacts": list(IMPACTS.items()),
        "sources": memory.sources.all(),
        "revisions": [_change(revision) for revision in revisions[:LATEST_REVISIONS]],
        "receipts": [
            _part(each, str(memory.pk)) for each in receipts.defer("query", "metadata")[:LATEST_RECEIPTS]
        ],
        **_merges(request, memory),
        **(_over_time(memory, now) if numbers else {}),
    }


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


def _change(revision: MemoryRevision) -> dict[str, Any]:
    names = sorted({*revision.changed_before, *revision.changed_after})
    before, after = revision.changed_before, revision.changed_after
    changes = [] if revision.verb == "create" else [
        {"name": name, "before": _value(before.get(name)), "after": _value(after.get(name))} for name in names
    ]  # fmt: skip
    return {"revision": revision, "changes": changes}


def _value(value: Any) -> str:
    return excerpt(value if isinstance(value, str) else str(value), 300) if value not in (None, "") else "–"


def _part(receipt: Receipt, memory_id: str) -> dict[str, Any]:
    """Return what became of the memory in one receipt."""
    own = [item for item in receipt.items if item.get("source_id") == memory_id]
    return {"receipt": receipt, "item": own[0] if own else {}}
