"""What a memory is: its kinds, its states, the namespace it lies in, and when two are the same text."""

import hashlib
from enum import StrEnum

from memoryhub.errors import DomainError, told
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

    def __init__(self, field: str, message: str) -> None:
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
            "scope_level", told("A person's memories never leave that person: only `project` is allowed.")
        )
    if level is ScopeLevel.DOMAIN and not domain:
        raise MemoryRefused(
            "scope_domain", told("A memory of scope `domain` needs a domain, of its own or its agent's.")
        )
