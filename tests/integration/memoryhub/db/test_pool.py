"""Whoever waits for a network, or for room to go on, keeps no connection from others (ADR 7)."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connections
from django.test import Client

from memoryhub.db import pool
from memoryhub.db.pool import process_lock, release_connection, turn
from memoryhub.db.turns import Turns
from memoryhub.tenancy.models import Agent

pytestmark = pytest.mark.django_db(transaction=True)


class Watched(Turns):
    """Turns that note who holds a connection while waiting for a place."""

    def __init__(self) -> None:
        super().__init__(places=1, each=1, waiting=1)
        self.held: list[bool] = []

    def take(self, caller: str, *, again: bool = False) -> float:
        self.held.append(connections["default"].connection is not None)
        return super().take(caller, again=again)


def test_whoever_waits_for_a_turn_holds_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    monkeypatch.setattr(pool, "turns", lambda: watched)
    connections["default"].close()
    with turn("kana"):
        connections["default"].ensure_connection()
        with release_connection():
            connections["default"].ensure_connection()
    assert watched.held == [False, False]


def test_repeats_that_wait_leave_the_turn_to_the_call_that_they_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    monkeypatch.setattr(pool, "turns", lambda: watched)
    entered, order = threading.Event(), list[str]()

    def repeat() -> None:
        with turn("kana"):
            entered.set()
            with process_lock("order", seconds=10, max_waiting=1) as is_acquired:
                order.append(f"repeat {is_acquired}")

    with process_lock("order", seconds=0, max_waiting=0):
        repeated = threading.Thread(target=repeat)
        repeated.start()
        assert entered.wait(10)
        with turn("kana"):  # the first call goes on, as after an answer of a model
            order.append("first")
    repeated.join(10)
    assert order == ["first", "repeat True"]


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
