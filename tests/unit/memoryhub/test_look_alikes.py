"""Names that a reader takes for the same."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.look_alikes import looks, tell_apart


@pytest.mark.parametrize(
    "other",
    [
        "anna",
        "ＡＮＮＡ",
        "Аnnа",
        "Αnna",
        "An\u200bna",
        "A\U000e0041nna",
        "𝐀𝐧𝐧𝐚",
        "Ánna",
        "ᴀɴɴᴀ",
        " Anna ",
        "An\u3164na",
        "A" + "\u200b" * 5_000 + "nna",
    ],
)
def test_names_that_look_alike_share_a_form(other: str) -> None:
    assert looks("Anna") & looks(other)


@pytest.mark.parametrize(
    ("one", "other"), [("СПАМ", "спам"), ("Νίκος", "νικος"), ("Ali", "AIi"), ("bot0", "botO"), ("ᾼ", "ᾳ")]
)
def test_names_are_compared_regardless_of_case_and_look(one: str, other: str) -> None:
    assert looks(one) & looks(other)


@pytest.mark.parametrize("other", ["Ann", "Hanna", "Ben", "", "アンナ"])
def test_other_names_share_none(other: str) -> None:
    assert not looks("Anna") & looks(other)


def test_look_alikes_are_told_apart_and_other_names_stay() -> None:
    names = ["Anna", "Аnna", "Ben", "ANNA", "Anna", "", "アンナ"]
    shown = {"Anna": "Anna", "Аnna": "Аnna (2)", "Ben": "Ben", "ANNA": "ANNA (3)", "": "", "アンナ": "アンナ"}
    assert tell_apart(names, most=60) == shown


@given(st.lists(st.text("AaАаnNпｎ(2) 3\u200b", max_size=12), max_size=12), st.integers(min_value=12, max_value=20))
def test_no_two_names_that_are_shown_look_alike(names: list[str], most: int) -> None:
    shown = [each for each in tell_apart(names, most=most).values() if looks(each)]
    assert all(len(each) <= most for each in shown)
    assert not any(looks(one) & looks(other) for one, other in combinations(shown, 2))
