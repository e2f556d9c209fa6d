"""Free space where the embedded database lies, against the watermarks below which it warns and writes are refused.

PostgreSQL on a full disk stops with a panic as soon as it cannot write ahead; so writes end while it still can. Of an
external database's disk nothing is known here; that it is full is told by the error of a write.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from memoryhub.runtime.postgres import EmbeddedCluster

WARNED_AT: Final = 5
"""A warning is given below this many times what must stay free."""


class Placement(Protocol):
    """Settings that say where the database lies and how much space it needs."""

    @property
    def data_dir(self) -> Path: ...
    @property
    def database_url(self) -> str | None: ...
    @property
    def min_free_mb(self) -> int: ...


@dataclass(frozen=True)
class DiskSpace:
    """Free megabytes at a path, and how many must stay free."""

    path: Path
    free_mb: int
    min_free_mb: int

    @property
    def is_full(self) -> bool:
        return self.free_mb < self.min_free_mb

    @property
    def is_low(self) -> bool:
        return self.free_mb < WARNED_AT * self.min_free_mb

    @property
    def detail(self) -> str:
        """Say how much is free, and what that means; without the path, for it is told to everybody."""
        free = f"{self.free_mb} MB are free where the database lies"
        if self.is_full:
            return f"{free}, less than {self.min_free_mb}: writes and jobs wait until there is room"
        return f"{free}; below {self.min_free_mb} writes are refused" if self.is_low else free


def disk_space(environment: Placement) -> DiskSpace | None:
    """Look at the disk of the embedded database; None where there is none to look at."""
    if environment.database_url:
        return None
    path = EmbeddedCluster(environment.data_dir).home
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return DiskSpace(path, found.f_bavail * found.f_frsize >> 20, environment.min_free_mb)
