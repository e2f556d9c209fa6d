"""mem0's memories: the result of `get_all`, OpenMemory's export, and JSON Lines of the same objects. Pure.

mem0 extracts memories from users' messages; those from an assistant's, or of an agent without a user, wait for review.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from memoryhub.importexport.foreign.archives import Archive, first_values, json_files, records_of
from memoryhub.importexport.foreign.records import (
    MAX_MEMORY_LENGTH,
    MEMORIES,
    ImportedMemory,
    LocatedRecord,
    Record,
    UnreadableElement,
    checked_text,
    checked_user,
    mapping,
    parse_time,
    usable_tags,
)

_TEXTS: Final = ("memory", "content", "text", "data")

SIGN: Final = "objects with a text as `memory`, `content`, `text` or `data`"


def recognises(archive: Archive) -> bool:
    return any(is_memory(value) for value in first_values(archive, json_files(archive)))


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    yield from records_of(archive, json_files(archive), lambda value: read_memory(value, now), record_name=MEMORIES)


def is_memory(value: Any) -> bool:
    is_object = isinstance(value, dict) and "mapping" not in value
    return is_object and any(isinstance(value.get(name), str) for name in _TEXTS)


def read_memory(value: Any, now: datetime) -> Iterator[Record]:
    """Yield a memory of mem0. Raises UnreadableElement."""
    if not is_memory(value):
        raise UnreadableElement("it is no memory: it has no text under `memory`.")
    state, user_id = value.get("state"), value.get("user_id")
    if isinstance(state, str) and state.lower() in ("deleted", "archived", "paused"):
        raise UnreadableElement("it was deleted, archived or paused where it comes from.")
    ends = parse_time(value.get("expiration_date"))
    if ends is not None and ends <= now:
        raise UnreadableElement("it has expired.")
    since = parse_time(value.get("created_at"))
    text = checked_text(next(value[name] for name in _TEXTS if isinstance(value.get(name), str)), MAX_MEMORY_LENGTH)
    user_id = checked_user(user_id)
    role = value.get("role") or mapping(value.get("metadata")).get("role")
    of_agent = isinstance(value.get("agent_id"), str) and not user_id
    yield ImportedMemory(
        text=text,
        user_id=user_id,
        tags=usable_tags(value.get("categories")),
        since=since if since is None or since <= now else None,
        metadata=mapping(value.get("metadata")),
        needs_review=role == "assistant" or of_agent,
    )
