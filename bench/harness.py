"""Common ground of all benchmarks: an installation of their own, a web server, figures, the command line.

A benchmark never touches the data of an installation that people use: it gets a throw-away folder and
PostgreSQL, with the settings that `make run` gives it, durability included.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from email.message import Message
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
READY_SECONDS = 60.0
WIDTH = 160
MOST_COLUMNS = 9
DROP_CACHES = Path("/proc/sys/vm/drop_caches")

sys.path.insert(0, str(ROOT))


@contextmanager
def installation() -> Iterator[Any]:
    """Give an empty, migrated installation, Django set up on it; yield its PostgreSQL.

    Leaves nothing running however it is ended, SIGKILL excepted.
    """
    import logging

    import django
    from django.core.management import call_command

    from memoryhub.runtime.postgres import EmbeddedCluster

    with signals_end_it(), new_folder() as folder:
        os.environ["MEMORYHUB_DATA_DIR"] = str(folder / "data")
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
        os.environ.setdefault("MEMORYHUB_LOG_FORMAT", "plain")
        os.environ.setdefault("MEMORYHUB_THROTTLE_PER_MINUTE", "10000000")
        cluster = EmbeddedCluster(folder / "data")
        try:
            os.environ["DATABASE_URL"] = cluster.start().url()
            django.setup()
            logging.disable(logging.INFO)
            call_command("migrate", verbosity=0)
            yield cluster
        finally:
            cluster.destroy()


@contextmanager
def new_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="memoryhub-bench-"))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)  # as root, PostgreSQL is another user
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def signals_end_it() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the run as Ctrl-C does, so that what was started is stopped."""
    former = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    # Ignored before us: nohup, which outlives the terminal.
    minded = {number: handler for number, handler in former.items() if handler != signal.SIG_IGN}

    def end(number: int, frame: FrameType | None) -> None:
        for each in minded:
            signal.signal(each, signal.SIG_IGN)  # a second one must not interrupt the tidying up
        raise SystemExit(128 + number)

    for number in minded:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in minded.items():
            signal.signal(number, handler)


def chill(cluster: Any) -> str:
    """Restart PostgreSQL, and empty the kernel's cache of files where we may; return what is cold then."""
    from django.db import connections

    connections.close_all()
    cluster.stop()
    try:
        os.sync()
        DROP_CACHES.write_text("3")
        cold = "from the disk"
    except OSError:
        cold = "from the kernel's cache"
    cluster.start()
    return cold


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def program(name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program of `make run` in a process of its own."""
    from memoryhub.env import read_environment
    from memoryhub.runtime.supervisor import PROGRAMS

    found = next(program for program in PROGRAMS if program.name == name)
    process = subprocess.Popen(
        found.command(read_environment()),
        cwd=ROOT,
        env={**os.environ, **found.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


@contextmanager
def web_server() -> Iterator[int]:
    """Start the web server; yield its port once it is ready."""
    from memoryhub.runtime.processes import wait_until

    port = free_port()
    os.environ["PORT"] = str(port)
    with program("web") as process:

        def is_ready() -> bool:
            if process.poll() is not None:
                raise SystemExit("The web server ended at once; run `make run` to see why.")
            try:
                connection = HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/healthz")
                return connection.getresponse().status == 200
            except OSError:
                return False

        if not wait_until(is_ready, timeout_seconds=READY_SECONDS):
            raise SystemExit(f"The web server was not ready after {READY_SECONDS:.0f} s.")
        yield port


@contextmanager
def in_threads(*works: Callable[[], object]) -> Iterator[None]:
    """Do each again and again in a thread of its own until the block ends; a fault ends the run after it."""
    over = threading.Event()

    def run(work: Callable[[], object]) -> None:
        while not over.is_set():
            work()

    with ThreadPoolExecutor(len(works)) as threads:
        runs = [threads.submit(run, work) for work in works]
        try:
            yield
        finally:
            over.set()
    for each in runs:
        each.result()


class Client:
    """A keep-alive connection that opens itself anew where the server closed it."""

    def __init__(self, port: int, key: str = "") -> None:
        self.port, self.key = port, key
        self.connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self.body, self.headers = b"", Message()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, float]:
        """Return status (0 where there was none) and milliseconds; `body` holds what was answered."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}", **headers}
        content = body if isinstance(body, bytes) else json.dumps(body) if body else None
        began = time.perf_counter()
        for _ in range(2):  # a kept connection may be closed just as it is used
            try:
                self.connection.request(method, path, content, headers)
                response = self.connection.getresponse()
                self.body = response.read()
                self.headers = response.headers
                return response.status, (time.perf_counter() - began) * 1000
            except (OSError, HTTPException):
                self.connection.close()
        return 0, (time.perf_counter() - began) * 1000

    def answer(self, method: str, path: str, body: Any = None) -> Any:
        """Return what a call outside the measurement answers. Raises SystemExit where it fails."""
        status, _ = self.ask(method, f"/api/v1/{path}", body)
        if status not in (200, 201):
            raise SystemExit(f"{method} {path} answered {status}: {self.body[:500]!r}")
        return json.loads(self.body)

    def rows(self, path: str) -> Iterator[dict[str, Any]]:
        page, cursor = self.answer("GET", f"{path}limit=500"), "cursor="
        yield from page["results"]
        while page["next"]:
            cursor = re.findall(r"cursor=[^&]*", page["next"])[0]
            page = self.answer("GET", f"{path}limit=500&{cursor}")
            yield from page["results"]


