-- Statements of sleeps. Decay advances an actor's clock and writes no memory. `strength/sql.py` defines the formulas.

-- name: store_states
UPDATE strength_sleepstate AS state SET runs = new.runs, clock = new.clock, clock_at = new.clock_at,
    clock_task = new.clock_task, rates = new.rates, by_task = new.by_task, thresholds = new.thresholds,
    clock_before = new.clock_before, slept_at = new.slept_at, compared_until = new.compared_until,
    compared_after = new.compared_after
FROM json_populate_recordset(NULL::strength_sleepstate, %(states)s) AS new WHERE state.actor_id = new.actor_id

-- name: lock_actors
-- Skips actors that are being written to or erased; the locks last until the transaction ends.
SELECT actor.id
FROM unnest(%(actor_ids)s::uuid[], %(lock_keys)s::int[]) AS wanted (actor_id, whose)
JOIN memoryhub_actor AS actor ON actor.id = wanted.actor_id
WHERE pg_try_advisory_xact_lock(%(lock_class)s, wanted.whose) FOR KEY SHARE OF actor SKIP LOCKED

-- name: actors_to_compare
-- Actors with memories that changed since the last comparison.
SELECT actor_id FROM strength_sleepstate AS state
WHERE actor_id = ANY(%(actor_ids)s) AND EXISTS (
    SELECT 1 FROM strength_memory AS memory
    WHERE memory.actor_id = state.actor_id AND memory.updated_at >= coalesce(state.compared_until, '-Infinity')
        AND (state.compared_until IS NULL OR memory.updated_at > state.compared_until OR memory.id > state.compared_after)
        AND memory.status = 'active' AND (memory.valid_to IS NULL OR memory.valid_to > %(now)s)
)

-- name: count_task
INSERT INTO strength_sleepstate AS state (actor_id, tasks_completed, runs) VALUES (%(actor_id)s, 1, 0)
ON CONFLICT (actor_id) DO UPDATE SET tasks_completed = state.tasks_completed + 1

-- name: validity_changes
-- Memories that became valid or ended since the last sleep.
SELECT memory.actor_id, memory.id FROM strength_sleepstate AS state JOIN strength_memory AS memory USING (actor_id)
WHERE state.actor_id = ANY(%(actor_ids)s) AND memory.status = 'active' AND NOT memory.pinned
    AND (memory.valid_to > state.clock_at AND memory.valid_to <= %(now)s
        OR memory.valid_from > state.clock_at AND memory.valid_from <= %(now)s)

-- name: changed_levels
-- Memories with another level by new thresholds; until now they decayed by the old level.
SELECT memory_id FROM strength_memorynumbers AS numbers WHERE actor_id = %(actor_id)s AND consolidation_level <> {level}

-- name: count_fading
-- By actor: fading memories, those of them that this sleep decays, pinned ones, and those archived by sleeps within a day.
-- A memory that began to fade after the time of a delayed sleep has a mark behind the clock.
SELECT state.actor_id, fading.n, fading.decayed, pinned.n, lately.n FROM strength_sleepstate AS state, LATERAL (
    SELECT count(*) AS n, count(*) FILTER (
        WHERE mark >= state.clock[consolidation_level + 1]
            AND state.clock[consolidation_level + 1] < state.clock_before[consolidation_level + 1]
    ) AS decayed
    FROM strength_memorynumbers WHERE actor_id = state.actor_id AND due < 'Infinity'
) AS fading, LATERAL (
    SELECT count(*) AS n FROM strength_memory WHERE actor_id = state.actor_id AND pinned
) AS pinned, LATERAL (
    SELECT coalesce(sum(archived_count), 0) AS n FROM strength_sleeprun
    WHERE actor_id = state.actor_id AND now > %(now)s::timestamptz - %(within)s AND now <= %(now)s AND NOT dry_run AND undone_at IS NULL
) AS lately
WHERE state.actor_id = ANY(%(actor_ids)s)

