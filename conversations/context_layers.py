"""Context layers of conversations: the latest messages, and past messages relevant to the user's (SPEC C3, C4)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import tzinfo
from operator import itemgetter
from typing import Any, Final

from django.db.models import Q

from conversations.actions.context import LayerRequest
from conversations.actions.recall import search_messages
from conversations.domain.content import Block, Content, StoredMessage, calls_in, is_reference, is_text, pair_calls
from conversations.domain.layers import RECALL, WORKING, Candidate, LayerResult
from conversations.domain.messages import Role, ShownMessage, day_words, past_days_asked
from conversations.domain.passages import passages
from conversations.domain.policy import OF_USER
from conversations.models import SPOKEN, Message, MessageQuerySet, Session, believed_in
from memoryhub.auth.screening import Screening
from memoryhub.db.prepared import PreparedQuery
from memoryhub.embeddings.spaces import active_space
from memoryhub.search.analysis import is_unspaced
from memoryhub.search.query import SearchQuery, build_query
from memoryhub.search.query_text import QueryText

MAX_RECALLED_BYTES: Final = 400
"""Per recalled message, about 100 tokens."""

MAX_QUOTED_BYTES: Final = 600
"""Per message of an untrusted writer in a trusted session, about 150 tokens."""

EARLIEST: Final = PreparedQuery(lambda: Message.objects.order_by("seq"))
NEWEST: Final = PreparedQuery(lambda: Message.objects.order_by("-created_at", "-id"))

SECONDARY_FLOOR_SHARE: Final = 0.05
"""Relevance floor of all but the best message, as a share of the policy's floor, which the best must reach."""


def working_memory(request: LayerRequest) -> LayerResult:
    """Offer the latest messages of users and assistants in time order, each tool call with its results.

    From the session, if there is one, filled up from the actor's earlier sessions while it is short; otherwise from all
    sessions of the actor. With caching, the window moves in steps, and the messages of earlier sessions stay until the
    first of them, so that the prompt's beginning is the same from turn to turn. Where the client shows the
    conversation, that is it.
    """
    context, policy = request.context, request.policy
    if context.shown is not None:
        return LayerResult(tuple(_shown_candidates(context.shown, context.session)))
    before, own = _session_window(request)
    remaining = policy.working_memory_limit - (0 if policy.cache else len(own))
    earlier: list[Message] = []
    if not before and remaining > 0 and policy.working_memory_scope == OF_USER:
        before, earlier = _earlier_window(request, remaining)
    candidates = _with_quotes(request, _conversation(request, [*earlier, *own], before), own)
    if context.results is not None and context.stored_message is not None:
        rows = _branch_messages(request).filter(session_id=context.results.session_id)
        since = rows.filter(seq__gt=context.stored_message.seq, seq__lte=context.results.seq)
        current = _conversation(request, list(since.spoken().order_by("seq")), [])
        candidates += [replace(each, is_current=True) for each in current]
    return LayerResult(tuple(candidates))


def _shown_candidates(shown: Sequence[ShownMessage], session: Session | None) -> Iterator[Candidate]:
    """Yield what the client shows, in its order, each tool call with its results."""
    key = str(session.pk) if session else ""
    messages = [StoredMessage(key, each.message.role, tuple(each.message.blocks or ())) for each in shown]
    has_question = False
    for place, blocks in pair_calls(messages):
        message = shown[place].message
        yield Candidate(
            layer=WORKING,
            content=blocks or message.content,
            source_id=shown[place].source_id,
            role=message.role,
            author=message.author,
            session_id=key,
            is_answer=message.role == Role.ASSISTANT and has_question,
            is_current=shown[place].is_current,
            is_shown=True,
        )
        has_question = has_question or message.role == Role.USER


def _with_quotes(request: LayerRequest, turns: list[Candidate], own: Sequence[Message]) -> list[Candidate]:
    """Return turns with the messages of untrusted writers since the session's first turn, in time order.

    A trusted caller's model reads them as quotes, whatever role they were stored with.
    """
    first = own[0].seq if own else 0
    rows = {str(row.pk): row.seq for row in own}
    quotes = [
        (row.seq, replace(_candidate(WORKING, row, request.zone, _beginning(row)), is_doubted=True))
        for row in request.doubted
        if row.seq > first and row.content
    ]
    placed, latest = [], -1
    for turn in turns:
        latest = max(latest, rows.get(turn.source_id or "", latest))
        placed.append((latest, turn))
    return [turn for _seq, turn in sorted([*placed, *quotes], key=itemgetter(0))]


def _beginning(row: Message) -> str:
    return passages(row.content, {}, limit=MAX_QUOTED_BYTES)


def _branch_messages(request: LayerRequest) -> MessageQuerySet:
    return Message.objects.of([request.tenant.actor_id]).current()


