"""Enqueue jobs in another installation by the product's own `enqueue`, from a process of its own.

Reads one order a line from standard input, as JSON: kind, payload, key, count. All of an order are put in one
transaction, as a change puts what it causes. Writes their ids once they are committed, and the median milliseconds
that one took.
"""

import json
import statistics
import sys
import time
from functools import partial
from typing import Any

import django

django.setup()

from django.db import DatabaseError, connection, transaction  # noqa: E402  the settings must be there first

from memoryhub.jobs.queue import enqueue  # noqa: E402
from tests.slow.chaos.job_kinds import make_tables  # noqa: E402


def main() -> None:
    """Answer each order; where the database is away, try again until it is there."""
    _patiently(make_tables)
    _write("ready")
    for line in sys.stdin:
        _write(json.dumps(_patiently(partial(_fill, **json.loads(line)))))


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _fill(*, kind: str, payload: Any, key: str, count: int) -> dict[str, Any]:
    ids, took = [], []
    with transaction.atomic():
        for _ in range(count):
            began = time.perf_counter()
            ids.append(str(enqueue(kind, payload=payload, key=key)))
            took.append((time.perf_counter() - began) * 1000)
    return {"ids": ids, "enqueue_ms": round(statistics.median(took), 3)}


def _patiently(act: Any) -> Any:
    """Do it once it can be done. What broke while it was committed may be there twice: the second has other ids."""
    while True:
        try:
            return act()
        except DatabaseError:
            connection.close()
            time.sleep(0.1)


if __name__ == "__main__":
    main()
