-- Statements that the ORM cannot express; `memoryhub.db.queries` loads them, `strength/sql.py` defines the formulas.
--
-- Lock order: the actor, then memories, then numbers, each in the order of actor and memory. A sleep locks numbers before
-- memories, and excludes writers (`strength.models.locks`).

-- name: mark_candidates
-- Rows are locked in the order of their keys, so that searches with overlapping results never deadlock. The actor comes
-- first, as in every write: the array is evaluated before any row is read. `commit` is the transaction's
-- `synchronous_commit`, null for the configured one.
WITH held AS MATERIALIZED (
    SELECT id FROM memoryhub_actor WHERE id = %(actor_id)s
    AND set_config('synchronous_commit', coalesce(%(commit)s::text, current_setting('synchronous_commit')), TRUE) IS NOT NULL
    FOR KEY SHARE
), returned AS MATERIALIZED (
    SELECT memory_id FROM strength_memorynumbers
    WHERE actor_id = %(actor_id)s AND actor_id = ANY(ARRAY(SELECT id FROM held)) AND memory_id = ANY(%(memory_ids)s)
    ORDER BY memory_id FOR UPDATE
)
UPDATE strength_memorynumbers AS numbers SET candidate_count = numbers.candidate_count + 1
FROM returned WHERE numbers.actor_id = %(actor_id)s AND numbers.memory_id = returned.memory_id

-- fragment: record_points
-- One row per memory, kind and day in the history of strengths; a merge leaves none.
INSERT INTO strength_strengthpoint AS point (actor_id, memory_id, day, kind, at, before, strength, mark, level, times)
SELECT %(actor_id)s, memory_id, (%(now)s AT TIME ZONE 'UTC')::date, %(kind)s::text, %(now)s, before, strength,
    nullif(mark, '-Infinity'), level, 1
FROM changed WHERE %(kind)s::text IS NOT NULL ORDER BY memory_id
ON CONFLICT (actor_id, memory_id, day, kind) DO UPDATE SET at = excluded.at, strength = excluded.strength,
    mark = excluded.mark, level = excluded.level, times = point.times + 1

-- name: insert_numbers
-- Marks are computed by the actor's clock; `is_first` is true if the clock has to be started.
WITH new AS (
    SELECT memory.id, state.clock_at IS NULL AS is_first, CASE WHEN {fades} THEN {mark} ELSE '-Infinity' END AS mark,
        numbers.began_task
    FROM strength_memory AS memory
    LEFT JOIN strength_sleepstate AS state ON state.actor_id = memory.actor_id,
    LATERAL (SELECT 0 AS consolidation_level, %(now)s AS began_at, coalesce(state.tasks_completed, 0) AS began_task)
        AS numbers
    WHERE memory.actor_id = %(actor_id)s AND memory.id = ANY(%(memory_ids)s)
), inserted AS (
    INSERT INTO strength_memorynumbers (memory_id, actor_id, strength, mark, access_count, candidate_count,
        impact_score, consolidation_level, began_at, began_task)
    SELECT id, %(actor_id)s, stated.strength, mark, 0, 0, 0, 0, %(now)s, began_task
    FROM new JOIN unnest(%(memory_ids)s::uuid[], %(strengths)s::float8[]) AS stated (memory_id, strength)
        ON stated.memory_id = new.id
)
SELECT id, mark, is_first FROM new

-- name: begin_clock
-- Starts the clock when the first memory began to decay, which may be an imported time.
INSERT INTO strength_sleepstate AS state (actor_id, tasks_completed, runs, clock_at, clock_task, rates, by_task, thresholds)
SELECT %(actor_id)s, 0, 0, least(%(now)s, min(began_at)), coalesce(min(began_task), 0), %(rates)s, %(by_task)s,
    %(thresholds)s
FROM strength_memorynumbers WHERE actor_id = %(actor_id)s
ON CONFLICT (actor_id) DO UPDATE SET clock_at = excluded.clock_at,
    clock_task = least(state.tasks_completed, excluded.clock_task),
    rates = excluded.rates, by_task = excluded.by_task, thresholds = excluded.thresholds
WHERE state.clock_at IS NULL

-- name: lock_numbers
SELECT 1 FROM strength_memorynumbers
WHERE actor_id = ANY(%(actor_ids)s) AND memory_id = ANY(%(memory_ids)s) ORDER BY actor_id, memory_id FOR UPDATE

