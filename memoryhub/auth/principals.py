"""Principals, scopes and API keys: pure rules, no Django."""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from memoryhub.errors import DomainError, _, format_lazy

KEY_PREFIX = "mh"
PREFIX_LENGTH = 10


class Scope(StrEnum):
    """Permission of a key; scopes are independent, so a key usually has several."""

    READ = "read"
    WRITE = "write"
    CURATE = "curate"
    ADMIN = "admin"


class KeyState(StrEnum):
    USABLE = "usable"
    EXPIRED = "expired"
    REVOKED = "revoked"


class PrincipalKind(StrEnum):
    """Origin of a change: a key, a person in the admin, a job, or a command."""

    KEY = "key"
    CURATOR = "curator"
    JOB = "job"
    COMMAND = "command"


class TextVerb(StrEnum):
    """Changes of texts that jobs write and people correct."""

    WRITE = "write"
    EDIT = "edit"
    LOCK = "lock"
    UNLOCK = "unlock"
    RESTORE = "restore"
    DELETE = "delete"


class Forbidden(DomainError):
    """The key is valid but may not do this; the message says what is missing."""


@dataclass(frozen=True)
class Principal:
    """Authenticated caller. `agent_ids` None means every agent; `user_id` restricts to that user.

    `daily_token_cap` limits the tokens of a key in a day.
    """

    kind: PrincipalKind
    id: str
    name: str
    scopes: frozenset[Scope] = frozenset(Scope)
    agent_ids: frozenset[str] | None = None
    user_id: str | None = None
    is_trusted: bool = True
    daily_token_cap: int | None = None

    @property
    def is_authenticated(self) -> bool:
        """Django's and DRF's name for "not anonymous"; throttles and permissions read it."""
        return True

    @property
    def pk(self) -> str:
        return f"{self.kind}:{self.id}"

    @property
    def key_id(self) -> UUID | None:
        return UUID(self.id) if self.kind == PrincipalKind.KEY else None

    @property
    def may_touch_all_agents(self) -> bool:
        return self.agent_ids is None

    @property
    def only_agent_id(self) -> str:
        """Return the agent of a key for one agent; empty for several or all."""
        return next(iter(self.agent_ids)) if self.agent_ids is not None and len(self.agent_ids) == 1 else ""

    def check_agent(self, agent_id: str) -> None:
        if self.agent_ids is not None and agent_id not in self.agent_ids:
            raise Forbidden(format_lazy(_("This key may not touch the agent {agent}."), agent=repr(agent_id)))

    def check_user(self, user_id: str) -> None:
        if self.user_id is not None and user_id != self.user_id:
            raise Forbidden(_("This key is bound to one user; the request names another."))


@dataclass(frozen=True)
class NewKey:
    """A key as it is shown once; only `prefix` and `digest` are stored."""

    text: str
    prefix: str
    digest: str


def generate_key() -> NewKey:
    """Return a new random key of 256 bits, `mh_<10 characters>_<secret>`."""
    prefix = secrets.token_hex(PREFIX_LENGTH // 2)
    text = f"{KEY_PREFIX}_{prefix}_{secrets.token_urlsafe(32)}"
    return NewKey(text=text, prefix=prefix, digest=key_digest(text))


def key_digest(text: str) -> str:
    """Return the SHA-256 of a key. A slow hash would add nothing: a key has 256 random bits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def command(name: str) -> Principal:
    return Principal(kind=PrincipalKind.COMMAND, id=name, name=name)


def background(kind: str, job_id: UUID) -> Principal:
    """Return the principal of the server's own work in a job that no caller ordered."""
    return Principal(kind=PrincipalKind.JOB, id=str(job_id), name=kind)


def curator(user_pk: object, name: str, agent_ids: frozenset[str] | None = None) -> Principal:
    return Principal(kind=PrincipalKind.CURATOR, id=str(user_pk), name=name, agent_ids=agent_ids)


def within(limit: frozenset[str] | None, agent_ids: Iterable[str] | None) -> frozenset[str] | None:
    """Return the agents that are in both; None: all."""
    if agent_ids is None:
        return limit
    return frozenset(agent_ids) if limit is None else limit.intersection(agent_ids)
