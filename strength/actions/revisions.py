"""Keeping what people decided: a revision and an audit entry for every curated change (SPEC M9, A11)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from strength.domain.revisions import CURATED, changed
from strength.models import Memory, MemoryRevision


def snapshot(memory: Memory) -> dict[str, Any]:
    """Return the curated values as JSON types."""
    return {field: _plain(getattr(memory, field)) for field in CURATED}


def keep_revision(
    *,
    memory: Memory,
    verb: str,
    before: Mapping[str, Any],
    by: Principal,
    reason: str,
    now: datetime,
    beside: Mapping[str, Any] | None = None,
    batch: UUID | None = None,
) -> MemoryRevision:
    """Write down a change that was just made to a locked row: its revision and its audit entry.

    `beside` is what stood beside the curated values before it (`strength.actions.beside`); `batch` is shared by what
    was changed at once.
    """
    after = snapshot(memory)
    changed_before, changed_after = changed(before, after)
    revision = MemoryRevision.objects.create(
        actor_id=memory.actor_id,
        memory=memory,
        number=memory.version,
        verb=verb,
        who_kind=by.kind,
        who_id=by.id,
        who_name=by.name[:150],
        reason=reason,
        changed_before=changed_before,
        changed_after=changed_after,
        after=after,
        beside=beside or {},
        batch=batch,
        created_at=now,
    )
    audit.record(
        by=by, verb=verb, object_kind="memory", object_id=memory.id, actor=memory.actor, reason=reason,
        details={"fields": sorted(changed_after)}, now=now,
    )  # fmt: skip
    return revision


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value
