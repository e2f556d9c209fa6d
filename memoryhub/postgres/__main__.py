"""The embedded server by hand: `python -m memoryhub.postgres start|stop|status|url|psql|destroy`.

The supervisor starts the server through this too: a process of its own can be ended at any moment, even in
the middle of a long recovery, and the next start puts right what it left.
"""

import argparse
import logging
import os
import sys
from pathlib import Path

from memoryhub.postgres import EmbeddedCluster, PostgresError
from memoryhub.postgres.binaries import find_binaries

DEFAULT_DATA_DIR = Path(__file__).resolve().parents[2] / ".data"


def main() -> int:
    """Run one action; the exit code is 0 when it worked, for `status` when the server runs."""
    parser = argparse.ArgumentParser(prog="python -m memoryhub.postgres", description=__doc__)
    parser.add_argument("action", choices=["start", "stop", "status", "url", "psql", "destroy"])
    action = parser.parse_args().action
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    cluster = EmbeddedCluster(Path(os.environ.get("MEMORYHUB_DATA_DIR") or DEFAULT_DATA_DIR).expanduser())
    try:
        return _run(cluster, action)
    except PostgresError as problem:
        print(problem, file=sys.stderr)
        return 1


def _run(cluster: EmbeddedCluster, action: str) -> int:
    match action:
        case "start":
            cluster.start()
        case "stop":
            cluster.stop()
        case "destroy":
            cluster.destroy()
        case "status":
            running = cluster.is_running()
            print("running" if running else "stopped")
            return 0 if running else 3
        case _:
            return _with_url(cluster, action)
    return 0


def _with_url(cluster: EmbeddedCluster, action: str) -> int:
    connection = cluster.connection()
    if connection is None:
        raise PostgresError(f"There is no database in {cluster.data_dir} yet: start the server first.")
    if action == "url":
        print(connection.url())
        return 0
    psql = find_binaries(cluster.major).program("psql")
    # The password goes by the environment: other users can read a process's arguments.
    os.environ["PGPASSWORD"] = connection.password
    address = (
        f"host={connection.host} port={connection.port} dbname={connection.dbname} user={connection.user}"
    )
    return os.execv(psql, [psql, address])


if __name__ == "__main__":
    sys.exit(main())