-- name: write_numbers
-- Applies events to strengths: `strengths` replace them, `increment` and `uses` are added. Pending and rejected memories
-- do not grow. Rows are locked from a list that is built first: PostgreSQL re-evaluates a locking join for a row changed
-- concurrently, finds no match and skips it, which lost one use in ten.
WITH known AS MATERIALIZED (
    SELECT id AS memory_id FROM strength_memory
    WHERE actor_id = %(actor_id)s AND id = ANY(%(memory_ids)s) AND status IN ('active', 'archived')
    ORDER BY id FOR KEY SHARE
), reported AS (
    INSERT INTO strength_usereport (actor_id, memory_id, task, created_at)
    SELECT %(actor_id)s, memory_id, %(task)s::text, %(now)s
    FROM known WHERE %(task)s::text IS NOT NULL ORDER BY memory_id
    ON CONFLICT DO NOTHING RETURNING memory_id
), counted AS (
    SELECT memory_id FROM reported UNION ALL SELECT memory_id FROM known WHERE %(task)s::text IS NULL
), held AS MATERIALIZED (
    SELECT memory_id, consolidation_level AS level FROM strength_memorynumbers
    WHERE actor_id = %(actor_id)s AND memory_id = ANY(ARRAY(SELECT memory_id FROM counted))
    ORDER BY memory_id FOR UPDATE
), changed AS (
    UPDATE strength_memorynumbers AS numbers SET
        strength = greatest(0, coalesce(stated.strength, {strength_now}) + %(increment)s),
        mark = CASE WHEN numbers.mark = '-Infinity' THEN numbers.mark ELSE {mark_after} END,
        began_at = {stated_at}, began_task = {stated_task},
        access_count = numbers.access_count + %(uses)s, candidate_count = candidate_count + %(candidates)s,
        impact_score = impact_score + %(impact)s, consolidation_level = {level_after},
        last_accessed_at = greatest(last_accessed_at, %(used_at)s::timestamptz),
        slept_in = CASE WHEN stated.strength IS NULL AND NOT %(is_final)s THEN state.runs END,
        taken = CASE WHEN stated.strength IS NULL AND NOT %(is_final)s THEN coalesce({taken}, 0) ELSE 0 END
    FROM held
    JOIN unnest(%(memory_ids)s::uuid[], %(strengths)s::float8[]) AS stated (memory_id, strength)
        ON stated.memory_id = held.memory_id
    LEFT JOIN strength_sleepstate AS state ON state.actor_id = %(actor_id)s
    WHERE numbers.actor_id = %(actor_id)s AND numbers.memory_id = held.memory_id
    RETURNING numbers.memory_id, numbers.strength - %(increment)s AS before, numbers.strength, numbers.mark,
        numbers.consolidation_level AS level, held.level AS former,
        state.clock[held.level + 1] AS clock_then
), seen AS (
    INSERT INTO strength_perspectivestrength AS perspective (actor_id, memory_id, perspective, strength, mark, as_of)
    SELECT %(actor_id)s, memory_id, %(perspective)s::text, %(perspective_increment)s, mark, %(now)s
    FROM changed WHERE %(perspective)s::text IS NOT NULL ORDER BY memory_id
    ON CONFLICT (actor_id, memory_id, perspective) DO UPDATE SET
        strength = excluded.strength + {perspective_of_seen},
        mark = excluded.mark, as_of = greatest(perspective.as_of, excluded.as_of)
), moved AS (
    UPDATE strength_perspectivestrength AS perspective SET
        strength = {perspective_of_changed}, mark = changed.mark
    FROM changed
    WHERE changed.level <> changed.former AND perspective.actor_id = %(actor_id)s
        AND perspective.memory_id = changed.memory_id
        AND perspective.perspective IS DISTINCT FROM %(perspective)s::text
), noted AS (
    {record_points}
)
SELECT count(*) FROM changed

-- fragment: fading_changes
-- Memories that start or stop decaying.
numbers.actor_id = ANY(%(actor_ids)s) AND numbers.memory_id = ANY(%(memory_ids)s)
    AND {fades} <> (numbers.mark > '-Infinity')

-- fragment: new_mark
CASE WHEN {fades} THEN {mark_begun} ELSE '-Infinity' END

-- name: update_fading
-- Starts decay, from the latest of `since`, the memory's validity and its earlier start; or stops it, at the current
-- strength; with perspectives. For memories that the transaction has changed or locked, with their numbers.
UPDATE strength_perspectivestrength AS perspective SET strength = {perspective_now}, mark = {new_mark}
FROM strength_memorynumbers AS numbers
JOIN strength_memory AS memory ON memory.actor_id = numbers.actor_id AND memory.id = numbers.memory_id
LEFT JOIN strength_sleepstate AS state ON state.actor_id = numbers.actor_id
WHERE perspective.actor_id = numbers.actor_id AND perspective.memory_id = numbers.memory_id AND {fading_changes};
UPDATE strength_memorynumbers AS numbers SET
    {current_strength}, mark = {new_mark},
    began_at = CASE WHEN {fades} THEN {begun_at} ELSE numbers.began_at END,
    began_task = CASE WHEN {fades} THEN {begun_task} ELSE numbers.began_task END
