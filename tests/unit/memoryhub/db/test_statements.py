"""Statements are sorted by their text: what a standby can execute, and what reads have to wait for (ADR 65)."""

import pytest

from conversations.actions.receipts import INSERT_RECEIPT
from memoryhub.auth.access import LOCK_ACTOR
from memoryhub.db.shared_cache import GET, SET
from memoryhub.db.statements import changes_rows, only_reads


@pytest.mark.parametrize(
    "statement",
    [
        'SELECT "strength_memory"."id" FROM "strength_memory" WHERE "strength_memory"."updated_at" > %s OFFSET 5',
        "  WITH scored AS MATERIALIZED (SELECT 1) SELECT * FROM scored",
        "(SELECT 1) UNION ALL (SELECT 2)",
    ],
)
def test_what_only_reads_may_be_read_elsewhere(statement: str) -> None:
    assert only_reads(statement) and not changes_rows(statement)


@pytest.mark.parametrize(
    "statement",
    [
        LOCK_ACTOR,
        'SELECT "id" FROM "memoryhub_job" FOR UPDATE SKIP LOCKED',
        "SELECT id FROM conversations_session WHERE id = %s FOR NO KEY UPDATE",
        "SELECT pg_advisory_xact_lock(%s)",
        "SELECT pg_try_advisory_lock(%s)",
        "SELECT set_config('statement_timeout', '5s', true)",
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        "SAVEPOINT here",
        GET,
    ],
)
def test_what_is_of_the_primary_without_changing_rows(statement: str) -> None:
    assert not only_reads(statement) and not changes_rows(statement)


@pytest.mark.parametrize(
    "statement",
    [
        INSERT_RECEIPT,
        'UPDATE "strength_memory" SET "content" = %s',
        "WITH held AS (SELECT id FROM a FOR KEY SHARE), u AS (UPDATE b SET c = 1 RETURNING d) SELECT d FROM u",
        "WITH old AS (DELETE FROM a RETURNING b) SELECT count(*) FROM old",
        "SELECT nextval('a_id_seq')",
        "COPY a FROM STDIN",
        b"SELECT 1",
    ],
)
def test_changes_are_found_wherever_they_are(statement: str | bytes) -> None:
    assert not only_reads(statement) and changes_rows(statement)


@pytest.mark.parametrize(
    "statement",
    [
        SET,
        'UPDATE "memoryhub_worker" SET "seen_at" = now()',
        "WITH own AS ( INSERT INTO memoryhub_callsum (caller) VALUES (%s)) SELECT 1",
    ],
)
def test_no_read_waits_for_signs_of_life_and_unlogged_values(statement: str) -> None:
    assert not only_reads(statement) and not changes_rows(statement)
