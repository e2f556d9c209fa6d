"""The visible branch of a conversation that is stored as a tree: an edit or a regenerated answer begins a branch. Pure.

Broken links do not lose a conversation: an unknown end is replaced by the newest leaf, and a message without a parent,
or with one that follows from it, is joined to the newest message before it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from memoryhub.importexport.foreign.records import (
    BRANCHES,
    BROKEN_LINKS,
    ImportedMessage,
    ImportedSession,
    Record,
    session_records,
)

NO_PARENT: Final = re.compile(r"0{8}-0{4}-[04]0{3}-[08]0{3}-0{12}")
"""Ids that programs write for the parent of a first message."""


def parent_id(value: Any) -> Any:
    """Return a parent's id, None for that of a first message."""
    return None if value in (None, "") or (isinstance(value, str) and NO_PARENT.fullmatch(value)) else value


def node_parents(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return each node's parent; by the parents' `children` where nodes do not name theirs."""
    if any("parent" in node for node in nodes.values()):
        return {key: parent_id(node.get("parent")) for key, node in nodes.items()}
    lists = ((key, node.get("children")) for key, node in nodes.items())
    by_child = {str(child): key for key, children in lists if isinstance(children, list) for child in children}
    return {key: by_child.get(key) for key in nodes}


def branch_records(
    session: ImportedSession,
    messages: Mapping[str, Mapping[str, Any]],
    read: Callable[[tuple[str, Mapping[str, Any]]], ImportedMessage | None],
    *,
    parents: Mapping[str, Any],
    times: Mapping[str, float],
    current: Any = None,
    left_out: Mapping[str, int] = MappingProxyType({}),
) -> Iterator[Record]:
    """Yield a session with the messages of its visible branch; `parents` may have nodes without a message."""
    branch, broken = visible_branch(parents, current, times=times)
    path = [(key, messages[key]) for key in branch if key in messages]
    counts = {**left_out, BRANCHES: len(messages) - len(path), BROKEN_LINKS: broken}
    return session_records(session, path, read, left_out=counts)


def visible_branch(
    parents: Mapping[str, Any], current: Any = None, *, times: Mapping[str, float]
) -> tuple[list[str], int]:
    """Return the ids from the first message to `current`, and the number of broken links.

    `parents` has the parent's id of each message, None for a first one; `times` orders messages, and those without a
    time keep the file's order.
    """
    order = {key: (times.get(key, 0.0), number) for number, key in enumerate(parents)}
    known_end = isinstance(current, str) and current in parents
    broken = int(current is not None and not known_end)
    node = current if known_end else _newest_leaf(parents, order)
    path: list[str] = []
    visited: set[str] = set()
    newest_first = None
    while node is not None:
        path.append(node)
        visited.add(node)
        parent = parents[node]
        if parent is None:
            break
        if isinstance(parent, str) and parent in parents and parent not in visited:
            node = parent
            continue
        broken += 1
        newest_first = newest_first or iter(sorted(parents, key=order.__getitem__, reverse=True))
        latest = order[node]
        node = next((key for key in newest_first if key not in visited and order[key] < latest), None)
    return path[::-1], broken


def _newest_leaf(parents: Mapping[str, Any], order: Mapping[str, tuple[float, int]]) -> str | None:
    inner = {parent for parent in parents.values() if isinstance(parent, str)}
    return max(parents.keys() - inner or parents, key=order.__getitem__, default=None)
