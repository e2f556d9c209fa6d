"""Resolve names and ids to the one actor that a key may touch (SPEC A3, A10, L1).

These are the only functions that turn an agent's and a user's names, or a bare id from a URL, into
rows. Everything after them filters by `actor_id`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import TypeVar
from uuid import UUID

from django.db import models
from django.db.models import Q
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.domain import Forbidden, Principal
from memoryhub.errors import DomainError
from memoryhub.llm.usage.domain import Payer
from memoryhub.prepared import PreparedQuery, prepared_cursor
from memoryhub.tenancy.domain import actor_id
from memoryhub.tenancy.models import Actor, Agent

# The weakest lock that keeps the row from going; the ORM has no word for it.
LOCK_ACTOR = "SELECT 1 FROM memoryhub_actor WHERE id = %s FOR KEY SHARE"

ACTORS = PreparedQuery(lambda: Actor.objects.order_by().select_related("agent"))
AGENT_IDS = PreparedQuery(lambda: Agent.objects.order_by().values_list("agent_id", flat=True))

Row = TypeVar("Row", bound=models.Model)


class UnknownRow(DomainError, LookupError):
    """No such row, or none that the key may see: the two must look alike from outside."""


@dataclass(frozen=True)
class Tenant:
    """The actor a read is about; agent and actor are None where nothing was ever written."""

    agent_id: str
    user_id: str
    agent: Agent | None
    actor: Actor | None

    @property
    def actor_id(self) -> UUID:
        return actor_id(self.agent_id, self.user_id)

    @property
    def payer(self) -> Payer:
        return Payer(self.agent_id, self.actor.pk if self.actor else None)

    @property
    def readable_actor_ids(self) -> list[UUID]:
        """Return the actor and its agent's own actor: whose memories a search may read in full (SPEC M2)."""
        return list(dict.fromkeys([self.actor_id, actor_id(self.agent_id)]))

    @cached_property
    def agent_ids(self) -> list[str]:
        """Return all agents, whose shared memories a search may read: once a call, for each of its searches."""
        return AGENT_IDS.rows(Q())


def tenant_for_reading(principal: Principal, agent_id: str, user_id: str | None) -> Tenant:
    """Return the actor that a read is about; raises Forbidden where the key may not touch it."""
    agent, user, actor = _look_up(principal, agent_id, user_id)
    return Tenant(agent_id=agent_id, user_id=user, agent=agent, actor=actor)


def actor_for_writing(principal: Principal, agent_id: str, user_id: str | None, *, now: datetime) -> Actor:
    """Return the actor that a write is filed under, made on first use.

    Raises Forbidden where the key may not touch the agent or the user, or names an unknown agent
    without being allowed to touch all.
    """
    agent, user, actor = _look_up(principal, agent_id, user_id)
    if actor is not None:
        return actor
    if agent is None:
        if not principal.may_touch_all_agents or principal.user_id is not None:
            message = _("There is no agent {agent}, and this key may not create one.")
            raise Forbidden(format_lazy(message, agent=repr(agent_id)))
        agent, is_new = Agent.objects.get_or_create(agent_id=agent_id, defaults={"name": agent_id})
        if is_new:
            audit.record(by=principal, verb="create", row=agent, now=now)
    return ensure_actor(agent, user)


def _look_up(principal: Principal, agent_id: str, requested: str | None) -> tuple[Agent | None, str, Actor | None]:
    """Return agent, user and actor of a call, as far as they exist; raises Forbidden.

    The user is the one named, else that of the key; an agent in owner mode has only one. One query where all exist.
    """
    principal.check_agent(agent_id)
    user = principal.user_id if requested is None and principal.user_id is not None else requested or ""
    actor = ACTORS.first(Q(id=actor_id(agent_id, user)))
    agent = actor.agent if actor else Agent.objects.filter(agent_id=agent_id).first()
    if agent is not None and agent.fixed_user_id not in ("", user):
        user = agent.fixed_user_id
        actor = ACTORS.first(Q(id=actor_id(agent_id, user)))
    principal.check_user(user)
    return agent, user, actor


def ensure_actor(agent: Agent, user_id: str) -> Actor:
    """Return the agent's actor for a user, made where it is missing; eight threads make one."""
    key = actor_id(agent.agent_id, user_id)
    Actor.objects.bulk_create([Actor(id=key, agent=agent, user_id=user_id)], ignore_conflicts=True)
    return Actor.objects.select_related("agent").get(id=key)


def hold(actor_id: UUID) -> None:
    """Keep an actor from being erased until the transaction ends; raises UnknownRow where it is gone.

    Every write takes this first. Without it a writer would lock its rows and then, for the foreign key,
    the actor, while an erasure locks the actor and then the rows: each would wait for the other.
    """
    with prepared_cursor() as cursor:
        cursor.execute(LOCK_ACTOR, [actor_id])
        if cursor.fetchone() is None:
            raise UnknownRow(_("The user was erased meanwhile."))


def resolve(rows: type[Row] | models.QuerySet[Row], principal: Principal, row_id: UUID) -> Row:
    """Return the row with this id if the key may see it, its actor and agent loaded; raises UnknownRow.

    The only look-up by a bare id, beside `resolve_many`: it filters by the agents and the user of the key. `rows` is a
    model, or some of its rows.
    """
    where = Q(pk=row_id) & _seen_by(principal)
    if isinstance(rows, models.QuerySet):
        model, row = rows.model, _with_owner(rows).filter(where).first()
    else:
        model, row = rows, _rows_of(rows).first(where)
    if row is None:
        raise UnknownRow(format_lazy(_("No {kind} {id}."), kind=_(model._meta.verbose_name_raw), id=row_id))
    return row


def resolve_many(rows: models.QuerySet[Row], principal: Principal, row_ids: Iterable[UUID]) -> list[Row]:
    return list(seen_by(rows.filter(pk__in=list(row_ids)), principal))


def seen_by(rows: models.QuerySet[Row], principal: Principal) -> models.QuerySet[Row]:
    """Narrow rows to those of the agents and the user of a key, their actors and agents loaded."""
    return _with_owner(rows).filter(_seen_by(principal))


def _seen_by(principal: Principal) -> Q:
    where = Q() if principal.agent_ids is None else Q(actor__agent_id__in=principal.agent_ids)
    return where if principal.user_id is None else where & Q(actor__user_id=principal.user_id)


def _with_owner(rows: models.QuerySet[Row]) -> models.QuerySet[Row]:
    return rows.select_related("actor__agent")


@cache
def _rows_of(model: type[Row]) -> PreparedQuery[Row]:
    return PreparedQuery(lambda: _with_owner(model._default_manager.order_by()))
