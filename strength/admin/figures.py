"""What the admin's first page counts of memories, of their nights, and of what waits for a person."""

from datetime import datetime, timedelta

from django.db.models import Count as CountRows
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.dashboard import Count, Tile, count
from strength.domain.memories import Status
from strength.domain.merging import MergeState
from strength.models import Memory, Merge, SleepRun


def tiles(now: datetime) -> list[Tile]:
    """Return the figures of the admin's first page."""
    whole = count(Memory.objects.all())
    states = [
        (Status.PENDING, _("Pending"), _("memories wait for a curator")),
        (Status.ACTIVE, _("Active"), _("memories may enter contexts")),
        (Status.ARCHIVED, _("Archived"), _("memories are kept aside")),
        (Status.REJECTED, _("Rejected"), _("memories were refused")),
    ]
    figures = _by_status(whole)
    return [
        Tile(_("Memories"), whole, _("in all states"), Memory),
        *(
            Tile(title, figures[state], note, Memory, f"?status__exact={state}")
            for state, title, note in states
        ),
        *_nightly_tiles(now),
    ]


def _by_status(whole: Count) -> dict[Status, Count]:
    """Return the number of memories in each state: counted together, or estimated where there are very many."""
    if whole.is_estimate:
        return {status: count(Memory.objects.filter(status=status)) for status in Status}
    rows = dict(Memory.objects.order_by().values_list("status").annotate(number=CountRows("pk")))
    return {status: Count(rows.get(status, 0)) for status in Status}


def _nightly_tiles(now: datetime) -> list[Tile]:
    """Return what waits for a person, and whose memory slept."""
    open_ = Merge.objects.filter(state=MergeState.PROPOSED)
    slept = SleepRun.objects.filter(dry_run=False, now__gte=now - timedelta(hours=24))
    return [
        Tile(_("Merge proposals"), count(open_), _("wait for a curator"), Merge),
        Tile(_("Sleeps"), count(slept), _("in the last 24 hours"), SleepRun, "?dry_run__exact=0"),
    ]
