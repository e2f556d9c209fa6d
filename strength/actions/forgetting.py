"""Delete the memories that rest on deleted messages alone; those with other sources wait for review (SPEC C6)."""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from conversations.actions.forgetting import Forgotten, check_may_forget, forget_messages, lock_alone
from conversations.domain.forget_judging import REQUESTS_SCHEMA, may_ask_to_forget, question_blocks, requests_found
from conversations.domain.forget_requests import asks_for_all, request_to_forget
from conversations.domain.messages import Role
from conversations.domain.policy import ContextPolicy
from conversations.models import Message, Session
from memoryhub.auth.access import Tenant, lock_actor
from memoryhub.auth.principals import Principal
from memoryhub.embeddings.spaces import text_query
from memoryhub.errors import stored_text
from memoryhub.llm.client import complete_json
from memoryhub.llm.errors import BadAnswer
from memoryhub.llm.types import Operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import Trust
from strength.actions.curation import delete_locked, delete_memory, delete_without_tombstones
from strength.actions.revisions import snapshot, store_change
from strength.actions.search import MemorySearch, search_memories
from strength.domain.extraction import Strategy
from strength.domain.memories import FORGET_VERB, LOST_SOURCE_VERB, Status
from strength.models import Memory, MemoryRevision, MemorySource, StrategyCursor

log = logging.getLogger(__name__)

MAX_HELD: Final = 10
"""Most memories that one request lets wait."""

MAX_HELD_OF_ALL: Final = 1_000
"""Most that a request to forget everything lets wait, the latest first."""

MAX_READ: Final = 20
"""Latest messages of a session among which the request is looked for."""

ASKED: Final = stored_text("The user asked to forget it.")
"""Without the user's words, which would outlive the message."""

REASON: Final = stored_text("A message that it comes from was deleted.")


@transaction.atomic
def delete_with_sources(
    *, memory: Memory, expected_version: int | None, by: Principal, reason: str = "", now: datetime
) -> Counter[str]:
    """Delete a memory and the messages that it comes from, with all that was drawn from them; return counts.

    Raises as `delete_memory` and `forget_messages`, and Forbidden as `check_may_forget`.
    """
    check_may_forget(by)
    lock_alone(memory.actor_id)
    message_ids = remaining_sources(memory)
    delete_memory(memory=memory, expected_version=expected_version, by=by, reason=reason, now=now)
    counts = Counter(memories=1)
    of_sources = Message.objects.of([memory.actor_id]).filter(pk__in=message_ids)
    sessions = Session.objects.filter(actor_id=memory.actor_id, pk__in=of_sources.values("session_id"))
    for session in sessions.order_by("pk"):
        deletion = forget_messages(session=session, chosen=Q(pk__in=message_ids), by=by, reason=reason, now=now)
        counts.update(deletion.counts)
    return counts


def remaining_sources(memory: Memory) -> list[UUID]:
    """Return the messages that a memory comes from and that are still stored, oldest first."""
    named = memory.sources.values("message_id")
    rows = Message.objects.of([memory.actor_id]).filter(pk__in=named).order_by("created_at", "pk")
    return list(rows.values_list("pk", flat=True))


def forget_memories(forgotten: Forgotten) -> Counter[str]:
    """Delete or mark what was extracted from deleted messages; return counts.

    Takes no lock of the sleep: the caller holds the actor exclusively, and a sleep that waited for that while it holds
    its own lock would never end.
    """
    sources = MemorySource.objects.filter(actor_id=forgotten.actor.pk)
    lost = sources.filter(message_id__in=forgotten.message_ids)
    if forgotten.keeps_drawn:
        lost.delete()
        return Counter()
    # Deleting one's own words reaches what other agents read as well.
    by = replace(forgotten.by, agent_ids=None)
    summarised = _forget_summary_memory(forgotten, by)
    resting = set(lost.values_list("memory_id", flat=True))
    others = sources.filter(memory_id__in=resting).exclude(message_id__in=forgotten.message_ids)
    kept = set(others.values_list("memory_id", flat=True))
    memories = Memory.objects.of([forgotten.actor.pk]).locked(resting)
    alone = [memory for key, memory in memories.items() if key not in kept]
    delete_locked(alone, actor=forgotten.actor, by=by, reason=forgotten.reason, now=forgotten.now)
    lost.delete()
    others_say_it = [memory for key, memory in memories.items() if key in kept]
    waiting = _await_review(others_say_it, verb=LOST_SOURCE_VERB, reason=REASON, by=by, now=forgotten.now)
    forgotten.take("memories", [(memory.pk, memory.content) for memory in [*alone, *summarised]])
    forgotten.take("memories_for_review", [(memory.pk, memory.content) for memory in waiting])
    return Counter(memories=len(alone) + len(summarised), memories_for_review=len(waiting))


