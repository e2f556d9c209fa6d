"""One throw-away data folder and PostgreSQL for each test run.

Loaded with `-p tests.postgres_plugin` (run `python -m pytest`, which finds it), because settings read
`DATABASE_URL` at import and pytest-django imports them before any conftest. The controller of an xdist run
starts the server; its workers inherit the variable. `DATABASE_URL_TEST` names a server of your own instead;
its role must be able to create databases.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from memoryhub.runtime.postgres import EmbeddedCluster
from memoryhub.runtime.processes import FileLock, LockHeld

PREFIX = "memoryhub-tests-"
IN_A_WORKER = "PYTEST_XDIST_WORKER"
ASKS_FOR_NO_TEST = {"-h", "--help", "-V", "--version"}


class ThrowAway:
    """A data folder for one run, with a lock that tells the next run whether its owner still lives."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.folder.chmod(0o711 if os.geteuid() == 0 else 0o700)  # as root, PostgreSQL is another user
        self.lock = FileLock(self.folder / "lock")
        self.lock.acquire()
        self.data_dir = self.folder / "data"
        atexit.register(self.remove)

    def start_postgres(self) -> str:
        """Start a server here and return its URL."""
        return EmbeddedCluster(self.data_dir, fsync=False, createdb=True).start().url()

    def drop_databases(self) -> None:
        """Remove this run's databases from a server that is not of this run."""
        if url := os.environ.get("DATABASE_URL_TEST"):
            with psycopg.connect(url, autocommit=True) as server:
                names = server.execute(
                    "SELECT datname FROM pg_database WHERE datname LIKE %s", [f"{self.folder.name}%"]
                )
                for (name,) in names.fetchall():
                    server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def remove(self) -> None:
        """Stop the server and delete the folder; harmless the second time."""
        if self.folder.exists():
            clear(self.folder)
            self.lock.release()


def clear(run: Path) -> None:
    """Stop all servers of a run, its tests' own too, and delete its folder."""
    for data_dir in (run / "data", *run.glob("*/data")):
        EmbeddedCluster(data_dir).destroy()
    shutil.rmtree(run)


def sweep() -> None:
    """Remove what runs that were killed left behind."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if not (folder / "lock").exists() or folder.stat().st_uid != os.geteuid():
            continue
        try:
            with FileLock(folder / "lock"):
                clear(folder)
        except (LockHeld, OSError):  # its run still lives, or another run is removing it
            continue


@pytest.fixture
def make_folder() -> Iterator[Callable[[], Path]]:
    """Make folders that PostgreSQL's account can enter; pytest's own are closed to it when we are root."""
    made: list[Path] = []
    run = Path(os.environ["MEMORYHUB_DATA_DIR"]).parent

    def make() -> Path:
        folder = Path(tempfile.mkdtemp(prefix="a folder's données ", dir=run))
        folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
        made.append(folder)
        return folder

    yield make
    for folder in made:
        shutil.rmtree(folder)


_run: ThrowAway | None = None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(args: list[str]) -> Generator[None]:
    """Provide folder and database before pytest-django, which also works in this hook, loads the settings."""
    global _run
    if IN_A_WORKER not in os.environ and not ASKS_FOR_NO_TEST.intersection(args):
        sweep()
        _run = ThrowAway()
        os.environ["MEMORYHUB_DATA_DIR"] = str(_run.data_dir)
        os.environ.setdefault("MEMORYHUB_MEMORY_MS", "60000")  # no busy machine is to answer without memory
        os.environ["DATABASE_URL"] = os.environ.get("DATABASE_URL_TEST") or _run.start_postgres()
    return (yield)


def pytest_unconfigure() -> None:
    """Remove the server at the end, also after Ctrl-C."""
    if _run is not None:
        _run.drop_databases()
        _run.remove()
