"""Screens of summaries and of projects."""

from summaries.admin.documents import DocumentAdmin
from summaries.admin.events import ProjectEventAdmin
from summaries.admin.figures import tiles
from summaries.admin.projects import ProjectAdmin
from summaries.admin.routing import RoutingDecisionAdmin
from summaries.admin.sessions import SummaryAdmin

__all__ = [
    "DocumentAdmin",
    "ProjectAdmin",
    "ProjectEventAdmin",
    "RoutingDecisionAdmin",
    "SummaryAdmin",
    "tiles",
]
