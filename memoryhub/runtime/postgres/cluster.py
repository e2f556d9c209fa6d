"""memoryhub's own PostgreSQL: where it lives, who may log in, and how it moves to a newer version.

    <data dir>/postgres/          ours: lock, passwords, port (0600)
    <data dir>/postgres/18/       PostgreSQL's data folder, one per major version
    <data dir>/postgres/log/      its log

Started as root in a folder that the unprivileged account cannot reach, the data folder and the log are under
/var/lib/memoryhub/<hash>/ instead, and `moved-to` has the path.
"""

import json
import logging
import os
import secrets
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import LiteralString
from urllib.parse import quote

import psycopg
from psycopg import sql

from memoryhub.runtime.postgres import server
from memoryhub.runtime.postgres.binaries import (
    INSTALLATIONS,
    NEWEST,
    SYSTEM_HOME,
    Account,
    PostgresError,
    account_for,
    binaries_for,
    make_traversable,
    short_hash,
)
from memoryhub.runtime.processes import FileLock, LockHeld, kill_all, pids_in, wait_until

log = logging.getLogger(__name__)

ROLE = "memoryhub"
LIMITED_ROLE = "memoryhub_limited"
"""As `memoryhub.db.reach` names it."""

DATABASE = "memoryhub"
CONNECTIONS = 60  # minimum; each costs memory
UNFINISHED = ".unfinished-"
LOCK_SECONDS = server.START_SECONDS + server.STOP_SECONDS


@dataclass(frozen=True)
class ConnectionInfo:
    """Login of the application's role, which is no superuser."""

    host: str
    port: int
    dbname: str
    user: str
    password: str

    def url(self) -> str:
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        return f"postgresql://{login}@{self.host}:{self.port}/{self.dbname}"


@dataclass(frozen=True)
class Passwords:
    superuser: str
    application: str


