"""Random memories, contexts and changes, and each change's effect as announced and as it is (SPEC X13)."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from conversations.actions.context import ContextRequest, assemble_context
from conversations.actions.replays import calls_of
from conversations.actions.what_if import Effect, what_if_user
from conversations.models import Receipt
from memoryhub.auth.access import Tenant
from memoryhub.auth.actions import set_actor_policy
from memoryhub.auth.principals import Principal, curator
from memoryhub.tenancy.models import Actor
from strength.actions.curation import apply_transition, delete_memory, edit_memory
from strength.actions.memories import NewMemory, write_memory
from strength.actions.merges import merge
from strength.actions.what_if import what_if, what_if_merged
from strength.domain.memories import Kind, Status
from strength.models import Memory, Merge

PERSON = curator(1, "Ann")
THINGS = ("green tea", "black coffee", "jazz", "the piano", "long walks", "old maps", "trains", "rye bread", "chess",
          "gardens", "the sea", "winter", "short novels", "bicycles", "opera", "mushrooms")  # fmt: skip
WORDS = ("likes {}", "dislikes {}", "talks about {} on Mondays", "was asked about {}", "has a friend who sells {}",
         "learnt much about {} in Kyoto", "wants to read about {}", "would never pay for {}")  # fmt: skip
QUESTIONS = ("What do I think of {}?", "Tell me about {}.", "Who sells {}?", "Recommend something like {}.")
NONCE = re.compile(r"remembered-[0-9a-f]{16}")


def a_text(dice: random.Random) -> str:
    return f"{dice.choice(('Mai', 'The user', 'Her brother'))} {dice.choice(WORDS).format(dice.choice(THINGS))}"


def fill(actor: Actor, dice: random.Random, *, memories: int, contexts: int, now: datetime) -> None:
    """Write memories in several states, by curators and programs, and assemble contexts for questions about them."""
    options: dict[str, Any]
    for place in range(memories):
        options = {"kind": dice.choice((Kind.FACT, Kind.PREFERENCE, Kind.EPISODE, Kind.NOTE))}
        options |= {"pinned": True} if dice.random() < 0.02 else {}
        options |= {"confidence": 0.1} if dice.random() < 0.2 else {}
        new = NewMemory(content=f"{a_text(dice)} ({place})", **options)
        at = now - timedelta(days=dice.randrange(1, 90))
        memory, _ = write_memory(actor=actor, new=new, by=PERSON, now=at)
        if memory.status == Status.ACTIVE and dice.random() < 0.2:
            apply_transition(memory=memory, verb="archive", by=PERSON, reason="", now=at)
    tenant = Tenant(actor.agent_id, actor.user_id, actor.agent, actor)
    for place in range(contexts):
        message = dice.choice(QUESTIONS).format(dice.choice(THINGS))
        request = ContextRequest(message=message, options={"semantic_memory_limit": dice.randrange(1, 6)})
        assemble_context(tenant=tenant, request=request, by=PERSON, now=now - timedelta(minutes=contexts - place))


@dataclass(frozen=True)
class Trial:
    """A change: how its effect is announced, and how it is made."""

    name: str
    announce: Callable[[], Effect]
    make: Callable[[], object]


def a_trial(actor: Actor, dice: random.Random, now: datetime) -> Trial:
    """Return a random change that is allowed."""
    if dice.random() < 0.15:
        pair = dice.sample(list(Memory.objects.of([actor.pk]).active().order_by("id")), 2)
        kept, absorbed = (Memory.objects.select_related("actor").get(pk=each.pk) for each in pair)
        values = {"kept_version": kept.version, "absorbed_version": absorbed.version, "likeness": 0.9}
        proposal = Merge.objects.create(actor=actor, kept=kept, absorbed=absorbed, created_at=now, **values)
        return Trial(
            "merge",
            lambda: what_if_merged(proposal=proposal, by=PERSON, now=now),
            lambda: merge(proposal=proposal, by=PERSON, reason="", now=now),
        )
    if dice.random() < 0.15:
        return _policy_trial(actor, dice, now)
    memory = dice.choice(list(Memory.objects.of([actor.pk]).select_related("actor__agent").order_by("id")))
    by_status: dict[str, Sequence[str]] = {
        Status.ACTIVE: ("edit", "archive", "reject", "pin", "delete"),
        Status.PENDING: ("edit", "approve", "reject"),
        Status.ARCHIVED: ("edit", "reactivate", "delete"),
        Status.REJECTED: ("edit",),
    }
    verb = dice.choice(by_status[memory.status])
    values = {}
    if verb == "edit" or (verb == "approve" and dice.random() < 0.5):
        values = {"content": f"{a_text(dice)} ({dice.random()})"}
    change: dict[str, Any] = {"expected_version": memory.version, "by": PERSON, "now": now}

    def make() -> object:
        row = Memory.objects.select_related("actor__agent").get(pk=memory.pk)
        how = {"memory": row, "reason": "", **change}
        if verb == "edit":
            return edit_memory(values=values, **how)
        return delete_memory(**how) if verb == "delete" else apply_transition(verb=verb, values=values, **how)

    return Trial(verb, lambda: what_if(memory=memory, verb=verb, values=values, **change), make)


def _policy_trial(actor: Actor, dice: random.Random, now: datetime) -> Trial:
    policy = {"max_tokens": dice.choice((1_200, 2_000, 8_000)), "include_profile": dice.random() < 0.5}
    policy |= {"score_weights": {"similarity": 0.1, "strength": 0.8, "recency": 0.1}} if dice.random() < 0.5 else {}
    change: dict[str, Any] = {"actor": actor, "policy": policy, "expected_version": None, "by": PERSON, "now": now}
    return Trial("policy", lambda: what_if_user(**change), lambda: set_actor_policy(**change))


def contexts_now(receipts: Sequence[Receipt], *, by: Principal, now: datetime) -> list[Any]:
    """Return the context of each receipt's call as a client gets it, without the chance of its nonce."""
    contexts = []
    for tenant, request in calls_of(receipts).values():
        asked = ContextRequest(**{**vars(request), "nonce": ""})
        with transaction.atomic():  # one call must not change the next
            context = assemble_context(tenant=tenant, request=asked, by=by, now=now).assembly
            transaction.set_rollback(True)
        entered = [(item.layer, item.source_id, item.excerpt, item.included, item.reason) for item in context.items]
        contexts.append((plain((context.system, context.messages)), entered))
    return contexts


def announced(effect: Effect, side: str) -> list[Any]:
    """Return the contexts of one side of an announced effect, in the form of `contexts_now`."""
    contexts = []
    for each in effect.comparisons:
        outcome = getattr(each, side)
        entered = [(item["layer"], item["source_id"], item["excerpt"], item["included"], item["reason"])
                   for item in outcome.items]  # fmt: skip
        contexts.append((plain(outcome.prompt), entered))
    return contexts


def plain(prompt: Any) -> str:
    return NONCE.sub("remembered-", repr(prompt))
