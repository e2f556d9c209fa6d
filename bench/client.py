"""Puts jobs into another installation's queue, by the product's own `enqueue`, from a process of its own.

Reads one job a line from standard input, as JSON: kind, payload, key; writes its id once it is committed.
"""

import json
import sys
import time

import django

django.setup()

from django.db import DatabaseError, connection  # noqa: E402  the settings must be there first

from bench.job_kinds import make_tables  # noqa: E402
from memoryhub.jobs.queue import enqueue  # noqa: E402


def main() -> None:
    """Answer each line with an id; where the database is away, try again until it is there."""
    _patiently(make_tables)
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        many = [
            _patiently(
                lambda: enqueue(order["kind"], payload=order.get("payload"), key=order.get("key", ""))  # noqa: B023
            )
            for _ in range(order.get("count", 1))
        ]
        print(json.dumps([str(job_id) for job_id in many]), flush=True)


def _patiently(act):  # type: ignore[no-untyped-def]
    """Do it once it can be done. What fails on its way to being committed may be there twice: with an id of its own."""
    while True:
        try:
            return act()
        except DatabaseError:
            connection.close()
            time.sleep(0.1)


if __name__ == "__main__":
    main()
