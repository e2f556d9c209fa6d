"""Lessons that count: those that can be kept, and name an episode."""

from typing import Any
from uuid import UUID

import pytest

from strength.domain.extraction import MAX_ITEM_LENGTH, MAX_LESSONS, lesson_blocks, lessons_of

IDS = [UUID(int=1), UUID(int=2)]


def lesson(text: Any = " Pin it. ", episodes: Any = (1,), confidence: Any = 0.8) -> dict[str, Any]:
    return {
        "text": text,
        "episodes": list(episodes) if isinstance(episodes, tuple) else episodes,
        "confidence": confidence,
    }


def test_a_lesson_with_its_episodes() -> None:
    (found,) = lessons_of({"lessons": [lesson(episodes=(2, 1, 7))]}, IDS)
    assert (found.text, found.episode_ids, found.confidence) == ("Pin it.", tuple(IDS), 0.8)


@pytest.mark.parametrize(
    "bad",
    [
        1,
        lesson(""),
        lesson(3),
        lesson("x" * (MAX_ITEM_LENGTH + 1)),
        lesson(episodes=()),
        lesson(episodes="1"),
        lesson(confidence=2),
    ],
)
def test_what_does_not_count(bad: Any) -> None:
    assert len(lessons_of({"lessons": [bad, lesson()]}, IDS)) == 1


@pytest.mark.parametrize("data", [None, {}, {"lessons": "none"}])
def test_no_lessons(data: Any) -> None:
    assert lessons_of(data, IDS) == []


def test_lessons_are_bounded() -> None:
    assert len(lessons_of({"lessons": [lesson()] * 20}, IDS)) == MAX_LESSONS


@pytest.mark.parametrize(
    ("language", "headings"),
    [("en", ["known lessons", "episodes"]), ("ja", ["既知の教訓", "出来事"]), ("fr", ["known lessons", "episodes"])],
)
def test_blocks(language: str, headings: list[str]) -> None:
    shown = lesson_blocks(["Situation: a\nOutcome: b", "c"], ["x\ny"], language=language)
    assert list(shown) == headings
    assert list(shown.values()) == ["- x y", "1. Situation: a Outcome: b\n2. c"]
    assert list(lesson_blocks(["c"], [], language=language)) == headings[1:]
