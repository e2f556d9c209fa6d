"""Erase a user everywhere (SPEC M11).

Walks all models by Django's app registry, so that no app can be forgotten: rows with an `actor_id` are deleted; tables
about the user without one are listed in this file. The ledger keeps its rows, which are the agent's accounts, and loses
the actor (`on_delete=SET_NULL`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import connection, models, transaction
from django.db.models import Q
from django.db.models.functions import Cast
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.models import ApiKey, AuditEntry
from memoryhub.auth.principals import Forbidden, Principal, PrincipalKind
from memoryhub.errors import DomainError
from memoryhub.jobs.queue import enqueue
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.policy import actor_id


class OwnerCannotBeErased(DomainError):
    """The user is the owner of an agent in owner mode."""

    code = "owner_cannot_be_erased"


class NoUserNamed(DomainError, ValueError):
    """No user was named; an agent itself is not erased by this call."""

    field = "user_id"


UNREACHABLE_COPIES: Final = ("exported_trees", "database_pages", "backups")
"""Copies that no statement reaches: exported files, freed space that nothing has overwritten yet, dumps."""

VACUUM_KIND: Final = "vacuum"

FORGETTERS: Final[list[Callable[[UUID], object]]] = []
"""Functions that forget an actor's texts where no row names the actor, registered by apps."""


@dataclass(frozen=True)
class Erasure:
    """Counts of rows by table, what may remain elsewhere, and the job that frees the space of the rows."""

    erased: dict[str, int]
    anonymised: dict[str, int]
    remains: tuple[str, ...] = UNREACHABLE_COPIES
    vacuum_job_id: UUID | None = None


@transaction.atomic
def erase_user(*, agent_id: str, user_id: str, by: Principal, now: datetime, vacuum: bool = False) -> Erasure:
    """Delete all rows of an agent's user; return counts of deleted and anonymised rows by table.

    Audit entries stay, without the user's id, ids of their rows and reason; the erasure's own entry
    has agent, counts and time. With `vacuum`, a job then vacuums the tables. Raises OwnerCannotBeErased,
    NoUserNamed, UnknownRow where there is no such user, Forbidden where the key may not touch the agent, or is
    untrusted.
    """
    actor = _actor_to_erase(agent_id, user_id, by)
    key = actor.pk
    for forget in FORGETTERS:
        forget(key)
    erased, anonymised = {LogEntry._meta.db_table: _delete_log_entries(key)}, dict[str, int]()
    for model in actor_models():
        is_anonymised = getattr(model._meta.get_field("actor").remote_field, "on_delete", None) is models.SET_NULL
        if is_anonymised:
            anonymised[model._meta.db_table] = model._default_manager.filter(actor_id=key).update(actor=None)
        else:
            erased[model._meta.db_table] = _delete_rows(model, key)
    erased[ApiKey._meta.db_table] = _delete_keys(agent_id, user_id)
    entries = AuditEntry.objects.filter(agent_id=agent_id, user_id=user_id)
    anonymised[AuditEntry._meta.db_table] = entries.update(user_id="", object_id="", reason="", details={})
    actor.delete()
    erased[Actor._meta.db_table] = 1
    erasure = Erasure(_nonzero(erased), _nonzero(anonymised))
    details = {"erased": erasure.erased, "anonymised": erasure.anonymised}
    audit.record_each(by=by, verb="erase", object_kind="actor", agent_id=agent_id, details=details, now=now)
    if vacuum:
        job_id = enqueue(VACUUM_KIND, payload={"tables": sorted(erasure.erased)})
        erasure = replace(erasure, vacuum_job_id=job_id)
    return erasure


def _actor_to_erase(agent_id: str, user_id: str, by: Principal) -> Actor:
    by.check_agent(agent_id)
    by.check_user(user_id)
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not erase users."))
    if not user_id:
        raise NoUserNamed(_("Name the user to erase."))
    if Agent.objects.filter(agent_id=agent_id, fixed_user_id=user_id).exists():
        raise OwnerCannotBeErased(_("An agent in owner mode has this user as its owner; change that first."))
    actor = Actor.objects.select_for_update().filter(id=actor_id(agent_id, user_id)).first()
    if actor is None:
        raise UnknownRow(_("No such user of this agent."))
    return actor


def _nonzero(rows: dict[str, int]) -> dict[str, int]:
    return {table: count for table, count in sorted(rows.items()) if count}


def vacuum_tables(names: Iterable[str]) -> None:
    """Vacuum those of the tables that belong to this project; call it outside a transaction."""
    known = {model._meta.db_table for model in apps.get_models() if model._meta.managed}
    with connection.cursor() as cursor:
        for name in sorted(known.intersection(names)):
            cursor.execute(f"VACUUM {connection.ops.quote_name(name)}")


def actor_models() -> Iterator[type[models.Model]]:
    """Return every model with rows of actors, by the app registry; views have no rows."""
    for model in apps.get_models():
        if model._meta.managed and any(field.attname == "actor_id" for field in model._meta.concrete_fields):
            yield model


def _delete_rows(model: type[models.Model], key: UUID) -> int:
    """Delete an actor's rows of one table by one statement.

    Foreign keys are checked at the end of the transaction, so the order of tables does not matter. Django's own delete
    would first fetch the ids of all rows, half a minute for 150,000 messages.
    """
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {table} WHERE actor_id = %s", [key])  # noqa: S608
        return int(cursor.rowcount)


def _delete_log_entries(key: UUID) -> int:
    """Delete the entries of the admin's log about the actor and its rows; return their number."""
    deleted = 0
    logged_models: list[type[models.Model]] = [*actor_models(), Actor]
    for model in logged_models:
        if isinstance(model._meta.pk, models.CompositePrimaryKey):  # the admin has no pages of such rows
            continue
        # By model and key: small integer keys also occur in other models.
        rows: models.QuerySet[Any] = model._default_manager.filter(**{"pk" if model is Actor else "actor_id": key})
        ids = rows.annotate(in_log=Cast("pk", models.TextField())).values("in_log")
        content_type = ContentType.objects.get_for_model(model)
        deleted += LogEntry.objects.filter(content_type=content_type, object_id__in=ids).delete()[0]
    return deleted


def _delete_keys(agent_id: str, user_id: str) -> int:
    """Delete the keys bound to this agent's user, or remove the agent from keys that are also for others.

    A key for all agents stays while another agent has the user.
    """
    keys = ApiKey.objects.filter(user_id=user_id)
    only_this_agent = Q(agent_ids=[agent_id])
    if not Actor.objects.filter(user_id=user_id).exclude(agent_id=agent_id).exists():
        only_this_agent |= Q(agent_ids=None)
    deleted_ids = [str(pk) for pk in keys.filter(only_this_agent).values_list("pk", flat=True)]
    # Names of such keys often contain the user's name.
    AuditEntry.objects.filter(who_kind=PrincipalKind.KEY, who_id__in=deleted_ids).update(who_name="")
    keys.filter(only_this_agent).delete()
    for key in keys.filter(agent_ids__contains=[agent_id]):
        key.agent_ids = [other for other in key.agent_ids or [] if other != agent_id]
        key.save(update_fields=["agent_ids"])
    return len(deleted_ids)
