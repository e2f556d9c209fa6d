"""Configuration of sign-in, from the environment.

No Django here: `settings.py` keeps the result of `SignInConfig.from_env(os.environ)` as `settings.SIGN_IN`.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from memoryhub.env import EnvironmentProblem, read_switch, read_words

PREFIX: Final = "MEMORYHUB_OIDC_"
REQUIRED: Final = ("ISSUER", "CLIENT_ID", "CLIENT_SECRET")
"""All three are required for sign-in."""

MAX_ISSUER_LENGTH: Final = 200
EXAMPLE_AGENTS: Final = '{"team-kana": ["kana", "kana-dev"], "memory-admins": ["*"]}'
MAX_AGENT_LENGTH: Final = 255
EXAMPLE: Final = '{"memory-admins": "administrator", "memory-team": "curator"}'


@dataclass(frozen=True, slots=True)
class Provider:
    """An OpenID provider, and the roles of its groups."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str
    """Label of the sign-in button."""
    scopes: tuple[str, ...]
    groups_claim: str
    roles: Mapping[str, str]
    """Role by group; the first matching group counts."""
    agents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Agents by group; `*` is all of them. Empty: limits stay as they are."""


@dataclass(frozen=True, slots=True)
class SignInConfig:
    provider: Provider | None = None
    needs_second_factor: bool = False
    """Whether sign-in by password requires a second factor."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "SignInConfig":
        """Return the configuration; raises `EnvironmentProblem` naming the variable that is wrong or missing."""
        return cls(_provider(environ), read_switch(environ, "MEMORYHUB_REQUIRE_SECOND_FACTOR", False))


def _provider(environ: Mapping[str, str]) -> Provider | None:
    values = {name: environ.get(f"{PREFIX}{name}", "").strip() for name in (*REQUIRED, "NAME", "GROUPS_CLAIM")}
    scopes, roles, agents = read_words(environ, f"{PREFIX}SCOPES"), _roles(environ), _agents(environ)
    missing = [f"{PREFIX}{name}" for name in REQUIRED if not values[name]]
    if missing:
        if any(values.values()) or scopes or roles or agents:
            raise EnvironmentProblem(f"{', '.join(missing)} must be set too, or no variable that begins with {PREFIX}.")
        return None
    host = _checked_host(values["ISSUER"])
    return Provider(
        issuer=values["ISSUER"],
        client_id=values["CLIENT_ID"],
        client_secret=values["CLIENT_SECRET"],
        name=values["NAME"] or host,
        scopes=scopes or ("openid", "profile", "email"),
        groups_claim=values["GROUPS_CLAIM"] or "groups",
        roles=MappingProxyType(roles),
        agents=MappingProxyType(agents),
    )


def _checked_host(issuer: str) -> str:
    """Return the issuer's host; requires TLS, except on loopback."""
    try:
        parts = urlsplit(issuer)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    is_plain = bool(host) and not parts.query and not parts.fragment and " " not in issuer
    is_loopback = host == "localhost"
    with suppress(ValueError):
        is_loopback = is_loopback or ip_address(host).is_loopback
    is_safe = is_plain and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback))
    if is_safe and len(issuer) <= MAX_ISSUER_LENGTH:
        return host
    raise EnvironmentProblem(
        f"{PREFIX}ISSUER must be an address with https (http on this machine alone), such as "
        f"https://login.example.org/realms/team, not {issuer!r}."
    )


def _roles(environ: Mapping[str, str]) -> dict[str, str]:
    """Return roles by group."""
    raw = environ.get(f"{PREFIX}ROLES", "").strip()
    try:
        roles = json.loads(raw) if raw else {}
    except ValueError:
        roles = None
    if not isinstance(roles, dict) or not all(isinstance(role, str) for role in roles.values()):
        raise EnvironmentProblem(f"{PREFIX}ROLES must be JSON from groups to roles, such as {EXAMPLE}.")
    unknown = set(roles.values()) - {"curator", "administrator"}
    if unknown:
        raise EnvironmentProblem(
            f"{PREFIX}ROLES gives the role {sorted(unknown)[0]!r}; there are curator and administrator."
        )
    return roles


def _agents(environ: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return agents by group."""
    raw = environ.get(f"{PREFIX}AGENTS", "").strip()
    try:
        agents = json.loads(raw) if raw else {}
    except ValueError:
        agents = None
    if not isinstance(agents, dict) or (raw and not agents) or not all(map(_are_ids, agents.values())):
        raise EnvironmentProblem(
            f"{PREFIX}AGENTS must be JSON from groups to lists of agents, such as {EXAMPLE_AGENTS}."
        )
    return {group: tuple(ids) for group, ids in agents.items()}


def _are_ids(value: object) -> bool:
    """Return whether a value is a list of ids, as agents have them."""
    return isinstance(value, list) and all(
        isinstance(each, str) and 0 < len(each) <= MAX_AGENT_LENGTH and "\0" not in each for each in value
    )
