"""SPEC X2: the values of a context's policy, their ranges, their layers of overrides."""

import dataclasses
import json
from typing import Any

import pytest

from conversations.domain.policy import CALL_OPTIONS, DEFAULT_POLICY, ContextPolicy, PolicyError


def test_defaults_are_the_specs() -> None:
    policy = ContextPolicy()

    assert (policy.working_memory_limit, policy.semantic_memory_limit, policy.recall_limit) == (10, 5, 100)
    assert (policy.max_tokens, policy.token_safety_margin, policy.token_limit) == (100_000, 0.8, 80_000)
    assert (policy.memory_placement, policy.layer_budgets, policy.cache) == ("auto", None, False)
    assert policy.placement == "before_history"
    assert policy.validated(cache=True).placement == "with_user_message"
    assert policy.validated(cache=True, memory_placement="before_history").placement == "before_history"
    assert policy == DEFAULT_POLICY


def test_defaults_obey_their_own_rules() -> None:
    assert ContextPolicy().validated(**DEFAULT_POLICY.values()) == DEFAULT_POLICY


def test_every_field_has_a_rule_and_every_rule_a_field() -> None:
    assert {field.name for field in dataclasses.fields(ContextPolicy)} == ContextPolicy.keys()


def test_call_options_are_those_of_the_interface() -> None:
    limits = {"working_memory_limit", "working_memory_scope", "semantic_memory_limit", "recall_limit"}
    limits |= {"max_tokens", "token_safety_margin", "profile_max_tokens", "profile_share", "recall_share"}
    switches = {
        f"include_{name}"
        for name in (
            "semantic_memory",
            "profile",
            "session_summary",
            "recall",
            "project",
            "pinned",
            "clock",
            "relevance",
            "tools",
        )
    }

    assert limits | switches | {"memory_placement", "cache"} == set(CALL_OPTIONS)


@pytest.mark.parametrize(
    ("overrides", "profile", "recall"),
    [
        ({}, 4_000, 72_000),
        ({"max_tokens": 5_000}, 400, 3_600),
        ({"max_tokens": 1_000_000}, 10_000, 720_000),
        ({"max_tokens": 1_000_000, "profile_max_tokens": 20_000, "recall_share": 0.5}, 20_000, 400_000),
        ({"profile_max_tokens": 0}, 0, 72_000),
        ({"profile_share": 0.03}, 2_400, 72_000),
    ],
)
def test_profile_and_recall_have_shares_of_the_limit(overrides: dict[str, object], profile: int, recall: int) -> None:
    policy = ContextPolicy().validated(**overrides)
    assert (policy.profile_tokens, policy.recall_tokens) == (profile, recall)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("system_prompt", ""),
        ("working_memory_limit", 1),
        ("working_memory_limit", 50),
        ("semantic_memory_limit", 1),
        ("semantic_memory_limit", 20),
        ("recall_limit", 0),
        ("recall_limit", 200),
        ("max_tokens", 1000),
        ("max_tokens", 2**53),
        ("token_safety_margin", 0.5),
        ("token_safety_margin", 0.95),
        ("memory_placement", "with_user_message"),
        ("include_pinned", False),
        ("cache", True),
        ("layer_budgets", None),
    ],
)
def test_a_value_in_range_is_taken(key: str, value: object) -> None:
    assert getattr(ContextPolicy().validated(**{key: value}), key) == value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("system_prompt", None),
        ("system_prompt", "x" * 1_000_001),
        ("working_memory_limit", 0),
        ("working_memory_limit", 51),
        ("working_memory_limit", 10.0),
        ("working_memory_limit", True),
        ("working_memory_limit", "10"),
        ("semantic_memory_limit", 0),
        ("semantic_memory_limit", 21),
        ("recall_limit", -1),
        ("recall_limit", 201),
        ("max_tokens", 999),
        ("max_tokens", 2**53 + 1),
        ("max_tokens", 10**400),
        ("token_safety_margin", 0.49),
        ("token_safety_margin", 0.951),
        ("token_safety_margin", float("nan")),
        ("token_safety_margin", float("inf")),
        ("token_safety_margin", 10**400),
        ("token_safety_margin", True),
        ("token_safety_margin", "0.8"),
        ("memory_placement", "after"),
        ("memory_placement", ["before_history"]),
        ("include_recall", 1),
        ("include_recall", None),
        ("cache", "yes"),
        ("layer_budgets", []),
        ("layer_budgets", {"system": 0.1}),
        ("layer_budgets", {"user_message": 0.1}),
        ("layer_budgets", {"semantic": 0}),
        ("layer_budgets", {"semantic": 1.1}),
        ("layer_budgets", {"semantic": True}),
        ("layer_budgets", {"semantic": float("nan")}),
        ("layer_budgets", {"semantic": "0.5"}),
        ("layer_budgets", {"semantic": 0.6, "working": 0.5}),
        ("unheard_of", 1),
        ("self", 1),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(PolicyError) as refused:
        ContextPolicy().validated(**{key: value})

    assert list(refused.value.errors) == [key]
    assert key in str(refused.value)


