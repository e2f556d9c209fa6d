"""The roles of PostgreSQL servers in streaming replication, as the connected one sees them."""

from dataclasses import dataclass
from typing import Final

from django.db import connection

STREAMING: Final = "streaming"

STANDBYS: Final = """
SELECT application_name, state, sync_state,
       extract(epoch FROM coalesce(replay_lag, interval '0'))::float8,
       pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::int8
FROM pg_stat_replication ORDER BY application_name
"""

ROLE: Final = "SELECT pg_is_in_recovery(), current_setting('synchronous_standby_names')"


@dataclass(frozen=True)
class Standby:
    """A server that follows this one; `state` is None where this account may not see it (`pg_read_all_stats`)."""

    name: str
    state: str | None
    is_synchronous: bool
    lag_seconds: float
    lag_bytes: int


@dataclass(frozen=True)
class Replication:
    """The connected server's role, and who follows it."""

    is_standby: bool
    waits_for_standbys: bool
    standbys: tuple[Standby, ...] = ()

    @property
    def are_writes_waiting(self) -> bool:
        """Return whether commits wait for a synchronous standby that is not there."""
        is_unknown = any(each.state is None for each in self.standbys)
        return self.waits_for_standbys and not is_unknown and not any(each.is_synchronous for each in self.standbys)


def replication() -> Replication:
    with connection.cursor() as cursor:
        cursor.execute(ROLE)
        is_standby, names = cursor.fetchone()
        if is_standby:
            return Replication(is_standby=True, waits_for_standbys=False)
        cursor.execute(STANDBYS)
        standbys = tuple(
            Standby(name or "", state, sync in ("sync", "quorum"), seconds or 0.0, lag or 0)
            for name, state, sync, seconds, lag in cursor.fetchall()
        )
    return Replication(is_standby=False, waits_for_standbys=bool(names), standbys=standbys)
