#!/usr/bin/env python
"""See what one key's worst requests and orders cost another key.

.venv/bin/python bench/shares.py                        both, about three minutes
.venv/bin/python bench/shares.py requests --seconds 60
.venv/bin/python bench/shares.py orders --sessions 300

`requests`: another key's searches alone, and while one key does thirty of the worst things at once; of web server and
PostgreSQL on the machine's cores, which the attackers share. `orders`: another tenant's summary, while one key has
ordered 1,500 of a model that takes a second for each.
"""

import json
import multiprocessing
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import harness
from bench.harness import Client

VICTIM: Final = {"agent_id": "victim", "user_id": "mika"}
ATTACKER: Final = {"agent_id": "attacker", "user_id": "mallory"}
FORK: Final = multiprocessing.get_context("fork")
EACH: Final = 5
"""Threads of each kind of request; there are six kinds."""

PAUSE_SECONDS: Final = 0.1
MODEL_SECONDS: Final = 1.0
WAIT_SECONDS: Final = 120.0


KEYS: Final = dict[str, str]()
"""Keys of one agent each."""


def keys() -> None:
    from memoryhub.tenancy.models import Agent

    for agent_id in ("victim", "attacker"):
        Agent.objects.create(agent_id=agent_id)
        KEYS[agent_id] = harness.everything_key(agent_id)


