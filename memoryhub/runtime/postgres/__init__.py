"""The embedded PostgreSQL: `EmbeddedCluster(data_dir).start()` is all that most callers need.

Why not the package's own `get_server()`: it makes a superuser server without a password, opens parent
folders to everybody when run as root, trusts stale pids and gives up after ten seconds. So only its binaries
are used. This package knows nothing of Django; settings ask it where the database is.

`cluster` is the public face, `server` one data folder and its postmaster, `binaries` the programs and the
account that runs them. `python -m memoryhub.runtime.postgres start|stop|status|url|psql|destroy` works by hand.
"""

import os

from memoryhub.runtime.postgres.binaries import PostgresError
from memoryhub.runtime.postgres.cluster import ConnectionInfo, EmbeddedCluster

__all__ = ["ConnectionInfo", "EmbeddedCluster", "PostgresError", "explain_outage"]


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
