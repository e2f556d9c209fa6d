"""What the admin's first page counts of memories, of their nights, and of what waits for a person."""

from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.dashboard import RECENT, Count, Happening, Section, Tile, count
from strength.actions.extraction import messages_waiting
from strength.domain.memories import Status
from strength.domain.merging import MergeState
from strength.models import Memory, Merge, SleepRun

LATEST_SLEEPS = 4


def tiles(now: datetime) -> list[Tile | Happening]:
    """Return the figures of the admin's first page, and the sleeps of late."""
    memories = Memory.objects.all()
    states = [
        (Status.ACTIVE, _("Active"), _("memories may enter contexts")),
        (Status.ARCHIVED, _("Archived"), _("memories are kept aside")),
        (Status.REJECTED, _("Rejected"), _("memories were refused")),
    ]
    return [
        *_to_decide(),
        Tile(
            _("Memories"), count(memories), _("in all states"), Memory,
            recent=count(memories.filter(created_at__gte=now - RECENT)),
        ),
        *(_of_state(state, title, note) for state, title, note in states),
        _slept_tile(now),
        _waiting_tile(),
        *_sleeps(),
    ]  # fmt: skip


def _of_state(state: Status, title: Any, note: Any) -> Tile:
    return Tile(title, count(Memory.objects.filter(status=state)), note, Memory, f"?status__exact={state}")


def _to_decide() -> list[Tile]:
    """Return what waits for a person."""
    pending, proposed = (
        Memory.objects.filter(status=Status.PENDING),
        Merge.objects.filter(state=MergeState.PROPOSED),
    )
    return [
        Tile(
            _("Pending"), count(pending), _("memories wait for a curator"), Memory,
            f"?status__exact={Status.PENDING}", section=Section.DECIDE, page="review",
        ),
        Tile(
            _("Merge proposals"), count(proposed), _("wait for a curator"), Merge, section=Section.DECIDE, page="review"
        ),
    ]  # fmt: skip


def _slept_tile(now: datetime) -> Tile:
    """Return whose memory slept."""
    slept = SleepRun.objects.filter(dry_run=False, now__gte=now - timedelta(hours=24))
    query = "?dry_run__exact=0"
    return Tile(
        _("Sleeps"), count(slept), _("in the last 24 hours"), SleepRun, query, section=Section.BACKGROUND
    )


def _waiting_tile() -> Tile:
    """Return how many messages the strategy that is furthest behind has not read."""
    furthest = max(messages_waiting().values(), default=0)
    note = _("messages wait for long-term strategies")
    return Tile(_("Extraction"), Count(furthest), note, Memory, section=Section.BACKGROUND)


def _sleeps() -> list[Happening]:
    """Return the sleeps of late; their ids are in the order of time."""
    runs = SleepRun.objects.filter(dry_run=False).select_related("actor").order_by("-pk")[:LATEST_SLEEPS]
    return [Happening(run.started_at, _slept(run), run.who_name, SleepRun, run.pk) for run in runs]


def _slept(run: SleepRun) -> str:
    return gettext("%(actor)s slept: %(archived)d archived, %(merged)d merged, %(proposed)d proposed") % {
        "actor": run.actor,
        "archived": run.archived_count,
        "merged": run.merged_count,
        "proposed": run.proposed_count,
    }
