"""Reads from a replica: every route that reads, none stale, and no error where the replica fails (SPEC O9)."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryhub.runtime.processes import kill_all, pids_in, wait_until
from tests.slow.chaos.failover import get
from tests.slow.chaos.hub import Hub, folder
from tests.slow.chaos.stale import hosts, issue_key, replica_reads, stale_reads, stop
from tests.slow.chaos.standby import Pair

ROOT = Path(__file__).resolve().parents[2]
IN_A_TRANSACTION = {"changes", "summaries-digest", "anthropic-count-tokens"}
"""Routes that read in a transaction, which is on the primary as a whole."""

NOTES = re.compile("FOR KEY SHARE|set_config")
"""Parts of statements that belong to a note, or to a page's own transaction."""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")]


@pytest.fixture
def servers() -> Iterator[Pair]:
    with folder() as path:
        servers = Pair(path, synchronous=False)
        servers.start()
        try:
            yield servers
        finally:
            servers.destroy()


def test_routes_that_read_do_so_on_the_replica(servers: Pair) -> None:
    addresses = {"DATABASE_URL": servers.primary_url(), "MEMORYHUB_REPLICA_URLS": servers.standby.url()}
    done = subprocess.run(
        [sys.executable, "-m", "tests.slow.chaos.reading_routes"],
        cwd=ROOT,
        env={**os.environ, **addresses},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    calls = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(calls) > 50
    assert {each["route"] for each in calls if each["status"] != 200} == set()
    elsewhere = {each["route"] for each in calls if each["replica"] < 2}
    assert elsewhere <= IN_A_TRANSACTION, "what reads on the primary"
    for each in calls:
        if each["route"] not in IN_A_TRANSACTION:
            reads = [text for text in each["primary"] if text.startswith("SELECT") and not NOTES.search(text)]
            assert len(reads) <= 1, (each["route"], reads, "the key with its position, or the position")


@pytest.mark.long
@pytest.mark.parametrize("delay", [0.0, 0.1, 5.0])
def test_a_read_on_another_host_sees_what_was_just_written(servers: Pair, delay: float) -> None:
    found = stale_reads(servers, delay=delay, writes=80)
    assert (found["writes"], found["stale"]) == (80, 0)
    assert found.get("behind", 0) + found.get("used", 0) >= 80
    assert delay < 5 or not found.get("used")


@pytest.mark.long
def test_a_replica_that_fails_or_is_promoted_costs_no_error(servers: Pair) -> None:
    hub = hosts(servers)[0]
    over, answers = threading.Event(), Counter[bool]()
    try:
        hub.start("--only", "web")
        hub.key = issue_key(hub)
        user = {"agent_id": "kana", "user_id": "hiroki"}
        hub.post("memories", {**user, "content": "Lives in Kyoto."})
        reader = threading.Thread(target=_read, args=(hub, over, answers))
        reader.start()
        assert wait_until(lambda: replica_reads(hub).get("used", 0) > 20, timeout_seconds=30)
        kill_all(pids_in(servers.standby.data), signal.SIGKILL)
        failed = replica_reads(hub).get("failed", 0)
        assert wait_until(lambda: replica_reads(hub).get("down", 0) > 20, timeout_seconds=30)
        servers.standby.server.start(servers.standby.info.port)  # type: ignore[union-attr]
        before = replica_reads(hub)["used"]
        assert wait_until(lambda: replica_reads(hub)["used"] > before + 20, timeout_seconds=60)
        servers.standby.promote()
        assert wait_until(lambda: replica_reads(hub)["failed"] > failed + 1, timeout_seconds=30)
        text = "Moved to Nara in May."
        hub.post("memories", {**user, "content": text})
        assert text in json.dumps(get(hub, "memories?agent_id=kana&user_id=hiroki"))
        over.set()
        reader.join()
        assert set(answers) == {True}
    finally:
        over.set()
        stop([hub])


def test_a_receipt_is_found_before_the_replica_has_it(servers: Pair) -> None:
    hub = hosts(servers)[0]
    try:
        hub.start("--only", "web")
        hub.key = issue_key(hub)
        user = {"agent_id": "kana", "user_id": "hiroki"}
        hub.post("memories", {**user, "content": "Lives in Kyoto."})
        assert wait_until(lambda: _is_read_elsewhere(hub), timeout_seconds=30)
        servers.standby.pause()
        before = replica_reads(hub)["used"]
        receipt = hub.post("context", {**user, "message": "Where do I live?"})[1]["receipt_id"]
        assert replica_reads(hub)["used"] == before + 1, "the context was read from the replica"
        assert get(hub, f"receipts/{receipt}") is not None
    finally:
        servers.standby.resume()
        stop([hub])


def _is_read_elsewhere(hub: Hub) -> bool:
    before = replica_reads(hub).get("used", 0)
    get(hub, "memories?agent_id=kana&user_id=hiroki")
    return replica_reads(hub).get("used", 0) > before


def _read(hub: Hub, over: threading.Event, answers: Counter[bool]) -> None:
    while not over.wait(0.02):
        answers[get(hub, "memories?agent_id=kana&user_id=hiroki") is not None] += 1
