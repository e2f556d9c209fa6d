"""Find where a text that a person decided against still stands: in the memory it was, and in messages that say it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import Q
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce

from conversations.actions.recall import search_messages
from conversations.models import Message
from memoryhub.embeddings.spaces import active_space
from memoryhub.search.analysis import QueryText, analyse
from memoryhub.search.query import build_queries
from strength.domain.duplicates import fingerprint
from strength.domain.memories import Status, TombstoneReason
from strength.models import MemoryRevision, Tombstone

SAYS_IT: Final = 0.6
"""The share of a text's words, by weight, that a message holds which says it; of quotes it is 1."""

MOST_COMPARED: Final = 50


def messages_saying(*, actor_id: UUID, text: str, instead: str = "") -> list[Message]:
    """Return an actor's messages that contexts may recall and that hold most of the text's words, the best first.

    Where another text stands instead, they also hold most of those words that it leaves out; none is, where it leaves
    out none.
    """
    query = build_queries([(QueryText.of(text), None)], space=active_space())[0]
    weights = query.weights_by_term()
    left_out = {term: weight for term, weight in weights.items() if term not in analyse(instead)}
    if not left_out:
        return []
    found = search_messages(actor_id=actor_id, query=query, limit=MOST_COMPARED)
    words = [(each.message, analyse(each.message.content)) for each in found]
    return [
        message
        for message, held in words
        if _share(weights, held) >= SAYS_IT and _share(left_out, held) >= SAYS_IT
    ]


def _share(weights: Mapping[str, float], held: Counter[str]) -> float:
    return sum(weight for term, weight in weights.items() if term in held) / sum(weights.values())


@dataclass(frozen=True)
class KeptOut:
    """The text that a tombstone keeps out, and the memory that holds it, or did before it was edited."""

    memory_id: UUID
    text: str


def kept_out_texts(tombstones: Iterable[Tombstone]) -> dict[UUID, KeptOut]:
    """Return the texts of tombstones by their ids, as far as revisions of their memories still hold them.

    Tombstones store no text (ADR 25). A deleted memory's is gone with its revisions, and so is that of an erased user.
    """
    waiting = list(tombstones)
    edited = [each.memory_id for each in waiting if each.decision == TombstoneReason.EDITED]
    is_rejection = Q(memory__status=Status.REJECTED, changed_after__status=Status.REJECTED)
    rows = MemoryRevision.objects.filter(
        Q(memory_id__in=edited, changed_before__has_key="content") | is_rejection,
        actor_id__in={each.actor_id for each in waiting},
        memory__actor_id__in={each.actor_id for each in waiting},
        created_at__in={each.created_at for each in waiting},
    )
    former = Coalesce(KT("changed_before__content"), KT("after__content"))
    texts = rows.order_by("number").values_list("actor_id", "memory_id", former)
    known = {(actor, fingerprint(text).digest): KeptOut(memory, text) for actor, memory, text in texts}
    found = {each.pk: known.get((each.actor_id, bytes(each.digest))) for each in waiting}
    return {key: kept for key, kept in found.items() if kept is not None}


def tombstone_of(*, actor_id: UUID, text: str) -> Tombstone | None:
    """Return the tombstone of exactly this text."""
    return Tombstone.objects.filter(actor_id=actor_id, digest=fingerprint(text).digest).first()
