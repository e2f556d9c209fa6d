"""The statements of a sleep: set-based, one scan of the narrow table for each slice of an actor's memories."""

from typing import Final

from strength.expressions import A_DAY, DAYS, DECAYED, FADED, LEVEL

# An actor's row of rhythm, made where it is missing, and held: who begins, ends or undoes a sleep queues here. From
# here on an actor's rows are visited in the order of their keys, as everybody locks them: only an index has that order.
HOLD_RHYTHM: Final = """
INSERT INTO strength_rhythm AS rhythm (actor_id, tasks_completed, runs) VALUES (%(actor_id)s, 0, 0)
ON CONFLICT (actor_id) DO UPDATE SET runs = rhythm.runs
RETURNING tasks_completed, runs, slept_at, compared_until, compared_after,
    set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
"""

# What a part of a sleep has come to; and the wall's clock, whatever moment the sleep reckons for.
NOTE_RHYTHM: Final = """
UPDATE strength_rhythm SET runs = %(runs)s, slept_at = %(slept_at)s, compared_until = %(compared_until)s,
    compared_after = %(compared_after)s
WHERE actor_id = %(actor_id)s
RETURNING clock_timestamp(), now(),
    set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'on', true)
"""

COUNT_TASK: Final = """
INSERT INTO strength_rhythm AS rhythm (actor_id, tasks_completed, runs) VALUES (%(actor_id)s, 1, 0)
ON CONFLICT (actor_id) DO UPDATE SET tasks_completed = rhythm.tasks_completed + 1
"""

# The last of a slice, and whether there are more. Of memories, whose index is visible without the rows themselves.
END_OF_SLICE: Final = """
SELECT id FROM strength_memory
WHERE actor_id = %(actor_id)s AND (%(after)s::uuid IS NULL OR id > %(after)s::uuid)
ORDER BY id OFFSET %(slice)s - 1 LIMIT 2
"""

_SINCE = "greatest({row}.last_decay_at, {row}.valid_from)"
_DAYS = DAYS.format(decayed_at_task="{row}.decayed_at_task", since=_SINCE)
# What has begun to hold since the last sleep was not there for the tasks that were counted since.
_IS_NEW = "%(by_task)s AND numbers.valid_from > numbers.last_decay_at"
_NUMBERS_DAYS = f"CASE WHEN numbers.pinned OR ({_IS_NEW}) THEN 0 ELSE {_DAYS.format(row='numbers')} END"
_NUMBERS_A_DAY = A_DAY.format(level="numbers.consolidation_level")
_NUMBERS_LEVEL = LEVEL.format(uses="numbers.access_count")

# What sleeps: what holds now, for what has ended or has not begun neither fades nor stands in anybody's way.
_SLEEPS: Final = """numbers.actor_id = %(actor_id)s AND numbers.status = 'active'
    AND (numbers.valid_to IS NULL OR numbers.valid_to > %(now)s)
    AND (numbers.valid_from IS NULL OR numbers.valid_from <= %(now)s)"""

_OF_SLICE: Final = """(%(after)s::uuid IS NULL OR numbers.memory_id > %(after)s::uuid)
    AND (%(until)s::uuid IS NULL OR numbers.memory_id <= %(until)s::uuid)"""

# One scan fades, refreshes levels, and keeps how each row stood. Pinned memories change their level alone.
FADE: Final = f"""
WITH faded AS (
    UPDATE strength_memorynumbers AS numbers SET
        before_strength = strength, before_faded = faded, before_level = consolidation_level,
        before_decay_at = last_decay_at, before_task = decayed_at_task, slept_in = %(number)s,
        strength = {DECAYED.format(strength="strength", a_day=_NUMBERS_A_DAY, days=_NUMBERS_DAYS)},
        faded = {FADED.format(faded="faded", a_day=_NUMBERS_A_DAY, days=_NUMBERS_DAYS)},
        consolidation_level = {_NUMBERS_LEVEL},
        last_decay_at = CASE WHEN pinned THEN last_decay_at ELSE greatest(last_decay_at, %(now)s) END,
        decayed_at_task = CASE WHEN pinned THEN decayed_at_task ELSE %(tasks)s END
    WHERE {_SLEEPS} AND {_OF_SLICE} AND slept_in IS DISTINCT FROM %(number)s
        AND (NOT pinned OR consolidation_level <> {_NUMBERS_LEVEL})
    RETURNING memory_id, strength < before_strength AS has_faded, consolidation_level <> before_level AS has_risen,
        strength <= %(archive_threshold)s AND NOT pinned AS is_weak
)
SELECT count(*) FILTER (WHERE has_faded), count(*) FILTER (WHERE has_risen),
    array_agg(memory_id) FILTER (WHERE is_weak), count(*),
    (SELECT count(*) FROM strength_memory WHERE actor_id = %(actor_id)s AND pinned)
FROM faded
"""  # noqa: S608 - pieces of our own