FROM strength_memory AS memory LEFT JOIN strength_sleepstate AS state ON state.actor_id = memory.actor_id
WHERE memory.actor_id = numbers.actor_id AND memory.id = numbers.memory_id AND {fading_changes}

-- fragment: mark_scope
numbers.actor_id = %(actor_id)s AND (%(memory_ids)s::uuid[] IS NULL OR numbers.memory_id = ANY(%(memory_ids)s::uuid[]))
    AND (NOT %(only_ahead)s OR numbers.began_at > state.clock_at AND numbers.mark > '-Infinity')

-- name: recompute_marks
-- Marks memories and their perspectives by the current clock: after an import, which holds strengths of its time; or, with
-- `only_ahead`, after a change of rates, those marked ahead of the clock.
SELECT 1 FROM strength_memorynumbers AS numbers LEFT JOIN strength_sleepstate AS state ON state.actor_id = numbers.actor_id
WHERE {mark_scope} ORDER BY memory_id FOR UPDATE OF numbers;
UPDATE strength_memorynumbers AS numbers SET mark = CASE WHEN %(only_ahead)s OR {fades} THEN {mark} ELSE '-Infinity' END
FROM strength_memory AS memory LEFT JOIN strength_sleepstate AS state ON state.actor_id = memory.actor_id
WHERE memory.actor_id = numbers.actor_id AND memory.id = numbers.memory_id AND {mark_scope};
UPDATE strength_perspectivestrength AS perspective
SET mark = least(numbers.mark, coalesce(state.clock[numbers.consolidation_level + 1], 0))
FROM strength_memorynumbers AS numbers LEFT JOIN strength_sleepstate AS state ON state.actor_id = numbers.actor_id
WHERE perspective.actor_id = numbers.actor_id AND perspective.memory_id = numbers.memory_id AND {mark_scope}

-- fragment: index_differs
ROW({of_found}) IS DISTINCT FROM ROW({of_memory})

-- name: stale_memories
-- By actor: memories whose index rows differ from them, or which decay contrary to their state.
SELECT memory.actor_id, array_agg(DISTINCT memory.id)
FROM strength_memory AS memory
LEFT JOIN strength_memoryindex AS found ON found.actor_id = memory.actor_id AND found.memory_id = memory.id
LEFT JOIN strength_memorynumbers AS numbers ON numbers.actor_id = memory.actor_id AND numbers.memory_id = memory.id
WHERE (found.memory_id IS NOT NULL AND {index_differs})
    OR numbers.mark > '-Infinity' AND (memory.status <> 'active' OR memory.pinned)
    OR numbers.mark = '-Infinity' AND memory.status = 'active' AND NOT memory.pinned
        AND memory.valid_from IS NULL AND memory.valid_to IS NULL
GROUP BY memory.actor_id ORDER BY memory.actor_id

-- name: lock_memories
-- In the order of keys, against deadlocks.
SELECT id FROM strength_memory
WHERE actor_id = ANY(%(actor_ids)s) AND id = ANY(%(memory_ids)s) ORDER BY id FOR SHARE

-- name: sync_index
-- For memories that the transaction has locked or changed: a statement that waits for an index row continues with the
-- memory as it was when the statement began, and would overwrite a later copy.
UPDATE strength_memoryindex AS found SET ({facets}) = ROW({of_memory})
FROM strength_memory AS memory
WHERE memory.actor_id = found.actor_id AND memory.id = found.memory_id AND {index_differs}
    AND memory.actor_id = ANY(%(actor_ids)s) AND memory.id = ANY(%(memory_ids)s)

-- name: lock_for_change
-- In the order of keys; also returns whether a memory has a validity.
SELECT id, valid_from IS NOT NULL OR valid_to IS NOT NULL FROM strength_memory
WHERE actor_id = %(actor_id)s AND id = ANY(%(memory_ids)s) ORDER BY id FOR UPDATE

