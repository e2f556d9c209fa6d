"""Deterministic ids for an import under another name, and rewriting of references. Pure.

New ids derive from the old id and the new actor, so that a second import finds the rows of the first; the first 48
bits (the time) are kept, so that rows keep their order.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from memoryhub.tenancy.namespaces import namespace_owner

_TIME_BYTES = 6
_FIXED_BITS = (0xF << 76) | (0x3 << 62)
_VERSION_7 = (0x7 << 76) | (0x2 << 62)


@dataclass(frozen=True)
class Names:
    """Agent and user to import into; None keeps those of the file."""

    agent_id: str | None = None
    user_id: str | None = None

    def of(self, agent_id: str, user_id: str) -> tuple[str, str]:
        return (
            agent_id if self.agent_id is None else self.agent_id,
            user_id if self.user_id is None else self.user_id,
        )


@dataclass
class Renaming:
    """Map of old ids to new ones, as integers: an import holds as many as it has rows."""

    ids: dict[int, int] = field(default_factory=dict)

    def add(self, old: UUID, actor: UUID) -> None:
        self.ids[old.int] = renamed_id(old, actor).int

    def add_actor(self, old: UUID, new: UUID) -> None:
        self.ids[old.int] = new.int

    def id(self, text: Any) -> Any:
        """Return the new id of an old one; other values unchanged."""
        if not isinstance(text, str) or len(text) != 36:
            return text
        try:
            new = self.ids.get(UUID(text).int)
        except ValueError:
            return text
        return text if new is None else str(UUID(int=new))

    def within(self, value: Any, owners: Mapping[str, str]) -> Any:
        """Rewrite ids and namespace owners inside a JSON value."""
        if isinstance(value, list):
            return [self.within(each, owners) for each in value]
        if isinstance(value, dict):
            return {
                self.id(key): namespace(each, owners) if key == "namespace" else self.within(each, owners)
                for key, each in value.items()
            }
        return self.id(value)


def renamed_id(old: UUID, actor: UUID) -> UUID:
    """Derive the id of a row imported into another actor."""
    digest = hashlib.sha256(actor.bytes + old.bytes).digest()
    number = int.from_bytes(old.bytes[:_TIME_BYTES] + digest[: 16 - _TIME_BYTES], "big")
    return UUID(int=number & ~_FIXED_BITS | _VERSION_7)


def owners(old: tuple[str, str], new: tuple[str, str]) -> dict[str, str]:
    return {namespace_owner(*old): namespace_owner(*new)}


def namespace(path: Any, owners: Mapping[str, str]) -> Any:
    """Replace the owner in a namespace."""
    if not isinstance(path, str):
        return path
    return "/".join(owners.get(part, part) for part in path.split("/"))
