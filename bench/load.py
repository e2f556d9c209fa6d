#!/usr/bin/env python
"""Load a server with many clients, and see that what it acknowledged is there, once.

.venv/bin/python bench/load.py                                       1, 4, 16 and 64 clients, a minute each
.venv/bin/python bench/load.py --clients 64 --seconds 300
.venv/bin/python bench/load.py --server . --server ../before         two checkouts by turns, in the same hour
.venv/bin/python bench/load.py --server ". MEMORYHUB_WEB_PROCESSES=1" --rounds 3

Each server is started as `make run` does, with data of its own: web server, workers, PostgreSQL. Clients ask as fast
as they are answered: 60 % contexts, 20 % searches, 20 % writes (three messages to a memory), of ten users with 300
messages and 50 memories each. Afterwards all that is stored is read over HTTP and compared with what was acknowledged.
"""

import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import harness
from bench.harness import Client, Tree

CLIENTS: Final = (1, 4, 16, 64)
USERS: Final = 10
MESSAGES: Final = 300
MEMORIES: Final = 50
SETTLED_SECONDS: Final = 60.0
START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 60.0
KINDS: Final = {"context": 60, "search": 20, "message": 15, "memory": 5}
SYLLABLES: Final = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
SPOKEN: Final = ["明日は雨が降ります。", "京都で抹茶を飲んだ。", "猫を二匹飼っている。", "会議は三時。"]
WORDS: Final = ["".join(random.Random(number).choices(SYLLABLES, k=3)) for number in range(2_000)]


def text_by(chance: random.Random, words: int = 15) -> str:
    """Return an invented text; every fifth has a Japanese sentence."""
    said = " ".join(WORDS[int(2_000 * chance.random() ** 3)] for _ in range(words))
    return said if chance.random() < 0.8 else f"{chance.choice(SPOKEN)} {said}"


def user(number: int) -> dict[str, str]:
    return {"agent_id": "bench", "user_id": f"user-{number % USERS}"}


class Loader(threading.Thread):
    """One client of a session of its own; a write is repeated with its key until it is acknowledged."""

    def __init__(self, port: int, key: str, number: int, ends_at: float) -> None:
        super().__init__()
        self.client, self.ends_at, self.random = Client(port, key), ends_at, random.Random(number)
        self.user, self.session = user(number), str(uuid.uuid4())
        self.statuses: Counter[str] = Counter()
        self.milliseconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.written: dict[str, list[str]] = {"message": [], "memory": []}

    def run(self) -> None:
        while self._ask("", "sessions", {**self.user, "session_id": self.session}) not in (200, 201):
            pass
        while time.monotonic() < self.ends_at:
            kind = self.random.choices([*KINDS], [*KINDS.values()])[0]
            said = text_by(self.random)
            if kind == "context":
                self._ask(kind, "context", {**self.user, "session_id": self.session, "message": said})
            elif kind == "search":
                self._ask(kind, "memories/search", {**self.user, "query": " ".join(said.split()[:5])})
            else:
                self._write(kind, said)

    def _write(self, kind: str, said: str) -> None:
        own = uuid.uuid4().hex
        message = {"role": "user", "content": said, "client_message_id": own}
        path, body = (
            (f"sessions/{self.session}/messages", {"messages": [message]})
            if kind == "message"
            else ("memories", {**self.user, "content": f"{said} {own}"})
        )
        while self._ask(kind, path, body, **{"Idempotency-Key": own}) not in (200, 201):
            if time.monotonic() > self.ends_at:
                return
        self.written[kind].append(own)

    def _ask(self, kind: str, path: str, body: Any, **headers: str) -> int:
        status, took = self.client.ask("POST", f"/api/v1/{path}", body, **headers)
        self.statuses[str(status)] += 1
        self.milliseconds.setdefault(kind, []).append(took)
        if status not in (200, 201):
            time.sleep(float(self.client.headers.get("Retry-After") or 1))
        return status


