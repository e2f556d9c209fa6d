"""Holding what was extracted against what is known already, by its meaning (SPEC M8, M9).

Near words are found without a model (`strength.actions.alike`, `decisions`); other words for the same, and what
contradicts it, need one. It is asked once for all that a slice has brought, before anything of it is written.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from conversations.models import Message
from memoryhub.providers.errors import ProviderError
from memoryhub.providers.llm.base import Operation
from memoryhub.providers.spaces import active_space, embed_query
from memoryhub.search.analysis import analyse
from memoryhub.search.expressions import candidates
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.query import SearchQuery, build_query
from memoryhub.search.words import term_ids
from memoryhub.tenants.models import Actor
from memoryhub.tenants.namespaces import expand_namespace
from strength.actions.questions import ask_about
from strength.domain.contradiction import (
    JUDGING_SCHEMA,
    Known,
    Ruling,
    Standing,
    Verdict,
    blocks,
    rule,
    verdicts,
)
from strength.domain.memories import Kind, Status, default_namespace
from strength.domain.revisions import Decision
from strength.models import Memory, MemoryIndex, MemoryRevision, MemorySource, Tombstone

NEAREST: Final = 6
NEAREST_REFUSED: Final = 3
"""Known statements that are held against each new one: the most relevant, and of what people refused its own few."""

MOST_KNOWN: Final = 60
TOGETHER: Final = (Kind.FACT, Kind.PREFERENCE)
COMPARED: Final = frozenset({*TOGETHER, Kind.REFLECTION})
"""The kinds that are compared: episodes happened, each of them."""

MOST_PUT_RIGHT: Final = 200

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Extracted:
    """Something that a strategy has drawn and would write down."""

    content: str = field(repr=False)
    kind: Kind
    namespace: str
    confidence: float
    message_ids: tuple[UUID, ...]
    said_at: datetime
    is_believed: bool


def rulings(*, actor: Actor, extracted: Sequence[Extracted], now: datetime) -> dict[int, Ruling]:
    """Decide what becomes of each of what was extracted, by its place; what is not named is simply written.

    Network, so outside any transaction. Where nothing is known that it could repeat or contradict, no model is asked.
    Raises ProviderError where another attempt helps; where none does, near words decide at the writing.
    """
    space = active_space()
    asked, known = [], dict[tuple[UUID, str], Known]()
    for place, new in enumerate(extracted):
        if new.kind not in COMPARED:
            continue
        about = known_about(actor, new, space, now=now)
        if any(each.text.strip() == new.content and each.standing is Standing.HOLDS for each in about):
            continue  # word for word: the writing finds it
        if about:
            asked.append(place)
            known |= {(each.memory_id, each.text): each for each in about}
    listed = list(known.values())[:MOST_KNOWN]
    told = _judged(actor, listed, [extracted[place].content for place in asked])
    return {
        place: rule(
            listed,
            told.get(number, {}),
            said_at=extracted[place].said_at,
            is_believed=extracted[place].is_believed,
        )
        for number, place in enumerate(asked)
    }


def known_about(actor: Actor, new: Extracted, space: EmbeddingSpace, *, now: datetime) -> list[Known]:
    """Return what is known nearby: what holds or held, and what people decided against."""
    namespaces = _folders(actor, new)
    query = build_query(new.content, space=space, embed=lambda text: embed_query(space, text))
    believed = [Status.ACTIVE] if new.is_believed else [Status.ACTIVE, Status.PENDING]
    found = _nearest(actor, namespaces, query, believed, NEAREST)
    found += _nearest(actor, namespaces, query, [Status.REJECTED], NEAREST_REFUSED)
    said = _last_said(found)
    return [
        *(_known(memory, said, now) for memory in found),
        *_put_right(actor, namespaces, new.content),
    ]


def _folders(actor: Actor, new: Extracted) -> list[str]:
    """Return the namespaces to look into: whether a liking was filed as a fact is a matter of taste."""
    kinds = TOGETHER if new.kind in TOGETHER else (new.kind,)
    folders = [default_namespace(kind) for kind in kinds]
    return [expand_namespace(each, agent_id=actor.agent_id, user_id=actor.user_id) for each in folders]


def _nearest(
    actor: Actor, namespaces: Sequence[str], query: SearchQuery, among: Sequence[Status], most: int
) -> list[Memory]:
    """Return the most relevant memories, however little relevant: another language shares no word."""
    rows = MemoryIndex.objects.filter(actor_id=actor.id, namespace__in=namespaces, status__in=among)
    found = candidates(rows, query, similarity_threshold=0.0, word_floor=0.0, limit=most).best
    memories = Memory.objects.of([actor.id]).in_bulk([each.owner_id for each in found])
    return [memories[each.owner_id] for each in found if each.owner_id in memories]


def _last_said(memories: Iterable[Memory]) -> dict[UUID, datetime]:
    """Return when each memory was last said, by the messages that it was drawn from."""
    keys = [memory.pk for memory in memories]
    actors = list({memory.actor_id for memory in memories})
    sources = MemorySource.objects.filter(actor_id__in=actors, memory__in=keys)
    links = list(sources.values_list("memory_id", "message_id"))
    times = dict(
        Message.objects.of(actors).filter(pk__in=[each for _, each in links]).values_list("pk", "created_at")
    )
    said: dict[UUID, datetime] = {}
    for memory_id, message_id in links:
        if message_id in times:
            said[memory_id] = max(times[message_id], said.get(memory_id, times[message_id]))
    return said


def _known(memory: Memory, said: Mapping[UUID, datetime], now: datetime) -> Known:
    said_at = max(filter(None, [memory.valid_from, said.get(memory.pk) or memory.created_at]))
    return Known(memory.pk, memory.content, _standing(memory, now), said_at, memory.valid_to)


def _standing(memory: Memory, now: datetime) -> Standing:
    if memory.status == Status.REJECTED:
        return Standing.REFUSED
    if memory.status == Status.PENDING:
        return Standing.WAITS
    return Standing.ENDED if memory.valid_to is not None and memory.valid_to <= now else Standing.HOLDS


def _put_right(actor: Actor, namespaces: Sequence[str], text: str) -> list[Known]:
    """Return the texts that people edited away, nearest first: tombstones know no texts, the revisions do."""
    edited = Tombstone.objects.filter(
        actor_id=actor.id, decision=Decision.EDITED, memory_id__isnull=False
    ).values_list("memory_id", flat=True)[:MOST_PUT_RIGHT]
    revisions = MemoryRevision.objects.filter(
        actor_id=actor.id, memory__in=list(edited), memory__namespace__in=namespaces, verb="edit",
        changed_before__has_key="content",
    )  # fmt: skip
    former = [
        Known(memory_id, str(before["content"]), Standing.PUT_RIGHT, created_at)
        for memory_id, before, created_at in revisions.values_list(
            "memory_id", "changed_before", "created_at"
        )
    ]
    wanted = set(term_ids(analyse(text)))
    return sorted(former, key=lambda each: -len(wanted.intersection(term_ids(analyse(each.text)))))[
        :NEAREST_REFUSED
    ]


def _judged(actor: Actor, known: Sequence[Known], new: Sequence[str]) -> dict[int, dict[int, Verdict]]:
    if not known or not new:
        return {}
    asked = blocks(known, new, language=actor.agent.language)
    try:
        data = ask_about(actor, Operation.JUDGE, "judge_facts", asked, JUDGING_SCHEMA)
    except ProviderError as error:
        if not error.permanent:
            raise
        log.warning("contradictions were judged by near words", extra={"code": error.code})
        return {}
    return verdicts(data, known=len(known), new=len(new))
