"""LangGraph's `BaseStore` on memories; needs the extra `[langgraph]`.

An item is a memory: its text is what people read and searches find, its value is the text and the memory's metadata.
Its namespace ends in the item's key, so that equal texts under two keys are two memories. Memories that came in by
another door are items as well, with their id as key.
"""

import asyncio
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final, cast
from urllib.parse import quote, unquote

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
)

from memoryhub_client import types as t
from memoryhub_client.client import Memoryhub
from memoryhub_client.errors import Conflict, NotFound

MARK: Final = "langgraph"
"""Key in a memory's metadata: the item's `key`, its `ttl_minutes`, and whether the value has its `text`."""
TEXT: Final = "content"
PAGE: Final = 500
MOST_FOUND: Final = 200
AT_ONCE: Final = 8
COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
REFRESHED_AFTER: Final = 0.1
"""Share of a time to live after which a read refreshes it: a refresh is a write."""


class MemoryhubStore(BaseStore):
    """Store of the client's user. The client is synchronous, and used in threads.

    `fields` names what of a value is searched, in LangGraph's paths; else it is its `content`, or all of it.
    """

    supports_ttl = True

    def __init__(
        self,
        hub: Memoryhub,
        *,
        fields: Sequence[str] | None = None,
        kind: t.MemoryKind = "note",
        ttl: TTLConfig | None = None,
    ) -> None:
        self.ttl_config = ttl
        self._hub = hub
        self._fields = fields
        self._kind = kind

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out the reads, then the writes; of several writes of one item the last counts."""
        asked = list(ops)
        puts = {(op.namespace, op.key): op for op in asked if isinstance(op, PutOp)}
        with ThreadPoolExecutor(AT_ONCE) as threads:
            results = list(threads.map(self._read, asked))
            list(threads.map(self._put, puts.values()))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Like `batch`, in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, SearchOp):
            return self._search(op)
        return self._namespaces(op) if isinstance(op, ListNamespacesOp) else None

    def _get(self, op: GetOp) -> Item | None:
        memory = next(iter(self._of_key(op.namespace, op.key)), None) or self._by_id(op)
        if memory is None:
            return None
        self._refresh([memory], op.refresh_ttl)
        return as_item(memory)

    def _of_key(self, namespace: Sequence[str], key: str, **more: Any) -> list[t.Memory]:
        """Return the memories of an item, the latest first: two writers may have made one each."""
        place, mark = as_path((*namespace, key)), json.dumps({MARK: {"key": key}})
        rows = self._hub.memories_list(namespace=place, metadata=mark, limit=PAGE, **more)
        found = [each for each in rows if each["namespace"] == place]
        return sorted(found, key=lambda each: each["updated_at"], reverse=True)

    def _by_id(self, op: GetOp) -> t.Memory | None:
        """Return a memory that came in by another door."""
        if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", op.key) is None:
            return None
        try:
            memory = self._hub.memory_get(op.key)
        except NotFound:
            return None
        is_there = memory["status"] == "active" and not has_ended(memory) and self._is_own(memory)
        return memory if is_there and as_item(memory).namespace == op.namespace else None

    def _search(self, op: SearchOp) -> list[SearchItem]:
        wanted = op.filter or {}
        rows = self._found(op) if op.query else ((each, None) for each in self._listed(op))
        matching = ((row, score) for row, score in rows if matches(as_item(row).value, wanted))
        page = list(islice(matching, op.offset, op.offset + op.limit))
        self._refresh([memory for memory, _ in page], op.refresh_ttl)
        items = [(as_item(memory), score) for memory, score in page]
        return [
            SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)
            for item, score in items
        ]

    def _listed(self, op: SearchOp) -> Iterator[t.Memory]:
        query: dict[str, Any] = {"namespace": as_path(op.namespace_prefix), "limit": PAGE}
        if narrowed := as_metadata_filter(op.filter):
            query["metadata"] = json.dumps(narrowed)
        return self._hub.memories_list(**cast(Any, query))

    def _found(self, op: SearchOp) -> Iterator[tuple[t.Memory, float]]:
        filters = {"namespace": as_path(op.namespace_prefix), "metadata": as_metadata_filter(op.filter)}
        most = min(op.offset + op.limit, MOST_FOUND)
        found = self._hub.memories_search(
            query=op.query or "", limit=most, candidate_limit=1000, similarity_threshold=-1, filters=cast(Any, filters)
        )
        for each in found["results"]:
            if self._is_own(each["memory"]):
                yield each["memory"], each["final_score"]

    def _is_own(self, memory: t.Memory) -> bool:
        """Say whether a memory is the user's own: a search finds what other agents share as well."""
        return memory["agent_id"] == self._hub.agent_id and memory["user_id"] == (self._hub.user_id or "")

    def _put(self, op: PutOp) -> None:
        known = self._of_key(op.namespace, op.key, status="all", ended=True)
        for each in known[1:] if op.value is not None else known:
            if each["status"] == "active":
                self._change(self._hub.memory_archive, each, "LangGraph deleted it.")
        if op.value is None:
            return self._delete_by_id(op)
        text, metadata = self._as_memory(op, op.value)
        ends = None if op.ttl is None else _in(op.ttl)
        if not known:
            place = as_path((*op.namespace, op.key))
            self._hub.memories_create(content=text, metadata=metadata, namespace=place, kind=self._kind, valid_to=ends)
            return None
        self._hub.memory_update(known[0]["id"], content=text, metadata=metadata, valid_to=ends)
        if known[0]["status"] == "archived":
            self._change(self._hub.memory_reactivate, known[0], "LangGraph put it again.")
        return None

    def _delete_by_id(self, op: PutOp) -> None:
        if memory := self._by_id(GetOp(op.namespace, op.key)):
            self._change(self._hub.memory_archive, memory, "LangGraph deleted it.")

    def _change(self, act: Callable[..., Any], memory: t.Memory, reason: str) -> None:
        """Archive or reactivate a memory. Refused, it was so at that moment: other writers of the item do the same."""
        try:
            act(memory["id"], reason=reason)
        except Conflict:
            if self._hub.memory_get(memory["id"])["status"] not in ("active", "archived"):
                raise

    def _as_memory(self, op: PutOp, value: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return an item's text, and its metadata: what of the value is not the text, and the mark."""
        mark: dict[str, Any] = {"key": op.key}
        if op.ttl is not None:
            mark["ttl_minutes"] = op.ttl
        fields = self._fields if op.index is None else op.index or []
        text = value.get(TEXT)
        if isinstance(text, str) and text.strip() and fields in (None, [TEXT]):
            return text, {**_without(value, TEXT), MARK: mark}
        paths = ["$"] if fields is None else fields
        texts = [each for path in paths for each in get_text_at_path(value, path)]
        return "\n".join(texts).strip() or op.key, {**value, MARK: {**mark, "whole": True}}

    def _refresh(self, memories: Iterable[t.Memory], is_wanted: bool) -> None:
        for memory in memories if is_wanted else ():
            minutes = (memory["metadata"].get(MARK) or {}).get("ttl_minutes")
            if minutes is None or memory["valid_to"] is None:
                continue
            left = datetime.fromisoformat(memory["valid_to"]) - datetime.now(UTC)
            if left < timedelta(minutes=minutes) * (1 - REFRESHED_AFTER):
                self._hub.memory_update(memory["id"], valid_to=_in(minutes))

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        fixed: tuple[str, ...] = next((each.path for each in conditions if each.match_type == "prefix"), ())
        start = fixed[: fixed.index("*")] if "*" in fixed else fixed
        rows = self._hub.memories_list(namespace=as_path(start), limit=PAGE)
        every = {as_item(each).namespace for each in rows}
        found = {each[: op.max_depth] for each in every if all(_fits(each, one) for one in conditions)}
        return sorted(found)[op.offset : op.offset + op.limit]


def as_path(labels: Sequence[str]) -> str:
    """Return labels as a namespace of memories."""
    return "/" + "".join(f"{quote(label, safe='')}/" for label in labels)


def as_item(memory: t.Memory) -> Item:
    """Return a memory as an item."""
    labels = tuple(unquote(each) for each in memory["namespace"].strip("/").split("/"))
    mark = memory["metadata"].get(MARK)
    value = _without(memory["metadata"], MARK)
    if mark is None or not mark.get("whole"):
        value[TEXT] = memory["content"]
    return Item(
        value=value,
        key=memory["id"] if mark is None else mark["key"],
        namespace=labels if mark is None else labels[:-1],
        created_at=datetime.fromisoformat(memory["created_at"]),
        updated_at=datetime.fromisoformat(memory["updated_at"]),
    )


def _without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def _in(minutes: float) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()


def has_ended(memory: t.Memory) -> bool:
    return memory["valid_to"] is not None and datetime.fromisoformat(memory["valid_to"]) <= datetime.now(UTC)


def as_metadata_filter(wanted: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what of a filter the server can apply: it finds no less than `matches`, which decides."""
    return {
        name: value
        for name, value in (wanted or {}).items()
        if name not in (TEXT, MARK) and value is not None and _can_be_asked(name, value)
    }


def matches(value: Any, wanted: Any) -> bool:
    """Match a value against a filter: operators, objects by their keys, all else by equality."""
    if not isinstance(wanted, Mapping):
        return bool(value == (list(wanted) if isinstance(wanted, tuple) else wanted))
    if any(name.startswith("$") for name in wanted):
        return all(_holds(value, name, operand) for name, operand in wanted.items())
    return isinstance(value, Mapping) and all(matches(value.get(name), each) for name, each in wanted.items())


def _holds(value: Any, comparison: str, operand: Any) -> bool:
    if comparison not in COMPARISONS:
        raise ValueError(f"Unsupported operator: {comparison}")
    is_ordered = isinstance(value, str) and isinstance(operand, str)
    is_ordered |= isinstance(value, int | float) and isinstance(operand, int | float)
    return bool((is_ordered or comparison in ("$eq", "$ne")) and COMPARISONS[comparison](value, operand))


def _can_be_asked(name: str, wanted: Any) -> bool:
    """Say whether the server can evaluate a filter: known operators, and no NUL, NaN or number beyond JSON's."""
    try:
        text = json.dumps({name: wanted}, allow_nan=False)
    except ValueError:
        return False
    names = re.findall(r'"(\$[^"]*)": ', text)
    is_plain = re.search(r"\\u0000|\d{16}", text) is None
    return is_plain and all(each in COMPARISONS for each in names) and not name.startswith("$")


def _fits(namespace: Sequence[str], condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