def _await_review(memories: Iterable[Memory], *, verb: str, reason: str, by: Principal, now: datetime) -> list[Memory]:
    """Take locked memories out of contexts until a person decides, and return them.

    Archived or ended ones were not in contexts.
    """
    waiting = []
    for memory in memories:
        if memory.status != Status.ACTIVE or (memory.valid_to is not None and memory.valid_to <= now):
            continue
        before = snapshot(memory)
        memory.status, memory.pinned = Status.PENDING, False
        store_change(memory, verb=verb, before=before, by=by, reason=reason, now=now)
        waiting.append(memory)
    return waiting


def hold_for_request(*, actor: Actor, session_id: UUID, by: Principal, now: datetime) -> int:
    """Let what the user asked to be forgotten wait for review; return how many memories (SPEC C9).

    Of the session's latest messages, those count that a trusted key stored; a memory that waited for one before is left
    as a person decided. Where a model is configured, it reads what the words alone do not decide. Network. Raises
    ProviderError, after the requests that words tell were carried out.
    """
    own = Message.objects.of([actor.pk]).filter(session_id=session_id, role=Role.USER, trust=Trust.TRUSTED)
    told = list(own.current().order_by("-seq").values_list("content", "created_at")[:MAX_READ])[::-1]
    asked = [(request_to_forget(text), at) for text, at in told]
    held = sum(_hold(actor, what, since=at, by=by, now=now) for what, at in asked if what)
    undecided = [each for each, (what, _at) in zip(told, asked, strict=True) if not what and may_ask_to_forget(each[0])]
    return held + sum(_hold(actor, what, since=at, by=by, now=now) for what, at in _judged(actor, undecided))


def _judged(actor: Actor, told: Sequence[tuple[str, datetime]]) -> list[tuple[str, datetime]]:
    """Return what a model finds is to be forgotten, and since when; nothing without a model."""
    if not told or settings.LLM.provider == "none":
        return []
    texts = [text for text, _at in told]
    try:
        answer = complete_json(actor, Operation.JUDGE, "forget", question_blocks(texts), REQUESTS_SCHEMA)
    except BadAnswer:
        log.warning("requests to forget are found by words alone", extra={"actor": str(actor.pk)})
        return []
    return [(about, told[index][1]) for index, about in requests_found(answer, texts).items()]


def _hold(actor: Actor, what: str, *, since: datetime, by: Principal, now: datetime) -> int:
    keys = _all_of(actor) if asks_for_all(what) else _about(actor, what, by=by, now=now)
    with transaction.atomic():
        lock_actor(actor.pk)
        held = MemoryRevision.objects.filter(actor_id=actor.pk, verb=FORGET_VERB, created_at__gte=since)
        decided = set(held.filter(memory_id__in=keys).values_list("memory_id", flat=True))
        memories = Memory.objects.of([actor.pk]).locked([key for key in keys if key not in decided]).values()
        return len(_await_review(memories, verb=FORGET_VERB, reason=ASKED, by=by, now=now))


def _all_of(actor: Actor) -> list[UUID]:
    rows = Memory.objects.of([actor.pk]).filter(status=Status.ACTIVE).order_by("-created_at", "-pk")
    return list(rows.values_list("pk", flat=True)[:MAX_HELD_OF_ALL])


def _about(actor: Actor, what: str, *, by: Principal, now: datetime) -> list[UUID]:
    tenant = Tenant(actor.agent_id, actor.user_id, actor.agent, actor)
    floor = effective_policy(ContextPolicy, actor.agent, actor).semantic_relevance_floor
    search = MemorySearch(
        query=text_query(what, payer=tenant.payer), limit=MAX_HELD, relevance_floor=floor, only_informative=True
    )
    found = search_memories(tenant=tenant, search=search, by=by, mark=False, now=now).found
    return [each.memory.pk for each in found if each.memory.actor_id == actor.pk]


def _forget_summary_memory(forgotten: Forgotten, by: Principal) -> list[Memory]:
    """Delete the memory of a summary that covers deleted messages, and return it.

    Without a tombstone: the next may say the same.
    """
    cursors = StrategyCursor.objects.filter(actor_id=forgotten.actor.pk, session_id=forgotten.session.pk)
    of_summary = cursors.filter(strategy=Strategy.SUMMARY, read_until__gte=forgotten.first_seq)
    keys: Sequence[UUID] = [key for key in of_summary.values_list("memory_id", flat=True) if key is not None]
    memories = Memory.objects.of([forgotten.actor.pk]).locked(keys)
    delete_without_tombstones(
        actor=forgotten.actor, memory_ids=list(memories), by=by, reason=forgotten.reason, now=forgotten.now
    )
    (cursors if forgotten.is_whole else of_summary).delete()
    return list(memories.values())
