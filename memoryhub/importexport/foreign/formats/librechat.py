"""LibreChat: conversations as its *Export* writes them (JSON, a file each), and the memories that its API lists. Pure.

Messages come as a list with parents, or as a tree of children (*recursive*). The newest branch is imported.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from memoryhub.importexport.foreign.archives import Archive, first_values, json_files, records_of
from memoryhub.importexport.foreign.records import (
    CUSTOM_INSTRUCTIONS,
    FAILED,
    FILES,
    MAX_MEMORY_LENGTH,
    NO_OBJECTS,
    SAVED_MEMORY,
    SESSIONS,
    ImportedMemory,
    ImportedMessage,
    ImportedSession,
    LeftOut,
    LocatedRecord,
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
    memories_once,
    new_message,
    objects,
    parse_time,
    sort_time,
    usable_tags,
)
from memoryhub.importexport.foreign.trees import branch_records, parent_id

_INSTRUCTIONS: Final = ("promptPrefix", "system", "instructions")

SIGN: Final = "a `conversationId` with `messages`, or its memories"


def recognises(archive: Archive) -> bool:
    return any(_is_conversation(value) or _is_memory(value) for value in first_values(archive, json_files(archive)))


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    yield from records_of(archive, json_files(archive), memories_once(read_element), record_name=SESSIONS)


def _is_conversation(value: Any) -> bool:
    names = ("messages", "messagesTree")
    return isinstance(value, dict) and "conversationId" in value and any(_is_list(value.get(name)) for name in names)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_memory(value: Any) -> bool:
    return (
        isinstance(value, dict) and {"key", "value", "tokenCount"} <= value.keys() and isinstance(value["value"], str)
    )


def read_element(value: Any) -> Iterator[Record]:
    """Yield a conversation along its newest branch with its instructions, or a memory. Raises UnreadableElement."""
    if _is_memory(value):
        text, tags = checked_text(value["value"], MAX_MEMORY_LENGTH), usable_tags([value["key"]])
        since, origin = parse_time(value.get("updated_at")), {"origin": SAVED_MEMORY}
        yield ImportedMemory(text, tags=tags, since=since, needs_review=True, metadata=origin)
        return
    if not _is_conversation(value):
        raise UnreadableElement("it is no conversation: it has no `messages` or no `conversationId`.")
    messages, parents, unreadable = _flat(value.get("messagesTree") or value.get("messages") or [])
    times = {key: sort_time(message.get("createdAt")) for key, message in messages.items()}
    started_at = next((message.get("createdAt") for message in messages.values()), None)
    session = ImportedSession(
        checked_id(value["conversationId"], "conversationId"),
        checked_title(value.get("title")),
        lenient_time(started_at),
    )
    yield from branch_records(
        session,
        messages,
        lambda node: _read_message(*node),
        parents=parents,
        times=times,
        left_out={NO_OBJECTS: unreadable},
    )
    options = mapping(value.get("options"))
    for instructions in (options.get(name) for name in _INSTRUCTIONS):
        if isinstance(instructions, str) and instructions.strip():
            text, origin = checked_text(instructions.strip(), MAX_MEMORY_LENGTH), {"origin": CUSTOM_INSTRUCTIONS}
            yield ImportedMemory(text, kind="preference", needs_review=True, metadata=origin)


def _flat(tree: list[Any]) -> tuple[dict[str, Mapping[str, Any]], dict[str, Any], int]:
    """Return messages by id, their parents, and the number of those that are no objects."""
    messages: dict[str, Mapping[str, Any]] = {}
    parents: dict[str, Any] = {}
    unreadable = 0
    waiting: list[tuple[Any, Any]] = [(message, None) for message in reversed(tree)]
    while waiting:
        message, above = waiting.pop()
        if not isinstance(message, dict) or not isinstance(message.get("messageId"), str):
            unreadable += 1
            continue
        key = message["messageId"]
        messages.setdefault(key, message)
        parents.setdefault(key, above if above is not None else parent_id(message.get("parentMessageId")))
        children = message.get("children")
        waiting += [(child, key) for child in reversed(children)] if isinstance(children, list) else []
    return messages, parents, unreadable


def _read_message(key: str, message: Mapping[str, Any]) -> ImportedMessage:
    if message.get("error"):
        raise LeftOut(FAILED)
    content = message.get("content")
    text = message.get("text")
    left_out = [*left_out_blocks(content), *[FILES for _ in objects(message.get("files"))]]
    if not isinstance(text, str) or not text.strip():
        wrapped = [mapping(block.get("text")).get("value") for block in objects(content)]
        text = "\n".join([*block_texts(content), *(part for part in wrapped if isinstance(part, str))])
    role: Role = "user" if message.get("isCreatedByUser") is True else "assistant"
    return new_message(role, text, id=key, created_at=message.get("createdAt"), left_out=left_out)
