"""What summaries are kept in."""

from summaries.models.sessions import Summary, SummaryDraft, SummaryQuerySet, SummaryVersion

__all__ = ["Summary", "SummaryDraft", "SummaryQuerySet", "SummaryVersion"]
