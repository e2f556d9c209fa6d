"""The figures of summaries and projects on the admin's first page."""

from datetime import datetime, timedelta

from django.utils.translation import gettext_lazy as _

from memoryhub.admin.dashboard import RECENT, Section, Tile, count
from summaries.domain.compaction import Outcome
from summaries.domain.projects import EventKind
from summaries.domain.routing import Confidence
from summaries.models import Project, ProjectEvent, RoutingDecision, Summary

UNDECIDED_FOR = timedelta(days=30)
"""Nobody looks further back: later messages have found their projects since."""

REFUSED = (Outcome.REFUSED, Outcome.TOO_MUCH_PROTECTED)


def tiles(now: datetime) -> list[Tile]:
    """Return the figures of the admin's first page."""
    unsure = RoutingDecision.objects.filter(
        confidence=Confidence.LOW, corrected_at=None, created_at__gte=now - UNDECIDED_FOR
    )
    refused = ProjectEvent.objects.filter(
        kind=EventKind.COMPACT, outcome__in=REFUSED, created_at__gte=now - RECENT
    )
    summaries = Summary.objects.all()
    return [
        Tile(
            _("Unsure routings"), count(unsure), _("of 30 days, that nobody has put right"), RoutingDecision,
            f"?confidence__exact={Confidence.LOW}", section=Section.DECIDE,
        ),
        Tile(
            _("Refused compactions"), count(refused), _("in 7 days: a document stays too long"), ProjectEvent,
            f"?kind__exact={EventKind.COMPACT}", section=Section.DECIDE,
        ),
        Tile(
            _("Summaries"), count(summaries), _("of sessions"), Summary,
            recent=count(summaries.filter(created_at__gte=now - RECENT)),
        ),
        Tile(
            _("Locked summaries"), count(summaries.filter(locked=True)), _("no job rewrites them"), Summary,
            "?locked__exact=1",
        ),
        Tile(_("Projects"), count(Project.objects.all()), _("with their documents"), Project),
    ]  # fmt: skip
