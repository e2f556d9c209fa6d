"""Numbers in English and Japanese texts: digits with scales, spelled numbers, and kanji numerals. Pure."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from memoryhub.search.analysis import fold

_UNIT_WORDS: Final = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen
"""
_TEN_WORDS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINAL_WORDS: Final = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_TENTH_WORDS: Final = "twentieth thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth"
UNITS: Final = {word: value for value, word in enumerate(_UNIT_WORDS.split())} | {
    word: 10 * value for value, word in enumerate(_TEN_WORDS.split(), 2)
}
_ORDINALS: Final = {word: value for value, word in enumerate(_ORDINAL_WORDS.split(), 1)} | {
    word: 10 * value for value, word in enumerate(_TENTH_WORDS.split(), 2)
}
_MULTIPLES: Final = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9}
_VAGUE: Final = {
    "half": (Decimal("0.5"), Decimal(30)), "dozen": (Decimal(12),), "couple": (Decimal(2),), "pair": (Decimal(2),),
    "both": (Decimal(2),), "twins": (Decimal(2),), "twice": (Decimal(2),), "quarter": (Decimal(15), Decimal("0.25")),
    "fortnight": (Decimal(14), Decimal(2)), "decade": (Decimal(10),), "半": (Decimal("0.5"), Decimal(30)),
    "双子": (Decimal(2),), "夫婦": (Decimal(2),), "ダース": (Decimal(12),),
}  # fmt: skip
_NUMBER_WORD: Final = "|".join([*sorted([*UNITS, *_ORDINALS], key=len, reverse=True), *_MULTIPLES])
_SPELLED: Final = re.compile(rf"\b(?:{_NUMBER_WORD})(?:(?:[ -]| and )(?:{_NUMBER_WORD})){{0,8}}\b")
_DIGITS: Final = re.compile(r"(?<![\d.])(\d{1,15}(?:\.\d{1,9})?)( ?(?:k|m|thousand|million|billion)\b|[万億千])?")
_SCALES: Final = {"k": 1_000, "m": 10**6, "万": 10**4, "億": 10**8, "千": 1_000, **_MULTIPLES}
_MIXED: Final = re.compile(r"(?<!\d)(\d{1,8})万(\d{1,4})(千?)")
_KANJI_DIGITS: Final = {sign: value for value, sign in enumerate("〇一二三四五六七八九")}
_KANJI_POWERS: Final = {"十": 10, "百": 100, "千": 1_000}
_KANJI: Final = re.compile(r"(?<![\d〇一二三四五六七八九十百千万億])[〇一二三四五六七八九十百千万億]{1,12}")
_KANJI_COUNTED: Final = re.compile(
    r"(?<![\d〇一二三四五六七八九十百千万億])([〇一二三四五六七八九十百千万億]{1,12})"
    "(?=年|[かヶカ箇]?月|[日時分秒人個本匹枚回歳才番冊台杯階度円週泊名件羽頭]|つ(?!も))"
)
_COUNTED_AS_ONE: Final = frozenset({Decimal(0), Decimal(1)})
"""A spelled one is mostly a pronoun or a part of a word."""

_UNITS_OF_MEASURE: Final = """
mile miles mi; km kilometre kilometres kilometer kilometers キロ キロメートル; metre metres meter meters m メートル;
cm centimetre centimetres centimeter centimeters センチ; kg kilo kilos kilogram kilograms キロ キログラム;
gram grams g グラム; lb lbs pound pounds £; litre litres liter liters l リットル; ml ミリ; euro euros eur € ユーロ;
dollar dollars usd $ ドル; yen jpy ¥ 円; percent per % パーセント
"""
_UNITS_BY_LIST: Final = [frozenset(group.split()) for group in _UNITS_OF_MEASURE.split(";")]
UNIT_WORDS: Final = {
    word: frozenset[str]().union(*(unit for unit in _UNITS_BY_LIST if word in unit))
    for unit in _UNITS_BY_LIST
    for word in unit
}
"""The words of each unit by one of them; a number with another unit is another number."""

