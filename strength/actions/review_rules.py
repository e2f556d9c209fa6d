"""Rules: decide new memories like those that a person decided, from the same source and with the same wording (ADR 62).

A rule approves only what waits for a person's trust. What a check of the text or a former decision holds back, what
contradicts a memory, and what its writer wishes to be approved, waits as without a rule.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.principals import Forbidden, Principal, PrincipalKind
from memoryhub.errors import DomainError, stored_text
from strength.actions.curation import apply_transition
from strength.actions.drafts import Draft, is_shared
from strength.actions.review_alike import MAX_WORDING_LENGTH, loaded_memories, shape_of, why_pending
from strength.domain.memories import Status, WrongState
from strength.domain.review import PendingReason, has_long_number, is_decided_by_rules
from strength.models import Memory, MemoryRevision, ReviewRule
from strength.models.rule import MAX_A_DAY, RULE_DAY, RuleVerb

NEEDS: Final = ("strength.change_memory", "strength.add_reviewrule")
"""Permissions to make a rule; where its person has lost one, it decides nothing."""

MAX_RULES: Final = 100
"""Rules in force of one actor."""

DECIDED_FIELDS: Final = ("status", "trust", "version", "updated_at", "pinned")


@dataclass(frozen=True)
class Shape:
    """Values that new memories must share with an example: a digest of them, and the reasons for which it waits."""

    digest: bytes
    reasons: tuple[PendingReason, ...]
    verbs: frozenset[RuleVerb]
    """Decisions that a rule may make about them."""


def rule_shape(memory: Memory) -> Shape:
    """Return the shape of a pending memory, loaded as by `loaded_memories`."""
    reasons = tuple(why_pending(memory).reasons)
    verbs = frozenset(verb for verb in RuleVerb if _has_plain_text(memory) and is_decided_by_rules(verb, reasons))
    return Shape(shape_of(memory), reasons, verbs)


@transaction.atomic
def make_rule(
    *, memory: Memory, shape: Shape, verb: RuleVerb, person: User, by: Principal, reason: str, now: datetime
) -> ReviewRule:
    """Keep a rule for new memories of the shape of a decided one; another about the shape ends.

    Raises Forbidden without the permissions, WrongState where no rule may decide this or there are MAX_RULES already.
    """
    if not person.has_perms(NEEDS):
        raise Forbidden(_("You may not make rules."))
    if verb not in shape.verbs:
        raise WrongState(_("No rule may decide about such memories: each needs a person."))
    in_force = ReviewRule.objects.filter(actor_id=memory.actor_id, revoked_at=None)
    for former in in_force.filter(digest=shape.digest).select_for_update(of=["self"]):
        _end(former, by=by, reason=stored_text("Another rule was made."), now=now)
    if in_force.count() >= MAX_RULES:
        raise WrongState(_("This agent and user has 100 rules already; take one back first."))
    rule = ReviewRule(
        actor=memory.actor, verb=verb, digest=shape.digest, reasons=list(shape.reasons), memory_id=memory.pk,
        kind=memory.kind, source=memory.source, channel=memory.channel, person=person, who_name=by.name[:150],
        created_at=now,
    )  # fmt: skip
    rule.save(force_insert=True)
    audit.record(by=by, verb="create", row=rule, reason=reason, details={"verb": verb}, now=now)
    return rule


@transaction.atomic
def revoke_rule(*, rule: ReviewRule, by: Principal, reason: str, now: datetime) -> None:
    """Take a rule back; what it decided stays. Raises WrongState where it was taken back already, Forbidden."""
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not take back a rule; a curator can."))
    rows = ReviewRule.objects.filter(pk=rule.pk, actor_id=rule.actor_id, revoked_at=None)
    locked = rows.select_for_update(of=["self"]).first()
    if locked is None:
        raise WrongState(_("The rule was taken back already."))
    _end(locked, by=by, reason=reason, now=now)


def _end(rule: ReviewRule, *, by: Principal, reason: str, now: datetime) -> None:
    rule.revoked_at, rule.revoked_by = now, by.name[:150]
    rule.save(update_fields=["revoked_at", "revoked_by"])
    audit.record(by=by, verb="revoke", row=rule, reason=reason, now=now)


def decide_by_rules(drafts: Sequence[Draft], now: datetime) -> None:
    """Decide the new memories of one actor that wait and that a rule in force covers."""
    waiting = {draft.memory.pk: draft for draft in drafts if _may_be_decided(draft)}
    if not waiting:
        return
    actor_id = drafts[0].memory.actor_id
    rows = ReviewRule.objects.in_force().filter(actor_id=actor_id)
    rules = {bytes(digest): key for key, digest in rows.values_list("pk", "digest")}
    for memory in loaded_memories(list(waiting)) if rules else ():
        shape = rule_shape(memory) if shape_of(memory) in rules else None
        if shape is not None and (decided := _decide(memory, shape, now)) is not None:
            for name in DECIDED_FIELDS:
                setattr(waiting[memory.pk].memory, name, getattr(decided, name))


def _may_be_decided(draft: Draft) -> bool:
    """Return whether a draft waits, and not for what its writer or a comparison has stated about it."""
    new, memory = draft.new, draft.memory
    is_stated = new.needs_approval or new.resembles is not None or new.is_uncompared or bool(new.contradicted_ids)
    return memory.status == Status.PENDING and not is_stated and not is_shared(memory)


def _has_plain_text(memory: Memory) -> bool:
    return len(memory.content) <= MAX_WORDING_LENGTH and not has_long_number(memory.content) and not is_shared(memory)


def _decide(memory: Memory, shape: Shape, now: datetime) -> Memory | None:
    """Decide a memory by the rule of its shape; None where the rule does not allow it.

    The rule is locked, so that who takes it back, and the limit of a day, count at once.
    """
    rows = ReviewRule.objects.in_force().filter(actor_id=memory.actor_id, digest=shape.digest)
    rule = rows.select_related("person").select_for_update(of=["self"]).first()
    if rule is None or not _holds(rule, shape, now):
        return None
    by = Principal(kind=PrincipalKind.JOB, id=str(rule.pk), name=f"rule of {rule.who_name}"[:150])
    with suppress(DomainError), transaction.atomic():  # otherwise it waits for a person
        decided = apply_transition(
            memory=memory, verb=rule.verb, expected_version=memory.version, batch=rule.pk, by=by,
            reason=f"By the rule of {rule.who_name}.", now=now,
        )  # fmt: skip
        rule.decided_count, rule.last_decided_at = rule.decided_count + 1, now
        rule.save(update_fields=["decided_count", "last_decided_at"])
        return decided
    return None


def _holds(rule: ReviewRule, shape: Shape, now: datetime) -> bool:
    """Return whether a rule may decide now: its person may, the reasons are the same, and the day's limit is left."""
    of_today = MemoryRevision.objects.filter(batch=rule.pk, created_at__gt=now - RULE_DAY)
    return (
        rule.person is not None
        and rule.person.has_perms(NEEDS)
        and rule.verb in shape.verbs
        and [*shape.reasons] == rule.reasons
        and of_today.count() < MAX_A_DAY
    )
