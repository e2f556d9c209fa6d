"""Role plays, from the messages that open them to those that leave them (SPEC L6)."""

from datetime import UTC, datetime

import pytest

from conversations.domain.statements.kinds import Speech, Spoken
from conversations.domain.statements.speech import sentences_of

AT = datetime(2026, 3, 4, 10, tzinfo=UTC)
IN_ROLE = "I sold nine ships last year."


def kinds(*texts: str) -> list[set[Speech]]:
    """Return the kinds of each user's message; "a: " marks an assistant's."""
    messages = [Spoken(text.removeprefix("a: "), not text.startswith("a: "), AT) for text in texts]
    return [{each.speech for each in said} for said in sentences_of(messages) if said]


@pytest.mark.parametrize(
    "opening",
    [
        "You're a customs officer, I'm a smuggler, go",
        "I'm the new tenant and you play the landlord",
        "Answer as my late uncle would.",
        "mock interview please",
        "practice call with my bank",
        "you ask, I answer",
        "my new character is a bard",
        "あなたは税関の人、私は旅行者",
        "私は船長、あなたは船の計算機",
        "模擬面接をお願い",
        "電話の練習がしたい",
        "ur a judge and im the thief",
        "can i try it on you first",
    ],
)
def test_a_message_that_gives_roles_opens_a_play(opening: str) -> None:
    assert kinds(opening, "a: Fine.", IN_ROLE)[1] == {Speech.ROLE_PLAY}


def test_an_answer_with_a_stage_direction_is_in_a_play() -> None:
    assert kinds("hello there", "a: *bows deeply* Captain!", IN_ROLE)[1] == {Speech.ROLE_PLAY}


@pytest.mark.parametrize(
    "leaving",
    [
        "lol you're good at this, I take the bus now",
        "phew. I have the real call tomorrow",
        "あはは、明日仕事なんだ",
        "that was fun, I have to work now",
    ],
)
def test_laughter_and_relief_leave_a_play(leaving: str) -> None:
    found = kinds("mock interview please", "a: Fine.", IN_ROLE, leaving, "I work in a bakery.")
    assert found[1:] == [{Speech.ROLE_PLAY}, {Speech.OWN}, {Speech.OWN}]


@pytest.mark.parametrize(
    "ordinary", ["You're right, I'm late again.", "You are so kind. I'm a nurse.", "I'm the cook."]
)
def test_ordinary_sentences_open_nothing(ordinary: str) -> None:
    assert kinds(ordinary, "a: Fine.", IN_ROLE)[1] == {Speech.OWN}


def test_what_is_taken_back_was_no_statement() -> None:
    assert kinds(IN_ROLE, "a: Nice.", "I made that up, I row a canoe.") == [{Speech.ROLE_PLAY}, {Speech.OWN}]


def test_the_end_of_a_joke_marks_what_came_before() -> None:
    assert kinds(IN_ROLE, "a: Nice.", "Jokes aside: I row a canoe.") == [{Speech.JOKE}, {Speech.OWN}]
    assert kinds("冗談はさておき、猫は13歳です。") == [{Speech.OWN}]


def test_an_answer_to_a_question_about_a_story_belongs_to_it() -> None:
    found = kinds("A story: a witch lives in a mill.", "a: What does she fear?", "Bread, above all.")
    assert found[1] == {Speech.FICTION}


@pytest.mark.parametrize(
    "text", ["Thought experiment: I own a bar. It burns down.", "思考実験。店が燃えた。蓄えはない。"]
)
def test_a_supposition_goes_on_to_the_end_of_its_message(text: str) -> None:
    assert kinds(text, "a: Hm.", "I row a canoe.") == [{Speech.HYPOTHESIS}, {Speech.OWN}]


def test_a_sentence_is_divided_where_its_subject_changes() -> None:
    (said,) = sentences_of([Spoken("Ruth wants bees but I'm allergic, she laughs.", True, AT)])
    assert [each.text.strip() for each in said] == ["Ruth wants bees", "but I'm allergic,", "she laughs."]