def test_every_wrong_key_is_listed_with_what_is_allowed() -> None:
    with pytest.raises(PolicyError) as refused:
        ContextPolicy().validated(recall_limit=299, cache=1, colour="red", max_tokens=2000)

    assert refused.value.errors["recall_limit"] == "must be a whole number from 0 to 200"
    assert refused.value.errors["cache"] == "must be true or false"
    assert refused.value.errors["colour"].startswith("unknown; one of system_prompt")
    assert len(refused.value.errors) == 3


@pytest.mark.parametrize(
    ("max_tokens", "margin", "limit"),
    [
        (100_000, 0.8, 80_000),
        (100_000, 0.57, 56_999),
        (1_000, 0.57, 570),
        (1_001, 0.5, 500),
        (200_000, 0.95, 190_000),
        (128_000, 0.7, 89_600),
    ],
)
def test_token_limit_is_the_float_product_cut_off(max_tokens: int, margin: float, limit: int) -> None:
    policy = ContextPolicy().validated(max_tokens=max_tokens, token_safety_margin=margin)

    assert policy.token_limit == limit == int(max_tokens * margin)


def test_values_come_out_as_json_and_go_in_again() -> None:
    policy = ContextPolicy().validated(layer_budgets={"recall": 0.1, "pinned": 0.7, "working": 0.2})

    values = json.loads(json.dumps(policy.values()))

    assert values["layer_budgets"] == {"recall": 0.1, "pinned": 0.7, "working": 0.2}
    assert ContextPolicy.from_overrides(values) == policy


def test_overrides_may_hold_the_values_of_other_policies_but_no_wrong_ones() -> None:
    assert ContextPolicy.from_overrides({"archive_threshold": 0.1, "recall_limit": 1}).recall_limit == 1
    with pytest.raises(PolicyError):
        ContextPolicy.from_overrides({"recall_limit": 201})


def test_shares_may_sum_to_one_but_for_float_noise() -> None:
    thirds: dict[str, Any] = {"pinned": 0.1, "working": 0.2, "semantic": 0.3, "recall": 0.4 + 1e-12}

    assert ContextPolicy().validated(layer_budgets=thirds).layer_budgets is not None


def test_user_overrides_agent_overrides_default_and_options_override_all() -> None:
    agent = {"recall_limit": 5, "max_tokens": 5_000, "cache": True}
    user = {"recall_limit": 7, "max_tokens": 6_000}
    options = {"recall_limit": 0}

    policy = ContextPolicy.from_overrides(agent, user, options)

    assert (policy.recall_limit, policy.max_tokens, policy.cache) == (0, 6_000, True)
    assert policy.working_memory_limit == 10