# Weakest first, the younger of two equally weak; those that are pinned take their places and are never in excess.
EXCESS: Final = f"""
SELECT memory_id FROM (
    SELECT memory_id, pinned FROM strength_memorynumbers AS numbers WHERE {_SLEEPS}
    ORDER BY pinned DESC, strength DESC, memory_id OFFSET %(most_active)s
) AS beyond
WHERE NOT pinned ORDER BY memory_id
"""  # noqa: S608 - pieces of our own

_CURATED_AS_JSON: Final = """jsonb_build_object(
    'content', memory.content, 'namespace', memory.namespace, 'kind', memory.kind, 'tags', to_jsonb(memory.tags),
    'scope_level', memory.scope_level, 'scope_domain', memory.scope_domain, 'scope_project', memory.scope_project,
    'status', memory.status, 'pinned', memory.pinned, 'locked', memory.locked, 'learnings', memory.learnings,
    'confidence', memory.confidence, 'valid_from', {valid_from}, 'valid_to', {valid_to}
)"""
# Python writes midnight without fractions of a second; a revision by SQL must not look like a change.
_AS_PYTHON_WRITES: Final = (
    "replace(to_char({0} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"'), '.000000', '')"
)
_AFTER = _CURATED_AS_JSON.format(
    valid_from=_AS_PYTHON_WRITES.format("memory.valid_from"),
    valid_to=_AS_PYTHON_WRITES.format("memory.valid_to"),
)

# The state of many memories at once, with what repeats it and a revision of each. Only those still in the state they
# are taken from; where a text has come into use again meanwhile (`memory_text_once`), its elder stays as it is.
MOVE_MEMORIES: Final = f"""
WITH held AS MATERIALIZED (
    SELECT memory_id FROM strength_memorynumbers
    WHERE actor_id = %(actor_id)s AND memory_id = ANY(%(memory_ids)s) ORDER BY memory_id FOR UPDATE
), moved AS (
    UPDATE strength_memory AS memory SET status = %(to)s, version = version + 1, updated_at = %(now)s
    WHERE actor_id = %(actor_id)s AND id = ANY(ARRAY(SELECT memory_id FROM held)) AND status = %(from)s AND NOT pinned
        AND (%(to)s <> 'active' OR NOT EXISTS (
            SELECT 1 FROM strength_memory AS other
            WHERE other.actor_id = memory.actor_id AND other.namespace = memory.namespace
                AND other.content_digest = memory.content_digest AND other.id <> memory.id
                AND other.status IN ('active', 'pending') AND other.superseded_by_id IS NULL AND other.valid_to IS NULL
        ))
    RETURNING memory.*
), followed AS (
    UPDATE strength_memorynumbers AS numbers SET status = %(to)s
    FROM moved WHERE numbers.actor_id = moved.actor_id AND numbers.memory_id = moved.id
), found AS (
    UPDATE strength_memoryindex AS found SET status = %(to)s
    FROM moved WHERE found.actor_id = moved.actor_id AND found.memory_id = moved.id
)
INSERT INTO strength_memoryrevision (id, actor_id, memory_id, number, verb, who_kind, who_id, who_name, reason,
    changed_before, changed_after, after, created_at)
SELECT gen_random_uuid(), memory.actor_id, memory.id, memory.version, %(verb)s, %(who_kind)s, %(who_id)s, %(who_name)s,
    %(reason)s, jsonb_build_object('status', %(from)s::text), jsonb_build_object('status', %(to)s::text), {_AFTER},
    %(now)s
FROM moved AS memory
RETURNING memory_id
"""  # noqa: S608 - pieces of our own

