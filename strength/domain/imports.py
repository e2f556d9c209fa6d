"""Parsers of other programs' exports: mem0's memories, ChatGPT's conversations and memories. Pure.

The shapes are those that these programs write: mem0 as a list of `{"id", "memory", "hash", "metadata", "created_at",
"updated_at", "user_id"}`, bare or under `results` (`memories` in OpenMemory's, with `content` for the text); ChatGPT as
conversations, each a tree of nodes of which the branch up to `current_node` is what its owner sees.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from conversations.domain.messages import NewMessage, Role
from memoryhub.validators import text_problem
from strength.domain.memories import LONGEST_CONTENT

LONGEST_MESSAGE: Final = 1_000_000
LONGEST_ID: Final = 255
LONGEST_TAG: Final = 100
LONGEST_TITLE: Final = 500
MOST_TAGS: Final = 50
CHANNEL: Final = "chatgpt"

_TEXTS = ("memory", "content", "text", "data")
_SNAPSHOT_ENTRY = re.compile(r"^\s*\d+\.\s*\[[\d-]*\]\.?\s*", re.MULTILINE)


class Unreadable(ValueError):
    """An element that cannot be imported; the message says why, without its text."""


@dataclass(frozen=True)
class ImportedMemory:
    """A memory of another program; `user_id` is "" where none is named."""

    text: str = field(repr=False)
    user_id: str = field(default="", repr=False)
    tags: Sequence[str] = field(default=(), repr=False)
    since: datetime | None = None


@dataclass(frozen=True)
class ImportedConversation:
    """A conversation's current branch; `unread` are the reasons why messages were left out."""

    id: str
    title: str = field(repr=False)
    started_at: datetime | None
    messages: Sequence[NewMessage] = field(repr=False)
    memories: Sequence[ImportedMemory] = field(repr=False)
    unread: Sequence[str] = ()


def is_mem0(value: Any) -> bool:
    is_object = isinstance(value, dict) and "mapping" not in value
    return is_object and any(isinstance(value.get(name), str) for name in _TEXTS)


def read_mem0(value: Any, *, now: datetime) -> ImportedMemory:
    """Parse a memory of mem0. Raises Unreadable."""
    if not is_mem0(value):
        raise Unreadable("it is no memory: it has no text under `memory`.")
    state, user_id = value.get("state"), value.get("user_id")
    if isinstance(state, str) and state.lower() in ("deleted", "archived", "paused"):
        raise Unreadable("it was deleted, archived or paused where it comes from.")
    ends = _moment(value.get("expiration_date"))
    if ends is not None and ends <= now:
        raise Unreadable("it has expired.")
    text = next(value[name] for name in _TEXTS if isinstance(value.get(name), str))
    since = _moment(value.get("created_at"))
    text = _checked(text, LONGEST_CONTENT)
    if user_id is None:
        user_id = ""
    if not isinstance(user_id, str) or len(user_id) > LONGEST_ID or text_problem(user_id):
        raise Unreadable("its `user_id` cannot be used.")
    given = value.get("categories")
    tags = [tag for tag in given if isinstance(tag, str) and tag.strip()] if isinstance(given, list) else []
    return ImportedMemory(
        text=text,
        user_id=user_id,
        tags=tuple(tag[:LONGEST_TAG] for tag in tags if not text_problem(tag))[:MOST_TAGS],
        since=since if since is None or since <= now else None,
    )


def is_chatgpt(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


def read_conversation(value: Any) -> ImportedConversation:
    """Parse a conversation of ChatGPT along its current branch. Raises Unreadable."""
    if not is_chatgpt(value):
        raise Unreadable("it is no conversation: it has no `mapping` of messages.")
    known_as = value.get("conversation_id") or value.get("id")
    if not isinstance(known_as, str) or len(known_as) > LONGEST_ID or text_problem(known_as):
        raise Unreadable("it has no usable `conversation_id`.")
    messages: list[NewMessage] = []
    memories: list[ImportedMemory] = []
    unread: list[str] = []
    for node_id, message in _branch(value):
        try:
            memories += _remembered(message)
            if said := _said(node_id, message, before=messages[-1].created_at if messages else None):
                messages.append(said)
        except Unreadable as error:
            unread.append(str(error))
    title = value["title"] if isinstance(value.get("title"), str) else ""
    if text_problem(title):
        raise Unreadable("its title cannot be stored.")
    started_at = _moment(value.get("create_time"))
    return ImportedConversation(known_as, title[:LONGEST_TITLE], started_at, messages, memories, unread)


def _branch(value: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the messages from the first to `current_node`, each with the id of its node."""
    mapping, place = value["mapping"], value.get("current_node")
    if not isinstance(place, str) or place not in mapping:
        raise Unreadable("its `current_node` is none of its messages.")
    way: list[str] = []
    seen: set[str] = set()
    while place is not None:
        node = mapping.get(place) if isinstance(place, str) else None
        if not isinstance(node, dict):
            raise Unreadable("a message names a parent that is not there.")
        if place in seen:
            raise Unreadable("its messages go round in a circle.")
        seen.add(place)
        way.append(place)
        place = node.get("parent")
    for node_id in reversed(way):
        message = mapping[node_id].get("message")
        if isinstance(message, dict):
            yield node_id, message


def _said(node_id: str, message: Mapping[str, Any], *, before: datetime | None) -> NewMessage | None:
    """Return a message of the user or the assistant; None for system, tool and hidden messages."""
    role = _dict(message.get("author")).get("role")
    hidden = _dict(message.get("metadata")).get("is_visually_hidden_from_conversation") is True
    if role not in (Role.USER, Role.ASSISTANT) or message.get("recipient", "all") != "all" or hidden:
        return None
    text = _text(_dict(message.get("content")))
    if not text.strip():
        return None
    if len(node_id) > LONGEST_ID or text_problem(node_id):
        raise Unreadable("a message has no usable id.")
    return NewMessage(
        role=Role(role),
        content=_checked(text, LONGEST_MESSAGE),
        client_message_id=node_id,
        created_at=_moment(message.get("create_time")) or before,
    )


def _remembered(message: Mapping[str, Any]) -> list[ImportedMemory]:
    """Return what a message put into ChatGPT's memory: what it told its `bio`, or the list that it was shown."""
    content = _dict(message.get("content"))
    since = _moment(message.get("create_time"))
    if message.get("recipient") == "bio":
        texts = [_text(content)]
    elif content.get("content_type") == "model_editable_context":
        listed = content.get("model_set_context")
        texts = _SNAPSHOT_ENTRY.split(listed)[1:] if isinstance(listed, str) else []
    else:
        return []
    return [
        ImportedMemory(_checked(text.strip(), LONGEST_CONTENT), since=since) for text in texts if text.strip()
    ]


def _text(content: Mapping[str, Any]) -> str:
    if content.get("content_type") not in ("text", "multimodal_text"):
        return ""
    parts = content.get("parts")
    found = parts if isinstance(parts, list) else []
    words = [part if isinstance(part, str) else _dict(part).get("text") for part in found]
    return "\n".join(word for word in words if isinstance(word, str) and word)


def _moment(value: Any) -> datetime | None:
    """Parse an ISO 8601 time or seconds since 1970; None where there is none. Raises Unreadable."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise Unreadable("a time in it is none.")


def _checked(text: str, longest: int) -> str:
    if problem := text_problem(text):
        raise Unreadable(problem)
    if not text.strip():
        raise Unreadable("its text is empty.")
    if len(text) > longest:
        raise Unreadable(f"its text is longer than {longest} characters.")
    return text


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
