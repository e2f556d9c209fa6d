"""What the admin's first page counts of memories, of their nights, and of what waits for a person."""

from datetime import datetime, timedelta

from django.utils.translation import gettext_lazy as _

from memoryhub.admin.dashboard import Count, Tile, count
from strength.actions.extraction import messages_waiting
from strength.domain.memories import Status
from strength.domain.merging import MergeState
from strength.models import Memory, Merge, SleepRun


def tiles(now: datetime) -> list[Tile]:
    """Return the figures of the admin's first page."""
    states = [
        (Status.PENDING, _("Pending"), _("memories wait for a curator")),
        (Status.ACTIVE, _("Active"), _("memories may enter contexts")),
        (Status.ARCHIVED, _("Archived"), _("memories are kept aside")),
        (Status.REJECTED, _("Rejected"), _("memories were refused")),
    ]
    return [
        Tile(_("Memories"), count(Memory.objects.all()), _("in all states"), Memory),
        *(
            Tile(title, count(Memory.objects.filter(status=state)), note, Memory, f"?status__exact={state}")
            for state, title, note in states
        ),
        *_nightly_tiles(now),
        _waiting_tile(),
    ]


def _nightly_tiles(now: datetime) -> list[Tile]:
    """Return what waits for a person, and whose memory slept."""
    open_ = Merge.objects.filter(state=MergeState.PROPOSED)
    slept = SleepRun.objects.filter(dry_run=False, now__gte=now - timedelta(hours=24))
    return [
        Tile(_("Merge proposals"), count(open_), _("wait for a curator"), Merge),
        Tile(_("Sleeps"), count(slept), _("in the last 24 hours"), SleepRun, "?dry_run__exact=0"),
    ]


def _waiting_tile() -> Tile:
    """Return how many messages the strategy that is furthest behind has not read."""
    furthest = max(messages_waiting().values(), default=0)
    return Tile(_("Extraction"), Count(furthest), _("messages wait for long-term strategies"), Memory)
