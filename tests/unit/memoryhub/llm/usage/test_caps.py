"""Prices, days and caps, without a database."""

from decimal import Decimal
from typing import Any

import pytest

from memoryhub.llm.usage.caps import BudgetPolicy, Spent, reached_cap
from memoryhub.prices import PriceList
from memoryhub.tenancy.policy import PolicyError

PRICES = PriceList.from_json(
    '{"claude": {"input": 3, "output": 15}, "Claude-Opus": {"input": 15, "output": 75.5},'
    ' "text-embedding-3-small": {"input": 0.02, "output": 0}}'
)


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("claude-sonnet-4-5", "0.01800000"),
        ("CLAUDE-OPUS-4-1", "0.09050000"),
        ("anthropic/claude-opus-4-1", "0.09050000"),
        ("text-embedding-3-small", "0.00002000"),
        ("gpt-5", None),
        ("", None),
    ],
)
def test_longest_prefix_of_a_models_name_has_the_price(model: str, cost: str | None) -> None:
    assert PRICES.cost(model, input_tokens=1000, output_tokens=1000) == (None if cost is None else Decimal(cost))


def test_a_single_token_of_the_cheapest_model_is_not_rounded_away() -> None:
    assert PRICES.cost("text-embedding-3-small", input_tokens=1, output_tokens=0) == Decimal("0.00000002")


CACHED = PriceList.from_json(
    '{"a": {"input": 10, "output": 50, "cache_read": 1, "cache_write": 12.5}, "b": {"input": 10, "output": 50},'
    ' "c": {"input": 10, "output": 50, "cache_read": 0}}'
)


@pytest.mark.parametrize(("model", "cost"), [("a", "0.01300"), ("b", "0.02000"), ("c", "0.01200")])
def test_what_went_through_a_cache_has_its_own_price_where_one_is_stated(model: str, cost: str) -> None:
    """Of 1,000 tokens 800 were read from the cache, 80 written into it; the answer had 200."""
    tokens = {"input_tokens": 1000, "output_tokens": 200, "cache_read_tokens": 800, "cache_write_tokens": 80}
    assert CACHED.cost(model, **tokens) == Decimal(cost)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"input": 1, "output": 1, "cache_read": -1}}', '{"a": {"cache_read": 1, "cache_write": 1}}',
        "{", "[]", "3", '{"a": 3}', '{"a": {"input": 3}}', '{"a": {"input": 3, "output": 1, "cache": 1}}',
        '{"a": {"input": "3", "output": 1}}', '{"a": {"input": true, "output": 1}}', '{"a": {"input": -1, "output": 1}}',
        '{"a": {"input": 1e9, "output": 1}}', '{" ": {"input": 1, "output": 1}}', '{"a": {"input": NaN, "output": 1}}',
    ],
)  # fmt: skip
def test_prices_that_cannot_be_used_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        PriceList.from_json(text)


@pytest.mark.parametrize(
    ("policy", "spent", "reached"),
    [
        (BudgetPolicy(), Spent(Decimal(10**6), 10**9), None),
        (BudgetPolicy(daily_spend_cap=0.1), Spent(Decimal("0.0999"), 10**9), None),
        (BudgetPolicy(daily_spend_cap=0.1), Spent(Decimal("0.1"), 0), "daily_spend_cap"),
        (BudgetPolicy(daily_spend_cap=0), Spent(), "daily_spend_cap"),
        (BudgetPolicy(daily_token_cap=100), Spent(Decimal(0), 99), None),
        (BudgetPolicy(daily_token_cap=100), Spent(Decimal(0), 100), "daily_token_cap"),
        (BudgetPolicy(daily_spend_cap=1, daily_token_cap=1), Spent(Decimal(1), 1), "daily_spend_cap"),
    ],
)
def test_a_cap_is_reached_when_it_is_used_up(policy: BudgetPolicy, spent: Spent, reached: str | None) -> None:
    assert reached_cap(policy, spent) == reached
    assert policy.has_cap is (policy != BudgetPolicy())


@pytest.mark.parametrize(
    "values", [{"daily_spend_cap": -1}, {"daily_spend_cap": "5"}, {"daily_token_cap": 1.5}, {"daily_token_cap": True}]
)
def test_caps_out_of_range_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        BudgetPolicy.from_overrides(values)


def test_null_takes_a_cap_off_again() -> None:
    assert BudgetPolicy.from_overrides({"daily_spend_cap": 1}, {"daily_spend_cap": None}) == BudgetPolicy()
