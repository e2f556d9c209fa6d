"""Command line of the embedded server: `python -m memoryhub.runtime.postgres ACTION`.

The supervisor starts the server by it, too: a separate process can be killed at any moment, even during a long
recovery, and the next start cleans up.
"""

import argparse
import logging
import os
import subprocess
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from memoryhub.env import EnvironmentProblem, read_data_dir, read_environment
from memoryhub.runtime.postgres import EmbeddedCluster, PostgresError
from memoryhub.runtime.postgres.binaries import find_binaries

WITH_A_FILE: Final = ("dump", "restore")
USAGE: Final = """\
Control the embedded PostgreSQL server of MEMORYHUB_DATA_DIR.

  start         start the server
  stop          stop it
  status        print `running` (exit code 0) or `stopped` (3)
  url           print the database's URL, password included
  psql          open a prompt on the database
  dump FILE     write a backup while memoryhub runs
  restore FILE  restore a backup into an empty database
  destroy       stop the server, and delete the database
"""

DUMP: Final = ("pg_dump", "--format=custom", "--no-owner", "--no-acl")
"""Without rights of a role that another server may not have; `migrate` grants them."""

RESTORE: Final = ("pg_restore", "--no-owner", "--exit-on-error", "--single-transaction")


def main() -> int:
    """Run one action; the exit code is 0 when it worked, for `status` when the server runs."""
    parser = argparse.ArgumentParser(
        prog="python -m memoryhub.runtime.postgres",
        description=USAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "action", metavar="ACTION", choices=["start", "stop", "status", "url", "psql", *WITH_A_FILE, "destroy"]
    )
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path)
    arguments = parser.parse_args()
    action, file = arguments.action, arguments.file
    if (file is not None) != (action in WITH_A_FILE):
        parser.error("dump and restore take a file, and nothing else does.")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        folder = read_data_dir(os.environ)
        # Only `start` reads the settings, so that an invalid one does not prevent stopping the server.
        options: dict[str, Any] = {}
        if action == "start":
            settings = read_environment()
            options = {"connections": settings.connections, "adopt_data": settings.adopt_data}
        return _run(EmbeddedCluster(folder, **options), action, file)
    except (PostgresError, EnvironmentProblem) as problem:
        print(problem, file=sys.stderr)
        return 1


def _run(cluster: EmbeddedCluster, action: str, file: Path | None) -> int:
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
            return _with_url(cluster, action, file)
    return 0


def _with_url(cluster: EmbeddedCluster, action: str, file: Path | None) -> int:
    connection = cluster.connection()
    if connection is None:
        elsewhere = " DATABASE_URL is not used here: for that server use its own psql, pg_dump and pg_restore."
        hint = elsewhere if os.environ.get("DATABASE_URL") else ""
        raise PostgresError(f"There is no database in {cluster.data_dir} yet: start the server first.{hint}")
    if action == "url":
        print(connection.url())
        return 0
    programs = find_binaries(cluster.major)
    # Pass the password in the environment: other users can read a process's arguments.
    os.environ["PGPASSWORD"] = connection.password
    address = f"host={connection.host} port={connection.port} dbname={connection.dbname} user={connection.user}"
    if action == "dump" and file is not None:
        return _dump([programs.program(DUMP[0]), *DUMP[1:], f"--dbname={address}"], file)
    psql = programs.program("psql")
    if action == "restore":
        if _holds_tables([psql, f"--dbname={address}"]):
            raise PostgresError(
                f"The database in {cluster.data_dir} has tables already, and stays as it is: restore into an empty "
                "one. Set MEMORYHUB_DATA_DIR to a new folder, and start its database."
            )
        return _restore([programs.program(RESTORE[0]), *RESTORE[1:]], address, str(file))
    return os.execv(psql, [psql, address])


def _dump(command: list[str], file: Path) -> int:
    """Write a dump atomically, readable by its owner only."""
    part = file.with_name(f"{file.name}.part")
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        part.chmod(0o600)
        code = subprocess.run([*command, f"--file={part}"]).returncode
        if code == 0:
            part.replace(file)
    except OSError as error:
        raise PostgresError(f"{file} cannot be written: {error.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)
    return code


def _holds_tables(psql: list[str]) -> bool:
    query = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    counted = subprocess.run([*psql, "-Atc", query], capture_output=True, text=True)
    return counted.returncode == 0 and counted.stdout.strip() != "0"


def _restore(command: list[str], address: str, file: str) -> int:
    """Restore all but extensions, which the superuser installed: PostgreSQL 16 cannot leave them out of a dump."""
    listed = subprocess.run([command[0], "--list", file], capture_output=True, text=True)
    if listed.returncode:
        print(listed.stderr, end="", file=sys.stderr)
        return listed.returncode
    with NamedTemporaryFile("w", suffix=".list") as chosen:
        chosen.writelines(line for line in listed.stdout.splitlines(True) if " EXTENSION " not in line)
        chosen.flush()
        return subprocess.run([*command, f"--use-list={chosen.name}", f"--dbname={address}", file]).returncode


if __name__ == "__main__":
    sys.exit(main())
