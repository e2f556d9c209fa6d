"""Grok's export: the zip as downloaded, or its `prod-grok-backend.json`. Pure.

Conversations and answers are each in a frame; the instructions of projects wait as preferences.
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
    OTHER_PARTS,
    SESSIONS,
    THOUGHTS,
    TOOLS,
    ImportedMemory,
    ImportedMessage,
    ImportedSession,
    LocatedRecord,
    Omission,
    Record,
    UnreadableElement,
    checked_id,
    checked_text,
    checked_title,
    lenient_time,
    mapping,
    new_message,
    objects,
    sort_time,
    usable_tags,
)
from memoryhub.importexport.foreign.trees import branch_records, parent_id

BACKEND: Final = "prod-grok-backend.json"

SIGN: Final = "a `conversation` with `responses`"


def recognises(archive: Archive) -> bool:
    return any(map(_is_conversation, first_values(archive, _files(archive))))


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    yield from records_of(archive, _files(archive), read_conversation, record_name=SESSIONS, read_rest=read_rest)


def _files(archive: Archive) -> list[str]:
    return archive.named(BACKEND) or json_files(archive)


def _is_conversation(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("responses"), list) and "conversation" in value


def read_conversation(value: Any) -> Iterator[Record]:
    """Yield a conversation along its newest branch. Raises UnreadableElement."""
    if not _is_conversation(value):
        raise UnreadableElement("it is no conversation: it has no `responses`.")
    frame = mapping(value["conversation"])
    session = ImportedSession(
        checked_id(frame.get("id"), "id"),
        checked_title(frame.get("title")),
        lenient_time(_time(frame.get("create_time"))),
    )
    responses = [mapping(response.get("response")) for response in objects(value["responses"])]
    messages = {response["_id"]: response for response in responses if isinstance(response.get("_id"), str)}
    parents: dict[str, Any] = {}
    latest = None
    for key, message in messages.items():  # a tenth of them name no parent
        parents[key] = parent_id(message.get("parent_response_id")) or latest
        latest = key
    yield from branch_records(
        session,
        messages,
        lambda node: _read_message(*node),
        parents=parents,
        times={key: sort_time(_time(message.get("create_time"))) for key, message in messages.items()},
        left_out={NO_OBJECTS: len(value["responses"]) - len(messages)},
    )


def _read_message(key: str, message: Mapping[str, Any]) -> ImportedMessage:
    text, time = message.get("message"), _time(message.get("create_time"))
    files = (message.get(name) for name in ("file_attachments", "generated_image_urls"))
    left_out = [FILES] * sum(len(each) for each in files if isinstance(each, list))
    left_out += [THOUGHTS] * bool(message.get("thinking_trace") or message.get("agent_thinking_traces"))
    left_out += [TOOLS] * len(objects(message.get("steps")))
    if message.get("error"):
        left_out.insert(0, FAILED)
    # Answers are by "assistant", "ASSISTANT", or the name of a model.
    is_user = str(message.get("sender")).lower() in ("human", "user")
    text = text if isinstance(text, str) else ""
    return new_message("user" if is_user else "assistant", text, id=key, created_at=time, left_out=left_out)


def _time(value: Any) -> Any:
    """Return a time without the frame of MongoDB's extended JSON."""
    while isinstance(value, dict):
        value = next(iter(value.values()), None)
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else value


def read_rest(rest: Any) -> Iterator[Record]:
    """Yield the instructions of projects, and count the other parts."""
    parts = dict(mapping(rest))
    projects = parts.pop("projects", None)
    for project in objects(projects):
        text = project.get("custom_personality")
        if isinstance(text, str) and text.strip():
            text, tags = checked_text(text.strip(), MAX_MEMORY_LENGTH), usable_tags([project.get("name")])
            origin = {"origin": CUSTOM_INSTRUCTIONS}
            yield ImportedMemory(text, kind="preference", tags=tags, needs_review=True, metadata=origin)
    if count := sum(len(part) for part in parts.values() if isinstance(part, list | dict)):
        yield Omission(OTHER_PARTS, count)
