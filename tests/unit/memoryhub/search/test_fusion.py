"""Relevance: absolute, monotone in each arm, the same in every space."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.fusion import (
    DEFAULT_POLICY,
    PASSAGE_LENGTH,
    SpaceBounds,
    Turn,
    calibrated,
    contextual_relevances,
    odds_by_count,
    odds_by_typical_length,
    relevance,
    scaled_words,
    usefulness,
)

SEMANTIC = SpaceBounds(cosine_low=0.1, cosine_high=0.7, vector_weight=0.9)
HASHING = SpaceBounds(cosine_low=0.4, cosine_high=0.8, vector_weight=0.1)

shares = st.floats(0, 1)
turns = st.builds(
    Turn, shares, asks=st.booleans(), is_by_other=st.booleans(), continues=st.booleans(), length=st.integers(0, 3000)
)
cosines = st.one_of(st.none(), st.floats(-1, 1))
spaces = st.sampled_from([SEMANTIC, HASHING])


@pytest.mark.parametrize(
    ("similarity", "words", "space", "low", "high"),
    [
        (0.7, 0.0, SEMANTIC, 0.9, 0.9),
        (0.0, 0.8, SEMANTIC, 0.5, 0.5),
        (0.1, 0.05, SEMANTIC, 0.0, 0.01),
        (0.4, 0.0, HASHING, 0.0, 0.0),
        (0.8, 0.0, HASHING, 0.1, 0.1),
        (0.8, 0.6, HASHING, 0.34, 0.35),
        (-1.0, 0.0, HASHING, 0.0, 0.0),
        (None, 0.5, SEMANTIC, 0.16, 0.17),
        (None, 0.0, SEMANTIC, 0.0, 0.0),
        (0.4, None, SEMANTIC, 0.5, 0.5),
        (0.6, None, HASHING, 0.5, 0.5),
        (0.8, None, HASHING, 1.0, 1.0),
        (None, None, HASHING, 0.0, 0.0),
    ],
)
def test_relevance_of_known_cases(
    similarity: float | None, words: float | None, space: SpaceBounds, low: float, high: float
) -> None:
    assert low - 1e-9 <= relevance(similarity, words, space) <= high + 1e-9


@given(cosines, shares, spaces)
def test_relevance_lies_between_0_and_1(similarity: float | None, words: float, space: SpaceBounds) -> None:
    assert 0 <= relevance(similarity, words, space) <= 1


@given(st.floats(-1, 1), st.floats(-1, 1), shares, shares, spaces)
def test_relevance_grows_with_each_arm(a: float, b: float, c: float, d: float, space: SpaceBounds) -> None:
    (lower, higher), (fewer, more) = sorted((a, b)), sorted((c, d))

    assert relevance(lower, fewer, space) <= relevance(higher, more, space) + 1e-12


@given(shares, spaces)
def test_relevance_without_vector_is_that_of_the_words(words: float, space: SpaceBounds) -> None:
    assert relevance(None, words, space) == pytest.approx(scaled_words(words))


@given(cosines, shares, spaces)
def test_relevance_is_never_less_than_either_arm(similarity: float | None, words: float, space: SpaceBounds) -> None:
    together = relevance(similarity, words, space)

    assert together >= relevance(None, words, space) - 1e-12
    assert together >= relevance(similarity, 0.0, space) - 1e-12


@given(shares, shares, st.floats(0.01, 100))
def test_calibration_keeps_the_order_and_the_ends(one: float, other: float, odds: float) -> None:
    low, high = sorted((one, other))

    assert 0 <= calibrated(low, odds) <= calibrated(high, odds) + 1e-12
    assert [calibrated(0, odds), calibrated(1, odds)] == pytest.approx([0, 1])


def test_calibration_multiplies_the_odds() -> None:
    assert calibrated(0.5, odds=3) == pytest.approx(0.75)
    assert calibrated(0.2, odds=1) == pytest.approx(0.2)


def test_the_odds_of_one_memory_fall_with_the_number_of_memories() -> None:
    assert odds_by_count(0) == odds_by_count(1) == odds_by_count(60) == DEFAULT_POLICY.odds
    assert odds_by_count(960) == pytest.approx(DEFAULT_POLICY.odds / 8)
    assert odds_by_count(5_000, policy=replace(DEFAULT_POLICY, count_exponent=0.0)) == DEFAULT_POLICY.odds


def test_the_odds_of_memories_fall_with_their_typical_length() -> None:
    assert odds_by_typical_length([]) == odds_by_typical_length([1.0, 15.0]) == 1.0
    assert odds_by_typical_length([30.0] * 4) == pytest.approx(0.5**1.25)
    assert odds_by_typical_length([10.0] * 60 + [15_000.0] * 3) == 1.0, "few documents among many sentences"
    assert odds_by_typical_length([15_000.0]) == odds_by_typical_length([PASSAGE_LENGTH])


def test_the_odds_of_one_memory_fall_with_the_words_of_a_message() -> None:
    policy = replace(DEFAULT_POLICY, short_length=5.0)

    assert odds_by_count(60, 5.0, policy) == odds_by_count(60, 80.0) == policy.odds
    assert odds_by_count(60, 80.0, policy) == pytest.approx(policy.odds / 8)


@given(shares, shares, st.floats(0.01, 100), st.floats(0.01, 100))
def test_a_message_that_may_need_no_memory_keeps_the_order(one: float, other: float, odds: float, need: float) -> None:
    low, high = sorted((one, other))
    policy = replace(DEFAULT_POLICY, need_odds=need)

    assert usefulness(low, odds, policy) <= usefulness(high, odds, policy) + 1e-12
    assert usefulness(low, odds, policy) <= usefulness(low, odds) == calibrated(low, odds)


def test_relevance_means_the_same_in_differently_scaled_spaces() -> None:
    high_lying = replace(SEMANTIC, cosine_low=0.7, cosine_high=0.9)

    assert relevance(0.4, 0.2, SEMANTIC) == pytest.approx(relevance(0.8, 0.2, high_lying))


@given(st.floats(0, 0.99), st.floats(0.001, 0.01))
def test_scaled_words_make_no_ties(words: float, more: float) -> None:
    assert scaled_words(words + more) > scaled_words(words)


@pytest.mark.parametrize("bounds", [(0.5, 0.5, 0.5), (0.6, 0.5, 0.5), (-2, 0.5, 0.5), (0, 2, 0.5), (0, 1, 1.5)])
def test_bounds_that_make_no_sense_are_refused(bounds: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match=r"Bounds|weight"):
        SpaceBounds(*bounds)


def told(*relevances: float) -> list[Turn]:
    """Return turns that ask nothing, all by the author in question."""
    return [Turn(each) for each in relevances]


@given(st.lists(turns, max_size=12))
def test_turns_lie_between_0_and_1(conversation: list[Turn]) -> None:
    relevances = contextual_relevances(conversation)

    assert len(relevances) == len(conversation)
    assert all(0 <= each <= 1 for each in relevances)


@given(st.lists(shares, max_size=12))
def test_neighbours_only_ever_add(relevances: list[float]) -> None:
    lifted = contextual_relevances(told(*relevances))

    assert len(lifted) == len(relevances)
    assert all(own - 1e-12 <= now <= 1 for own, now in zip(relevances, lifted, strict=True))


def test_neighbours_of_short_messages_pass_on_shares() -> None:
    lifted = contextual_relevances(told(0.0, 0.0, 0.8, 0.0, 0.0, 0.0))

    assert lifted == pytest.approx([0.28, 0.32, 0.8, 0.32, 0.28, 0.0])


def test_neighbours_pass_on_the_better_one_only() -> None:
    policy = replace(DEFAULT_POLICY, neighbour_share=0.5)

    assert contextual_relevances(told(0.4, 0.0, 0.8), policy)[1] == pytest.approx(0.4)
    assert contextual_relevances(told(0.8, 0.0, 0.4), policy)[1] == pytest.approx(0.4)
    assert contextual_relevances(told(0.4, 0.0, 0.0, 0.0, 0.8))[2] == pytest.approx(0.28)


def test_neighbours_and_those_beyond_add_up_as_independent_chances() -> None:
    lifted = contextual_relevances(told(0.0, 0.8, 0.5, 0.0, 0.4))[2]

    assert lifted == pytest.approx(1 - (1 - 0.5) * (1 - 0.4 * 0.8) * (1 - 0.35 * 0.4))


def test_reply_to_a_question_gains_more_and_outranks_it() -> None:
    question, reply, after = contextual_relevances([Turn(0.8, asks=True), Turn(0.0), Turn(0.0)])
    beside_a_statement = contextual_relevances(told(0.8, 0.0))[1]

    assert (question, reply, after) == pytest.approx((0.8 * 0.65, 0.9 * 0.8, 0.28))
    assert reply > question
    assert reply == pytest.approx(2.25 * beside_a_statement)


def test_what_follows_a_question_of_ones_own_is_no_reply() -> None:
    conversation = [Turn(0.8, asks=True), Turn(0.0, continues=True), Turn(0.0)]

    assert contextual_relevances(conversation)[1] == pytest.approx(0.4 * 0.8)


def test_what_stands_before_a_question_gains_no_more_than_beside_any_other() -> None:
    assert contextual_relevances([Turn(0.0), Turn(0.8, asks=True)])[0] == contextual_relevances(told(0.0, 0.8))[0]


def test_better_neighbour_is_the_one_that_gives_more() -> None:
    """A weak question before may give more than a stronger statement behind: 0.9 x 0.5 against 0.4 x 0.9."""
    between = contextual_relevances([Turn(0.5, asks=True), Turn(0.0), Turn(0.9)])[1]

    assert between == pytest.approx(0.45)


@given(st.lists(turns, min_size=1, max_size=8), st.data())
def test_question_keeps_its_share_whatever_stands_around_it(conversation: list[Turn], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(conversation) - 1))
    telling, asking = (
        contextual_relevances([*conversation[:at], replace(conversation[at], asks=asks), *conversation[at + 1 :]])[at]
        for asks in (False, True)
    )

    lost = (1 - DEFAULT_POLICY.question_share) / (1 + (conversation[at].length / 60) ** 2)
    assert asking == pytest.approx((1 - lost) * telling)


@given(st.lists(turns, min_size=1, max_size=8), st.data())
def test_words_of_another_keep_their_share_and_are_heard_all_the_same(
    conversation: list[Turn], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(conversation) - 1))
    own, other = (
        contextual_relevances([*conversation[:at], replace(conversation[at], is_by_other=by), *conversation[at + 1 :]])
        for by in (False, True)
    )

    assert other[at] == pytest.approx(DEFAULT_POLICY.other_author_share * own[at])
    assert other[:at] + other[at + 1 :] == own[:at] + own[at + 1 :]


@pytest.mark.parametrize(("length", "share"), [(0, 1.0), (60, 0.5), (600, 1 / 101)])
def test_long_messages_depend_less_on_what_surrounds_them(length: int, share: float) -> None:
    """A long question states facts, and so does a long reply to any question."""
    after_statement = contextual_relevances([Turn(0.8), Turn(0.0, length=length)])[1]
    question = contextual_relevances([Turn(0.8, asks=True, length=length)])[0]
    reply = contextual_relevances([Turn(0.8, asks=True, length=length), Turn(0.0)])[1]

    assert after_statement == pytest.approx(share * 0.4 * 0.8)
    assert question == pytest.approx(0.8 * (1 - 0.35 * share))
    assert reply == pytest.approx(0.8 * (0.4 + 0.5 * share))


def test_question_of_another_pays_for_both() -> None:
    assert contextual_relevances([Turn(1.0, asks=True, is_by_other=True)]) == pytest.approx([0.65 * 0.75])


def test_session_ends_where_its_turns_end() -> None:
    assert contextual_relevances([]) == []
    assert contextual_relevances(told(0.5)) == [0.5]
    assert (
        contextual_relevances(told(0.0, 0.8))[0] == contextual_relevances(told(0.0, 0.8, 0.0))[0] == pytest.approx(0.32)
    )


@given(st.lists(turns, max_size=6), st.lists(turns, max_size=6))
def test_turns_further_away_are_not_heard(one: list[Turn], other: list[Turn]) -> None:
    silence = told(0.0, 0.0)
    together = contextual_relevances([*one, *silence, *silence, *other])

    assert together[: len(one)] == contextual_relevances([*one, *silence])[: len(one)]
    assert together[len(one) + 4 :] == contextual_relevances([*silence, *other])[2:]
