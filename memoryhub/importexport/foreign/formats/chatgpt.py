"""ChatGPT's export: the zip as downloaded, `conversations.json`, or its shards `conversations-000.json` and on. Pure.

A conversation is a tree of nodes; the branch up to `current_node` is what its owner sees. ChatGPT's memories are worded
by the model, and a page that it read may have put them there: they wait for review.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final

from memoryhub.importexport.foreign.archives import Archive, first_values, records_of
from memoryhub.importexport.foreign.records import (
    MAX_MEMORY_LENGTH,
    MAX_MESSAGE_LENGTH,
    SESSIONS,
    ImportedMemory,
    ImportedMessage,
    ImportedSession,
    LocatedRecord,
    Record,
    UnreadableElement,
    checked_id,
    checked_text,
    checked_title,
    mapping,
    parse_time,
    session_records,
)

_SHARD: Final = re.compile(r"conversations(-\d+)?\.json")
_SNAPSHOT_ENTRY: Final = re.compile(r"^[^\S\n]*+\d++\.\s*+\[[\d-]*+\]\.?\s*+", re.MULTILINE)


def recognises(archive: Archive) -> bool:
    return any(is_conversation(value) for value in first_values(archive, _shards(archive)))


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    yield from records_of(archive, _shards(archive), read_conversation, record_name=SESSIONS)


def _shards(archive: Archive) -> list[str]:
    shards = [name for name in archive.names if _SHARD.fullmatch(PurePosixPath(name).name)]
    return shards or (archive.names if len(archive.names) == 1 else [])


def is_conversation(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


def read_conversation(value: Any) -> Iterator[Record]:
    """Yield a conversation along its current branch, and its memories. Raises UnreadableElement."""
    if not is_conversation(value):
        raise UnreadableElement("it is no conversation: it has no `mapping` of messages.")
    session_id = checked_id(value.get("conversation_id") or value.get("id"), "conversation_id")
    session = ImportedSession(session_id, checked_title(value.get("title")), parse_time(value.get("create_time")))
    memories: list[ImportedMemory] = []

    def read_node(node: tuple[str, Mapping[str, Any]]) -> ImportedMessage | None:
        memories.extend(_memories(node[1]))
        return _read_message(*node)

    yield from session_records(session, _branch(value), read_node)
    yield from memories


def _branch(value: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the messages from the first to `current_node`, each with the id of its node."""
    nodes, node_id = value["mapping"], value.get("current_node")
    if not isinstance(node_id, str) or node_id not in nodes:
        raise UnreadableElement("its `current_node` is none of its messages.")
    path: list[str] = []
    visited: set[str] = set()
    while node_id is not None:
        node = nodes.get(node_id) if isinstance(node_id, str) else None
        if not isinstance(node, dict):
            raise UnreadableElement("a message names a parent that is not there.")
        if node_id in visited:
            raise UnreadableElement("its messages go round in a circle.")
        visited.add(node_id)
        path.append(node_id)
        node_id = node.get("parent")
    for node_id in reversed(path):
        message = nodes[node_id].get("message")
        if isinstance(message, dict):
            yield node_id, message


def _read_message(node_id: str, message: Mapping[str, Any]) -> ImportedMessage | None:
    """Return a message of the user or the assistant; None for system, tool and hidden messages."""
    role = mapping(message.get("author")).get("role")
    hidden = mapping(message.get("metadata")).get("is_visually_hidden_from_conversation") is True
    if role not in ("user", "assistant") or message.get("recipient", "all") != "all" or hidden:
        return None
    text = _text(mapping(message.get("content")))
    if not text.strip():
        return None
    created_at = parse_time(message.get("create_time"))
    return ImportedMessage(role, checked_text(text, MAX_MESSAGE_LENGTH), checked_id(node_id, "id"), created_at)


def _memories(message: Mapping[str, Any]) -> list[ImportedMemory]:
    """Return the memories in a message: calls of the `bio` tool, or the list of all memories."""
    content = mapping(message.get("content"))
    since = parse_time(message.get("create_time"))
    if message.get("recipient") == "bio":
        texts = [_text(content)]
    elif content.get("content_type") == "model_editable_context":
        snapshot = content.get("model_set_context")
        texts = _SNAPSHOT_ENTRY.split(snapshot)[1:] if isinstance(snapshot, str) else []
    else:
        return []
    return [
        ImportedMemory(checked_text(text.strip(), MAX_MEMORY_LENGTH), since=since, is_generated=True)
        for text in texts
        if text.strip()
    ]


def _text(content: Mapping[str, Any]) -> str:
    if content.get("content_type") not in ("text", "multimodal_text"):
        return ""
    parts = content.get("parts")
    if not isinstance(parts, list):
        return ""
    texts = [part if isinstance(part, str) else mapping(part).get("text") for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str) and text)
