"""Use of memories: detect it in a result or an answer, and add it to the memories' numbers (SPEC B1, S2, S3, S8).

Numbers are incremented in the database, so that no use is lost: one statement for all memories of an actor, in the
order of their keys.
"""

import hashlib
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.actions.writing import writing_for
from conversations.domain.layers import MEMORY_LAYERS
from conversations.domain.messages import TurnState
from conversations.domain.statements.grounding import Doubt, Evidence
from conversations.domain.statements.kinds import Spoken
from conversations.models import ChatTurn, Receipt
from memoryhub.auth import audit
from memoryhub.auth.principals import Forbidden, Principal, PrincipalKind
from memoryhub.db.limits import note_of_a_read
from memoryhub.embeddings.spaces import EMBED_QUERY, active_space, embed_texts
from memoryhub.errors import DomainError
from memoryhub.llm.client import complete_json
from memoryhub.llm.errors import ProviderError, ProviderRejected
from memoryhub.llm.types import Operation
from memoryhub.llm.usage.recording import payer
from memoryhub.search.analysis import analyse, is_unspaced
from memoryhub.search.bm25 import term_ids
from memoryhub.search.fusion import scaled_similarity
from memoryhub.search.index import idf
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import Trust
from memoryhub.validators import text_problem
from strength.domain.memories import Status
from strength.domain.policy import StrengthPolicy
from strength.domain.strength import Impact, PointKind, impact_value
from strength.domain.usage_detection import (
    JUDGING_SCHEMA,
    LEARNING_SCHEMA,
    Offered,
    UnreadableJudgement,
    judged,
    judging_blocks,
    learning_blocks,
    passages,
    used_by_vectors,
    used_by_words,
)
from strength.models import Memory, MemoryIndex
from strength.models.locks import lock_shared
from strength.sql import QUERIES, policy_values, run_query

log = logging.getLogger(__name__)

_ask: Final = partial(complete_json, deadline_seconds=30.0, max_output_tokens=1_000)
MAX_PASSAGES: Final = 20
MAX_COMPARED_LENGTH: Final = 20_000
"""Characters of each memory that are compared, which bounds the delay of the answer."""

LEARNABLE: Final = frozenset({Status.ACTIVE, Status.ARCHIVED})
"""States in which a memory can be reinforced."""


class NotUsable(DomainError):
    code = "wrong_state"


def mark_candidates(*, memories: Sequence[Memory], by_search: bool = False) -> None:
    """Count memories as returned, actor by actor: a user's, and those of the agent.

    With `by_search`, commits asynchronously, as a crash may lose counts, and skips them while the database takes no
    writes.
    """
    by_actor: dict[UUID, set[UUID]] = {}
    for memory in memories:
        by_actor.setdefault(memory.actor_id, set()).add(memory.pk)
    for actor_id in sorted(by_actor):
        keys = {"actor_id": actor_id, "memory_ids": list(by_actor[actor_id])}
        with note_of_a_read() if by_search else nullcontext():
            values = {**keys, "commit": "off" if by_search else None}
            run_query(QUERIES["mark_candidates"], values, server_prepared=True)


@transaction.atomic
def use_memories(
    *, memories: Sequence[Memory], perspective: str | None, task: str | None, by: Principal, now: datetime
) -> int:
    """Reinforce memories that were used; return how many.

    With a `task`, stored as a hash, each counts once per task. Pending and rejected memories are left out. Raises
    Forbidden where an untrusted key would reinforce trusted memories.
    """
    context = {"perspective": perspective, "task": None if task is None else task_digest(task)}
    return sum(
        write_numbers(group, policy, now=now, kind=PointKind.USED, **_use_increments(policy, now), **context)
        for policy, group in _by_actor(memories, by)
    )


def _use_increments(policy: StrengthPolicy, now: datetime) -> dict[str, Any]:
    return {
        "uses": 1,
        "used_at": now,
        "increment": policy.strength_increment_on_use,
        "perspective_increment": policy.perspective_strength_increment,
    }


def task_digest(task: str) -> str:
    return hashlib.sha256(task.encode()).hexdigest()


@transaction.atomic
def use_memory(*, memory: Memory, perspective: str | None, task: str | None, by: Principal, now: datetime) -> None:
    """Reinforce one memory that was used, once per task. Raises NotUsable, Forbidden."""
    _check_usable(memory)
    if use_memories(memories=[memory], perspective=perspective, task=task, by=by, now=now):
        _audit_person(memory, "use", by, now)


