"""Fill an installation with a million memories and messages in minutes.

A pool of some thousand invented texts passes the real analysis and the real embedder once; the rows are then
multiplied inside PostgreSQL. What makes search slow or quick stays true: the number of rows, their width, how
many terms they have, and that the rows of an actor lie scattered among everybody's, because the rows of all
actors come in by turns. Needs Django set up.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from django.db import connection
from pgvector import HalfVector

from memoryhub.embeddings.spaces import active_space, provider_of
from memoryhub.llm.tokens import count_raw
from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import WORDS_VERSION
from memoryhub.search.index import word_vector
from memoryhub.tenancy.policy import actor_id
from strength.sql import FACETS

AGENTS = 10
POOL = 20_000
VOCABULARY = 30_000
MESSAGES_PER_SESSION = 100
SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in ("a", "e", "i", "o", "u", "an", "el")]
KANJI = "日本語記憶検索会話庭茶山川海空春夏秋冬朝夜料理旅行音楽映画仕事家族友人電車自転車犬猫本紙花木雨雪風光影水火土金"
KANA = "のをにはがでとも"

TABLES = (
    "strength_memoryindex",
    "strength_memorynumbers",
    "strength_memory",
    "conversations_messageindex",
    "conversations_message",
    "conversations_session",
)


@dataclass(frozen=True)
class Size:
    """Number of actors, and of memories and messages of each."""

    actors: int
    memories: int
    messages: int

    def user(self, number: int) -> tuple[str, str]:
        return f"bench-{number % AGENTS}", f"user-{number}"


def texts(count: int, seed: int) -> Iterator[str]:
    """Yield invented texts of 6 to 40 words, common words common (Zipf); every fifth in Japanese letters."""
    chance = random.Random(seed)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))) for _ in range(VOCABULARY)]
    cumulated = list(accumulate(1 / (rank + 3) for rank in range(VOCABULARY)))
    for number in range(count):
        length = min(40, max(6, int(chance.lognormvariate(2.8, 0.5))))
        if number % 5 == 4:
            yield "".join("".join(chance.choices(KANJI, k=2)) + chance.choice(KANA) for _ in range(length))
        else:
            yield " ".join(chance.choices(words, cum_weights=cumulated, k=length))


def questions(count: int, seed: int) -> list[str]:
    """Return questions of two to eight words of texts that are there."""
    chance = random.Random(seed)

    def some_of(text: str) -> str:
        words = text.split()
        if len(words) == 1:
            start = chance.randrange(max(1, len(text) - 12))
            return text[start : start + chance.randint(6, 12)]
        return " ".join(chance.sample(words, min(len(words), chance.randint(2, 8))))

    return [some_of(text) for text in chance.sample(list(texts(POOL, seed=1)), count)]


def newest_session(number: int) -> str:
    """Return the id of one actor's newest session."""
    return f"01900000-0000-7002-8000-{number:012x}"


def make_pool() -> None:
    space = active_space()
    pool = list(texts(POOL, seed=1))
    vectors = provider_of(space).embed(pool)
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bench_pool")
        cursor.execute(
            "CREATE TABLE bench_pool (n integer PRIMARY KEY, content text, tokens integer, vector halfvec, "
            "words sparsevec)"
        )
        with cursor.copy("COPY bench_pool FROM STDIN") as copy:
            for number, (text, vector) in enumerate(zip(pool, vectors, strict=True)):
                words = word_vector(analyse(text)).to_text()
                copy.write_row((number, text, count_raw(text), HalfVector(vector.tolist()).to_text(), words))
        cursor.execute("ANALYZE bench_pool")


def empty() -> None:
    with connection.cursor() as cursor:
        names = (
            "strength_memory, conversations_session, memoryhub_actor, memoryhub_agent, memoryhub_termstatistic, "
            "memoryhub_clusteringstate"
        )
        cursor.execute(f"TRUNCATE {names} CASCADE")


def fill(size: Size) -> None:
    """Fill an empty installation, rows of all actors by turns."""
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        names = [size.user(number) for number in range(size.actors)]
        agents = sorted({agent for agent, _ in names})
        cursor.executemany(AGENT, [[agent] for agent in agents])
        cursor.executemany(ACTOR, [[actor_id(agent), agent, ""] for agent in agents])
        cursor.executemany(ACTOR, [[actor_id(agent, user), agent, user] for agent, user in names])
        cursor.execute("DROP TABLE IF EXISTS bench_actor")
        cursor.execute("CREATE TABLE bench_actor (n integer PRIMARY KEY, id uuid)")
        rows = [[number, actor_id(agent, user)] for number, (agent, user) in enumerate(names)]
        cursor.executemany("INSERT INTO bench_actor VALUES (%s, %s)", rows)
        cursor.execute(MEMORIES, {"actors": size.actors, "rows": size.actors * size.memories, "pool": POOL})
        cursor.execute(NUMBERS)
        cursor.execute(MEMORY_INDEX, {"space": active_space().pk, "pool": POOL})
        if size.messages:
            values = {
                "actors": size.actors,
                "rows": size.actors * size.messages,
                "each": size.messages,
                "session": MESSAGES_PER_SESSION,
                "space": active_space().pk,
                "pool": POOL,
            }
            for statement in (SESSIONS, MESSAGES, MESSAGE_INDEX):
                cursor.execute(statement, values)
        cursor.execute(STATISTICS, {"rows": size.actors * (size.memories + size.messages), "pool": POOL})
        cursor.execute("SET synchronous_commit = on")
    settle()


