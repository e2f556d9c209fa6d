"""Names that a reader takes for the same."""

import pytest

from memoryhub.look_alikes import looks


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
