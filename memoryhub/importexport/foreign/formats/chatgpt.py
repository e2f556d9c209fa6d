"""ChatGPT's export: the zip as downloaded, `conversations.json`, or its shards `conversations-000.json` and on. Pure.

A conversation is a tree of nodes; the branch up to `current_node` is what its owner sees. ChatGPT's memories are worded
by the model, and a page that it read may have put them there: they wait for review, as do the custom instructions.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final

from memoryhub.importexport.foreign.archives import Archive, first_values, records_of
from memoryhub.importexport.foreign.records import (
    CUSTOM_INSTRUCTIONS,
    FAILED,
    FILES,
    HIDDEN,
    MAX_MEMORY_LENGTH,
    NO_OBJECTS,
    SAVED_MEMORY,
    SESSIONS,
    THOUGHTS,
    TOOLS,
    ImportedMemory,
    ImportedMessage,
    ImportedSession,
    LeftOut,
    LocatedRecord,
    Record,
    UnreadableElement,
    checked_id,
    checked_text,
    checked_title,
    lenient_time,
    mapping,
    memories_once,
    new_message,
    objects,
    parse_time,
    sort_time,
)
from memoryhub.importexport.foreign.trees import branch_records, node_parents

_SHARD: Final = re.compile(r"conversations(-\d+)?\.json")
_SNAPSHOT_ENTRY: Final = re.compile(r"^[^\S\n]*+\d++\.\s*+\[[\d-]*+\]\.?\s*+", re.MULTILINE)
_QUOTED: Final = re.compile(r"```(.*?)```", re.DOTALL)

CANVAS: Final = "canmore.create_textdoc"
_LEFT_OUT: Final = {
    "thoughts": THOUGHTS,
    "reasoning_recap": THOUGHTS,
    "execution_output": TOOLS,
    "tether_browsing_display": TOOLS,
    "tether_quote": TOOLS,
    "system_error": FAILED,
}

SIGN: Final = "conversations with a `mapping` of messages"


def recognises(archive: Archive) -> bool:
    return any(is_conversation(value) for value in first_values(archive, _shards(archive)))


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    yield from records_of(archive, _shards(archive), memories_once(read_conversation), record_name=SESSIONS)


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
    session = ImportedSession(session_id, checked_title(value.get("title")), lenient_time(value.get("create_time")))
    nodes = {key: node for key, node in value["mapping"].items() if isinstance(node, dict)}
    spoken = {key: node["message"] for key, node in nodes.items() if isinstance(node.get("message"), dict)}
    memories: list[ImportedMemory] = []

    def read_node(node: tuple[str, Mapping[str, Any]]) -> ImportedMessage | None:
        if (found := _memories(node[1])) is None:
            return _read_message(*node)
        memories.extend(found)
        return None

    times = {key: sort_time(message.get("create_time")) for key, message in spoken.items()}
    yield from branch_records(
        session,
        spoken,
        read_node,
        parents=node_parents(nodes),
        times=times,
        current=value.get("current_node"),
        left_out={NO_OBJECTS: len(value["mapping"]) - len(nodes)},
    )
    yield from memories


def _read_message(node_id: str, message: Mapping[str, Any]) -> ImportedMessage | None:
    """Return a message of the user or the assistant, None for an empty one of the system. Raises LeftOut."""
    role, metadata = mapping(message.get("author")).get("role"), mapping(message.get("metadata"))
    content, recipient = mapping(message.get("content")), message.get("recipient") or "all"
    text, left_out = _text(content), _files(content, metadata)
    if role not in ("user", "assistant"):
        if role == "system" and not text.strip():
            return None
        raise LeftOut(TOOLS if role == "tool" else HIDDEN)
    if metadata.get("is_visually_hidden_from_conversation") is True:
        raise LeftOut(HIDDEN)
    if recipient == CANVAS and role == "assistant":
        text = _canvas(text)
    elif recipient != "all":
        raise LeftOut(TOOLS)
    elif reason := _LEFT_OUT.get(str(content.get("content_type"))):
        raise LeftOut(reason)
    elif content.get("content_type") == "code" and text.strip():
        text = f"```\n{text}\n```"
    time = message.get("create_time") or None
    return new_message(role, text, id=node_id, created_at=time, left_out=left_out)


def _canvas(text: str) -> str:
    """Return the document of a canvas under its name. Raises LeftOut."""
    with suppress(ValueError, RecursionError):
        document = mapping(json.loads(text))
        if isinstance(content := document.get("content"), str):
            return f"{checked_title(document.get('name'))}\n\n{content}".strip()
    raise LeftOut(TOOLS)


def _files(content: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[str]:
    pointers = [part for part in objects(content.get("parts")) if not isinstance(part.get("text"), str)]
    return [FILES] * max(len(pointers), len(objects(metadata.get("attachments"))))


def _memories(message: Mapping[str, Any]) -> list[ImportedMemory] | None:
    """Return the memories in a message: calls of the `bio` tool, the list of all memories, custom instructions.

    None for a message that is none of these.
    """
    content = mapping(message.get("content"))
    if content.get("content_type") == "user_editable_context":
        return _custom_instructions(content, mapping(message.get("metadata")))
    if message.get("recipient") == "bio":
        texts = [_text(content)]
    elif content.get("content_type") == "model_editable_context":
        snapshot = content.get("model_set_context")
        texts = _SNAPSHOT_ENTRY.split(snapshot)[1:] if isinstance(snapshot, str) else []
    else:
        return None
    since, origin = parse_time(message.get("create_time")), {"origin": SAVED_MEMORY}
    return [
        ImportedMemory(checked_text(text.strip(), MAX_MEMORY_LENGTH), since=since, needs_review=True, metadata=origin)
        for text in texts
        if text.strip()
    ]


def _custom_instructions(content: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[ImportedMemory]:
    """Return what the user wrote about themselves and about the answers they want, without ChatGPT's frame."""
    raw = mapping(metadata.get("user_context_message_data"))
    memories = []
    for kind, raw_name, name in (
        ("fact", "about_user_message", "user_profile"),
        ("preference", "about_model_message", "user_instructions"),
    ):
        text = raw.get(raw_name) or content.get(name)
        if not isinstance(text, str):
            continue
        quoted = None if raw.get(raw_name) else _QUOTED.search(text)
        if text := (quoted[1] if quoted else text).strip():
            text, origin = checked_text(text, MAX_MEMORY_LENGTH), {"origin": CUSTOM_INSTRUCTIONS}
            memories.append(ImportedMemory(text, kind=kind, needs_review=True, metadata=origin))
    return memories


