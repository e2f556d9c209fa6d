"""Search past messages that answer a query (SPEC C4)."""

from dataclasses import dataclass, replace
from uuid import UUID

from django.db.models import Func, Q

from conversations.domain.messages import named_authors, without_names
from conversations.models import Message, MessageIndex, Session, believed_in
from memoryhub.db.prepared import PreparedQuery
from memoryhub.embeddings.spaces import with_vector_of
from memoryhub.llm.usage.caps import NOBODY, Payer
from memoryhub.search.query import Conversation, SearchQuery, candidates

# Messages rank by relevance alone, so the floors only exclude those that share nothing with the query.
SIMILARITY_THRESHOLD = 0.3
WORD_FLOOR = 0.05
# Covers the names of a thousand conversations between two people. Comparing them takes 5 ms, and a person named in a
# query has usually spoken recently.
MAX_NAMES = 2_000
MESSAGES = PreparedQuery(lambda: Message.objects.order_by())
SPEAKERS = PreparedQuery(
    lambda: (
        Session.objects.exclude(authors=[])
        .order_by("-started_at", "-id")
        .annotate(name=Func("authors", function="unnest"))
        .values_list("name", flat=True)
    ),
    server_prepared=False,
)
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
    conditions: Q | None = None,
    payer: Payer = NOBODY,
    respells: bool = False,
) -> list[FoundMessage]:
    """Return an actor's past messages that answer a query, most relevant first.

    Untrusted messages are left out unless they are of the given session (SPEC M10), as are abandoned branches and what
    is less relevant than `floor`. `conditions` filters index rows further. `payer` pays for the query without names.
    With `respells`, a query that finds nothing is repeated with similar words of the messages.
    """
    if limit < 1:
        return []
    where = Q(actor_id=actor_id, is_abandoned=False) & believed_in(session_id) & (conditions or Q())
    authors = named_authors(query.text, _authors(actor_id)) if query.text else frozenset()
    if authors:
        query = with_vector_of(query, without_names(query.text, authors), payer=payer)
    matches = candidates(
        MessageIndex,
        where,
        query,
        similarity_threshold=SIMILARITY_THRESHOLD,
        word_floor=WORD_FLOOR,
        limit=limit,
        conversation=replace(CONVERSATION, named_author=next(iter(authors)) if len(authors) == 1 else None),
        respells=respells,
    ).best
    rows = MESSAGES.rows(Q(actor_id=actor_id, id__in=[candidate.owner_id for candidate in matches]))
    messages = {row.pk: row for row in rows}
    return [
        FoundMessage(messages[candidate.owner_id], *candidate.scores)
        for candidate in matches
        if candidate.relevance >= floor and candidate.owner_id in messages
    ]


def _authors(actor_id: UUID) -> set[str]:
    """Return the names of the latest speakers of this actor's sessions, at most MAX_NAMES."""
    return set(SPEAKERS.rows(Q(actor_id=actor_id), limit=MAX_NAMES))
