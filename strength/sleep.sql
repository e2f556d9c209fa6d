-- The statements of a sleep: set-based, one scan of the narrow table of numbers for each slice of an actor's memories.
-- `strength/sql.py` gives the formulas.

-- name: lock_state
-- Makes an actor's row where it is missing, and locks it: whoever begins, ends or undoes a sleep queues here. From here
-- on an actor's rows are visited in the order of their keys, as everywhere they are locked: only an index has that order.
INSERT INTO strength_rhythm AS state (actor_id, tasks_completed, runs) VALUES (%(actor_id)s, 0, 0)
ON CONFLICT (actor_id) DO UPDATE SET runs = state.runs
RETURNING tasks_completed, runs, slept_at, compared_until, compared_after, clock, clock_at, clock_task, clock_of,
    before_clock, before_clock_at, before_clock_task,
    set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)

-- name: store_state
-- Returns the wall clock's time as well, whatever moment the sleep is for.
UPDATE strength_rhythm SET runs = %(runs)s, slept_at = %(slept_at)s, compared_until = %(compared_until)s,
    compared_after = %(compared_after)s, clock = %(clock)s, clock_at = %(clock_at)s, clock_task = %(clock_task)s,
    clock_of = %(clock_of)s, before_clock = %(before_clock)s, before_clock_at = %(before_clock_at)s,
    before_clock_task = %(before_clock_task)s
WHERE actor_id = %(actor_id)s
RETURNING clock_timestamp(), now(),
    set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'on', true)

-- name: count_task
INSERT INTO strength_rhythm AS state (actor_id, tasks_completed, runs) VALUES (%(actor_id)s, 1, 0)
ON CONFLICT (actor_id) DO UPDATE SET tasks_completed = state.tasks_completed + 1

-- name: end_of_slice
-- The last memory of a full slice.
SELECT memory_id FROM strength_memorynumbers
WHERE actor_id = %(actor_id)s AND status = 'active' AND (%(after)s::uuid IS NULL OR memory_id > %(after)s::uuid)
ORDER BY memory_id OFFSET %(slice)s - 1 LIMIT 1

-- fragment: holds
(numbers.valid_to IS NULL OR numbers.valid_to > %(now)s)
    AND (numbers.valid_from IS NULL OR numbers.valid_from <= %(now)s)

-- fragment: sleeps
-- What has ended or has not begun neither fades nor counts towards the limit of active memories.
numbers.actor_id = %(actor_id)s AND numbers.status = 'active' AND {holds}

-- fragment: is_written
-- What a night writes: rows that were written since the last, and of those on the clock the ones that are weak by the
-- end of this night, or have reached another level. The clock fades the rest.
CASE WHEN clock_then IS NULL
    THEN slept_in IS DISTINCT FROM %(number)s AND (NOT pinned OR consolidation_level <> {level})
    ELSE strength <= %(archive_threshold)s * exp(-greatest(-200, {by_next}))
        OR consolidation_level <> {level} END

-- name: look
-- One look at a slice, which locks nothing; a few are named one by one. What has ended leaves the clock as it is. The
-- commit does not wait for the disk: a slice that is lost with the machine is lost whole, and the next run repeats it.
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
        SELECT memory_id, strength, consolidation_level, clock_then IS NOT NULL AS is_on, {holds} AS holds,
            {is_written} AS is_written
        FROM strength_memorynumbers AS numbers
        WHERE actor_id = %(actor_id)s AND status = 'active'
            AND (%(after)s::uuid IS NULL OR memory_id > %(after)s::uuid)
        ORDER BY memory_id LIMIT %(slice)s
    ) AS found
) AS looked

-- name: fade
-- Fades, refreshes levels, keeps each row's former values, and puts it on the clock as that will be after this night.
-- Pinned memories change their level alone. What began to fade after the night's moment (an interrupted sleep is
-- continued later) stays off the clock, which would begin too early for it.
WITH faded AS (
    UPDATE strength_memorynumbers AS numbers SET
        before_strength = CASE WHEN clock_then IS NULL THEN strength ELSE {left_by_now} END,
        before_faded = faded + {by_now}, before_level = consolidation_level,
        before_decay_at = CASE WHEN clock_then IS NULL THEN last_decay_at
            ELSE greatest(last_decay_at, %(clock_at)s) END,
        before_task = CASE WHEN clock_then IS NULL THEN decayed_at_task
            ELSE greatest(decayed_at_task, %(clock_task)s) END,
        slept_in = %(number)s,
        strength = {left_tonight},
        faded = faded + {tonight},
        consolidation_level = {level},
        last_decay_at = CASE WHEN pinned THEN last_decay_at ELSE greatest(last_decay_at, %(now)s) END,
        decayed_at_task = CASE WHEN pinned THEN decayed_at_task ELSE greatest(decayed_at_task, %(tasks)s) END,
        clock_then = CASE WHEN NOT pinned AND last_decay_at <= %(now)s AND decayed_at_task <= %(tasks)s
            THEN (%(next)s::float8[])[{level} + 1] END
    WHERE {sleeps} AND (%(after)s::uuid IS NULL OR numbers.memory_id > %(after)s::uuid)
        AND (%(until)s::uuid IS NULL OR numbers.memory_id <= %(until)s::uuid)
        AND (%(these)s::uuid[] IS NULL OR memory_id = ANY(%(these)s::uuid[])) AND {is_written}
    RETURNING memory_id, strength < before_strength AS has_faded, consolidation_level <> before_level AS has_risen,
        strength <= %(archive_threshold)s AND NOT pinned AS is_weak
)
SELECT count(*) FILTER (WHERE has_faded), count(*) FILTER (WHERE has_risen),
    array_agg(memory_id) FILTER (WHERE is_weak), count(*)
