"""Changes of a sleep run by kind, most important first, and their comparison with the preview."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.object_actions import change_url, submitted_number
from strength.actions.sleep_runs import compare_with_preview
from strength.admin.labels import CHANGE_COLOURS, CHANGES, WHYS
from strength.admin.memory_detail import memory_links
from strength.domain.sleep import ChangeKind
from strength.models import Memory, SleepRun

MOST_OF_KIND: Final = 20
"""Changes of a kind on the first page; each kind has pages of its own."""

MOST_ON_A_PAGE: Final = 100
KINDS: Final = (
    ChangeKind.ARCHIVE,
    ChangeKind.MERGE,
    ChangeKind.PROPOSE_MERGE,
    ChangeKind.LEVEL,
    ChangeKind.DECAY,
)
KEPT_BY_PINNING: Final = frozenset({ChangeKind.ARCHIVE, ChangeKind.DECAY})

FIGURES: Final = (
    _("Decayed"),
    _("Archived"),
    _("Level changed"),
    _("Merged"),
    _("Proposed to be merged"),
)


def figures_of(run: SleepRun) -> list[tuple[Any, int]]:
    counts = (
        run.decayed_count, run.archived_count, run.consolidated_count, run.merged_count, run.proposed_count
    )  # fmt: skip
    return list(zip(FIGURES, counts, strict=True))


def groups_of(request: HttpRequest, run: SleepRun, changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the changes by kind, most important first, or a page of the requested kind."""
    wanted = request.GET.get("kind", "")
    by_kind = {kind: [each for each in changes if each["change"] == kind] for kind in KINDS}
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
            "label": CHANGES[kind],
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


def as_foreseen(request: HttpRequest, run: SleepRun, changes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how a run differs from its preview, where there was one."""
    compared = compare_with_preview(run=run, changes=changes)
    if compared is None:
        return {"preview": None}
    lists = {"unforeseen": compared.unforeseen, "missed": compared.missed}
    return {
        "preview": change_url(compared.preview),
        "is_as_foreseen": not any(lists.values()),
        **{name: _shown_changes(request, run, rows[:MOST_OF_KIND]) for name, rows in lists.items()},
        **{f"{name}_count": len(rows) for name, rows in lists.items()},
    }


def _shown_changes(
    request: HttpRequest, run: SleepRun, changes: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    keys = [change.get(name) for change in changes for name in ("memory_id", "into")]
    memories = memory_links(request, run.actor_id, keys) if changes else {}
    pinned = _pinned(run, changes) if run.dry_run else set()
    return [
        {
            **change,
            "memory": memories[change["memory_id"]],
            "into": memories.get(change.get("into", "")),
            "label": CHANGES.get(change["change"], change["change"]),
            "colour": CHANGE_COLOURS.get(change["change"], ""),
            "why": WHYS.get(change["why"], change["why"]),
            "percent": round(100 * change["likeness"]) if "likeness" in change else None,
            "is_pinned": change["memory_id"] in pinned,
            "may_be_kept": change["change"] in KEPT_BY_PINNING,
        }
        for change in changes
    ]


def _pinned(run: SleepRun, changes: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the memories that are pinned by now: a sleep run skips them."""
    keys = [change["memory_id"] for change in changes]
    rows = Memory.objects.of([run.actor_id]).filter(pk__in=keys, pinned=True)
    return {str(key) for key in rows.values_list("pk", flat=True)}