def _audit_person(memory: Memory, verb: str, by: Principal, now: datetime, **details: str) -> None:
    # Clients' reports are too many for the audit trail; the memory's history has them.
    if by.kind is PrincipalKind.CURATOR:
        audit.record(by=by, verb=verb, row=memory, details=details, now=now)


@transaction.atomic
def apply_impact(*, memories: Sequence[Memory], impact: Impact, by: Principal, now: datetime) -> int:
    """Add an impact to memories, and a share of it to their strength; return how many (SPEC S3). Raises Forbidden."""
    count = 0
    for policy, group in _by_actor(memories, by):
        value = impact_value(policy, impact)
        increments = {"impact": value, "increment": value * policy.impact_to_strength_ratio}
        count += write_numbers(group, policy, now=now, kind=PointKind.IMPACT, **increments)
    return count


@transaction.atomic
def impact_memory(*, memory: Memory, impact: Impact, by: Principal, now: datetime) -> None:
    _check_usable(memory)
    if apply_impact(memories=[memory], impact=impact, by=by, now=now):
        _audit_person(memory, "impact", by, now, impact=impact.value)


@transaction.atomic
def set_strengths(*, memories: Sequence[Memory], strengths: Mapping[UUID, float], by: Principal, now: datetime) -> int:
    """Set the strengths of memories, by their ids; return how many. Raises Forbidden."""
    return sum(
        write_numbers(group, policy, now=now, kind=PointKind.SET, strengths=[strengths[memory.pk] for memory in group])
        for policy, group in _by_actor(memories, by)
    )


def reinforce(memories: Sequence[Memory], *, now: datetime) -> None:
    """Count one use of each of one actor's memories."""
    if not memories:
        return
    policy = effective_policy(StrengthPolicy, memories[0].agent, memories[0].actor)
    write_numbers(memories, policy, now=now, kind=PointKind.USED, **_use_increments(policy, now))
    for memory in memories:
        memory._state.fields_cache.pop("numbers", None)  # may be cached from before


def _by_actor(memories: Sequence[Memory], by: Principal) -> Iterable[tuple[StrengthPolicy, list[Memory]]]:
    """Yield the memories of each actor with its policy, locked. Raises Forbidden before any."""
    if not by.is_trusted and any(memory.trust == Trust.TRUSTED for memory in memories):
        raise Forbidden(_("An untrusted key may not change the strength of trusted memories."))
    groups: dict[UUID, dict[UUID, Memory]] = defaultdict(dict)
    for memory in memories:
        groups[memory.actor_id][memory.pk] = memory
    for actor_id in sorted(groups):
        lock_shared(actor_id)
        group = list(groups[actor_id].values())
        yield effective_policy(StrengthPolicy, group[0].agent, group[0].actor), group


NO_CHANGE: Final[Mapping[str, Any]] = {
    "strengths": None, "increment": 0.0, "uses": 0, "candidates": 0, "impact": 0.0, "used_at": None,
    "perspective": None, "perspective_increment": 0.0, "task": None, "is_final": False,
}  # fmt: skip
"""Default parameters of `write_numbers`: strengths to set and increments."""


def write_numbers(
    memories: Sequence[Memory], policy: StrengthPolicy, *, now: datetime, kind: PointKind | None, **changes: Any
) -> int:
    """Change the numbers of one actor's memories, with a point of their history; return how many changed.

    Without any change their levels follow the policy. `is_final` keeps an undo of the latest sleep from giving back
    what that took.
    """
    values = {
        **policy_values(policy),
        "actor_id": memories[0].actor_id,
        "memory_ids": [memory.pk for memory in memories],
        "now": now,
        "kind": kind,
        **NO_CHANGE,
        **changes,
    }
    [(count,)] = run_query(QUERIES["write_numbers"], values)
    return int(count)


def _check_usable(memory: Memory) -> None:
    if Status(memory.status) not in LEARNABLE:
        raise NotUsable(format_lazy(_("A memory that is {status} cannot have been used."), status=_(memory.status)))


def turns_to_inspect(*, actor_id: UUID, session_id: UUID) -> Sequence[ChatTurn]:
    """Return a session's answered chat turns whose used memories were not detected yet, oldest first."""
    turns = ChatTurn.objects.filter(
        actor_id=actor_id, session_id=session_id, state=TurnState.ANSWERED, use_noted_at=None
    )
    return list(turns.select_related("actor__agent", "question", "answer", "receipt").order_by("id"))


def detect_turn_use(*, turn: ChatTurn) -> list[Memory]:
    """Return the memories that a turn's answer used; none for an untrusted question. Network."""
    if turn.answer is None or turn.receipt is None or turn.question.trust != Trust.TRUSTED:
        return []
    rows = Memory.objects.active().filter(pk__in=entered_memories(turn.receipt))
    memories = list(rows.select_related("actor__agent"))
    used, _errors = detect_use(
        actor=turn.actor, result=turn.answer.content, query=turn.question.content, memories=memories
    )
    return [memory for memory in memories if memory.pk in used]


