"""Which memories stood in a memory's place before and after it: what held when (SPEC M8)."""

from typing import Any, Final
from uuid import UUID

from django.db import connection

from strength.models import Memory

MOST_STEPS: Final = 20
"""To either side."""

# From a memory to what stands in its place, and on; and back to what it stands in the place of. `UNION` ends circles.
CHAIN = """
WITH RECURSIVE later AS (
    SELECT id, superseded_by_id, 0 AS step FROM strength_memory WHERE actor_id = %(actor_id)s AND id = %(memory_id)s
    UNION
    SELECT next.id, next.superseded_by_id, later.step + 1 FROM strength_memory AS next
    JOIN later ON next.id = later.superseded_by_id WHERE next.actor_id = %(actor_id)s AND later.step < %(most)s
), earlier AS (
    SELECT id, 0 AS step FROM strength_memory WHERE actor_id = %(actor_id)s AND id = %(memory_id)s
    UNION
    SELECT former.id, earlier.step - 1 FROM strength_memory AS former
    JOIN earlier ON former.superseded_by_id = earlier.id
    WHERE former.actor_id = %(actor_id)s AND earlier.step > -%(most)s
)
SELECT id, min(step) FROM (SELECT id, step FROM earlier UNION SELECT id, step FROM later) AS chain
GROUP BY id ORDER BY 2, 1 LIMIT %(most)s * 2 + 1
"""


def succession_of(memory: Memory) -> list[tuple[UUID, int]]:
    """Return the ids of the memory, what it replaced (steps below 0) and what replaced it (above), in that order."""
    keys: dict[str, Any] = {"actor_id": memory.actor_id, "memory_id": memory.pk, "most": MOST_STEPS}
    with connection.cursor() as cursor:
        cursor.execute(CHAIN, keys)
        return [(key, int(step)) for key, step in cursor.fetchall()]
