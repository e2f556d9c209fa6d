"""Firing the schedules of jobs: each time once, however many workers look."""

from typing import Final

from django.db import connection, transaction
from django.utils import timezone

from memoryhub.jobs import sql
from memoryhub.jobs.domain import look
from memoryhub.jobs.queue import enqueue
from memoryhub.jobs.registry import schedules

SCHEDULED: Final = "schedule:"
"""Prefix of the key of a schedule's job."""


@transaction.atomic
def fire_due() -> list[str]:
    """Enqueue the job of each schedule that is due, and move the schedule on, as one; return their names.

    A new schedule begins at its next time. One whose row another worker holds is left to it.
    """
    known, fired = schedules(), []
    with connection.cursor() as cursor:
        cursor.execute(sql.LOOK_AT_SCHEDULES, {"names": list(known)})
        rows = cursor.fetchall()
        for name, next_at, now in rows:
            kind, rhythm = known[name]
            firing = look(rhythm, next_at=next_at, now=now)
            if firing.next_at == next_at:
                continue
            moved = {"name": name, "next_at": firing.next_at, "is_due": firing.is_due}
            cursor.execute(sql.MOVE_SCHEDULE, moved)
            if firing.is_due:
                enqueue(kind, key=f"{SCHEDULED}{name}")
                fired.append(name)
        if len(rows) < len(known):
            for name, (_, rhythm) in known.items():  # a row that another worker holds stays as it is
                first = rhythm.following(timezone.now())
                cursor.execute(sql.KNOW_SCHEDULE, {"name": name, "next_at": first})
    return fired
