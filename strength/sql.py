"""The formulas of `strength.domain.strength` rendered for the database; one parity test feeds both the same cases.

Each is a piece of SQL over column names, with parameters by name; `policy_values` gives those of a policy.
"""

import math
from typing import Any, Final

from strength.domain.policy import StrengthPolicy

LEVEL: Final = "(width_bucket({uses}, %(thresholds)s::int[]) - 1)"
"""`consolidation_level`: thresholds reached, the first of which is 0."""

A_DAY: Final = "(%(logarithms)s::float8[])[{level} + 1]"
"""The logarithm of the share of strength that is left after a day, by level."""

DAYS: Final = """CASE WHEN %(by_task)s
    THEN greatest(0, %(tasks)s - {decayed_at_task})::float8 / %(tasks_per_day)s
    ELSE greatest(0, date_part('epoch', %(now)s - {since})) / 86400 END"""
"""`days_of_decay`, from `since` until now, or over the tasks completed since."""

LEFT: Final = """CASE WHEN {strength} < 1e-200 THEN 0
    ELSE {strength} * exp(greatest(-200, least(200, {logarithm}))) END"""
"""`left_of`. PostgreSQL's power and products refuse what is too small for a float; this never is."""

DECAY: Final = "({days}) * {a_day}"
"""What `decayed` adds to `faded`: the logarithm of what so many days leave."""

DECAYED: Final = LEFT.format(strength="{strength}", logarithm=DECAY)
"""The strength of `decayed`."""

BY_CLOCK: Final = "least(0, ({clock})[{row}.consolidation_level + 1] - {row}.clock_then)"
"""`faded_by`; 0 for a row beside the clock."""

OF_PERSPECTIVE: Final = LEFT.format(strength="{strength}", logarithm="{faded_now} - {faded_then}")
"""`perspective_strength`."""


def policy_values(policy: StrengthPolicy) -> dict[str, Any]:
    """Return a policy as the parameters of these pieces."""
    return {
        "thresholds": list(policy.consolidation_thresholds),
        "logarithms": [math.log(target) for target in policy.decay_targets],
        "by_task": policy.decay_clock == "task",
        "tasks_per_day": policy.expected_tasks_per_day,
        "archive_threshold": policy.archive_threshold,
        "most_active": policy.max_active_memories,
    }


# One statement for all that a search returned. The rows are locked in the order of their keys, so that
# searches with overlapping results wait for each other and never deadlock. The actors come first, as in every write:
# the array is asked for before any row is looked at. Of an actor that is erased meanwhile there is nothing to count.
MARK_CANDIDATES = """
WITH actors AS MATERIALIZED (
    SELECT id FROM memoryhub_actor WHERE id = ANY(%(actor_ids)s) ORDER BY id FOR KEY SHARE
), returned AS MATERIALIZED (
    SELECT actor_id, memory_id FROM strength_memorynumbers
    WHERE actor_id = ANY(ARRAY(SELECT id FROM actors)) AND memory_id = ANY(%(memory_ids)s)
    ORDER BY actor_id, memory_id FOR UPDATE
)
UPDATE strength_memorynumbers AS numbers SET candidate_count = numbers.candidate_count + 1
FROM returned WHERE numbers.actor_id = returned.actor_id AND numbers.memory_id = returned.memory_id
"""

# What is about to be written, as if every night had written it: off the clock of the actor. Who changes numbers begins
# with this, in the same round trip; so all rows are held here, memories first, whether they are on the clock or not.
OFF_THE_CLOCK = """
WITH known AS MATERIALIZED (
    SELECT id FROM strength_memory
    WHERE actor_id = ANY(%(actor_ids)s) AND id = ANY(%(memory_ids)s) ORDER BY id FOR KEY SHARE
), held AS MATERIALIZED (
    SELECT memory_id FROM strength_memorynumbers
    WHERE actor_id = ANY(%(actor_ids)s) AND memory_id = ANY(ARRAY(SELECT id FROM known))
    ORDER BY actor_id, memory_id FOR UPDATE
)
UPDATE strength_memorynumbers AS numbers SET
    strength = now.strength, faded = now.faded, last_decay_at = now.last_decay_at,
    decayed_at_task = now.decayed_at_task, slept_in = now.slept_in, before_strength = now.before_strength,
    before_faded = now.before_faded, before_level = now.before_level, before_decay_at = now.before_decay_at,
    before_task = now.before_task, clock_then = NULL
FROM held JOIN strength_currentnumbers AS now ON now.memory_id = held.memory_id
WHERE numbers.actor_id = ANY(%(actor_ids)s) AND numbers.memory_id = held.memory_id AND numbers.clock_then IS NOT NULL;
"""

# What happened to a memory today, in one row; the statement before it is `changed`.
_NOTE_POINT = """
INSERT INTO strength_strengthpoint AS point
    (actor_id, memory_id, day, kind, at, before, strength, faded, level, times, began_at, faded_before)
SELECT %(actor_id)s, memory_id, (%(now)s AT TIME ZONE 'UTC')::date, %(kind)s, %(now)s, before, strength, faded,
    consolidation_level, 1, %(now)s, faded
FROM changed ORDER BY memory_id
ON CONFLICT (actor_id, memory_id, day, kind) DO UPDATE SET at = excluded.at, strength = excluded.strength,
    faded = excluded.faded, level = excluded.level, times = point.times + 1
"""

