"""Settings of signing in from the environment, and the errors of wrong ones."""

from typing import Any

import pytest

from memoryhub.auth.config import SignInConfig
from memoryhub.auth.roles import ROLES
from memoryhub.env import EnvironmentProblem

WHOLE = {
    "MEMORYHUB_OIDC_ISSUER": "https://login.example.org/realms/team",
    "MEMORYHUB_OIDC_CLIENT_ID": "memoryhub",
    "MEMORYHUB_OIDC_CLIENT_SECRET": "SECRET",
}


def test_nothing_is_configured_by_default() -> None:
    config = SignInConfig.from_env({})
    assert (config.provider, config.needs_second_factor) == (None, False)


def test_three_variables_are_enough() -> None:
    provider = SignInConfig.from_env(WHOLE).provider
    assert provider is not None
    assert (provider.name, provider.groups_claim, dict(provider.roles)) == ("login.example.org", "groups", {})
    assert provider.scopes == ("openid", "profile", "email") and "SECRET" not in repr(provider)


def test_everything_can_be_said() -> None:
    more = {
        "MEMORYHUB_OIDC_NAME": "Example",
        "MEMORYHUB_OIDC_SCOPES": "openid, roles",
        "MEMORYHUB_OIDC_GROUPS_CLAIM": "roles",
        "MEMORYHUB_OIDC_ROLES": '{"a": "administrator", "b": "curator"}',
        "MEMORYHUB_OIDC_AGENTS": '{"a": ["*"], "b": ["kana", "kana-dev"], "c": []}',
        "MEMORYHUB_REQUIRE_SECOND_FACTOR": "1",
    }
    config = SignInConfig.from_env({**WHOLE, **more})
    assert config.provider is not None and config.needs_second_factor
    assert (config.provider.name, config.provider.scopes) == ("Example", ("openid", "roles"))
    assert list(config.provider.roles.values()) == list(reversed(ROLES))
    assert dict(config.provider.agents) == {"a": ("*",), "b": ("kana", "kana-dev"), "c": ()}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"MEMORYHUB_OIDC_CLIENT_SECRET": ""}, "MEMORYHUB_OIDC_CLIENT_SECRET must be set too"),
        ({"MEMORYHUB_OIDC_ISSUER": "", "MEMORYHUB_OIDC_CLIENT_ID": " "}, "ISSUER, MEMORYHUB_OIDC_CLIENT_ID must"),
        ({"MEMORYHUB_OIDC_ISSUER": "http://login.example.org"}, "https"),
        ({"MEMORYHUB_OIDC_ISSUER": "https://login.example.org/?a=b"}, "https"),
        ({"MEMORYHUB_OIDC_ISSUER": "https://["}, "https"),
        ({"MEMORYHUB_OIDC_ISSUER": f"https://login.example.org/{'x' * 200}"}, "https"),
        ({"MEMORYHUB_OIDC_ROLES": "team=curator"}, "JSON"),
        ({"MEMORYHUB_OIDC_ROLES": '["team"]'}, "JSON"),
        ({"MEMORYHUB_OIDC_ROLES": '{"team": 1}'}, "JSON"),
        ({"MEMORYHUB_OIDC_ROLES": '{"team": "superuser"}'}, "'superuser'"),
        ({"MEMORYHUB_OIDC_AGENTS": "team=kana"}, "JSON from groups to lists of agents"),
        ({"MEMORYHUB_OIDC_AGENTS": "{}"}, "JSON from groups to lists of agents"),
        ({"MEMORYHUB_OIDC_AGENTS": '{"team": "kana"}'}, "JSON from groups to lists of agents"),
        ({"MEMORYHUB_OIDC_AGENTS": '{"team": [""]}'}, "JSON from groups to lists of agents"),
        ({"MEMORYHUB_OIDC_AGENTS": '{"team": [7]}'}, "JSON from groups to lists of agents"),
        ({"MEMORYHUB_REQUIRE_SECOND_FACTOR": "perhaps"}, "MEMORYHUB_REQUIRE_SECOND_FACTOR"),
    ],
)
def test_what_is_wrong_is_named(values: dict[str, Any], said: str) -> None:
    with pytest.raises(EnvironmentProblem, match=said):
        SignInConfig.from_env({**WHOLE, **values})


@pytest.mark.parametrize("name", ["NAME", "ROLES", "SCOPES", "GROUPS_CLAIM"])
def test_what_is_set_without_a_provider_is_half_a_configuration(name: str) -> None:
    with pytest.raises(EnvironmentProblem, match="MEMORYHUB_OIDC_ISSUER"):
        SignInConfig.from_env({f"MEMORYHUB_OIDC_{name}": '{"a": "curator"}'})


@pytest.mark.parametrize("issuer", ["http://127.0.0.1:9", "http://localhost:8080/realms/a", "http://[::1]:9"])
def test_plain_http_is_for_this_machine(issuer: str) -> None:
    assert SignInConfig.from_env({**WHOLE, "MEMORYHUB_OIDC_ISSUER": issuer}).provider is not None
