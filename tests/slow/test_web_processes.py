"""Several processes serve the web: one limit for a key, one count of metrics, none outlives the others."""

import json
import os
import re
import signal
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from memoryhub.runtime.processes import wait_until
from tests.slow.test_supervisor import PATIENCE_SECONDS, Serve, Serving, linux_only, serve

__all__ = ["serve"]

PROCESSES = 2
LIMIT = 30
ASKED = 12
WHO = {"agent_id": "kana", "user_id": "hiroki"}


def forked(serving: Serving) -> set[int]:
    """Return the processes that serve: all but the one of which they are forked."""
    pids, found = serving.web_pids(), set()
    for pid in pids:
        with suppress(OSError):
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if parent in pids:
                found.add(pid)
    return found


def call(serving: Serving, path: str, key: str = "", body: object = None) -> tuple[int, str]:
    """Make a call over a connection of its own, so that any of the processes may answer it."""
    request = urllib.request.Request(f"http://127.0.0.1:{serving.port}{path}")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


@linux_only
def test_processes_of_the_web_server_share_limits_and_metrics_and_end_together(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORYHUB_WEB_PROCESSES", str(PROCESSES))
    monkeypatch.setenv("MEMORYHUB_THROTTLE_PER_MINUTE", str(LIMIT))
    serving = serve().wait_until_ready()
    key = re.search(r"mh_[0-9a-f]{10}_[\w-]{40,}", serving.said())
    assert key, serving.said()
    serving.wait_for(lambda: len(forked(serving)) == PROCESSES)

    def ask(number: int) -> int:
        return call(serving, "/api/v1/context", key[0], {**WHO, "message": f"Number {number}?"})[0]

    with ThreadPoolExecutor(ASKED) as clients:
        assert list(clients.map(ask, range(ASKED))) == [200] * ASKED
    assert f"context_token_count_count {float(ASKED)}" in call(serving, "/metrics")[1]

    def look(_: int) -> int:
        return call(serving, "/api/v1/agents", key[0])[0]

    with ThreadPoolExecutor(ASKED) as clients:  # at once: all of it within a minute
        statuses = sorted(clients.map(look, range(LIMIT)))
    assert statuses == [200] * (LIMIT - ASKED) + [429] * ASKED

    # The second is no signal that a web server asks for: it ends a process that has none of its parent's handlers.
    for number in (signal.SIGKILL, signal.SIGHUP):
        former = forked(serving)
        killed = min(former)
        os.kill(killed, number)
        serving.wait_for(lambda gone=killed: len(forked(serving) - {gone}) == PROCESSES)
        assert serving.answers()
        assert len(forked(serving) & former) == PROCESSES - 1
        assert f'"pid": {killed}' in serving.said() or f"pid={killed}" in serving.said()
    assert "memoryhub_web_replaced 2.0" in call(serving, "/metrics")[1]

    served = forked(serving)
    for parent in serving.web_pids() - served:
        os.kill(parent, signal.SIGKILL)
    gone = wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in served), timeout_seconds=PATIENCE_SECONDS
    )
    assert gone, "A process outlived the one that started it, and keeps the port."
    serving.wait_for(serving.answers)

    serving.process.terminate()
    assert serving.wait_for_exit() == 0, serving.said()
    assert serving.nothing_is_left()
    assert "Traceback" not in serving.said()
