-- The statements by which jobs move; `memoryhub.db.queries` loads them. Leases and due times follow the database's clock,
-- the one all workers share.

-- name: join
-- Whoever joins a job that waits shares this lock until their transaction ends, and whoever claims it takes it alone: so
-- no worker begins a job before the changes that joined it can be seen. The server serves those who wait for a lock in
-- turn: a claim waits for those who joined before it, and those who come later wait for the claim, which is short.
SELECT pg_advisory_xact_lock_shared(
    hashtextextended(concat_ws(':', 'memoryhub_job', %(actor)s::uuid, %(kind)s, %(key)s), 0)
)

-- name: lock_key
SELECT set_config('lock_timeout', '5s', TRUE), pg_advisory_xact_lock(%(lock)s)

-- fragment: enqueue_unless_waiting
WITH waiting AS (
    SELECT id FROM memoryhub_job
    WHERE %(key)s <> '' AND kind = %(kind)s AND key = %(key)s AND state = 'queued' AND key <> ''

-- fragment: enqueue_fresh
    ORDER BY id LIMIT 1
), fresh AS (
    INSERT INTO memoryhub_job (id, actor_id, kind, key, payload, "order", lane, state, attempts, excused, due_at, error)
    SELECT %(id)s, %(actor)s, %(kind)s, %(key)s, %(payload)s, %(order)s::jsonb, %(lane)s, 'queued', 0, 0,
        now() + %(delay_seconds)s * interval '1 second', ''
    WHERE NOT EXISTS (SELECT FROM waiting)
    ON CONFLICT DO NOTHING
    RETURNING id
)
SELECT id FROM fresh UNION ALL SELECT id FROM waiting

-- name: enqueue_for_actor
-- Put a job into the queue, in the transaction of the change that causes it. One of a key waits at a time.
-- Returns no row where another transaction was quicker; the caller asks again.
{enqueue_unless_waiting} AND actor_id = %(actor)s {enqueue_fresh}

-- name: enqueue_for_nobody
-- The same without an actor: one comparison that also fits NULL would find no index.
{enqueue_unless_waiting} AND actor_id IS NULL {enqueue_fresh}

-- name: join_all
-- The same for several of one actor, each with a key of its own; the locks are taken in one order by everybody.
SELECT pg_advisory_xact_lock_shared(lock) FROM (
    SELECT hashtextextended(concat_ws(':', 'memoryhub_job', %(actor)s::uuid, kind, key), 0) AS lock
    FROM unnest(%(kinds)s::text[], %(keys)s::text[]) AS wanted (kind, key) ORDER BY 1
) AS locks

-- name: enqueue_all
INSERT INTO memoryhub_job (id, actor_id, kind, key, payload, lane, state, attempts, excused, due_at, error)
SELECT id, %(actor)s, kind, key, payload, %(lane)s, 'queued', 0, 0, now() + delay_seconds * interval '1 second', ''
FROM unnest(%(ids)s::uuid[], %(kinds)s::text[], %(keys)s::text[], %(payloads)s::jsonb[], %(delays)s::float8[])
    AS wanted (id, kind, key, payload, delay_seconds)
WHERE NOT EXISTS (
    SELECT FROM memoryhub_job AS waiting
    WHERE waiting.actor_id = %(actor)s AND waiting.kind = wanted.kind AND waiting.key = wanted.key
        AND waiting.state = 'queued' AND waiting.key <> ''
)
ON CONFLICT DO NOTHING

-- name: offer
-- Offer what is due to one worker, and to no other for a while. Kinds of which enough run, and jobs whose like is
-- running, wait. Callers take turns: the first job of each lane comes before the second of any, and what runs counts, so
-- that a thousand jobs of one caller delay another's by one job. Nothing waits for the disk: an offer that a crash undoes
-- is made again. Materialized: a planner that runs the choice once for each row would offer more than LIMIT allows.
WITH RECURSIVE lanes AS (
    (SELECT lane FROM memoryhub_job WHERE state = 'queued' ORDER BY lane LIMIT 1)
    UNION ALL
    SELECT (SELECT lane FROM memoryhub_job WHERE state = 'queued' AND lane > lanes.lane ORDER BY lane LIMIT 1)
    FROM lanes WHERE lanes.lane IS NOT NULL
), bounded AS MATERIALIZED (
    SELECT bounded.kind FROM unnest(%(kinds)s::text[], %(most)s::int[]) AS bounded (kind, most)
    WHERE bounded.most <= (
        SELECT count(*) FROM memoryhub_job AS running WHERE running.kind = bounded.kind AND running.state = 'running'
    )
), due AS MATERIALIZED (
    SELECT job.id, job.due_at, row_number() OVER (PARTITION BY lanes.lane ORDER BY job.due_at) + (
        SELECT count(*) FROM memoryhub_job AS running WHERE running.state = 'running' AND running.lane = lanes.lane
    ) AS turn
    FROM lanes, LATERAL (
        SELECT waiting.id, waiting.due_at FROM memoryhub_job AS waiting
        WHERE waiting.state = 'queued' AND waiting.lane = lanes.lane AND waiting.due_at <= now()
            AND waiting.kind <> ALL (ARRAY(SELECT kind FROM bounded))
            AND (waiting.key = '' OR NOT EXISTS (
                SELECT FROM memoryhub_job AS running
                WHERE running.state = 'running' AND running.kind = waiting.kind AND running.key = waiting.key
                    AND running.actor_id IS NOT DISTINCT FROM waiting.actor_id
            ))
        -- More than wanted, as other workers have locked some.
        ORDER BY waiting.due_at LIMIT %(count)s + greatest(2, 100 / (SELECT count(*) FROM lanes))
    ) AS job
), chosen AS MATERIALIZED (
    SELECT waiting.id FROM due JOIN memoryhub_job AS waiting ON waiting.id = due.id
    WHERE set_config('synchronous_commit', 'off', TRUE) IS NOT NULL
        AND waiting.state = 'queued' AND waiting.due_at <= now()
    ORDER BY due.turn, due.due_at LIMIT %(count)s
    FOR UPDATE OF waiting SKIP LOCKED
)
UPDATE memoryhub_job AS job SET due_at = now() + %(for_seconds)s * interval '1 second'
FROM chosen WHERE job.id = chosen.id
RETURNING job.id, job.kind, job.due_at, CASE WHEN job.key <> ''
    THEN hashtextextended(concat_ws(':', 'memoryhub_job', job.actor_id, job.kind, job.key), 0) END

