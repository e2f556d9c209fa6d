"""Dates and times that follow from what was said on a Wednesday, 4 March 2026."""

from datetime import date

import pytest

from conversations.domain.statements.dates import TIME, Calendar, dates, minutes, weekdays, without_dates
from conversations.domain.statements.numerals import folded_text

SAID_ON = date(2026, 3, 4)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("on 12 March 2024", (2024, 3, 12)), ("March 12th, 2024", (2024, 3, 12)), ("the 2nd of June", (0, 6, 2)),
        ("in May", (0, 5, 0)), ("2026-04-15", (2026, 4, 15)), ("2026/4", (2026, 4, 0)), ("4/15", (0, 4, 15)),
        ("2026年3月12日", (2026, 3, 12)), ("3月12日", (0, 3, 12)), ("12日", (0, 0, 12)), ("令和3年", (2021, 0, 0)),
        ("平成元年", (1989, 0, 0)), ("二〇二四年三月", (2024, 3, 0)), ("since 2019", (2019, 0, 0)),
    ],
)  # fmt: skip
def test_a_date_is_read(text: str, found: tuple[int, int, int]) -> None:
    assert found in [each[:3] for each in dates(folded_text(text))]


@pytest.mark.parametrize(
    "text", ["you may go", "the march of time", "週に5日働く", "three o'clock", "3日間", "version 2.5"]
)
def test_no_date_is_read(text: str) -> None:
    assert list(dates(folded_text(text))) == []


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("yesterday", (2026, 3, 3)), ("the day after tomorrow", (2026, 3, 6)), ("last Friday", (2026, 2, 27)),
        ("next Tuesday", (2026, 3, 10)), ("two weeks ago", (2026, 2, 18)), ("in six weeks", (2026, 4, 15)),
        ("3 days ago", (2026, 3, 1)), ("a month ago", (2026, 2, 4)), ("three years ago", (2023, 3, 4)),
        ("a couple of days ago", (2026, 3, 2)), ("last week", (2026, 2, 24)), ("at the weekend", (2026, 3, 7)),
        ("on Christmas", (2026, 12, 25)), ("昨日", (2026, 3, 3)), ("あさって", (2026, 3, 6)), ("先週の土曜", (2026, 2, 28)),
        ("来週の火曜", (2026, 3, 10)), ("二週間前", (2026, 2, 18)), ("三日前", (2026, 3, 1)), ("6週間後", (2026, 4, 15)),
        ("3年前の今日", (2023, 3, 4)), ("2か月後", (2026, 5, 4)), ("大晦日", (2026, 12, 31)), ("next month", (2026, 4, 0)),
        ("先月", (2026, 2, 0)), ("last year", (2025, 0, 0)), ("去年", (2025, 0, 0)), ("'19", (2019, 0, 0)), ("", (2026, 3, 4)),
        ("I am 36", (1990, 0, 0)), ("36歳", (1989, 0, 0)), ("for six years", (2020, 0, 0)), ("30 February", (0, 2, 30)),
    ],
)  # fmt: skip
def test_a_date_follows(text: str, day: tuple[int, int, int]) -> None:
    assert Calendar.of(folded_text(text), SAID_ON).has_date(*day)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("yesterday", (2026, 3, 12)),
        ("in March", (2019, 0, 0)),
        ("今日", (2026, 4, 0)),
        ("36", (1960, 0, 0)),
        ("12日", (0, 0, 13)),
    ],
)
def test_another_date_does_not_follow(text: str, day: tuple[int, int, int]) -> None:
    assert not Calendar.of(folded_text(text), SAID_ON).has_date(*day)


@pytest.mark.parametrize(
    ("said", "stated"),
    [
        ("half past five", "5:30"), ("at 7", "7:00"), ("7 pm", "19:00"), ("午後7時半", "19:30"), ("noon", "12:00"), ("quarter to six", "5:45"),
        ("20時", "8 pm"), ("7時12分", "7:12"),
    ],
)  # fmt: skip
def test_times_are_equal(said: str, stated: str) -> None:
    (match,) = TIME.finditer(folded_text(stated))
    assert minutes(match) in Calendar.of(folded_text(said), SAID_ON).times


def test_a_time_that_was_not_said() -> None:
    (match,) = TIME.finditer("9:15")
    assert minutes(match) not in Calendar.of("half past five, quarter to six", SAID_ON).times


def test_weekdays_and_ages() -> None:
    assert weekdays("on thursdays and fri") == [3, 4] and weekdays("土曜と日曜") == [5, 6]
    assert weekdays("月火は母") == [0, 1] and weekdays("月〜水は早番") == [0, 1, 2] and weekdays("長い月日が") == []
    assert {10} <= Calendar.of("born in 2016", SAID_ON).ages
    assert without_dates("on 12 march 2024 at 7").split() == ["on", "at", "7"]
