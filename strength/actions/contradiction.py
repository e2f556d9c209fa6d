"""Holding what was extracted against what is known already, by its meaning (SPEC M8, M9).

Near words are found without a model (`strength.actions.alike`, `decisions`); other words for the same, and what
contradicts it, need one. It is asked about all that a slice has brought, before anything of it is written; in portions
where much is known.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from conversations.models import Message
from memoryhub.llm.base import Operation
from memoryhub.providers.errors import BadAnswer, ProviderError
from memoryhub.providers.spaces import active_space, embed_query
from memoryhub.providers.spending import payer
from memoryhub.search.analysis import analyse
from memoryhub.search.expressions import candidates
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.query import SearchQuery, build_query
from memoryhub.search.words import term_ids
from memoryhub.tenancy.domain import Trust
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.namespaces import expand_namespace
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
from strength.domain.likeness import fingerprint
from strength.domain.memories import Kind, ScopeLevel, Status, default_namespace
from strength.domain.revisions import Decision
from strength.models import Memory, MemoryIndex, MemoryRevision, MemorySource, Tombstone

NEAREST: Final = 6
NEAREST_REFUSED: Final = 3
"""Known statements that are held against each new one: the most relevant, and of what people refused its own few."""

MOST_KNOWN: Final = 60
"""In one question; a further one holds what else is known about the rest of what is new."""

TOGETHER: Final = (Kind.FACT, Kind.PREFERENCE)
COMPARED: Final = frozenset({*TOGETHER, Kind.REFLECTION})
"""The kinds that are compared: episodes happened, each of them."""

MOST_PUT_RIGHT: Final = 200

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asked:
    """What one question holds against each other: new statements by their places, and known ones."""

    places: tuple[int, ...]
    known: tuple[Known, ...]


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


def rulings(
    *, actor: Actor, extracted: Sequence[Extracted], now: datetime, is_patient: bool = True
) -> dict[int, Ruling]:
    """Decide what becomes of each of what was extracted, by its place; what is not named is simply written.

    Network, so outside any transaction. Where nothing is known that it could repeat or contradict, no model is asked.
    Raises ProviderError where another attempt helps; for answers that cannot be used only while the caller
    `is_patient`. Otherwise near words decide at the writing.
    """
    found: dict[int, Ruling] = {}
    for asked in _portions(extracted, _all_known(actor, extracted, now)):
        told = _judged(actor, asked.known, [extracted[place].content for place in asked.places], is_patient)
        for number, place in enumerate(asked.places):
            new = extracted[place]
            found[place] = rule(
                asked.known, told.get(number, {}), said_at=new.said_at, is_believed=new.is_believed
            )
    return found


def _all_known(actor: Actor, extracted: Sequence[Extracted], now: datetime) -> dict[int, list[Known]]:
    """Return what is known about each of what is new; nothing about what the writing finds word for word."""
    space, found = active_space(), dict[int, list[Known]]()
    for place, new in enumerate(extracted):
        about = known_about(actor, new, space, now=now) if new.kind in COMPARED else []
        is_there = any(each.text.strip() == new.content and each.standing is Standing.HOLDS for each in about)
        if about and not is_there:
            found[place] = about
    return found


def _portions(extracted: Sequence[Extracted], about: Mapping[int, Sequence[Known]]) -> list[Asked]:
    """Divide what is to be judged into questions, what is believed apart from what is not: words may steer a judge."""
    portions = list[Asked]()
    for is_believed in (True, False):
        places, known = list[int](), dict[tuple[UUID, str], Known]()
        for place in (each for each in about if extracted[each].is_believed is is_believed):
            more = {(each.memory_id, each.text): each for each in about[place]}
            if len(known | more) > MOST_KNOWN and places:
                portions.append(Asked(tuple(places), tuple(known.values())))
                places, known = [], {}
            places.append(place)
            known |= more
        if places:
            portions.append(Asked(tuple(places), tuple(known.values())))
    return portions


def known_about(actor: Actor, new: Extracted, space: EmbeddingSpace, *, now: datetime) -> list[Known]:
    """Return what is known nearby: what people decided against, and what holds or held in the agent's project.

    What was refused because it came from somebody untrusted is not shown beside what is believed: near words know it.
    """
    rows = MemoryIndex.objects.filter(actor_id=actor.id, namespace__in=_folders(actor, new))
    query = build_query(
        new.content, space=space, embed=lambda text: embed_query(space, text, payer=payer(actor))
    )
    among = [Status.ACTIVE] if new.is_believed else [Status.ACTIVE, Status.PENDING]
    refused = rows.filter(status=Status.REJECTED)
    if new.is_believed:
        refused = refused.filter(memory__trust=Trust.TRUSTED)
    found = _nearest(actor, refused, query, NEAREST_REFUSED)
    seen = rows.filter(_seen_in(actor.agent.current_project), status__in=among)
    found += _nearest(actor, seen, query, NEAREST)
    said = _last_said(found, now)
    return [
        *_put_right(actor, _folders(actor, new), new.content),
        *(_known(memory, said, now) for memory in found),
    ]


def _seen_in(project: str) -> Q:
    """Return what a project sees: what is another's neither says something again here nor is ended from here."""
    of_another = Q(scope_level=ScopeLevel.PROJECT) & ~Q(scope_project__in=["", project])
    return ~of_another if project else Q()


