"""Numbers as people write them, in both languages."""

from decimal import Decimal

import pytest

from conversations.domain.statements.numerals import folded_text, numbers, stated_numbers, with_digits, without_numbers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12 dogs", 12), ("1.5 km", "1.5"), ("60k a year", 60_000), ("3 million", 3_000_000), ("85,000 yen", 85_000),
        ("twenty-five", 25), ("two hundred and fifty", 250), ("three thousand two hundred", 3_200), ("nineteen eighty", 1980),
        ("a dozen", 12), ("half", "0.5"), ("third", 3), ("8万5千円", 85_000), ("1万2000円", 12_000), ("3億円", 300_000_000),
        ("二十五歳", 25), ("百万円", 1_000_000), ("二〇二六年", 2026), ("三匹", 3), ("千二百", 1_200), ("一億", 100_000_000), ("5千", 5_000),
    ],
)  # fmt: skip
def test_a_number_is_offered(text: str, value: object) -> None:
    assert Decimal(str(value)) in set(numbers(folded_text(text)))


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("has 3 dogs and two cats", [3, 2]), ("one of them", []), ("the second time", []), ("60k", [60_000]),
        ("85,000円", [85_000]), ("nothing", []), ("twenty-five years", [25]),
    ],
)  # fmt: skip
def test_stated_numbers(text: str, stated: list[int]) -> None:
    assert [number for _shown, number, _unit in stated_numbers(folded_text(text))] == stated


def test_counted_kanji_become_digits() -> None:
    assert with_digits("三匹の猫と一緒に二十年") == "3匹の猫と一緒に20年"
    assert without_numbers("has 3 dogs and twenty-five cats").split() == ["has", "dogs", "and", "cats"]
