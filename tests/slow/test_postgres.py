"""The embedded server against real faults: kills, stale files, taken ports, other users, older versions."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from memoryhub.runtime.postgres import ConnectionInfo, EmbeddedCluster, PostgresError
from memoryhub.runtime.postgres import server as postgres_server
from memoryhub.runtime.processes import pids_in, wait_until

OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
CHECKOUT = Path(__file__).resolve().parents[2]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
with_proc = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs /proc")

PLENTY = {"MEMORYHUB_DB_POOL_MAX": "300", "MEMORYHUB_WORKERS": "40"}

MakeCluster = Callable[..., EmbeddedCluster]


@pytest.fixture
def make_cluster(make_folder: Callable[[], Path]) -> Iterator[MakeCluster]:
    """Make clusters in folders of their own, and destroy them afterwards."""
    made: list[EmbeddedCluster] = []

    def make(**options: bool) -> EmbeddedCluster:
        made.append(EmbeddedCluster(make_folder() / "data", **{"fsync": False, **options}))
        return made[-1]

    yield make
    for cluster in made:
        cluster.destroy()


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> EmbeddedCluster:
    """Give a cluster that runs."""
    cluster = make_cluster()
    cluster.start()
    return cluster


def ask(connection: ConnectionInfo, query: str) -> object:
    """Run one query as the application's role and return its first value."""
    with psycopg.connect(connection.url(), autocommit=True) as session:
        row = session.execute(query).fetchone()
    return row[0] if row else None


def execute(connection: ConnectionInfo, statement: str) -> None:
    """Run one statement as the application's role."""
    with psycopg.connect(connection.url(), autocommit=True) as session:
        session.execute(statement)


def postmaster(cluster: EmbeddedCluster) -> int:
    """Return the pid of the cluster's postmaster, which must live."""
    pid = postgres_server.pid_of(cluster.data)
    assert pid is not None
    return pid


def test_a_cluster_never_started_has_no_connection(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()

    assert cluster.connection() is None
    assert not cluster.is_running()
    cluster.stop()
    assert not cluster.folder.exists()


def test_start_makes_a_utf8_database_with_vector_that_an_ordinary_role_owns(cluster: EmbeddedCluster) -> None:
    connection = cluster.connection()
    assert connection is not None

    assert ask(connection, "SELECT '[1,2]'::vector <-> '[1,3]'::vector") == 1.0
    assert ask(connection, "SELECT lower('ÄÖ')") == "äö"
    assert ask(connection, "SHOW server_encoding") == "UTF8"
    assert ask(connection, "SHOW data_checksums") == "on"
    assert ask(connection, "SHOW listen_addresses") == "127.0.0.1"
    rights = "rolsuper OR rolcreatedb OR rolcreaterole OR rolbypassrls"
    assert ask(connection, f"SELECT {rights} FROM pg_roles WHERE rolname = current_user") is False
    execute(connection, "CREATE EXTENSION IF NOT EXISTS vector")
    execute(connection, "CREATE TABLE kept (id int)")


def test_a_role_that_may_create_databases_gets_vector_in_them(make_cluster: MakeCluster) -> None:
    connection = make_cluster(createdb=True).start()

    execute(connection, "CREATE DATABASE another")

    other = ConnectionInfo(**{**connection.__dict__, "dbname": "another"})
    assert ask(other, "SELECT '[1]'::vector::text") == "[1]"


def test_a_wrong_password_is_refused(cluster: EmbeddedCluster) -> None:
    connection = cluster.connection()
    assert connection is not None
    wrong = ConnectionInfo(**{**connection.__dict__, "password": "guess"})

    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        ask(wrong, "SELECT 1")


def test_start_twice_keeps_the_running_server(cluster: EmbeddedCluster) -> None:
    pid, before = postmaster(cluster), cluster.connection()

    assert EmbeddedCluster(cluster.data_dir, fsync=False).start() == before
    assert postmaster(cluster) == pid


@pytest.mark.parametrize(("wanted", "taken"), [({}, 60), (PLENTY, 300 + 3 * 40 + 12)])
def test_it_takes_as_many_connections_as_the_settings_may_open(
    wanted: dict[str, str], taken: int, make_cluster: MakeCluster
) -> None:
    cluster = make_cluster()
    subprocess.run(
        [sys.executable, "-m", "memoryhub.runtime.postgres", "start"],
        cwd=CHECKOUT,
        check=True,
        timeout=300,
        env={**os.environ, **wanted, "MEMORYHUB_DATA_DIR": str(cluster.data_dir)},
    )
    connection = cluster.connection()
    assert connection is not None
    assert ask(connection, "SHOW max_connections") == str(taken)


def test_a_wrong_setting_keeps_it_from_starting_but_not_from_stopping(cluster: EmbeddedCluster) -> None:
    def run(action: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "memoryhub.runtime.postgres", action],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            env={**os.environ, "MEMORYHUB_WORKERS": "many", "MEMORYHUB_DATA_DIR": str(cluster.data_dir)},
            timeout=300,
        )

    refused = run("start")
    assert (refused.returncode, "MEMORYHUB_WORKERS" in refused.stderr) == (1, True)
    assert "Traceback" not in refused.stderr
    assert run("stop").returncode == 0
    assert not cluster.is_running()


