"""A standby follows and is reported; a copy of the files with the archived log is restored to a moment (SPEC O8)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from memoryhub.runtime.postgres import EmbeddedCluster
from memoryhub.runtime.postgres.server import Server
from memoryhub.runtime.processes import wait_until
from tests.slow.chaos.hub import folder
from tests.slow.chaos.standby import Pair

ROOT = Path(__file__).resolve().parents[2]
REPORT = """
import django; django.setup()
from memoryhub.doctor import followers, read_replicas
from prometheus_client import generate_latest
from memoryhub.jobs.status import DatabaseCollector
from memoryhub.api import health
for finding in [*followers(), *read_replicas()]: print(finding.level.value, finding.detail)
print(generate_latest(DatabaseCollector.registry()).decode())
"""


def report(url: str, replicas: str = "") -> str:
    addresses = {"DATABASE_URL": url, "MEMORYHUB_REPLICA_URLS": replicas}
    environment = {**os.environ, **addresses, "DJANGO_SETTINGS_MODULE": "memoryhub.settings"}
    done = subprocess.run([sys.executable, "-c", REPORT], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def pair() -> Iterator[Pair]:
    with folder() as path:
        pair = Pair(path)
        pair.start()
        try:
            yield pair
        finally:
            pair.destroy()


@pytest.mark.slow
def test_roles_and_lag_are_reported(pair: Pair) -> None:
    several = pair.start().url()
    assert "GRANT pg_read_all_stats" in report(several)
    with pair._superuser("postgres") as primary:
        primary.execute("GRANT pg_read_all_stats TO memoryhub")
    said = report(several, replicas=f"{pair.standby.url()},{pair.primary_url()}")
    assert "ok replica1 answers, 0 bytes of the log to replay" in said
    assert "warning replica2 of MEMORYHUB_REPLICA_URLS does not answer, or is no standby" in said
    assert "ok standby standby: streaming, synchronous" in said
    assert 'memoryhub_standby_lag_seconds{standby="standby"}' in said
    assert "warning connected to a standby" in report(pair.standby.url())
    pair.standby.stop()
    assert wait_until(lambda: "broken writes wait" in report(several), timeout_seconds=30)
    pair.standby.server.start(None)


@pytest.mark.slow
def test_a_database_is_restored_to_a_moment() -> None:
    with folder() as path:
        cluster = EmbeddedCluster(path / "primary")
        archive, base = path / "wal", path / "base"
        for each in (archive, base):
            each.mkdir(mode=0o700)
            cluster.start()
            cluster.account.own(each)
        archiver = sql.Literal(f"test ! -f {archive}/%f && cp %p {archive}/%f")
        with cluster._superuser("postgres") as primary:
            primary.execute("ALTER SYSTEM SET archive_mode = on")
            primary.execute(sql.SQL("ALTER SYSTEM SET archive_command = {}").format(archiver))
        cluster.stop()
        url = cluster.start().url()
        restored = Server(
            base, cluster._server(cluster.data, cluster.major).binaries, cluster.account, fsync=True, connections=60
        )
        try:
            copied = cluster.account.run(
                [
                    restored.binaries.program("pg_basebackup"),
                    f"--pgdata={base}",
                    "--checkpoint=fast",
                    "--wal-method=none",
                    f"--dbname=host=127.0.0.1 port={cluster._read_port()} user=postgres",
                ],
                environment={"PGPASSWORD": cluster._known_passwords().superuser},
            )
            assert copied.returncode == 0, copied.stderr
            with psycopg.connect(url, autocommit=True) as client:
                client.execute("CREATE TABLE kept (at timestamptz DEFAULT clock_timestamp())")
                client.execute("INSERT INTO kept DEFAULT VALUES")
                row = client.execute("SELECT clock_timestamp()::text FROM pg_sleep(0.1)").fetchone()
                client.execute("SELECT pg_sleep(0.1)")
                client.execute("DELETE FROM kept")
            with cluster._superuser("postgres") as primary:
                primary.execute("SELECT pg_switch_wal()")
                archived = "SELECT count(*) > 0 FROM pg_stat_archiver WHERE last_archived_wal >= %s"
                last = primary.execute("SELECT pg_walfile_name(pg_current_wal_lsn() - 1)").fetchone()
                assert wait_until(lambda: bool(primary.execute(archived, last).fetchone()[0]), timeout_seconds=30)  # type: ignore[index]
            assert row is not None
            with (base / "postgresql.auto.conf").open("a") as settings:
                settings.write(f"restore_command = 'cp {archive}/%f %p'\n")
                settings.write(f"recovery_target_time = '{row[0]}'\nrecovery_target_action = 'promote'\n")
            (base / "recovery.signal").touch()
            cluster.account.own(base / "recovery.signal")
            port = restored.start(None)
            with psycopg.connect(url.replace(f":{cluster._read_port()}/", f":{port}/"), autocommit=True) as client:
                assert wait_until(
                    lambda: client.execute("SELECT pg_is_in_recovery()").fetchone() == (False,), timeout_seconds=60
                )
                assert client.execute("SELECT count(*) FROM kept").fetchone() == (1,)
        finally:
            restored.stop()
            cluster.destroy()
