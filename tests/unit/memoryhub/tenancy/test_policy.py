"""Actors' keys, policies and trust."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.tenancy.policy import (
    Check,
    Policy,
    PolicyError,
    Trust,
    TrustPolicy,
    actor_id,
    number,
    one_of,
    switch,
    text,
    whole,
    words,
)


def test_actor_id_is_the_same_for_ever() -> None:
    assert str(actor_id("kana", "hiroki")) == "8658d626-877e-55f8-9780-7ad9485c9497"
    assert actor_id("kana") == actor_id("kana", "")
    assert actor_id("kana").version == 5


@given(st.text(), st.text(), st.text(), st.text())
def test_actor_id_keeps_agents_and_users_apart(agent: str, user: str, other_agent: str, other_user: str) -> None:
    same = (agent, user) == (other_agent, other_user)
    assert (actor_id(agent, user) == actor_id(other_agent, other_user)) is same


@pytest.mark.parametrize(
    ("check", "fine", "wrong"),
    [
        (whole(1, 50), [1, 50], [0, 51, 1.0, True, "1", None]),
        (whole(3), [3, 10**9], [2, -1]),
        (number(0, 1), [0, 1, 0.5], [-0.1, 1.1, True, "0.5", float("nan"), float("inf")]),
        (number(0, above=True), [0.001, 5], [0, -1, 1e12]),
        (one_of(("a", "b")), ["a", "b"], ["c", None, 1, ["a"]]),
        (words(), [[], ["a"], ("a", "b")], ["a", [""], [1], ["x" * 256], ["a"] * 201, None]),
        (switch(), [True, False], [0, 1, "true", None]),
        (text(3), ["", "abc"], ["abcd", 1, None]),
    ],
)
def test_check_holds_for_what_it_allows_alone(check: Check, fine: list[Any], wrong: list[Any]) -> None:
    assert [value for value in fine if not check.holds(value)] == []
    assert [value for value in wrong if check.holds(value)] == []


@pytest.mark.parametrize(
    ("check", "allowed"),
    [
        (whole(1, 50), "a whole number from 1 to 50"),
        (whole(3), "a whole number, 3 or more"),
        (number(0, 1), "a number from 0 to 1"),
        (number(0, above=True), "a number above 0"),
        (one_of(("a", "b")), "one of a, b"),
        (text(3), "a text of at most 3 characters"),
    ],
)
def test_check_says_what_is_allowed(check: Check, allowed: str) -> None:
    assert check.allowed == allowed


@dataclass(frozen=True)
class Sample(Policy):
    """Two values that must not cross."""

    low: int = 1
    high: int = 9
    names: tuple[str, ...] = ()
    by_name: Mapping[str, int] | None = None

    CHECKS = {
        "low": whole(0, 10),
        "high": whole(0, 10),
        "names": words(),
        "by_name": Check(lambda value: isinstance(value, dict), "an object"),
    }
    RECOMMENDED = {"low": (1, 3), "high": (5, 9)}


def test_policy_lays_overrides_over_each_other_and_ignores_other_policies_keys() -> None:
    policy = Sample.from_overrides({"low": 2, "names": ["a"], "other": 1}, {"low": 3})
    assert policy == Sample(low=3, names=("a",))
    assert policy.values() == {"low": 3, "high": 9, "names": ["a"], "by_name": None}
    assert Sample.from_overrides({"by_name": {"x": 1}}).values()["by_name"] == {"x": 1}
    assert Sample.keys() == {"low", "high", "names", "by_name"}


def test_policy_names_every_wrong_value() -> None:
    with pytest.raises(PolicyError) as caught:
        Sample.from_overrides({"low": "x", "high": 99})
    assert caught.value.errors == {
        "low": "must be a whole number from 0 to 10",
        "high": "must be a whole number from 0 to 10",
    }
    assert "low: must be" in str(caught.value)


def test_policy_names_values_outside_their_recommended_range() -> None:
    assert Sample().unusual() == {}
    assert Sample(low=4).unusual() == {"low": "is 4; 1 to 3 is recommended"}


@pytest.mark.parametrize(
    ("channel", "believed", "trust"),
    [
        ("web", True, Trust.TRUSTED),
        ("slack", True, Trust.UNTRUSTED),
        ("web", False, Trust.UNTRUSTED),
        ("slack", False, Trust.UNTRUSTED),
        ("Slack", True, Trust.UNTRUSTED),
        ("ＳＬＡＣＫ ", True, Trust.UNTRUSTED),
        ("sIack", True, Trust.UNTRUSTED),
        ("s1ack", True, Trust.UNTRUSTED),
        ("ѕlасk", True, Trust.UNTRUSTED),
        ("sl\u200back", True, Trust.UNTRUSTED),
        ("slack2", True, Trust.TRUSTED),
    ],
)
def test_trust_needs_a_trusted_channel_and_a_trusted_key(channel: str, believed: bool, trust: Trust) -> None:
    policy = TrustPolicy(untrusted_channels=("slack",))
    assert policy.trust(channel=channel, source_is_trusted=believed) is trust
