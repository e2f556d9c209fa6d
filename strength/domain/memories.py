"""What a memory is: its kinds, its states, the namespace it lies in, and when two are the same text."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from memoryhub.errors import DomainError, Message, _
from memoryhub.tenancy.namespaces import ACTOR_PLACEHOLDER


class Kind(StrEnum):
    """What sort of thing is remembered (SPEC M1)."""

    FACT = "fact"
    PREFERENCE = "preference"
    SUMMARY = "summary"
    EPISODE = "episode"
    REFLECTION = "reflection"
    LEARNING = "learning"
    DECISION = "decision"
    NOTE = "note"


class Status(StrEnum):
    """Where a memory stands; only active ones are searched for contexts."""

    ACTIVE = "active"
    PENDING = "pending"
    ARCHIVED = "archived"
    REJECTED = "rejected"


class ScopeLevel(StrEnum):
    """Who sees a memory: its project, agents of its domain, or every agent (SPEC M2)."""

    PROJECT = "project"
    DOMAIN = "domain"
    UNIVERSAL = "universal"


class Source(StrEnum):
    """Where a memory comes from."""

    EDUCATION = "education"
    TASK = "task"
    MANUAL = "manual"
    EXTRACTION = "extraction"
    IMPORT = "import"


FOLDERS = {
    Kind.FACT: "facts",
    Kind.PREFERENCE: "preferences",
    Kind.SUMMARY: "summaries",
    Kind.EPISODE: "episodes",
    Kind.REFLECTION: "reflections",
    Kind.LEARNING: "learnings",
    Kind.DECISION: "decisions",
    Kind.NOTE: "notes",
}


class MemoryRefused(DomainError, ValueError):
    """A memory that cannot be written as asked; `field` names the value that is wrong."""

    def __init__(self, field: str, message: Message) -> None:
        self.field = field
        super().__init__(message)


def default_namespace(kind: Kind) -> str:
    """Return where a memory of this kind lies when nobody says."""
    return f"/{FOLDERS[kind]}/{ACTOR_PLACEHOLDER}/"


def content_digest(content: str) -> bytes:
    """Return the SHA-256 of a text without the white space around it: equal digests, same memory."""
    return hashlib.sha256(content.strip().encode("utf-8")).digest()


def check_scope(level: ScopeLevel, *, domain: str, user_id: str) -> None:
    """Raise MemoryRefused for a scope this actor's memories may not have (SPEC M2)."""
    if level is ScopeLevel.PROJECT:
        return
    if user_id:
        raise MemoryRefused(
            "scope_level", _("A person's memories never leave that person: only `project` is allowed.")
        )
    if level is ScopeLevel.DOMAIN and not domain:
        raise MemoryRefused(
            "scope_domain", _("A memory of scope `domain` needs a domain, of its own or its agent's.")
        )


class WrongState(DomainError):
    """The memory is in a state from which this cannot be done."""


class LockedByPerson(DomainError):
    """A person has put this text right; nothing rewrites it automatically."""


class DuplicateMemory(DomainError):
    """Another memory in the same namespace has this text already."""


SLEEP_VERB = "sleep"
"""What a sleep did, and not a person."""


class TombstoneReason(StrEnum):
    """What a person decided about a text that is not to come back."""

    DELETED = "deleted"
    REJECTED = "rejected"
    EDITED = "edited"


# Written by a program on its own account, not because somebody asked for it.
AUTOMATIC = frozenset({Source.EXTRACTION, Source.TASK, Source.EDUCATION})

# The curated fields: what people decide about. Strength has a history of its own.
CURATED = (
    "content",
    "namespace",
    "kind",
    "tags",
    "scope_level",
    "scope_domain",
    "scope_project",
    "status",
    "pinned",
    "locked",
    "learnings",
    "confidence",
    "valid_from",
    "valid_to",
)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the curated values that differ, as they were and as they are."""
    keys = [key for key in CURATED if before.get(key) != after.get(key)]
    return {key: before.get(key) for key in keys}, {key: after.get(key) for key in keys}


def values_after(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a restored memory gets: the curated values as they stood after that revision.

    All but the lock: that a person has edited it stays true.
    """
    return {key: snapshot[key] for key in CURATED if key in snapshot and key != "locked"}
