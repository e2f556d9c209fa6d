#!/usr/bin/env python
"""Measure what reads leave to the primary where there is a replica, and whether any read is stale.

.venv/bin/python bench/replicas.py cost                      statements and processor time of the primary
.venv/bin/python bench/replicas.py stale --writes 2000       each write is read at once from another host

`cost` sends searches and contexts to the application in this process, without a replica and with one. `stale` has two
web servers, and a replica that replays at once, 0.1 and 5 seconds later. Linux only.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import harness
from memoryhub.runtime.processes import pids_in
from tests.slow.chaos.hub import folder
from tests.slow.chaos.stale import stale_reads
from tests.slow.chaos.standby import Pair

DELAYS: Final = (0.0, 0.1, 5.0)
KINDS: Final = ("search", "context")


@contextmanager
def pair() -> Iterator[Pair]:
    """Start a primary with a replica that it does not wait for."""
    with harness.signals_end_it(), folder() as path:
        servers = Pair(path, synchronous=False)
        try:
            servers.start()
            yield servers
        finally:
            servers.destroy()


def cost(rounds: int, memories: int) -> dict[str, Any]:
    """Return for each kind of request what the primary did without a replica, with one, and the share."""
    with pair() as servers:
        primary = servers.primary_url()
        size = ["--rounds", str(rounds), "--memories", str(memories), "--data", str(servers.data)]
        figures = {
            name: _in_a_process(size, {"DATABASE_URL": primary, "MEMORYHUB_REPLICA_URLS": replica})
            for name, replica in (("alone", ""), ("replica", servers.standby.url()))
        }
    alone, shared = figures["alone"], figures["replica"]
    shares = {kind: {what: shared[kind][what] / alone[kind][what] for what in ("statements", "ms")} for kind in KINDS}
    return {**figures, "shares": shares}


def _in_a_process(size: list[str], environment: dict[str, str]) -> dict[str, Any]:
    command, given = [sys.executable, __file__, "measure", *size], {**os.environ, **environment}
    done = subprocess.run(command, env=given, cwd=harness.ROOT, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def measure(rounds: int, memories: int, data: Path) -> dict[str, Any]:
    """Return what a request of each kind takes of the primary; the driver's pings count as time alone."""
    import logging

    import django
    from django.core.management import call_command
    from psycopg import Cursor

    from bench import cost as filling
    from bench.cost import WARM, Asker

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    os.environ |= {"MEMORYHUB_PROCESS": "web", "MEMORYHUB_THROTTLE_PER_MINUTE": "10000000"}
    django.setup()
    logging.disable(logging.WARNING)
    call_command("migrate", verbosity=0)
    port, counts, execute = urlsplit(os.environ["DATABASE_URL"]).port, Counter[bool](), Cursor.execute

    def counted(cursor: Any, *args: Any, **options: Any) -> Any:
        counts[cursor.connection.info.port == port] += bool(args[0])
        return execute(cursor, *args, **options)

    filling.MEMORIES, filling.MESSAGES = memories, 3 * memories
    asker, figures = Asker(harness.everything_key()), {}
    for kind in KINDS:
        requests = [asker.request(kind, number) for number in range(WARM + rounds)]
        for request in requests[:WARM]:
            request()
        time.sleep(1)
        Cursor.execute = counted  # type: ignore[method-assign]
        counts.clear()
        before = _processor_seconds(data)
        for request in requests[WARM:]:
            request()
            time.sleep(0.005)  # a client's pause, in which the replica replays what was noted
        spent = _processor_seconds(data) - before
        Cursor.execute = execute  # type: ignore[method-assign]
        figures[kind] = {
            "statements": round(counts[True] / rounds, 2),
            "elsewhere": round(counts[False] / rounds, 2),
            "ms": round(1000 * spent / rounds, 2),
        }
    return figures


def _processor_seconds(data: Path) -> float:
    """Return the processor time of all processes of a server."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids_in(data)) / 1e9


def stale(writes: int) -> dict[str, Any]:
    """Return how many reads after a write did not see it, and where reads were answered, by the replica's delay."""
    with pair() as servers:
        return {f"{delay} s": stale_reads(servers, delay=delay, writes=writes // len(DELAYS)) for delay in DELAYS}


def main() -> int:
    parser = harness.parser_of(__doc__)
    parser.add_argument("what", choices=("cost", "stale", "measure"))
    parser.add_argument("--rounds", type=harness.positive, default=100)
    parser.add_argument(
        "--memories", type=harness.positive, default=500, help="of each user, with three messages for each"
    )
    parser.add_argument("--writes", type=harness.positive, default=3000)
    parser.add_argument("--data", type=Path, help="the primary's folder")
    options = parser.parse_args()
    if options.what == "measure":
        print(json.dumps(measure(options.rounds, options.memories, options.data)))
    elif options.what == "cost":
        harness.tell(cost(options.rounds, options.memories), options)
    else:
        harness.tell(stale(options.writes), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