def reinforce_turn(*, turn: ChatTurn, memories: Sequence[Memory], by: Principal, now: datetime) -> int:
    """Reinforce the memories that a turn used, idempotently; inside the caller's transaction. Return how many."""
    used = use_memories(memories=memories, perspective=None, task=f"chat:{turn.pk}", by=by, now=now)
    ChatTurn.objects.filter(actor_id=turn.actor_id, pk=turn.pk).update(use_noted_at=now)
    return used


def entered_memories(receipt: Receipt) -> list[UUID]:
    """Return the memories that entered a context, also those that lines of a written profile rest on."""
    return [
        UUID(key)
        for item in receipt.items
        if item["included"] and item["layer"] in MEMORY_LAYERS
        for key in item.get("memory_ids", [item["source_id"]])
        if key
    ]


def detect_use(*, actor: Actor, result: str, query: str, memories: Sequence[Memory]) -> tuple[list[UUID], list[str]]:
    """Return the memories used, and errors; where a provider fails, keywords decide. Network."""
    offered = [Offered(memory.pk, memory.content[:MAX_COMPARED_LENGTH]) for memory in memories]
    if not offered or not result.strip():
        return [], []
    errors, method = [], effective_policy(StrengthPolicy, actor.agent, actor).use_detection
    try:
        if method == "llm":
            blocks = judging_blocks(result, offered, language=actor.agent.language)
            return judged(_ask(actor, Operation.JUDGE, "judge_use", blocks, JUDGING_SCHEMA), offered), []
        # The embedder may not support the language; then detect by words.
        if method == "embedding" and active_space().bounds_for(is_unspaced=is_unspaced(result)).vector_weight:
            return _by_vectors(actor, result, query, memories), []
    except (ProviderError, UnreadableJudgement) as error:
        log.warning("use detection fell back to words", extra={"how": method, "error": type(error).__name__})
        errors.append(f"Use was found by words, for {method} could not be asked: {error}")
    terms = {term for memory in offered for term in term_ids(analyse(memory.text))}
    return used_by_words(result, offered, query=query, idf=idf(terms)), errors


def generate_learning(*, actor: Actor, query: str, result: str, now: datetime) -> tuple[str, str, Doubt | None]:
    """Return a learning that a model draws from a result, its reason, and the doubt about its details.

    Network. Raises ProviderError.
    """
    wanted = writing_for(actor, [query, result], is_one=True)
    blocks = learning_blocks(query, result, language=wanted.prompt)
    language, written = wanted.prompt, wanted.phrase
    data = _ask(actor, Operation.EXTRACT, "learn", blocks, LEARNING_SCHEMA, language=language, written=written)
    content, learning = str(data.get("content", "")), str(data.get("learning", ""))
    if text_problem(content) or text_problem(learning):
        raise ProviderRejected("The model's learning holds characters that cannot be stored.", code="unusable_answer")
    evidence = Evidence(tuple(Spoken(text, True, now) for text in (query, result)))
    return content, learning, evidence.doubt_details(f"{content}\n{learning}")


def _by_vectors(actor: Actor, result: str, query: str, memories: Sequence[Memory]) -> list[UUID]:
    space = active_space()
    parts = [text for text in passages(result) if text.strip()][:MAX_PASSAGES]
    texts = [*parts, *([query] if query.strip() else [])]
    embeddings = embed_texts(space, texts, operation=EMBED_QUERY, payer=payer(actor)).tolist()
    result_vectors, query_vector = embeddings[: len(parts)], next(iter(embeddings[len(parts) :]), None)
    bounds = space.bounds_for(is_unspaced=is_unspaced(result))
    rows = MemoryIndex.objects.filter(
        actor_id__in={memory.actor_id for memory in memories}, space=space, memory__in=memories, vector__isnull=False
    )
    vectors = {memory_id: vector for memory_id, vector in rows.values_list("memory_id", "vector") if vector}

    def scaled(one: Sequence[float], other: Sequence[float]) -> float:
        cosine = sum(a * b for a, b in zip(one, other, strict=True))
        return scaled_similarity(cosine, bounds)

    to_result = {key: max(scaled(passage, vector) for passage in result_vectors) for key, vector in vectors.items()}
    to_query = {key: scaled(query_vector, vector) if query_vector else None for key, vector in vectors.items()}
    return used_by_vectors(to_result, to_query)
