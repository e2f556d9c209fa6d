"""What summaries bring into a context: what this session was about so far, else the one before it."""

from conversations.actions.context import LayerRequest
from conversations.domain.layers import SESSION_SUMMARY, Candidate, LayerResult
from summaries.actions.reading import summary_for_context
from summaries.domain.summaries import Generator
from summaries.domain.wording import introduced


def session_summary(request: LayerRequest) -> LayerResult:
    """Offer the session's own summary, else the latest trusted one of a session before it."""
    if not request.policy.include_session_summary:
        return LayerResult()
    summary = summary_for_context(actor_id=request.tenant.actor_id, session=request.session)
    if summary is None:
        return LayerResult()
    text = introduced(
        summary.text,
        language=request.tenant.agent.language if request.tenant.agent else "en",
        is_own=request.session is not None and summary.session_id == request.session.pk,
        is_excerpts=summary.generator == Generator.EXTRACTIVE and not summary.locked,
        ended_at=summary.end_time,
    )
    return LayerResult(
        (
            Candidate(
                layer=SESSION_SUMMARY,
                content=text,
                source_id=str(summary.pk),
                created_at=summary.end_time.isoformat(),
            ),
        )
    )
