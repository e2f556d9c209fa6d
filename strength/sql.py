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

FOLLOW_MEMORIES = """
UPDATE strength_memoryindex AS found SET ({columns}) = ROW({of_memory})
FROM strength_memory AS memory
WHERE memory.actor_id = found.actor_id AND memory.id = found.memory_id
    AND ROW({of_found}) IS DISTINCT FROM ROW({of_memory})
""".format(columns=", ".join(FACETS), of_memory=_OF_MEMORY, of_found=_OF_FOUND)

FOLLOW_THESE = (
    f"{FOLLOW_MEMORIES} AND memory.actor_id = ANY(%(actor_ids)s) AND memory.id = ANY(%(memory_ids)s)"
)

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