class Tree:
    """The processes of a server by what they are: web server, workers, and PostgreSQL, which is nobody's child."""

    def __init__(self, supervisor: int, data_dir: Path) -> None:
        self.supervisor = psutil.Process(supervisor)
        pid_file = next(data_dir.glob("postgres/*/postmaster.pid"))
        self.postmaster = psutil.Process(int(pid_file.read_text().split()[0]))

    def _processes(self) -> Iterator[tuple[str, psutil.Process]]:
        yield "web", self.supervisor
        for child in self.supervisor.children():
            name = "workers" if "run_worker" in child.cmdline() else "web"
            yield from ((name, each) for each in (child, *child.children(recursive=True)))
        yield from (("postgresql", each) for each in (self.postmaster, *self.postmaster.children()))

    def megabytes(self) -> dict[str, float]:
        """Return the proportional set sizes."""
        return self._sums(lambda process: process.memory_full_info().pss / 1e6)

    def cpu_seconds(self) -> dict[str, float]:
        """Return processor time, that of ended children included."""
        return self._sums(lambda process: sum(process.cpu_times()[:4]))

    def _sums(self, number: Callable[[psutil.Process], float]) -> dict[str, float]:
        sums = {"web": 0.0, "workers": 0.0, "postgresql": 0.0}
        for name, process in self._processes():
            with suppress(psutil.NoSuchProcess):  # one that has just ended
                sums[name] += number(process)
        return {name: round(each, 3) for name, each in sums.items()}


def everything_key(agent_id: str | None = None, **values: Any) -> str:
    """Return a key with all scopes, for all agents or one."""
    from datetime import UTC, datetime

    from memoryhub.auth.actions import issue_key
    from memoryhub.auth.principals import Scope, command

    agents = {} if agent_id is None else {"agent_ids": [agent_id]}
    by, now = command("bench"), datetime.now(UTC)
    _, new = issue_key(name="bench", scopes=list(Scope), by=by, now=now, **agents, **values)
    return str(new.text)


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """Return p50, p95 and p99 of timings, in the unit they came in."""
    ordered = sorted(milliseconds)

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)

    return {"p50": round(median(ordered), 2), "p95": at(0.95), "p99": at(0.99)}


def parser_of(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, and nothing else")
    return parser


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)


def tell(figures: Any, arguments: argparse.Namespace, show: Callable[[Any, Any], None] | None = None) -> None:
    """Print the figures as JSON where `--json` was given; else let `show` print them to a console, or as a table."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else WIDTH)  # wide enough in a file
    if arguments.json:
        print(json.dumps(figures, indent=2, ensure_ascii=False))
    elif show:
        show(figures, console)
    else:
        named = isinstance(figures, dict)
        table(console, [{"": name, **each} for name, each in figures.items()] if named else figures)


def shown(value: Any) -> str:
    """Return a figure as tables show it."""
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.1f}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    return "" if value is None else str(value)


def table(console: Any, rows: Sequence[Mapping[str, Any]], title: str = "") -> None:
    """Print rows with a column for each of their keys, or a line where these are many; nothing without rows."""
    from rich.table import Table

    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [[row.get(name) for name in names] for row in rows]
    if len(names) > MOST_COLUMNS:
        names, *lines = map(list, zip(names, *lines, strict=True))
    if lines:
        printed = Table(*map(shown, names), title=title, title_justify="left")
        for line in lines:
            printed.add_row(*map(shown, line))
        console.print(printed)


def say(words: str) -> None:
    """Tell on standard error what is being done, for it takes minutes."""
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr)
