"""One PostgreSQL data folder and the postmaster that serves it.

Knows how to initialise, start, recognise and stop it, and how to clear what a crash left behind. Does not
know roles, databases or where memoryhub keeps things; the caller holds the lock.
"""

import logging
import os
import re
import secrets
import signal
import socket
import subprocess
from pathlib import Path

from psycopg.pq import PGconn, Ping

from memoryhub.runtime.postgres.binaries import Account, Binaries, PostgresError
from memoryhub.runtime.processes import kill_all, pids_in, runs_in, wait_until

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
# Below Linux' ephemeral range (32768 up), so that no outgoing connection takes the port between two starts.
PORTS = range(20_000, 32_000)
START_SECONDS = 300  # crash recovery may take long
STOP_SECONDS = 60
ORPHAN_SECONDS = 3.0
INCLUDED = "memoryhub.conf"

SETTINGS = Path(__file__).with_name(INCLUDED).read_text(encoding="utf-8")
TEST_SETTINGS = """\
fsync = off                         # a test database: speed, and nothing to lose
full_page_writes = off
synchronous_commit = off
"""


# A page in shared buffers costs 0.3 µs, one copied from the kernel 4 µs: a scan of 5,000 scattered rows took 12 ms
# with these buffers and 43 ms without. Untouched memory is not allocated.
BUFFERS_MB = range(128, 4096)
SMALL_BUFFERS_MB = 1024
"""Enough for 500 MB of data. Their descriptors, 22 MB for each 1,024 MB, are allocated at once."""
NO_LIMIT_BYTES = 1 << 60  # "no limit" in cgroups version 1
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


NO_MEMORY = re.compile("could not (map anonymous|create) shared memory")


class PortTaken(PostgresError):
    """Another process listens on the port already."""


class NoMemory(PostgresError):
    """The system does not give as much shared memory as was asked for."""


def pid_of(data: Path) -> int | None:
    """Return the pid of the living postmaster that serves this folder, never a stranger's."""
    line = _pid_file(data)[0:1]
    if not line or not line[0].isdigit():
        return None
    pid = int(line[0])
    return pid if runs_in(pid, data) else None


