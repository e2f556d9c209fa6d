"""The embedded PostgreSQL: `EmbeddedCluster(data_dir).start()` is all that most callers need.

Why not the package's own `get_server()`: it makes a superuser server without a password, opens parent
folders to everybody when run as root, trusts stale pids and gives up after ten seconds. So only its binaries
are used. This package knows nothing of Django; settings ask it where the database is.

`cluster` is the public face, `server` one data folder and its postmaster, `binaries` the programs and the
account that runs them. `python -m memoryhub.runtime.postgres start|stop|status|url|psql|destroy` works by hand.

Writes are refused before its disk is full: PostgreSQL panics when it cannot write its WAL. The disk of an external
database cannot be checked from here; a full one shows as the error of a write.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memoryhub.env import Environment
from memoryhub.runtime.postgres.binaries import PostgresError
from memoryhub.runtime.postgres.cluster import ConnectionInfo, EmbeddedCluster

__all__ = ["ConnectionInfo", "DiskSpace", "EmbeddedCluster", "PostgresError", "disk_space", "explain_outage"]

WARNING_FACTOR: Final = 5
FOLDER_MB: Final = 20
"""Megabytes that the data folder needs without the database: metrics are mapped into memory from files in it."""

"""A warning is given below this many times what must stay free."""


def explain_outage(error: Exception) -> str:
    """Return the first line of the driver's message and what to check, for an operator at a prompt."""
    lines = str(error).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    advice = "Start it with `make run`; if its data lie elsewhere, set MEMORYHUB_DATA_DIR as for `make run`."
    if os.environ.get("DATABASE_URL"):
        advice = "Check DATABASE_URL, and that server."
    elif "FATAL" in reason:
        advice = "It runs and refuses; its log is in postgres/log in the data folder."
    return f"the database does not answer as it should ({reason}). {advice}"


@dataclass(frozen=True)
class DiskSpace:
    """Free megabytes at a path, and how many must stay free; of the database's disk, or of the data folder's alone."""

    path: Path
    free_mb: int
    min_free_mb: int
    holds_database: bool = True

    @property
    def is_full(self) -> bool:
        return self.free_mb < self.min_free_mb

    @property
    def is_low(self) -> bool:
        return self.free_mb < WARNING_FACTOR * self.min_free_mb

    @property
    def detail(self) -> str:
        """Describe the free space, without the path, since the text is public."""
        if not self.holds_database:
            free = f"{self.free_mb} MB are free in the data folder"
            return f"{free}, where web processes need some for metrics" if self.is_full else free
        free = f"{self.free_mb} MB are free where the database lies"
        if self.is_full:
            return f"{free}, less than {self.min_free_mb}: writes and jobs wait until there is room"
        return f"{free}; below {self.min_free_mb} writes are refused" if self.is_low else free


def disk_space(environment: Environment) -> DiskSpace | None:
    """Look at the disk of the embedded database; None where there is none to look at."""
    if environment.database_url:
        return None
    path = EmbeddedCluster(environment.data_dir).home
    try:
        return DiskSpace(path, _free_mb(path), environment.min_free_mb)
    except OSError:
        return None


def watched_space(environment: Environment) -> DiskSpace:
    """Look at the disk of the embedded database, or where there is none, of the data folder."""
    if (space := disk_space(environment)) is not None:
        return space
    path = environment.data_dir
    while not path.exists():
        path = path.parent
    return DiskSpace(path, _free_mb(path), min(environment.min_free_mb, FOLDER_MB), holds_database=False)


def _free_mb(path: Path) -> int:
    stats = os.statvfs(path)
    return stats.f_bavail * stats.f_frsize >> 20
