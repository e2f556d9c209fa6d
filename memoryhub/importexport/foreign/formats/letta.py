"""Letta's agent file (`.af`), old and new, and the archival memory that its API lists. Pure.

Blocks become pinned memories, long ones documents; messages one session; passages of the archival memory wait.

A Letta agent answers by the tool `send_message`; its plain text is a thought and is skipped. A user's text may be
wrapped in a JSON object of Letta's.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from django.utils.translation import gettext_noop

from memoryhub.importexport.foreign.archives import Archive, first_values, records_of
from memoryhub.importexport.foreign.records import (
    HIDDEN,
    MAX_MEMORY_LENGTH,
    MAX_MESSAGE_LENGTH,
    NO_OBJECTS,
    SAVED_MEMORY,
    SESSIONS,
    THOUGHTS,
    TOOLS,
    ImportedDocument,
    ImportedMemory,
    ImportedMessage,
    ImportedSession,
    LeftOut,
    LocatedRecord,
    Omission,
    Record,
    Role,
    UnreadableElement,
    block_texts,
    checked_id,
    checked_text,
    checked_title,
    left_out_blocks,
    lenient_time,
    mapping,
    new_message,
    objects,
    parse_time,
    session_records,
    usable_tags,
)
from memoryhub.importexport.native.jsonl import MAX_LINE_BYTES

ORIGIN: Final = {"origin": SAVED_MEMORY}
BLOCKS_OF_NO_AGENT: Final = gettext_noop("memory blocks of no agent in the file.")
SETTINGS: Final = gettext_noop("tools, servers and files of agents.")
MAX_PINNED_LENGTH: Final = 2_000
"""Characters of a block that is pinned; a longer one would fill every context, and becomes a document."""

SIGN: Final = "agents with `blocks` or `core_memory`, or passages"


def recognises(archive: Archive) -> bool:
    return any(_is_agent_file(value) or _is_passage(value) for value in first_values(archive, _files(archive)))


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    yield from records_of(archive, _files(archive), read_element, record_name=SESSIONS, max_bytes=MAX_LINE_BYTES)


def _files(archive: Archive) -> list[str]:
    return archive.names if len(archive.names) == 1 else archive.ending(".af", ".json")


def _is_passage(value: Any) -> bool:
    return isinstance(value, dict) and str(value.get("id")).startswith("passage-") and "text" in value


def read_element(value: Any) -> Iterator[Record]:
    """Yield the records of an agent file, or of a passage as `/v1/agents/{id}/archival-memory` lists them."""
    if _is_passage(value):
        yield from _passages([value])
    else:
        yield from read_agent_file(value)


def _is_agent_file(value: Any) -> bool:
    names = mapping(value).keys()
    return {"core_memory", "messages"} <= names or {"agents", "blocks"} <= names


def read_agent_file(value: Any) -> Iterator[Record]:
    """Yield the memories, documents and sessions of a file's agents. Raises UnreadableElement."""
    if not _is_agent_file(value):
        raise UnreadableElement("it is no agent file: it has neither `agents` nor `core_memory`.")
    if "core_memory" in value:
        yield from _agent(value, objects(value["core_memory"]))
        return
    blocks = {block.get("id"): block for block in objects(value["blocks"]) if isinstance(block.get("id"), str)}
    used: set[str] = set()
    for agent in objects(value["agents"]):
        ids = agent.get("block_ids")
        own = [key for key in ids if isinstance(key, str) and key in blocks] if isinstance(ids, list) else []
        used.update(own)
        yield from _agent(agent, [blocks[key] for key in own])
    if unused := len(blocks.keys() - used):
        yield Omission(BLOCKS_OF_NO_AGENT, unused)
    if settings := sum(len(objects(value.get(name))) for name in ("tools", "mcp_servers", "sources", "files")):
        yield Omission(SETTINGS, settings)


def _agent(agent: Mapping[str, Any], blocks: list[Mapping[str, Any]]) -> Iterator[Record]:
    name = checked_title(agent.get("name")) or "letta"
    for block in blocks:
        yield from _block(name, block)
    yield from _passages(objects(agent.get("archival_memory") or agent.get("passages")))
    key = checked_id(agent.get("id") or name, "id")
    session = ImportedSession(key, name, lenient_time(agent.get("created_at")))
    messages, listed = objects(agent.get("messages")), agent.get("messages")
    unreadable = len(listed) - len(messages) if isinstance(listed, list) else 0
    yield from session_records(session, enumerate(messages), _read_message, left_out={NO_OBJECTS: unreadable})


def _passages(passages: list[Mapping[str, Any]]) -> Iterator[Record]:
    for passage in passages:
        text = passage.get("text")
        if isinstance(text, str) and text.strip():
            since, tags = parse_time(passage.get("created_at")), usable_tags(passage.get("tags"))
            yield ImportedMemory(
                checked_text(text, MAX_MEMORY_LENGTH), tags=tags, since=since, needs_review=True, metadata=ORIGIN
            )


def _block(agent: str, block: Mapping[str, Any]) -> Iterator[Record]:
    label, text = checked_title(block.get("label")) or "block", block.get("value")
    if not isinstance(text, str) or not text.strip():
        return
    if len(text) > MAX_PINNED_LENGTH:
        yield ImportedDocument(agent, label, checked_text(text, MAX_MESSAGE_LENGTH))
        return
    kind = "fact" if label == "human" else "note"
    yield ImportedMemory(checked_text(text, MAX_MEMORY_LENGTH), kind=kind, tags=(label[:100],), pinned=True)


def _read_message(numbered: tuple[int, Mapping[str, Any]]) -> ImportedMessage:
    number, message = numbered
    role, text = message.get("role"), _text(message)
    left_out = left_out_blocks(message.get("content"))
    if role == "assistant":
        calls = objects(message.get("tool_calls"))
        sent = "\n".join(_sent_messages(message))
        left_out += [TOOLS] * (len(calls) - bool(sent))
        left_out += [THOUGHTS] * bool(calls and text.strip())
        text = sent or ("" if calls else text)
    elif role == "user" and not (text := _unwrap(text)):
        raise LeftOut(HIDDEN)
    if role not in ("user", "assistant"):
        raise LeftOut(TOOLS if role == "tool" else HIDDEN)
    # The new format numbers messages within the file; the old one has no message ids.
    key, time = message.get("id") or f"message-{number}", message.get("created_at")
    role_name: Role = "user" if role == "user" else "assistant"
    return new_message(role_name, text, id=key, created_at=time, left_out=left_out)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content", message.get("text"))
    return content if isinstance(content, str) else "\n".join(block_texts(content))


def _sent_messages(message: Mapping[str, Any]) -> Iterator[str]:
    for call in objects(message.get("tool_calls")):
        function = mapping(call.get("function"))
        if function.get("name") == "send_message":
            with suppress(ValueError, TypeError, RecursionError):
                text = mapping(json.loads(function.get("arguments") or "")).get("message")
                if isinstance(text, str):
                    yield text


def _unwrap(text: str) -> str:
    """Return a user's text without Letta's envelope; "" for its heartbeats and logins."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return text
    inner = value.get("message")
    return inner if value["type"] == "user_message" and isinstance(inner, str) else ""
