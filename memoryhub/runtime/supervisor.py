"""Supervisor of `make run`, a foreground process: starts the database, migrates, and keeps web and workers alive.

`PROGRAMS` lists the supervised programs. Each runs in its own session, so that Ctrl-C reaches only the supervisor,
which ends the others in order; the kernel kills them if the supervisor is killed. PostgreSQL is not a child: it
survives a killed supervisor, and the next one takes it over.

Imports no Django: the supervisor starts before there is a database.
"""

import errno
import http.client
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from memoryhub.env import (
    CHECKOUT,
    Environment,
    EnvironmentProblem,
    data_folder,
    private_folder,
    read_environment,
    read_secret_files,
    unknown_settings,
)
from memoryhub.logs import LINE, SafeJsonFormatter
from memoryhub.runtime.database import database_settings
from memoryhub.runtime.postgres import EmbeddedCluster, PostgresError
from memoryhub.runtime.processes import FileLock, LockHeld, Wakeups, die_with_parent, is_locked, listen, wait_until

LOCK = "serve.lock"
WATCH_SECONDS = 0.5  # interval of checks for a dead postmaster; a child's death interrupts the wait
HEALTH_SECONDS = 120
GRACE_SECONDS = 15  # longer than the web server's own grace and a worker's draining
METRICS = "metrics"
HEARTBEAT = "MEMORYHUB_HEARTBEAT"  # number of the descriptor for heartbeat bytes
SILENT_SECONDS = 20
SILENT_START_SECONDS = 60
STOP_SECONDS = 90
POSTGRES_PAUSE_SECONDS = 5.0  # on a full disk each start fails; short, so that service resumes soon
HEALTHY_AFTER_SECONDS = 30
MAX_FAILED_STARTS = 3  # give up on a web server that died so often without ever answering
EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - we bind nothing here

Say = Callable[[str], None]
log = logging.getLogger("memoryhub.supervisor")


class SupervisorError(Exception):
    """memoryhub cannot run; the message has the reason and the remedy."""


class StopRequested(Exception):
    """A stop signal was received."""


@dataclass(frozen=True)
class Program:
    """A supervised process; `{workers}` in the arguments is filled in.

    With `shows_life` it writes a heartbeat byte each second into the pipe that `HEARTBEAT` names; without one it counts
    as hung, and is killed and restarted.
    """

    name: str
    arguments: str
    environment: Mapping[str, str] = field(default_factory=dict)
    shows_life: bool = False
    longest_pause_seconds: float = 30.0

    def command(self, environment: Environment) -> list[str]:
        return [sys.executable, *self.arguments.format(workers=environment.workers).split()]


# By default glibc raises its mmap threshold to the largest freed block and keeps an arena per thread: a few bodies of
# 9 MB doubled the process's memory permanently.
MALLOC_SETTINGS = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "1048576"}

PROGRAMS = (
    Program(name="web", arguments="-m memoryhub.web", environment={"MEMORYHUB_PROCESS": "web", **MALLOC_SETTINGS}),
    # It restarts its worker processes itself. While it is down no jobs run, so restart delays are short.
    Program(
        name="worker",
        arguments="manage.py run_worker --workers {workers}",
        environment={"MEMORYHUB_PROCESS": "worker"},
        shows_life=True,
        longest_pause_seconds=5.0,
    ),
)


def programs_named(names: Collection[str]) -> tuple[Program, ...]:
    """Return the programs with these names; all where none is named. Raises `SupervisorError`."""
    unknown = sorted(set(names) - {program.name for program in PROGRAMS})
    if unknown:
        known = ", ".join(program.name for program in PROGRAMS)
        raise SupervisorError(f"There is no program {', '.join(unknown)}; there are: {known}.")
    return tuple(program for program in PROGRAMS if not names or program.name in names)


def restart_delay_seconds(failures: int, max_seconds: float = 30.0) -> float:
    """Wait 0.5 s after the first death, twice as long after each further one, `max_seconds` at most."""
    return float(min(max_seconds, 0.5 * 2 ** max(0, min(failures, 10) - 1)))


