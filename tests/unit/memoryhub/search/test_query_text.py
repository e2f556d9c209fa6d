"""Terms of a message: what it is about, without what people and their programs put around it; whether it is personal."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.analysis import analyse
from memoryhub.search.query_text import (
    MAX_CHARACTERS,
    MAX_EARLIER_TURNS,
    MessageKind,
    QueryText,
    question_parts,
    without_code,
)
from tests.tables import tables_of

TABLES = tables_of(__file__)
WORDINGS = Path(__file__).parents[4] / "bench" / "wordings.json"


def terms_of(message: str) -> set[str]:
    return set(QueryText.of_message(message).terms)


def wording(message: str, turns: Iterable[tuple[str, str]] = ()) -> MessageKind | None:
    return QueryText.of_message(message, turns).message_kind


@pytest.mark.parametrize(("message", "terms"), TABLES["courtesies"])
def test_courtesies_are_no_terms(message: str, terms: list[str]) -> None:
    found = terms_of(message)

    assert set(terms) <= found
    assert not found & {"hello", "remind", "pleas", "lot", "教え", "おは"}


def test_a_word_that_holds_a_courtesy_stays_whole() -> None:
    assert "さか" in terms_of("さかなの店はどこ？")


def test_message_of_courtesies_alone_keeps_its_terms() -> None:
    assert terms_of("Good morning") == set(analyse("Good morning"))


@pytest.mark.parametrize("pasted", TABLES["pasted code"])
def test_pasted_code_is_left_out(pasted: str) -> None:
    message = f"Which port did we agree on for the staging server?\n{pasted}"

    assert without_code(message).strip() == "Which port did we agree on for the staging server?"


@pytest.mark.parametrize("message", TABLES["code alone"])
def test_message_of_code_alone_keeps_it(message: str) -> None:
    assert without_code(message) == message


@pytest.mark.parametrize("message", TABLES["prose"])
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


@pytest.mark.parametrize(("text", "kind"), TABLES["kinds"])
def test_wording_tells_whose_affairs_a_message_speaks_of(text: str, kind: str) -> None:
    assert wording(text) is MessageKind[kind]


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


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Who is taller, Lena or Marta? And which fair has more people?",
         ["Who is taller, Lena or Marta?", "And which fair has more people?"]),
        ("I moved last week. Where do I live? Who helped me to move?", ["Where do I live?", "Who helped me to move?"]),
        ("植木鉢はどこですか。それと、会議はいつですか？", ["植木鉢はどこですか。", "それと、会議はいつですか？"]),
        ("私の犬の名前は？弟の誕生日は？母の仕事は？", ["私の犬の名前は？", "弟の誕生日は？", "母の仕事は？"]),
        ("Where do I live?", []),
        ("Where do I live? And why? Could you tell me?", []),
        ("Where do I live? Where do I live?", []),
        ("One? Two trees? Three birds? Four cats? Five dogs? Six cows?", []),
        ("植木鉢は窓辺にある。会議は明日だ。", []),
        ("a cat? " * 500, []),
    ],
)  # fmt: skip
def test_a_message_of_several_questions_has_parts(text: str, parts: list[str]) -> None:
    assert question_parts(text) == parts


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Wo ist meine Versicherungskarte?", {"versicherungskart"}),
        ("Welches Gemüse mag ich nicht?", {"gemus", "mag"}),
        ("Wer ist das?", {"wer", "ist", "das"}),
        ("The bin of the war man", {"bin", "war", "man"}),
        ("Où est ma carte d'assurance maladie ?", {"cart", "assur", "maladi"}),
        ("¿Dónde está mi tarjeta del seguro?", {"tarjeta", "seguro"}),
        ("Dov'è la mia tessera sanitaria?", {"tessera", "sanitaria"}),
        ("Onde está o meu cartão de saúde?", {"cartao", "saud"}),
        ("Waar is mijn verzekeringspas?", {"verzekeringspa"}),
        ("Где моя страховая карта?", {"страховая", "карта"}),
        ("Gdzie jest moja karta ubezpieczenia?", {"karta", "ubezpieczenia"}),
        ("Who is Mia and is she in il Lago?", {"mia", "il", "lago"}),
        ("Is Maria in La Paz on Monday, or at home?", {"maria", "la", "paz", "monday", "home"}),
    ],
)
def test_function_words_are_no_terms_of_a_query_in_their_language(text: str, terms: set[str]) -> None:
    assert set(QueryText.of_message(text).terms) == terms
