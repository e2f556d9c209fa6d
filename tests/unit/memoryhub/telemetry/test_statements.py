"""Statements are described by words of ours (SPEC O10)."""

import pytest

from memoryhub.jobs.context import QUERIES
from memoryhub.telemetry.statements import described
from strength.sql import QUERIES as QUERIES_OF_STRENGTH


@pytest.mark.parametrize(
    ("sql", "summary"),
    [
        ('SELECT "memoryhub_agent"."id" FROM "memoryhub_agent" WHERE "x" = %s', "SELECT memoryhub_agent"),
        ("DELETE FROM strength_memory WHERE id = ANY(%s)", "DELETE strength_memory"),
        ("SELECT 1 FROM memoryhub_actor WHERE id = %s FOR UPDATE", "SELECT memoryhub_actor"),
        ("SELECT 'told FROM quillonby', '-- UPDATE zephyrine'", "SELECT"),
        ('SAVEPOINT "s1_x1"', "SAVEPOINT"),
        ("quillonby", "SQL"),
        ("-- DELETE FROM strength_memory\nUPDATE memoryhub_job SET key = %s", "UPDATE memoryhub_job"),
    ],
)
def test_statement_is_its_verb_and_tables(sql: str, summary: str) -> None:
    assert described(sql) == (summary.split()[0], summary)


def test_named_statements_have_a_verb() -> None:
    assert described(QUERIES["enqueue_for_actor"]) == ("INSERT", "INSERT memoryhub_job")
    assert described(QUERIES["claim"]) == ("UPDATE", "UPDATE memoryhub_job")
    verbs = {described(sql)[0] for sql in [*QUERIES.values(), *QUERIES_OF_STRENGTH.values()]}
    assert verbs <= {"SELECT", "INSERT", "UPDATE", "DELETE"}
