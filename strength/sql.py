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
