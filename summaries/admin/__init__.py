"""Screens of summaries and of projects."""

from summaries.admin.documents import DocumentAdmin
from summaries.admin.panels import tiles
from summaries.admin.projects import ProjectAdmin, ProjectEventAdmin
from summaries.admin.routing import RoutingDecisionAdmin
from summaries.admin.summaries import SummaryAdmin

__all__ = [
    "DocumentAdmin",
    "ProjectAdmin",
    "ProjectEventAdmin",
    "RoutingDecisionAdmin",
    "SummaryAdmin",
    "tiles",
]
