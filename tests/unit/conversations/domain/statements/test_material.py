"""Text in a message that the writer did not say: paragraphs beside a request, forms, what was asked for (SPEC L6)."""

import pytest

from conversations.domain.statements.kinds import Speech
from conversations.domain.statements.material import is_pasted_answer, paragraphs, pasted, without_quotes

LETTER = "Dear board, I have led the choir since 1998 and I resign in June."


def kinds(text: str) -> list[Speech]:
    return [kind for _part, kind in paragraphs(text)]


@pytest.mark.parametrize(
    "request_",
    [
        "does this sound ok?",
        "Translate please",
        "is this a scam",
        "fix the grammar:",
        "これを英語にして",
        "添削お願いします",
    ],
)
def test_a_paragraph_beside_a_request_about_a_text_is_that_text(request_: str) -> None:
    assert kinds(f"{request_}\n\n{LETTER}") == [Speech.OWN, Speech.QUOTATION]
    assert kinds(f"{LETTER}\n \n{request_}") == [Speech.QUOTATION, Speech.OWN]


@pytest.mark.parametrize(
    "aside", ["what would you answer to this guy", "turn into a packing list", "この人に何て返そう"]
)
def test_a_short_paragraph_that_is_not_about_the_writer_is_a_request_too(aside: str) -> None:
    assert kinds(f"{aside}\n\n{LETTER}") == [Speech.OWN, Speech.QUOTATION]


@pytest.mark.parametrize("beginning", ["hi!", "good morning", "My day was long.", "お疲れさま"])
def test_greetings_and_sentences_about_the_writer_are_none(beginning: str) -> None:
    assert set(kinds(f"{beginning}\n\n{LETTER}")) == {Speech.OWN}


def test_a_chapter_is_fiction() -> None:
    assert kinds(f"feedback on chapter 3 please\n\n{LETTER}") == [Speech.OWN, Speech.FICTION]


@pytest.mark.parametrize(
    "text",
    [
        f"I moved to Leeds in May.\n\n{LETTER}",
        f"polish my profile, it is about me\n\n{LETTER}",
        f"does this sound ok? {LETTER}",
        f"does this sound ok?\n\nSubject: choir\n{LETTER}",
    ],
)
def test_other_paragraphs_are_the_writers_or_left_to_the_lines_of_a_mail(text: str) -> None:
    assert set(kinds(text)) == {Speech.OWN}


def test_a_form_of_several_fields_is_pasted() -> None:
    form = "Name: Orr. Allergies: nuts. Doctor: Lind."
    assert pasted(form) is Speech.QUOTATION
    assert pasted(f"About me. {form}") is pasted("Two things: tea and rain.") is Speech.OWN


def test_the_text_that_was_asked_for_is_pasted() -> None:
    assert is_pasted_answer(LETTER, "Please share the letter.")
    assert is_pasted_answer("病名：なし。担当：林。", "文面を見せてください。")
    assert not is_pasted_answer("later, I'm on the bus", "Please share the letter.")
    assert not is_pasted_answer(LETTER, "How are you?")


def test_data_in_braces_are_quoted() -> None:
    rest, quoted = without_quotes('{"name": "Jo", "city": "Lille"} breaks my parser')
    assert (rest.strip(), quoted) == ("breaks my parser", ['{"name": "Jo", "city": "Lille"}'])
