"""Shared fixtures: keys, a client per key, and agents."""

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.test import TransactionTestCase
from django.utils import translation
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from rest_framework.test import APIClient

from memoryhub.auth.actions import issue_key
from memoryhub.auth.principals import Scope, command
from memoryhub.embeddings import registry
from memoryhub.jobs.executor import run
from memoryhub.jobs.queue import offer
from memoryhub.zones import day_end
from strength.models import MemoryIndex
from tests import database
from tests.examples import QUICK

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

TESTS = Path(__file__).parent
SLOW = TESTS / "slow"

# Measuring coverage makes Python two to three times as slow. Here the same code runs by the hundred: pages that other
# tests open too, calls that are walked through, long random lives. Only their fixtures are measured.
UNTRACED = [
    TESTS / name
    for name in (
        "browser", "integration/admin/test_users_limited.py", "integration/admin/test_base_japanese.py", "integration/admin/test_base_pages.py",
        "integration/admin/test_base_roles.py", "integration/admin/test_dashboard_demo.py",
        "integration/strength/test_sleep_clock.py", "integration/strength/test_sleep_many_actors.py",
        "integration/strength/test_sql_formulas.py", "integration/strength/test_tombstones_other_words.py",
        "integration/test_fuzz.py", "integration/test_taint.py", "integration/test_tenants.py",
        "integration/test_transport.py", "unit/test_linear_time.py",
    )
]  # fmt: skip

# No test asserts on wall-clock time, and a busy machine is slow at its first example.
hypothesis_settings.register_profile(
    QUICK, deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile(QUICK)


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: Any) -> Iterator[None]:
    """Give this worker a copy of the migrated database; pytest-django would migrate one for each worker."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    with django_db_blocker.unblock():
        name = f"{database.run_folder().name}-{worker}"
        database.copy(database.migrated(), name)
    with database.connected_to(name), pytest.MonkeyPatch.context() as patch:
        with django_db_blocker.unblock():
            empty = database.Emptying()
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda case: empty())
        yield
    with django_db_blocker.unblock():
        database.drop(name)


@pytest.fixture(autouse=True)
def _fresh_caches() -> Iterator[None]:
    """Forget what a process keeps between requests, so that no test feels another."""
    database.forget_caches()
    registry.reset()
    translation.deactivate()  # the language of the last page that was asked for
    yield
    registry.reset()


def pytest_configure() -> None:
    """Save time: passwords that are hashed at once, no list of static files per client, rare garbage collection."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.WHITENOISE_AUTOREFRESH = True
    gc.set_threshold(50_000, 20, 50)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves to `make test-slow`, and property tests, which both run.

    Long tests are moved to where xdist's processes begin (`worksteal` gives each an equal part), so that none of them is
    left to the end, when the others have nothing to do.
    """
    for item in items:
        if SLOW in item.path.parents:
            item.add_marker("slow")
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("property")
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    long = [item for item in items if item.get_closest_marker("long")]
    others = [item for item in items if not item.get_closest_marker("long")]
    size = -(-len(others) // processes)
    items[:] = [
        item
        for place in range(processes)
        for item in (*long[place::processes], *others[place * size : (place + 1) * size])
    ]


def pytest_collection_finish() -> None:
    """Leave modules and tests, which stay to the end, out of all that the garbage collector walks through."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one where CI runs: a missing tool must not look like success."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and CI skips nothing: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Measure no coverage in the tests of UNTRACED; pytest-cov's `no_cover` has no effect in xdist's processes."""
    if not any(path in (pyfuncitem.path, *pyfuncitem.path.parents) for path in UNTRACED):
        return (yield)
    tracers = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracers[0])
        threading.settrace(tracers[1])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """After every test that wrote: no memory's index row says anything else than the memory."""
    yield
    if "client" in getattr(item, "fixturenames", ()):
        assert MemoryIndex.repair() == 0, "An index row does not repeat its memory: see strength.actions.search."


@pytest.fixture
def one_day() -> None:
    """Begin no test shortly before midnight (UTC) that reads the clock more than once and means one day."""
    left = day_end(datetime.now(UTC).date(), UTC) - datetime.now(UTC)
    if left < timedelta(minutes=2):
        time.sleep(left.total_seconds() + 0.1)


def run_jobs() -> int:
    """Run all jobs that are due, as a worker would, and return how many."""
    worker, done = uuid4(), 0
    while offered := offer(1):
        for each in offered:
            run(each, worker=worker)
            done += 1
    return done


def client_with_key(**options: Any) -> APIClient:
    """Return a client that sends a fresh key; `options` are those of `issue_key`."""
    defaults: dict[str, Any] = {"name": "test", "scopes": list(Scope)}
    _, new = issue_key(**{**defaults, **options}, by=command("test"), now=datetime.now(UTC))
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {new.text}")
    client.default_format = "json"
    return client


@pytest.fixture
def make_client(db: None) -> Callable[..., APIClient]:
    """Return a maker of clients with keys of their own."""
    return client_with_key


@pytest.fixture
def client(db: None) -> APIClient:
    """Return a client whose key may do everything."""
    return client_with_key()
