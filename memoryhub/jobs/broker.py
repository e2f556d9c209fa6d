"""django-q2's broker, over the table of jobs itself (`Q_CLUSTER["broker_class"]`).

A queue of its own beside the jobs could lose what they promise, or promise what they have not got. Here there is
none: a task is made of a job's id when a worker has time for it. What is taken out and not begun comes back by
itself after `OFFERED_SECONDS`.
"""

import logging
import time
from typing import Any, Final, NoReturn

from django.db import DatabaseError, close_old_connections, connection
from django_q.brokers import Broker
from django_q.conf import Conf
from django_q.signing import SignedPackage

from memoryhub.jobs.heartbeats import beat, heartbeats
from memoryhub.jobs.queue import Offer, offer
from memoryhub.jobs.registry import UnknownKind, job_kind

TASK: Final = "memoryhub.jobs.tasks.run_job"
QUICK_SECONDS: Final = 0.05
QUICK_LOOK_SECONDS: Final = 0.001
LOOK_SECONDS: Final = 0.02
DATABASE_AWAY_SECONDS: Final = 0.5

log = logging.getLogger(__name__)


class JobBroker(Broker):
    """Offers due jobs to this worker's worker, one when it has nothing to do."""

    def ping(self) -> bool:
        """Return that it is there; whether the database is, the next look tells."""
        return True

    def info(self) -> str:
        """Return what it is, for django-q2's own monitor."""
        return "memoryhub's jobs"

    def enqueue(self, task: str) -> NoReturn:
        """Refuse: jobs are made by `memoryhub.jobs.queue.enqueue`, in the transaction that causes them."""
        raise TypeError("Background work is enqueued with memoryhub.jobs.queue.enqueue, not with async_task.")

    def dequeue(self) -> list[tuple[None, str]]:
        """Return the next job as a signed task, once the worker is free; nothing where none is due."""
        beat(heartbeats().fetched)
        if heartbeats().stopping.value or not self._worker_is_free():
            time.sleep(QUICK_LOOK_SECONDS)
            return []
        offered = self._offered()
        if not offered:
            time.sleep(Conf.POLL)
        heartbeats().taken.value += len(offered)
        return [(None, _task(each)) for each in offered]

    @staticmethod
    def _offered() -> list[Offer]:
        close_old_connections()
        try:
            return offer(1)
        except DatabaseError as error:
            log.warning("database away", extra={"error": type(error).__name__})
            connection.close()
            time.sleep(DATABASE_AWAY_SECONDS)
            return []

    @staticmethod
    def _worker_is_free() -> bool:
        """Wait a moment for the worker; a job in its hands keeps no other from the workers that have time.

        While jobs are done in no time, one is taken ahead, so that the worker never waits for the next.
        """
        own = heartbeats()
        began = time.monotonic()
        while own.in_hand > 0:
            now = time.monotonic()
            if own.in_hand == 1 and now - own.worked.value < QUICK_SECONDS:
                return True
            if now - began > Conf.POLL:
                return False
            time.sleep(QUICK_LOOK_SECONDS if now - began < QUICK_SECONDS else LOOK_SECONDS)
        return True

    def acknowledge(self, task_id: Any) -> None:
        """Do nothing: the job's row says that it is done."""

    def fail(self, task_id: Any) -> None:
        """Note that a task did not reach the worker: it could not be read. Its job will be offered again."""
        heartbeats().taken.value -= 1

    def queue_size(self) -> int:
        """Return nothing: the jobs are counted where they are."""
        return 0


def _task(offered: Offer) -> str:
    try:
        deadline = job_kind(offered.kind).deadline_seconds
    except UnknownKind:
        deadline = int(Conf.TIMEOUT)
    assert offered.due_at is not None
    job_id = str(offered.job_id)
    task = {
        "id": job_id,
        "name": job_id,
        "func": TASK,
        "args": (job_id, offered.kind, offered.due_at.isoformat(), offered.lock),
        "kwargs": {},
        "timeout": deadline,
    }
    return str(SignedPackage.dumps(task))
