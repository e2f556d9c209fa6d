"""Two hosts on one database: they start at once, and what changes on one is true on the other (SPEC O6)."""

import base64
import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from memoryhub.runtime.postgres import EmbeddedCluster
from tests.slow.chaos.hub import CHECKOUT, Hub, eventually, folder

KEYS_SECONDS = 5
WHO = {"agent_id": "kana", "user_id": "hiroki"}
PASSWORD = re.compile(r"Login +admin / (\S+)")


def call(hub: Hub, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
    """Return status, answer (JSON where it is some) and headers."""
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=60)
    data = body if isinstance(body, str) else None if body is None else json.dumps(body)
    sent = {"Authorization": f"Bearer {hub.key}"} | ({"Content-Type": "application/json"} if data else {}) | headers
    try:
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        text = answer.read().decode()
        return answer.status, json.loads(text) if text[:1] in ("{", "[") else text, answer.headers
    finally:
        connection.close()


def api(hub: Hub, method: str, path: str, body: Any = None, **headers: str) -> Any:
    status, answer, _headers = call(hub, method, f"/api/v1/{path}", body, **headers)
    assert status < 300, (status, answer)
    return answer


def manage(hub: Hub, *words: str, **environment: str) -> str:
    ran = subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=CHECKOUT, env=hub.environment | environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return ran.stdout + ran.stderr


@pytest.fixture
def hosts() -> Iterator[tuple[Hub, Hub]]:
    """Start two hosts at the same moment on an empty database; only the second has workers."""
    with folder() as path:
        database = EmbeddedCluster(path / "database", fsync=False, createdb=True)
        first, second = (Hub(path / name, database=database) for name in ("first", "second"))
        for hub in (first, second):
            hub.environment |= {"SECRET_KEY": "of both hosts" * 5, "MEMORYHUB_WEB_PROCESSES": "2"}
        first.environment["MEMORYHUB_DRAIN_SECONDS"] = "4"
        starts = [
            threading.Thread(target=hub.start, args=options)
            for hub, options in ((first, ("--only", "web")), (second, ()))
        ]
        try:
            for start in starts:
                start.start()
            for start in starts:
                start.join()
            first.key = second.key = first.key or second.key
            yield first, second
        finally:
            for hub in (first, second):
                hub.destroy()


def log_in(hub: Hub, password: str, cookie: str = "") -> tuple[int, str]:
    """Return the status of the form's answer, and the session's cookie."""
    _status, page, headers = call(hub, "GET", "/admin/login/")
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    cookies = "; ".join(each.partition(";")[0] for each in headers.get_all("Set-Cookie") or [])
    assert token
    form = {"csrfmiddlewaretoken": token[1], "username": "admin", "password": password, "next": "/admin/"}
    status, _page, headers = call(
        hub, "POST", "/admin/login/", urlencode(form),
        **{"Content-Type": "application/x-www-form-urlencoded", "Cookie": cookies},
    )  # fmt: skip
    found = [each.partition(";")[0] for each in headers.get_all("Set-Cookie") or [] if each.startswith("sessionid=")]
    return status, found[0] if found else ""


@pytest.mark.slow
@pytest.mark.long
def test_who_leaves_on_one_host_has_no_access_on_the_other(hosts: tuple[Hub, Hub]) -> None:
    first, second = hosts
    [password] = PASSWORD.findall(first.said() + second.said())
    service = second.key
    own = manage(first, "keys", "issue", "laptop", "--person", "admin", "--agent", "kana")
    [own_key] = re.findall(r"mh_[0-9a-f]{10}_[\w-]{40,}", own)
    status, cookie = log_in(second, password)
    assert status == 302
    second.key = own_key
    api(second, "GET", "agents/kana")
    assert call(second, "GET", "/admin/", Cookie=cookie)[0] == 200
    assert "1 sessions, 1 personal keys" in manage(first, "deactivate", "admin", "--reason", "left")
    ended_at = time.monotonic()
    assert call(second, "GET", "/api/v1/agents/kana")[0] == 401
    assert call(second, "GET", "/admin/", Cookie=cookie)[0] == 302
    assert time.monotonic() - ended_at < KEYS_SECONDS
    second.key = service
    api(second, "GET", "agents/kana")


