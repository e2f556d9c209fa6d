"""Delete what was said after the days of an agent's or a user's policy (SPEC C8)."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce

from conversations.actions.forgetting import forget_in_steps
from conversations.domain.policy import RetentionPolicy
from conversations.models import Message, Receipt, Session
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Principal
from memoryhub.errors import stored_text
from memoryhub.jobs.context import JobContext
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy

REASON: Final = stored_text("Its retention has ended.")
BATCH_SIZE: Final = 200


@dataclass(frozen=True)
class Expired:
    """Select what the policy of one actor deletes at a time: whole sessions, old messages, and receipts."""

    actor_id: UUID
    sessions: QuerySet[Session]
    old: Q
    receipts: QuerySet[Receipt]

    def counts(self) -> Counter[str]:
        """Return the numbers of rows without zeros; messages include those of the sessions."""
        messages = Message.objects.of([self.actor_id]).filter(self.old | Q(session__in=self.sessions))
        return +Counter(sessions=self.sessions.count(), messages=messages.count(), receipts=self.receipts.count())


def actors_with_retention() -> QuerySet[Actor]:
    keys = list(RetentionPolicy.CHECKS)
    rows = Actor.objects.filter(Q(policy__has_any_keys=keys) | Q(agent__policy__has_any_keys=keys))
    return rows.select_related("agent").order_by("agent__agent_id", "user_id")


def expired(actor: Actor, now: datetime) -> Expired:
    """Return what the actor's policy deletes now."""
    policy = effective_policy(RetentionPolicy, actor.agent, actor)

    def before(field: str, days: int) -> Q:
        return Q(**{f"{field}__lt": now - timedelta(days=days)}) if days else Q(pk__in=[])

    sessions = Session.objects.filter(actor_id=actor.pk).alias(last=Coalesce("last_message_at", "started_at"))
    return Expired(
        actor.pk,
        sessions.filter(before("last", policy.session_retention_days)),
        before("created_at", policy.message_retention_days),
        Receipt.objects.filter(before("created_at", policy.receipt_retention_days), actor_id=actor.pk, is_kept=False),
    )


def apply_retention(actor: Actor, *, job: JobContext, by: Principal, now: datetime) -> None:
    """Delete what an actor's policy does not keep, a part in each step of the job."""
    keeps = not effective_policy(RetentionPolicy, actor.agent, actor).retention_takes_memories
    rows = expired(actor, now)
    ended = [(session, None) for session in rows.sessions.select_related("actor__agent").order_by("pk")]
    old = Message.objects.of([actor.pk]).filter(rows.old).exclude(session__in=rows.sessions).values("session_id")
    begun = Session.objects.select_related("actor__agent").filter(actor_id=actor.pk, pk__in=old).order_by("pk")
    for session, chosen in [*ended, *((each, rows.old) for each in begun)]:
        if chosen is None and not rows.sessions.filter(pk=session.pk).exists():
            continue  # it goes on
        with suppress(UnknownRow):  # a person was faster
            forget_in_steps(session=session, chosen=chosen, keeps_drawn=keeps, job=job, by=by, reason=REASON, now=now)
    while keys := list(rows.receipts.order_by().values_list("pk", flat=True)[:BATCH_SIZE]):
        with job.step():
            Receipt.objects.filter(actor_id=actor.pk, pk__in=keys).delete()
