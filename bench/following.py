"""What the enqueues after a turn cost by themselves, in milliseconds, in a process of the installation's own settings.

Writes JSON: medians inside a transaction, where each session is another, and where the same jobs wait already.
"""

import json
import statistics
import sys
import time
from uuid import UUID

import django

django.setup()

from django.db import transaction  # noqa: E402  the settings must be there first

from conversations.models import Session  # noqa: E402
from memoryhub.jobs.queue import enqueue_triggered  # noqa: E402


def main() -> None:
    """Measure on the sessions that are there; what is enqueued is rolled back."""
    rows = list(Session.objects.order_by("id").values_list("actor_id", "pk")[: int(sys.argv[1])])
    took: dict[str, list[float]] = {"new": [], "waiting": []}
    for actor_id, session_id in rows:
        with transaction.atomic():
            took["new"].append(_milliseconds(actor_id, session_id))
            took["waiting"].append(_milliseconds(actor_id, session_id))
            transaction.set_rollback(True)
    medians = {name: round(statistics.median(each), 3) for name, each in took.items()}
    print(json.dumps({"rounds": len(rows), "median_ms": medians}))


def _milliseconds(actor_id: UUID, session_id: UUID) -> float:
    began = time.perf_counter()
    enqueue_triggered("turn", "answer", actor_id=actor_id, session_id=session_id)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
