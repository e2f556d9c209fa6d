"""What strategies read next: everything once, together where they stand together."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.tenancy.domain import STRATEGIES
from strength.domain.extraction import (
    FROM_MESSAGES,
    KINDS,
    Strategy,
    Stretch,
    is_on,
    namespace_of,
    next_stretch,
    switched_on,
)

SEMANTIC, LIKING, EPISODIC = FROM_MESSAGES


def test_the_strategies_are_those_that_agents_switch() -> None:
    assert tuple(Strategy) == STRATEGIES
    assert set(KINDS) == set(Strategy)


@pytest.mark.parametrize(
    ("switches", "on"),
    [
        ({}, FROM_MESSAGES),
        ({"semantic": False}, (LIKING, EPISODIC)),
        ({"semantic": True, "episodic": False, "nonsense": False}, (SEMANTIC, LIKING)),
    ],
)
def test_all_are_on_unless_switched_off(switches: dict[str, Any], on: Any) -> None:
    assert switched_on(switches) == on
    assert is_on(switches, Strategy.REFLECTION)


def test_namespaces() -> None:
    assert {each: namespace_of(each, "s") for each in Strategy} == {
        Strategy.SEMANTIC: "/facts/{actorId}/",
        Strategy.USER_PREFERENCE: "/preferences/{actorId}/",
        Strategy.SUMMARY: "/summaries/{actorId}/s/",
        Strategy.EPISODIC: "/episodes/{actorId}/s/",
        Strategy.REFLECTION: "/reflections/{actorId}/",
    }


@pytest.mark.parametrize(
    ("places", "stretch"),
    [
        ((0, 0, 0), Stretch(FROM_MESSAGES, 0, 10)),
        ((10, 10, 10), None),
        ((10, 3, 3), Stretch((LIKING, EPISODIC), 3, 10)),
        ((0, 4, 7), Stretch((SEMANTIC,), 0, 4)),
        ((4, 4, 7), Stretch((SEMANTIC, LIKING), 4, 7)),
    ],
)
def test_those_behind_read_up_to_the_next(places: tuple[int, int, int], stretch: Stretch | None) -> None:
    assert next_stretch(dict(zip(FROM_MESSAGES, places, strict=True)), end=10) == stretch


@given(st.lists(st.integers(0, 30), min_size=3, max_size=3), st.integers(0, 30))
def test_reading_on_reads_everything_once(places: list[int], end: int) -> None:
    at = {strategy: min(place, end) for strategy, place in zip(FROM_MESSAGES, places, strict=True)}
    read: dict[Strategy, list[int]] = {strategy: [] for strategy in at}
    begun = dict(at)
    while stretch := next_stretch(at, end=end):
        for strategy in stretch.strategies:
            read[strategy] += range(stretch.after + 1, stretch.until + 1)
            at[strategy] = stretch.until
    assert read == {strategy: list(range(begun[strategy] + 1, end + 1)) for strategy in begun}
