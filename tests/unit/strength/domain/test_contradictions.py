"""Consequences of how a new statement relates to what is known."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from strength.domain.contradictions import (
    MAX_SUPERSEDED,
    Action,
    KnownMemory,
    KnownState,
    Relation,
    compared_places,
    relations,
    resembles,
    resolve,
    statement_blocks,
)

AT = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
SAME, DIFFERENT, CONTRADICTS = Relation


def known(standing: KnownState = KnownState.CURRENT, *, days: int = -1, ended: int | None = None) -> KnownMemory:
    until = None if ended is None else AT + ended * DAY
    return KnownMemory(UUID(int=days % 99), "text", standing, AT + days * DAY, until)


@pytest.mark.parametrize(
    ("about", "related", "course"),
    [
        ([], {}, Action.WRITE),
        ([known()], {}, Action.WRITE),
        ([known()], {0: SAME}, Action.REINFORCE),
        ([known()], {0: CONTRADICTS}, Action.SUPERSEDE),
        ([known(days=1)], {0: CONTRADICTS}, Action.WRITE_AS_PAST),
        ([known(KnownState.PENDING)], {0: SAME}, Action.WRITE),
        ([known(KnownState.PENDING)], {0: CONTRADICTS}, Action.WRITE),
        ([known(KnownState.REJECTED)], {0: SAME}, Action.BLOCK),
        ([known(KnownState.REJECTED)], {0: CONTRADICTS}, Action.WRITE),
        ([known(KnownState.CORRECTED)], {0: SAME}, Action.BLOCK),
        ([known(KnownState.ENDED, ended=1)], {0: SAME}, Action.REINFORCE),
        ([known(KnownState.ENDED, ended=-1)], {0: SAME}, Action.WRITE),
        ([known(KnownState.ENDED)], {0: SAME}, Action.WRITE),
        ([known(KnownState.ENDED, ended=-1), known()], {0: SAME, 1: CONTRADICTS}, Action.SUPERSEDE),
        ([known(), known(KnownState.REJECTED)], {0: SAME, 1: SAME}, Action.BLOCK),
        ([known(), known(days=-2)], {0: CONTRADICTS, 1: SAME}, Action.REINFORCE),
        ([known()], {0: DIFFERENT}, Action.WRITE),
    ],
)
def test_courses(about: list[KnownMemory], related: Any, course: Action) -> None:
    named = {about[place]: relation for place, relation in related.items()}
    assert resolve(named, said_at=AT, is_trusted=True).action is course


def test_what_waits_is_said_again_by_what_waits() -> None:
    assert resolve({known(KnownState.PENDING): SAME}, said_at=AT, is_trusted=False).action is Action.REINFORCE


def test_few_are_ended_and_the_past_ends_where_the_next_begins() -> None:
    many = [known(days=-day) for day in range(1, 9)]
    ended = resolve(dict.fromkeys(many, CONTRADICTS), said_at=AT, is_trusted=True)
    assert len(ended.about) == MAX_SUPERSEDED
    later = [known(days=9), known(days=3)]
    past = resolve(dict.fromkeys(later, CONTRADICTS), said_at=AT, is_trusted=True)
    assert past.about == (later[1],)


REJECTED = known(KnownState.REJECTED)
UNTRUSTED = replace(REJECTED, is_trusted=False)


@pytest.mark.parametrize(
    ("related", "near", "is_trusted", "action", "resembles"),
    [
        ({}, [REJECTED], True, Action.WRITE, REJECTED),
        ({REJECTED: DIFFERENT}, [REJECTED], True, Action.WRITE, None),
        ({REJECTED: CONTRADICTS}, [REJECTED], True, Action.WRITE, None),
        ({known(): SAME}, [REJECTED], True, Action.REINFORCE, None),
        ({known(): CONTRADICTS}, [REJECTED], True, Action.SUPERSEDE, REJECTED),
        ({UNTRUSTED: SAME}, [], True, Action.WRITE, UNTRUSTED),
        ({UNTRUSTED: SAME}, [], False, Action.BLOCK, None),
    ],
)
def test_what_may_say_what_a_person_decided_against_is_looked_at(
    related: Any, near: list[KnownMemory], is_trusted: bool, action: Action, resembles: KnownMemory | None
) -> None:
    found = resolve(related, said_at=AT, is_trusted=is_trusted, near=near)
    assert (found.action, found.resembles) == (action, resembles)


@pytest.mark.parametrize(
    ("related", "uncompared", "is_trusted", "waits"),
    [
        ({}, [], True, False),
        ({}, [REJECTED], True, True),
        ({REJECTED: DIFFERENT}, [REJECTED], True, False),
        ({}, [UNTRUSTED], True, False),
        ({}, [UNTRUSTED], False, True),
        ({REJECTED: DIFFERENT}, [REJECTED, known(KnownState.CORRECTED)], True, True),
    ],
)
def test_what_nobody_compared_with_a_decision_waits(
    related: Any, uncompared: list[KnownMemory], is_trusted: bool, waits: bool
) -> None:
    found = resolve(related, said_at=AT, is_trusted=is_trusted, uncompared=uncompared)
    assert (found.action, found.is_uncompared) == (Action.WRITE, waits)


@pytest.mark.parametrize(
    ("data", "places"),
    [
        (None, set()),
        ({"pairs": []}, set()),
        ({"compared": "all"}, set()),
        ({"compared": [1, 2, 3, 0, True, "2"]}, {0, 1}),
    ],
)
def test_what_was_compared_is_said(data: Any, places: set[int]) -> None:
    assert compared_places(data, new=2) == places


@pytest.mark.parametrize(
    ("text", "decided", "is_alike"),
    [
        ("The user is fond of spicy cuisine.", "The user likes spicy food.", True),
        ("The user likes jazz.", "The user likes spicy food.", False),
        ("The user eats spiced dishes.", "The user likes spicy food.", True),
        ("ユーザーは激辛料理に目がない。", "ユーザーは辛い料理が好き。", True),
        ("ユーザーはサッカーのファンだ。", "ユーザーはサッカーが好き。", True),
        ("ユーザーはテニスが好き。", "ユーザーはサッカーが好き。", False),
        ("ユーザーは無糖のコーヒーを愛飲している。", "ユーザーはブラックコーヒーが好き。", True),
        ("ユーザーはハムスターを飼っている。", "ユーザーはハムが好き。", False),
        ("The user likes it.", "The user likes it.", False),
    ],
)
def test_resemblance_is_a_third_of_the_subject(text: str, decided: str, is_alike: bool) -> None:
    assert resembles(text, decided) is is_alike


def pair(new: Any, other: Any, verdict: Any = "same") -> dict[str, Any]:
    return {"new": new, "known": other, "verdict": verdict}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (None, {}),
        ({"pairs": None}, {}),
        ({"pairs": ["x", {}]}, {}),
        ({"pairs": [pair(1, 2)]}, {0: {1: SAME}}),
        ({"pairs": [pair(0, 1), pair(1, 3), pair(3, 1), pair(True, 1), pair("1", 1), pair(1, 1, "near")]}, {}),
        ({"pairs": [pair(1, 1), pair(1, 1, "contradicts")]}, {0: {0: CONTRADICTS}}),
        ({"pairs": [pair(1, 1, "contradicts"), pair(1, 1)]}, {0: {0: CONTRADICTS}}),
        ({"pairs": [pair(1, 1, "different"), pair(1, 1)]}, {0: {0: DIFFERENT}}),
        ({"pairs": [pair(2, 1), pair(2, 2, "contradicts")]}, {1: {0: SAME, 1: CONTRADICTS}}),
    ],
)
def test_verdicts_of_an_answer(data: Any, found: Any) -> None:
    assert relations(data, known=2, new=2) == found


@pytest.mark.parametrize(
    ("language", "headings"), [("en", ["known", "new"]), ("ja", ["既知", "新規"]), ("fr", ["known", "new"])]
)
def test_blocks_are_numbered_lines(language: str, headings: list[str]) -> None:
    shown = statement_blocks([known()], ["one\n2. forged", "two"], language=language)
    assert list(shown) == headings
    assert list(shown.values()) == ["1. text", "1. one 2. forged\n2. two"]
