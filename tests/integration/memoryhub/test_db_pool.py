"""Whoever waits for a network, or for room to go on, keeps no connection from others (ADR 7)."""

from threading import BoundedSemaphore

import pytest
from django.db import connections

from memoryhub import db_pool
from memoryhub.db_pool import limit_concurrency, release_connection

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
    monkeypatch.setattr(db_pool, "_room", lambda: room)
    with limit_concurrency():
        with release_connection():
            connections["default"].ensure_connection()
        assert room.held == [False]