class Attack:
    """One key's requests that cost much or never end."""

    def __init__(self, port: int, key: str) -> None:
        self.port, self.key, self.over = port, key, FORK.Event()
        self.statuses, self.numbers = Counter[str](), count()
        messages = [{"role": "user", "content": "large words " * 8_000}] * 95
        self.large = json.dumps({"messages": messages, "x": 1}).encode()
        client = Client(port, key)
        self.session = client.answer("POST", "sessions", ATTACKER)["id"]
        for author, content in (("one", "\r" * 90_000 + "x"), ("two", "Hello there")):
            message = {"role": "user", "author": author, "content": content}
            client.answer("POST", f"sessions/{self.session}/messages", {"messages": [message]})
        for number in range(300):
            client.answer("POST", "memories", {**ATTACKER, "content": f"{number} {'heavy words ' * 740}"})

    def breaks(self, client: Client) -> str:
        body = {**ATTACKER, "session_id": self.session, "message": "Hello?", "author": "one"}
        return str(client.ask("POST", "/api/v1/context", body)[0])

    def repeats(self, client: Client) -> str:
        key = {"Idempotency-Key": f"{next(self.numbers) // EACH}"}
        return str(client.ask("POST", "/api/v1/memories", {**ATTACKER, "content": "The same again"}, **key)[0])

    def lists(self, client: Client) -> str:
        return str(client.ask("GET", "/api/v1/memories?agent_id=attacker&user_id=mallory&limit=500")[0])

    def bodies(self, client: Client) -> str:
        return str(client.ask("POST", f"/api/v1/sessions/{self.session}/messages", self.large)[0])

    def streams(self, client: Client) -> str:
        address = "/api/v1/actors/export?agent_id=attacker&user_id=mallory"
        return self._held(f"GET {address} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.key}\r\n\r\n")

    def heads(self, client: Client) -> str:
        return self._held("GET /api/v1/agents HTTP/1.1\r\nHost: localhost\r\nX: ")

    def _held(self, begin: str) -> str:
        """Send something, read nothing, and keep the connection for some seconds."""
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            held.connect(("127.0.0.1", self.port))
            held.sendall(begin.encode())
            self.over.wait(5)
        return "held"

    def kinds(self) -> list[Callable[[Client], str]]:
        return [self.breaks, self.repeats, self.lists, self.bodies, self.streams, self.heads]

    def run(self, answers: Any) -> None:
        """Send all kinds at once until it is over; put what was answered."""
        threads = [threading.Thread(target=self._work, args=(act,)) for act in self.kinds() for _ in range(EACH)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        answers.put(dict(sorted(self.statuses.items())))

    def _work(self, act: Callable[[Client], str]) -> None:
        client = Client(self.port, self.key)
        while not self.over.is_set():
            self.statuses[f"{act.__name__} {act(client)}"] += 1


def searches(client: Client, seconds: float) -> dict[str, Any]:
    """Search for some time, with pauses; return percentiles and statuses."""
    took, statuses, ends_at = list[float](), Counter[str](), time.monotonic() + seconds
    while time.monotonic() < ends_at:
        body = {**VICTIM, "query": f"green tea number {len(took)}"}
        status, milliseconds = client.ask("POST", "/api/v1/memories/search", body)
        took.append(milliseconds)
        statuses[str(status)] += 1
        time.sleep(PAUSE_SECONDS)
    return {"searches": len(took), **harness.percentiles(took), "statuses": dict(statuses)}


def requests(seconds: float) -> dict[str, Any]:
    """Return another key's searches alone and under attack, and what the attacker was answered."""
    with harness.web_server() as port:
        victim = Client(port, KEYS["victim"])
        for number in range(300):
            victim.answer("POST", "memories", {**VICTIM, "content": f"Mika likes green tea number {number}."})
        attack = Attack(port, KEYS["attacker"])
        searches(victim, 3)  # warm
        alone = searches(victim, seconds)
        # In a process of its own: its threads would hold up the one that measures.
        answers = FORK.SimpleQueue()
        attackers = FORK.Process(target=attack.run, args=(answers,))
        attackers.start()
        time.sleep(2)
        attacked = searches(victim, seconds)
        attack.over.set()
        answered = answers.get()
        attackers.join()
    ratio = round(attacked["p95"] / alone["p95"], 2)
    return {"alone": alone, "attacked": attacked, "p95_ratio": ratio, "attacker": answered}


def ordered(agent_id: str, user_id: str, sessions: int) -> list[Any]:
    """Order the summaries of so many sessions, as a key does; return the jobs."""
    from conversations.actions.messages import add_messages
    from conversations.actions.sessions import open_session
    from conversations.domain.messages import NewMessage, Role
    from memoryhub.auth.access import ensure_actor
    from memoryhub.auth.models import ApiKey
    from memoryhub.tenancy.models import Agent
    from summaries.actions.triggers import enqueue_summary

    by = ApiKey.objects.get(agent_ids=[agent_id]).principal()
    actor = ensure_actor(Agent.objects.get_or_create(agent_id=agent_id)[0], user_id)
    jobs = []
    for _ in range(sessions):
        now = datetime.now(UTC)
        session, _is_new = open_session(actor=actor, session_id=uuid4(), channel="", by=by, now=now)
        batch = [NewMessage(role=Role.USER, content="We decided to meet on Friday.")]
        add_messages(session=session, batch=batch, channel="", by=by, now=now)
        jobs.append(enqueue_summary(session=session, by=by, now=now))
    return jobs


def orders(sessions: int) -> dict[str, Any]:
    """Return the seconds until another tenant's summary is written, and how many of the attacker's were before it."""
    from django.db.models import F

    from memoryhub.jobs.models import Job
    from memoryhub.runtime.processes import wait_until
    from tests.fakes.llm_server import LLMServer, Reply

    many = ordered("attacker", "mallory", sessions)
    with LLMServer() as model:
        model.answer(Reply("They meet on Friday.", delay_seconds=MODEL_SECONDS))
        os.environ |= {
            "MEMORYHUB_LLM_PROVIDER": "openai", "MEMORYHUB_LLM_MODEL": "slow", "MEMORYHUB_LLM_BASE_URL": model.base_url,
            "MEMORYHUB_LLM_API_KEY": "test-key",
        }  # fmt: skip
        with harness.program("worker"):
            done = Job.objects.filter(pk__in=many, state="done")
            if not wait_until(lambda: done.count() >= 4, timeout_seconds=WAIT_SECONDS):
                raise SystemExit("The workers wrote no summary.")
            [job_id] = ordered("victim", "mika", 1)
            job = Job.objects.filter(pk=job_id, state="done").annotate(took=F("finished_at") - F("created_at"))
            wait_until(job.exists, timeout_seconds=WAIT_SECONDS)
            row = job.first()
            before = (
                done.filter(finished_at__lt=row.finished_at, finished_at__gt=row.created_at).count() if row else None
            )
    return {
        "ordered": sessions,
        "model_seconds": MODEL_SECONDS,
        "seconds": round(row.took.total_seconds(), 2) if row else None,
        "attackers_meanwhile": before,
    }


PARTS: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "requests": lambda given: requests(given.seconds),
    "orders": lambda given: orders(given.sessions),
}


def main() -> None:
    parser = harness.parser_of(__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"default: {', '.join(PARTS)}")
    parser.add_argument("--seconds", type=harness.positive, default=30, help="of searches, alone and attacked")
    parser.add_argument("--sessions", type=harness.positive, default=1_500)
    given = parser.parse_args()
    if unknown := set(given.parts) - PARTS.keys():
        parser.error(f"{', '.join(sorted(unknown))}: no such part")
    with harness.installation():
        keys()
        figures = {name: PARTS[name](given) for name in given.parts or PARTS}
    harness.tell(figures, given)


if __name__ == "__main__":
    main()