def settle() -> None:
    """Do what autovacuum does in quiet hours: visibility, statistics, a checkpoint's worth of writing."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


AGENT = """
INSERT INTO memoryhub_agent (agent_id, name, language, system_prompt, domain, related_domains, current_project,
    fixed_user_id, policy, strategies, topics_include, topics_exclude, version)
VALUES (%s, '', 'en', '', '', '{}', '', '', '{}', '{}', '{}', '{}', 1)
"""
ACTOR = "INSERT INTO memoryhub_actor (id, agent_id, user_id, policy, version) VALUES (%s, %s, %s, '{}', 1)"

# Ids that grow with the row's number, as UUIDv7 do: what they name, the row's number, a mark of the kind.
NEW_ID = "('01900000-0000-7{kind}-8000-' || lpad(to_hex({number}), 12, '0'))::uuid"

MEMORIES = f"""
INSERT INTO strength_memory (id, actor_id, content, content_digest, wording_digest, namespace, kind, tags, scope_level,
    scope_domain, scope_project, status, pinned, locked, source, channel, trust, learnings, version,
    created_at, updated_at)
SELECT {NEW_ID.format(kind="001", number="row")}, actor.id, pool.content || ' ' || row, sha256(row::text::bytea),
    sha256(row::text::bytea), '/facts/user-' || actor.n || '/', 'fact', '{{}}', 'project', '', '', 'active', false,
    false, 'manual', '', 'trusted', '{{}}', 1, now() - (row %% 300) * interval '1 day', now()
FROM generate_series(0, %(rows)s - 1) AS row
JOIN bench_actor AS actor ON actor.n = row %% %(actors)s
JOIN bench_pool AS pool ON pool.n = (hashint8(row) & 2147483647) %% %(pool)s
ORDER BY row
"""

NUMBERS = """
INSERT INTO strength_memorynumbers (memory_id, actor_id, strength, access_count, candidate_count, impact_score,
    consolidation_level, mark, began_at)
SELECT id, actor_id, 0.5 + ('x' || right(id::text, 2))::bit(8)::int / 256.0, 0, 0, 0, 0, 0, created_at
FROM strength_memory ORDER BY id
"""

ROW_OF = "('x' || right({id}::text, 12))::bit(48)::bigint"

MEMORY_INDEX = f"""
INSERT INTO strength_memoryindex (actor_id, space_id, memory_id, vector, words, words_version,
    {", ".join(FACETS)})
SELECT memory.actor_id, %(space)s, memory.id, pool.vector, pool.words, {WORDS_VERSION},
    {", ".join(f"memory.{each}" for each in FACETS)}
FROM strength_memory AS memory
JOIN bench_pool AS pool ON pool.n = (hashint8({ROW_OF.format(id="memory.id")}) & 2147483647) %% %(pool)s
ORDER BY memory.id
"""

SESSIONS = f"""
INSERT INTO conversations_session (id, actor_id, channel, title, metadata, started_at, last_message_at, message_count,
    authors)
SELECT {NEW_ID.format(kind="002", number="number * %(actors)s + actor.n")}, actor.id, 'api', '', '{{}}',
    now() - (number + 1) * interval '1 day', now() - number * interval '1 day', %(session)s, '{{}}'
FROM generate_series(0, %(each)s / %(session)s - 1) AS number CROSS JOIN bench_actor AS actor
ORDER BY number, actor.n
"""

MESSAGES = f"""
INSERT INTO conversations_message (id, actor_id, session_id, seq, role, author, content, token_count, trust,
    created_at, metadata)
SELECT {NEW_ID.format(kind="003", number="row")}, actor.id,
    {NEW_ID.format(kind="002", number="(row / %(actors)s / %(session)s) * %(actors)s + actor.n")},
    (row / %(actors)s) %% %(session)s + 1, CASE row / %(actors)s %% 2 WHEN 0 THEN 'user' ELSE 'assistant' END, '',
    pool.content, pool.tokens, 'trusted',
    now() - (row / %(actors)s / %(session)s + 1) * interval '1 day'
        + (row / %(actors)s %% %(session)s) * interval '1 minute', '{{}}'
FROM generate_series(0, %(rows)s - 1) AS row
JOIN bench_actor AS actor ON actor.n = row %% %(actors)s
JOIN bench_pool AS pool ON pool.n = (hashint8(row + 1) & 2147483647) %% %(pool)s
ORDER BY row
"""

MESSAGE_INDEX = f"""
INSERT INTO conversations_messageindex (actor_id, space_id, message_id, session_id, seq, trust, author, asks,
    vector, words, words_version)
SELECT message.actor_id, %(space)s, message.id, message.session_id, message.seq, message.trust, '',
    message.seq %% 7 = 0, pool.vector, pool.words, {WORDS_VERSION}
FROM conversations_message AS message
JOIN bench_pool AS pool ON pool.n = (hashint8({ROW_OF.format(id="message.id")} + 1) & 2147483647) %% %(pool)s
ORDER BY message.id
"""

# What `statistics.record` would have counted: the pool's terms, as often as its texts were used.
STATISTICS = """
INSERT INTO memoryhub_termstatistic (term, documents)
SELECT split_part(entry, ':', 1)::int - 1, greatest(1, count(*) * %(rows)s / %(pool)s)
FROM bench_pool, unnest(string_to_array(trim(both '{' from split_part(words::text, '}', 1)), ',')) AS entry
GROUP BY 1 UNION ALL SELECT -1, %(rows)s
"""