def memory_mb() -> int:
    """Return the memory this process may use: the machine's, or what its container is limited to."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in CGROUP_LIMITS:
        text = path.read_text().strip() if path.is_file() else "max"
        if text.isdigit() and int(text) < NO_LIMIT_BYTES:
            limits.append(int(text))
    return min(limits) >> 20


def buffers_mb(memory: int, data: int) -> int:
    """Return the shared buffers for a machine's memory and the size of the data, all in MB."""
    return max(BUFFERS_MB.start, min(BUFFERS_MB.stop, memory // 4, max(SMALL_BUFFERS_MB, 2 * data)))


def size_mb(folder: Path) -> int:
    files = (Path(root, name) for root, _folders, names in os.walk(folder) for name in names)
    return sum(file.stat().st_size for file in files) >> 20


def is_ready(data: Path) -> bool:
    return pid_of(data) is not None and _ping(data) == Ping.OK


def _pid_file(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text(errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []


def _ping(data: Path) -> Ping:
    lines = _pid_file(data)  # pid, data folder, start time, port, …
    if len(lines) < 4 or not lines[3].isdigit():
        return Ping.NO_ATTEMPT
    return Ping(PGconn.ping(f"host={HOST} port={lines[3]} dbname=postgres connect_timeout=3".encode()))


def free_port(preferred: int | None) -> int:
    """Return the preferred port if it is free, else a random free one."""
    if preferred is not None and _is_free(preferred):
        return preferred
    for _ in range(100):
        port = PORTS[secrets.randbelow(len(PORTS))]
        if _is_free(port):
            return port
    raise PostgresError(f"No free port between {PORTS.start} and {PORTS.stop} on {HOST}.")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as PostgreSQL does
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def write_file(path: Path, text: str, *, like: Path | None = None) -> None:
    """Replace a file at once, readable only by its owner: us, or as root the owner of the folder `like`.

    A link planted in its place is replaced, not followed.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    if like is not None and os.geteuid() == 0:
        owner = like.stat()
        os.chown(draft, owner.st_uid, owner.st_gid, follow_symlinks=False)
    draft.replace(path)


class Server:
    """A data folder, the programs of its major version, and the account that runs them."""

    def __init__(self, data: Path, binaries: Binaries, account: Account, *, fsync: bool, connections: int) -> None:
        self.data = data
        self.log = data.parent / "log"
        self.binaries = binaries
        self.account = account
        self.fsync = fsync
        self.connections = connections

    def initialise(self, superuser_password: str) -> None:
        """Make an empty cluster here: UTF-8, the same locale on every host, checksums, passwords."""
        self._make_private(self.data)
        password_file = self.data.with_name(f"{self.data.name}.password")
        write_file(password_file, superuser_password + "\n", like=self.data)
        # The builtin provider (17 and later) has its own Unicode tables: neither LANG nor the host's libc
        # decides how text sorts, and no index breaks when the host is upgraded.
        builtin = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        arguments = [
            f"--pgdata={self.data}",
            "--username=postgres",
            "--auth=scram-sha-256",
            f"--pwfile={password_file}",
            "--encoding=UTF8",
            *(builtin if self.binaries.major >= 17 else ["--locale=C.UTF-8"]),
            "--text-search-config=simple",
            "--data-checksums",
            *([] if self.fsync else ["--no-sync"]),
        ]
        try:
            command = [self.binaries.program("initdb"), *arguments]
            result = self.account.run(command, timeout_seconds=START_SECONDS)
            if result.returncode != 0:
                raise PostgresError(f"initdb failed in {self.data}: {result.stderr.strip()}")
        finally:
            password_file.unlink(missing_ok=True)
        conf = self.data / "postgresql.conf"
        with conf.open("a") as file:
            file.write(f"\ninclude = '{INCLUDED}'\n")

    def start(self, preferred_port: int | None) -> int:
        """Start unless it runs, and return the port it listens on."""
        if self._settle():
            return int(_pid_file(self.data)[3])
        self._remove_stale_files()
        for _ in range(3):
            port = free_port(preferred_port)
            try:
                self._launch(port)
            except PortTaken:  # the port was taken between check and start
                continue
            return port
        raise PortTaken(f"PostgreSQL found its port taken three times in a row; look at {self.log}.")

    def _settle(self) -> bool:
        """Wait for a postmaster that is starting up or shutting down; True when one ends up ready."""
        wait_until(lambda: pid_of(self.data) is None or _ping(self.data) == Ping.OK, timeout_seconds=START_SECONDS)
        if is_ready(self.data):
            return True
        if pid := pid_of(self.data):
            raise PostgresError(
                f"PostgreSQL (process {pid}) holds {self.data} and does not answer. "
                f"Look at {self.log}; `python -m memoryhub.runtime.postgres stop` ends it."
            )
        return False

    def _remove_stale_files(self) -> None:
        """After a crash: wait for the dead postmaster's children, end what stays, drop the stale pid file.

        Orphans notice the death between two statements; one in a long statement would hold the shared memory
        and keep the next postmaster from starting. PostgreSQL itself takes a recycled pid in the file for
        a living postmaster; an unused folder proves it is not.
        """
        if not wait_until(lambda: not pids_in(self.data), timeout_seconds=ORPHAN_SECONDS):
            kill_all(pids_in(self.data), signal.SIGKILL)
            wait_until(lambda: not pids_in(self.data), timeout_seconds=ORPHAN_SECONDS)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _launch(self, port: int) -> None:
        """Start with buffers for twice the data, a quarter of the memory at most; the least if the system refuses."""
        buffers = buffers_mb(memory_mb(), size_mb(self.data / "base"))
        try:
            self._launch_with(port, buffers)
        except NoMemory:
            if buffers == BUFFERS_MB.start:
                raise
            log.warning(
                "The system refuses PostgreSQL %s MB of shared memory (a limit on this process, or "
                "vm.overcommit_memory); it starts with %s MB, and searches are slower.",
                buffers,
                BUFFERS_MB.start,
            )
            self._launch_with(port, BUFFERS_MB.start)

    def _launch_with(self, port: int, buffers: int) -> None:
        self._make_private(self.log)
        quoted_log = str(self.log).replace("'", "''")
        settings = SETTINGS.format(
            port=port, log=quoted_log, buffers=buffers, cache=memory_mb() * 3 // 4, connections=self.connections
        ) + ("" if self.fsync else TEST_SETTINGS)
        write_file(self.data / INCLUDED, settings, like=self.data)
        first_words = self.log / "startup.log"
        first_words.unlink(missing_ok=True)
        result = self._pg_ctl("start", f"--log={first_words}", timeout_seconds=START_SECONDS)
        if result.returncode == 0:
            return
        words = first_words.read_text(errors="replace") if first_words.exists() else ""
        message = "\n".join(words.splitlines()[-12:]) or result.stderr.strip()
        if "could not bind" in message or "Address already in use" in message:
            raise PortTaken(message)
        refused = NoMemory if NO_MEMORY.search(message) else PostgresError
        raise refused(f"PostgreSQL did not start ({self.data}): {message}\nMore in {self.log}.")

    def stop(self) -> None:
        """Stop and wait: politely first, then without ceremony (committed data is safe either way)."""
        for mode in ("fast", "immediate"):
            if pid_of(self.data) is None:
                break
            self._pg_ctl("stop", f"--mode={mode}", timeout_seconds=STOP_SECONDS)
        kill_all(pids_in(self.data), signal.SIGKILL)
        if not wait_until(lambda: pid_of(self.data) is None, timeout_seconds=STOP_SECONDS):
            raise PostgresError(f"PostgreSQL (process {pid_of(self.data)}) in {self.data} could not be stopped.")

    def reset_superuser_password(self, password: str) -> None:
        """Set the password without knowing the old one; the server must be stopped."""
        command = [self.binaries.program("postgres"), "--single", "-D", str(self.data), "postgres"]
        result = self.account.run(command, text=f"ALTER ROLE postgres PASSWORD '{password}'\n")
        if result.returncode != 0:
            raise PostgresError(f"Could not set a new password in {self.data}: {result.stderr.strip()}")

    def _pg_ctl(self, action: str, *arguments: str, timeout_seconds: int) -> subprocess.CompletedProcess[str]:
        command = [self.binaries.program("pg_ctl"), action, f"--pgdata={self.data}", "--wait"]
        command += [f"--timeout={timeout_seconds}", "--silent", *arguments]
        return self.account.run(command, timeout_seconds=timeout_seconds + 30)

    def _make_private(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self.account.own(folder)
