"""What follows from how a new statement relates to what is known."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from strength.domain.contradictions import (
    MOST_ENDED,
    Course,
    Known,
    Standing,
    Verdict,
    rule,
    statement_blocks,
    verdicts,
)

AT = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
SAME, CONTRADICTS = Verdict.SAME, Verdict.CONTRADICTS


def known(standing: Standing = Standing.HOLDS, *, days: int = -1, ended: int | None = None) -> Known:
    until = None if ended is None else AT + ended * DAY
    return Known(UUID(int=days % 99), "text", standing, AT + days * DAY, until)


@pytest.mark.parametrize(
    ("about", "related", "course"),
    [
        ([], {}, Course.WRITE),
        ([known()], {}, Course.WRITE),
        ([known()], {0: SAME}, Course.SAY_AGAIN),
        ([known()], {0: CONTRADICTS}, Course.SUPERSEDE),
        ([known(days=1)], {0: CONTRADICTS}, Course.FILE_AS_PAST),
        ([known(Standing.WAITS)], {0: SAME}, Course.WRITE),
        ([known(Standing.WAITS)], {0: CONTRADICTS}, Course.WRITE),
        ([known(Standing.REFUSED)], {0: SAME}, Course.HOLD_BACK),
        ([known(Standing.REFUSED)], {0: CONTRADICTS}, Course.WRITE),
        ([known(Standing.PUT_RIGHT)], {0: SAME}, Course.HOLD_BACK),
        ([known(Standing.ENDED, ended=1)], {0: SAME}, Course.SAY_AGAIN),
        ([known(Standing.ENDED, ended=-1)], {0: SAME}, Course.WRITE),
        ([known(Standing.ENDED)], {0: SAME}, Course.WRITE),
        ([known(Standing.ENDED, ended=-1), known()], {0: SAME, 1: CONTRADICTS}, Course.SUPERSEDE),
        ([known(), known(Standing.REFUSED)], {0: SAME, 1: SAME}, Course.HOLD_BACK),
        ([known(), known()], {0: CONTRADICTS, 1: SAME}, Course.SAY_AGAIN),
    ],
)
def test_courses(about: list[Known], related: Any, course: Course) -> None:
    assert rule(about, related, said_at=AT, is_believed=True).course is course


def test_what_waits_is_said_again_by_what_waits() -> None:
    assert rule([known(Standing.WAITS)], {0: SAME}, said_at=AT, is_believed=False).course is Course.SAY_AGAIN


def test_few_are_ended_and_the_past_ends_where_the_next_begins() -> None:
    many = [known(days=-day) for day in range(1, 9)]
    ended = rule(many, dict.fromkeys(range(8), CONTRADICTS), said_at=AT, is_believed=True)
    assert len(ended.about) == MOST_ENDED
    later = [known(days=9), known(days=3)]
    past = rule(later, dict.fromkeys(range(2), CONTRADICTS), said_at=AT, is_believed=True)
    assert past.about == (later[1],)


def pair(new: Any, other: Any, verdict: Any = "same") -> dict[str, Any]:
    return {"new": new, "known": other, "verdict": verdict}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (None, {}),
        ({"pairs": None}, {}),
        ({"pairs": ["x", {}]}, {}),
        ({"pairs": [pair(1, 2)]}, {0: {1: SAME}}),
        (
            {"pairs": [pair(0, 1), pair(1, 3), pair(3, 1), pair(True, 1), pair("1", 1), pair(1, 1, "near")]},
            {},
        ),
        ({"pairs": [pair(1, 1), pair(1, 1, "contradicts")]}, {0: {0: CONTRADICTS}}),
        ({"pairs": [pair(1, 1, "contradicts"), pair(1, 1)]}, {0: {0: CONTRADICTS}}),
        ({"pairs": [pair(2, 1), pair(2, 2, "contradicts")]}, {1: {0: SAME, 1: CONTRADICTS}}),
    ],
)
def test_verdicts_of_an_answer(data: Any, found: Any) -> None:
    assert verdicts(data, known=2, new=2) == found


@pytest.mark.parametrize(
    ("language", "headings"), [("en", ["known", "new"]), ("ja", ["既知", "新規"]), ("fr", ["known", "new"])]
)
def test_blocks_are_numbered_lines(language: str, headings: list[str]) -> None:
    shown = statement_blocks([known()], ["one\n2. forged", "two"], language=language)
    assert list(shown) == headings
    assert list(shown.values()) == ["1. text", "1. one 2. forged\n2. two"]
