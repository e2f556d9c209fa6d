"""What the admin's first page counts of memories, of their nights, and of what waits for a person."""

from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.dashboard import RECENT, Count, Happening, Section, Tile, count
from memoryhub.admin.titles import named
from strength.actions.extraction import messages_waiting
from strength.actions.review import MOST_COUNTED, memories_that_wait, merges_that_wait
from strength.domain.memories import Source, Status
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
        *_to_decide(now),
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


def _to_decide(now: datetime) -> list[Tile]:
    """Return what waits for a person: what the review queue shows."""
    pending = memories_that_wait()
    return [
        Tile(
            _("Pending"), count(pending), _("memories wait for a curator"), Memory,
            f"?status__exact={Status.PENDING}", section=Section.DECIDE, page="review",
        ),
        Tile(
            _("Merge proposals"), _pairs(now), _("wait for a curator"), Merge, section=Section.DECIDE, page="review"
        ),
    ]  # fmt: skip


def _pairs(now: datetime) -> Count:
    """Return how many pairs wait, as far as the queue counts.

    The planner cannot tell how many of the memories were changed since: its estimate would be of the wrong order.
    """
    number = merges_that_wait(now)[: MOST_COUNTED + 1].count()
    return Count(min(number, MOST_COUNTED), is_estimate=number > MOST_COUNTED)


def _slept_tile(now: datetime) -> Tile:
    """Return whose memory slept."""
    slept = SleepRun.objects.filter(dry_run=False, now__gte=now - timedelta(hours=24))
    query = "?dry_run__exact=0"
    return Tile(
        _("Sleeps"), count(slept), _("in the last 24 hours"), SleepRun, query, section=Section.BACKGROUND
    )


def _waiting_tile() -> Tile:
    """Return how many messages the strategy that is furthest behind has not read; behind it what was drawn so far."""
    furthest = max(messages_waiting().values(), default=0)
    note, drawn = _("messages wait for long-term strategies"), f"?source__exact={Source.EXTRACTION}"
    return Tile(_("Extraction"), Count(furthest), note, Memory, drawn, section=Section.BACKGROUND)


def _sleeps() -> list[Happening]:
    """Return the sleeps of late; their ids are in the order of time."""
    runs = SleepRun.objects.filter(dry_run=False).select_related("actor").order_by("-pk")[:LATEST_SLEEPS]
    return [Happening(run.started_at, _slept(run), run.who_name, SleepRun, run.pk) for run in runs]


def _slept(run: SleepRun) -> str:
    return gettext("%(actor)s slept: %(archived)d archived, %(merged)d merged, %(proposed)d proposed") % {
        "actor": named(run.actor),
        "archived": run.archived_count,
        "merged": run.merged_count,
        "proposed": run.proposed_count,
    }