class EmbeddedCluster:
    """The embedded server of one data folder; any process may make one of these.

    `fsync=False` is for throw-away databases; `createdb=True` lets the application's role create databases,
    which only tests need. `connections` is how many it must take. `adopt_data` lets a new data folder take over what
    an earlier one of the same name left under /var/lib. `MEMORYHUB_POSTGRES_VERSION` picks another major version that
    the package carries.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        fsync: bool = True,
        createdb: bool = False,
        connections: int = CONNECTIONS,
        adopt_data: bool = False,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.folder = self.data_dir / "postgres"
        self.fsync = fsync
        self.createdb = createdb
        self.connections = max(CONNECTIONS, connections)
        self.adopt_data = adopt_data
        major = os.environ.get("MEMORYHUB_POSTGRES_VERSION") or str(NEWEST)
        if not major.isdigit() or int(major) not in INSTALLATIONS:
            raise PostgresError(f"MEMORYHUB_POSTGRES_VERSION is {major!r}; known are {sorted(INSTALLATIONS)}.")
        self.major = int(major)

    def connection(self) -> ConnectionInfo | None:
        """Return how to connect; None if this cluster was never started."""
        try:
            if not self.data.is_dir():
                return None
            passwords, port = self._read_passwords(), self._read_port()
        except PermissionError:
            raise self._foreign() from None
        if passwords is None or port is None:
            return None
        return ConnectionInfo(server.HOST, port, DATABASE, ROLE, passwords.application)

    def is_running(self) -> bool:
        return server.is_ready(self.data)

    def is_alive(self) -> bool:
        """Return whether our postmaster exists; cheaper than `is_running`, but it may not answer."""
        return server.pid_of(self.data) is not None

    def start(self) -> ConnectionInfo:
        """Start the server from any state; return how to connect.

        Creates the cluster on first use, upgrades an older one, recovers after a crash, takes over a running
        one. Safe to call from several processes at once. Raises `PostgresError`.
        """
        with self._locked():
            self._choose_home()
            self._remove_unfinished()
            self._check_version()
            if not self.data.exists():
                self._create()
            if self._read_passwords() is None:
                # Set in single-user mode: the data exists, but its passwords are lost.
                log.warning("The passwords in %s are lost: making new ones.", self.folder)
                target = self._server(self.data, self.major)
                target.stop()
                target.reset_superuser_password(self._write_passwords().superuser)
            self._serve(self._server(self.data, self.major))
        connection = self.connection()
        assert connection is not None
        return connection

    def stop(self) -> None:
        """Stop it and wait for its end; harmless if it does not run. Raises `PostgresError`."""
        if not self.folder.exists():
            return
        with self._locked():
            self._remove_unfinished()
            if self.data.exists():
                self._server(self.data, self.major).stop()

    def destroy(self) -> None:
        """Stop it and delete all its data, also outside the data folder and of earlier clusters."""
        homes = {self.home, self.fallback}
        self.stop()
        for home in homes:
            for major in _majors(home):
                if server.pid_of(home / str(major)) is not None:
                    self._server(home / str(major), major).stop()
        for folder in homes | {self.folder}:
            if folder.exists():
                shutil.rmtree(folder, ignore_errors=folder != self.folder)

    @property
    def home(self) -> Path:
        """The folder that holds the data folder and the log."""
        note = self.folder / "moved-to"
        return Path(note.read_text().strip()) if note.exists() else self.folder

    @property
    def fallback(self) -> Path:
        """The folder that is taken where the account cannot reach the data folder; it outlives that one."""
        return SYSTEM_HOME / short_hash(self.data_dir)

    @property
    def data(self) -> Path:
        return self.home / str(self.major)

    @cached_property
    def account(self) -> Account:
        existing = [self.home / str(major) for major in (self.major, *INSTALLATIONS)]
        return account_for(next((data for data in existing if data.exists()), self.data))

    def _server(self, data: Path, major: int) -> server.Server:
        return server.Server(
            data, binaries_for(self.account, major), self.account, fsync=self.fsync, connections=self.connections
        )

    def _choose_home(self) -> None:
        """Stay in the data folder if the account can enter it, else settle under /var/lib, for good."""
        if self.account.can_enter(self.folder):
            return
        if self.home != self.folder:
            return
        if not self.account.switch or any((self.folder / str(major)).exists() for major in INSTALLATIONS):
            raise PostgresError(
                f"User {self.account.name} runs PostgreSQL and cannot enter {self.folder}. "
                "Make the folders above it passable for that user, or choose another MEMORYHUB_DATA_DIR."
            )
        home = self.fallback
        if _majors(home) and not self.adopt_data:
            raise PostgresError(
                f"{home} holds the database of an earlier installation in {self.data_dir}, with its memories and API "
                "keys, and this one is new. To take them over, once: MEMORYHUB_ADOPT_DATA=1 make run. "
                "To delete them: make clean DATA=1."
            )
        make_traversable(home)
        self._write_state("moved-to", f"{home}\n")
        log.warning(
            "PostgreSQL runs as user %s, who cannot reach %s: its data lies in %s.",
            self.account.name,
            self.folder,
            home,
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            _make_folder(self.data_dir)
            _make_folder(self.folder)
            lock = FileLock(self.folder / "lock", timeout_seconds=LOCK_SECONDS)
            lock.acquire()
        except PermissionError:
            raise self._foreign() from None
        except LockHeld:
            raise PostgresError(
                f"Another process has been busy with {self.folder} for {LOCK_SECONDS} seconds."
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _foreign(self) -> PostgresError:
        return PostgresError(
            f"{self.folder} belongs to another user. Run as that user, or choose another MEMORYHUB_DATA_DIR."
        )

    def _create(self) -> None:
        """Build the cluster aside and move it into place at once, so that a kill leaves no half of one."""
        older = max(_majors(self.home), default=None)
        draft = self.home / f"{UNFINISHED}{secrets.token_hex(4)}"
        new = self._server(draft, self.major)
        new.initialise((self._read_passwords() or self._write_passwords()).superuser)
        if older is not None:
            self._move_over(older, new)
        draft.rename(self.data)

    def _remove_unfinished(self) -> None:
        """Delete what a killed start left; an orphaned initdb may still write, or delete as we do."""
        for draft in self.home.glob(f"{UNFINISHED}*"):
            if not wait_until(partial(_remove_tree, draft), timeout_seconds=server.STOP_SECONDS):
                raise PostgresError(f"{draft} is left from an interrupted start and cannot be deleted.")

    def _check_version(self) -> None:
        """Refuse to start if there is newer data, left behind by an upgrade, or unknown data."""
        majors = _majors(self.home)
        if majors and (max(majors) > self.major or max(majors) not in INSTALLATIONS):
            raise PostgresError(
                f"{self.home / str(max(majors))} was written by PostgreSQL {max(majors)}; this memoryhub runs "
                f"{self.major} and carries {sorted(INSTALLATIONS)}. Dump it with the memoryhub that wrote it "
                "(pg_dump), move the folder away, start, and restore (pg_restore)."
            )

    def _move_over(self, older: int, new: server.Server) -> None:
        """Copy the database from an older version by dump and restore; the old folder stays as it is."""
        old = self._server(self.home / str(older), older)
        dump = self.home / f"{UNFINISHED}{older}-to-{self.major}.dump"
        log.warning("Upgrading PostgreSQL %s to %s; %s is kept.", older, self.major, old.data)
        self._serve(old)
        try:
            server.write_file(dump, "")
            self.account.own(dump)
            self._run_client(old, "pg_dump", "--format=custom", f"--file={dump}")
        finally:
            old.stop()
        self._serve(new)
        try:
            self._run_client(new, "pg_restore", "--exit-on-error", "--dbname", DATABASE, str(dump))
            with self._superuser(DATABASE) as connection:
                connection.execute("ANALYZE")
        finally:
            new.stop()
        dump.unlink()

    def _run_client(self, target: server.Server, name: str, *arguments: str) -> None:
        """Run a client program against the database, as its superuser, without a limit of time."""
        environment = {
            "PGHOST": server.HOST,
            "PGPORT": str(self._read_port()),
            "PGUSER": "postgres",
            "PGDATABASE": DATABASE,
            "PGPASSWORD": self._known_passwords().superuser,
        }
        result = self.account.run(
            [target.binaries.program(name), *arguments], environment=environment, timeout_seconds=24 * 3600
        )
        if result.returncode != 0:
            raise PostgresError(f"{name} failed while upgrading PostgreSQL: {result.stderr.strip()}")

    def _serve(self, target: server.Server) -> None:
        port = target.start(self._read_port())
        self._write_state("port", f"{port}\n")
        self._provision()

    def _provision(self) -> None:
        """Bring role, database and extension to what they should be; changes nothing the second time.

        pgvector is no trusted extension: the superuser installs it, in template1 too, so that databases
        which the role creates (tests) have it.
        """
        with self._superuser("postgres") as connection:
            if not _exists(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", ROLE):
                connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(ROLE)))
            # Send the SCRAM verifier instead of the password, which then appears in no log or statistics view.
            verifier = connection.pgconn.encrypt_password(
                self._known_passwords().application.encode(), ROLE.encode(), b"scram-sha-256"
            )
            rights = sql.SQL("LOGIN NOSUPERUSER CREATEDB" if self.createdb else "LOGIN NOSUPERUSER NOCREATEDB")
            connection.execute(
                sql.SQL("ALTER ROLE {} {} PASSWORD {}").format(sql.Identifier(ROLE), rights, verifier.decode())
            )
            if not _exists(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", LIMITED_ROLE):
                roles = sql.Identifier(LIMITED_ROLE), sql.Identifier(ROLE)
                connection.execute(sql.SQL("CREATE ROLE {0} NOLOGIN; GRANT {0} TO {1}").format(*roles))
        with self._superuser("template1") as connection:
            _provision_vector(connection)
        with self._superuser("postgres") as connection:
            if not _exists(connection, "SELECT 1 FROM pg_database WHERE datname = %s", DATABASE):
                connection.execute(
                    sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), sql.Identifier(ROLE))
                )
        with self._superuser(DATABASE) as connection:
            _provision_vector(connection)

    def _superuser(self, dbname: str) -> psycopg.Connection:
        return psycopg.connect(
            host=server.HOST,
            port=self._read_port(),
            user="postgres",
            password=self._known_passwords().superuser,
            dbname=dbname,
            autocommit=True,
            connect_timeout=10,
        )

    def _write_state(self, name: str, text: str) -> None:
        server.write_file(self.folder / name, text, like=self.folder)

    def _read_port(self) -> int | None:
        try:
            text = (self.folder / "port").read_text().strip()
        except FileNotFoundError:
            return None
        return int(text) if text.isdigit() else None

    def _read_passwords(self) -> Passwords | None:
        try:
            return Passwords(**json.loads((self.folder / "passwords").read_text()))
        except FileNotFoundError:
            return None

    def _known_passwords(self) -> Passwords:
        passwords = self._read_passwords()
        assert passwords is not None, "passwords are written before the server starts"
        return passwords

    def _write_passwords(self) -> Passwords:
        passwords = Passwords(superuser=secrets.token_urlsafe(32), application=secrets.token_urlsafe(32))
        self._write_state("passwords", json.dumps(asdict(passwords)))
        return passwords


def _majors(home: Path) -> list[int]:
    """Return the major versions with a data folder there."""
    return [int(path.name) for path in home.glob("[0-9]*") if path.name.isdigit()]


def _make_folder(folder: Path) -> None:
    """Create a folder of ours: closed, but passable for root, whose PostgreSQL is another user."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711 if os.geteuid() == 0 else 0o700)


def _remove_tree(draft: Path) -> bool:
    kill_all(pids_in(draft), signal.SIGKILL)
    if draft.is_dir():
        shutil.rmtree(draft, ignore_errors=True)
    else:
        draft.unlink(missing_ok=True)
    return not draft.exists()


def _exists(connection: psycopg.Connection, query: LiteralString, value: str) -> bool:
    return connection.execute(query, [value]).fetchone() is not None


def _provision_vector(connection: psycopg.Connection) -> None:
    if not _exists(connection, "SELECT 1 FROM pg_extension WHERE extname = %s", "vector"):
        connection.execute("CREATE EXTENSION vector")
    elif _exists(
        connection,
        "SELECT 1 FROM pg_available_extensions WHERE name = %s AND installed_version <> default_version",
        "vector",
    ):
        connection.execute("ALTER EXTENSION vector UPDATE")
