"""Dates, times and weekdays in English and Japanese texts, absolute and relative. Pure; texts are folded."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from conversations.domain.statements.numerals import UNITS, numbers, with_digits

_MONTH_NAMES: Final = """
january february march april may june july august september october november december
"""
_WEEKDAY_NAMES: Final = "monday tuesday wednesday thursday friday saturday sunday"
MONTHS: Final = _MONTH_NAMES.split()
WEEKDAYS: Final = _WEEKDAY_NAMES.split()
MAX_AGE: Final = 120
_LASTS: Final = re.compile(
    r"\b(?:born|birth|since|from|ago|started|founded|joined|class of)\b|生まれ|年(?:\d{1,2}月)?から|以来|入社|創業|開業"
)
"""Words by which a year is the beginning of a time."""

_MONTH: Final = "|".join([*MONTHS, "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sept", "sep", "oct", "nov", "dec"])
BEFORE_MONTH: Final = r"\b(?:in|since|until|till|of|last|next|this|by|early|late|mid|from|to|during|end of|around) ?-?"
_ENGLISH_DATE: Final = re.compile(
    rf"(?<!\d)(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? |{BEFORE_MONTH})?\b(?P<month>{_MONTH})\b\.?"
    r"(?: (?:the )?(?P<d2>\d{1,2})(?:st|nd|rd|th)?(?![\d:]))?(?:,? (?P<year>(?:19|20)\d\d)\b)?"
)
_ENGLISH_DAY: Final = re.compile(r"(?<![\d.])(?P<day>[1-3]?\d)(?:st|nd|rd|th)\b")
_ISO_DATE: Final = re.compile(r"(?<!\d)(?P<year>(?:19|20)\d\d)([-/.])(?P<month>\d{1,2})(?:\2(?P<day>\d{1,2}))?(?!\d)")
_SHORT_DATE: Final = re.compile(r"(?<![\d/])(?P<month>\d{1,2})/(?P<day>\d{1,2})(?![\d/])")
_ERAS: Final = {"令和": 2018, "平成": 1988, "昭和": 1925}
_JAPANESE_DATE: Final = re.compile(
    r"(?=[令平昭\d])(?:(?P<era>令和|平成|昭和)(?P<of_era>\d{1,2}|元)年|(?<!\d)(?P<year>(?:19|20)\d\d)年(?!間))?"
    r"の?(?:(?<!\d)(?P<month>\d{1,2})月(?!間))?(?:(?<!\d)(?P<day>\d{1,2})(?<!週\d)(?<![週月年]に\d)日(?!間|後|前|目))?"
)
YEAR: Final = re.compile(r"(?<![\d.:])(?:19|20)\d\d(?![\d:]|\.\d)")
_SHORT_YEAR: Final = re.compile(r"['’](\d\d)\b|(?<!\d)(\d\d)年(?=生|卒|入|に生)")
TIME: Final = re.compile(
    r"(?<![\d:])(?P<h>[01]?\d|2[0-3]):(?P<m>[0-5]\d)(?!\d)|(?<!\d)(?P<h2>1[0-2]|0?[1-9]) ?[ap]\.?m\b"
    r"|(?<!\d)(?P<h3>\d{1,2})時(?!間)(?:(?P<half>半)|(?P<m3>\d{1,2})分)?"
)
_WEEKDAY: Final = re.compile(rf"\b({'|'.join(WEEKDAYS)}|mon|tue|tues|wed|thu|thur|thurs|fri|sat|sun)s?\b")
_JAPANESE_WEEKDAY: Final = re.compile("([月火水木金土日])曜")
_JAPANESE_WEEKDAYS: Final = re.compile(
    r"(?<![月火水木金土日\d])(?!月日|日月)([月火水木金土日])([〜~・、]?)([月火水木金土日])(?=[はにのがも、と]|曜|$)"
)
"""Two days of the week in short, or from one to another: 「月火は」, 「月〜水は」."""

_HOLIDAYS: Final = {
    "christmas eve": (12, 24), "christmas": (12, 25), "new year's eve": (12, 31), "new year": (1, 1),
    "halloween": (10, 31), "valentine": (2, 14), "クリスマスイブ": (12, 24), "クリスマス": (12, 25), "大晦日": (12, 31),
    "元旦": (1, 1), "元日": (1, 1), "正月": (1, 1), "ハロウィン": (10, 31), "バレンタイン": (2, 14),
}  # fmt: skip
_DAYS_APART: Final = {
    "today": 0, "tonight": 0, "this morning": 0, "yesterday": -1, "last night": -1, "tomorrow": 1,
    "day before yesterday": -2, "day after tomorrow": 2, "今日": 0, "きょう": 0, "本日": 0, "今朝": 0, "今晩": 0,
    "今夜": 0,
    "昨日": -1, "きのう": -1, "昨夜": -1, "昨晩": -1, "明日": 1, "あした": 1, "あす": 1, "一昨日": -2, "おととい": -2,
    "明後日": 2, "あさって": 2,
}  # fmt: skip
_MONTHS_APART: Final = {
    "last month": -1, "next month": 1, "this month": 0, "先月": -1, "来月": 1, "今月": 0, "再来月": 2, "先々月": -2,
}  # fmt: skip
_YEARS_APART: Final = {
    "last": -1, "next": 1, "去年": -1, "昨年": -1, "来年": 1, "今年": 0, "再来年": 2, "一昨年": -2, "おととし": -2,
}  # fmt: skip
"""`last summer` and `next spring` are of the year before and after, or of this one."""
_WEEKS_APART: Final = {
    "last week": -1, "next week": 1, "this week": 0, "weekend": 0, "先週": -1, "来週": 1, "今週": 0, "再来週": 2,
    "先々週": -2, "週末": 0,
}  # fmt: skip
_AGO: Final = re.compile(
    rf"(?<![\d.])(?:(?P<n>\d{{1,3}})|(?P<word>{'|'.join([*UNITS, 'couple of'])}|an?)) (?P<unit>day|week|month|year)s?\b"
    r"|(?P<n2>\d{1,3})(?P<unit2>日|週間|[かヶカ箇]月|年)(?:間)?(?P<way>前|後|以内)"
)
_UNIT_DAYS: Final = {"day": 1, "week": 7, "日": 1, "週間": 7}


def dates(folded: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield year, month and day, 0 where there is none, and the words of each date."""
    for match in _ENGLISH_DATE.finditer(folded):
        month = [name[:3] for name in MONTHS].index(match["month"][:3]) + 1
        day, year = int(match["d1"] or match["d2"] or 0), int(match["year"] or 0)
        is_month = day or year or match["month"] not in ("may", "march", "mar", "sun", "dec", "jun", "sep")
        if is_month or re.match(BEFORE_MONTH, match[0]):
            yield year, month, day, match[0]
    for match in _ENGLISH_DAY.finditer(_ENGLISH_DATE.sub(" ", folded)):
        yield 0, 0, int(match["day"]), match[0]
    for match in _ISO_DATE.finditer(folded):
        yield int(match["year"]), int(match["month"]), int(match["day"] or 0), match[0]
    for match in _SHORT_DATE.finditer(folded):
        yield 0, int(match["month"]), int(match["day"]), match[0]
    for match in _JAPANESE_DATE.finditer(with_digits(folded)):
        year = int(match["year"] or 0)
        if match["era"]:
            year = _ERAS[match["era"]] + (1 if match["of_era"] == "元" else int(match["of_era"]))
        if year or match["month"] or match["day"]:
            yield year, int(match["month"] or 0), int(match["day"] or 0), match[0]
    for match in YEAR.finditer(folded):
        yield int(match[0]), 0, 0, match[0]


