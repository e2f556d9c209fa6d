"""Requests of one key run a few at a time, and never delay another key's."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.conf import settings

from memoryhub.api.middleware import READ_SECONDS_PER_BYTE
from memoryhub.auth.principals import key_digest
from memoryhub.db.pool import WAITING_PER_TURN, turns
from memoryhub.db.turns import Activity
from memoryhub.runtime.processes import wait_until
from tests.integration.clients.conftest import new_key, web
from tests.serving import Web

__all__ = ["web"]

pytestmark = pytest.mark.django_db(transaction=True)


def call(web: Web, key: str, *, word: str = "Bearer", path: str = "/api/v1/agents") -> tuple[int, str | None, str]:
    """Return status, `Retry-After` and body."""
    request = urllib.request.Request(web.url + path, headers={"Authorization": f"{word} {key}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, None, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers["Retry-After"], refused.read().decode()


def queued(key: str) -> int:
    return len(turns()._queues.get(key_digest(key), ()))


@contextmanager
def all_turns_of(key: str) -> Iterator[None]:
    """Hold as many turns as a key's requests may."""
    caller = key_digest(key)
    turns().activity = Activity()  # another's share would make this thread wait for itself
    taken = [turns().take(caller) for _ in range(turns().each)]
    try:
        yield
    finally:
        for since in taken:
            turns().give_back(caller, since)


def test_a_key_whose_requests_wait_delays_no_other_and_is_answered_later(web: Web) -> None:
    busy, other = new_key(name="busy"), new_key(name="other")
    answers = list[int]()
    with all_turns_of(busy):
        waiting = [
            threading.Thread(target=lambda word=word: answers.append(call(web, busy, word=word)[0]))
            for word in ("Bearer", "bearer", "BEARER ")  # whichever way the key is sent
        ]
        for thread in waiting:
            thread.start()
        assert wait_until(lambda: queued(busy) == len(waiting), timeout_seconds=30)
        assert call(web, other)[0] == 200
        assert call(web, busy, path="/readyz")[0] in (200, 503)
        assert answers == []
    for thread in waiting:
        thread.join(30)
    assert answers == [200] * len(waiting)
    assert not turns()._running, "an answered request keeps no turn"


def test_what_exceeds_the_queue_is_told_when_to_come_back_and_why(web: Web) -> None:
    busy = new_key(name="busy")
    allowed = turns().waiting
    assert allowed == WAITING_PER_TURN * settings.ENVIRONMENT.requests_per_key
    answers = list[int]()
    with all_turns_of(busy):
        waiting = [threading.Thread(target=lambda: answers.append(call(web, busy)[0])) for _ in range(allowed)]
        for thread in waiting:
            thread.start()
        assert wait_until(lambda: queued(busy) == allowed, timeout_seconds=60)
        status, retry_after, body = call(web, busy)
        assert call(web, new_key(name="other"))[0] == 200
    for thread in waiting:
        thread.join(60)
    assert (status, retry_after) == (429, "2")
    problem = json.loads(body)
    assert problem["code"] == "too_many_requests"
    assert "MEMORYHUB_REQUESTS_PER_KEY" in problem["detail"]
    assert answers == [200] * allowed


def test_requests_without_an_accepted_key_do_not_make_a_caller_active(web: Web) -> None:
    turns().activity = activity = Activity()
    for key in ("unknown", "mh_another"):
        assert call(web, key)[0] == 401
    assert call(web, "", path="/admin/login/")[0] == 200
    assert activity.count(time.monotonic()) == 0
    assert call(web, new_key(name="known"))[0] == 200
    assert activity.count(time.monotonic()) == 1


def test_a_body_of_unknown_length_is_charged_by_its_size(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns(), "_clock", lambda: 10.0)  # no debt is paid meanwhile
    key = new_key(name="chunked")
    pieces = (b"x" * 100_000 for _ in range(50))
    request = urllib.request.Request(
        f"{web.url}/api/v1/memories/bulk", pieces, {"Authorization": f"Bearer {key}", "Content-Type": "text/plain"}
    )
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(request, timeout=60)
    debt, _at = turns()._debts[key_digest(key)]
    assert debt >= READ_SECONDS_PER_BYTE * 5_000_000