-- fragment: weak
-- Weak memories that the user's profile does not show. The weak are found by the index of due marks, level by level,
-- relative to the actor's clock; profiles are read only for actors with weak memories.
whose AS MATERIALIZED (
    SELECT state.actor_id, policy.due, policy.threshold, policy.most_shown, policy.allowance, state.clock
    FROM unnest(%(actor_ids)s::uuid[], %(due_marks)s::float8[], %(archive_thresholds)s::float8[], %(profile_sizes)s::int[],
        %(allowances)s::int[]) AS policy (actor_id, due, threshold, most_shown, allowance)
    JOIN strength_sleepstate AS state USING (actor_id)
), weak AS MATERIALIZED (
    SELECT state.actor_id, state.most_shown, state.allowance, level, found.memory_id, found.due, found.strength
    FROM whose AS state, generate_series(0, 5) AS level, LATERAL (
        SELECT numbers.memory_id, numbers.due, {strength_now} AS strength FROM strength_memorynumbers AS numbers
        WHERE numbers.actor_id = state.actor_id AND numbers.consolidation_level = level
            AND numbers.due <= state.due - state.clock[level + 1] AND numbers.due < 'Infinity'
            AND numbers.mark > state.clock[level + 1] - 1e-9 AND {strength_now} <= state.threshold
        ORDER BY numbers.due LIMIT %(limit)s + state.most_shown
    ) AS found
), shown AS MATERIALIZED (
    SELECT profile.id FROM (SELECT DISTINCT actor_id, most_shown FROM weak WHERE most_shown > 0) AS owner,
        LATERAL ({profile}) AS profile
), due AS MATERIALIZED (
    SELECT actor_id, memory_id, strength, allowance,
        row_number() OVER (PARTITION BY actor_id ORDER BY strength, memory_id) AS place,
        count(*) OVER (PARTITION BY actor_id) AS n
    FROM weak WHERE memory_id NOT IN (SELECT id FROM shown)
)

-- name: find_due
-- Expired memories without a replacement, and the weakest that each actor's allowance permits.
WITH {weak}, ended AS MATERIALIZED (
    SELECT id AS memory_id FROM strength_memory
    WHERE actor_id = ANY(%(actor_ids)s) AND status = 'active' AND NOT pinned AND superseded_by_id IS NULL
        AND valid_to <= %(now)s
    ORDER BY actor_id, id LIMIT %(limit)s
)
(SELECT memory_id FROM due WHERE place <= allowance ORDER BY place LIMIT %(limit)s)
UNION ALL TABLE ended

-- name: find_held
-- By actor: the weakest memories that are still due, with their strengths and how many are due.
WITH {weak}
SELECT actor_id, memory_id, strength, n FROM due WHERE place <= %(most_listed)s ORDER BY actor_id, place

-- name: find_excess
-- Weakest first, then youngest. Pinned memories count towards the limit but are never archived.
SELECT memory_id, over.actor_id, strength
FROM unnest(%(actor_ids)s::uuid[], %(excesses)s::int[]) AS over (actor_id, excess)
JOIN strength_sleepstate AS state USING (actor_id), LATERAL (
    SELECT memory_id, {strength_now} AS strength FROM strength_memorynumbers AS numbers
    WHERE numbers.actor_id = over.actor_id AND numbers.due < 'Infinity'
    ORDER BY strength, memory_id DESC LIMIT excess
) AS numbers
LIMIT %(limit)s

-- fragment: locked_numbers
due AS (SELECT unnest(%(memory_ids)s::uuid[]) AS memory_id), held AS MATERIALIZED (
    SELECT memory_id FROM strength_memorynumbers
    WHERE actor_id = ANY(%(actor_ids)s) AND memory_id = ANY(ARRAY(SELECT memory_id FROM due))
    ORDER BY actor_id, memory_id FOR UPDATE
)

