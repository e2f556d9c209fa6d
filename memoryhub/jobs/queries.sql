-- Statements of the job queue; `memoryhub.db.queries` loads them. Leases and due times use the database's clock, which
-- all workers share.

-- name: join
-- A transaction that joins a waiting job holds this lock in shared mode until it ends; a claim takes it exclusively. So
-- no worker starts a job before the changes that joined it are visible. The lock queue is fair: a claim waits for
-- earlier joins only, and later joins wait for the claim, which is short.
SELECT pg_advisory_xact_lock_shared(
    hashtextextended(concat_ws(':', 'memoryhub_job', %(actor)s::uuid, %(kind)s, %(key)s), 0)
)

-- name: lock_key
SELECT set_config('lock_timeout', '5s', TRUE), pg_advisory_xact_lock(%(lock)s)

-- fragment: next_turn
-- Callers take turns: each job of a lane is placed ten seconds after the one before it, and jobs are offered in order of
-- these places. So a thousand jobs of one caller come after the next one of another.
greatest(now(), (
    SELECT max(turn_at) FROM memoryhub_job WHERE state IN ('queued', 'running') AND lane = %(lane)s::varchar
) + interval '10 seconds')

-- fragment: enqueue_unless_waiting
WITH waiting AS (
    SELECT id FROM memoryhub_job
    WHERE %(key)s <> '' AND kind = %(kind)s AND key = %(key)s AND state = 'queued' AND key <> ''

-- fragment: enqueue_fresh
    ORDER BY id LIMIT 1
), fresh AS (
    INSERT INTO memoryhub_job
        (id, actor_id, kind, key, payload, "order", lane, turn_at, state, attempts, excused, due_at, error, traceparent)
    SELECT %(id)s, %(actor)s, %(kind)s, %(key)s, %(payload)s, %(order)s::jsonb, %(lane)s::varchar, {next_turn}, 'queued', 0, 0,
        now() + %(delay_seconds)s * interval '1 second', '', %(traceparent)s::varchar
    WHERE NOT EXISTS (SELECT FROM waiting)
    ON CONFLICT DO NOTHING
    RETURNING id
)
SELECT id FROM fresh UNION ALL SELECT id FROM waiting

-- name: enqueue_for_actor
-- Enqueues a job in the transaction of the change that causes it, unless one with its key is waiting. Returns no row if
-- a concurrent transaction inserted one; the caller repeats the statement.
{enqueue_unless_waiting} AND actor_id = %(actor)s {enqueue_fresh}

-- name: enqueue_for_nobody
-- The same without an actor; a comparison that also matches NULL could not use the index.
{enqueue_unless_waiting} AND actor_id IS NULL {enqueue_fresh}

-- name: join_all
-- The same for several jobs of one actor with different keys; locks are always taken in the same order.
SELECT pg_advisory_xact_lock_shared(lock) FROM (
    SELECT hashtextextended(concat_ws(':', 'memoryhub_job', %(actor)s::uuid, kind, key), 0) AS lock
    FROM unnest(%(kinds)s::text[], %(keys)s::text[]) AS wanted (kind, key) ORDER BY 1
) AS locks

-- name: enqueue_all
INSERT INTO memoryhub_job
    (id, actor_id, kind, key, payload, lane, turn_at, state, attempts, excused, due_at, error, traceparent)
SELECT id, %(actor)s, kind, key, payload, %(lane)s::varchar,
    {next_turn} + (row_number() OVER () - 1) * interval '10 seconds', 'queued', 0, 0,
    now() + delay_seconds * interval '1 second', '', %(traceparent)s::varchar
FROM unnest(%(ids)s::uuid[], %(kinds)s::text[], %(keys)s::text[], %(payloads)s::jsonb[], %(delays)s::float8[])
    AS wanted (id, kind, key, payload, delay_seconds)
WHERE NOT EXISTS (
    SELECT FROM memoryhub_job AS waiting
    WHERE waiting.actor_id = %(actor)s AND waiting.kind = wanted.kind AND waiting.key = wanted.key
        AND waiting.state = 'queued' AND waiting.key <> ''
)
ON CONFLICT DO NOTHING