# What would happen, without a lock: the same formulas over the same rows.
PREVIEW: Final = f"""
WITH looked AS (
    SELECT numbers.memory_id, numbers.strength AS before, numbers.consolidation_level AS level, pinned,
        {DECAYED.format(strength="numbers.strength", a_day=_NUMBERS_A_DAY, days=_NUMBERS_DAYS)} AS after,
        {_NUMBERS_LEVEL} AS new_level
    FROM strength_memorynumbers AS numbers WHERE {_SLEEPS}
), placed AS (
    SELECT *, after <= %(archive_threshold)s AND NOT pinned AS is_weak,
        row_number() OVER (
            PARTITION BY after <= %(archive_threshold)s AND NOT pinned ORDER BY pinned DESC, after DESC, memory_id
        ) > %(most_active)s AND NOT pinned AS is_crowded
    FROM looked
), counted AS (
    SELECT *, count(*) FILTER (WHERE after < before) OVER () AS decayed,
        count(*) FILTER (WHERE is_weak OR is_crowded) OVER () AS archived,
        count(*) FILTER (WHERE new_level <> level) OVER () AS consolidated
    FROM placed
)
SELECT memory_id, before, after, level, new_level, is_weak, is_weak OR is_crowded, decayed, archived, consolidated
FROM counted WHERE is_weak OR is_crowded OR new_level <> level OR after < before
ORDER BY (is_weak OR is_crowded) DESC, (new_level <> level) DESC, before - after DESC, memory_id LIMIT %(most)s
"""  # noqa: S608 - pieces of our own

# What a run did, as long as it is the last that touched a row.
DONE: Final = """
SELECT memory_id, before_strength, strength, before_level, consolidation_level FROM strength_memorynumbers
WHERE actor_id = %(actor_id)s AND slept_in = %(number)s
    AND (strength < before_strength OR consolidation_level <> before_level)
ORDER BY consolidation_level <> before_level DESC, before_strength - strength DESC, memory_id LIMIT %(most)s
"""

# What undoing is about to touch, in the order in which everybody locks it.
HOLD_UNDONE: Final = """
SELECT 1 FROM strength_memorynumbers
WHERE actor_id = %(actor_id)s AND (slept_in = %(number)s OR memory_id = ANY(%(memory_ids)s))
ORDER BY memory_id FOR UPDATE
"""

# A perspective that was used since remembers how far its memory had faded; undone, it has not.
UNDO_PERSPECTIVES: Final = """
UPDATE strength_perspectivestrength AS perspective SET faded = numbers.before_faded
FROM strength_memorynumbers AS numbers
WHERE numbers.actor_id = %(actor_id)s AND numbers.slept_in = %(number)s
    AND perspective.actor_id = numbers.actor_id AND perspective.memory_id = numbers.memory_id
    AND perspective.faded < numbers.before_faded
"""

UNDO: Final = """
UPDATE strength_memorynumbers AS numbers SET
    strength = before_strength, faded = before_faded, consolidation_level = before_level,
    last_decay_at = before_decay_at, decayed_at_task = before_task,
    slept_in = NULL, before_strength = NULL, before_faded = NULL, before_level = NULL, before_decay_at = NULL,
    before_task = NULL
WHERE actor_id = %(actor_id)s AND slept_in = %(number)s
"""

# Actors whose last sleep is long enough ago, and who have something that could fade.
DUE: Final = """
SELECT actor.id FROM memoryhub_actor AS actor
LEFT JOIN strength_rhythm AS rhythm ON rhythm.actor_id = actor.id
WHERE actor.id > %(after)s AND (rhythm.slept_at IS NULL OR rhythm.slept_at < %(before)s)
    AND EXISTS (SELECT 1 FROM strength_memorynumbers AS numbers WHERE numbers.actor_id = actor.id)
ORDER BY actor.id LIMIT %(most)s
"""
