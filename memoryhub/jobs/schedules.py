"""What `settings.SCHEDULES` says is done again and again: each time once, however many workers look."""

from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from memoryhub.jobs import sql
from memoryhub.jobs.domain import look, rhythm
from memoryhub.jobs.queue import enqueue

SCHEDULED: Final = "schedule:"
"""How the key of a schedule's job begins."""


@transaction.atomic
def fire_due() -> list[str]:
    """Enqueue the job of each schedule that is due, and move the schedule on, as one; return their names.

    A schedule that nobody looked at yet begins at its next time. One that another worker looks at is left to it.
    """
    schedules: Mapping[str, Mapping[str, Any]] = settings.SCHEDULES
    fired = []
    with connection.cursor() as cursor:
        cursor.execute(sql.LOOK_AT_SCHEDULES, {"names": list(schedules)})
        rows = cursor.fetchall()
        for name, next_at, now in rows:
            firing = look(rhythm(schedules[name]), next_at=next_at, now=now)
            if firing.next_at == next_at:
                continue
            moved = {"name": name, "next_at": firing.next_at, "is_due": firing.is_due}
            cursor.execute(sql.MOVE_SCHEDULE, moved)
            if firing.is_due:
                enqueue(schedules[name]["job"], key=f"{SCHEDULED}{name}")
                fired.append(name)
    if len(rows) < len(schedules):
        _know(schedules)
    return fired


def _know(schedules: Mapping[str, Mapping[str, Any]]) -> None:
    """Make the rows of schedules that have none; those that another worker holds have one."""
    with connection.cursor() as cursor:
        for name, entry in schedules.items():
            cursor.execute(
                sql.KNOW_SCHEDULE, {"name": name, "next_at": rhythm(entry).following(timezone.now())}
            )
