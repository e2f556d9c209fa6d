"""`manage.py serve` as its user meets it: real processes, real signals, real faults."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from memoryhub.env import read_environment
from memoryhub.runtime import supervisor
from memoryhub.runtime.postgres import EmbeddedCluster
from memoryhub.runtime.postgres import server as postgres_server
from memoryhub.runtime.processes import is_locked, wait_until
from memoryhub.runtime.supervisor import (
    PROGRAMS,
    Program,
    Supervisor,
    SupervisorError,
    check_port,
    restart_delay_seconds,
    web_url,
)
from tests.ports import free_port

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 180  # a busy machine starts two installations at once in more than a minute
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and prctl")


class Serving:
    """One `manage.py serve` on a separate folder and port."""

    def __init__(self, folder: Path, *, port: int | None = None) -> None:
        self.data_dir = folder / "data"
        self.port = port or free_port()
        self.output = folder / f"output-{self.port}-{time.monotonic_ns()}"
        self.cluster = EmbeddedCluster(self.data_dir, fsync=False)
        environment = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "HOST"}}
        environment |= {"PORT": str(self.port), "MEMORYHUB_DATA_DIR": str(self.data_dir), "DEMO": "0"}
        self.environment = environment
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                self.command("serve"),
                cwd=CHECKOUT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_mind_signals,
            )

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "manage.py", *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another command in the same environment."""
        return subprocess.run(
            self.command(*words),
            cwd=CHECKOUT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )

    def said(self) -> str:
        """Return the output, and the first login and key, which are in a separate file."""
        first = Path(self.environment["MEMORYHUB_DATA_DIR"]) / "first-login.txt"
        return self.output.read_text(errors="replace") + (first.read_text() if first.exists() else "")

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait, but not for a supervisor that is gone."""
        met = wait_until(lambda: condition() or self.process.poll() is not None, timeout_seconds=PATIENCE_SECONDS)
        assert met, self.said()
        assert condition(), self.said()

    def wait_until_ready(self) -> "Serving":
        self.wait_for(lambda: "memoryhub is ready" in self.said())
        return self

    def wait_for_exit(self) -> int:
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def answers(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self.port}/healthz"
            with urllib.request.urlopen(url, timeout=60) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def web_pids(self) -> set[int]:
        """Find the web server's processes, the first and those forked of it, by command line and port."""
        found = set()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"memoryhub.web" in words and f"PORT={self.port}".encode() in variables:
                found.add(int(entry.name))
        return found

    def postmaster(self) -> int:
        pid = postgres_server.pid_of(self.cluster.data)
        assert pid is not None
        return pid

    def nothing_is_left(self) -> bool:
        return not self.web_pids() and not self.cluster.is_alive() and not self.answers()

    def clean_up(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.cluster.destroy()


def _mind_signals() -> None:
    """In the child: mind SIGHUP also where the tests themselves were started with nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


Serve = Callable[..., Serving]


@pytest.fixture
def serve(make_folder: Callable[[], Path]) -> Iterator[Serve]:
    """Start supervisors, and leave nothing of them behind."""
    started: list[Serving] = []

    def start(folder: Path | None = None, *, port: int | None = None) -> Serving:
        started.append(Serving(folder or make_folder(), port=port))
        return started[-1]

    yield start
    for serving in started:
        serving.clean_up()


@linux_only
def test_serve_survives_the_death_of_its_parts_and_ends_all_at_ctrl_c(serve: Serve) -> None:
    """One long story instead of many short ones: every start costs seconds."""
    serving = serve().wait_until_ready()
    assert serving.answers()

    first_web = serving.web_pids()
    for pid in first_web:
        with suppress(ProcessLookupError):  # those that were forked go with the first
            os.kill(pid, signal.SIGKILL)
    serving.wait_for(lambda: serving.answers() and not serving.web_pids() & first_web)

    first_postmaster = serving.postmaster()
    os.kill(first_postmaster, signal.SIGKILL)
    serving.wait_for(lambda: serving.cluster.is_running() and serving.postmaster() != first_postmaster)
    serving.wait_for(lambda: "PostgreSQL runs again" in serving.said())
    assert serving.answers()

    os.killpg(serving.process.pid, signal.SIGINT)
    assert serving.wait_for_exit() == 0, serving.said()
    assert serving.nothing_is_left()
    assert "Traceback" not in serving.said()
    lines = [json.loads(line) for line in serving.said().splitlines() if "memoryhub.supervisor" in line]
    assert {"PostgreSQL runs again.", "Stopping."} <= {line["message"] for line in lines}


@linux_only
def test_a_killed_supervisor_takes_the_web_along_and_the_next_takes_over_the_database(serve: Serve) -> None:
    killed = serve().wait_until_ready()
    postmaster = killed.postmaster()

    killed.process.kill()
    killed.process.wait()

    assert wait_until(lambda: not killed.web_pids(), timeout_seconds=PATIENCE_SECONDS)
    assert killed.postmaster() == postmaster
    following = serve(killed.data_dir.parent, port=killed.port).wait_until_ready()
    assert following.postmaster() == postmaster
    following.process.terminate()
    assert following.wait_for_exit() == 0, following.said()
    assert following.nothing_is_left()


@linux_only
def test_stop_ends_a_database_that_a_killed_supervisor_left(serve: Serve) -> None:
    serving = serve().wait_until_ready()
    serving.process.kill()
    serving.process.wait()

    stopped = serving.run("stop")

    assert stopped.returncode == 0, stopped.stderr
    assert "No memoryhub runs" in stopped.stdout
    assert not serving.cluster.is_alive()


@pytest.mark.long
@linux_only
def test_two_run_side_by_side_a_second_on_the_same_folder_is_refused_and_stop_stops_one(serve: Serve) -> None:
    first, second = serve(), serve()
    first.wait_until_ready()
    second.wait_until_ready()

    refused = serve(first.data_dir.parent)
    assert refused.wait_for_exit() == 1
    reason = json.loads(refused.output.read_text())["message"]
    assert f"already runs on {first.data_dir}: process {first.process.pid}" in reason
    stopped = first.run("stop")

    assert stopped.returncode == 0, stopped.stderr
    assert first.wait_for_exit() == 0
    assert first.nothing_is_left()
    assert second.answers()
    second.process.send_signal(signal.SIGHUP)
    assert second.wait_for_exit() == 0
    assert second.nothing_is_left()


@linux_only
def test_a_model_that_never_answers_does_not_hold_up_the_end(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as model:  # takes connections, and never says a word
        monkeypatch.setenv("MEMORYHUB_LLM_PROVIDER", "openai")
        monkeypatch.setenv("MEMORYHUB_LLM_BASE_URL", f"http://127.0.0.1:{model.getsockname()[1]}/v1")
        monkeypatch.setenv("MEMORYHUB_LLM_CONTEXT_WINDOW", "100000")  # or the server would be asked for it first
        serving = serve().wait_until_ready()
        key = re.search(r"mh_[0-9a-f]{10}_[\w-]{40,}", serving.said())
        assert key, serving.said()
        url, headers = f"http://127.0.0.1:{serving.port}/api/v1", {"Authorization": f"Bearer {key[0]}"}
        session = {"agent_id": "kana", "user_id": "hiroki", "session_id": str(uuid4())}
        httpx2.post(f"{url}/sessions", json=session, headers=headers).raise_for_status()
        messages = [{"role": "user", "content": "I moved to Kyoto.", "client_message_id": "1"}]
        told = f"{url}/sessions/{session['session_id']}"
        httpx2.post(f"{told}/messages", json={"messages": messages}, headers=headers).raise_for_status()
        httpx2.post(f"{told}/end", headers=headers).raise_for_status()
        question = {"agent_id": "kana", "user_id": "hiroki", "message": "Where do I live?"}
        with ThreadPoolExecutor(1) as clients:
            chat = clients.submit(httpx2.post, f"{url}/chat", json=question, headers=headers, timeout=PATIENCE_SECONDS)
            asked = [model.accept()[0] for _ in range(2)]  # the chat, and a job

            serving.process.terminate()

            assert serving.wait_for_exit() == 0, serving.said()
            assert isinstance(chat.exception(), httpx2.TransportError)
        for connection in asked:
            connection.close()
    assert serving.nothing_is_left()
    _, _, last_lines = serving.output.read_text().partition('"Stopping."')
    logged = [json.loads(line) for line in last_lines.splitlines()[1:]]  # each in the form of all
    assert [line["state"] for line in logged if line["name"] == "memoryhub.jobs.executor"][:1] == ["queued"]
    assert any("graceful shutdown" in line["message"] for line in logged)


def test_all_programs_share_one_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hangs gives the next no more time to end."""
    monkeypatch.setattr(supervisor, "GRACE_SECONDS", 2)
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text(
        "import signal, sys, time\n"
        "def late(*_):\n    time.sleep(float(sys.argv[1]))\n    sys.exit()\n"
        "signal.signal(signal.SIGTERM, late)\nprint('ready', flush=True)\ntime.sleep(600)\n"
    )
    environment = read_environment(
        {"DATABASE_URL": "postgresql://u:p@127.0.0.1/d", "MEMORYHUB_DATA_DIR": str(tmp_path)}
    )
    programs = tuple(Program(name="web", arguments=f"{stubborn} {seconds}") for seconds in (600, 3))
    watching = Supervisor(environment, say=print, programs=programs)
    with watching.wakeups:
        processes = []
        for child in watching.children:
            child.process = subprocess.Popen(child.command, stdout=subprocess.PIPE, start_new_session=True)
            assert child.process.stdout is not None and child.process.stdout.readline() == b"ready\n"
            processes.append(child.process)
        watching._end_children()
    for process in processes:
        assert process.stdout is not None
        process.stdout.close()
    assert [process.returncode for process in processes] == [-signal.SIGKILL] * 2


def test_serve_refuses_a_port_in_use_before_it_starts_anything(serve: Serve) -> None:
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        serving = serve(port=port)

        assert serving.wait_for_exit() == 1

    assert f"PORT {port} is in use on 127.0.0.1. Choose another" in serving.said()
    assert not serving.cluster.folder.exists()


@linux_only
def test_a_signal_during_the_start_leaves_nothing(serve: Serve) -> None:
    serving = serve()
    serving.wait_for(lambda: any(serving.cluster.home.glob("*/PG_VERSION")))

    serving.process.terminate()

    assert serving.wait_for_exit() == 0, serving.said()
    assert serving.nothing_is_left()
    assert not is_locked(serving.data_dir / "serve.lock")


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0.5), (1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (1000, 30.0)]
)
def test_restart_delay_doubles_up_to_half_a_minute(failures: int, seconds: float) -> None:
    assert restart_delay_seconds(failures) == seconds


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8123"),
        ("0.0.0.0", "http://127.0.0.1:8123"),
        ("::", "http://[::1]:8123"),
        ("example.test", "http://example.test:8123"),
    ],
)
def test_web_url_names_an_address_that_can_be_opened(host: str, url: str) -> None:
    assert web_url(read_environment({"HOST": host, "PORT": "8123"})) == url


def test_check_port_names_a_host_that_is_not_ours() -> None:
    with pytest.raises(SupervisorError, match=r"HOST '192\.0\.2\.1'"):
        check_port("192.0.2.1", 8123)


def test_every_program_has_a_name_of_its_own_and_a_filled_in_command() -> None:
    environment = read_environment({"PORT": "8123"})

    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    for program in PROGRAMS:
        assert not re.search(r"[{}]", json.dumps(program.command(environment)))


def test_with_an_external_database_no_server_is_embedded(tmp_path: Path) -> None:
    environment = read_environment(
        {"DATABASE_URL": "postgresql://u:p@127.0.0.1/d", "MEMORYHUB_DATA_DIR": str(tmp_path)}
    )

    assert Supervisor(environment, say=print).cluster is None
