"""Context layers of conversations: the last messages, and past messages that answer the user's (SPEC C3, C4)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Any, Final

from django.db.models import Q

from conversations.actions.context import LayerRequest
from conversations.actions.recall import search_messages
from conversations.domain.content import Block, Content, StoredMessage, calls_in, is_reference, is_text, pair_calls
from conversations.domain.layers import RECALL, WORKING, Candidate, LayerResult
from conversations.domain.messages import Role
from conversations.domain.passages import passages
from conversations.models import SPOKEN, Message, MessageQuerySet, believed_in
from memoryhub.prepared import PreparedQuery

LONGEST_RECALLED: Final = 400
"""Bytes of one recalled message, about 100 tokens."""

EARLIEST: Final = PreparedQuery(lambda: Message.objects.order_by("seq"))
NEWEST: Final = PreparedQuery(lambda: Message.objects.order_by("-created_at", "-id"))

COMPANION_SHARE: Final = 0.05
"""Of the floor, which the best must reach, for those that come with it."""


def working_memory(request: LayerRequest) -> LayerResult:
    """Offer the last spoken messages in time order, each call of a tool with its results.

    Those of the session where one is given, filled up from the same actor's earlier sessions while it is young
    ("continue from yesterday"); otherwise of all the actor's sessions. With caching on the conversation begins in
    steps, and what fills it up stays until the first of them, so that it begins alike from turn to turn.
    """
    asked, policy = request.asked, request.policy
    before, own = _of_session(request)
    room = policy.working_memory_limit - (0 if policy.cache else len(own))
    earlier: list[Message] = []
    if not before and room > 0:
        before, earlier = _latest_of_others(request, room)
    candidates = _conversation(request, [*earlier, *own], before)
    if asked.results is not None and asked.stored_message is not None:
        rows = _said(request).filter(session_id=asked.results.session_id)
        since = rows.filter(seq__gt=asked.stored_message.seq, seq__lte=asked.results.seq)
        said = _conversation(request, list(since.spoken().order_by("seq")), [])
        candidates += [replace(each, is_current=True) for each in said]
    return LayerResult(tuple(candidates))


def _said(request: LayerRequest) -> MessageQuerySet:
    return Message.objects.of([request.tenant.actor_id]).current()


def _of_session(request: LayerRequest) -> tuple[list[Message], list[Message]]:
    """Return messages before the session's latest ones, if there are any, and these."""
    policy, limit = request.policy, request.policy.working_memory_limit
    latest = request.latest[-(policy.most_turns + 1) :]
    first = policy.window_start(latest[-limit].seq) if len(latest) >= limit else 0
    return [row for row in latest if row.seq < first], [row for row in latest if row.seq >= first]


def _latest_of_others(request: LayerRequest, limit: int) -> tuple[list[Message], list[Message]]:
    """Return the message before the latest ones of earlier sessions, if there is one, and these."""
    session, of_actor = request.asked.session, Q(actor_id=request.tenant.actor_id)
    said = of_actor & SPOKEN & believed_in(None)
    if session is not None:
        first = EARLIEST.first(of_actor & Q(session_id=session.pk))
        beginning = first.created_at if first else session.started_at
        said &= ~Q(session_id=session.pk) & Q(created_at__lte=beginning)
    latest = NEWEST.rows(said, most=limit + 1)[::-1]
    return latest[:-limit], latest[-limit:]


def _conversation(request: LayerRequest, spoken: Sequence[Message], before: Sequence[Message]) -> list[Candidate]:
    """Return the candidates of messages in their order, the results of tools with the calls; `before` came before."""
    rows = _with_results(request, spoken)
    session = request.asked.session
    said = pair_calls([StoredMessage(str(row.session_id), row.role, tuple(row.blocks or ())) for row in rows])
    candidates: list[Candidate] = []
    known = {row.session_id for row in before}
    for place, blocks in said:
        row = rows[place]
        is_answer = row.role == Role.ASSISTANT and row.session_id in known
        known.add(row.session_id)
        is_earlier = session is not None and row.session_id != session.pk
        content = blocks or row.content
        candidates.append(_candidate(WORKING, row, request.zone, content, is_earlier=is_earlier, is_answer=is_answer))
    return candidates


def _with_results(request: LayerRequest, spoken: Sequence[Message]) -> list[Message]:
    """Return messages with those of the role `tool` that follow them in their sessions."""
    calling = [row for row in spoken if calls_in(row.blocks)]
    if not calling:
        return list(spoken)
    results = _said(request).filter(role=Role.TOOL, session_id__in={row.session_id for row in calling})
    results = results.believed_in(request.asked.session.pk if request.asked.session else None)
    results = results.filter(seq__gt=min(row.seq for row in calling)).order_by("session_id", "seq")
    following: dict[int, list[Message]] = defaultdict(list)
    for result in results:
        places = [
            place for place, row in enumerate(spoken) if row.session_id == result.session_id and row.seq < result.seq
        ]
        if places:
            following[places[-1]].append(result)
    return [each for place, row in enumerate(spoken) for each in (row, *following[place])]


def recall(request: LayerRequest) -> LayerResult:
    """Offer past messages that answer the user's, enough for those that working memory takes as well.

    The best decides whether the message is about something that was said: then those that go with it come too, for
    an answer is rarely in one message alone. Of long ones only the sentences that answer.
    """
    asked, policy, query = request.asked, request.policy, request.query
    if not policy.include_recall or not policy.recall_limit:
        return LayerResult()
    among = Q() if asked.stored_message is None else ~Q(message_id=asked.stored_message.pk)
    found = search_messages(
        actor_id=request.tenant.actor_id,
        query=query,
        limit=policy.recall_limit + policy.working_memory_limit,
        session_id=asked.session.pk if asked.session else None,
        floor=policy.recall_relevance_floor * COMPANION_SHARE,
        among=among,
        payer=request.tenant.payer,
    )
    if not found or found[0].relevance < policy.recall_relevance_floor:
        return LayerResult()
    terms = query.weights_by_term()
    return LayerResult(
        tuple(
            _candidate(
                RECALL,
                each.message,
                request.zone,
                _shown_blocks(each.message) or passages(each.message.content, terms, longest=LONGEST_RECALLED),
                relevance=each.relevance,
                final_score=each.relevance,
                score_breakdown={name: value for name, value in each.breakdown.items() if value is not None},
            )
            for each in found
        )
    )


def _shown_blocks(message: Message) -> tuple[Block, ...]:
    """Return the blocks of a message with images or files, without its use of tools; () for text alone."""
    shown = tuple(block for block in message.blocks or () if is_text(block) or is_reference(block))
    return () if all(map(is_text, shown)) else shown


def _candidate(layer: str, message: Message, zone: tzinfo, content: Content, **values: Any) -> Candidate:
    return Candidate(
        layer=layer,
        content=content,
        source_id=str(message.pk),
        role=message.role,
        author=message.author,
        created_at=message.local_time(zone).isoformat(),
        session_id=str(message.session_id),
        **values,
    )