def _session_window(request: LayerRequest) -> tuple[list[Message], list[Message]]:
    """Return the session's messages before its window, and those in it."""
    policy, limit = request.policy, request.policy.working_memory_limit
    latest = [row for row in request.latest if isinstance(row, Message)][-(policy.most_turns + 1) :]
    first = policy.window_start(latest[-limit].seq) if len(latest) >= limit else 0
    return [row for row in latest if row.seq < first], [row for row in latest if row.seq >= first]


def _earlier_window(request: LayerRequest, limit: int) -> tuple[list[Message], list[Message]]:
    """Return the message before the latest ones of earlier sessions, if any, and these."""
    session, of_actor = request.context.session, Q(actor_id=request.tenant.actor_id)
    where = of_actor & SPOKEN & believed_in(None)
    if session is not None:
        first = EARLIEST.first(of_actor & Q(session_id=session.pk))
        beginning = first.created_at if first else session.started_at
        where &= ~Q(session_id=session.pk) & Q(created_at__lte=beginning)
    latest = NEWEST.rows(where, limit=limit + 1)[::-1]
    screening = Screening(request.tenant.actor)
    return latest[:-limit], [row for row in latest[-limit:] if not screening.withholds(row.content)]


def _conversation(request: LayerRequest, spoken: Sequence[Message], before: Sequence[Message]) -> list[Candidate]:
    """Return the candidates of messages in order, tool results with their calls; `before` are earlier messages."""
    rows = _with_results(request, spoken)
    session = request.context.session
    paired = pair_calls([StoredMessage(str(row.session_id), row.role, tuple(row.blocks or ())) for row in rows])
    candidates: list[Candidate] = []
    begun = {row.session_id for row in before}
    for place, blocks in paired:
        row = rows[place]
        is_answer = row.role == Role.ASSISTANT and row.session_id in begun
        begun.add(row.session_id)
        is_earlier = session is not None and row.session_id != session.pk
        content = blocks or row.content
        candidates.append(_candidate(WORKING, row, request.zone, content, is_earlier=is_earlier, is_answer=is_answer))
    return candidates


def _with_results(request: LayerRequest, spoken: Sequence[Message]) -> list[Message]:
    """Return messages with the `tool` messages that follow them in their sessions."""
    calling = [row for row in spoken if calls_in(row.blocks)]
    if not calling:
        return list(spoken)
    results = _branch_messages(request).filter(role=Role.TOOL, session_id__in={row.session_id for row in calling})
    results = results.believed_in(request.context.session.pk if request.context.session else None)
    results = results.filter(seq__gt=min(row.seq for row in calling)).order_by("session_id", "seq")
    following: dict[int, list[Message]] = defaultdict(list)
    sent = request.context.results  # as the client sent it, also a secret that is not stored
    for result in (sent if sent is not None and row == sent else row for row in results):
        places = [
            place for place, row in enumerate(spoken) if row.session_id == result.session_id and row.seq < result.seq
        ]
        if places:
            following[places[-1]].append(result)
    return [each for place, row in enumerate(spoken) for each in (row, *following[place])]


def recall(request: LayerRequest) -> LayerResult:
    """Offer past messages relevant to the user's, in addition to those that working memory may hold.

    If the best reaches the policy's relevance floor, less relevant ones are offered too, as answers are rarely in one
    message. Long ones are reduced to their relevant sentences.
    """
    context, policy = request.context, request.policy
    if not policy.include_recall or not policy.recall_limit:
        return LayerResult()
    query = _query_with_days(request)
    among = Q() if context.stored_message is None else ~Q(message_id=context.stored_message.pk)
    found = search_messages(
        actor_id=request.tenant.actor_id,
        query=query,
        limit=policy.recall_limit + policy.working_memory_limit,
        session_id=context.session.pk if context.session and not request.trusts_session else None,
        floor=policy.recall_relevance_floor * SECONDARY_FLOOR_SHARE,
        conditions=among,
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
                _shown_blocks(each.message) or passages(each.message.content, terms, limit=MAX_RECALLED_BYTES),
                relevance=each.relevance,
                final_score=each.relevance,
                score_breakdown={name: value for name, value in each.breakdown.items() if value is not None},
            )
            for each in found
        )
    )


def _query_with_days(request: LayerRequest) -> SearchQuery:
    """Return the query with the dates of days such as "yesterday" among its words, as messages are found by dates."""
    message = request.context.message
    days = past_days_asked(message, today=request.now.astimezone(request.zone).date())
    if not days:
        return request.query
    dates = " ".join(day_words(day, unspaced=is_unspaced(message)) for day in days)
    turns = [(each.role, each.content) for each in reversed(request.latest)]
    text = QueryText.of_message(f"{message} {dates}", turns)
    query = build_query(text, request.query.vector, space=active_space(), actor_id=request.tenant.payer.actor_id)
    return replace(query, parts=request.query.parts)


def _shown_blocks(message: Message) -> tuple[Block, ...]:
    """Return the text, image and file blocks of a message; () for text only."""
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
