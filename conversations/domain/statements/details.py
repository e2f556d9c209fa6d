"""Details of a text that can be checked against others without a model: numbers, dates, times, addresses, names. Pure.

Both English and Japanese forms. What a text *states* is read strictly and what it *offers* as evidence generously: a
missed detail is not checked, a wrong one holds back a true text.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import date
from decimal import Decimal
from typing import Any, Final

from conversations.domain.statements.dates import (
    BEFORE_MONTH,
    TIME,
    WEEKDAYS,
    YEAR,
    Calendar,
    dates,
    minutes,
    weekdays,
    without_dates,
)
from conversations.domain.statements.german import in_english
from conversations.domain.statements.names import WORD, bare, is_inflected, loanwords, names, squashed
from conversations.domain.statements.numerals import UNIT_WORDS, folded_text, numbers, stated_numbers, without_numbers
from memoryhub.search.analysis import fold, limit_combining_marks

MAX_LENGTH: Final = 20_000
"""Characters of a text that are read."""

COUNTED: Final = frozenset({"date", "time", "number"})
"""Kinds of details whose words differ between a message and a statement."""

LOANWORD: Final = "loanword"
"""Kind of a word in katakana, which may be a name or a plain word."""

_MAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}", re.ASCII)
_URL: Final = re.compile(r"\b(?:https?://|www\.)[^\s<>\"'「」（）()、。]{1,500}", re.ASCII)
_DOMAIN: Final = re.compile(
    r"(?<![\w.@/-])[\w-]{2,63}(?:\.[\w-]{2,63}){0,3}\.(?:com|org|net|io|dev|co|jp|de|uk|ai|app)\b(?:/[\w./-]{0,200})?",
    re.ASCII,
)
_PATH: Final = re.compile(
    r"(?<![\w:/.])(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.-]{1,100}(?:[/\\][\w.-]{1,100}){0,12}", re.ASCII
)
_HANDLE: Final = re.compile(r"(?<![\w@.])[@#]\w{2,40}", re.ASCII)
_SIGNS: Final = frozenset("£€$¥%")
_LATIN: Final = frozenset(word for word in UNIT_WORDS if word.isascii()) | _SIGNS
_IP: Final = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_ADDRESSES: Final = (_MAIL, _URL, _DOMAIN, _PATH, _HANDLE)


@dataclass(frozen=True)
class Detail:
    """A detail that a text states, as it is written there."""

    kind: str
    text: str = field(repr=False)
    values: tuple[Any, ...] = field(repr=False)


def readable(text: str) -> str:
    """Return a text with normal widths and without long runs of combining marks, in its own case."""
    return unicodedata.normalize("NFKC", limit_combining_marks(text[:MAX_LENGTH]))


def stated(text: str) -> Iterator[Detail]:
    """Yield the details that a statement asserts: addresses, names, dates, times, weekdays, numbers."""
    rest = readable(text)
    for pattern in _ADDRESSES:
        for match in pattern.finditer(rest):
            yield Detail("address", match[0], (_address(match[0]),))
        rest = pattern.sub(" ", rest)
    yield from (Detail("name", name, (name,)) for name in names(rest))
    yield from (Detail(LOANWORD, word, (word,)) for word in loanwords(rest))
    folded = in_english(folded_text(rest))
    for year, month, day, shown in dates(folded):
        yield Detail("date", re.sub(f"^{BEFORE_MONTH}", "", shown).strip().title(), (year, month, day))
    folded = YEAR.sub(" ", without_dates(folded))
    yield from (Detail("time", match[0], (minutes(match),)) for match in TIME.finditer(folded))
    folded = TIME.sub(" ", folded)
    yield from (Detail("weekday", WEEKDAYS[each].title(), (each,)) for each in weekdays(folded))
    yield from (Detail("number", shown, (number, unit)) for shown, number, unit in stated_numbers(folded))


@dataclass(frozen=True)
class Offered:
    """Evidence for details in some texts; the values of all of them together."""

    squashed: str = field(default="", repr=False)
    words: frozenset[str] = field(default=frozenset(), repr=False)
    numbers: frozenset[Decimal] = frozenset()
    calendar: Calendar = field(default_factory=Calendar)

    @classmethod
    def of(cls, text: str, said_on: date) -> "Offered":
        """Return what a text offers that was written on a day."""
        shown = readable(text)
        written = folded_text(shown)
        folded = in_english(written)
        calendar = Calendar.of(folded, said_on)
        read = WORD.findall(f"{written}\n{folded}" if folded != written else written)
        words = frozenset(word for each in read for word in (each, bare(each))) | (_SIGNS & set(shown))
        counted = frozenset(numbers(_IP.sub(" ", TIME.sub(" ", without_dates(folded)))))
        named = {Decimal(day) for _year, _month, day, _shown in dates(folded) if day}
        return cls(squashed(shown), words, counted | calendar.ages | named, calendar)

    @classmethod
    def joined(cls, parts: "Iterable[Offered]") -> "Offered":
        every = list(parts)
        calendars = [each.calendar for each in every]
        named = {
            each.name: frozenset().union(*(getattr(one, each.name) for one in calendars)) for each in fields(Calendar)
        }
        return cls(
            "\n".join(each.squashed for each in every),
            frozenset[str]().union(*(each.words for each in every)),
            frozenset[Decimal]().union(*(each.numbers for each in every)),
            Calendar(**named),
        )

    def has(self, detail: Detail) -> bool:
        """Return whether a detail is in these texts, or follows from their day."""
        value: Any = detail.values[0]
        match detail.kind:
            case "date":
                return self.calendar.has_date(*detail.values)
            case "time":
                return value in self.calendar.times
            case "weekday":
                return value in self.calendar.weekdays
            case "number":
                return value in self.numbers
            case "address":
                return squashed(value) in self.squashed
        return self._has_name(value) or (detail.kind == LOANWORD and self._has_parts(squashed(value)))

    def has_unit(self, detail: Detail) -> bool:
        """Return whether the unit of a number is somewhere in these texts; it may be apart from the number."""
        words = detail.values[1] if detail.kind == "number" else frozenset[str]()
        return not words or not words.isdisjoint(self.words) or any(word in self.squashed for word in words - _LATIN)

    def _has_parts(self, word: str) -> bool:
        """Return whether both parts of a compound are there."""
        return any(word[:place] in self.squashed and word[place:] in self.squashed for place in range(2, len(word) - 1))

    def _has_name(self, name: str) -> bool:
        key = squashed(name)
        if key in self.squashed or not key.isascii():
            return key in self.squashed
        form = bare(fold(name))
        return any(form == word or is_inflected(form, word) for word in self.words)


def without_counts(text: str) -> str:
    """Return a folded text without dates, times and numbers."""
    return without_numbers(YEAR.sub(" ", TIME.sub(" ", without_dates(in_english(folded_text(readable(text)))))))


def _address(text: str) -> str:
    return re.sub(r"^(?:https?://)?(?:www\.)?", "", text.casefold()).rstrip("/.,;")
