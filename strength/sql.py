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

FOLLOW_MEMORIES = """
UPDATE strength_memoryindex AS found SET ({columns}) = ROW({values})
FROM strength_memory AS memory
WHERE memory.actor_id = found.actor_id AND memory.id = found.memory_id
    AND ROW({found}) IS DISTINCT FROM ROW({values})
""".format(
    columns=", ".join(FACETS),
    values=", ".join(f"memory.{name}" for name in FACETS),
    found=", ".join(f"found.{name}" for name in FACETS),
)

FOLLOW_THESE = (
    f"{FOLLOW_MEMORIES} AND memory.actor_id = ANY(%(actor_ids)s) AND memory.id = ANY(%(memory_ids)s)"
)
