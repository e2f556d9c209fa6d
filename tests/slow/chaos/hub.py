"""A whole installation to be broken: `manage.py serve`, its processes and database, signals to them, counted jobs."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg

from memoryhub.runtime.postgres import EmbeddedCluster
from memoryhub.runtime.postgres import server as postgres_server
from memoryhub.runtime.processes import wait_until
from tests.ports import free_port

CHECKOUT = Path(__file__).resolve().parents[3]
SETTINGS = "tests.slow.chaos.job_settings"


class Hub:
    """One installation in a folder of its own, on a port of its own."""

    def __init__(self, folder: Path, *, workers: int = 2, database: EmbeddedCluster | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.data_dir = folder / "data"
        self.port = free_port()
        self.database = database
        self.cluster = database or EmbeddedCluster(self.data_dir)
        self.environment = {
            **os.environ,
            "PORT": str(self.port),
            "HOST": "127.0.0.1",
            "MEMORYHUB_DATA_DIR": str(self.data_dir),
            "MEMORYHUB_WORKERS": str(workers),
            "MEMORYHUB_THROTTLE_PER_MINUTE": "1000000",
            "MEMORYHUB_LOG_FORMAT": "plain",
            "DEMO": "0",
            "DJANGO_SETTINGS_MODULE": SETTINGS,
            "PYTHONPATH": str(CHECKOUT),
        }
        self.environment.pop("DATABASE_URL", None)
        self.environment.pop("MEMORYHUB_PROCESS", None)
        if database is not None:
            self.environment["DATABASE_URL"] = database.start().url()
        self.process: subprocess.Popen[bytes] | None = None
        self.key = ""

    def start(self, *arguments: str) -> "Hub":
        """Start it, and return once its web server answers and its workers have shown themselves."""
        self.log = self.folder / f"output-{time.monotonic_ns()}"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "serve", *arguments],
                cwd=CHECKOUT,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # also where we run under nohup
            )
        if not wait_until(lambda: "memoryhub is ready" in self.said() or self.ended, timeout_seconds=180):
            raise RuntimeError(f"memoryhub did not start:\n{self.said()}")
        if self.ended:
            raise RuntimeError(f"memoryhub ended:\n{self.said()}")
        words = next((line.split() for line in self.said().splitlines() if "API key    mh_" in line), None)
        self.key = self.key or (words[2] if words else "")
        if "web" not in arguments:
            wait_until(self.is_whole, timeout_seconds=60)
        return self

    @property
    def workers(self) -> int:
        return int(self.environment["MEMORYHUB_WORKERS"])

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def said(self) -> str:
        first = Path(self.environment["MEMORYHUB_DATA_DIR"]) / "first-login.txt"
        return self.log.read_text(errors="replace") + (first.read_text() if first.exists() else "")

    def destroy(self) -> None:
        """End whatever is left of it, and its database."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        wait_until(lambda: not self.processes(), timeout_seconds=10)
        self.cluster.destroy()

    def processes(self) -> dict[int, str]:
        """Return every process of it but PostgreSQL's, with its command line, by the folder in its environment."""
        mark = f"MEMORYHUB_DATA_DIR={self.data_dir}".encode()
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return {pid: command for pid, command in found.items() if command}

    def worker_processes(self) -> tuple[int, list[int]]:
        """Return the process that all workers are forked from (0 where there is none), and the workers."""
        working = {pid for pid, command in self.processes().items() if " run_worker " in command}
        parent = next((pid for pid in working if parent_of(pid) not in working), 0)
        return parent, sorted(pid for pid in working if parent_of(pid) == parent)

    def is_whole(self) -> bool:
        return len(self.worker_processes()[1]) == self.workers

    def postmaster(self) -> int | None:
        return postgres_server.pid_of(self.cluster.data)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Connect to its database, beside Django."""
        connection = self.cluster.connection()
        assert connection is not None
        with psycopg.connect(connection.url(), autocommit=True, connect_timeout=5) as opened:
            yield opened

    def rows(self, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
        """Ask its database; wait for one that is away."""
        deadline = time.monotonic() + 60
        while True:
            try:
                with self.connection() as connection:
                    return connection.execute(statement, values).fetchall()
            except (psycopg.OperationalError, AssertionError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def post(
        self, path: str, body: dict[str, Any], *, timeout: float = 10, method: str = "POST"
    ) -> tuple[int, dict[str, Any]]:
        """Send a body and return status and body; status 0 where nobody answered."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1/{path}",
            method=method,
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, {}
        except (OSError, ValueError):
            return 0, {}

    def ready(self) -> dict[str, Any]:
        """Return what /readyz says; nothing where nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=60) as response:
                return dict(json.load(response))
        except (OSError, ValueError):
            return {}


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def hurt(pid: int, number: signal.Signals) -> bool:
    """Send a signal; False where the process is gone already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def eventually(condition: Callable[[], bool], seconds: float) -> float | None:
    """Wait until a condition holds; return after how many seconds, or None where it did not in time."""
    began = time.monotonic()
    held = wait_until(condition, timeout_seconds=seconds)
    return time.monotonic() - began if held else None