# Those of the memories that may grow, held in order: what waits for a curator, or was refused, is no use to anybody.
_HOLD_KNOWN = """
known AS MATERIALIZED (
    SELECT id AS memory_id FROM strength_memory
    WHERE actor_id = %(actor_id)s AND id = ANY(%(memory_ids)s) AND status IN ('active', 'archived')
    ORDER BY id FOR KEY SHARE
)"""

# Rows are held by a list that is drawn up first. Were they held by a join, PostgreSQL would do the join again for a
# row that somebody else has changed meanwhile, find nothing, and leave it out: one use in ten was lost so.
# What a use adds is added to what an undone sleep would bring back as well, so that undoing never takes a use away.
USE_MEMORIES = f"""
WITH {_HOLD_KNOWN}, reported AS (
    INSERT INTO strength_usereport (actor_id, memory_id, task, created_at)
    SELECT %(actor_id)s, memory_id, %(task)s::text, %(now)s
    FROM known WHERE %(task)s::text IS NOT NULL ORDER BY memory_id
    ON CONFLICT DO NOTHING RETURNING memory_id
), counted AS (
    SELECT memory_id FROM reported UNION ALL SELECT memory_id FROM known WHERE %(task)s::text IS NULL
), held AS MATERIALIZED (
    SELECT memory_id FROM strength_memorynumbers
    WHERE actor_id = %(actor_id)s AND memory_id = ANY(ARRAY(SELECT memory_id FROM counted))
    ORDER BY memory_id FOR UPDATE
), changed AS (
    UPDATE strength_memorynumbers AS numbers SET
        access_count = access_count + 1,
        strength = strength + %(increment)s,
        before_strength = before_strength + %(increment)s,
        last_accessed_at = greatest(last_accessed_at, %(now)s),
        consolidation_level = {LEVEL.format(uses="access_count + 1")},
        before_level = CASE WHEN before_level IS NOT NULL THEN {LEVEL.format(uses="access_count + 1")} END
    FROM held WHERE numbers.actor_id = %(actor_id)s AND numbers.memory_id = held.memory_id
    RETURNING numbers.memory_id, strength - %(increment)s AS before, strength, faded, consolidation_level
), seen AS (
    INSERT INTO strength_perspectivestrength AS perspective (actor_id, memory_id, perspective, strength, faded, as_of)
    SELECT %(actor_id)s, memory_id, %(perspective)s::text, %(perspective_increment)s, faded, %(now)s
    FROM changed WHERE %(perspective)s::text IS NOT NULL ORDER BY memory_id
    ON CONFLICT (actor_id, memory_id, perspective) DO UPDATE SET
        strength = {
    OF_PERSPECTIVE.format(
        strength="perspective.strength", faded_now="excluded.faded", faded_then="perspective.faded"
    )
} + excluded.strength,
        faded = excluded.faded, as_of = greatest(perspective.as_of, excluded.as_of)
)
{_NOTE_POINT}"""  # noqa: S608 - pieces of our own

IMPACT_MEMORIES = f"""
WITH {_HOLD_KNOWN}, held AS MATERIALIZED (
    SELECT memory_id FROM strength_memorynumbers
    WHERE actor_id = %(actor_id)s AND memory_id = ANY(ARRAY(SELECT memory_id FROM known)) ORDER BY memory_id FOR UPDATE
), changed AS (
    UPDATE strength_memorynumbers AS numbers SET
        impact_score = impact_score + %(value)s,
        strength = strength + %(increment)s,
        before_strength = before_strength + %(increment)s
    FROM held WHERE numbers.actor_id = %(actor_id)s AND numbers.memory_id = held.memory_id
    RETURNING numbers.memory_id, strength - %(increment)s AS before, strength, faded, consolidation_level
)
{_NOTE_POINT}"""  # noqa: S608 - pieces of our own

# A strength that somebody states holds from now on: it fades from now, and no sleep before it can be undone on it.
SET_STRENGTHS = f"""
WITH {_HOLD_KNOWN}, held AS MATERIALIZED (
    SELECT memory_id, strength AS before FROM strength_memorynumbers
    WHERE actor_id = %(actor_id)s AND memory_id = ANY(ARRAY(SELECT memory_id FROM known)) ORDER BY memory_id FOR UPDATE
), changed AS (
    UPDATE strength_memorynumbers AS numbers SET
        strength = stated.strength,
        last_decay_at = greatest(numbers.last_decay_at, %(now)s),
        decayed_at_task = coalesce(
            (SELECT tasks_completed FROM strength_rhythm WHERE actor_id = %(actor_id)s), 0
        ),
        slept_in = NULL, before_strength = NULL, before_faded = NULL, before_level = NULL, before_decay_at = NULL,
        before_task = NULL
    FROM held JOIN unnest(%(memory_ids)s::uuid[], %(strengths)s::float8[]) AS stated (memory_id, strength)
        ON stated.memory_id = held.memory_id
    WHERE numbers.actor_id = %(actor_id)s AND numbers.memory_id = held.memory_id
    RETURNING numbers.memory_id, held.before, numbers.strength, faded, consolidation_level
)
{_NOTE_POINT}"""  # noqa: S608 - pieces of our own

