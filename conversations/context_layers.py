"""What conversations bring into a context: the last messages, and past ones that matter."""

from typing import Any

from conversations.actions.context import LayerRequest
from conversations.actions.recall import FoundMessage, search_messages
from conversations.actions.recall import working_memory as last_messages
from conversations.domain.layers import RECALL, WORKING, Candidate, LayerResult
from conversations.models import Message


def working_memory(request: LayerRequest) -> LayerResult:
    """Offer the last messages of the session, filled up from earlier ones."""
    messages = last_messages(
        actor_id=request.tenant.actor_id,
        session=request.session,
        limit=request.policy.working_memory_limit,
        before=request.answers,
    )
    return LayerResult(tuple(_candidate(WORKING, message) for message in messages))


def recall(request: LayerRequest) -> LayerResult:
    """Offer past messages that answer the user's, as many as might remain after working memory took its own."""
    if not request.policy.include_recall or not request.policy.recall_limit:
        return LayerResult()
    found = search_messages(
        actor_id=request.tenant.actor_id,
        query=request.query,
        limit=request.policy.recall_limit + request.policy.working_memory_limit,
        session_id=request.session.pk if request.session else None,
        floor=request.policy.recall_relevance_floor,
        besides=request.answers,
        payer=request.tenant.payer,
    )
    return LayerResult(tuple(_recalled(each) for each in found))


def _recalled(found: FoundMessage) -> Candidate:
    scores = {name: value for name, value in found.breakdown.items() if value is not None}
    return _candidate(
        RECALL, found.message, relevance=found.relevance, final_score=found.relevance, score_breakdown=scores
    )


def _candidate(layer: str, message: Message, **scores: Any) -> Candidate:
    return Candidate(
        layer=layer,
        content=tuple(message.blocks) if message.blocks else message.content,
        source_id=str(message.pk),
        role=message.role,
        author=message.author,
        created_at=message.created_at.isoformat(),
        **scores,
    )
