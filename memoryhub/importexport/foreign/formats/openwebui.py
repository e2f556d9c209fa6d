"""Open WebUI's export: all chats of a user (*Settings → Data Controls*), all users' (*Admin Panel → Database*), or one
chat; and the memories that its API lists. Pure.

A chat is a tree of messages; the branch up to `currentId` is what its owner sees. Users have the ids that Open WebUI
also sends with its requests, so that an import and later chats are of one user.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from memoryhub.importexport.foreign.archives import Archive, first_values, json_files, records_of
from memoryhub.importexport.foreign.records import (
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
    block_texts,
    checked_id,
    checked_text,
    checked_title,
    checked_user,
    left_out_blocks,
    lenient_time,
    mapping,
    new_message,
    objects,
    parse_time,
    sort_time,
)
from memoryhub.importexport.foreign.trees import branch_records, parent_id

_MEMORY_NAMES: Final = {"id", "user_id", "content", "created_at", "updated_at"}
_DETAILS: Final = re.compile(r'<details type="(\w{1,40})"[^>]{0,500}>')
_DETAILS_END: Final = "</details>"

SIGN: Final = "chats with a `history` of messages, or its memories"


def recognises(archive: Archive) -> bool:
    return any(_chat(value) or _is_memory(value) for value in first_values(archive, json_files(archive)))


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    yield from records_of(archive, json_files(archive), read_element, record_name=SESSIONS)


def read_element(value: Any) -> Iterator[Record]:
    """Yield a chat along its current branch, or a memory. Raises UnreadableElement."""
    if _is_memory(value):
        text, user_id = checked_text(value["content"], MAX_MEMORY_LENGTH), checked_user(value["user_id"])
        since, origin = parse_time(value["created_at"]), {"origin": SAVED_MEMORY}
        yield ImportedMemory(text, since=since, user_id=user_id, needs_review=True, metadata=origin)
        return
    chat = _chat(value)
    if not chat:
        raise UnreadableElement("it is no chat: it has no `history` of messages.")
    messages, unreadable = _messages(chat)
    session = ImportedSession(
        checked_id(value.get("id") or chat.get("id") or next(iter(messages), None), "id"),
        checked_title(value.get("title") or chat.get("title")),
        lenient_time(value.get("created_at") or chat.get("timestamp")),
        user_id=checked_user(value.get("user_id")),
    )
    yield from branch_records(
        session,
        messages,
        lambda node: _read_message(*node),
        parents={key: parent_id(message.get("parentId")) for key, message in messages.items()},
        times={key: sort_time(message.get("timestamp")) for key, message in messages.items()},
        current=mapping(chat.get("history")).get("currentId"),
        left_out={NO_OBJECTS: unreadable},
    )


def _chat(value: Any) -> Mapping[str, Any]:
    """Return the chat of an element, empty for none; older exports of one chat have no frame."""
    for chat in (mapping(mapping(value).get("chat")), mapping(value)):
        if isinstance(mapping(chat.get("history")).get("messages"), dict):
            return chat
        if chat is not value and isinstance(chat.get("messages"), list):
            return chat
    return {}


def _is_memory(value: Any) -> bool:
    is_object = isinstance(value, dict) and value.keys() >= _MEMORY_NAMES
    return is_object and isinstance(value["content"], str) and isinstance(value["created_at"], int)


def _messages(chat: Mapping[str, Any]) -> tuple[dict[str, Mapping[str, Any]], int]:
    """Return the messages by id, and the number of those that are none; a list has each follow the one before."""
    tree = mapping(chat.get("history")).get("messages")
    if isinstance(tree, dict):
        nodes: dict[str, Mapping[str, Any]] = {key: each for key, each in tree.items() if isinstance(each, dict)}
        return nodes, len(tree) - len(nodes)
    found: dict[str, Mapping[str, Any]] = {}
    latest = None
    for number, message in enumerate(objects(chat.get("messages"))):
        key = message.get("id")
        key = key if isinstance(key, str) and key else str(number)
        found[key] = {"parentId": latest, **message}
        latest = key
    return found, len(chat["messages"]) - len(found)


def _read_message(key: str, message: Mapping[str, Any]) -> ImportedMessage:
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        raise LeftOut(TOOLS if role == "tool" else HIDDEN)
    left_out = [*[FILES for _ in objects(message.get("files"))], *left_out_blocks(content)]
    text = content if isinstance(content, str) else "\n".join(block_texts(content))
    if role == "assistant":
        text, hidden = without_details(text)
        left_out += hidden
    if message.get("error"):
        left_out.insert(0, FAILED)
    return new_message(role, text, id=key, created_at=message.get("timestamp"), left_out=left_out)


def without_details(text: str) -> tuple[str, list[str]]:
    """Return an answer without its folded thoughts and calls of tools, and a reason for each of these.

    By searching, as a pattern would read to the end again for each one that is not closed.
    """
    kept: list[str] = []
    reasons: list[str] = []
    position = 0
    while (match := _DETAILS.search(text, position)) and (end := text.find(_DETAILS_END, match.end())) >= 0:
        kept.append(text[position : match.start()])
        reasons.append(THOUGHTS if match[1] == "reasoning" else TOOLS)
        position = end + len(_DETAILS_END)
    return "".join([*kept, text[position:]]).strip() if reasons else text, reasons


def chat_of(session: ImportedSession) -> dict[str, Any]:
    """Return a session as Open WebUI exports a chat; `read_element` is its inverse, up to fractions of a second."""
    messages: dict[str, dict[str, Any]] = {}
    latest: str | None = None
    for message in session.messages:
        links: dict[str, Any] = {"id": message.id, "parentId": latest, "childrenIds": []}
        spoken = {"role": message.role, "content": message.text, "timestamp": _seconds(message.created_at)}
        messages[message.id] = {**links, **spoken, "models": []}
        if latest is not None:
            messages[latest]["childrenIds"].append(message.id)
        latest = message.id
    history = {"messages": messages, "currentId": latest}
    chat = {"id": session.id, "title": session.title, "models": [], "params": {}, "files": [], "history": history}
    return {
        "id": session.id,
        "user_id": session.user_id,
        "title": session.title,
        "chat": {**chat, "messages": [], "tags": [], "timestamp": 1000 * _seconds(session.started_at)},
        "updated_at": messages[latest]["timestamp"] if latest is not None else _seconds(session.started_at),
        "created_at": _seconds(session.started_at),
        "share_id": None,
        "archived": False,
        "pinned": False,
        "meta": {},
        "folder_id": None,
    }


def _seconds(time: datetime | None) -> int:
    return int(time.timestamp()) if time is not None else 0
