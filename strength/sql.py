"""Statements that the ORM cannot say, named and described; parameters only."""

# One statement for all that a search returned. The rows are locked in the order of their keys, so that
# searches with overlapping results wait for each other and never deadlock.
MARK_CANDIDATES = """
WITH returned AS MATERIALIZED (
    SELECT memory_id FROM strength_memorynumbers
    WHERE actor_id = ANY(%(actor_ids)s) AND memory_id = ANY(%(memory_ids)s) ORDER BY memory_id FOR UPDATE
)
UPDATE strength_memorynumbers AS numbers SET candidate_count = numbers.candidate_count + 1
FROM returned WHERE numbers.memory_id = returned.memory_id
"""

# Index rows repeat what searches narrow by. One list, used on both sides; a test holds it to the models.
FACETS = (
    "kind", "namespace", "tags", "scope_level", "scope_domain", "scope_project", "status", "pinned",
    "valid_from", "valid_to", "created_at",
)  # fmt: skip

_OF_FOUND = ", ".join(f"found.{name}" for name in FACETS)
_OF_MEMORY = ", ".join(f"memory.{name}" for name in FACETS)

_DIFFERS = f"ROW({_OF_FOUND}) IS DISTINCT FROM ROW({_OF_MEMORY})"

STALE_MEMORIES = f"""
SELECT memory.actor_id, array_agg(DISTINCT memory.id)
FROM strength_memory AS memory
JOIN strength_memoryindex AS found ON found.actor_id = memory.actor_id AND found.memory_id = memory.id
WHERE {_DIFFERS}
GROUP BY memory.actor_id ORDER BY memory.actor_id
"""  # noqa: S608 - the names of our own columns

# In the order of their keys, so that two who do this wait for each other and never deadlock.
HOLD_MEMORIES = """
SELECT id FROM strength_memory
WHERE actor_id = ANY(%(actor_ids)s) AND id = ANY(%(memory_ids)s) ORDER BY id FOR SHARE
"""

# For memories that the transaction holds, or has changed. A statement that waits for an index row goes on with
# the memory as it was when it began, and would write that over what the other has repeated meanwhile.
FOLLOW_THESE = f"""
UPDATE strength_memoryindex AS found SET ({", ".join(FACETS)}) = ROW({_OF_MEMORY})
FROM strength_memory AS memory
WHERE memory.actor_id = found.actor_id AND memory.id = found.memory_id AND {_DIFFERS}
    AND memory.actor_id = ANY(%(actor_ids)s) AND memory.id = ANY(%(memory_ids)s)
"""  # noqa: S608 - the names of our own columns

# What the best are chosen by. A row that no longer says what its memory says has been found by mistake.
NUMBERS_OF_NOMINEES = f"""
SELECT memory.id, greatest(numbers.strength, perspective.strength),
    coalesce(numbers.last_accessed_at, memory.created_at)
FROM strength_memory AS memory
JOIN strength_memoryindex AS found ON found.actor_id = memory.actor_id AND found.space_id = %(space_id)s
    AND found.memory_id = memory.id AND ROW({_OF_FOUND}) IS NOT DISTINCT FROM ROW({_OF_MEMORY})
JOIN strength_memorynumbers AS numbers ON numbers.actor_id = memory.actor_id AND numbers.memory_id = memory.id
LEFT JOIN strength_perspectivestrength AS perspective ON perspective.actor_id = memory.actor_id
    AND perspective.memory_id = memory.id AND perspective.perspective = %(perspective)s
WHERE memory.actor_id = ANY(%(actor_ids)s) AND memory.id = ANY(%(memory_ids)s)
"""  # noqa: S608 - the names of our own columns
