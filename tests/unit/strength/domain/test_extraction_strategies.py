"""Choice of what strategies read next: everything once, together where they stand together."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.tenancy.policy import STRATEGIES
from strength.domain.extraction import (
    KINDS,
    MESSAGE_STRATEGIES,
    Span,
    Strategy,
    enabled_strategies,
    is_enabled,
    namespace_of,
    next_span,
)

SEMANTIC, LIKING, EPISODIC = MESSAGE_STRATEGIES


def test_the_strategies_are_those_that_agents_switch() -> None:
    assert tuple(Strategy) == STRATEGIES
    assert set(KINDS) == set(Strategy)


@pytest.mark.parametrize(
    ("switches", "on"),
    [
        ({}, MESSAGE_STRATEGIES),
        ({"semantic": False}, (LIKING, EPISODIC)),
        ({"semantic": True, "episodic": False, "nonsense": False}, (SEMANTIC, LIKING)),
    ],
)
def test_all_are_on_unless_switched_off(switches: dict[str, Any], on: Any) -> None:
    assert enabled_strategies(switches) == on
    assert is_enabled(switches, Strategy.REFLECTION)


def test_namespaces() -> None:
    assert {each: namespace_of(each, "s") for each in Strategy} == {
        Strategy.SEMANTIC: "/facts/{actorId}/",
        Strategy.USER_PREFERENCE: "/preferences/{actorId}/",
        Strategy.SUMMARY: "/summaries/{actorId}/s/",
        Strategy.EPISODIC: "/episodes/{actorId}/s/",
        Strategy.REFLECTION: "/reflections/{actorId}/",
    }


@pytest.mark.parametrize(
    ("places", "span"),
    [
        ((0, 0, 0), Span(MESSAGE_STRATEGIES, 0, 10)),
        ((10, 10, 10), None),
        ((10, 3, 3), Span((LIKING, EPISODIC), 3, 10)),
        ((0, 4, 7), Span((SEMANTIC,), 0, 4)),
        ((4, 4, 7), Span((SEMANTIC, LIKING), 4, 7)),
    ],
)
def test_those_behind_read_up_to_the_next(places: tuple[int, int, int], span: Span | None) -> None:
    assert next_span(dict(zip(MESSAGE_STRATEGIES, places, strict=True)), end=10) == span


@given(st.lists(st.integers(0, 30), min_size=3, max_size=3), st.integers(0, 30))
def test_reading_on_reads_everything_once(places: list[int], end: int) -> None:
    at = {strategy: min(place, end) for strategy, place in zip(MESSAGE_STRATEGIES, places, strict=True)}
    read: dict[Strategy, list[int]] = {strategy: [] for strategy in at}
    begun = dict(at)
    while span := next_span(at, end=end):
        for strategy in span.strategies:
            read[strategy] += range(span.after + 1, span.until + 1)
            at[strategy] = span.until
    assert read == {strategy: list(range(begun[strategy] + 1, end + 1)) for strategy in begun}
