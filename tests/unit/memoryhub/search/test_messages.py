"""Terms of a message: what it is about, without what people and their programs put around it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.analysis import (
    EARLIER_TURNS,
    MAX_CHARACTERS,
    analyse,
    earlier_terms,
    message_terms,
    without_code,
)

TRACE = """Traceback (most recent call last):
  File "app.py", line 12, in <module>
    main(settings={"port": 8080})
ValueError: invalid literal for int() with base 10: '8080a'"""
TABLE = "id,name,city,amount\n1,Kai,Kyoto,300\n2,Mio,Osaka,120"


@pytest.mark.parametrize(
    ("message", "terms"),
    [
        ("Hello! Thanks a lot. Could you remind me who bought the cello?", {"bought", "cello"}),
        ("Who bought a cello, please", {"bought", "cello"}),
        ("thanks!", {"thank"} - {"thank"}),
        ("おはようございます。歯医者の予約を教えてください", {"歯医", "医者", "予約", "#歯医者", "#予約"}),
    ],
)
def test_courtesies_are_no_terms(message: str, terms: set[str]) -> None:
    found = set(message_terms(message))

    assert terms <= found
    assert not found & {"hello", "remind", "pleas", "lot", "教え", "おは"}


def test_a_word_that_holds_a_courtesy_stays_whole() -> None:
    assert "さか" in message_terms("さかなの店はどこ？")


def test_message_of_courtesies_alone_keeps_its_terms() -> None:
    assert set(message_terms("Good morning")) == set(analyse("Good morning"))


@pytest.mark.parametrize(
    "pasted", [TRACE, TABLE, f"```\n{TRACE}\n```", "```python\nx = 1", '{\n  "a": 1,\n  "b": [2, 3]\n}']
)
def test_pasted_code_is_left_out(pasted: str) -> None:
    message = f"Which port did we agree on for the staging server?\n{pasted}"

    assert without_code(message).strip() == "Which port did we agree on for the staging server?"


@pytest.mark.parametrize("message", [TRACE, f"```\n{TABLE}\n```", "def main(): pass"])
def test_message_of_code_alone_keeps_it(message: str) -> None:
    assert without_code(message) == message


@pytest.mark.parametrize(
    "message",
    [
        "I paid 300 yen on 3/4 (again)!",
        "Dear all,\nfrom Monday on we meet at 9.\nWhere is the key?",
        "明日は3時に、\n新宿で。",
    ],
)
def test_prose_is_kept(message: str) -> None:
    assert without_code(message) == message


@given(st.text(max_size=400))
def test_any_text_has_the_terms_of_its_parts(text: str) -> None:
    assert set(message_terms(text)) <= set(analyse(text)) or set(message_terms(text))


def test_earlier_turns_fade() -> None:
    turns = [
        ("assistant", "It is on Tuesday."),
        ("user", "When is the dentist?"),
        *[("user", "cello")] * EARLIER_TURNS,
    ]

    terms = earlier_terms(turns)

    assert (terms["tuesday"], terms["dentist"]) == (0.5, 1.0)
    assert terms["cello"] == pytest.approx(0.7)
    assert earlier_terms([]) == {}


@pytest.mark.parametrize(
    "message",
    [
        "x" * 1_000_000,
        "🙂" * 50_000,
        "a, b. " * 100_000,
        "1,2,3,4,5\n" * 100_000,
        "```" * 200_000,
        "おはよう" * 200_000,
    ],
)
def test_huge_messages_have_few_terms(message: str) -> None:
    assert len(message_terms(message)) <= MAX_CHARACTERS


def test_of_a_long_message_the_beginning_and_the_end_count() -> None:
    terms = message_terms(f"The cello. {'word ' * 10_000} quokka {'word ' * 10_000} Where is the piano?")

    assert {"cello", "piano"} <= set(terms)
    assert "quokka" not in terms
