"""A whole installation to be broken: `manage.py serve` with its processes, its database, and hands to hurt them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from memoryhub.runtime.postgres import EmbeddedCluster
from memoryhub.runtime.postgres import server as postgres_server
from memoryhub.runtime.processes import wait_until

CHECKOUT = Path(__file__).resolve().parents[1]
SETTINGS = "bench.job_settings"


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

    # Running

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
                preexec_fn=_mind_signals,
            )
        if not wait_until(lambda: "memoryhub is ready" in self.said() or self.ended, timeout_seconds=180):
            raise RuntimeError(f"memoryhub did not start:\n{self.said()}")
        if self.ended:
            raise RuntimeError(f"memoryhub ended:\n{self.said()}")
        self.key = self.key or self._key()
        if "web" not in arguments:
            wait_until(self.is_whole, timeout_seconds=60)
        return self

    @property
    def workers(self) -> int:
        """How many workers there shall be."""
        return int(self.environment["MEMORYHUB_WORKERS"])

    @property
    def ended(self) -> bool:
        """Whether the supervisor is gone."""
        return self.process is None or self.process.poll() is not None

    def said(self) -> str:
        """Return what it printed."""
        return self.log.read_text(errors="replace")

    def _key(self) -> str:
        words = next((line.split() for line in self.said().splitlines() if "API key    mh_" in line), None)
        return words[2] if words else ""

    def destroy(self) -> None:
        """End whatever is left of it, and its database."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        wait_until(lambda: not self.processes(), timeout_seconds=10)
        self.cluster.destroy()

    # Its parts

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
        """Say whether all workers are there."""
        return len(self.worker_processes()[1]) == self.workers

    def postmaster(self) -> int | None:
        """Return PostgreSQL's first process."""
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

    # Its interface

    def post(self, path: str, body: dict[str, Any], *, timeout: float = 10) -> tuple[int, dict[str, Any]]:
        """Send a POST and return status and body; status 0 where nobody answered."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1/{path}",
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
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=10) as response:
                return dict(json.load(response))
        except (OSError, ValueError):
            return {}


def parent_of(pid: int) -> int:
    """Return a process's parent; 0 where it is gone."""
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


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(condition: Callable[[], bool], seconds: float) -> float | None:
    """Wait until a condition holds; return after how many seconds, or None where it did not in time."""
    began = time.monotonic()
    held = wait_until(condition, timeout_seconds=seconds)
    return time.monotonic() - began if held else None


def _mind_signals() -> None:
    """In the child: mind SIGHUP also where we were started with nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
