"""A hot standby of an embedded PostgreSQL, whose replay can be delayed, and which takes over when it is promoted."""

import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from memoryhub.runtime.postgres import ConnectionInfo, EmbeddedCluster
from memoryhub.runtime.postgres.server import Server, pid_of
from memoryhub.runtime.processes import kill_all, pids_in, wait_until

NAME = "standby"


class Standby:
    """A copy of a primary made by `pg_basebackup`, which follows it by streaming replication."""

    def __init__(self, primary: EmbeddedCluster, folder: Path, *, name: str = NAME) -> None:
        self.primary, self.name = primary, name
        self.data = folder / name
        self.server = Server(
            self.data,
            primary._server(primary.data, primary.major).binaries,
            primary.account,
            fsync=True,
            connections=primary.connections,
        )
        self.info: ConnectionInfo | None = None

    def start(self) -> ConnectionInfo:
        """Copy the running primary, follow it, and return how to connect."""
        self.server._make_private(self.data)
        address = self.primary.connection()
        assert address is not None
        superuser = self.primary._known_passwords().superuser
        result = self.server.account.run(
            [
                self.server.binaries.program("pg_basebackup"),
                f"--pgdata={self.data}",
                f"--dbname=host={address.host} port={address.port} user=postgres application_name={self.name}",
                "--checkpoint=fast",
                "--wal-method=stream",
                "--write-recovery-conf",
                "--create-slot",
                f"--slot={self.name}_{secrets.token_hex(4)}",
                "--no-sync",
            ],
            environment={"PGPASSWORD": superuser},
        )
        assert result.returncode == 0, result.stderr
        self.info = replace(address, port=self.server.start(None))
        return self.info

    def url(self) -> str:
        assert self.info is not None
        return self.info.url()

    @contextmanager
    def superuser(self) -> Iterator[psycopg.Connection[Any]]:
        assert self.info is not None
        password = self.primary._known_passwords().superuser
        with psycopg.connect(replace(self.info, user="postgres", password=password).url(), autocommit=True) as opened:
            yield opened

    def delay(self, seconds: float) -> None:
        """Replay commits so many seconds after the primary made them."""
        with self.superuser() as connection:
            connection.execute(
                sql.SQL("ALTER SYSTEM SET recovery_min_apply_delay = {}").format(sql.Literal(f"{seconds * 1000:.0f}ms"))
            )
            connection.execute("SELECT pg_reload_conf()")

    def pause(self) -> None:
        with self.superuser() as connection:
            connection.execute("SELECT pg_wal_replay_pause()")

    def resume(self) -> None:
        with self.superuser() as connection:
            connection.execute("SELECT pg_wal_replay_resume()")

    def promote(self) -> None:
        result = self.server._pg_ctl("promote", timeout_seconds=60)
        assert result.returncode == 0, result.stderr

    def stop(self) -> None:
        self.server.stop()


@dataclass(frozen=True)
class Addresses(ConnectionInfo):
    """A primary and its standby as clients name them, in this order."""

    standby_port: int

    def url(self) -> str:
        return super().url().replace(f":{self.port}/", f":{self.port},{self.host}:{self.standby_port}/")


class Pair(EmbeddedCluster):
    """A primary with a synchronous standby: what is acknowledged is on both."""

    def __init__(self, folder: Path, *, synchronous: bool = True, createdb: bool = False) -> None:
        super().__init__(folder / "primary", createdb=createdb)
        self.standby = Standby(self, folder)
        self.synchronous = synchronous

    def connection(self) -> ConnectionInfo | None:
        primary = super().connection()
        if primary is None or self.standby.info is None:
            return primary
        return Addresses(**primary.__dict__, standby_port=self.standby.info.port)

    def primary_url(self) -> str:
        primary = super().connection()
        assert primary is not None
        return primary.url()

    def start(self) -> ConnectionInfo:
        """Start both; the second time, return how to connect."""
        if self.standby.info is None:
            super().start()
            self.standby.start()
            if self.synchronous:
                with self._superuser("postgres") as connection:
                    connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
                    connection.execute("SELECT pg_reload_conf()")
        found = self.connection()
        assert found is not None
        return found

    def kill_primary(self) -> None:
        """Kill every process of the primary at once, as a power cut does."""
        postmaster = pid_of(self.data)
        assert postmaster is not None
        kill_all([postmaster], signal.SIGKILL)

        def is_dead() -> bool:
            left = pids_in(self.data)  # one that was forked meanwhile is among them
            kill_all(left, signal.SIGKILL)
            return not left

        assert wait_until(is_dead, timeout_seconds=10)

    def destroy(self) -> None:
        self.standby.stop()
        super().destroy()
