"""The one way into the audit trail. Never a text, never a secret: ids, verbs and reasons."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from memoryhub.auth.domain import Principal
from memoryhub.auth.models import AuditEntry
from memoryhub.tenancy.models import Actor


def record(
    *,
    by: Principal,
    verb: str,
    object_kind: str,
    object_id: object = "",
    actor: Actor | None = None,
    agent_id: str = "",
    reason: str = "",
    details: Mapping[str, Any] | None = None,
    now: datetime,
) -> AuditEntry:
    """Write that somebody did something; call it in the transaction of the change itself."""
    return record_each(
        by=by, verb=verb, object_kind=object_kind, object_ids=[object_id], actor=actor, agent_id=agent_id,
        reason=reason, details=details, now=now,
    )[0]  # fmt: skip


def record_each(
    *,
    by: Principal,
    verb: str,
    object_kind: str,
    object_ids: Iterable[object],
    actor: Actor | None = None,
    agent_id: str = "",
    reason: str = "",
    details: Mapping[str, Any] | None = None,
    now: datetime,
) -> list[AuditEntry]:
    return AuditEntry.objects.bulk_create(
        AuditEntry(
            at=now,
            who_kind=by.kind,
            who_id=by.id,
            who_name=by.name[:150],
            verb=verb,
            object_kind=object_kind,
            object_id=str(object_id)[:255],
            agent_id=actor.agent_id if actor else agent_id,
            user_id=actor.user_id if actor else "",
            reason=reason,
            details=dict(details or {}),
        )
        for object_id in object_ids
    )
