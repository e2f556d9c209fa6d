"""Time zones and local days: one place that turns moments into days and days into moments. Pure.

A message's own offset wins over the zone of its actor. Stored moments stay moments; only what is shown, or counted by
days, is local.
"""

import math
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

_OFFSET_UNKNOWN: Final = ("z", "-00:00", "-0000", "-00")
MAX_OFFSET_MINUTES: Final = 16 * 60
"""Minutes. No clock on earth is so far from UTC, and PostgreSQL takes no such time."""


@cache
def known_zones() -> frozenset[str]:
    return frozenset(available_timezones() | {"UTC"}) - {"localtime"}


def is_zone(name: object) -> bool:
    return isinstance(name, str) and name in known_zones()


def zone_named(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)


class DisplayZone(ZoneInfo):
    """A zone to show moments in: on the first and the last day of the calendar, where its clock has no date, UTC's."""

    def fromutc(self, moment: datetime, /) -> datetime:
        try:
            return super().fromutc(moment)
        except OverflowError:
            return moment


def stated_offset(written: str, moment: datetime) -> int | None:
    """Return the offset in minutes that an ISO 8601 text states; None for `Z`.

    `Z` and `-00:00` say that the speaker's offset is not known, `+00:00` that the speaker's clock shows UTC (RFC 9557,
    section 2).
    """
    offset = moment.utcoffset()
    if offset is None or written.strip().lower().endswith(_OFFSET_UNKNOWN):
        return None
    return round(offset.total_seconds() / 60)


def local_time(moment: datetime, zone: tzinfo, *, offset_minutes: int | None = None) -> datetime:
    """Return a moment as the speaker's clock shows it: by the stated offset, else by the zone."""
    is_stated = offset_minutes is not None and abs(offset_minutes) < MAX_OFFSET_MINUTES
    clock = timezone(timedelta(minutes=offset_minutes or 0)) if is_stated else zone
    try:
        return moment.astimezone(clock)
    except OverflowError:  # the first or the last day of the calendar
        return moment


def local_day(moment: datetime, zone: tzinfo) -> date:
    return local_time(moment, zone).date()


def day_start(day: date, zone: tzinfo) -> datetime:
    """Return the first moment of a local day, in UTC; where summer time skips midnight, that is the moment it skips."""
    midnight = datetime.combine(day, time(), zone)
    try:
        return midnight.astimezone(UTC)
    except OverflowError:
        return midnight.replace(tzinfo=UTC)


def day_end(day: date, zone: tzinfo) -> datetime:
    """Return the first moment after a local day, in UTC."""
    return day_start(day + timedelta(days=1), zone) if day < date.max else datetime.max.replace(tzinfo=UTC)


def latest_at(now: datetime, zone: tzinfo, at: time) -> datetime:
    """Return the latest moment, now at most, at which clocks of the zone showed a time of day."""
    today = datetime.combine(local_day(now, zone), at, zone)
    return today if today <= now else datetime.combine(today.date() - timedelta(days=1), at, zone)


_UNIT_SECONDS: Final = (("minute", 60), ("hour", 3_600), ("day", 86_400), ("month", 2_629_746), ("year", 31_556_952))
_UNIT_LIMITS: Final = {"minute": 60, "hour": 24, "day": 60, "month": 24}


def rounded_age(moment: datetime, now: datetime) -> tuple[str, int]:
    """Return the time from a moment until now as whole units, rounded towards zero; below zero for the future.

    A unit is used until there are 60 minutes, 24 hours, 60 days or 24 months of it; less than a minute is 0 minutes.
    """
    seconds = (now - moment).total_seconds()
    for unit, length in _UNIT_SECONDS:
        count = int(seconds / length)
        if abs(count) < _UNIT_LIMITS.get(unit, math.inf):
            break
    return unit, count