# Index rows repeat what searches narrow by. One list, used on both sides; a test holds it to the models.
FACETS = (
    "kind", "namespace", "tags", "scope_level", "scope_domain", "scope_project", "status", "pinned",
    "valid_from", "valid_to", "created_at",
)  # fmt: skip

_OF_FOUND = ", ".join(f"found.{name}" for name in FACETS)
_OF_MEMORY = ", ".join(f"memory.{name}" for name in FACETS)

_DIFFERS = f"ROW({_OF_FOUND}) IS DISTINCT FROM ROW({_OF_MEMORY})"

# What a night's sleep goes by, beside the numbers themselves.
FADES_BY = ("status", "pinned", "valid_from", "valid_to")

_OF_NUMBERS = ", ".join(f"numbers.{name}" for name in FADES_BY)
_OF_FADING = ", ".join(f"memory.{name}" for name in FADES_BY)

STALE_MEMORIES = f"""
SELECT memory.actor_id, array_agg(DISTINCT memory.id)
FROM strength_memory AS memory
LEFT JOIN strength_memoryindex AS found ON found.actor_id = memory.actor_id AND found.memory_id = memory.id
LEFT JOIN strength_memorynumbers AS numbers ON numbers.actor_id = memory.actor_id AND numbers.memory_id = memory.id
WHERE (found.memory_id IS NOT NULL AND {_DIFFERS})
    OR (numbers.memory_id IS NOT NULL AND ROW({_OF_NUMBERS}) IS DISTINCT FROM ROW({_OF_FADING}))
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

# What begins to fade, for it was unpinned, came back or holds again, begins now.
_BEGINS_TO_FADE = """(
    numbers.pinned AND NOT memory.pinned
    OR numbers.status <> 'active' AND memory.status = 'active'
    OR numbers.valid_to <= memory.updated_at AND (memory.valid_to IS NULL OR memory.valid_to > memory.updated_at)
)"""

FOLLOW_NUMBERS = f"""
UPDATE strength_memorynumbers AS numbers SET ({", ".join(FADES_BY)}) = ROW({_OF_FADING}),
    last_decay_at = CASE WHEN {_BEGINS_TO_FADE} THEN greatest(numbers.last_decay_at, memory.updated_at)
        ELSE numbers.last_decay_at END,
    decayed_at_task = CASE WHEN {_BEGINS_TO_FADE} THEN coalesce(
        (SELECT tasks_completed FROM strength_rhythm AS rhythm WHERE rhythm.actor_id = memory.actor_id), 0
    ) ELSE numbers.decayed_at_task END,
    before_decay_at = CASE WHEN {_BEGINS_TO_FADE} AND numbers.slept_in IS NOT NULL
        THEN greatest(numbers.last_decay_at, memory.updated_at) ELSE numbers.before_decay_at END,
    before_task = CASE WHEN {_BEGINS_TO_FADE} AND numbers.slept_in IS NOT NULL THEN coalesce(
        (SELECT tasks_completed FROM strength_rhythm AS rhythm WHERE rhythm.actor_id = memory.actor_id), 0
    ) ELSE numbers.before_task END
FROM strength_memory AS memory
WHERE memory.actor_id = numbers.actor_id AND memory.id = numbers.memory_id
    AND ROW({_OF_NUMBERS}) IS DISTINCT FROM ROW({_OF_FADING})
    AND memory.actor_id = ANY(%(actor_ids)s) AND memory.id = ANY(%(memory_ids)s)
"""  # noqa: S608 - the names of our own columns

# What the best are chosen by. A row that no longer says what its memory says has been found by mistake.
NUMBERS_OF_NOMINEES = f"""
SELECT memory.id, greatest(numbers.strength, {
    OF_PERSPECTIVE.format(
        strength="perspective.strength", faded_now="numbers.faded", faded_then="perspective.faded"
    )
}),
    coalesce(numbers.last_accessed_at, memory.created_at)
FROM strength_memory AS memory
JOIN strength_memoryindex AS found ON found.actor_id = memory.actor_id AND found.space_id = %(space_id)s
    AND found.memory_id = memory.id AND ROW({_OF_FOUND}) IS NOT DISTINCT FROM ROW({_OF_MEMORY})
JOIN strength_currentnumbers AS numbers ON numbers.actor_id = memory.actor_id AND numbers.memory_id = memory.id
LEFT JOIN strength_perspectivestrength AS perspective ON perspective.actor_id = memory.actor_id
    AND perspective.memory_id = memory.id AND perspective.perspective = %(perspective)s
WHERE memory.actor_id = ANY(%(actor_ids)s) AND memory.id = ANY(%(memory_ids)s)
"""  # noqa: S608 - the names of our own columns
