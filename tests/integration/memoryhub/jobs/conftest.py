"""Jobs for the tests, and a table in which their effects can be counted."""

import pytest

from memoryhub.jobs.registry import KINDS, JobKind
from tests.integration.memoryhub.jobs import doings


@pytest.fixture(autouse=True)
def test_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register this folder's jobs beside the product's."""
    for kind in (
        JobKind("nothing", doings.nothing),
        JobKind("note", doings.note),
        JobKind("steps", doings.steps),
        JobKind("fails", doings.fails),
        JobKind("loses_database", doings.loses_database),
        JobKind("alone", doings.nothing, at_once=1),
        JobKind("ask", doings.nothing, asks_model=True),
        JobKind("ask_more", doings.nothing, asks_model=True, at_once=5),
    ):
        monkeypatch.setitem(KINDS, kind.name, kind)