_UNIT: Final = re.compile(rf" ?({'|'.join(sorted(filter(str.isalpha, UNIT_WORDS), key=len, reverse=True))})(?![a-z])")
_PRONOUNS: Final = ("人", "つ", "度", "番", "部", "方")
"""Endings of 一人 and the like, which count nothing."""


def folded_text(text: str) -> str:
    """Return a folded text with 「8万5千」 as 85000."""
    return _MIXED.sub(
        lambda match: str(int(match[1]) * 10_000 + int(match[2]) * (1_000 if match[3] else 1)), fold(text)
    )


def with_digits(folded: str) -> str:
    """Return a text with digits in place of counted kanji numerals."""
    return _KANJI_COUNTED.sub(lambda match: f"{_kanji(match[1]):f}", folded)


def numbers(folded: str) -> Iterator[Decimal]:
    """Yield every number that a text may name."""
    for match in _DIGITS.finditer(folded):
        number, scale = Decimal(match[1]), (match[2] or "").strip()
        yield number
        if scale:
            yield number * _SCALES[scale]
    for part in re.findall(r"\d{1,15}", folded):
        yield Decimal(part)
    for match in _SPELLED.finditer(folded):
        yield from _spelled(match[0])
    for match in _KANJI.finditer(folded):
        yield _kanji(match[0])
    for word, values in _VAGUE.items():
        if word in folded:
            yield from values


def stated_numbers(folded: str) -> Iterator[tuple[str, Decimal, frozenset[str]]]:
    """Yield the numbers of a statement as they are written, with their values and the words of their unit, if any."""
    for match in _DIGITS.finditer(folded):
        number = Decimal(match[1]) * _SCALES.get((match[2] or "").strip(), 1)
        if number not in _COUNTED_AS_ONE or not folded[match.end() :].startswith(_PRONOUNS):
            yield _measured(folded, match, number)
    for match in _SPELLED.finditer(folded):
        number = next(iter(_spelled(match[0])))
        if number not in _COUNTED_AS_ONE and not set(match[0].replace("-", " ").split()) & set(_ORDINALS):
            yield _measured(folded, match, number)


def _measured(folded: str, match: re.Match[str], number: Decimal) -> tuple[str, Decimal, frozenset[str]]:
    unit = _UNIT.match(folded, match.end())
    words = UNIT_WORDS.get(unit[1], frozenset()) if unit else frozenset()
    return f"{match[0].strip()}{unit[0] if unit and words else ''}", number, words


def _spelled(words: str) -> Iterator[Decimal]:
    """Yield the value of a spelled number, and of its parts: "nineteen eighty" is a year, or two numbers."""
    total = part = 0
    pieces = list[int]()
    for word in re.split("[ -]", words):
        if word in _MULTIPLES:
            part = max(part, 1) * _MULTIPLES[word]
            total, part = (total + part, 0) if _MULTIPLES[word] > 100 else (total, part)
        elif word != "and":
            value = UNITS.get(word, _ORDINALS.get(word, 0))
            pieces.append(value)
            part += value
    yield Decimal(total + part)
    yield from map(Decimal, pieces)
    if len(pieces) > 1 and 13 <= pieces[0] <= 20:
        yield Decimal(100 * pieces[0] + sum(pieces[1:]))


def _kanji(sign: str) -> Decimal:
    total = part = digits = 0
    for each in sign:
        if each in "万億":
            total, part, digits = total + max(part + digits, 1) * _SCALES[each], 0, 0
        elif each in _KANJI_POWERS:
            part, digits = part + max(digits, 1) * _KANJI_POWERS[each], 0
        else:
            digits = 10 * digits + _KANJI_DIGITS[each]
    return Decimal(total + part + digits)


def without_numbers(folded: str) -> str:
    return _DIGITS.sub(" ", _SPELLED.sub(" ", folded))