-- name: change_set
-- Writes values into memories of one actor, each with a revision; an undo also gives back what was beside the values.
-- `wanted` has a row for each memory. Leaves out memories that are of another version or state, that have these values
-- already, and those shared with other agents where the caller may not change them or their domain is missing. Returns
-- the fields that changed, and whether the text was taken away. Memories are locked before.
WITH former AS MATERIALIZED (
    SELECT memory.id, labels.before, wanted.trust, wanted.given, (
        SELECT jsonb_object_agg(key, value) FROM jsonb_each(wanted.given)
        WHERE labels.before->key IS DISTINCT FROM value
    ) AS changed_after, CASE WHEN %(verb)s = 'undo' THEN '{}' ELSE jsonb_strip_nulls(jsonb_build_object(
        'trust', memory.trust, 'supersedes', coalesce(to_jsonb(memory.supersedes), '[]'),
        'strength', %(strengths)s::jsonb->(memory.id::text)
    )) END AS beside
    FROM unnest(%(memory_ids)s::uuid[], %(versions)s::int[], %(values)s::jsonb[], %(trusts)s::text[])
        AS wanted (memory_id, version, given, trust)
    JOIN strength_memory AS memory ON memory.actor_id = %(actor_id)s AND memory.id = wanted.memory_id
        AND memory.version = wanted.version, LATERAL (
        SELECT jsonb_build_object('status', status, 'pinned', pinned, 'kind', kind, 'namespace', namespace, 'tags', tags)
    ) AS labels (before)
    WHERE memory.status = ANY(%(allowed)s) AND (memory.scope_level = 'project'
        OR %(reaches_shared)s AND (memory.scope_level <> 'domain' OR memory.scope_domain <> ''))
), moved AS (
    UPDATE strength_memory AS memory SET
        status = coalesce(given->>'status', status), pinned = coalesce((given->>'pinned')::boolean, pinned),
        kind = coalesce(given->>'kind', kind), namespace = coalesce(given->>'namespace', namespace),
        tags = CASE WHEN given ? 'tags' THEN ARRAY(SELECT jsonb_array_elements_text(given->'tags')) ELSE tags END,
        trust = coalesce(former.trust, memory.trust),
        supersedes = CASE WHEN %(verb)s <> 'undo' THEN supersedes END,
        superseded_by_id = CASE WHEN %(verb)s <> 'reactivate' OR valid_to IS NOT NULL THEN superseded_by_id END,
        version = version + 1, updated_at = %(now)s
    FROM former WHERE memory.actor_id = %(actor_id)s AND memory.id = former.id AND changed_after IS NOT NULL
    RETURNING memory.*, changed_after, beside, (
        SELECT jsonb_object_agg(key, before->key) FROM jsonb_object_keys(changed_after) AS key
    ) AS changed_before
), written AS (
    INSERT INTO strength_memoryrevision (id, actor_id, memory_id, number, verb, who_kind, who_id, who_name, reason,
        changed_before, changed_after, after, beside, batch, created_at)
    SELECT gen_random_uuid(), actor_id, id, version, %(verb)s, %(who_kind)s, %(who_id)s, %(who_name)s, %(reason)s,
        changed_before, changed_after, {snapshot}, beside, %(batch)s, %(now)s
    FROM moved AS memory
)
SELECT id, ARRAY(SELECT jsonb_object_keys(changed_after) ORDER BY 1),
    changed_before->>'status' IN ('active', 'pending') AND status NOT IN ('active', 'pending')
FROM moved