class Jobs:
    """Puts jobs into a hub's queue, and looks what became of them."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.enqueue_ms = 0.0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.slow.chaos.client"],
            cwd=CHECKOUT,
            env=hub.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._read()

    def add(self, kind: str, *, count: int = 1, key: str = "", **payload: Any) -> list[str]:
        """Enqueue jobs and return their ids, once they are committed."""
        assert self.process.stdin is not None
        order = {"kind": kind, "payload": payload, "key": key, "count": count}
        self.process.stdin.write(json.dumps(order) + "\n")
        answer = json.loads(self._read())
        self.enqueue_ms = float(answer["enqueue_ms"])
        return list(answer["ids"])

    def _read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("The process that enqueues jobs ended.")
        return line

    def states(self, ids: list[str]) -> dict[str, int]:
        statement = "SELECT state, count(*) FROM memoryhub_job WHERE id = ANY(%s::uuid[]) GROUP BY state"
        return dict(self.hub.rows(statement, [ids]))

    def are_done(self, ids: list[str]) -> bool:
        return self.states(ids) == {"done": len(ids)}

    def effects(self, ids: list[str]) -> dict[str, int]:
        statement = "SELECT job::text, count(*) FROM bench_effect WHERE job = ANY(%s::uuid[]) GROUP BY job"
        return dict(self.hub.rows(statement, [ids]))

    def worker_of(self, job_id: str) -> int | None:
        """Return the process that began a job last."""
        statement = "SELECT pid FROM bench_begun WHERE job = %s::uuid ORDER BY at DESC LIMIT 1"
        rows = self.hub.rows(statement, [job_id])
        return int(rows[0][0]) if rows else None

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


class Writer(threading.Thread):
    """A chat client: writes messages one after the other, each again until it is acknowledged."""

    def __init__(self, hub: Hub, number: int, count: int | None) -> None:
        super().__init__(name=f"writer-{number}", daemon=True)
        self.hub, self.count = hub, count
        self.session = str(uuid4())
        self.number = number
        self.acknowledged = 0
        self.repeats = 0
        self.over = threading.Event()

    def run(self) -> None:
        opening = {"agent_id": f"chaos-{self.number}", "session_id": self.session}
        while self.hub.post("sessions", opening)[0] not in (200, 201) and not self.over.wait(0.05):
            pass
        while not self.over.is_set() and (self.count is None or self.acknowledged < self.count):
            message = {
                "role": "user",
                "content": f"message {self.acknowledged}",
                "client_message_id": str(self.acknowledged),
            }
            while self.hub.post(f"sessions/{self.session}/messages", message)[0] not in (200, 201):
                self.repeats += 1
                if self.over.wait(0.05):
                    return
            self.acknowledged += 1

    def verify(self) -> list[str]:
        """Say what is lost, doubled or out of order."""
        statement = "SELECT seq, client_message_id FROM conversations_message WHERE session_id = %s::uuid ORDER BY seq"
        rows = self.hub.rows(statement, [self.session])
        wrong = []
        if [seq for seq, _ in rows] != list(range(1, len(rows) + 1)):
            wrong.append(f"session {self.number}: a gap in seq")
        ids = [int(name) for _, name in rows]
        if len(ids) != len(set(ids)):
            wrong.append(f"session {self.number}: doubled messages")
        lost = set(range(self.acknowledged)) - set(ids)
        if lost:
            wrong.append(f"session {self.number}: {len(lost)} acknowledged messages are lost")
        return wrong


class Curator(threading.Thread):
    """Writes memories, corrects each, and now and then lets the actor sleep; each again until it is acknowledged."""

    names: Final = {"agent_id": "curated", "user_id": "somebody"}

    def __init__(self, hub: Hub) -> None:
        super().__init__(name="curator", daemon=True)
        self.hub = hub
        self.over = threading.Event()
        self.corrected: list[str] = []
        self.sleeps = 0

    def run(self) -> None:
        while not self.over.wait(0.2):
            text = f"{uuid4().hex} keeps {uuid4().hex}"
            written = self._until_done("memories", {**self.names, "content": text})
            right = f"{text}, rightly"
            if written and self._until_done(f"memories/{written['id']}", {"content": right}, "PATCH"):
                self.corrected.append(right)
            if len(self.corrected) % 25 == 24:
                self.sleeps += self.hub.post("sleep-runs", self.names, timeout=60)[0] == 201

    def _until_done(self, path: str, body: dict[str, Any], method: str = "POST") -> dict[str, Any]:
        while True:
            status, answer = self.hub.post(path, body, method=method)
            if status in (200, 201):
                return answer
            if self.over.wait(0.05):
                return {}

    def verify(self) -> list[str]:
        """Say which corrections are lost or doubled, and which sleeps were left half done."""
        statement = "SELECT content, count(*) FROM strength_memory WHERE content = ANY(%s) GROUP BY content"
        stored = dict(self.hub.rows(statement, [self.corrected]))
        wrong = [
            f"curator: {stored.get(text, 0)} rows of a correction" for text in self.corrected if stored.get(text) != 1
        ]
        half = "SELECT state FROM strength_sleeprun WHERE state = 'running'"
        if eventually(lambda: not self.hub.rows(half), 60) is None:
            wrong.append("curator: a sleep was left half done")
        return wrong


def done(jobs: Jobs, ids: list[str], seconds: float) -> float | None:
    """Wait until jobs are done; return after how long, or None where they are not in time."""
    return eventually(lambda: jobs.are_done(ids), seconds)


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder that PostgreSQL's account can enter, and remove it."""
    with tempfile.TemporaryDirectory(prefix="memoryhub-chaos-", ignore_cleanup_errors=True) as name:
        path = Path(name)
        path.chmod(0o711 if os.geteuid() == 0 else 0o700)
        yield path


@contextmanager
def running(*, workers: int = 2) -> Iterator[tuple[Hub, Jobs]]:
    """Start an installation, and leave nothing of it behind."""
    with folder() as path, ExitStack() as end:
        hub = Hub(path, workers=workers)
        end.callback(hub.destroy)
        hub.start()
        jobs = Jobs(hub)
        end.callback(jobs.close)
        yield hub, jobs
