"""What of a program's messages is talk, and in which session it was said."""

from datetime import UTC, datetime, timedelta

import pytest

from conversations.domain.client_talk import Said, Unstored, opening_of, session_of, talk_of, without_additions
from conversations.domain.messages import NewMessage, Role

UNSTORED = Unstored(("environment_details", "system-reminder"), ("# AGENTS.md",))
TEA = {"type": "text", "text": "Which tea?"}
NOW = datetime(2026, 3, 1, tzinfo=UTC)
LONG = "That is a long answer, by which a conversation is known."


def user(text: str, **values: object) -> NewMessage:
    return NewMessage(role=Role.USER, content=text, **values)  # type: ignore[arg-type]


def answer(text: str) -> NewMessage:
    return NewMessage(role=Role.ASSISTANT, content=text)


def stored(session: str, *texts: str, at: int = 0) -> list[Said]:
    """Return a session of questions and answers in turn."""
    roles = ("user", "assistant")
    return [
        Said(session, n + 1, roles[n % 2], opening_of(text), n + 1 == len(texts), NOW + timedelta(seconds=at))
        for n, text in enumerate(texts)
    ]


def test_the_last_question_is_asked_and_answers_behind_it_are_continued() -> None:
    messages = [user("a"), answer("b"), user("c"), answer("d")]
    talk = talk_of(messages, UNSTORED)
    assert talk is not None
    assert ([each.content for each in talk.history], talk.asked.content) == (["a", "b"], "c")
    assert [each.content for each in talk.after] == ["d"] and not talk.examples
    assert talk_of([answer("a")], UNSTORED) is None


def test_examples_and_notes_are_no_talk() -> None:
    note = "<environment_details>\nopen files: 3\n</environment_details>"
    messages = [user("x", author="example_user"), user(note), user("Which tea?"), user(note)]
    talk = talk_of(messages, UNSTORED)
    assert talk is not None and talk.asked.content == "Which tea?"
    assert talk.examples == {0, 1} and [each.content for each in talk.after] == [note]
    parts = [{"type": "text", "text": each} for each in ("# AGENTS.md\nUse tabs.", note)]
    beside = talk_of([user("Use tabs.", blocks=parts), user("Which tea?", blocks=[*parts[:1], TEA])], UNSTORED)
    assert beside is not None and beside.examples == {0}
    assert without_additions(beside.asked, UNSTORED).blocks == [TEA]
    alone = talk_of([user(note)], UNSTORED)
    assert alone is not None and alone.asked.content == note


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tea?<system-reminder>x</system-reminder>", "Tea?"),
        ("<system-reminder>x</system-reminder>\nTea? <environment_details>y</environment_details>", "Tea?"),
        ("<system-reminder>x", "<system-reminder>x"),
        ("x</system-reminder> and <system-reminder>", "x</system-reminder> and <system-reminder>"),
        ("<system-reminder>x</system-reminder>", "<system-reminder>x</system-reminder>"),
        ("  as it is \n", "  as it is \n"),
        ("See # AGENTS.md", "See # AGENTS.md"),
    ],
)
def test_tags_of_programs_are_left_out(text: str, expected: str) -> None:
    assert without_additions(user(text), UNSTORED).content == expected
    assert without_additions(answer(text), UNSTORED).content == text
    blocks = [{"type": "text", "text": text}, {"type": "image", "url": "https://a.test/b.png"}]
    left = without_additions(user(text, blocks=blocks), UNSTORED)
    assert left.blocks is not None and left.blocks[-1] == blocks[-1]
    assert len(left.blocks) == (1 if text == f"<system-reminder>{'x'}</system-reminder>" else 2)


def test_a_session_is_known_by_an_answer_or_the_last_questions() -> None:
    rows = stored("one", "hi", LONG, "tea", "Hello!")
    assert session_of([answer(LONG), user("not stored")], rows) == "one"
    assert session_of([user("a summary"), answer(f"  {LONG} ")], rows) == "one"
    assert session_of([user("hi"), answer("cut"), user("tea")], rows) == "one"
    assert session_of([answer("Hello!")], rows) is None, "many conversations have it"
    assert session_of([user("tea"), answer("Hello!"), user("hi")], rows) is None, "in another order"
    assert session_of([user("hi"), answer("Hello!"), user("coffee")], rows) is None


def test_of_several_sessions_the_one_that_goes_on_is_meant() -> None:
    shown = [user("hi"), answer("Hello!")]
    first, second = stored("first", "hi", "Hello!", at=1), stored("second", "hi", "Hello!", at=2)
    assert session_of(shown, [*first, *second]) == "second", "the latest"
    second += stored("second", "", "", "tea", "Hello!", at=3)[2:]
    rest = [Said("second", 2, "assistant", "Hello!", False, NOW)]
    assert session_of(shown, [*first, second[0], *rest, *second[2:]]) == "first", "the one that ends as it does"
    assert session_of([*shown, user("tea"), answer("Hello!")], [*first, second[0], *rest, *second[2:]]) == "second"


def test_an_opening_is_the_start_of_a_text() -> None:
    assert opening_of("\n\t tea \r\n") == "tea"
    assert opening_of("x" * 500) == "x" * 120
