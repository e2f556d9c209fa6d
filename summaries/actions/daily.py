"""What was done with an actor's projects, day by day (SPEC P8). Days are those of UTC."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, DateField, QuerySet, Sum
from django.db.models.functions import Cast

from summaries.domain.daily import Day, Happened, days_of
from summaries.models import ProjectEvent

MOST_DAYS: Final = 366


def daily_events(
    *, actor_id: UUID, days: int, now: datetime, project: str | None = None
) -> list[dict[str, Any]]:
    """Return how many events there were, and of how many tokens, by day, project and sort; the latest days first."""
    today = now.astimezone(UTC).date()
    rows = _of_days(actor_id, today - timedelta(days=days - 1), today, project)
    found = _grouped(rows, "day", "project_name", "kind").order_by("-day", "project_name", "kind")
    return [
        {
            "day": row["day"],
            "project": row["project_name"],
            "kind": row["kind"],
            "events": row["times"],
            "tokens": row["all_tokens"],
        }
        for row in found
    ]


def daily(*, actor_id: UUID, first: date, last: date, project: str | None = None) -> list[Day]:
    """Return the sums of each day from the first to the last on which anything was done, the latest first."""
    names = ("day", "project_name", "kind", "outcome")
    rows = _grouped(_of_days(actor_id, first, last, project), *names).order_by(*names)
    return days_of(
        Happened(
            row["day"], row["project_name"], row["kind"], row["outcome"], row["times"], row["all_tokens"]
        )
        for row in rows
    )


def _of_days(actor_id: UUID, first: date, last: date, project: str | None) -> QuerySet[ProjectEvent]:
    begin, end = (datetime.combine(day, time.min, UTC) for day in (first, last + timedelta(days=1)))
    rows = ProjectEvent.objects.filter(actor_id=actor_id, created_at__gte=begin, created_at__lt=end)
    return rows if project is None else rows.filter(project_name=project)


def _grouped(rows: QuerySet[ProjectEvent], *names: str) -> Any:
    days: Any = rows.order_by().annotate(day=Cast("created_at", DateField()))
    return days.values(*names).annotate(times=Count("id"), all_tokens=Sum("tokens"))
