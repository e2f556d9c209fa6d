"""Principals and keys."""

from uuid import uuid4

import pytest

from memoryhub.auth.principals import (
    Forbidden,
    Principal,
    PrincipalKind,
    Scope,
    command,
    curator,
    generate_key,
    key_digest,
)


def test_key_is_random_and_stored_as_digest_alone() -> None:
    first, second = generate_key(), generate_key()
    assert first.text != second.text
    assert first.text.startswith(f"mh_{first.prefix}_")
    assert first.digest == key_digest(first.text)
    assert first.digest not in first.text


def test_digest_of_what_is_no_text_is_a_digest_all_the_same() -> None:
    assert len(key_digest("\ud800")) == 64


def principal(*, agents: list[str] | None = None, user: str | None = None) -> Principal:
    names = None if agents is None else frozenset(agents)
    return Principal(PrincipalKind.KEY, str(uuid4()), "k", frozenset({Scope.READ}), names, user)


def test_key_without_limits_may_touch_all() -> None:
    free = principal()
    free.check_agent("anybody")
    free.check_user("anyone")
    assert free.may_touch_all_agents
    assert free.is_authenticated
    assert free.scopes == {Scope.READ}


def test_key_of_agents_is_refused_elsewhere() -> None:
    narrow = principal(agents=["kana"])
    narrow.check_agent("kana")
    assert not narrow.may_touch_all_agents
    with pytest.raises(Forbidden, match="agent 'yuno'"):
        narrow.check_agent("yuno")


def test_key_of_a_user_is_refused_for_others() -> None:
    bound = principal(user="hiroki")
    bound.check_user("hiroki")
    for other in ("", "aoi"):
        with pytest.raises(Forbidden, match="bound to one user"):
            bound.check_user(other)


def test_people_and_commands_are_told_apart() -> None:
    assert curator(7, "mika") == Principal(kind=PrincipalKind.CURATOR, id="7", name="mika")
    assert command("sleep").pk == "command:sleep"