class Child:
    def __init__(self, program: Program, environment: Environment) -> None:
        self.program = program
        self.command = program.command(environment)
        self.environment = {**child_environment(environment), **program.environment}
        # For the web server only: workers serve no metrics, and without a web server the folder does not exist.
        if environment.shared_folder and program.name == "web":
            self.environment["PROMETHEUS_MULTIPROC_DIR"] = str(environment.shared_folder / METRICS)
        self.process: subprocess.Popen[bytes] | None = None
        self.failures = 0
        self.started_at = 0.0
        self.start_at = 0.0
        self._heartbeat: int | None = None
        self._alive_until = 0.0

    def start(self) -> None:
        if self.program.shows_life:
            self.close_heartbeat()
            self._heartbeat, writer = os.pipe()
            for end in (self._heartbeat, writer):
                os.set_blocking(end, False)
            environment = {**self.environment, HEARTBEAT: str(writer)}
            try:
                self.process = spawn(self.command, environment, keep=(writer,))
            finally:
                os.close(writer)
        else:
            self.process = spawn(self.command, self.environment)
        self.started_at = time.monotonic()
        self._alive_until = self.started_at + SILENT_START_SECONDS

    def close_heartbeat(self) -> None:
        if self._heartbeat is not None:
            os.close(self._heartbeat)
            self._heartbeat = None

    def _is_silent(self, now: float) -> bool:
        if self._heartbeat is None:
            return False
        with suppress(BlockingIOError):
            if os.read(self._heartbeat, 65536):
                self._alive_until = now + SILENT_SECONDS
        return now > self._alive_until

    @property
    def is_dead(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def tend(self, now: float, say: Say) -> None:
        """Kill a hung process, record an exit, and restart after the backoff."""
        if self.process is not None and not self.is_dead and self._is_silent(now):
            say(f"{self.program.name} has not been heard of; ending it.")
            kill_group(self.process)
            self.process.wait()
        if self.process is not None and self.is_dead:
            lived_long = now - self.started_at > HEALTHY_AFTER_SECONDS
            self.failures = 1 if lived_long else self.failures + 1
            delay = restart_delay_seconds(self.failures, self.program.longest_pause_seconds)
            ending = describe_exit(self.process.returncode)
            say(f"{self.program.name} ended ({ending}); again in {delay:g} s.")
            kill_group(self.process)
            self.process, self.start_at = None, now + delay
        if self.process is None and now >= self.start_at:
            self.start()


class Supervisor:
    def __init__(self, environment: Environment, *, say: Say, programs: tuple[Program, ...] = PROGRAMS) -> None:
        self.environment = environment
        self.say = say
        if environment.read_only:
            programs = tuple(program for program in programs if program.name == "web")
            if not programs:
                raise SupervisorError("With MEMORYHUB_READ_ONLY no workers run: jobs write.")
        self.children = [Child(program, environment) for program in programs]
        self.serves_web = any(program.name == "web" for program in programs)
        self.cluster = None if environment.database_url else EmbeddedCluster(environment.data_dir)
        if not self.serves_web and self.cluster:
            raise SupervisorError(
                "Workers by themselves need DATABASE_URL: the embedded database belongs to the supervisor of the web "
                "server, which runs workers of its own."
            )
        self.postgres_failures = 0
        self.wakeups = Wakeups()

    def run(self) -> None:
        """Start everything, keep it alive, and end it all at a signal. Raises `SupervisorError`."""
        with self._only_one(), self.wakeups:
            if self.serves_web:
                check_port(self.environment.host, self.environment.port)
                if self.environment.host in EVERY_INTERFACE and not os.environ.get("ALLOWED_HOSTS"):
                    self.say(
                        f"HOST {self.environment.host} lets other machines in, but ALLOWED_HOSTS is not set, so they "
                        "get a 400: set it to the names and addresses they use, with commas."
                    )
            try:
                self._prepare()
                self._start_programs()
                while True:
                    self._keep_alive()
            except StopRequested:
                self.say("Stopping.")
                self._drain()
            finally:
                self._end_children()
                if self.cluster:
                    self.cluster.stop()

    @contextmanager
    def _only_one(self) -> Iterator[None]:
        """Hold the lock of the data folder; the error names the holder."""
        path = self.environment.data_dir / LOCK
        lock = FileLock(path, timeout_seconds=1)
        try:
            data_folder(path.parent)
            lock.acquire()
            lock.note(json.dumps({"pid": os.getpid(), "url": web_url(self.environment)}))
        except PermissionError:
            raise SupervisorError(
                f"{path} belongs to another user. Run as that user, or choose another MEMORYHUB_DATA_DIR."
            ) from None
        except LockHeld:
            noted = lock_holder(path)
            holder = f"process {noted[0]}, {noted[1]}" if noted else "a process that is just starting"
            raise SupervisorError(
                f"memoryhub already runs on {path.parent}: {holder}. End it with `make stop`, "
                "or choose another MEMORYHUB_DATA_DIR and PORT for a second one."
            ) from None
        except OSError as problem:
            raise SupervisorError(f"MEMORYHUB_DATA_DIR {path.parent} cannot be written: {problem.strerror}.") from None
        try:
            yield
        finally:
            lock.note("")
            lock.release()

    def _prepare(self) -> None:
        if self.cluster:
            self.say(f"Starting PostgreSQL in {self.environment.data_dir} …")
            self._step("-m", "memoryhub.runtime.postgres", "start")
            place = f"{self.cluster.home}, and goes with `make clean DATA=1`"
        else:
            database = database_settings(self.environment)
            place = f"the database {database['NAME']} on {database['HOST'] or 'this machine'}"
        self.say(f"The data lies in {place}.")
        if not self.serves_web:
            for sentence in unknown_settings(os.environ):  # as `first_run` does
                self.say(sentence)
            self._step("manage.py", "migrate", "--wait")  # only the supervisor of a web server migrates
            return
        # Delete files of former web processes, so that metrics start at zero.
        shutil.rmtree(self.environment.web_folder, ignore_errors=True)
        if self.environment.shared_folder:
            private_folder(private_folder(self.environment.shared_folder) / METRICS)
        if self.environment.read_only:
            self.say("Nothing is written (MEMORYHUB_READ_ONLY): no migrations, no workers, and the API only reads.")
            return
        self.say("Bringing the database up to date …")
        self._step("manage.py", "migrate", "--noinput", "--verbosity", "0")
        self._step("manage.py", "first_run")

    def _step(self, *arguments: str) -> None:
        """Run one command to its end; a stop request terminates it."""
        step = spawn([sys.executable, *arguments], child_environment(self.environment))
        try:
            while step.poll() is None:
                self._wait(WATCH_SECONDS)
        finally:
            terminate(step)
            terminate_or_kill(step, self.wakeups, deadline=time.monotonic() + GRACE_SECONDS)
        if step.returncode != 0:
            raise SupervisorError(f"`{' '.join(arguments)}` failed ({describe_exit(step.returncode)}).")

    def _wait(self, seconds: float) -> None:
        if not self.wakeups.stops:
            self.wakeups.wait(seconds)
        if self.wakeups.stops:
            raise StopRequested

    def _start_programs(self) -> None:
        """Start all programs and return when the web server answers."""
        deadline = time.monotonic() + HEALTH_SECONDS
        while self.serves_web and not is_healthy(self.environment):
            now = time.monotonic()
            for child in self.children:
                child.tend(now, self.say)
                if child.program.name == "web" and child.failures >= MAX_FAILED_STARTS:
                    raise SupervisorError(f"{child.program.name} does not start; its last words are above.")
            if now > deadline:
                raise SupervisorError(f"The web server did not answer within {HEALTH_SECONDS} seconds.")
            self._wait(0.2)
        where = f"open {web_url(self.environment)}/admin/" if self.serves_web else "workers only"
        self.say(f"memoryhub is ready: {where} (Ctrl-C ends it).")

    def _keep_alive(self) -> None:
        if self.cluster and not self.cluster.is_alive():
            self._revive_postgres(self.cluster)
        for child in self.children:
            child.tend(time.monotonic(), self.say)
        due = [child.start_at - time.monotonic() for child in self.children if child.process is None]
        self._wait(max(0.0, min([WATCH_SECONDS, *due])))

    def _revive_postgres(self, cluster: EmbeddedCluster) -> None:
        """Start PostgreSQL again; if it had to take another port, the children must learn it."""
        self.say("PostgreSQL ended; starting it again.")
        before = cluster.connection()
        try:
            self._step("-m", "memoryhub.runtime.postgres", "start")
        except SupervisorError as failure:
            self.postgres_failures += 1
            delay = restart_delay_seconds(self.postgres_failures, POSTGRES_PAUSE_SECONDS)
            self.say(f"{failure} Again in {delay:g} s.")
            ends_at = time.monotonic() + delay
            while (remaining := ends_at - time.monotonic()) > 0:
                self._wait(remaining)
            return
        self.postgres_failures = 0
        self.say("PostgreSQL runs again.")
        if cluster.connection() != before:
            self._end_children()

    def _drain(self) -> None:
        """Fail readiness while serving, so that a balancer turns to other hosts; a second signal ends the wait."""
        deadline = time.monotonic() + self.environment.drain_seconds
        if self.serves_web and self.environment.drain_seconds:
            private_folder(self.environment.web_folder)
            self.environment.stopping_mark.touch()
            while self.wakeups.stops < 2 and (remaining := deadline - time.monotonic()) > 0:
                self.wakeups.wait(min(WATCH_SECONDS, remaining))

    def _end_children(self) -> None:
        running = [child.process for child in self.children if child.process is not None]
        for process in running:
            terminate(process)
        deadline = time.monotonic() + GRACE_SECONDS  # shared: all received SIGTERM at the same time
        for process in running:
            terminate_or_kill(process, self.wakeups, deadline=deadline)
        for child in self.children:
            child.process, child.start_at = None, 0.0
            child.close_heartbeat()


def spawn(command: list[str], environment: Mapping[str, str], *, keep: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    """Start a process in its own session that dies with its parent; it inherits the given descriptors."""
    return subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=die_with_parent(os.getpid()),
        pass_fds=keep,
    )


def child_environment(environment: Environment) -> dict[str, str]:
    """Pass on our environment, with the data folder as an absolute path: children work in the checkout."""
    return {**os.environ, "MEMORYHUB_DATA_DIR": str(environment.data_dir), "PYTHONUNBUFFERED": "1"}


def terminate(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM, once, to the process alone: it knows best how to end what it started."""
    if process.poll() is None:
        process.terminate()


def terminate_or_kill(process: subprocess.Popen[bytes], wakeups: Wakeups, *, deadline: float) -> None:
    """Wait for a process that was asked to end; kill it, and all that it started, at the deadline (monotonic).

    A second signal to us cuts the wait short.
    """
    impatient = max(1, wakeups.stops) + 1
    while process.poll() is None and time.monotonic() < deadline and wakeups.stops < impatient:
        wakeups.wait(min(WATCH_SECONDS, deadline - time.monotonic()))
    kill_group(process)
    process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill all processes left in the session of a process."""
    with suppress(ProcessLookupError, PermissionError):  # no process left; EPERM on macOS
        os.killpg(process.pid, signal.SIGKILL)


def describe_exit(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def check_port(host: str, port: int) -> None:
    """Raise `SupervisorError` unless we could listen there; asked before anything else is started."""
    try:
        for probe in listen(host, port):
            probe.close()
    except OSError as problem:
        reason = f"Cannot listen on HOST {host!r}, PORT {port}: {problem}."
        if problem.errno == errno.EADDRINUSE:
            reason = f"PORT {port} is in use on {host}. Choose another, for example: PORT={port + 1} make run"
        elif problem.errno == errno.EACCES:
            reason = f"PORT {port} may not be used by this user. Choose one above 1023, for example 8000."
        raise SupervisorError(reason) from None


def web_url(environment: Environment) -> str:
    address = EVERY_INTERFACE.get(environment.host, environment.host)
    return f"http://{f'[{address}]' if ':' in address else address}:{environment.port}"


def is_healthy(environment: Environment) -> bool:
    address = EVERY_INTERFACE.get(environment.host, environment.host)
    name = environment.allowed_hosts[0].lstrip(".")  # any other host would be refused and logged as an attack
    connection = http.client.HTTPConnection(address, environment.port, timeout=2)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost" if name == "*" else name})
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def lock_holder(lock: Path) -> tuple[int, str] | None:
    """Return pid and address of the lock's holder; None where it has not written them yet."""
    try:
        holder = json.loads(lock.read_text())
        return int(holder["pid"]), holder["url"]
    except (ValueError, KeyError, TypeError, OSError):
        return None


def stop(environment: Environment, *, say: Say) -> None:
    """End the supervisor of this data folder, and PostgreSQL if it was left behind.

    The lock, not the pid, says that a supervisor lives; only its holder wrote the pid.
    """
    lock = environment.data_dir / LOCK
    if is_locked(lock):
        if not wait_until(lambda: lock_holder(lock) is not None, timeout_seconds=5):
            raise SupervisorError(f"{lock} is held, but does not say by whom. Try again.")
        pid, _url = lock_holder(lock) or (0, "")
        try:
            os.kill(pid, signal.SIGTERM)
            if not wait_until(lambda: not is_locked(lock), timeout_seconds=STOP_SECONDS):
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda: not is_locked(lock), timeout_seconds=5)
        except ProcessLookupError:
            pass
        except PermissionError:
            raise SupervisorError(f"Process {pid} belongs to another user; stop it as that user.") from None
        say("memoryhub has stopped.")
    else:
        say(f"No memoryhub runs on {environment.data_dir}.")
    if not environment.database_url:
        try:
            EmbeddedCluster(environment.data_dir).stop()
        except PostgresError as problem:
            raise SupervisorError(str(problem)) from problem


def main() -> int:
    """Run the programs that the command line names, or all; `manage.py serve` becomes this."""
    as_json = writes_json()
    handler = logging.StreamHandler()
    handler.setFormatter(SafeJsonFormatter(LINE) if as_json else logging.Formatter("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        programs = programs_named(sys.argv[1:])
        read_secret_files(os.environ)
        Supervisor(read_environment(), say=log.info if as_json else _say, programs=programs).run()
    except (SupervisorError, PostgresError, EnvironmentProblem) as problem:
        if as_json:
            log.error(str(problem))
        else:
            sys.stderr.write(f"memoryhub: {problem}\n")
        return 1
    return 0


def writes_json() -> bool:
    """Return whether lines are JSON as those of the programs are; a person at a terminal reads text."""
    return os.environ.get("MEMORYHUB_LOG_FORMAT", "").strip().lower() in ("", "json") and not sys.stdout.isatty()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
