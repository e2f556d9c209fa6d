"""Changes of a sleep run on its page, by kind, and how they differ from its preview (SPEC W4)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.http import HttpRequest
from django.utils.text import capfirst

from memoryhub.admin.object_actions import change_url, submitted_number
from strength.actions.sleep_runs import compare_with_preview
from strength.admin.labels import CHANGE_COLOURS, CHANGE_LABELS, MERGE_STATE_LABELS, SLEEP_REASON_LABELS
from strength.admin.memory_detail import memory_links
from strength.domain.sleep import CHANGE_ORDER, ChangeKind, MergeState
from strength.models import Memory, SleepRun

MAX_CHANGES_PER_KIND: Final = 20
"""Changes of a kind on the first page; each kind is paginated."""


PAGE_SIZE: Final = 100


KEPT_BY_PINNING: Final = frozenset({ChangeKind.ARCHIVE, ChangeKind.HOLD, ChangeKind.DECAY})


def change_groups(request: HttpRequest, run: SleepRun, changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the changes by kind: the first of each, or a page of the kind in the query string."""
    requested_kind = request.GET.get("kind", "")
    visible = [change for change in changes if not _is_invisible(change)]
    by_kind = {kind: [change for change in visible if change["change"] == kind] for kind in CHANGE_ORDER}
    is_narrowed = bool(by_kind.get(requested_kind))  # type: ignore[call-overload]
    size = PAGE_SIZE if is_narrowed else MAX_CHANGES_PER_KIND
    page_number = max(1, submitted_number(request, "page") or 1) if is_narrowed else 1
    pages = {
        kind: changes_of_kind[(page_number - 1) * size : page_number * size]
        for kind, changes_of_kind in by_kind.items()
        if changes_of_kind and (kind == requested_kind or not is_narrowed)
    }
    rows_of_page = _shown_changes(request, run, [change for page_changes in pages.values() for change in page_changes])
    return [
        {
            "kind": str(kind),
            "label": capfirst(CHANGE_LABELS[kind]),  # the heading of a card
            "colour": CHANGE_COLOURS[kind],
            "count": len(by_kind[kind]),
            "changes": [change for change in rows_of_page if change["change"] == kind],
            "left_out": 0 if is_narrowed else len(by_kind[kind]) - len(page_changes),
            "page": page_number if is_narrowed else None,
            "pages": -(-len(by_kind[kind]) // size),
            "earlier": page_number - 1 if is_narrowed and page_number > 1 else None,
            "later": page_number + 1 if is_narrowed and page_number * size < len(by_kind[kind]) else None,
        }
        for kind, page_changes in pages.items()
    ]


def _is_invisible(change: Mapping[str, Any]) -> bool:
    """Return whether the decay is too small for the page's decimals."""
    return bool(change["change"] == ChangeKind.DECAY and round(change["before"], 3) == round(change["after"], 3))


def preview_comparison(request: HttpRequest, run: SleepRun, changes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the differences between a run and its preview, if there was one."""
    comparison = compare_with_preview(run=run, changes=changes)
    if comparison is None:
        return {"preview": None}
    preview, unexpected, missed = comparison
    return {
        "preview": change_url(preview),
        "matches_preview": not unexpected and not missed,
        "unexpected": _shown_changes(request, run, unexpected[:MAX_CHANGES_PER_KIND]),
        "unexpected_count": len(unexpected),
        "missed": _shown_changes(request, run, missed[:MAX_CHANGES_PER_KIND]),
        "missed_count": len(missed),
    }


def _shown_changes(request: HttpRequest, run: SleepRun, changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    keys = [change.get(name) for change in changes for name in ("memory_id", "into")]
    memories = memory_links(request, keys) if changes else {}
    pinned: set[str] = set()
    if run.dry_run or run.held_count:  # a sleep run skips memories pinned since
        rows = Memory.objects.of([run.actor_id]).filter(pk__in=[change["memory_id"] for change in changes])
        pinned = {str(key) for key in rows.filter(pinned=True).values_list("pk", flat=True)}
    return [
        {
            **change,
            "memory": memories[change["memory_id"]],
            "into": memories.get(change.get("into", "")),
            "label": CHANGE_LABELS.get(change["change"], change["change"]),
            "colour": CHANGE_COLOURS.get(change["change"], ""),
            "why": SLEEP_REASON_LABELS.get(change["why"], change["why"]),
            # Only for proposals decided since; open ones, and merges by the run, have no label.
            "decided": MERGE_STATE_LABELS.get(change.get("state"), "")
            if change["change"] == ChangeKind.PROPOSE_MERGE and change.get("state") != MergeState.PROPOSED
            else "",
            "percent": round(100 * change["likeness"]) if "likeness" in change else None,
            "is_pinned": change["memory_id"] in pinned,
            "may_be_kept": change["change"] in KEPT_BY_PINNING and (run.dry_run or change["change"] == ChangeKind.HOLD),
        }
        for change in changes
    ]
