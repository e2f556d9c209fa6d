"""Named statements: the loader, and that every statement of strength is defined and used."""

import re
from pathlib import Path

import pytest

from memoryhub.db.queries import load_queries
from strength.sql import QUERIES, SLEEP_QUERIES


def test_fragments_are_inserted_and_comments_left_out(tmp_path: Path) -> None:
    path = tmp_path / "queries.sql"
    path.write_text(
        "-- A head.\n\n-- fragment: mine\nactor_id = %(actor_id)s\n\n"
        "-- name: count_rows\n-- Why.\nSELECT count(*), '{}'::jsonb\n  -- which\nFROM {table} WHERE {mine}\n"
    )
    found = load_queries(path, table="memory")
    assert found == {"count_rows": "SELECT count(*), '{}'::jsonb\nFROM memory WHERE actor_id = %(actor_id)s"}


def test_an_unknown_fragment_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "queries.sql"
    path.write_text("-- name: broken\nSELECT {nothing}\n")
    with pytest.raises(KeyError):
        load_queries(path)


@pytest.mark.parametrize(("name", "queries"), [("QUERIES", QUERIES), ("SLEEP_QUERIES", SLEEP_QUERIES)])
def test_every_statement_is_defined_and_used(name: str, queries: dict[str, str]) -> None:
    code = "\n".join(path.read_text() for path in Path("strength").rglob("*.py"))
    assert set(re.findall(rf'\b{name}\["(\w+)"\]', code)) == set(queries)
