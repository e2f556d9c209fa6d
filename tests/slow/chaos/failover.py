"""A primary is lost under load and its standby takes over: what is lost, and how soon clients write again."""

import json
import threading
import time
import urllib.request
from typing import Any

from memoryhub.runtime.processes import wait_until
from tests.slow.chaos.drills import Outcome
from tests.slow.chaos.hub import Hub, Jobs, Writer, done, eventually, folder
from tests.slow.chaos.standby import Pair

AGENT = "followed"
AWAY_SECONDS = 3.0
"""Time in which clients and workers meet a database that is away, before the standby is promoted."""


class Follower(threading.Thread):
    """Writes memories, and reads the feed of changes at the same time, page by page."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(daemon=True)
        self.hub, self.over = hub, threading.Event()
        self.written: list[str] = []
        self.seen: list[str] = []
        self.cursor = ""

    def run(self) -> None:
        reading = threading.Thread(target=self._read, daemon=True)
        reading.start()
        number = 0
        while not self.over.wait(0.02):
            body = {"agent_id": AGENT, "user_id": "hiroki", "content": f"place {number} is number {number * 7919}"}
            status, answer = self.hub.post("memories", body)
            if status == 201:
                self.written.append(answer["id"])
            number += 1
        reading.join()

    def _read(self) -> None:
        while not self.over.is_set():
            self.read_page()
            time.sleep(0.02)

    def read_page(self) -> int:
        """Read a page of the feed; return how many changes it has."""
        path = f"changes?agent_id={AGENT}&user_id=hiroki&limit=50" + (f"&after={self.cursor}" if self.cursor else "")
        page = get(self.hub, path)
        if page is None:
            return 0
        self.seen += [change["memory_id"] for change in page["results"]]
        self.cursor = page["cursor"] or self.cursor
        return len(page["results"])

    def verify(self) -> list[str]:
        """Say what is lost, and what the feed did not have or had twice."""
        while self.read_page():
            pass
        stored = {str(pk) for (pk,) in self.hub.rows("SELECT id FROM strength_memory")}
        written, wrong = set(self.written), []
        if lost := written - stored:
            wrong.append(f"{len(lost)} of {len(written)} acknowledged memories are lost")
        if missed := written - set(self.seen):
            wrong.append(f"the feed misses {len(missed)} memories")
        if len(self.seen) != len(set(self.seen)):
            wrong.append("the feed has a memory twice")
        return wrong


def get(hub: Hub, path: str) -> dict[str, Any] | None:
    """Return an answer's body; None where there is none."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{hub.port}/api/v1/{path}", headers={"Authorization": f"Bearer {hub.key}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return dict(json.load(answer))
    except (OSError, ValueError):
        return None


def failover(clients: int) -> Outcome:
    """Kill the primary under so many clients, and promote its synchronous standby."""
    outcome = Outcome(f"the primary killed and its standby promoted under {clients} clients")
    with folder() as path:
        pair = Pair(path)
        hub = Hub(path / "hub", database=pair)
        writers = [Writer(hub, number, None) for number in range(clients)]
        follower = Follower(hub)
        try:
            hub.start()
            jobs = Jobs(hub)
            for thread in (*writers, follower):
                thread.start()
            ids = jobs.add("bench_effect", count=40, seconds=0.1)
            wait_until(lambda: all(writer.acknowledged > 5 for writer in writers), timeout_seconds=120)
            outcome.took(_take_over(pair, writers), "no write in time")
            time.sleep(AWAY_SECONDS)
            for each in (*writers, follower):
                each.over.set()
            for each in (*writers, follower):
                each.join()
            jobs.close()
            jobs = Jobs(hub)  # its connection was to the primary
            ids += jobs.add("bench_effect", count=4)
            outcome.check(done(jobs, ids, 120) is not None, f"jobs: {jobs.states(ids)}")
            outcome.check(jobs.effects(ids) == dict.fromkeys(ids, 1), "a job was doubled or lost")
            jobs.close()
            outcome.wrong += [words for writer in writers for words in writer.verify()] + follower.verify()
        finally:
            for each in (*writers, follower):
                each.over.set()
            hub.destroy()
    return outcome


def _take_over(pair: Pair, writers: list[Writer]) -> float | None:
    """Kill the primary and promote the standby; return the seconds from that order until a client wrote again."""
    pair.kill_primary()
    time.sleep(AWAY_SECONDS)
    before, began = sum(writer.acknowledged for writer in writers), time.monotonic()
    pair.standby.promote()
    is_back = eventually(lambda: sum(writer.acknowledged for writer in writers) > before, 60)
    return None if is_back is None else time.monotonic() - began
