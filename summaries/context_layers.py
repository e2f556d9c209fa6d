"""What summaries bring into a context: what this session was about so far, else the one before it; and a project."""

from conversations.actions.context import LayerRequest
from conversations.domain.layers import PROJECT, SESSION_SUMMARY, Candidate, LayerResult
from memoryhub.tenancy.policies import effective_policy
from summaries.actions.injection import Brought, project_for_context
from summaries.actions.reading import summary_for_context
from summaries.domain.project_policy import ProjectPolicy
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


def project(request: LayerRequest) -> LayerResult:
    """Offer the documents of the project that the request names, or that a router found."""
    if not request.project or not request.policy.include_project:
        return LayerResult()
    policy = effective_policy(ProjectPolicy, request.tenant.agent, request.tenant.actor)
    brought = project_for_context(
        actor_id=request.tenant.actor_id,
        name=request.project,
        query=request.query,
        most_searched_tokens=policy.project_search_tokens,
        is_trial=request.is_trial,
        now=request.now,
    )
    return LayerResult(tuple(_document(each) for each in brought))


def _document(brought: Brought) -> Candidate:
    return Candidate(
        layer=PROJECT,
        content=brought.text,
        source_id=str(brought.document_id),
        title=brought.name,
        created_at=brought.updated_at.isoformat(),
        relevance=brought.relevance,
    )
