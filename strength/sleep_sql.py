"""The statements of a sleep: set-based, one scan of the narrow table for each slice of an actor's memories."""

from typing import Final

from strength.sql import A_DAY, BY_CLOCK, DAYS, DECAY, DECAYED, LEFT, LEVEL

# An actor's row of rhythm, made where it is missing, and held: who begins, ends or undoes a sleep queues here. From
# here on an actor's rows are visited in the order of their keys, as everybody locks them: only an index has that order.
HOLD_RHYTHM: Final = """
INSERT INTO strength_rhythm AS rhythm (actor_id, tasks_completed, runs) VALUES (%(actor_id)s, 0, 0)
ON CONFLICT (actor_id) DO UPDATE SET runs = rhythm.runs
RETURNING tasks_completed, runs, slept_at, compared_until, compared_after, clock, clock_at, clock_task, clock_of,
    before_clock, before_clock_at, before_clock_task,
    set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
"""

# What a part of a sleep has come to; and the wall's clock, whatever moment the sleep reckons for.
NOTE_RHYTHM: Final = """
UPDATE strength_rhythm SET runs = %(runs)s, slept_at = %(slept_at)s, compared_until = %(compared_until)s,
    compared_after = %(compared_after)s, clock = %(clock)s, clock_at = %(clock_at)s, clock_task = %(clock_task)s,
    clock_of = %(clock_of)s, before_clock = %(before_clock)s, before_clock_at = %(before_clock_at)s,
    before_clock_task = %(before_clock_task)s
WHERE actor_id = %(actor_id)s
RETURNING clock_timestamp(), now(),
    set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'on', true)
"""

COUNT_TASK: Final = """
INSERT INTO strength_rhythm AS rhythm (actor_id, tasks_completed, runs) VALUES (%(actor_id)s, 1, 0)
ON CONFLICT (actor_id) DO UPDATE SET tasks_completed = rhythm.tasks_completed + 1
"""

# The last of a slice that is full.
END_OF_SLICE: Final = """
SELECT memory_id FROM strength_memorynumbers
WHERE actor_id = %(actor_id)s AND status = 'active' AND (%(after)s::uuid IS NULL OR memory_id > %(after)s::uuid)
ORDER BY memory_id OFFSET %(slice)s - 1 LIMIT 1
"""

_SINCE = "greatest({row}.last_decay_at, {row}.valid_from)"
_DAYS = DAYS.format(decayed_at_task="{row}.decayed_at_task", since=_SINCE)
# What has begun to hold since the last sleep was not there for the tasks that were counted since.
_IS_NEW = "%(by_task)s AND numbers.valid_from > numbers.last_decay_at"
_NUMBERS_DAYS = f"CASE WHEN numbers.pinned OR ({_IS_NEW}) THEN 0 ELSE {_DAYS.format(row='numbers')} END"
_NUMBERS_A_DAY = A_DAY.format(level="numbers.consolidation_level")
_NUMBERS_DECAY = DECAY.format(a_day=_NUMBERS_A_DAY, days=_NUMBERS_DAYS)
_NUMBERS_LEVEL = LEVEL.format(uses="numbers.access_count")

# What is left on the clock where it stands, and where it will stand after this night.
_BY_NOW = BY_CLOCK.format(clock="%(clock)s::float8[]", row="numbers")
_BY_NEXT = BY_CLOCK.format(clock="%(next)s::float8[]", row="numbers")
_TONIGHT = f"CASE WHEN clock_then IS NULL THEN {_NUMBERS_DECAY} ELSE {_BY_NEXT} END"

_HOLDS: Final = """(numbers.valid_to IS NULL OR numbers.valid_to > %(now)s)
    AND (numbers.valid_from IS NULL OR numbers.valid_from <= %(now)s)"""

# What sleeps: what holds now, for what has ended or has not begun neither fades nor stands in anybody's way.
_SLEEPS: Final = f"numbers.actor_id = %(actor_id)s AND numbers.status = 'active' AND {_HOLDS}"

_OF_SLICE: Final = """(%(after)s::uuid IS NULL OR numbers.memory_id > %(after)s::uuid)
    AND (%(until)s::uuid IS NULL OR numbers.memory_id <= %(until)s::uuid)"""

# What a night has to write: what somebody has written since the last, and of what is on the clock that which is weak
# by the end of this night, or has come to another level. The rest fades by the clock.
_IS_WRITTEN: Final = f"""CASE WHEN clock_then IS NULL
    THEN slept_in IS DISTINCT FROM %(number)s AND (NOT pinned OR consolidation_level <> {_NUMBERS_LEVEL})
    ELSE strength <= %(archive_threshold)s * exp(-greatest(-200, {_BY_NEXT}))
        OR consolidation_level <> {_NUMBERS_LEVEL} END"""

