"""A host with MEMORYHUB_READ_ONLY answers reads, writes nothing, and runs no workers (SPEC O7)."""

import json
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.slow.chaos.hub import Hub, folder

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")]
NAMES = {"agent_id": "kana", "user_id": "hiroki"}
STATISTICS = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"


def ask(hub: Hub, path: str, body: Any = None) -> tuple[int, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{hub.port}/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {hub.key}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def stop(hub: Hub) -> None:
    assert hub.process is not None
    hub.process.terminate()
    assert hub.process.wait(timeout=60) == 0


@pytest.mark.long
def test_a_read_only_host_reads_and_its_next_start_writes() -> None:
    with folder() as path:
        hub = Hub(path)
        hub.environment["DJANGO_SETTINGS_MODULE"] = "memoryhub.settings"
        try:
            hub.start()
            assert ask(hub, "api/v1/memories", {**NAMES, "content": "likes green tea"})[0] == 201
            stop(hub)

            hub.environment["MEMORYHUB_READ_ONLY"] = "1"
            hub.start("--only", "web")
            before = hub.rows(STATISTICS)
            status, found = ask(hub, "api/v1/memories/search", {**NAMES, "query": "tea"})
            assert status == 200 and found["results"][0]["memory"]["content"] == "likes green tea"
            status, refused = ask(hub, "api/v1/memories", {**NAMES, "content": "likes black tea"})
            assert (status, refused["code"]) == (503, "database_read_only")
            status, ready = ask(hub, "readyz")
            assert status == 200 and not ready["checks"]["writes"]["ok"] and not ready["checks"]["workers"]["ok"]
            assert hub.worker_processes() == (0, []) and hub.rows(STATISTICS) == before
            assert "MEMORYHUB_READ_ONLY" in hub.said() and "Traceback" not in hub.said()
            stop(hub)

            del hub.environment["MEMORYHUB_READ_ONLY"]
            hub.start()
            assert ask(hub, "api/v1/memories", {**NAMES, "content": "likes black tea"})[0] == 201
        finally:
            hub.destroy()