-- name: offer
-- Offer what is due to one worker, and to no other for a while, in the order of turns. Kinds of which enough run, and
-- jobs whose like is running, wait. Nothing waits for the disk: an offer that a crash undoes is made again.
-- Kinds that this release does not `know` are left to others; so are those that ask a model, where this host has none
-- and a living worker of another host has one.
-- Materialized: a planner that runs the choice once for each row would offer more than LIMIT allows.
WITH limits AS MATERIALIZED (
    SELECT * FROM unnest(%(limits)s::text[], %(kinds)s::text[], %(most)s::int[]) AS limits (name, kind, most)
), bounded AS MATERIALIZED (
    SELECT limits.kind FROM limits
    WHERE limits.most <= (
        SELECT count(*) FROM memoryhub_job AS running JOIN limits AS same ON same.kind = running.kind
        WHERE running.state = 'running' AND same.name = limits.name
    )
), chosen AS MATERIALIZED (
    SELECT waiting.id FROM memoryhub_job AS waiting
    WHERE set_config('synchronous_commit', 'off', TRUE) IS NOT NULL
        AND waiting.state = 'queued' AND waiting.due_at <= now()
        AND waiting.kind <> ALL (ARRAY(SELECT kind FROM bounded))
        AND waiting.kind = ANY (%(known)s::text[])
        AND (waiting.kind <> ALL (%(without_model)s::text[]) OR NOT EXISTS (
            SELECT FROM memoryhub_worker AS able
            WHERE able.seen_at > now() - interval '30 seconds' AND able.settings ->> 'MEMORYHUB_LLM_PROVIDER' <> 'none'
        ))
        AND (waiting.key = '' OR NOT EXISTS (
            SELECT FROM memoryhub_job AS running
            WHERE running.state = 'running' AND running.kind = waiting.kind AND running.key = waiting.key
                AND running.actor_id IS NOT DISTINCT FROM waiting.actor_id
        ))
    ORDER BY waiting.turn_at, waiting.due_at LIMIT %(count)s
    FOR UPDATE OF waiting SKIP LOCKED
), offered AS (
    UPDATE memoryhub_job AS job SET due_at = now() + %(for_seconds)s * interval '1 second'
    FROM chosen WHERE job.id = chosen.id
    RETURNING job.id, job.kind, job.due_at, job.turn_at, CASE WHEN job.key <> ''
        THEN hashtextextended(concat_ws(':', 'memoryhub_job', job.actor_id, job.kind, job.key), 0) END AS lock
)
SELECT id, kind, due_at, lock FROM offered ORDER BY turn_at, id  -- an UPDATE returns rows in any order

-- name: offer_one
-- A job by id, with the lock of its key.
SELECT kind, CASE WHEN key <> '' THEN hashtextextended(concat_ws(':', 'memoryhub_job', actor_id, kind, key), 0) END
FROM memoryhub_job WHERE id = %(id)s AND state = 'queued'

-- name: claim
-- Claims a queued job; the attempt is counted from here. The state is compared after the row was found, as the planner
-- would otherwise read all queued jobs. Asynchronous commit: if a crash undoes the claim, the worker's fence fails.
-- An offer is valid while the job's due time is unchanged; a postponed or newly offered job belongs to another worker.
WITH free AS MATERIALIZED (
    SELECT id, state, due_at FROM memoryhub_job
    WHERE id = %(id)s AND set_config('synchronous_commit', 'off', TRUE) IS NOT NULL
    FOR UPDATE SKIP LOCKED
)
UPDATE memoryhub_job AS job
SET state = 'running', attempts = job.attempts + 1, worker = %(worker)s, started_at = now(),
    lease_until = now() + %(lease_seconds)s * interval '1 second'
FROM free
WHERE job.id = free.id AND free.state = 'queued'
    AND (%(due_at)s::timestamptz IS NULL OR free.due_at = %(due_at)s::timestamptz)
RETURNING job.id, job.actor_id, job.key, job.payload, job."order", job.attempts, job.cursor, job.traceparent

-- name: serialize_claims
-- Serializes claims under a limit, so that each counts the one before it.
SELECT pg_advisory_xact_lock(hashtextextended('memoryhub_job:' || %(limit)s, 0))

-- name: count_running
SELECT count(*) FROM memoryhub_job WHERE kind = ANY(%(kinds)s) AND state = 'running'

-- name: postpone
UPDATE memoryhub_job SET due_at = now() + %(seconds)s * interval '1 second' WHERE id = %(id)s AND state = 'queued'