def without_dates(folded: str) -> str:
    folded = with_digits(folded)
    for pattern in (_ENGLISH_DATE, _ISO_DATE, _SHORT_DATE, _JAPANESE_DATE):
        folded = pattern.sub(lambda match: " " if match[0] else "", folded)
    return folded


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _apart(folded: str, table: dict[str, int]) -> set[int]:
    return {apart for words, apart in table.items() if words in folded}


def relative_days(folded: str, said_on: date) -> set[date]:
    """Return the days that words such as "yesterday", "next Tuesday" and 「3日前」 may mean."""
    days = {said_on + timedelta(days=apart) for apart in _apart(folded, _DAYS_APART)}
    monday = said_on - timedelta(days=said_on.weekday())
    weeks = _apart(folded, _WEEKS_APART)
    days |= {monday + timedelta(days=7 * week + day) for week in weeks for day in range(7)}
    for weekday in weekdays(folded):
        first = monday + timedelta(days=weekday)
        days |= {first + timedelta(days=7 * week) for week in (-1, 0, 1, *weeks)}
    for number, unit in _spans(with_digits(folded)):
        days |= {said_on + sign * timedelta(days=number * _UNIT_DAYS.get(unit, 0)) for sign in (-1, 1)}
        months = {"month": number, "月": number, "year": 12 * number, "年": 12 * number}.get(
            unit[-1:] if unit not in _UNIT_DAYS and not unit.isascii() else unit, 0
        )
        for total in (said_on.year * 12 + said_on.month - 1 + sign * months for sign in (-1, 1)):
            days |= {
                made
                for slip in (0, 1, 2, 3)
                if months and (made := _date(total // 12, total % 12 + 1, said_on.day - slip))
            }
    return days | {
        made
        for words, (month, day) in _HOLIDAYS.items()
        if words in folded and (made := _date(said_on.year, month, day))
    }


def _spans(folded: str) -> Iterator[tuple[int, str]]:
    for match in _AGO.finditer(folded):
        word = match["word"] or ""
        number = int(match["n"] or match["n2"] or UNITS.get(word, 2 if word.startswith("couple") else 1))
        yield number, match["unit"] or match["unit2"]


def years_apart(folded: str, numbers: Iterable[Decimal], said_on: date) -> set[int]:
    """Return the years that follow from words such as "last year", an age, or a number of years."""
    years = {century + int(match[1] or match[2]) for match in _SHORT_YEAR.finditer(folded) for century in (1900, 2000)}
    years |= {said_on.year + apart for apart in _apart(folded, _YEARS_APART)}
    ages = {int(number) for number in numbers if 1 <= number <= MAX_AGE and number == int(number)}
    return years | {said_on.year - age - slip for age in ages for slip in (0, 1)}


def weekdays(folded: str) -> list[int]:
    english = [
        next(n for n, name in enumerate(WEEKDAYS) if name.startswith(match[1][:3]))
        for match in _WEEKDAY.finditer(folded)
    ]
    japanese = ("月火水木金土日".index(match[1]) for match in _JAPANESE_WEEKDAY.finditer(folded))
    return [*english, *japanese, *_weekday_runs(folded)]


def _weekday_runs(folded: str) -> Iterator[int]:
    for match in _JAPANESE_WEEKDAYS.finditer(folded):
        first, last = ("月火水木金土日".index(match[place]) for place in (1, 3))
        yield from range(first, last + 1) if match[2] in "〜~" and match[2] else (first, last)


def minutes(match: re.Match[str]) -> int:
    """Return a time as minutes of half a day: 7:00 and 19:00 are the same."""
    hour = int(match["h"] or match["h2"] or match["h3"])
    minute = 30 if match["half"] else int(match["m"] or match["m3"] or 0)
    return (hour * 60 + minute) % 720


def loose_times(folded: str, numbers: Iterable[Decimal]) -> set[int]:
    """Return the times that "at seven", "half past seven" and "noon" may mean."""
    hours = {int(number) for number in numbers if 0 <= number <= 24 and number == int(number)}
    minutes = (
        {0} | ({30} if "half" in folded or "半" in folded else set()) | ({15, -15} if "quarter" in folded else set())
    )
    times = {(60 * hour + minute) % 720 for hour in hours for minute in minutes}
    return times | ({0} if re.search("noon|midnight|正午|零時|深夜", folded) else set())


@dataclass(frozen=True)
class Calendar:
    """Dates and times that texts name, or that follow from their day; days are pairs of month and day."""

    years: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    days: frozenset[tuple[int, int]] = frozenset()
    times: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    ages: frozenset[Decimal] = frozenset()
    """Numbers of years since the named ones."""

    @classmethod
    def of(cls, folded: str, said_on: date) -> "Calendar":
        days = {said_on, *relative_days(folded, said_on)}
        months = {(said_on.month - 1 + apart) % 12 + 1 for apart in _apart(folded, _MONTHS_APART)}
        pairs, years = set[tuple[int, int]](), set[int]()
        found = list(dates(folded))
        named_months = {month for _year, month, _day, _shown in found if month} | {said_on.month, *months}
        for year, month, day, _shown in found:
            near = [year] if year else [said_on.year - 1, said_on.year, said_on.year + 1]
            years |= set(near)
            months |= {month} - {0}
            of = {month} if month else named_months  # "in July, from the 4th"
            pairs |= {(each, day) for each in of if day}
            days |= {made for each in near for of_month in of if (made := _date(each, of_month, day))}
        loose = frozenset(numbers(without_dates(folded)))
        named = {int(number) for number in numbers(folded) if 1900 <= number <= 2100}
        lasting = named if _LASTS.search(folded) else ()
        ages = {Decimal(abs(said_on.year - each) + slip) for each in lasting for slip in (-1, 0, 1)}
        return cls(
            frozenset(years | named | years_apart(folded, loose, said_on) | {day.year for day in days}),
            frozenset(months | {day.month for day in days}),
            frozenset(pairs | {(day.month, day.day) for day in days}),
            frozenset({minutes(match) for match in TIME.finditer(folded)} | loose_times(folded, loose)),
            frozenset({day.weekday() for day in days} | set(weekdays(folded))),
            frozenset(each for each in ages if 2 <= each <= MAX_AGE),
        )

    def has_date(self, year: int, month: int, day: int) -> bool:
        """Return whether a date is named; a part that is 0 is not asked for."""
        if year and year not in self.years:
            return False
        if day:
            return any(other == day and month in (0, of) for of, other in self.days)
        return not month or month in self.months