def _folders(actor: Actor, new: Extracted) -> list[str]:
    """Return the namespaces to look into: whether a liking was filed as a fact is a matter of taste."""
    kinds = TOGETHER if new.kind in TOGETHER else (new.kind,)
    folders = [default_namespace(kind) for kind in kinds]
    return [expand_namespace(each, agent_id=actor.agent_id, user_id=actor.user_id) for each in folders]


def _nearest(actor: Actor, rows: QuerySet[MemoryIndex], query: SearchQuery, most: int) -> list[Memory]:
    """Return the most relevant memories, however little relevant: another language shares no word."""
    found = candidates(rows, query, similarity_threshold=0.0, word_floor=0.0, limit=most).best
    memories = Memory.objects.of([actor.id]).in_bulk([each.owner_id for each in found])
    return [memories[each.owner_id] for each in found if each.owner_id in memories]


def _last_said(memories: Sequence[Memory], now: datetime) -> dict[UUID, datetime]:
    """Return when each memory was last said, by the messages that it was drawn from.

    Of one that is believed by trusted messages alone: nobody else may keep it from being ended. A message's time is
    its client's word, so it counts as said when it became a source at the latest, and never after now.
    """
    believed = {memory.pk: memory.status == Status.ACTIVE for memory in memories}
    actors = list({memory.actor_id for memory in memories})
    sources = MemorySource.objects.filter(actor_id__in=actors, memory__in=list(believed))
    links = [each for each in sources if each.trust == Trust.TRUSTED or not believed[each.memory_id]]
    messages = Message.objects.of(actors).filter(pk__in=[each.message_id for each in links])
    times = dict(messages.values_list("pk", "created_at"))
    said: dict[UUID, datetime] = {}
    for each in links:
        if (told_at := times.get(each.message_id)) is not None:
            at = min(told_at, each.created_at, now)
            said[each.memory_id] = max(at, said.get(each.memory_id, at))
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
    """Return the texts that people edited away, nearest first: tombstones know no texts, the revisions do.

    By an edit or by going back to what had stood before; a text that was brought back has lost its tombstone.
    """
    tombstones = Tombstone.objects.filter(
        actor_id=actor.id, decision=Decision.EDITED, memory_id__isnull=False
    )
    edited = list(tombstones.values_list("memory_id", "digest")[:MOST_PUT_RIGHT])
    standing = {bytes(digest) for _, digest in edited}
    revisions = MemoryRevision.objects.filter(
        actor_id=actor.id, memory__in=[each for each, _ in edited], memory__namespace__in=namespaces,
        verb__in=["edit", "restore"], changed_before__has_key="content",
    )  # fmt: skip
    former = [
        Known(memory_id, str(before["content"]), Standing.PUT_RIGHT, created_at)
        for memory_id, before, created_at in revisions.values_list(
            "memory_id", "changed_before", "created_at"
        )
        if fingerprint(str(before["content"])).digest in standing
    ]
    wanted = set(term_ids(analyse(text)))
    return sorted(former, key=lambda each: -len(wanted.intersection(term_ids(analyse(each.text)))))[
        :NEAREST_REFUSED
    ]


def _judged(
    actor: Actor, known: Sequence[Known], new: Sequence[str], is_patient: bool
) -> dict[int, dict[int, Verdict]]:
    asked = blocks(known, new, language=actor.agent.language)
    try:
        data = ask_about(actor, Operation.JUDGE, "judge_facts", asked, JUDGING_SCHEMA)
    except ProviderError as error:
        if not error.permanent and (is_patient or not isinstance(error, BadAnswer)):
            raise
        log.warning("contradictions were judged by near words", extra={"code": error.code})
        return {}
    return verdicts(data, known=len(known), new=len(new))
