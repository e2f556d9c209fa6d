"""Write to the audit trail: ids, verbs and reasons; never texts or secrets."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from django.db.models import Model

from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import Principal
from memoryhub.db.copy import copy_rows
from memoryhub.ids import new_id
from memoryhub.privacy.screening import screen
from memoryhub.tenancy.models import Actor, Agent

KINDS: Final = {
    "apikey": "api_key",
    "oauthclient": "oauth_client",
    "oauthgrant": "oauth_grant",
    "routingdecision": "routing",
    "sleeprun": "sleep_run",
    "user": "person",
}
"""The object kinds that differ from the name of the row's model."""


def record(
    *,
    by: Principal,
    verb: str,
    row: Model,
    actor: Actor | None = None,
    reason: str = "",
    details: Mapping[str, Any] | None = None,
    now: datetime,
) -> None:
    """Write an entry about a row; call it in the transaction of the change itself.

    The entry names the row's actor, or `actor` where that is loaded already.
    """
    owner = actor or (row if isinstance(row, Actor) else getattr(row, "actor", None))
    name = str(row._meta.model_name)
    record_each(
        by=by, verb=verb, object_kind=KINDS.get(name, name), object_ids=[row.pk], actor=owner,
        agent_id=row.agent_id if isinstance(row, Agent) else "", reason=reason, details=details, now=now,
    )  # fmt: skip


def record_each(
    *,
    by: Principal,
    verb: str,
    object_kind: str,
    object_ids: Iterable[object] = ("",),
    actor: Actor | None = None,
    agent_id: str = "",
    reason: str = "",
    details: Mapping[str, Any] | None = None,
    now: datetime,
) -> None:
    """Write an entry for each id, or one without an id for a change that has no single row."""
    reason = screen(str(reason)).text
    entries = [
        _entry(
            by, verb, object_kind, object_id, now, agent_id=actor.agent_id if actor else agent_id,
            user_id=actor.user_id if actor else "", reason=reason, details=dict(details or {}),
        )
        for object_id in object_ids
    ]  # fmt: skip
    copy_rows(AuditEntry, entries)


def record_rows(*, by: Principal, verb: str, rows: Iterable[tuple[Any, Mapping[str, Any]]], now: datetime) -> None:
    """Write an entry for each row of actors, with its details, in one statement."""
    entries = []
    for row, details in rows:
        kind, owner = KINDS.get(row._meta.model_name, row._meta.model_name), row.actor
        values = {"agent_id": owner.agent_id, "user_id": owner.user_id, "details": dict(details)}
        entries.append(_entry(by, verb, kind, row.pk, now, **values))
    copy_rows(AuditEntry, entries)


def _entry(by: Principal, verb: str, kind: str, object_id: object, now: datetime, **values: Any) -> dict[str, Any]:
    return {
        "id": new_id(), "at": now, "who_kind": by.kind, "who_id": by.id, "who_name": by.name[:150], "verb": verb,
        "object_kind": kind, "object_id": str(object_id)[:255], "reason": "", **values,
    }  # fmt: skip
