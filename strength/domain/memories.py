"""Kinds, states, scopes and sources of memories, their identity, and what revisions keep of them (SPEC M1, M2, M9)."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from memoryhub.errors import DomainError, Message, _, format_lazy
from memoryhub.tenancy.namespaces import Kind as Kind
from memoryhub.tenancy.namespaces import default_namespace as default_namespace

MAX_CONTENT_LENGTH = 100_000
MAX_METADATA_BYTES = 4_096
MAX_TAGS = 50
MAX_CUES_LENGTH = 500
"""Characters; some thirty words."""


STANDING_KINDS = (Kind.PREFERENCE, Kind.FACT)
"""Kinds that apply to a user in any context: written profiles restate them, and sleeps spare those that are shown."""


class Status(StrEnum):
    """State of a memory; only active ones are searched for contexts."""

    ACTIVE = "active"
    PENDING = "pending"
    ARCHIVED = "archived"
    REJECTED = "rejected"


class ScopeLevel(StrEnum):
    """Visibility of a memory: in its project, to agents of its domain, or to every agent (SPEC M2)."""

    PROJECT = "project"
    DOMAIN = "domain"
    UNIVERSAL = "universal"


class Source(StrEnum):
    EDUCATION = "education"
    TASK = "task"
    MANUAL = "manual"
    EXTRACTION = "extraction"
    IMPORT = "import"


class MemoryRefused(DomainError, ValueError):
    """A validation error of a memory; `field` names the value that is wrong."""

    def __init__(self, field: str, message: Message) -> None:
        self.field = field
        super().__init__(message)


NO_UNTRUSTED_CUES = _("An untrusted key may not send cues; its memories are found by their texts.")


def content_digest(content: str) -> bytes:
    """Return the SHA-256 of a text without surrounding white space; memories with equal digests are duplicates."""
    return hashlib.sha256(content.strip().encode("utf-8")).digest()


def check_scope(level: ScopeLevel, *, domain: str, user_id: str) -> None:
    """Raise MemoryRefused for a scope this actor's memories may not have (SPEC M2)."""
    if level is ScopeLevel.PROJECT:
        return
    if user_id:
        raise MemoryRefused("scope_level", _("A user's memories are never shared: only `project` is allowed."))
    if level is ScopeLevel.DOMAIN and not domain:
        raise MemoryRefused(
            "scope_domain", _("A memory of scope `domain` needs a domain: the memory's or its agent's.")
        )


def check_metadata(metadata: Mapping[str, Any]) -> None:
    """Raise MemoryRefused for metadata that are too long as JSON."""
    if len(json.dumps(metadata, ensure_ascii=False).encode()) > MAX_METADATA_BYTES:
        raise MemoryRefused(
            "metadata", format_lazy(_("must have at most {most} bytes as JSON."), most=MAX_METADATA_BYTES)
        )


@dataclass(frozen=True, slots=True)
class MetadataCondition:
    """A comparison of the value at a path of keys: one of OPERATORS with a JSON value."""

    path: tuple[str, ...]
    operator: str
    value: Any


