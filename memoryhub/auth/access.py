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
from memoryhub.auth.principals import Forbidden, Principal
from memoryhub.db.prepared import PreparedQuery, prepared_cursor
from memoryhub.errors import DomainError
from memoryhub.llm.usage.caps import Payer
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.policy import actor_id

# The weakest lock that prevents deletion; the ORM has no option for it.
LOCK_ACTOR = "SELECT 1 FROM memoryhub_actor WHERE id = %s FOR KEY SHARE"

ACTORS = PreparedQuery(lambda: Actor.objects.order_by().select_related("agent"))
AGENT_IDS = PreparedQuery(lambda: Agent.objects.order_by().values_list("agent_id", flat=True))

Row = TypeVar("Row", bound=models.Model)


class UnknownRow(DomainError, LookupError):
    """No such row, or none that the key may see; both must be indistinguishable to the caller."""


@dataclass(frozen=True)
class Tenant:
    """Agent and user of a read; `agent` and `actor` are None if nothing was ever written."""

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
        """Return the actors that a search may read in full: this one and the agent's own (SPEC M2)."""
        return list(dict.fromkeys([self.actor_id, actor_id(self.agent_id)]))

    @cached_property
    def agent_ids(self) -> list[str]:
        """Return all agents, as a search may read their shared memories; cached for the searches of one call."""
        return AGENT_IDS.rows(Q())


def tenant_for_reading(principal: Principal, agent_id: str, user_id: str | None) -> Tenant:
    """Return agent and user of a read; raises Forbidden if the key may not access them."""
    agent, user, actor = _look_up(principal, agent_id, user_id)
    return Tenant(agent_id=agent_id, user_id=user, agent=agent, actor=actor)


def actor_for_writing(principal: Principal, agent_id: str, user_id: str | None, *, now: datetime) -> Actor:
    """Return the actor of a write, created on first use.

    Raises Forbidden if the key may not access the agent or the user, or may not create an unknown agent.
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

    The user is the requested one, else the key's; of an agent in owner mode, its owner. One query if all exist.
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
    """Get or create the agent's actor for a user; safe under concurrency."""
    key = actor_id(agent.agent_id, user_id)
    Actor.objects.bulk_create([Actor(id=key, agent=agent, user_id=user_id)], ignore_conflicts=True)
    return Actor.objects.select_related("agent").get(id=key)


def lock_actor(actor_id: UUID) -> None:
    """Lock an actor against erasure until the transaction ends; raises UnknownRow if it was erased.

    Every write takes this lock first. Otherwise a writer would lock its rows and then, for the foreign key, the actor,
    while an erasure locks the actor and then the rows: a deadlock.
    """
    with prepared_cursor() as cursor:
        cursor.execute(LOCK_ACTOR, [actor_id])
        if cursor.fetchone() is None:
            raise UnknownRow(_("The user was erased at the same time."))


def resolve(rows: type[Row] | models.QuerySet[Row], principal: Principal, row_id: UUID) -> Row:
    """Return the row with this id if the key may see it, its actor and agent loaded; raises UnknownRow.

    The only look-up by a bare id besides `resolve_many`: it filters by the key's agents and user. `rows` is a model or
    a queryset; a row with an id that another actor has is known by its `client_id`.
    """
    model, visible = rows.model if isinstance(rows, models.QuerySet) else rows, _visible_to(principal)
    for name in ("pk", "client_id") if hasattr(model, "client_id") else ("pk",):
        where = Q((name, row_id)) & visible
        row = (
            _with_owner(rows).filter(where).first()
            if isinstance(rows, models.QuerySet)
            else (_prepared_rows(rows).first(where))
        )
        if row is not None:
            return row
    raise UnknownRow(format_lazy(_("No {kind} {id}."), kind=_(model._meta.verbose_name_raw), id=row_id))


def resolve_many(rows: models.QuerySet[Row], principal: Principal, row_ids: Iterable[UUID]) -> list[Row]:
    return list(visible_to(rows.filter(pk__in=list(row_ids)), principal))


def visible_to(rows: models.QuerySet[Row], principal: Principal) -> models.QuerySet[Row]:
    """Filter rows to those of a key's agents and user, with actors and agents loaded."""
    return _with_owner(rows).filter(_visible_to(principal))


def _visible_to(principal: Principal) -> Q:
    where = Q() if principal.agent_ids is None else Q(actor__agent_id__in=principal.agent_ids)
    return where if principal.user_id is None else where & Q(actor__user_id=principal.user_id)


def _with_owner(rows: models.QuerySet[Row]) -> models.QuerySet[Row]:
    return rows.select_related("actor__agent")


@cache
def _prepared_rows(model: type[Row]) -> PreparedQuery[Row]:
    return PreparedQuery(lambda: _with_owner(model._default_manager.order_by()))