-- name: renew
-- The statements from here on require that the job is still held: the same worker, in the same attempt. Only running
-- jobs have a lease.
UPDATE memoryhub_job SET lease_until = clock_timestamp() + %(lease_seconds)s * interval '1 second'
WHERE id = %(id)s AND attempts = %(attempt)s AND worker = %(worker)s AND lease_until > clock_timestamp()
RETURNING id

-- name: lock_actor
-- Locked before the job's row, as in every write, including erasure.
SELECT 1 FROM memoryhub_actor WHERE id = %(actor)s FOR KEY SHARE

-- name: lock_actor_alone
SELECT 1 FROM memoryhub_actor WHERE id = %(actor)s FOR UPDATE

-- name: fence
SELECT 1 FROM memoryhub_job
WHERE id = %(id)s AND attempts = %(attempt)s AND worker = %(worker)s AND lease_until > clock_timestamp()
FOR UPDATE

-- name: store_step
UPDATE memoryhub_job SET cursor = %(cursor)s, progress_done = %(done)s, progress_total = %(total)s,
    lease_until = clock_timestamp() + %(lease_seconds)s * interval '1 second'
WHERE id = %(id)s

-- name: finish
UPDATE memoryhub_job SET state = 'done', finished_at = clock_timestamp(), lease_until = NULL, worker = NULL, error = ''
WHERE id = %(id)s AND attempts = %(attempt)s AND worker = %(worker)s AND lease_until > clock_timestamp()
RETURNING id

-- name: finish_locked
-- The same after `fence`, which holds the row lock, so the job cannot have been claimed by another worker.
UPDATE memoryhub_job SET state = 'done', finished_at = clock_timestamp(), lease_until = NULL, worker = NULL, error = ''
WHERE id = %(id)s

-- name: release
-- `attempts` as read before: a job that was claimed again since is not changed.
UPDATE memoryhub_job
SET state = %(state)s, excused = excused + %(excused)s,
    excused_since = CASE WHEN %(excused)s > 0 THEN coalesce(excused_since, clock_timestamp()) END,
    error = %(error)s, lease_until = NULL, worker = NULL,
    due_at = clock_timestamp() + %(pause_seconds)s * interval '1 second',
    finished_at = CASE WHEN %(state)s IN ('failed', 'dead') THEN clock_timestamp() END
WHERE id = %(id)s AND attempts = %(attempt)s AND lease_until IS NOT NULL

-- name: attempts_of_one
SELECT id, kind, attempts, excused, coalesce(clock_timestamp() - excused_since, interval '0') FROM memoryhub_job
WHERE id = %(id)s AND attempts = %(attempt)s AND worker = %(worker)s AND lease_until IS NOT NULL
FOR UPDATE

-- name: overdue
-- Jobs with an expired lease; a worker that still runs one can no longer finish it.
SELECT id, kind, attempts, excused, coalesce(clock_timestamp() - excused_since, interval '0') FROM memoryhub_job
WHERE state = 'running' AND lease_until < clock_timestamp()
ORDER BY lease_until LIMIT 200
FOR UPDATE SKIP LOCKED

-- name: of_worker
SELECT id, kind, attempts, excused, coalesce(clock_timestamp() - excused_since, interval '0') FROM memoryhub_job
WHERE state = 'running' AND worker = %(worker)s
FOR UPDATE SKIP LOCKED

-- name: record_heartbeat
INSERT INTO memoryhub_worker (id, host, pid, settings, started_at, seen_at)
VALUES (%(id)s, %(host)s, %(pid)s, %(settings)s::jsonb, now(), now())
ON CONFLICT (id) DO UPDATE SET seen_at = now()

-- name: insert_schedule
-- The first process to check a schedule inserts its row.
INSERT INTO memoryhub_schedulestate (name, next_at) VALUES (%(name)s, %(next_at)s) ON CONFLICT (name) DO NOTHING

-- name: lock_schedules
SELECT name, next_at, now() FROM memoryhub_schedulestate WHERE name = ANY(%(names)s) FOR UPDATE SKIP LOCKED

-- name: move_schedule
UPDATE memoryhub_schedulestate
SET next_at = %(next_at)s, last_at = CASE WHEN %(is_due)s THEN now() ELSE last_at END
WHERE name = %(name)s
