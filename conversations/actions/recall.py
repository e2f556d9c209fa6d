"""Past messages: the last ones in time order, and those that answer a query (SPEC C3, C4)."""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db.models import Func

from conversations.domain.messages import named, without_names
from conversations.models import Message, MessageIndex, Session, believed_in
from memoryhub.embeddings.spaces import about_somebody
from memoryhub.llm.usage.domain import NOBODY, Payer
from memoryhub.search.query import Conversation, SearchQuery, candidates

# Messages rank by relevance alone, so the floors only keep apart what shares nothing with the query.
SIMILARITY_THRESHOLD = 0.3
WORD_FLOOR = 0.05
# The names of a thousand conversations of two. To read and compare so many takes 5 ms, and whom a question
# names has mostly been heard of lately.
NEWEST_NAMES = 2_000
CONVERSATION = Conversation(session="session_id", sequence="seq", asks="asks", author="author")


@dataclass(frozen=True)
class FoundMessage:
    """A past message with the scores that brought it here; relevance includes its neighbours' share."""

    message: Message
    similarity_raw: float | None
    word_raw: float | None
    own_relevance: float
    relevance: float

    @property
    def breakdown(self) -> dict[str, float | None]:
        """Return the scores by name; `own_relevance` is that before neighbours, questions and speakers count."""
        return {
            "similarity_raw": self.similarity_raw,
            "word_raw": self.word_raw,
            "own_relevance": self.own_relevance,
            "relevance": self.relevance,
        }


def search_messages(
    *,
    actor_id: UUID,
    query: SearchQuery,
    limit: int,
    session_id: UUID | None = None,
    floor: float = 0.0,
    besides: Message | None = None,
    payer: Payer = NOBODY,
) -> list[FoundMessage]:
    """Return an actor's past messages that answer a query, most relevant first.

    Untrusted messages are left out unless they are of the given session (SPEC M10), as is what is
    less relevant than `floor`, and the message `besides` which it is for. `payer` pays for the query without names.
    """
    if limit < 1:
        return []
    rows = MessageIndex.objects.filter(believed_in(session_id), actor_id=actor_id)
    if besides is not None:
        rows = rows.exclude(message_id=besides.pk)
    about = named(query.text, _authors(actor_id)) if query.text else frozenset()
    if about:
        query = about_somebody(query, without_names(query.text, about), payer=payer)
    nominees = candidates(
        rows, query,
        similarity_threshold=SIMILARITY_THRESHOLD, word_floor=WORD_FLOOR, limit=limit,
        conversation=replace(CONVERSATION, about=next(iter(about)) if len(about) == 1 else None),
    ).best  # fmt: skip
    messages = (
        Message.objects.of([actor_id]).select_related("session").in_bulk([each.owner_id for each in nominees])
    )
    return [
        FoundMessage(
            messages[each.owner_id], each.similarity_raw, each.word_raw, each.own_relevance, each.relevance
        )
        for each in nominees
        if each.relevance >= floor and each.owner_id in messages
    ]


def _authors(actor_id: UUID) -> set[str]:
    """Return who spoke by name to this actor, in the newest sessions first; at most NEWEST_NAMES."""
    sessions = Session.objects.filter(actor_id=actor_id).exclude(authors=[]).order_by("-started_at", "-id")
    names = sessions.annotate(name=Func("authors", function="unnest")).values_list("name", flat=True)
    return set(names[:NEWEST_NAMES])


def working_memory(
    *, actor_id: UUID, session: Session | None, limit: int, before: Message | None = None
) -> list[Message]:
    """Return the last `limit` spoken messages in time order.

    Of the session where one is given, filled up from the same actor's earlier sessions while it is
    young ("continue from yesterday"); otherwise of all the actor's sessions. With `before`, a message of the session,
    of what was said before it.
    """
    if session is None:
        return _earlier(actor_id, None, limit)
    own = Message.objects.of([actor_id]).filter(session_id=session.pk).spoken()
    if before is not None:
        own = own.filter(seq__lt=before.seq)
    recent = list(own.order_by("-seq")[:limit])[::-1]
    return [*_earlier(actor_id, session, limit - len(recent)), *recent]


def _earlier(actor_id: UUID, session: Session | None, limit: int) -> list[Message]:
    if limit < 1:
        return []
    rows = Message.objects.of([actor_id]).spoken().believed_in(None)
    if session is not None:
        rows = rows.exclude(session_id=session.pk).filter(created_at__lte=_beginning(actor_id, session))
    return list(rows.order_by("-created_at", "-id")[:limit])[::-1]


def _beginning(actor_id: UUID, session: Session) -> datetime:
    first = Message.objects.of([actor_id]).filter(session_id=session.pk).order_by("seq").first()
    return first.created_at if first else session.started_at
