"""How a sleep differs from what its preview foresaw (SPEC S6). Reads alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strength.actions.preview import KEPT_FOR
from strength.domain.sleep import ChangeKind
from strength.models import SleepRun

Change = Mapping[str, Any]


@dataclass(frozen=True)
class Compared:
    """The latest preview before a sleep; what happened besides, and what was foreseen and did not happen.

    Fading is left out: every hour between the two changes it.
    """

    preview: SleepRun
    unforeseen: list[Change]
    missed: list[Change]


def foreseen_of(*, run: SleepRun, changes: Sequence[Change]) -> Compared | None:
    """Compare a sleep's changes with its preview; None for a preview, and where nobody looked at one before."""
    if run.dry_run:
        return None
    rows = SleepRun.objects.filter(actor_id=run.actor_id, now__lt=run.now, now__gte=run.now - KEPT_FOR)
    before = rows.exclude(pk=run.pk).order_by("-now", "-id").first()
    if before is None or not before.dry_run:
        return None
    did, foresaw = _weighty(changes), _weighty(before.changes)
    return Compared(
        preview=before,
        unforeseen=[change for key, change in did.items() if key not in foresaw],
        missed=[change for key, change in foresaw.items() if key not in did],
    )


def _weighty(changes: Sequence[Change]) -> dict[tuple[str, str], Change]:
    return {
        (change["change"], change["memory_id"]): change
        for change in changes
        if change["change"] != ChangeKind.DECAY
    }