-- name: candidate_numbers
-- Inputs of the ranking, and the words of the memory or its best passage. Leaves out index rows that differ from their
-- memories.
SELECT memory.id, greatest({strength_now}, {perspective_now}),
    coalesce(numbers.last_accessed_at, memory.created_at),
    CASE WHEN %(words)s::text IS NOT NULL THEN coalesce(
        (SELECT passage FROM unnest(found.passages) AS passage ORDER BY passage <#> %(words)s::sparsevec LIMIT 1),
        found.words
    ) END
FROM strength_memory AS memory
JOIN strength_memoryindex AS found ON found.actor_id = memory.actor_id AND found.space_id = %(space_id)s
    AND found.memory_id = memory.id AND ROW({of_found}) IS NOT DISTINCT FROM ROW({of_memory})
JOIN strength_memorynumbers AS numbers ON numbers.actor_id = memory.actor_id AND numbers.memory_id = memory.id
LEFT JOIN strength_sleepstate AS state ON state.actor_id = memory.actor_id
LEFT JOIN strength_perspectivestrength AS perspective ON perspective.actor_id = memory.actor_id
    AND perspective.memory_id = memory.id AND perspective.perspective = %(perspective)s
WHERE memory.actor_id = ANY(%(actor_ids)s) AND memory.id = ANY(%(memory_ids)s)

-- name: next_unread_session
-- The session to read next for strategies that are behind: the requested one first, then that with the newest messages.
SELECT session.id FROM conversations_session AS session
WHERE session.actor_id = %(actor_id)s AND session.message_count > 0
    AND EXISTS (
        SELECT 1 FROM unnest(%(strategies)s::text[]) AS wanted (strategy)
        LEFT JOIN strength_strategycursor AS known
            ON known.actor_id = session.actor_id AND known.session_id = session.id
            AND known.strategy = wanted.strategy
        WHERE coalesce(known.read_until, 0) < session.message_count
    )
ORDER BY session.id IS DISTINCT FROM %(first)s::uuid, session.last_message_at DESC NULLS LAST, session.id DESC
LIMIT 1

-- name: pass_over_unread
-- Moves the cursors of disabled strategies to the end of every session, and records the range that they passed over.
INSERT INTO strength_strategycursor AS cursor
    (actor_id, strategy, session_id, read_until, passed_after, passed_until)
SELECT session.actor_id, wanted.strategy, session.id, session.message_count, coalesce(known.read_until, 0),
    session.message_count
FROM conversations_session AS session
CROSS JOIN unnest(%(strategies)s::text[]) AS wanted (strategy)
LEFT JOIN strength_strategycursor AS known
    ON known.actor_id = session.actor_id AND known.session_id = session.id AND known.strategy = wanted.strategy
WHERE session.actor_id = %(actor_id)s AND session.message_count > coalesce(known.read_until, 0)
ON CONFLICT (actor_id, session_id, strategy) DO UPDATE
SET read_until = excluded.read_until, passed_until = excluded.passed_until,
    passed_after = CASE WHEN cursor.passed_after < cursor.passed_until THEN cursor.passed_after
        ELSE least(excluded.passed_after, cursor.read_until) END
WHERE cursor.read_until < excluded.read_until

-- name: reading_of_import
-- Messages of an import's conversations; those that a strategy has not read yet, and those that were passed over.
SELECT coalesce(sum(messages), 0), coalesce(sum(waiting), 0), coalesce(sum(skipped), 0) FROM (
    SELECT session.message_count AS messages,
        max(session.message_count - coalesce(cursor.read_until, 0)) AS waiting,
        max(coalesce(cursor.passed_until - cursor.passed_after, 0)) AS skipped
    FROM conversations_session AS session
    CROSS JOIN unnest(%(strategies)s::text[]) AS wanted (strategy)
    LEFT JOIN strength_strategycursor AS cursor
        ON cursor.actor_id = session.actor_id AND cursor.session_id = session.id AND cursor.strategy = wanted.strategy
    WHERE (session.actor_id, session.id) IN (
        SELECT actor_id, row_id FROM memoryhub_importedrow WHERE import_id = %(import_id)s AND kind = %(kind)s)
    GROUP BY session.id, session.message_count
) AS session

-- name: pass_over_import
-- Moves the cursors to the end of an import's sessions, and records the range that they passed over.
INSERT INTO strength_strategycursor AS cursor
    (actor_id, strategy, session_id, read_until, passed_after, passed_until)
SELECT session.actor_id, wanted.strategy, session.id, session.message_count, coalesce(known.read_until, 0),
    session.message_count
FROM conversations_session AS session
CROSS JOIN unnest(%(strategies)s::text[]) AS wanted (strategy)
LEFT JOIN strength_strategycursor AS known
    ON known.actor_id = session.actor_id AND known.session_id = session.id AND known.strategy = wanted.strategy
WHERE session.actor_id = %(actor_id)s AND session.message_count > coalesce(known.read_until, 0)
    AND session.id IN (
        SELECT row_id FROM memoryhub_importedrow
        WHERE actor_id = %(actor_id)s AND import_id = %(import_id)s AND kind = %(kind)s)
ON CONFLICT (actor_id, session_id, strategy) DO UPDATE
SET read_until = excluded.read_until, passed_until = excluded.passed_until,
    passed_after = CASE WHEN cursor.passed_after < cursor.passed_until THEN cursor.passed_after
        ELSE least(excluded.passed_after, cursor.read_until) END
WHERE cursor.read_until < excluded.read_until

-- name: return_to_import
-- Moves the cursors back to where they passed over messages of an import's sessions.
UPDATE strength_strategycursor SET read_until = least(read_until, passed_after), passed_until = passed_after
WHERE actor_id = %(actor_id)s AND strategy = ANY (%(strategies)s::text[]) AND passed_after < passed_until
    AND session_id IN (
        SELECT row_id FROM memoryhub_importedrow
        WHERE actor_id = %(actor_id)s AND import_id = %(import_id)s AND kind = %(kind)s)

-- name: ensure_cursors
-- A row for every strategy of a session, all locked: writers that move one wait for those that move another.
INSERT INTO strength_strategycursor (actor_id, strategy, session_id, read_until, passed_until)
SELECT %(actor_id)s, wanted.strategy, %(session_id)s, 0, 0
FROM unnest(%(strategies)s::text[]) AS wanted (strategy) ORDER BY wanted.strategy
ON CONFLICT (actor_id, session_id, strategy) DO NOTHING

-- name: note_passed_message
-- Records a message that the model refused, together with an earlier range that was passed over.
UPDATE strength_strategycursor SET
    passed_after = CASE WHEN passed_after < passed_until THEN passed_after ELSE %(seq)s - 1 END,
    passed_until = %(seq)s
WHERE actor_id = %(actor_id)s AND session_id = %(session_id)s AND strategy = ANY (%(strategies)s::text[])

-- name: rewind_cursors
-- Back to the first message at or after `since`, or to the first; without `again`, only over messages that were passed
-- over.
UPDATE strength_strategycursor AS cursor SET
    read_until = least(cursor.read_until, greatest(target.until, target.floor * cursor.passed_after)),
    passed_until = least(cursor.passed_until, greatest(target.until, target.floor * cursor.passed_after)),
    passed_after = least(cursor.passed_after, greatest(target.until, target.floor * cursor.passed_after))
FROM (
    SELECT session.id AS session_id, coalesce((
        SELECT min(message.seq) - 1 FROM conversations_message AS message
        WHERE message.actor_id = session.actor_id AND message.session_id = session.id
            AND (%(since)s::timestamptz IS NULL OR message.created_at >= %(since)s::timestamptz)
    ), session.message_count) AS until, CASE WHEN %(again)s THEN 0 ELSE 1 END AS floor
    FROM conversations_session AS session WHERE session.actor_id = %(actor_id)s
) AS target
WHERE cursor.actor_id = %(actor_id)s AND cursor.session_id = target.session_id
    AND cursor.strategy = ANY (%(strategies)s::text[])
    AND target.until < CASE WHEN %(again)s THEN cursor.read_until ELSE cursor.passed_until END
    AND (%(again)s OR cursor.passed_after < cursor.passed_until)

-- name: unread_messages
-- Unread messages of each enabled strategy, of one actor or of all.
SELECT wanted.strategy, sum(session.message_count - coalesce(cursor.read_until, 0))
FROM conversations_session AS session
JOIN memoryhub_actor AS actor ON actor.id = session.actor_id
JOIN memoryhub_agent AS agent ON agent.agent_id = actor.agent_id
CROSS JOIN unnest(%(strategies)s::text[]) AS wanted (strategy)
LEFT JOIN strength_strategycursor AS cursor
    ON cursor.actor_id = session.actor_id AND cursor.session_id = session.id AND cursor.strategy = wanted.strategy
WHERE (%(actor_id)s::uuid IS NULL OR session.actor_id = %(actor_id)s::uuid)
    AND session.message_count > coalesce(cursor.read_until, 0)
    AND agent.strategies -> wanted.strategy IS DISTINCT FROM 'false'::jsonb
GROUP BY wanted.strategy

-- name: passed_messages
-- Messages that each strategy passed over, of one actor or of all.
SELECT strategy, sum(passed_until - passed_after) FROM strength_strategycursor
WHERE (%(actor_id)s::uuid IS NULL OR actor_id = %(actor_id)s::uuid) AND strategy = ANY (%(strategies)s::text[])
    AND passed_until > passed_after
GROUP BY strategy

-- name: thin_history
-- Reduces the older points of a month and kind to the last, with the sum of times and the strength before the first.
WITH old AS (
    SELECT actor_id, memory_id, kind, date_trunc('month', day)::date AS month, max(day) AS last,
        sum(times) AS times, (array_agg(before ORDER BY day))[1] AS before
    FROM strength_strengthpoint WHERE day < %(before)s GROUP BY 1, 2, 3, 4 HAVING count(*) > 1 LIMIT %(limit)s
), summed AS (
    UPDATE strength_strengthpoint AS point SET times = old.times, before = old.before FROM old
    WHERE point.actor_id = old.actor_id AND point.memory_id = old.memory_id AND point.kind = old.kind
        AND point.day = old.last
)
DELETE FROM strength_strengthpoint AS point USING old
WHERE point.actor_id = old.actor_id AND point.memory_id = old.memory_id AND point.kind = old.kind
    AND point.day >= old.month AND point.day < old.last

-- name: succession
-- A memory's replacements, and those that it replaced. `UNION` ends cycles.
WITH RECURSIVE later AS (
    SELECT id, superseded_by_id, 0 AS step FROM strength_memory WHERE actor_id = %(actor_id)s AND id = %(memory_id)s
    UNION
    SELECT next.id, next.superseded_by_id, later.step + 1 FROM strength_memory AS next
    JOIN later ON next.id = later.superseded_by_id WHERE next.actor_id = %(actor_id)s AND later.step < %(limit)s
), earlier AS (
    SELECT id, 0 AS step FROM strength_memory WHERE actor_id = %(actor_id)s AND id = %(memory_id)s
    UNION
    SELECT former.id, earlier.step - 1 FROM strength_memory AS former
    JOIN earlier ON former.superseded_by_id = earlier.id
    WHERE former.actor_id = %(actor_id)s AND earlier.step > -%(limit)s
)
SELECT id, min(step) FROM (SELECT id, step FROM earlier UNION SELECT id, step FROM later) AS chain
GROUP BY id ORDER BY 2, 1 LIMIT %(limit)s * 2 + 1

-- name: lock_shared
-- The advisory lock comes first: PostgreSQL does not pull up a subquery with a volatile function, and locks rows after
-- the join.
SELECT 1 FROM (SELECT pg_advisory_xact_lock_shared(%(lock_class)s, %(lock_key)s)) AS held, memoryhub_actor AS actor
WHERE actor.id = %(actor_id)s FOR KEY SHARE OF actor

-- name: lock_exclusive
SELECT 1 FROM (SELECT pg_advisory_xact_lock(%(lock_class)s, %(lock_key)s)) AS held, memoryhub_actor AS actor
WHERE actor.id = %(actor_id)s FOR KEY SHARE OF actor

-- name: profile_memories
-- Preferences, facts and all other kinds in turn, of each the strongest and the newest. The strongest come from the
-- index of each level, where `due` orders by strength. Memories are read by an array of keys:
-- for a join, PostgreSQL would expect more rows and read all of the actor's memories.
WITH strongest AS (
    SELECT numbers.memory_id AS id, numbers.due + coalesce(state.clock[level + 1], 0) AS strength
    FROM generate_series(0, 5) AS level
    CROSS JOIN LATERAL (
        SELECT memory_id, due FROM strength_memorynumbers
        WHERE actor_id = %(actor_id)s AND consolidation_level = level AND due < 'Infinity'
        ORDER BY due DESC LIMIT %(limit_per_level)s
    ) AS numbers
    LEFT JOIN strength_sleepstate AS state ON state.actor_id = %(actor_id)s
), newest AS (
    SELECT found.id FROM unnest(%(kinds)s::text[]) AS kind
    CROSS JOIN LATERAL (
        SELECT id FROM strength_memory AS memory
        WHERE memory.actor_id = %(actor_id)s AND memory.kind = kind.kind AND {in_profile}
        ORDER BY created_at DESC, id DESC LIMIT %(limit)s
    ) AS found
), ranked AS (
    SELECT memory.*, kinds,
        row_number() OVER (PARTITION BY kinds ORDER BY strength DESC NULLS LAST, memory.id) AS by_strength,
        row_number() OVER (PARTITION BY kinds ORDER BY memory.created_at DESC, memory.id DESC) AS by_age
    FROM strength_memory AS memory LEFT JOIN strongest ON strongest.id = memory.id
    CROSS JOIN LATERAL (SELECT CASE WHEN memory.kind IN ('preference', 'fact') THEN memory.kind ELSE '' END AS kinds) AS groups
    WHERE memory.actor_id = %(actor_id)s AND memory.kind = ANY(%(kinds)s) AND {in_profile}
        AND memory.id = ANY(ARRAY(SELECT id FROM strongest UNION SELECT id FROM newest))
)
SELECT id, kind, content, said_on, valid_from, created_at, by_strength FROM ranked
ORDER BY least(by_strength, by_age), kinds DESC, by_strength
LIMIT %(limit)s

-- name: nearest_of_each
-- The index rows most relevant to each of several texts, in one scan: reading a row costs more than comparing it.
-- `OFFSET 0` keeps the subquery, so that each score is computed once.
WITH sought AS MATERIALIZED (
    SELECT place, namespace, excluded_ids::uuid[], vector::halfvec, words::sparsevec, reachable, low, high, weight
    FROM unnest(%(namespaces)s::text[], %(excluded_ids)s::text[], %(vectors)s::text[], %(words)s::text[],
        %(reachable)s::float8[], %(lows)s::float8[], %(highs)s::float8[], %(weights)s::float8[])
        WITH ORDINALITY AS text (namespace, excluded_ids, vector, words, reachable, low, high, weight, place)
)
SELECT place, memory_id FROM (
    SELECT place, memory_id, row_number() OVER (
        PARTITION BY place ORDER BY {relevance} DESC, similarity DESC NULLS LAST, memory_id
    ) AS rank
    FROM (
        SELECT sought.place, sought.low, sought.high, sought.weight, found.memory_id,
            coalesce(nullif(1 - (found.vector <=> sought.vector), 'NaN'),
                CASE WHEN found.vector IS NOT NULL AND sought.vector IS NOT NULL THEN 0 END) AS similarity,
            CASE WHEN sought.reachable > 0 THEN -(found.words <#> sought.words) / sought.reachable ELSE 0 END AS word_score
        FROM strength_memoryindex AS found JOIN sought
            ON sought.namespace = found.namespace AND found.memory_id <> ALL(sought.excluded_ids)
        WHERE found.actor_id = %(actor_id)s AND found.space_id = %(space_id)s AND found.status = ANY(%(statuses)s)
            AND (found.valid_to IS NULL OR found.valid_to > %(now)s)
        OFFSET 0
    ) AS compared
    WHERE similarity >= %(similarity_floor)s OR word_score >= %(word_floor)s
) AS ranked
WHERE rank <= %(limit)s ORDER BY place, rank

-- fragment: news
-- What became of each memory in a window of the feed: one row for all of its changes. Deleted memories have no revision.
-- `person` is set where what that person alone has changed is left out.
WITH changed AS MATERIALIZED (
    SELECT feed.actor_id, feed.memory_id, actor.agent_id, actor.user_id, max(feed.id) AS place, count(*) AS changes,
        min(feed.version) AS first, max(feed.version) AS last, bool_or(feed.change = 'created') AS is_new
    FROM strength_memorychange AS feed JOIN memoryhub_actor AS actor ON actor.id = feed.actor_id
    WHERE feed.id > %(since)s AND feed.id <= %(until)s AND (%(moment)s::timestamptz IS NULL OR feed.at >= %(moment)s)
        AND (%(agent_id)s::text IS NULL OR feed.agent_id = %(agent_id)s)
        AND (%(user_id)s::text IS NULL OR actor.user_id = %(user_id)s)
    GROUP BY feed.actor_id, feed.memory_id, actor.agent_id, actor.user_id
), news AS (
    SELECT changed.*, CASE
        WHEN revision.verb = 'supersede' THEN 'contradicted'
        WHEN revision.changed_after->>'status' = 'archived' AND revision.verb = 'sleep' THEN 'faded'
        WHEN revision.changed_after->>'status' IN ('archived', 'rejected') THEN revision.changed_after->>'status'
        WHEN is_new THEN 'learnt'
        ELSE 'changed' END AS kind
    FROM changed JOIN strength_memoryrevision AS revision ON revision.actor_id = changed.actor_id
        AND revision.memory_id = changed.memory_id AND revision.number = changed.last
    WHERE %(person)s::text IS NULL OR NOT (revision.who_kind = 'curator' AND revision.who_id = %(person)s)
        OR EXISTS (
            SELECT FROM strength_memoryrevision AS other WHERE other.actor_id = changed.actor_id
            AND other.memory_id = changed.memory_id AND other.number >= changed.first AND other.number < changed.last
            AND NOT (other.who_kind = 'curator' AND other.who_id = %(person)s)
        )
)

-- name: news_lines
-- A page of the news, by agent and user, the latest first; behind the last line of the page before it.
{news}
SELECT actor_id, memory_id, agent_id, user_id, place, kind, changes, first, last FROM news
WHERE (%(kind)s::text IS NULL OR kind = %(kind)s)
    AND (%(after_place)s::bigint IS NULL
        OR (agent_id, user_id, -place) > (%(after_agent_id)s, %(after_user_id)s, -%(after_place)s::bigint))
ORDER BY agent_id, user_id, place DESC LIMIT %(limit)s

-- name: count_news
-- Numbers of memories by kind, of all actors (null) and of some.
{news}
SELECT actor_id, kind, count(*) FROM news GROUP BY GROUPING SETS ((kind), (actor_id, kind))
HAVING GROUPING(actor_id) = 1 OR actor_id = ANY(%(actor_ids)s)

-- name: count_forgotten
-- Numbers of memories that were deleted, by agent and user; those of erased users are their agent's, without a user.
SELECT feed.agent_id, actor.user_id, count(DISTINCT feed.memory_id) AS deleted
FROM strength_memorychange AS feed LEFT JOIN memoryhub_actor AS actor ON actor.id = feed.actor_id
WHERE feed.id > %(since)s AND feed.id <= %(until)s AND (%(moment)s::timestamptz IS NULL OR feed.at >= %(moment)s)
    AND feed.change = 'erased'
    AND (%(agent_id)s::text IS NULL OR feed.agent_id = %(agent_id)s)
    AND (%(user_id)s::text IS NULL OR actor.user_id = %(user_id)s)
GROUP BY feed.agent_id, actor.user_id ORDER BY deleted DESC, feed.agent_id, actor.user_id LIMIT %(limit)s

-- name: place_before
-- The place in the feed before all changes since a moment; the subquery keeps the index on times in use.
SELECT min(id) - 1 FROM (SELECT id FROM strength_memorychange WHERE at >= %(moment)s OFFSET 0) AS recent
