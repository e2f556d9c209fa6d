"""Long messages are recalled by the sentences that answer."""

import pytest

from conversations.domain.passages import passages

WALK = (
    "We left at dawn. The path was steep and nobody spoke. At the lake we ate the plums. "
    "Then the rain came. Marta lost her green umbrella there. We were home by six. Everybody slept at once."
)
JAPANESE = (
    "朝早く出発した。道は急だった。湖で梅干しを食べた。それから雨が降った。マルタは緑の傘をなくした。六時に帰宅した。"
)


def test_a_short_text_stays_as_it_is() -> None:
    assert passages("One.\n\nTwo — three.", {"two": 1.0}, limit=40) == "One.\n\nTwo — three."


@pytest.mark.parametrize(
    ("text", "terms", "longest", "shown"),
    [
        (WALK, {"umbrella": 2.0}, 70, "… Then the rain came. Marta lost her green umbrella there. …"),
        (
            WALK,
            {"umbrella": 2.0, "plum": 2.0},
            70,
            "… At the lake we ate the plums. … Marta lost her green umbrella there. …",
        ),
        (WALK, {}, 60, "We left at dawn. The path was steep and nobody spoke. …"),
        (WALK, {"unheard": 1.0}, 20, "We left at dawn. …"),
        (JAPANESE, {"傘": 1.0}, 60, "… マルタは緑の傘をなくした。 …"),
        (JAPANESE, {"#傘": 1.0, "梅": 0.1}, 90, "… 湖で梅干しを食べた。 … マルタは緑の傘をなくした。 …"),
    ],
)
def test_a_long_text_keeps_the_sentences_that_answer(
    text: str, terms: dict[str, float], longest: int, shown: str
) -> None:
    assert passages(text, terms, limit=longest) == shown


def test_a_sentence_that_is_too_long_itself_is_cut_within_letters() -> None:
    shown = passages("梅" * 100 + "。", {}, limit=31)
    assert shown == "梅" * 10 + " …"


def test_text_without_a_sentence_keeps_its_beginning() -> None:
    assert passages("```\n" + "x = 1\n" * 50 + "```", {}, limit=9) == "```\nx = 1 …"


def test_a_word_that_only_the_code_has_is_found_in_the_code() -> None:
    text = f"{WALK}\n```\nstart()\nfetch_plates(7)\nstop()\n```\n"
    assert "fetch_plates(7)" in passages(text, {"fetch_plates": 1.0}, limit=60)
    assert "fetch_plates" not in passages(text, {"plum": 1.0, "fetch_plates": 1.0}, limit=60)


def test_the_room_is_never_passed_by_more_than_the_marks_of_gaps() -> None:
    for longest in range(10, 200, 7):
        shown = passages(WALK, {"lake": 1.0, "home": 1.0}, limit=longest)
        assert len(shown.replace("…", "").encode()) <= longest + 8
