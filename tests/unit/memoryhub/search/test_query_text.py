"""Terms of a message: what it is about, without what people and their programs put around it; whether it is personal."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.analysis import analyse
from memoryhub.search.query_text import MAX_CHARACTERS, MAX_EARLIER_TURNS, MessageKind, QueryText, without_code

TRACE = """Traceback (most recent call last):
  File "app.py", line 12, in <module>
    main(settings={"port": 8080})
ValueError: invalid literal for int() with base 10: '8080a'"""
TABLE = "id,name,city,amount\n1,Kai,Kyoto,300\n2,Mio,Osaka,120"
WORDINGS = Path(__file__).parents[4] / "bench" / "wordings.json"
PERSONAL = [
    "Why did we push Kestrel back?", "What may I cook tonight?", "when is the dentist again", "Which tyres are on my car?",
    "母の誕生日はいつ?", "あさぎりの画面はどれで作るんだっけ。", "うちのプリンターがつながらない", "来週の会議は何時から?",
    "Write to the hotel in the style I like: 'We arrive late on Friday.'", "Когда у меня встреча?",
]  # fmt: skip
NAMED = ["Where does Claire work?", "What is the harbour like in Portland?", "When does Project Lantern start?"]
OPEN = ["When does the museum expect the tickets?", "防災訓練は何月?", "Is salmon good for cats?"]
GENERAL = [
    "Who discovered penicillin, and in which year?", "「膝が笑う」ってどういう意味？", "Explain how bread is made.",
    "What is the difference between an allergy and an intolerance?", "図書館の歴史を教えて。", "なぜ空は青いの?",
    "Tell me in general how bread is made.", "How many grams are in a pound of flour?", "What is the capital of Oregon?",
    "How far is Portland from Seattle?", "卵1個は何グラム?", "What's a good way to store bread?", "猫の爪切りのコツは?",
]  # fmt: skip
GIVEN = [
    "Thanks!",
    "おはようございます。",
    "Translate into French: 'We will meet at my house tomorrow.'",
    "次の文を英語に訳して。「私の母は来週来ます。」",
    "How would you say 'the launch was postponed' in German?",
    "「白い背景」を英語にすると?",
    "Is this sentence correct: 'The nurse live in Portland'?",
]


def terms_of(message: str) -> set[str]:
    return set(QueryText.of_message(message).terms)


def wording(message: str, turns: Iterable[tuple[str, str]] = ()) -> MessageKind | None:
    return QueryText.of_message(message, turns).message_kind


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
    found = terms_of(message)

    assert terms <= found
    assert not found & {"hello", "remind", "pleas", "lot", "教え", "おは"}


def test_a_word_that_holds_a_courtesy_stays_whole() -> None:
    assert "さか" in terms_of("さかなの店はどこ？")


def test_message_of_courtesies_alone_keeps_its_terms() -> None:
    assert terms_of("Good morning") == set(analyse("Good morning"))


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
    assert terms_of(text) <= set(analyse(text)) or terms_of(text)


def test_earlier_turns_fade() -> None:
    turns = [
        ("assistant", "It is on Tuesday."),
        ("user", "When is the dentist?"),
        *[("user", "cello")] * MAX_EARLIER_TURNS,
    ]

    terms = QueryText.of_message("?", turns).earlier

    assert (terms["tuesday"], terms["dentist"]) == (0.5, 1.0)
    assert terms["cello"] == pytest.approx(0.7)
    assert QueryText.of_message("?", []).earlier == {}


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
    assert len(terms_of(message)) <= MAX_CHARACTERS


def test_of_a_long_message_the_beginning_and_the_end_count() -> None:
    terms = terms_of(f"The cello. {'word ' * 10_000} quokka {'word ' * 10_000} Where is the piano?")

    assert {"cello", "piano"} <= terms
    assert "quokka" not in terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, MessageKind.PERSONAL) for text in PERSONAL),
        *((text, MessageKind.NAMED) for text in NAMED),
        *((text, MessageKind.UNDETERMINED) for text in OPEN),
        *((text, MessageKind.GENERAL) for text in GENERAL),
        *((text, MessageKind.TEXT_TASK) for text in GIVEN),
    ],
)
def test_wording_tells_whose_affairs_a_message_speaks_of(text: str, expected: MessageKind) -> None:
    assert wording(text) is expected


def test_turns_of_the_user_tell_what_a_message_leaves_open() -> None:
    assert wording("And the other one?") is MessageKind.TEXT_TASK
    assert wording("And the other one?", [("assistant", "My pleasure."), ("user", "When is my launch?")]) is (
        MessageKind.PERSONAL
    )
    assert wording("And the other one?", [("assistant", "When is my launch?")]) is MessageKind.TEXT_TASK


def test_turns_do_not_make_work_on_a_given_text_personal() -> None:
    assert wording("Translate 'the museum is closed'", [("user", "When is my launch?")]) is MessageKind.TEXT_TASK


def test_code_says_nothing_about_whose_affairs_it_is() -> None:
    assert wording("```\nmy = our\n```\nWhat causes a stack overflow?") is MessageKind.GENERAL


def test_wording_of_a_list_of_messages() -> None:
    messages = json.loads(WORDINGS.read_text(encoding="utf-8"))
    shares = {name: Counter(map(wording, texts)) for name, texts in messages.items()}
    none = {name: each[MessageKind.TEXT_TASK] + each[MessageKind.GENERAL] for name, each in shares.items()}

    assert shares["need none"][MessageKind.PERSONAL] == 0
    assert none["need none"] >= 75
    assert none["given texts"] >= 50
    assert none["need one"] == none["in few words"] == 0
    assert none["need one, asked in general words"] <= 1
    assert shares["need one"][MessageKind.PERSONAL] >= 15