def load(port: int, key: str, clients: int, seconds: float, tree: Tree | None = None) -> dict[str, Any]:
    """Let clients ask for some time; return what they saw, what is lost or doubled, and what it took."""
    began, before = time.monotonic(), tree.cpu_seconds() if tree else {}
    own = time.process_time()
    threads = [Loader(port, key, number, began + seconds) for number in range(clients)]
    health, settled = [], None
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        health.append(Client(port).ask("GET", "/healthz")[1])
        if tree and settled is None and time.monotonic() - began >= min(SETTLED_SECONDS, seconds / 2):
            settled = tree.megabytes()
        time.sleep(0.5)
    spent = time.monotonic() - began
    statuses = sum((thread.statuses for thread in threads), Counter[str]())
    took = {kind: [each for thread in threads for each in thread.milliseconds[kind]] for kind in KINDS}
    figures: dict[str, Any] = {
        "clients": clients,
        "requests_per_second": round(statuses.total() / spent, 1),
        "statuses": dict(statuses),
        "share_of_503": round(statuses["503"] / statuses.total(), 4),
        "ms": harness.percentiles([*chain(*took.values())]),
        "ms_by_kind": {kind: harness.percentiles(each) for kind, each in took.items() if each},
        "health_ms": harness.percentiles(health),
    }
    if tree:
        before["clients"], after = own, {**tree.cpu_seconds(), "clients": time.process_time()}
        per_request = {name: 1000 * (after[name] - before[name]) / statuses.total() for name in after}
        figures["cpu_ms_per_request"] = {name: round(each, 1) for name, each in per_request.items()}
        figures["megabytes"] = {"after_a_minute": settled, "at_the_end": tree.megabytes()}
    return figures | _compared(Client(port, key), threads)


def _compared(client: Client, threads: Sequence[Loader]) -> dict[str, int]:
    """Return how many writes were acknowledged, and how many of these are not stored, or more than once."""
    stored: Counter[str] = Counter()
    for thread in threads:
        stored.update(each["client_message_id"] for each in client.rows(f"sessions/{thread.session}/messages?"))
    for number in range(min(USERS, len(threads))):
        of_user = "&".join(f"{name}={value}" for name, value in user(number).items())
        stored.update(each["content"].split()[-1] for each in client.rows(f"memories?{of_user}&"))
    acknowledged = [own for thread in threads for owns in thread.written.values() for own in owns]
    return {
        "acknowledged": len(acknowledged),
        "lost": sum(own not in stored for own in acknowledged),
        "doubled": sum(stored[own] > 1 for own in acknowledged),
    }


@contextmanager
def served(words: str) -> Iterator[tuple[int, str, Tree]]:
    """Start a checkout's server, with settings after its path; yield port, API key and processes."""
    path, *settings = shlex.split(words)
    port = harness.free_port()
    with harness.new_folder() as folder:
        own = Path(path, ".venv/bin/python").absolute()
        environment = {
            **os.environ,
            "MEMORYHUB_DATA_DIR": str(folder),
            "PORT": str(port),
            "DEMO": "0",
            "MEMORYHUB_THROTTLE_PER_MINUTE": "10000000",
            "MEMORYHUB_LOG_FORMAT": "plain",
            "LANG": "C",
            **dict(each.split("=", 1) for each in settings),
        }
        log, first_login = folder / "log", folder / "first-login.txt"
        with log.open("w") as out:
            process = subprocess.Popen(
                [own if own.exists() else sys.executable, "manage.py", "serve"],
                cwd=path,
                env=environment,
                stdout=out,
                stderr=out,
            )
        try:
            ends_at = time.monotonic() + START_SECONDS
            while Client(port).ask("GET", "/readyz")[0] != 200:
                if process.poll() is not None or time.monotonic() > ends_at:
                    raise SystemExit(f"{words} does not start:\n{log.read_text()}")
                time.sleep(0.5)
            key = re.findall(r"mh_[^\s']+", (first_login if first_login.exists() else log).read_text())[0]
            yield port, key, Tree(process.pid, folder)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=STOP_SECONDS)


def fill(client: Client) -> None:
    for number in range(USERS):
        chance = random.Random(1_000 + number)
        session = client.answer("POST", "sessions", user(number))["id"]
        for _ in range(MESSAGES // 100):
            batch = [{"role": "user", "content": text_by(chance, 25)} for _ in range(100)]
            client.answer("POST", f"sessions/{session}/messages", {"messages": batch})
        for _ in range(MEMORIES):
            client.answer("POST", "memories", {**user(number), "content": text_by(chance)})


def main() -> int:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--server", action="append", help="a checkout, and settings; more than one by turns")
    parser.add_argument("--clients", type=harness.positive, action="append", help="default: 1, 4, 16, 64")
    parser.add_argument("--seconds", type=harness.positive, default=60)
    parser.add_argument("--rounds", type=harness.positive, default=1)
    options = parser.parse_args()
    names: list[str] = options.server or ["."]
    figures: list[dict[str, Any]] = []
    with harness.signals_end_it(), ExitStack() as stack:
        servers = {name: stack.enter_context(served(name)) for name in names}
        for port, key, _ in servers.values():
            fill(Client(port, key))
        for clients in options.clients or CLIENTS:
            for _ in range(options.rounds):
                for name, (port, key, tree) in servers.items():
                    figures.append({"server": name, **load(port, key, clients, options.seconds, tree)})
    harness.tell(figures, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