# One look at a slice, which locks nothing; few are named one by one. What has ended leaves the clock as it stands. The
# commit does not wait for the disk: a slice that is lost with the machine is lost whole, and the next waking does it.
LOOK: Final = f"""
SELECT count(*), count(*) FILTER (WHERE is_left), count(*) FILTER (WHERE is_left AND fades),
    count(*) FILTER (WHERE is_written),
    CASE WHEN count(*) FILTER (WHERE is_written) <= %(few)s THEN array_agg(memory_id) FILTER (WHERE is_written) END,
    array_agg(memory_id) FILTER (WHERE has_ended),
    (SELECT count(*) FROM strength_memory WHERE actor_id = %(actor_id)s AND pinned),
    set_config('synchronous_commit', 'off', true)
FROM (
    SELECT memory_id, holds AND is_written AS is_written, holds AND is_on AND NOT is_written AS is_left,
        is_on AND NOT holds AS has_ended, strength >= 1e-200
            AND (%(next)s::float8[])[consolidation_level + 1] < (%(clock)s::float8[])[consolidation_level + 1] AS fades
    FROM (
        SELECT memory_id, strength, consolidation_level, clock_then IS NOT NULL AS is_on, {_HOLDS} AS holds,
            {_IS_WRITTEN} AS is_written
        FROM strength_memorynumbers AS numbers
        WHERE actor_id = %(actor_id)s AND status = 'active'
            AND (%(after)s::uuid IS NULL OR memory_id > %(after)s::uuid)
        ORDER BY memory_id LIMIT %(slice)s
    ) AS found
) AS looked
"""  # noqa: S608 - pieces of our own

# Fades, refreshes levels, keeps how each row stood, and puts it on the clock where that will stand after this night.
# Pinned memories change their level alone. What began to fade after the moment that the night reckons for (a sleep that
# was broken off is gone on with) stays beside the clock, which would begin too early for it.
FADE: Final = f"""
WITH faded AS (
    UPDATE strength_memorynumbers AS numbers SET
        before_strength = CASE WHEN clock_then IS NULL THEN strength
            ELSE {LEFT.format(strength="strength", logarithm=_BY_NOW)} END,
        before_faded = faded + {_BY_NOW}, before_level = consolidation_level,
        before_decay_at = CASE WHEN clock_then IS NULL THEN last_decay_at
            ELSE greatest(last_decay_at, %(clock_at)s) END,
        before_task = CASE WHEN clock_then IS NULL THEN decayed_at_task
            ELSE greatest(decayed_at_task, %(clock_task)s) END,
        slept_in = %(number)s,
        strength = {LEFT.format(strength="strength", logarithm=_TONIGHT)},
        faded = faded + {_TONIGHT},
        consolidation_level = {_NUMBERS_LEVEL},
        last_decay_at = CASE WHEN pinned THEN last_decay_at ELSE greatest(last_decay_at, %(now)s) END,
        decayed_at_task = CASE WHEN pinned THEN decayed_at_task ELSE greatest(decayed_at_task, %(tasks)s) END,
        clock_then = CASE WHEN NOT pinned AND last_decay_at <= %(now)s AND decayed_at_task <= %(tasks)s
            THEN (%(next)s::float8[])[{_NUMBERS_LEVEL} + 1] END
    WHERE {_SLEEPS} AND {_OF_SLICE} AND (%(these)s::uuid[] IS NULL OR memory_id = ANY(%(these)s::uuid[]))
        AND {_IS_WRITTEN}
    RETURNING memory_id, strength < before_strength AS has_faded, consolidation_level <> before_level AS has_risen,
        strength <= %(archive_threshold)s AND NOT pinned AS is_weak
)
SELECT count(*) FILTER (WHERE has_faded), count(*) FILTER (WHERE has_risen),
    array_agg(memory_id) FILTER (WHERE is_weak), count(*)
FROM faded
"""  # noqa: S608 - pieces of our own

# Weakest first, the younger of two equally weak; those that are pinned take their places and are never in excess.
EXCESS: Final = f"""
SELECT memory_id FROM (
    SELECT memory_id, pinned FROM strength_currentnumbers AS numbers WHERE {_SLEEPS}
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

# The state of many memories at once, with what repeats it and a revision of each. They are off the clock already, or
# were put on it this night, where it has not arrived yet. Only those still in the state they
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
    UPDATE strength_memorynumbers AS numbers SET status = %(to)s, clock_then = NULL
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
    FROM strength_currentnumbers AS numbers WHERE {_SLEEPS}
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
SELECT memory_id, before_strength, strength, before_level, consolidation_level FROM strength_currentnumbers
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
    before_task = NULL, clock_then = NULL
WHERE actor_id = %(actor_id)s AND slept_in = %(number)s
"""

# Open proposals about memories that are not active any more.
WITHDRAW_STALE: Final = """
UPDATE strength_merge AS merge SET state = 'withdrawn', decided_at = %(now)s
WHERE actor_id = %(actor_id)s AND state = 'proposed' AND EXISTS (
    SELECT 1 FROM strength_memory AS memory
    WHERE memory.actor_id = merge.actor_id AND memory.id IN (merge.kept_id, merge.absorbed_id)
        AND memory.status <> 'active'
)
"""

# Actors whose last sleep is long enough ago, and who have something that could fade.
DUE: Final = """
SELECT actor.id FROM memoryhub_actor AS actor
LEFT JOIN strength_rhythm AS rhythm ON rhythm.actor_id = actor.id
WHERE actor.id > %(after)s AND (rhythm.slept_at IS NULL OR rhythm.slept_at < %(before)s)
    AND EXISTS (SELECT 1 FROM strength_memorynumbers AS numbers WHERE numbers.actor_id = actor.id)
ORDER BY actor.id LIMIT %(most)s
"""
