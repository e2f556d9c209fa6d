"""Whoever waits for a network, or for room to go on, keeps no connection from others (ADR 7)."""

from collections.abc import Iterator
from threading import BoundedSemaphore
from typing import Any

import pytest
from django.db import OperationalError, connections
from django.test import Client

from memoryhub.db import pool
from memoryhub.db.pool import limit_concurrency, release_connection
from memoryhub.tenancy.models import Agent

pytestmark = pytest.mark.django_db(transaction=True)


class Room(BoundedSemaphore):
    """A room that notes who still holds a connection while waiting to come back in."""

    def __init__(self) -> None:
        super().__init__(1)
        self.held: list[bool] = []

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        self.held.append(connections["default"].connection is not None)
        return super().acquire(blocking, timeout)


def test_whoever_waits_to_come_back_in_holds_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room()
    monkeypatch.setattr(pool, "_slots", lambda: room)
    with limit_concurrency():
        with release_connection():
            connections["default"].ensure_connection()
        assert room.held == [False]


@pytest.fixture
def small_pool() -> Iterator[None]:
    """A pool of one connection."""
    connection: Any = connections["default"]
    values = connection.settings_dict
    kept = (values["CONN_MAX_AGE"], values["OPTIONS"])
    connection.close()
    values["CONN_MAX_AGE"] = 0
    values["OPTIONS"] = {**kept[1], "pool": {"min_size": 0, "max_size": 1, "timeout": 60}}
    connection.pool.open()
    yield
    connection.close()
    connection.close_pool()
    values["CONN_MAX_AGE"], values["OPTIONS"] = kept


def test_readiness_and_metrics_are_told_while_the_pool_is_taken(small_pool: None) -> None:
    connection: Any = connections["default"]
    with connection.pool.connection():
        connection.pool.timeout = 0.2
        with pytest.raises(OperationalError):
            Agent.objects.exists()
        ready = Client().get("/readyz")
        metrics = Client().get("/metrics").content.decode()
    connection.pool.timeout = 60  # opening one may take longer
    assert ready.json()["checks"]["database"]["ok"]
    assert ready.status_code == 200
    assert "\nmemoryhub_database_up 1.0\n" in metrics
    assert not Agent.objects.exists(), "the thread has its pool back"
