"""Factors of models, and that what we do not know is counted high."""

from dataclasses import astuple, replace

import pytest

from memoryhub.llm.tokens import (
    CL100K,
    CLAUDE,
    FACTORS_BY_PREFIX,
    O200K,
    UNKNOWN_MODEL,
    Factors,
    factors_for,
    most_conservative,
)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4o", O200K),
        ("gpt-4o-mini-2024-07-18", O200K),
        ("GPT-4.1", O200K),
        ("gpt-5-nano", O200K),
        ("o3-mini", O200K),
        ("openai/gpt-4o", O200K),
        ("gpt-4", CL100K),
        ("gpt-4-turbo", CL100K),
        ("claude-sonnet-4-5", CLAUDE),
        ("anthropic/claude-3-haiku", CLAUDE),
        ("llama3.1:8b", UNKNOWN_MODEL),
        ("", UNKNOWN_MODEL),
        (None, UNKNOWN_MODEL),
    ],
)
def test_factors_for_takes_the_longest_prefix(model: str | None, expected: Factors) -> None:
    assert factors_for(model) == expected


def test_what_is_unknown_is_counted_no_lower_than_anything_known() -> None:
    for known in FACTORS_BY_PREFIX.values():
        assert all(mine >= theirs for mine, theirs in zip(astuple(UNKNOWN_MODEL), astuple(known), strict=True))


def test_most_conservative_is_the_maximum_of_each_field() -> None:
    first, second = Factors(1.0, 2.0, 1.0, 2.0, 3, 9), Factors(1.5, 1.0, 1.0, 3.0, 4, 1)

    assert most_conservative(first, second) == Factors(1.5, 2.0, 1.0, 3.0, 4, 9)


@pytest.mark.parametrize("factor", [0.0, -1.0, 10.0, float("nan")])
def test_a_factor_that_cannot_be_meant_is_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="japanese"):
        replace(O200K, japanese=factor)
