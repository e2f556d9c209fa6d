"""The statements by which strategies know what they have not looked at: one row per session and strategy."""

from typing import Final

# The sessions of an actor in which a strategy is behind: the one that was spoken in first, then the oldest, so that
# what was said later comes later.
BEHIND: Final = """
SELECT session.id FROM conversations_session AS session
WHERE session.actor_id = %(actor_id)s AND session.message_count > 0
    AND EXISTS (
        SELECT 1 FROM unnest(%(strategies)s::text[]) AS wanted (strategy)
        LEFT JOIN strength_strategycursor AS known
            ON known.actor_id = session.actor_id AND known.session_id = session.id
            AND known.strategy = wanted.strategy
        WHERE coalesce(known.read_until, 0) < session.message_count
    )
ORDER BY session.id IS DISTINCT FROM %(first)s::uuid, session.last_message_at, session.id
LIMIT 1
"""

# Strategies that are off go along with their sessions, and note that they drew nothing.
GO_ALONG: Final = """
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
"""

# Every strategy of a session gets its row, and all are held: who moves one waits for who moves another.
ENSURE_CURSORS: Final = """
INSERT INTO strength_strategycursor (actor_id, strategy, session_id, read_until, passed_until)
SELECT %(actor_id)s, wanted.strategy, %(session_id)s, 0, 0
FROM unnest(%(strategies)s::text[]) AS wanted (strategy) ORDER BY wanted.strategy
ON CONFLICT (actor_id, session_id, strategy) DO NOTHING
"""

# One message that no model would read was passed by; what was passed over before stays known with it.
NOTE_PASSED: Final = """
UPDATE strength_strategycursor SET
    passed_after = CASE WHEN passed_after < passed_until THEN passed_after ELSE %(seq)s - 1 END,
    passed_until = %(seq)s
WHERE actor_id = %(actor_id)s AND session_id = %(session_id)s AND strategy = ANY (%(strategies)s::text[])
"""

# Back to the first message that was said at a time or later, or to the first of all; only to what was passed over,
# unless everything is to be read `again`.
REWIND: Final = """
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
"""

# How many messages wait for each strategy that is on, of one actor or of all.
WAITING: Final = """
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
"""

# How many messages were passed over by each strategy of an actor.
PASSED: Final = """
SELECT strategy, sum(passed_until - passed_after) FROM strength_strategycursor
WHERE (%(actor_id)s::uuid IS NULL OR actor_id = %(actor_id)s::uuid) AND strategy = ANY (%(strategies)s::text[])
    AND passed_until > passed_after
GROUP BY strategy
"""
