"""Compare extracted statements with known memories by a language model, and write them accordingly (SPEC M8–M10).

Near duplicates are found without a model; paraphrases and contradictions need one. It is asked once about everything
that one slice of messages yielded, before any of it is written, and in portions where much is known.
"""

import logging
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet

from conversations.models import Message
from memoryhub.auth.domain import Forbidden, Principal
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.embeddings.spaces import active_space, embed_query
from memoryhub.llm.client import ask, is_patient
from memoryhub.llm.errors import BadAnswer, ProviderError, ProviderRejected
from memoryhub.llm.prompts import fenced, prompt
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation
from memoryhub.llm.usage.recording import payer
from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import term_ids
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.query import SearchQuery, build_query, candidates
from memoryhub.tenancy.domain import Trust
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.namespaces import expand_namespace
from strength.actions.memories import NewMemory, say_again, supersede_memory, write_memory
from strength.actions.tombstones import BlockedByTombstone, atomic_but_for_tombstones
from strength.domain.contradictions import (
    JUDGING_SCHEMA,
    Course,
    Known,
    Ruling,
    Standing,
    Verdict,
    rule,
    statement_blocks,
    verdicts,
)
from strength.domain.duplicates import fingerprint
from strength.domain.memories import (
    Kind,
    MemoryRefused,
    ScopeLevel,
    Source,
    Status,
    TombstoneReason,
    WrongState,
    default_namespace,
)
from strength.models import Memory, MemoryIndex, MemoryRevision, MemorySource, Tombstone
from strength.models.locks import lock_shared, settle_numbers

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
        actor_id=actor.id, decision=TombstoneReason.EDITED, memory_id__isnull=False
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
    asked = statement_blocks(known, new, language=actor.agent.language)
    try:
        data = ask_about(actor, Operation.JUDGE, "judge_facts", asked, JUDGING_SCHEMA)
    except ProviderError as error:
        if not error.permanent and (is_patient or not isinstance(error, BadAnswer)):
            raise
        log.warning("contradictions were judged by near words", extra={"code": error.code})
        return {}
    return verdicts(data, known=len(known), new=len(new))


PLAIN = Ruling(Course.WRITE)
REASON = "What was said later contradicts it."


@dataclass(frozen=True)
class Filed:
    """What became of what was drawn: ids of what is new, and how many were known, held back or refused."""

    new: tuple[UUID, ...] = ()
    known: int = 0
    held_back: int = 0
    refused: int = 0


def file_extracted(
    *,
    actor: Actor,
    extracted: Sequence[Extracted],
    rulings: Mapping[int, Ruling],
    channel: str,
    by: Principal,
    now: datetime,
) -> Filed:
    """Write down what was drawn, as it was ruled; inside the caller's transaction, that of the cursor.

    One that cannot be written is left out, and the others are written.
    """
    if not extracted:
        return Filed()
    lock_shared(actor.id)
    _hold_known(actor, rulings)
    new, known, held_back, refused = list[UUID](), 0, 0, 0
    for place, each in enumerate(extracted):
        try:
            with atomic_but_for_tombstones():
                memory_id, is_new = _file(actor, each, rulings.get(place, PLAIN), channel, by, now)
        except BlockedByTombstone:
            held_back += 1
        except MemoryRefused:
            refused += 1
        else:
            held_back += memory_id is None
            known += memory_id is not None and not is_new
            new += [memory_id] if memory_id is not None and is_new else []
    return Filed(tuple(new), known, held_back, refused)


def _hold_known(actor: Actor, rulings: Mapping[int, Ruling]) -> None:
    """Lock what the rulings are about, and its numbers, in the order of keys, as everybody does who locks several."""
    keys = {known.memory_id for ruling in rulings.values() for known in ruling.about}
    if keys:
        list(
            Memory.objects.of([actor.id]).filter(pk__in=keys).select_for_update().order_by("id").values("pk")
        )
        settle_numbers(actor.id, keys)