def test_start_from_two_processes_at_once_makes_one_server(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    command = [sys.executable, "-m", "memoryhub.runtime.postgres", "start"]
    environment = {**os.environ, "MEMORYHUB_DATA_DIR": str(cluster.data_dir)}

    both = [subprocess.Popen(command, cwd=CHECKOUT, env=environment) for _ in range(2)]

    assert [process.wait(timeout=300) for process in both] == [0, 0]
    assert cluster.is_running()


def test_stop_leaves_no_process_and_keeps_the_data(cluster: EmbeddedCluster) -> None:
    connection = cluster.connection()
    assert connection is not None
    execute(connection, "CREATE TABLE kept AS SELECT 42 AS answer")

    cluster.stop()

    assert not cluster.is_running()
    assert not pids_in(cluster.data)
    assert ask(cluster.start(), "SELECT answer FROM kept") == 42


@with_proc
def test_start_recovers_after_the_postmaster_was_killed_under_a_long_statement(cluster: EmbeddedCluster) -> None:
    connection = cluster.connection()
    assert connection is not None
    endless = "SELECT count(*) FROM generate_series(1, 100000000000)"
    session = psycopg.connect(connection.url(), autocommit=True)
    session.pgconn.send_query(endless.encode())
    busy = session.info.backend_pid
    at_work = f"SELECT state = 'active' FROM pg_stat_activity WHERE pid = {busy}"
    assert wait_until(lambda: ask(connection, at_work) is True, timeout_seconds=60)
    pid = postmaster(cluster)

    os.kill(pid, signal.SIGKILL)

    assert wait_until(lambda: not cluster.is_alive(), timeout_seconds=60)
    assert not cluster.is_running()
    assert busy in pids_in(cluster.data), "the orphan should still hold the shared memory"
    assert cluster.start() == connection
    assert busy not in pids_in(cluster.data)
    assert ask(connection, "SELECT 1") == 1
    with suppress(psycopg.Error):
        session.close()


@with_proc
def test_a_recycled_pid_is_not_taken_for_the_server(cluster: EmbeddedCluster) -> None:
    """PostgreSQL itself refuses to start when a stranger of the same user has the pid in its file."""
    pid_file = cluster.data / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    cluster.stop()
    stranger = subprocess.Popen(["sleep", "600"], cwd="/", **cluster.account.process_arguments())
    pid_file.write_text("\n".join([str(stranger.pid), *lines[1:]]))

    try:
        assert not cluster.is_running()
        cluster.start()
        assert cluster.is_running()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_foreign_server_on_the_port_is_not_taken_for_ours(make_cluster: MakeCluster) -> None:
    ours, foreign = make_cluster(), make_cluster()
    before = ours.start()
    pid_file = (ours.data / "postmaster.pid").read_text()
    ours.stop()
    shutil.copy(ours.folder / "port", _made(foreign.folder) / "port")
    assert foreign.start().port == before.port
    (ours.data / "postmaster.pid").write_text(pid_file)

    assert not ours.is_running()
    assert ours.start().port != before.port
    assert ours.is_running()
    assert foreign.is_running()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    if os.geteuid() == 0:
        for part in (folder, folder.parent):
            part.chmod(0o711)
    return folder


def test_a_taken_port_is_replaced_and_remembered(cluster: EmbeddedCluster) -> None:
    before = cluster.connection()
    assert before is not None
    cluster.stop()

    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", before.port))
        squatter.listen()
        after = cluster.start()

    assert after.port != before.port
    assert cluster.connection() == after
    assert ask(after, "SELECT 1") == 1


@with_proc
@pytest.mark.skipif(OVERCOMMIT.is_file() and OVERCOMMIT.read_text() == "1\n", reason="any memory is given")
def test_where_the_memory_is_refused_the_server_starts_with_the_least(
    make_cluster: MakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    terabytes = range(postgres_server.BUFFERS_MB.start, 4 << 20)
    monkeypatch.setattr(postgres_server, "BUFFERS_MB", terabytes)
    monkeypatch.setattr(postgres_server, "memory_mb", lambda: 4 * terabytes.stop)
    monkeypatch.setattr(postgres_server, "SMALL_BUFFERS_MB", terabytes.stop)

    connection = make_cluster().start()

    assert ask(connection, "SHOW shared_buffers") == "128MB"
    assert [record.levelname for record in caplog.records if "starts with 128 MB" in record.message] == ["WARNING"]


@pytest.mark.parametrize(
    ("memory", "data", "buffers"),
    [(24_000, 40, 1_024), (24_000, 900, 1_800), (24_000, 9_000, 4_096), (2_048, 900, 512), (256, 40, 128)],
)
def test_the_buffers_are_for_the_data_and_within_the_memory(memory: int, data: int, buffers: int) -> None:
    assert postgres_server.buffers_mb(memory, data) == buffers


def test_what_does_not_start_with_the_least_either_is_told_once(
    make_cluster: MakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def refuse(server: postgres_server.Server, port: int, buffers: int) -> None:
        tried.append(buffers)
        raise postgres_server.NoMemory("FATAL:  could not map anonymous shared memory")

    monkeypatch.setattr(postgres_server, "memory_mb", lambda: 2048)
    monkeypatch.setattr(postgres_server.Server, "_launch_with", refuse)

    with pytest.raises(PostgresError, match="could not map"):
        make_cluster().start()

    assert tried == [512, 128]


def test_an_interrupted_initialisation_is_made_good(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    starter = subprocess.Popen(
        [sys.executable, "-m", "memoryhub.runtime.postgres", "start"],
        cwd=CHECKOUT,
        env={**os.environ, "MEMORYHUB_DATA_DIR": str(cluster.data_dir)},
    )
    assert wait_until(lambda: any(cluster.folder.glob(".unfinished-*/base")), timeout_seconds=300)
    starter.kill()
    starter.wait()
    assert cluster.connection() is None

    assert ask(cluster.start(), "SELECT 1") == 1
    assert not list(cluster.folder.glob(".unfinished-*"))


def test_lost_passwords_are_replaced(cluster: EmbeddedCluster) -> None:
    before = cluster.connection()
    assert before is not None
    (cluster.folder / "passwords").unlink()
    assert cluster.connection() is None

    after = cluster.start()

    assert after.password != before.password
    assert ask(after, "SELECT 1") == 1


def test_a_failed_statement_leaves_no_text_in_the_log(cluster: EmbeddedCluster) -> None:
    connection = cluster.connection()
    assert connection is not None
    execute(connection, "CREATE TABLE once (word text PRIMARY KEY)")

    for _ in range(2):
        with suppress(psycopg.Error):
            execute(connection, "INSERT INTO once VALUES ('my-secret-word')")

    def log() -> str:
        return "".join(path.read_text() for path in (cluster.home / "log").iterdir())

    assert wait_until(lambda: "once_pkey" in log(), timeout_seconds=60), "the collector writes a little later"
    assert "my-secret-word" not in log()


@as_root
def test_other_users_can_read_neither_data_nor_passwords(cluster: EmbeddedCluster) -> None:
    secrets = [cluster.folder / "passwords", cluster.data / "PG_VERSION", cluster.folder / "lock"]

    for path in secrets:
        assert path.exists()
        assert subprocess.run(["cat", path], user="nobody", capture_output=True).returncode != 0
    assert subprocess.run(["ls", cluster.folder], user="nobody", capture_output=True).returncode != 0


@as_root
def test_as_root_the_server_runs_as_somebody_else(cluster: EmbeddedCluster) -> None:
    status = Path(f"/proc/{postmaster(cluster)}/status").read_text()

    assert "Uid:\t0\t" not in status


@as_root
def test_a_folder_that_is_closed_to_the_account_stays_closed(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    closed = cluster.data_dir.parent
    closed.chmod(0o700)

    connection = cluster.start()

    assert ask(connection, "SELECT 1") == 1
    assert closed.stat().st_mode & 0o777 == 0o700
    assert cluster.home.parent == Path("/var/lib/memoryhub")
    assert EmbeddedCluster(cluster.data_dir).connection() == connection
    home = cluster.home
    cluster.destroy()
    assert not home.exists()


@as_root
def test_data_of_a_deleted_installation_is_taken_over_only_when_told_and_deleted_when_told(
    make_folder: Callable[[], Path],
) -> None:
    closed = make_folder() / "closed"
    closed.mkdir(mode=0o700)
    left = EmbeddedCluster(closed / "data", fsync=False)
    execute(left.start(), "CREATE TABLE secret ()")
    home, found = left.home, "SELECT to_regclass('secret')::text"
    try:
        shutil.rmtree(left.data_dir)  # as `rm -r` of a checkout does, its postmaster still running

        again = EmbeddedCluster(left.data_dir, fsync=False)
        with pytest.raises(PostgresError, match=f"{home} holds the database of an earlier installation"):
            again.start()
        adopting = EmbeddedCluster(left.data_dir, fsync=False, adopt_data=True)
        assert ask(adopting.start(), found) == "secret"
        assert ask(EmbeddedCluster(left.data_dir, fsync=False).start(), found) == "secret", "it was told once"

        shutil.rmtree(left.data_dir)
        again.destroy()
        assert not home.exists()
        assert ask(EmbeddedCluster(left.data_dir, fsync=False).start(), found) is None
    finally:
        EmbeddedCluster(left.data_dir).destroy()


@as_root
def test_programs_that_the_account_cannot_reach_are_copied(
    make_cluster: MakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memoryhub.runtime.postgres import binaries

    packaged = binaries.find_binaries(18)
    package = tmp_path / binaries.PACKAGE
    shutil.copytree(packaged.folder, package / packaged.folder.name)
    libraries = packaged.folder.parent.with_name(f"{binaries.PACKAGE}.libs")
    shutil.copytree(libraries, tmp_path / libraries.name)
    tmp_path.chmod(0o700)
    hidden = binaries.Binaries(18, package / packaged.folder.name)
    monkeypatch.setattr(binaries, "find_binaries", lambda major: hidden)
    monkeypatch.delenv("MEMORYHUB_POSTGRES_VERSION", raising=False)

    cluster = make_cluster()
    try:
        assert ask(cluster.start(), "SELECT 1") == 1
        assert tmp_path.stat().st_mode & 0o777 == 0o700
    finally:
        cluster.destroy()
        for copy in (binaries.SYSTEM_HOME / "programs").glob(f"*{binaries.short_hash(package)}*"):
            shutil.rmtree(copy)


@as_root
@pytest.mark.skipif(shutil.which("runuser") is None, reason="needs runuser")
def test_an_ordinary_user_runs_its_own_server_and_another_is_refused(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    cluster.account  # noqa: B018 - creates the system user, who plays the ordinary user here
    cluster.data_dir.mkdir()
    os.chown(cluster.data_dir, cluster.account.uid, cluster.account.gid)

    started = _by_hand("start", cluster.data_dir, user=cluster.account.name)
    assert started.returncode == 0, started.stderr
    refused = _by_hand("url", cluster.data_dir, user="nobody")
    again = cluster.start()
    url = _by_hand("url", cluster.data_dir, user=cluster.account.name)

    assert url.stdout.strip() == again.url()
    assert refused.returncode == 1
    assert "belongs to another user" in refused.stderr
    assert ask(again, "SELECT 1") == 1
    assert (cluster.folder / "passwords").stat().st_uid == cluster.account.uid


def _by_hand(action: str, data_dir: Path, *, user: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m memoryhub.runtime.postgres` as that user, with a Python that the user can reach."""
    packages = str(Path(psycopg.__file__).parents[1])
    environment = {**os.environ, "MEMORYHUB_DATA_DIR": str(data_dir), "PYTHONPATH": packages, "HOME": "/"}
    as_user = ["runuser", "-u", user, "--"]
    for python in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        tried = subprocess.run([*as_user, python, "-c", "import psycopg.pq"], env=environment, capture_output=True)
        if tried.returncode == 0:
            command = [*as_user, python, "-m", "memoryhub.runtime.postgres", action]
            return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=300)
    pytest.skip(f"no Python here that user {user} can run")


def test_an_older_version_is_moved_over_and_kept(make_cluster: MakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORYHUB_POSTGRES_VERSION", "16")
    old = make_cluster()
    execute(old.start(), "CREATE TABLE kept AS SELECT 'こんにちは' AS word, '[1,2]'::vector AS place")
    monkeypatch.setenv("MEMORYHUB_POSTGRES_VERSION", "18")
    new = EmbeddedCluster(old.data_dir, fsync=False)
    old.stop()

    connection = new.start()

    assert ask(connection, "SELECT current_setting('server_version_num')::int / 10000") == 18
    assert ask(connection, "SELECT word FROM kept WHERE place = '[1,2]'") == "こんにちは"
    assert ask(connection, "SELECT tableowner FROM pg_tables WHERE tablename = 'kept'") == "memoryhub"
    assert (old.data / "PG_VERSION").read_text().strip() == "16"
    assert not list(new.home.glob(".unfinished-*"))
    new.stop()
    monkeypatch.setenv("MEMORYHUB_POSTGRES_VERSION", "16")
    with pytest.raises(PostgresError, match=r"was written by PostgreSQL 18.*pg_dump"):
        EmbeddedCluster(old.data_dir, fsync=False).start()


def test_a_newer_version_is_refused_with_what_to_do(make_cluster: MakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORYHUB_POSTGRES_VERSION", "18")
    newer = make_cluster()
    newer.start()
    newer.stop()
    monkeypatch.setenv("MEMORYHUB_POSTGRES_VERSION", "16")

    with pytest.raises(PostgresError, match=r"was written by PostgreSQL 18.*pg_dump"):
        EmbeddedCluster(newer.data_dir, fsync=False).start()


def test_an_unknown_version_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEMORYHUB_POSTGRES_VERSION", "12")

    with pytest.raises(PostgresError, match="MEMORYHUB_POSTGRES_VERSION is '12'"):
        EmbeddedCluster(tmp_path)


@pytest.mark.parametrize("version", ["16", "18"])
def test_a_dump_is_restored_and_nobody_else_can_read_it(
    make_cluster: MakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("MEMORYHUB_POSTGRES_VERSION", version)
    source, target, file = make_cluster(), make_cluster(), tmp_path / "hub.dump"
    execute(source.start(), "CREATE TABLE kept AS SELECT 'こんにちは' AS word, '[1,2]'::vector AS place")
    connection = target.start()

    assert _told(source, "dump", file) == (0, "") and file.stat().st_mode & 0o777 == 0o600
    assert _told(target, "restore", file) == (0, "")
    assert ask(connection, "SELECT word FROM kept WHERE place = '[1,2]'") == "こんにちは"

    code, problem = _told(target, "restore", file)
    assert code == 1 and "has tables already" in problem and "MEMORYHUB_DATA_DIR" in problem
    assert ask(connection, "SELECT count(*) FROM kept") == 1


def test_a_dump_that_fails_leaves_what_was_there(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    file = tmp_path / "hub.dump"
    file.write_text("of yesterday")
    cluster.stop()

    code, problem = _told(cluster, "dump", file)
    assert code == 1 and "Connection refused" in problem
    assert file.read_text() == "of yesterday" and list(tmp_path.iterdir()) == [file]

    code, problem = _told(cluster, "dump", tmp_path / "nowhere" / "hub.dump")
    assert code == 1 and "cannot be written: No such file or directory." in problem


def _told(cluster: EmbeddedCluster, action: str, file: Path) -> tuple[int, str]:
    environment = {**os.environ, "MEMORYHUB_DATA_DIR": str(cluster.data_dir)}
    command = [sys.executable, "-m", "memoryhub.runtime.postgres", action, str(file)]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stderr
