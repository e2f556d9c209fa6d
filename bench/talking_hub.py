"""A whole installation that talks to a model on loopback, and a client that reads its answers, failed ones too."""

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from bench.drills import folder
from bench.hub import CHECKOUT, Hub, eventually

SHORT_WAITS = "bench.talking_settings"
OURS = "memoryhub.settings"
ALONE = "bench.alone_settings"
SUMMARIZE_SECONDS = 10
"""What SHORT_WAITS gives a summary, so that the job's own deadline is what ends it."""

NOTE_ATTEMPTS = """
CREATE TABLE bench_attempt (
    job uuid, actor uuid, kind text, attempt int, state text, at timestamptz DEFAULT clock_timestamp()
);
CREATE FUNCTION bench_note_attempt() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO bench_attempt (job, actor, kind, attempt, state)
    VALUES (NEW.id, NEW.actor_id, NEW.kind, NEW.attempts, NEW.state);
    RETURN NEW;
END $$;
CREATE TRIGGER bench_note_attempt AFTER UPDATE OF state ON memoryhub_job
FOR EACH ROW WHEN (NEW.state <> OLD.state OR NEW.attempts <> OLD.attempts) EXECUTE FUNCTION bench_note_attempt()
"""
"""Every attempt's beginning and end, noted by the database itself: jobs keep only the latest."""

ATTEMPTS = """
SELECT kind, EXTRACT(epoch FROM ended - at)::float8 FROM (
    SELECT kind, state, at, lead(at) OVER (PARTITION BY job ORDER BY at) AS ended FROM bench_attempt
) AS noted WHERE state = 'running' AND ended IS NOT NULL
"""

Given = TypeVar("Given")
Result = TypeVar("Result")


class Model(Protocol):
    """Where a model listens."""

    @property
    def url(self) -> str:
        """Its address."""
        ...

    @property
    def key(self) -> str:
        """The key that it takes."""
        ...


@contextmanager
def talking(
    model: Model, *serve: str, workers: int = 2, settings: str = OURS, **environment: str
) -> Iterator[Hub]:
    """Run an installation that asks this model, and leave nothing of it behind."""
    with folder() as path:
        hub = Hub(path, workers=workers)
        hub.environment |= {
            "MEMORYHUB_LLM_PROVIDER": "anthropic",
            "MEMORYHUB_LLM_BASE_URL": model.url,
            "MEMORYHUB_LLM_API_KEY": model.key,
            "DJANGO_SETTINGS_MODULE": settings,
            **environment,
        }
        try:
            hub.start(*serve)
            with hub.connection() as connection:
                connection.execute(NOTE_ATTEMPTS)
            yield hub
        finally:
            hub.destroy()


@dataclass(frozen=True)
class Event:
    """One event of a stream, and when it was read."""

    name: str
    data: dict[str, Any]
    at: float


class Client:
    """A client of one installation; every call has a connection of its own."""

    def __init__(self, hub: Hub, *, timeout: float = 90) -> None:
        self.hub = hub
        self.timeout = timeout

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Return status and body, whatever the status; status 0 where nobody answered."""
        try:
            with self._asked(method, path, body) as response:
                content = response.read()
                return response.status, json.loads(content) if content else {}
        except (OSError, ValueError, http.client.HTTPException):
            return 0, {}

    def post(self, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Send a POST."""
        return self.call("POST", path, {} if body is None else body)

    def get(self, path: str) -> dict[str, Any]:
        """Return what a GET answers."""
        return self.call("GET", path)[1]

    def stream(self, body: dict[str, Any]) -> list[Event]:
        """Ask for an answer as it is written, and return its events; what came before the first is one `problem`."""
        with self._asked("POST", "chat", {**body, "stream": True}) as response:
            if response.status != 200:
                return [Event("problem", json.loads(response.read()), time.monotonic())]
            return list(_events(response))

    @contextmanager
    def _asked(self, method: str, path: str, body: Any) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.hub.port, timeout=self.timeout)
        headers = {"Authorization": f"Bearer {self.hub.key}", "Content-Type": "application/json"}
        try:
            connection.request(method, f"/api/v1/{path}", None if body is None else json.dumps(body), headers)
            yield connection.getresponse()
        finally:
            connection.close()


def _events(response: http.client.HTTPResponse) -> Iterator[Event]:
    name = ""
    for raw in response:
        line = raw.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield Event(name, json.loads(line[6:]), time.monotonic())


def at_once(act: Callable[[Given], Result], given: Sequence[Given], *, threads: int) -> list[Result]:
    """Do the same with each, so many at a time."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(act, given))


def must(answer: tuple[int, dict[str, Any]], *statuses: int) -> dict[str, Any]:
    """Return a body; end the bench where the status is another than was to come."""
    status, body = answer
    if status not in statuses:
        raise SystemExit(f"The hub answered {status}: {json.dumps(body, ensure_ascii=False)[:500]}")
    return body


def open_session(client: Client, agent_id: str, user_id: str, **values: Any) -> str:
    """Open a session and return its id."""
    body = {"agent_id": agent_id, "user_id": user_id, "session_id": str(uuid4()), **values}
    return str(must(client.post("sessions", body), 201)["id"])


def say(client: Client, session: str, texts: Sequence[str]) -> None:
    """Write messages, the user and the assistant by turns."""
    roles = ("user", "assistant")
    batch = [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
    must(client.post(f"sessions/{session}/messages", {"messages": batch}), 201)


def is_drained(hub: Hub, agent_id: str) -> bool:
    """Say whether an agent's jobs are all over."""
    statement = """
        SELECT count(*) FROM memoryhub_job JOIN memoryhub_actor AS actor ON actor.id = actor_id
        WHERE actor.agent_id = %s AND state IN ('queued', 'running')
    """
    return bool(hub.rows(statement, [agent_id])[0][0] == 0)


def drain(hub: Hub, agent_id: str, seconds: float) -> float | None:
    """Wait until an agent's jobs are over; return after how long, None where they are not in time."""
    return eventually(lambda: is_drained(hub, agent_id), seconds)


def make_due(hub: Hub) -> None:
    """Let jobs that wait be due now, as if the time they wait for had passed."""
    with hub.connection() as connection:
        connection.execute("UPDATE memoryhub_job SET due_at = now() WHERE state = 'queued'")


def longest_attempts(hub: Hub) -> dict[str, float]:
    """Return how long the longest attempt of each kind of job took, in seconds."""
    longest: dict[str, float] = {}
    for kind, seconds in hub.rows(ATTEMPTS):
        longest[kind] = max(round(seconds, 2), longest.get(kind, 0.0))
    return longest


def deadlines(hub: Hub) -> dict[str, float]:
    """Return how long an attempt of each kind of job may take in this installation."""
    asked = (
        "import django, json; django.setup(); from memoryhub.jobs.registry import KINDS; "
        "print(json.dumps({name: kind.deadline_seconds for name, kind in KINDS.items()}))"
    )
    told = subprocess.run(
        [sys.executable, "-c", asked], cwd=CHECKOUT, env=hub.environment, capture_output=True, check=True
    )
    return {kind: float(seconds) for kind, seconds in json.loads(told.stdout).items()}
