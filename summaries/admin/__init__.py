"""Screens of summaries and of projects."""

from summaries.admin.events import ProjectEventAdmin
from summaries.admin.projects import DocumentAdmin, ProjectAdmin
from summaries.admin.routing import RoutingDecisionAdmin
from summaries.admin.sessions import SummaryAdmin, tiles

__all__ = [
    "DocumentAdmin",
    "ProjectAdmin",
    "ProjectEventAdmin",
    "RoutingDecisionAdmin",
    "SummaryAdmin",
    "tiles",
]