OPERATORS: Mapping[str, str] = {"$eq": "=", "$ne": "<>", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
"""Operators of metadata filters, and what they are in SQL."""


def split_metadata_filter(wanted: Mapping[str, Any]) -> tuple[dict[str, Any], list[MetadataCondition]]:
    """Return what metadata must contain, and the conditions: objects with operators as keys.

    Raises MemoryRefused for an unknown operator, or one that follows no key.
    """
    contained: dict[str, Any] = {}
    conditions: list[MetadataCondition] = []
    _split(wanted, (), contained, conditions)
    return contained, conditions


def _split(
    wanted: Mapping[str, Any], path: tuple[str, ...], contained: dict[str, Any], found: list[MetadataCondition]
) -> None:
    for name, value in wanted.items():
        if name.startswith("$"):
            if name not in OPERATORS or not path:
                must = _("{name} is no operator: compare the value of a key with one of {known}.")
                raise MemoryRefused("metadata", format_lazy(must, name=name[:50], known=", ".join(OPERATORS)))
            found.append(MetadataCondition(path, name, value))
        elif isinstance(value, Mapping) and value:
            inner: dict[str, Any] = {}
            before = len(found)
            _split(value, (*path, name), inner, found)
            if inner or len(found) == before:
                contained[name] = inner
        else:
            contained[name] = value


class WrongState(DomainError):
    code = "wrong_state"


class LockedByPerson(DomainError):
    """A person has edited this text; no job may rewrite it."""


class DuplicateMemory(DomainError):
    """Another memory in the same namespace has this text already."""

    code = "duplicate_memory"
    field = "content"


SLEEP_VERB = "sleep"
"""Verb of revisions by a sleep."""

RETURN_VERB = "return"
"""Verb of revisions of archived memories that were repeated."""

LOST_SOURCE_VERB = "lose_source"
"""Verb of revisions of memories that lost a message as their source; a person decides whether they still hold."""

FORGET_VERB = "ask_to_forget"
"""Verb of revisions of memories that the user asked to be forgotten; a person deletes or keeps them."""


FIRST_APPROVAL_VERB = "approve_first"
"""Verb of revisions by the first of two people who approve; the memory stays pending."""

APPROVER = "approver"
"""Key of the first approver in `MemoryRevision.beside`."""


class FeedChange(StrEnum):
    """Kinds of changes in the feed; whatever is no other kind is `changed`."""

    CREATED = "created"
    CHANGED = "changed"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"
    REJECTED = "rejected"
    ERASED = "erased"


class TombstoneReason(StrEnum):
    DELETED = "deleted"
    REJECTED = "rejected"
    EDITED = "edited"


AUTOMATIC_SOURCES = frozenset({Source.EXTRACTION, Source.TASK, Source.EDUCATION})
"""Sources of memories that programs write on their own."""

CURATED_FIELDS = (
    "content", "namespace", "kind", "tags", "scope_level", "scope_domain", "scope_project", "status", "pinned",
    "locked", "learnings", "metadata", "confidence", "valid_from", "valid_to",
    "cues",
)  # fmt: skip
"""Fields stored by revisions. Strength has its own history."""


def changed_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    keys = [key for key in CURATED_FIELDS if before.get(key) != after.get(key)]
    return {key: before.get(key) for key in keys}, {key: after.get(key) for key in keys}


def merged_tags(kept: Iterable[str], absorbed: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*kept, *absorbed]))


@dataclass(frozen=True)
class Labels:
    """A change of the tags, kind or namespace of many memories; what is empty stays. `namespace` may be a template."""

    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()
    kind: Kind | None = None
    namespace: str = ""
    remove_digests: tuple[str, ...] = ()
    """Digests of further tags to remove: a tag that is a secret is not stored to remove it."""

    def without_removed_texts(self) -> "Labels":
        """Return the same change with digests in place of the tags to remove."""
        digests = tuple(content_digest(tag).hex() for tag in self.remove_tags)
        return replace(self, remove_tags=(), remove_digests=(*self.remove_digests, *digests))

    def _removes(self, tag: str) -> bool:
        return tag in self.remove_tags or (
            bool(self.remove_digests) and content_digest(tag).hex() in self.remove_digests
        )

    def values_for(self, tags: Sequence[str]) -> dict[str, Any]:
        """Return the new values of a memory with these tags. Raises MemoryRefused for more than MAX_TAGS."""
        values: dict[str, Any] = {}
        if self.add_tags or self.remove_tags or self.remove_digests:
            values["tags"] = merged_tags((tag for tag in tags if not self._removes(tag)), self.add_tags)
            if len(values["tags"]) > MAX_TAGS:
                raise MemoryRefused("tags", format_lazy(_("A memory has at most {most} tags."), most=MAX_TAGS))
        if self.kind:
            values["kind"] = self.kind
        if self.namespace:
            values["namespace"] = self.namespace
        return values


def restorable_values(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Return the curated values that restoring a revision brings back: all but the lock, which stays."""
    return {key: snapshot[key] for key in CURATED_FIELDS if key in snapshot and key != "locked"}
