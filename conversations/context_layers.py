"""Context layers of conversations: the last messages, and past messages that answer the user's (SPEC C3, C4)."""

from datetime import tzinfo
from typing import Any, Final

from conversations.actions.context import LayerRequest
from conversations.actions.recall import search_messages
from conversations.domain.layers import RECALL, WORKING, Candidate, LayerResult
from conversations.domain.passages import passages
from conversations.models import Message
from memoryhub.tenancy.policies import zone_of

LONGEST_RECALLED: Final = 400
"""Bytes of one recalled message, about 100 tokens."""

COMPANION_SHARE: Final = 0.05
"""Of the floor, which the best must reach, for those that come with it."""


def working_memory(request: LayerRequest) -> LayerResult:
    """Offer the last spoken messages in time order.

    Those of the session where one is given, filled up from the same actor's earlier sessions while it is young
    ("continue from yesterday"); otherwise of all the actor's sessions.
    """
    actor_id, session = request.tenant.actor_id, request.session
    limit = request.policy.working_memory_limit
    recent: list[Message] = []
    if session is not None:
        own = Message.objects.of([actor_id]).filter(session_id=session.pk).spoken()
        if request.stored_message is not None:
            own = own.filter(seq__lt=request.stored_message.seq)
        recent = list(own.order_by("-seq")[:limit])[::-1]
    if len(recent) < limit:
        rows = Message.objects.of([actor_id]).spoken().believed_in(None)
        if session is not None:
            first = Message.objects.of([actor_id]).filter(session_id=session.pk).order_by("seq").first()
            beginning = first.created_at if first else session.started_at
            rows = rows.exclude(session_id=session.pk).filter(created_at__lte=beginning)
        recent = [*list(rows.order_by("-created_at", "-id")[: limit - len(recent)])[::-1], *recent]
    zone = zone_of(request.tenant.agent, request.tenant.actor)
    return LayerResult(
        tuple(
            _candidate(WORKING, each, zone, is_earlier=session is not None and each.session_id != session.pk)
            for each in recent
        )
    )


def recall(request: LayerRequest) -> LayerResult:
    """Offer past messages that answer the user's, enough for those that working memory takes as well.

    The best decides whether the message is about something that was said: then those that go with it come too, for
    an answer is rarely in one message alone. Of long ones only the sentences that answer.
    """
    policy, query = request.policy, request.query
    if not policy.include_recall or not policy.recall_limit:
        return LayerResult()
    found = search_messages(
        actor_id=request.tenant.actor_id,
        query=query,
        limit=policy.recall_limit + policy.working_memory_limit,
        session_id=request.session.pk if request.session else None,
        floor=policy.recall_relevance_floor * COMPANION_SHARE,
        exclude=request.stored_message,
        payer=request.tenant.payer,
    )
    if not found or found[0].relevance < policy.recall_relevance_floor:
        return LayerResult()
    terms = query.weights_by_term()
    zone = zone_of(request.tenant.agent, request.tenant.actor)
    return LayerResult(
        tuple(
            _candidate(
                RECALL,
                each.message,
                zone,
                text=passages(each.message.content, terms, longest=LONGEST_RECALLED),
                relevance=each.relevance,
                final_score=each.relevance,
                score_breakdown={name: value for name, value in each.breakdown.items() if value is not None},
            )
            for each in found
        )
    )


def _candidate(
    layer: str, message: Message, zone: tzinfo, *, text: str | None = None, **values: Any
) -> Candidate:
    return Candidate(
        layer=layer,
        content=tuple(message.blocks) if message.blocks else text or message.content,
        source_id=str(message.pk),
        role=message.role,
        author=message.author,
        created_at=message.local_time(zone).isoformat(),
        session_id=str(message.session_id),
        **values,
    )
