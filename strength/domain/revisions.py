"""What a revision remembers of a memory, and what restoring one brings back (SPEC M9)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from strength.domain.memories import Source

SLEEP_VERB = "sleep"
"""What a sleep did, and not a person."""


class Decision(StrEnum):
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
