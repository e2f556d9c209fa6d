"""Moving many memories from one state to another at once, each with its revision (SPEC S5, M9)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from memoryhub.auth.domain import Principal
from strength.domain.memories import Status
from strength.sleep_sql import MOVE_MEMORIES


def move_memories(
    *,
    actor_id: UUID,
    memory_ids: Sequence[UUID],
    from_: Status,
    to: Status,
    verb: str,
    by: Principal,
    reason: str,
    now: datetime,
) -> list[UUID]:
    """Move those of the memories that are still in the state `from_`, and not pinned; return which.

    Inside the caller's transaction, which keeps others from changing them. One whose text has come into use again
    does not become active.
    """
    if not memory_ids:
        return []
    values: dict[str, Any] = {
        "actor_id": actor_id, "memory_ids": list(memory_ids), "from": from_.value, "to": to.value, "verb": verb,
        "who_kind": by.kind.value, "who_id": by.id, "who_name": by.name[:150], "reason": reason, "now": now,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(MOVE_MEMORIES, values)
        return [memory_id for (memory_id,) in cursor.fetchall()]