@pytest.mark.slow
@pytest.mark.long
def test_what_changes_on_one_host_is_true_on_the_other(hosts: tuple[Hub, Hub], tmp_path: Path) -> None:
    first, second = hosts
    said = first.said() + second.said()
    passwords = PASSWORD.findall(said)
    assert len(passwords) == 1, "one login, although both found the database empty"
    assert first.rows("SELECT count(*) FROM memoryhub_apikey") == [(1,)]
    assert "differs on" not in said + manage(first, "doctor")
    assert "SECRET_KEY differs on" in manage(first, "doctor", SECRET_KEY="another" * 10)
    assert first.ready()["checks"]["workers"] == second.ready()["checks"]["workers"]

    memory = api(first, "POST", "memories", {**WHO, "content": "Hiroki plays the cello."})
    assert api(second, "GET", f"memories/{memory['id']}")["content"] == memory["content"]
    api(second, "PATCH", "agents/kana", {"policy": {"recall_limit": 7}})
    assert api(first, "GET", "agents/kana")["policy"]["recall_limit"] == 7
    once = {"Idempotency-Key": "one and the same"}
    again = [api(hub, "POST", "memories", {**WHO, "content": "Hiroki likes tea."}, **once)["id"] for hub in hosts]
    assert again[0] == again[1]
    session = api(first, "POST", "sessions", WHO)["id"]
    api(first, "POST", f"sessions/{session}/messages", {"role": "user", "content": "My cello is called Berta."})
    assert [each["seq"] for each in api(second, "GET", f"sessions/{session}/messages")["results"]] == [1]

    uploads_are_read_by_the_other_host(first, second)
    logins_hold_and_end_on_both(first, second, passwords[0])
    keys_end_on_both(first, second)
    gone = api(first, "DELETE", "actors?" + urlencode(WHO))
    assert gone["erased"] and call(second, "GET", f"/api/v1/memories/{memory['id']}")[0] == 404
    a_host_that_stops_serves_to_its_end(first)


def uploads_are_read_by_the_other_host(first: Hub, second: Hub) -> None:
    row = api(first, "POST", "imports", {**WHO, "file_name": "mem0.json"})
    content = base64.b64encode(json.dumps([{"memory": "Hiroki lives in Kobe."}]).encode()).decode()
    api(first, "POST", f"imports/{row['id']}/chunks", {"offset": 0, "content": content})
    api(first, "POST", f"imports/{row['id']}/orders", {"verb": "run"})
    imported = eventually(lambda: api(second, "GET", f"imports/{row['id']}")["state"] == "imported", 60)
    assert imported is not None, api(second, "GET", f"imports/{row['id']}")


def logins_hold_and_end_on_both(first: Hub, second: Hub, password: str) -> None:
    status, cookie = log_in(first, password)
    assert (status, call(second, "GET", "/admin/", Cookie=cookie)[0]) == (302, 200)
    for _attempt in range(5):
        log_in(first, "a wrong password")
    assert log_in(second, password)[1] == "", "the account is locked on every host"


def keys_end_on_both(first: Hub, second: Hub) -> None:
    made = re.search(
        r"mh_[0-9a-f]{10}_[\w-]{40,}",
        said := manage(first, "keys", "issue", "short-lived", "--scope", "read", "--agent", "kana"),
    )
    assert made, said
    bearer = {"Authorization": f"Bearer {made[0]}"}
    assert call(second, "GET", "/api/v1/agents", **bearer)[0] == 200
    said = manage(first, "keys", "revoke", made[0].split("_")[1], "--reason", "a test")
    ended = eventually(lambda: call(second, "GET", "/api/v1/agents", **bearer)[0] == 401, KEYS_SECONDS)
    assert ended is not None, said


def a_host_that_stops_serves_to_its_end(hub: Hub) -> None:
    """Readiness fails first; no call that comes until then is reset."""
    assert hub.process is not None
    answers: list[int] = []
    hub.process.send_signal(signal.SIGTERM)
    assert eventually(lambda: call(hub, "GET", "/readyz")[0] == 503, 3) is not None
    until = time.monotonic() + 2
    while time.monotonic() < until:
        answers.append(call(hub, "GET", "/api/v1/agents")[0])
    assert answers and set(answers) == {200}
    assert hub.process.wait(60) == 0
