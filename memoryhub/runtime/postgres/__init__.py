"""The embedded PostgreSQL: `EmbeddedCluster(data_dir).start()` is all that most callers need.

Why not the package's own `get_server()`: it makes a superuser server without a password, opens parent
folders to everybody when run as root, trusts stale pids and gives up after ten seconds. So only its binaries
are used. This package knows nothing of Django; settings ask it where the database is.

`cluster` is the public face, `server` one data folder and its postmaster, `binaries` the programs and the
account that runs them. `python -m memoryhub.runtime.postgres start|stop|status|url|psql|destroy` works by hand.
"""

from memoryhub.runtime.postgres.cluster import ConnectionInfo, EmbeddedCluster
from memoryhub.runtime.postgres.errors import PostgresError

__all__ = ["ConnectionInfo", "EmbeddedCluster", "PostgresError"]