def _text(content: Mapping[str, Any]) -> str:
    if isinstance(content.get("text"), str):
        return str(content["text"])
    parts = content.get("parts")
    if not isinstance(parts, list):
        return ""
    texts = [part if isinstance(part, str) else mapping(part).get("text") for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def conversation_of(session: ImportedSession) -> dict[str, Any]:
    """Return a session as ChatGPT exports a conversation; `read_conversation` is its inverse."""
    root = f"{session.id}-root"
    nodes: dict[str, dict[str, Any]] = {root: {"id": root, "message": None, "parent": None, "children": []}}
    latest = root
    for message in session.messages:
        content = {"content_type": "text", "parts": [message.text]}
        times = {"create_time": _seconds(message.created_at), "update_time": None}
        spoken = {"id": message.id, "author": {"role": message.role}, **times, "content": content, "recipient": "all"}
        nodes[message.id] = {"id": message.id, "message": {**spoken, "metadata": {}}, "parent": latest, "children": []}
        nodes[latest]["children"].append(message.id)
        latest = message.id
    return {
        "title": session.title,
        "create_time": _seconds(session.started_at),
        "update_time": mapping(nodes[latest]["message"]).get("create_time"),
        "mapping": nodes,
        "current_node": latest,
        "conversation_id": session.id,
        "id": session.id,
    }


def _seconds(time: datetime | None) -> float | None:
    return time.timestamp() if time is not None else None
