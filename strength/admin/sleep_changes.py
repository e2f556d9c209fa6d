"""The changes of a sleep run as its page shows them: by kind, by pages, and beside what its preview listed."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.http import HttpRequest
from django.utils.text import capfirst

from memoryhub.admin.object_actions import change_url, submitted_number
from strength.actions.sleep_runs import compare_with_preview
from strength.admin.labels import CHANGE_COLOURS, CHANGES, MERGE_STATES, SLEEP_REASONS
from strength.admin.memory_detail import memory_links
from strength.domain.sleep import CHANGE_ORDER, ChangeKind, MergeState
from strength.models import Memory, SleepRun

PROPOSED: Final = MergeState.PROPOSED
MOST_OF_KIND: Final = 20
"""Changes of a kind on the first page; each kind has pages of its own."""

MOST_ON_A_PAGE: Final = 100
KEPT_BY_PINNING: Final = frozenset({ChangeKind.ARCHIVE, ChangeKind.DECAY})


def change_groups(
    request: HttpRequest, run: SleepRun, changes: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return what the page shows of each kind of change: some of every kind, or a page of the one asked for."""
    wanted = request.GET.get("kind", "")
    visible = [each for each in changes if not _is_invisible(each)]
    by_kind = {kind: [each for each in visible if each["change"] == kind] for kind in CHANGE_ORDER}
    is_narrowed = bool(by_kind.get(wanted))  # type: ignore[call-overload]
    size = MOST_ON_A_PAGE if is_narrowed else MOST_OF_KIND
    page = max(1, submitted_number(request, "page") or 1) if is_narrowed else 1
    parts = {
        kind: rows[(page - 1) * size : page * size]
        for kind, rows in by_kind.items()
        if rows and (kind == wanted or not is_narrowed)
    }
    shown = _shown_changes(request, run, [each for part in parts.values() for each in part])
    return [
        {
            "kind": str(kind),
            "label": capfirst(CHANGES[kind]),  # the heading of a card
            "colour": CHANGE_COLOURS[kind],
            "count": len(by_kind[kind]),
            "changes": [each for each in shown if each["change"] == kind],
            "left_out": 0 if is_narrowed else len(by_kind[kind]) - len(part),
            "page": page if is_narrowed else None,
            "pages": -(-len(by_kind[kind]) // size),
            "earlier": page - 1 if is_narrowed and page > 1 else None,
            "later": page + 1 if is_narrowed and page * size < len(by_kind[kind]) else None,
        }
        for kind, part in parts.items()
    ]


def _is_invisible(change: Mapping[str, Any]) -> bool:
    """Return whether it is a loss that the page's figures would not show."""
    return bool(
        change["change"] == ChangeKind.DECAY and round(change["before"], 3) == round(change["after"], 3)
    )


def preview_comparison(
    request: HttpRequest, run: SleepRun, changes: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return how a run differs from the preview that was made for it; without one, only that there is none."""
    compared = compare_with_preview(run=run, changes=changes)
    if compared is None:
        return {"preview": None}
    preview, unforeseen, missed = compared
    return {
        "preview": change_url(preview),
        "is_as_foreseen": not unforeseen and not missed,
        "unforeseen": _shown_changes(request, run, unforeseen[:MOST_OF_KIND]),
        "unforeseen_count": len(unforeseen),
        "missed": _shown_changes(request, run, missed[:MOST_OF_KIND]),
        "missed_count": len(missed),
    }


def _shown_changes(
    request: HttpRequest, run: SleepRun, changes: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    keys = [change.get(name) for change in changes for name in ("memory_id", "into")]
    memories = memory_links(request, run.actor_id, keys) if changes else {}
    pinned: set[str] = set()
    if run.dry_run:  # a sleep run skips what is pinned by now
        rows = Memory.objects.of([run.actor_id]).filter(pk__in=[each["memory_id"] for each in changes])
        pinned = {str(key) for key in rows.filter(pinned=True).values_list("pk", flat=True)}
    return [
        {
            **change,
            "memory": memories[change["memory_id"]],
            "into": memories.get(change.get("into", "")),
            "label": CHANGES.get(change["change"], change["change"]),
            "colour": CHANGE_COLOURS.get(change["change"], ""),
            "why": SLEEP_REASONS.get(change["why"], change["why"]),
            "decided": MERGE_STATES.get(change.get("state"), "") if _is_decided(change) else "",
            "percent": round(100 * change["likeness"]) if "likeness" in change else None,
            "is_pinned": change["memory_id"] in pinned,
            "may_be_kept": change["change"] in KEPT_BY_PINNING,
        }
        for change in changes
    ]


def _is_decided(change: Mapping[str, Any]) -> bool:
    """Return whether somebody has decided on a proposal since."""
    return bool(change["change"] == ChangeKind.PROPOSE_MERGE and change.get("state", PROPOSED) != PROPOSED)
