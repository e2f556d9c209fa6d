"""Days of zones: summer time, skipped midnights, the ends of the calendar, and offsets that a text states."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.zones import (
    DisplayZone,
    day_end,
    day_start,
    is_zone,
    latest_at,
    local_day,
    local_time,
    stated_offset,
    zone_named,
)
from tests.unit.memoryhub.zone_names import ZONES

TOKYO, NEW_YORK = ZoneInfo("Asia/Tokyo"), ZoneInfo("America/New_York")
MOMENTS = st.datetimes(datetime(2015, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))


@pytest.mark.parametrize("name", ["UTC", "Asia/Tokyo", "America/Argentina/Buenos_Aires", "Etc/GMT+5"])
def test_iana_names_are_zones(name: str) -> None:
    assert is_zone(name)
    assert zone_named(name).utcoffset(datetime(2026, 1, 1)) is not None


@pytest.mark.parametrize(
    "name", ["", "Tokyo", "localtime", "asia/tokyo", "../etc/passwd", "America", "+09:00", 9, None, []]
)
def test_other_values_are_no_zones(name: object) -> None:
    assert not is_zone(name)


@pytest.mark.parametrize(
    ("written", "offset"),
    [
        ("2026-11-23T08:00:00+09:00", 540),
        ("2026-11-23T08:00:00-03:30", -210),
        ("2026-11-23T08:00:00+00:00", 0),
        ("2026-11-23T08:00:00Z", None),
        ("2026-11-23t08:00:00z", None),
        ("2026-11-23T08:00:00-00:00", None),
    ],
)
def test_a_text_states_an_offset_but_for_z(written: str, offset: int | None) -> None:
    assert stated_offset(written, datetime.fromisoformat(written.upper())) == offset


def test_a_time_without_an_offset_states_none() -> None:
    assert stated_offset("2026-11-23T08:00:00", datetime(2026, 11, 23, 8)) is None


def test_the_morning_in_tokyo_is_todays() -> None:
    moment = datetime(2026, 11, 22, 23, 0, tzinfo=UTC)

    assert local_day(moment, TOKYO) == date(2026, 11, 23)
    assert local_day(moment, UTC) == date(2026, 11, 22)
    assert local_time(moment, UTC, offset_minutes=540).date() == date(2026, 11, 23)


@pytest.mark.parametrize("moment", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_the_ends_of_the_calendar_are_days_too(moment: datetime) -> None:
    for zone in (TOKYO, NEW_YORK, timezone(timedelta(hours=-23))):
        assert abs(local_time(moment, zone) - moment) == timedelta(0)
        assert day_start(moment.date(), zone).utcoffset() == timedelta(0)
        assert day_end(moment.date(), zone) > day_start(moment.date(), zone)
    assert local_time(moment, UTC, offset_minutes=1439).tzinfo is not None


@given(MOMENTS, st.sampled_from(ZONES))
def test_a_moment_lies_within_its_local_day(moment: datetime, name: str) -> None:
    zone = zone_named(name)
    day = local_day(moment, zone)

    assert day == moment.astimezone(ZoneInfo(name)).date()
    assert day_start(day, zone) <= moment < day_end(day, zone)
    assert day_end(day, zone) == day_start(day + timedelta(days=1), zone)


def test_days_of_summer_time_have_23_or_25_hours() -> None:
    lengths = {
        day: day_end(day, NEW_YORK) - day_start(day, NEW_YORK)
        for day in (date(2026, 3, 8), date(2026, 11, 1), date(2026, 7, 1))
    }

    assert [each / timedelta(hours=1) for each in lengths.values()] == [23, 25, 24]


def test_a_day_begins_later_where_midnight_is_skipped() -> None:
    beirut = ZoneInfo("Asia/Beirut")  # 00:00 becomes 01:00 on 29 March 2026

    assert local_time(day_start(date(2026, 3, 29), beirut), beirut).time() == time(1)


@given(MOMENTS, st.sampled_from(ZONES))
def test_the_latest_night_is_less_than_a_day_ago(moment: datetime, name: str) -> None:
    zone = zone_named(name)
    night = latest_at(moment, zone, time(2, 30))

    assert timedelta(0) <= moment - night < timedelta(hours=26)
    assert (night.hour, night.minute) == (2, 30)


@pytest.mark.parametrize(
    ("name", "moment"),
    [("Pacific/Kiritimati", datetime.max.replace(tzinfo=UTC)), ("America/New_York", datetime.min.replace(tzinfo=UTC))],
)
def test_the_ends_of_the_calendar_can_be_shown_in_every_zone(name: str, moment: datetime) -> None:
    with pytest.raises(OverflowError):
        moment.astimezone(ZoneInfo(name))
    assert moment.astimezone(DisplayZone(name)).date() == moment.date()


@given(MOMENTS, st.sampled_from(ZONES))
def test_elsewhere_a_zone_shows_what_it_is(moment: datetime, name: str) -> None:
    assert moment.astimezone(DisplayZone(name)).isoformat() == moment.astimezone(ZoneInfo(name)).isoformat()


@pytest.mark.parametrize("offset", [-1_439, -960, 960, 1_439])
def test_an_offset_that_no_clock_has_does_not_count(offset: int) -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert local_time(moment, NEW_YORK, offset_minutes=offset) == moment
    assert local_time(moment, NEW_YORK, offset_minutes=offset).tzinfo is NEW_YORK