-- name: archive
-- Archives memories with their index rows, stops their decay, and writes a revision of each. Returns counts by actor:
-- archived, and those of them that decayed until now.
WITH {locked_numbers}, moved AS (
    UPDATE strength_memory AS memory SET status = 'archived', version = version + 1, updated_at = %(now)s
    WHERE actor_id = ANY(%(actor_ids)s) AND id = ANY(ARRAY(SELECT memory_id FROM held)) AND status = 'active'
        AND NOT pinned
    RETURNING memory.*
), found AS (
    UPDATE strength_memoryindex AS found SET status = 'archived'
    FROM moved WHERE found.actor_id = moved.actor_id AND found.memory_id = moved.id
), seen AS (
    UPDATE strength_perspectivestrength AS perspective SET strength = {perspective_now}, mark = '-Infinity'
    FROM moved
    JOIN strength_memorynumbers AS numbers ON numbers.actor_id = moved.actor_id AND numbers.memory_id = moved.id
    JOIN strength_sleepstate AS state ON state.actor_id = moved.actor_id
    WHERE perspective.actor_id = moved.actor_id AND perspective.memory_id = moved.id AND numbers.mark > '-Infinity'
), stilled AS (
    UPDATE strength_memorynumbers AS numbers SET {current_strength}, mark = '-Infinity'
    FROM moved JOIN strength_sleepstate AS state ON state.actor_id = moved.actor_id
    WHERE numbers.actor_id = moved.actor_id AND numbers.memory_id = moved.id AND numbers.mark > '-Infinity'
), written AS (
    INSERT INTO strength_memoryrevision (id, actor_id, memory_id, number, verb, who_kind, who_id, who_name, reason,
        changed_before, changed_after, after, created_at)
    SELECT gen_random_uuid(), actor_id, id, version, 'sleep', %(who_kind)s, %(who_id)s, %(who_name)s,
        CASE WHEN valid_to <= %(now)s THEN %(expired)s ELSE %(reason)s END, '{"status": "active"}',
        '{"status": "archived"}', {snapshot}, %(now)s
    FROM moved AS memory
)
SELECT actor_id, count(*), count(*) FILTER (WHERE valid_to IS NULL OR valid_to > %(now)s) FROM moved GROUP BY actor_id

-- name: reactivate
-- Activates memories that a sleep archived, each with a revision; not those with a text that is in use again
-- (`memory_text_once`).
WITH {locked_numbers}, moved AS (
    UPDATE strength_memory AS memory SET status = 'active', version = version + 1, updated_at = %(now)s
    WHERE actor_id = ANY(%(actor_ids)s) AND id = ANY(ARRAY(SELECT memory_id FROM held)) AND status = 'archived'
        AND NOT pinned AND NOT EXISTS (
            SELECT 1 FROM strength_memory AS other
            WHERE other.actor_id = memory.actor_id AND other.namespace = memory.namespace
                AND other.content_digest = memory.content_digest AND other.id <> memory.id
                AND other.status IN ('active', 'pending') AND other.superseded_by_id IS NULL AND other.valid_to IS NULL
        )
    RETURNING actor_id, id, version
), found AS (
    UPDATE strength_memoryindex AS found SET status = 'active'
    FROM moved WHERE found.actor_id = moved.actor_id AND found.memory_id = moved.id
)
INSERT INTO strength_memoryrevision (id, actor_id, memory_id, number, verb, who_kind, who_id, who_name, reason,
    changed_before, changed_after, after, created_at)
SELECT gen_random_uuid(), moved.actor_id, moved.id, moved.version, 'undo', %(who_kind)s, %(who_id)s, %(who_name)s,
    %(reason)s, archived.changed_after, archived.changed_before, archived.after || archived.changed_before, %(now)s
FROM moved JOIN strength_memoryrevision AS archived ON archived.actor_id = moved.actor_id
    AND archived.memory_id = moved.id AND archived.number = moved.version - 1
RETURNING memory_id

-- name: strength_changes
-- Changes of strengths and levels by an actor's latest sleep.
SELECT memory_id, after + taken AS before, after, former, level
FROM (
    SELECT memory_id, {strength_now} AS after, {taken} AS taken, {level_back} AS former, consolidation_level AS level
    FROM strength_memorynumbers AS numbers JOIN strength_sleepstate AS state ON state.actor_id = numbers.actor_id
    WHERE numbers.actor_id = %(actor_id)s AND state.runs = %(number)s
        AND (numbers.due < 'Infinity' OR numbers.slept_in = %(number)s)
) AS changed
WHERE taken > 0 OR former <> level
ORDER BY former <> level DESC, taken DESC, memory_id LIMIT %(limit)s

