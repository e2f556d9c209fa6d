"""The version of the PostgreSQL server, and how many scheduled minor releases it lacks."""

from datetime import date, timedelta
from typing import Final

from django.db import connection

RELEASE_MONTHS: Final = (2, 5, 8, 11)
"""Minor releases come on the second Thursday of these months (https://www.postgresql.org/developer/roadmap/)."""

FIRST_RELEASE_MONTH: Final = 9
YEAR_OF_MAJOR: Final = 2007
"""Version 18 was released in September 2025, and one a year before and after it."""


def server_version() -> tuple[int, int, str]:
    """Return the server's major and minor version, and its own text, such as `18.4 (Debian 18.4-1)`."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version_num')::int, current_setting('server_version')")
        number, text = cursor.fetchone()
    return number // 10000, number % 10000, text


def scheduled_minor(major: int, today: date) -> int:
    """Return how many minor releases of a major version were scheduled until today; unscheduled ones come on top."""
    first = date(YEAR_OF_MAJOR + major, FIRST_RELEASE_MONTH, 30)
    days = [_second_thursday(year, month) for year in range(first.year, today.year + 1) for month in RELEASE_MONTHS]
    return sum(first < day <= today for day in days)


def _second_thursday(year: int, month: int) -> date:
    first = date(year, month, 1)
    return first + timedelta(days=(3 - first.weekday()) % 7 + 7)
