"""The difference between two contexts of one message: which entries enter only one of them. Pure.

Works on items as a receipt stores them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conversations.domain.assembly import Assembly
from conversations.domain.layers import MEMORY_LAYERS

Item = Mapping[str, Any]


def identity(item: Item) -> str:
    """Return the key of a candidate across contexts; a memory keeps its own when it is pinned."""
    layer, key = item["layer"], item["source_id"] or item["excerpt"]
    if "memory_ids" in item:  # all lines of a written profile have the profile's id
        return f"line {item['excerpt']}"
    return f"{'memory' if layer in MEMORY_LAYERS else layer} {key}"


def is_of(item: Item, source_id: str) -> bool:
    """Return whether an item is a source's, or a line that rests on it."""
    return source_id in (item["source_id"], *item.get("memory_ids", ()))


@dataclass(frozen=True)
class Outcome:
    """A context's items, those that entered by identity, and its size; None for a context that is refused."""

    items: Sequence[Item]
    total_tokens: int
    token_limit: int
    prompt: Any

    @classmethod
    def of(cls, assembly: Assembly) -> "Outcome":
        items = [item.as_json() for item in assembly.items]
        metadata = assembly.metadata
        return cls(items, metadata.total_tokens, metadata.token_limit, (assembly.system, assembly.messages))

    @property
    def entered(self) -> dict[str, Item]:
        return {identity(item): item for item in self.items if item["included"]}

    def holds(self, source_id: str) -> bool:
        return any(item["included"] and is_of(item, source_id) for item in self.items)


@dataclass(frozen=True)
class Difference:
    """Entries of one context only, in the order of the prompt; one with another text is among both."""

    came: Sequence[Item]
    went: Sequence[Item]
    is_changed: bool

    @classmethod
    def between(cls, before: Outcome | None, after: Outcome | None) -> "Difference":
        """Compare two contexts with the same nonce; without any entry, one that is None was refused."""
        was, now = (outcome.entered if outcome else {} for outcome in (before, after))
        return cls(
            came=[item for key, item in now.items() if _is_new(item, was.get(key))],
            went=[item for key, item in was.items() if _is_new(item, now.get(key))],
            is_changed=(before and before.prompt) != (after and after.prompt),
        )


def _is_new(item: Item, other: Item | None) -> bool:
    return other is None or other["excerpt"] != item["excerpt"]


def by_frequency(items: Iterable[Item]) -> list[tuple[Item, int]]:
    """Return one item of each identity and text, and in how many contexts it is, the most frequent first."""
    listed = list(items)
    counts = Counter((identity(item), item["excerpt"]) for item in listed)
    first = {(identity(item), item["excerpt"]): item for item in reversed(listed)}
    return [(first[key], count) for key, count in counts.most_common()]