FROM faded

-- name: excess
-- Weakest first, the younger of two equally weak; pinned ones take their places and are never in excess.
SELECT memory_id FROM (
    SELECT memory_id, pinned FROM strength_currentnumbers AS numbers WHERE {sleeps}
    ORDER BY pinned DESC, strength DESC, memory_id OFFSET %(most_active)s
) AS beyond
WHERE NOT pinned ORDER BY memory_id

-- name: move_memories
-- Changes the state of many memories, with what repeats it and a revision of each. They are off the clock already, or
-- were put on it this night, which it has not reached yet. Only those still in the state they are taken from; one
-- whose text is in use again (`memory_text_once`) stays as it is. The revision's dates are as Python writes them,
-- without fractions at full seconds, for else they would look like a change.
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
    %(reason)s, jsonb_build_object('status', %(from)s::text), jsonb_build_object('status', %(to)s::text),
    jsonb_build_object(
        'content', memory.content, 'namespace', memory.namespace, 'kind', memory.kind, 'tags', to_jsonb(memory.tags),
        'scope_level', memory.scope_level, 'scope_domain', memory.scope_domain, 'scope_project', memory.scope_project,
        'status', memory.status, 'pinned', memory.pinned, 'locked', memory.locked, 'learnings', memory.learnings,
        'confidence', memory.confidence, 'valid_from', {valid_from_as_text}, 'valid_to', {valid_to_as_text}
    ),
    %(now)s
FROM moved AS memory
RETURNING memory_id

-- name: preview
-- What would happen, without a lock: the same formulas over the same rows.
WITH looked AS (
    SELECT numbers.memory_id, numbers.strength AS before, numbers.consolidation_level AS level, pinned,
        {decayed} AS after,
        {level} AS new_level
    FROM strength_currentnumbers AS numbers WHERE {sleeps}
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

-- name: changes
-- What a run did, as long as it is the last that wrote a row.
SELECT memory_id, before_strength, strength, before_level, consolidation_level FROM strength_currentnumbers
WHERE actor_id = %(actor_id)s AND slept_in = %(number)s
    AND (strength < before_strength OR consolidation_level <> before_level)
ORDER BY consolidation_level <> before_level DESC, before_strength - strength DESC, memory_id LIMIT %(most)s

-- name: lock_undone
-- Locks what an undo will write, in the common order.
SELECT 1 FROM strength_memorynumbers
WHERE actor_id = %(actor_id)s AND (slept_in = %(number)s OR memory_id = ANY(%(memory_ids)s))
ORDER BY memory_id FOR UPDATE

-- name: undo_perspectives
-- A perspective that was used since stores how far its memory had faded; after the undo it has not.
UPDATE strength_perspectivestrength AS perspective SET faded = numbers.before_faded
FROM strength_memorynumbers AS numbers
WHERE numbers.actor_id = %(actor_id)s AND numbers.slept_in = %(number)s
    AND perspective.actor_id = numbers.actor_id AND perspective.memory_id = numbers.memory_id
    AND perspective.faded < numbers.before_faded

-- name: undo_numbers
UPDATE strength_memorynumbers AS numbers SET
    strength = before_strength, faded = before_faded, consolidation_level = before_level,
    last_decay_at = before_decay_at, decayed_at_task = before_task,
    slept_in = NULL, before_strength = NULL, before_faded = NULL, before_level = NULL, before_decay_at = NULL,
    before_task = NULL, clock_then = NULL
WHERE actor_id = %(actor_id)s AND slept_in = %(number)s

-- name: withdraw_stale
-- Withdraws open proposals about memories that are not active any more.
UPDATE strength_merge AS merge SET state = 'withdrawn', decided_at = %(now)s
WHERE actor_id = %(actor_id)s AND state = 'proposed' AND EXISTS (
    SELECT 1 FROM strength_memory AS memory
    WHERE memory.actor_id = merge.actor_id AND memory.id IN (merge.kept_id, merge.absorbed_id)
        AND memory.status <> 'active'
)

-- name: due_actors
-- Actors whose last sleep is long enough ago, and who have something that could fade.
SELECT actor.id FROM memoryhub_actor AS actor
LEFT JOIN strength_rhythm AS state ON state.actor_id = actor.id
WHERE actor.id > %(after)s AND (state.slept_at IS NULL OR state.slept_at < %(before)s)
    AND EXISTS (SELECT 1 FROM strength_memorynumbers AS numbers WHERE numbers.actor_id = actor.id)
ORDER BY actor.id LIMIT %(most)s