-- name: offer_one
-- One job by its id, with the lock of its key.
SELECT kind, CASE WHEN key <> '' THEN hashtextextended(concat_ws(':', 'memoryhub_job', actor_id, kind, key), 0) END
FROM memoryhub_job WHERE id = %(id)s AND state = 'queued'

-- name: claim
-- Take a job that waits. The attempt counts from here on, whatever becomes of it. The state is compared after the row
-- was found: in the search for it, it would tempt the planner to read everything that waits. Nor does this wait for
-- the disk: where a crash undoes a claim, its worker finds the job to be nobody's, or another's. An offer is good
-- as long as the job is due when it said: what was put off, or offered anew, since then is another's.
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
RETURNING job.id, job.actor_id, job.key, job.payload, job."order", job.attempts, job.cursor

-- name: serialize_claims
-- One claim of a bounded kind at a time, so that each counts the one before it.
SELECT pg_advisory_xact_lock(hashtextextended('memoryhub_job:' || %(kind)s, 0))

-- name: count_running
SELECT count(*) FROM memoryhub_job WHERE kind = %(kind)s AND state = 'running'

-- name: postpone
UPDATE memoryhub_job SET due_at = now() + %(seconds)s * interval '1 second' WHERE id = %(id)s AND state = 'queued'

-- name: renew
-- The rest is allowed to whoever still holds the job: the same worker, in the same attempt. Only a job that runs has
-- a lease.
UPDATE memoryhub_job SET lease_until = clock_timestamp() + %(lease_seconds)s * interval '1 second'
WHERE id = %(id)s AND attempts = %(attempt)s AND worker = %(worker)s AND lease_until > clock_timestamp()
RETURNING id

-- name: lock_actor
-- Taken before the job's row, as by every other write: an erasure takes the actor first, too.
SELECT 1 FROM memoryhub_actor WHERE id = %(actor)s FOR KEY SHARE

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
-- The same under FENCE, which keeps the row: however long the writes took, nobody else could take the job meanwhile.
UPDATE memoryhub_job SET state = 'done', finished_at = clock_timestamp(), lease_until = NULL, worker = NULL, error = ''
WHERE id = %(id)s

-- name: release
-- `attempts` as it was read: a job that somebody took over meanwhile is left alone.
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
-- Jobs whose lease ran out: nobody works on them any more, or somebody who must not finish.
SELECT id, kind, attempts, excused, coalesce(clock_timestamp() - excused_since, interval '0') FROM memoryhub_job
WHERE state = 'running' AND lease_until < clock_timestamp()
ORDER BY lease_until LIMIT 200
FOR UPDATE SKIP LOCKED

-- name: of_worker
SELECT id, kind, attempts, excused, coalesce(clock_timestamp() - excused_since, interval '0') FROM memoryhub_job
WHERE state = 'running' AND worker = %(worker)s
FOR UPDATE SKIP LOCKED

-- name: record_heartbeat
INSERT INTO memoryhub_worker (id, host, pid, started_at, seen_at) VALUES (%(id)s, %(host)s, %(pid)s, now(), now())
ON CONFLICT (id) DO UPDATE SET seen_at = now()

-- name: insert_schedule
-- A schedule's row is made by whoever looks at it first.
INSERT INTO memoryhub_schedulestate (name, next_at) VALUES (%(name)s, %(next_at)s) ON CONFLICT (name) DO NOTHING

-- name: lock_schedules
SELECT name, next_at, now() FROM memoryhub_schedulestate WHERE name = ANY(%(names)s) FOR UPDATE SKIP LOCKED

-- name: move_schedule
UPDATE memoryhub_schedulestate
SET next_at = %(next_at)s, last_at = CASE WHEN %(is_due)s THEN now() ELSE last_at END
WHERE name = %(name)s
