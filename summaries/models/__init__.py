"""What summaries and projects are kept in."""

from summaries.models.projects import (
    Document,
    DocumentEntry,
    DocumentVersion,
    Project,
    ProjectEvent,
    RoutingDecision,
)
from summaries.models.sessions import Summary, SummaryDraft, SummaryQuerySet, SummaryVersion
from summaries.models.updates import ProjectCursor

__all__ = [
    "Document",
    "DocumentEntry",
    "DocumentVersion",
    "Project",
    "ProjectCursor",
    "ProjectEvent",
    "RoutingDecision",
    "Summary",
    "SummaryDraft",
    "SummaryQuerySet",
    "SummaryVersion",
]
