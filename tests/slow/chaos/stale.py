"""Two web servers, a replica that lags, and reads on one host of what was just written on the other."""

import json
import subprocess
import sys
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from uuid import uuid4

from prometheus_client.parser import text_string_to_metric_families

from tests.slow.chaos.failover import get
from tests.slow.chaos.hub import CHECKOUT, Hub
from tests.slow.chaos.standby import Pair

CLIENTS: Final = 4
SESSION: Final = 100
"""Turns of a session, all of whose messages are read after each."""


def hosts(servers: Pair, **settings: str) -> list[Hub]:
    """Return two hosts with the pair's standby as their replica."""
    hubs = [Hub(servers.data_dir.parent / f"host-{uuid4().hex[:6]}", database=servers) for _ in range(2)]
    for hub in hubs:
        hub.environment |= {
            "DATABASE_URL": servers.primary_url(),
            "MEMORYHUB_REPLICA_URLS": servers.standby.url(),
            "MEMORYHUB_WEB_PROCESSES": "2",
            "SECRET_KEY": "the same on both hosts, for a test",
            **settings,
        }
    return hubs


def stop(hubs: list[Hub]) -> None:
    """End hosts, and leave their database."""
    for hub in hubs:
        if hub.process is not None and hub.process.poll() is None:
            hub.process.terminate()
            hub.process.wait(timeout=60)


def replica_reads(hub: Hub) -> dict[str, int]:
    """Return how many requests of a host read from its replica, or why they did not."""
    with urllib.request.urlopen(f"http://127.0.0.1:{hub.port}/metrics", timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    counts = Counter[str]()
    for sample in (sample for family in families for sample in family.samples):
        if sample.name == "memoryhub_replica_reads_total":
            counts[sample.labels["outcome"]] += int(sample.value)
    return dict(counts)


def stale_reads(servers: Pair, *, delay: float, writes: int) -> dict[str, Any]:
    """Write on one host, read on the other at once; return how many reads missed the write."""
    servers.standby.delay(delay)
    hubs = hosts(servers)
    try:
        for hub in hubs:
            hub.start("--only", "web")
        hubs[0].key = hubs[1].key = issue_key(hubs[0])
        with ThreadPoolExecutor(CLIENTS) as pool:
            missed = list(pool.map(lambda number: _client(hubs, number, writes // CLIENTS), range(CLIENTS)))
        if any(hub.ended for hub in hubs):
            raise RuntimeError("\n".join(hub.said()[-2000:] for hub in hubs))
        return {"writes": writes // CLIENTS * CLIENTS, "stale": sum(missed), **replica_reads(hubs[1])}
    finally:
        stop(hubs)


def issue_key(hub: Hub) -> str:
    command = [
        sys.executable,
        "manage.py",
        "keys",
        "issue",
        f"key-{uuid4().hex[:6]}",
        "--scope",
        "read",
        "--scope",
        "write",
    ]
    done = subprocess.run(command, cwd=CHECKOUT, env=hub.environment, capture_output=True, text=True, check=True)
    return next(word for word in done.stdout.split() if word.startswith("mh_"))


def _client(hubs: list[Hub], number: int, count: int) -> int:
    """Write and read by turns; return how often a read did not see the write before it."""
    writer, reader = hubs
    stale, user, session = 0, {"agent_id": f"agent-{number}", "user_id": f"user-{uuid4().hex[:6]}"}, ""
    for turn in range(count):
        if turn % SESSION == 0:
            session = writer.post("sessions", user)[1]["id"]
        if turn % 2:
            text = f"{uuid4().hex} is the name of place {turn}"
            expected = writer.post("memories", {**user, "content": text})[1]["id"]
            answer = reader.post("memories/search", {**user, "query": text, "limit": 5})[1]
        else:
            expected = uuid4().hex
            writer.post(f"sessions/{session}/messages", {"role": "user", "content": expected})
            answer = get(reader, f"sessions/{session}/messages?limit={SESSION}") or {}
        stale += expected not in json.dumps(answer)
    return stale