-- fragment: undo_scope
-- Rows written by the sleep or since, or that started to decay since the sleep before.
numbers.actor_id = %(actor_id)s AND (numbers.slept_in = %(number)s OR numbers.mark > '-Infinity'
    AND numbers.mark < state.clock[numbers.consolidation_level + 1] OR numbers.memory_id = ANY(%(memory_ids)s))

-- name: lock_for_undo
-- In the common lock order.
SELECT 1 FROM strength_memorynumbers AS numbers JOIN strength_sleepstate AS state ON state.actor_id = numbers.actor_id
WHERE {undo_scope} ORDER BY memory_id FOR UPDATE OF numbers

-- name: undo_numbers
-- After clock and memories were restored: adds the decay of the sleep, which had advanced the clock to %(clock)s, and
-- computes marks by the restored clock.
UPDATE strength_perspectivestrength AS perspective SET mark = {mark_back},
    strength = perspective.strength * exp(greatest(-200, least(200, {mark_back} - (%(clock)s::float8[])[{level_back} + 1])))
FROM strength_memorynumbers AS numbers JOIN strength_sleepstate AS state ON state.actor_id = numbers.actor_id
WHERE numbers.actor_id = %(actor_id)s AND perspective.actor_id = numbers.actor_id
    AND perspective.memory_id = numbers.memory_id AND numbers.slept_in = %(number)s
    AND (numbers.memory_id = ANY(%(memory_ids)s) OR numbers.consolidation_level <> {level_back});
UPDATE strength_memorynumbers AS numbers SET
    strength = numbers.strength + CASE WHEN numbers.slept_in = %(number)s THEN numbers.taken ELSE 0 END,
    consolidation_level = {level_back}, mark = CASE WHEN {fades} THEN {mark_back} ELSE '-Infinity' END,
    slept_in = NULL, taken = 0
FROM strength_memory AS memory JOIN strength_sleepstate AS state ON state.actor_id = memory.actor_id
WHERE memory.actor_id = numbers.actor_id AND memory.id = numbers.memory_id AND {undo_scope};
UPDATE strength_perspectivestrength AS perspective SET mark = numbers.mark
FROM strength_memorynumbers AS numbers JOIN strength_sleepstate AS state ON state.actor_id = numbers.actor_id
WHERE numbers.actor_id = %(actor_id)s AND perspective.actor_id = numbers.actor_id
    AND perspective.memory_id = numbers.memory_id AND numbers.mark > '-Infinity'
    AND perspective.mark < state.clock[numbers.consolidation_level + 1]

-- name: end_sleeps
-- Withdraws open proposals about memories that are no longer active.
UPDATE strength_sleepstate SET slept_at = %(now)s, compared_until = %(compared_until)s, compared_after = NULL
WHERE actor_id = ANY(%(actor_ids)s);
UPDATE strength_merge AS merge SET state = 'withdrawn', decided_at = %(now)s
WHERE actor_id = ANY(%(actor_ids)s) AND state = 'proposed' AND EXISTS (
    SELECT 1 FROM strength_memory AS memory
    WHERE memory.actor_id = merge.actor_id AND memory.id IN (merge.kept_id, merge.absorbed_id)
        AND memory.status <> 'active'
)

-- name: due_actors
-- Actors with memories that are due for a sleep, with the time of the last sleep and of the latest run, which may have
-- been undone.
SELECT actor.id, state.slept_at, (
    SELECT max(now) FROM strength_sleeprun AS run WHERE run.actor_id = actor.id AND NOT dry_run
) FROM memoryhub_actor AS actor
LEFT JOIN strength_sleepstate AS state ON state.actor_id = actor.id
WHERE actor.id > %(after)s AND (state.slept_at IS NULL OR state.slept_at < %(before)s)
    AND EXISTS (SELECT 1 FROM strength_memorynumbers AS numbers WHERE numbers.actor_id = actor.id)
ORDER BY actor.id LIMIT %(limit)s
