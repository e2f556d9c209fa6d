"""LangGraph's own tests of its stores in memory and on SQLite, run against ours.

They are in a checkout of LangGraph, and run in an environment of their own: `langgraph-checkpoint-sqlite`,
`pytest-asyncio`, `pytest-mock` and `httpx2`.

    LANGGRAPH=…/langgraph LANGGRAPH_PYTHON=…/bin/python pytest tests/verification/langgraph_store.py -s --force-enable-socket

The packages `langgraph/` of the checkout must be removed, so that the installed ones are tested.

DOES_NOT_APPLY says which do not apply, and why.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.clients.conftest import new_key
from tests.serving import serving

PLUGIN = """
import os
from contextlib import asynccontextmanager, contextmanager
from unittest.mock import MagicMock
from uuid import uuid4

from langgraph.store import memory
from memoryhub_client import Memoryhub
from memoryhub_client.langgraph_store import MemoryhubStore

users = {}

class OurStore(MemoryhubStore):
    def __init__(self, place=None, *, index=None, ttl=None, **options):
        index = index or {}
        user = users.setdefault(place, uuid4().hex) if place not in (None, ":memory:") else uuid4().hex
        hub = Memoryhub(os.environ["MEMORYHUB_URL"], os.environ["MEMORYHUB_KEY"], agent_id="kana", user_id=user)
        super().__init__(hub, fields=index.get("fields") or index.get("text_fields"), ttl=ttl)
        self.index_config = index
        self.MIGRATIONS = []

    @classmethod
    @contextmanager
    def from_conn_string(cls, place, **options):
        yield cls(place, **options)

    def setup(self):
        pass

    start_ttl_sweeper = stop_ttl_sweeper = setup

    def _cursor(self):
        return MagicMock()

memory.InMemoryStore = OurStore
from langgraph.store import sqlite
from langgraph.store.sqlite import aio as sqlite_aio

class OurAsyncStore(OurStore):
    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, place, **options):
        yield cls(place, **options)

    async def setup(self):
        pass

    start_ttl_sweeper = stop_ttl_sweeper = setup

sqlite.SqliteStore = sqlite.BaseSqliteStore = OurStore
sqlite.AsyncSqliteStore = sqlite_aio.AsyncSqliteStore = OurAsyncStore
"""
SCORES = "compares cosines of the tests' own embedder; ours are of words, vectors, strength and age"
INSIDE = "looks into the store's own tables, connections or settings"
DOES_NOT_APPLY = {
    "checkpoint": {"test_embed_with_path": SCORES},
    "checkpoint-sqlite": {
        "test_embed_with_path": SCORES,
        "test_scores": SCORES,
        "test_no_running_loop": "this store belongs to no event loop: what is synchronous may be called in any",
        "test_vector_store_initialization": INSIDE,
        "test_nonnull_migrations": INSIDE,
        "test_sql_injection_vulnerability": "a key of a filter may have any characters here",
        "test_filter_keys_with_hyphens_and_digits": "keys with points are paths on SQLite only",
    },
}


@pytest.mark.parametrize("package", DOES_NOT_APPLY)
def test_langgraphs_own_tests(package: str, transactional_db: None, tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text(PLUGIN)
    source = Path(__file__).resolve().parents[2] / "clients" / "python" / "src"
    with serving() as web:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{tmp_path}:{source}",
            "MEMORYHUB_URL": web.url,
            "MEMORYHUB_KEY": new_key(),
        }
        environment.pop("DJANGO_SETTINGS_MODULE", None)
        skipped = " or ".join(DOES_NOT_APPLY[package])
        command = [os.environ["LANGGRAPH_PYTHON"], "-m", "pytest", "-q", "-p", "ours"]
        options = ["-o", "asyncio_mode=auto", "-k", f"not ({skipped})", "--tb=short"]
        place = Path(os.environ["LANGGRAPH"]) / "libs" / package
        files = sorted(str(each) for each in (place / "tests").glob("test_*store.py"))
        done = subprocess.run([*command, *options, *files], cwd=place, env=environment)
    assert done.returncode == 0
