"""A whole installation that talks to a model on loopback, and a client that reads its answers, failed ones too."""

import http.client
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol
from uuid import uuid4

from tests.slow.chaos.hub import Hub, eventually, folder

SHORT_WAITS = "tests.slow.chaos.talking_settings"
OURS = "memoryhub.settings"
SUMMARIZE_SECONDS = 10
"""What SHORT_WAITS gives a summary, so that the job's own deadline is what ends it."""


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
def talking(model: Model, *serve: str, workers: int = 2, settings: str = OURS, **environment: str) -> Iterator[Hub]:
    """Run an installation that asks this model, and leave nothing of it behind."""
    with folder() as path:
        hub = Hub(path, workers=workers)
        hub.environment |= {
            "MEMORYHUB_LLM_PROVIDER": "anthropic",
            "MEMORYHUB_LLM_BASE_URL": model.url,
            "MEMORYHUB_LLM_API_KEY": model.key,
            "MEMORYHUB_LLM_PARALLEL": "10",  # a server here answers several at once
            "DJANGO_SETTINGS_MODULE": settings,
            **environment,
        }
        try:
            hub.start(*serve)
            yield hub
        finally:
            hub.destroy()


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

    @contextmanager
    def _asked(self, method: str, path: str, body: Any) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.hub.port, timeout=self.timeout)
        headers = {"Authorization": f"Bearer {self.hub.key}", "Content-Type": "application/json"}
        try:
            connection.request(method, f"/api/v1/{path}", None if body is None else json.dumps(body), headers)
            yield connection.getresponse()
        finally:
            connection.close()


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