def _file(
    actor: Actor, extracted: Extracted, ruling: Ruling, channel: str, by: Principal, now: datetime
) -> tuple[UUID | None, bool]:
    """Do as it was ruled; return the memory that now says it, and whether it is new; None for what is held back."""
    if ruling.course is Course.HOLD_BACK:
        return None, False
    new = _new_memory(extracted, channel)
    about = _rows(actor, ruling.about)
    if ruling.course is Course.SAY_AGAIN:
        # Deleted since the model was asked: that is a decision too, and this says the same.
        return (say_again(memory=about[0], new=new, by=by, now=now).pk if about else None), False
    new = replace(new, unlike=frozenset(known.memory_id for known in ruling.about))
    if ruling.course is Course.FILE_AS_PAST:
        new = replace(new, valid_from=extracted.said_at, valid_to=ruling.about[0].said_at)
    if ruling.course is Course.SUPERSEDE and extracted.is_believed and about:
        return _supersede(actor, about, new, extracted, by, now)
    memory, is_new = write_memory(actor=actor, new=new, by=by, now=now)
    return memory.pk, is_new


def _supersede(
    actor: Actor, about: Sequence[Memory], new: NewMemory, extracted: Extracted, by: Principal, now: datetime
) -> tuple[UUID, bool]:
    """End what no longer holds; what a person has pinned or put right holds on, and the new words wait."""
    new = replace(new, waits=any(old.pinned or old.locked for old in about))
    at = min(extracted.said_at, now)
    for old in sorted(about, key=lambda each: each.kind != extracted.kind):
        along = [each for each in about if each.pk != old.pk]
        # It has changed since the model was asked: what is new is written, and nothing ends.
        with suppress(WrongState, UnknownRow, Forbidden, MemoryRefused):
            return supersede_memory(
                memory=old, new=new, at=at, by=by, reason=REASON, now=now, along=along
            ).pk, True
    memory, is_new = write_memory(actor=actor, new=new, by=by, now=now)
    return memory.pk, is_new


def _new_memory(extracted: Extracted, channel: str) -> NewMemory:
    return NewMemory(
        content=extracted.content,
        kind=extracted.kind,
        namespace=extracted.namespace,
        source=Source.EXTRACTION,
        source_message_ids=extracted.message_ids,
        channel=channel,
        confidence=extracted.confidence,
    )


def _rows(actor: Actor, about: Sequence[Known]) -> list[Memory]:
    """Return the memories that a ruling is about, as they are now, in its order."""
    keys = [known.memory_id for known in about]
    rows = Memory.objects.of([actor.id]).select_related("actor__agent").in_bulk(keys)
    return [rows[key] for key in keys if key in rows]


DEADLINE_SECONDS: Final = 60.0
ANSWER_TOKENS: Final = 4_000
FENCE_BYTES: Final = 16


def ask_about(
    actor: Actor,
    operation: Operation,
    name: str,
    blocks: Mapping[str, str],
    schema: Mapping[str, Any],
    **values: object,
) -> Any:
    """Return a model's parsed answer to the prompt `name` about these texts; network, so outside any transaction.

    Raises ProviderError.
    """
    fence = secrets.token_hex(FENCE_BYTES)
    request = CompletionRequest(
        operation=operation,
        messages=(ChatMessage("user", fenced(blocks, fence)),),
        max_output_tokens=ANSWER_TOKENS,
        deadline_seconds=DEADLINE_SECONDS,
        system=prompt(name, actor.agent.language, fence=fence, **values),
        json_schema=schema,
    )
    return ask(request, actor=actor).data


OF_CONTENT: Final = "refused"
"""The code of a refusal that is about what was said; any other is about the request's form."""


def must_fail(error: ProviderRejected | BadAnswer, *, spoilt: int, is_one: bool) -> bool:
    """Say whether an error ends the attempt; otherwise half is asked for, and the last one is passed by."""
    if isinstance(error, BadAnswer):
        return not error.permanent and is_patient(spoilt)
    return is_one and error.code != OF_CONTENT
