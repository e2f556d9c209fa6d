"""Claude's export: `conversations.json`, `projects.json` or `projects/<id>.json`, and `memories.json`. Pure.

Claude words its memories itself, as one text about the user and one for each project; each paragraph becomes a memory
that waits for review.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final

from memoryhub.importexport.archives import Archive, first_values, records_of
from memoryhub.importexport.records import (
    DOCUMENTS,
    MAX_MEMORY_LENGTH,
    MAX_MESSAGE_LENGTH,
    MEMORIES,
    SESSIONS,
    ImportedDocument,
    ImportedMemory,
    ImportedMessage,
    ImportedSession,
    LocatedRecord,
    Record,
    Role,
    UnreadableElement,
    block_texts,
    checked_id,
    checked_text,
    checked_title,
    mapping,
    objects,
    parse_time,
    session_records,
)

_ROLES: Final[Mapping[str, Role]] = {"human": "user", "assistant": "assistant"}


def recognises(archive: Archive) -> bool:
    looked_at = [name for kind in ("conversations", "projects", "memories") for name in _files(archive, kind)]
    looked_at = looked_at or (archive.names if len(archive.names) == 1 else [])
    return any(_is_one(value) for value in first_values(archive, looked_at))


def _is_one(value: Any) -> bool:
    signs = ("chat_messages", "conversations_memory", "project_memories")
    is_project = isinstance(value, dict) and "uuid" in value and "docs" in value
    return is_project or (isinstance(value, dict) and any(sign in value for sign in signs))


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    titles: dict[str, str] = {}

    def read_project(value: Any) -> Iterator[Record]:
        records = _project(value)
        titles[str(mapping(value).get("uuid"))] = checked_title(mapping(value).get("name"))
        yield from records

    if len(archive.names) == 1 and not any(_files(archive, kind) for kind in _READERS):
        yield from records_of(archive, archive.names, lambda value: read_one(value, titles), what=SESSIONS)
        return
    yield from records_of(archive, _files(archive, "projects"), read_project, what=DOCUMENTS)
    yield from records_of(archive, _files(archive, "memories"), lambda value: _memories(value, titles), what=MEMORIES)
    yield from records_of(archive, _files(archive, "conversations"), _conversation, what=SESSIONS)


_READERS = ("conversations", "projects", "memories")


def read_one(value: Any, titles: Mapping[str, str]) -> Iterator[Record]:
    """Read an element of a file under a name of the user's own. Raises UnreadableElement."""
    if isinstance(value, dict) and "docs" in value:
        return _project(value)
    if isinstance(value, dict) and "chat_messages" not in value and _is_one(value):
        return _memories(value, titles)
    return _conversation(value)


def _files(archive: Archive, kind: str) -> list[str]:
    """Return `<kind>.json`, and the files of a folder of that name."""
    paths = [PurePosixPath(name) for name in archive.names]
    found = [
        path
        for path in paths
        if path.suffix == ".json" and (path.stem == kind or (path.parts[:-1] or ("",))[-1] == kind)
    ]
    return [str(path) for path in found]


def _conversation(value: Any) -> Iterator[Record]:
    if not isinstance(value, dict) or not isinstance(value.get("chat_messages"), list):
        raise UnreadableElement("it is no conversation: it has no `chat_messages`.")
    session_id = checked_id(value.get("uuid"), "uuid")
    session = ImportedSession(session_id, checked_title(value.get("name")), parse_time(value.get("created_at")))
    return session_records(session, _shown(objects(value["chat_messages"])), _read_message)


def _read_message(message: Mapping[str, Any]) -> ImportedMessage | None:
    role, text = _ROLES.get(str(message.get("sender"))), _text(message)
    if role is None or not text.strip():
        return None
    text, created_at = checked_text(text, MAX_MESSAGE_LENGTH), parse_time(message.get("created_at"))
    return ImportedMessage(role, text, checked_id(message.get("uuid"), "uuid"), created_at)


def _shown(messages: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the branch that ends in the newest message, where messages name their parents; else all in order."""
    by_id = {message.get("uuid"): message for message in messages}
    parents = [message.get("parent_message_uuid") for message in messages]
    if len(by_id) != len(messages) or not any(parent in by_id for parent in parents):
        return messages
    way: list[Mapping[str, Any]] = []
    place: Mapping[str, Any] | None = max(messages, key=lambda each: str(each.get("created_at")))
    while place is not None and len(way) < len(messages):
        way.append(place)
        place = by_id.get(place.get("parent_message_uuid"))
    return way[::-1]


def _text(message: Mapping[str, Any]) -> str:
    """Return what was said, without thoughts and tools; `text` alone in older exports; then the attached texts."""
    own_text = "\n".join(block_texts(message.get("content"))) or (
        message["text"] if isinstance(message.get("text"), str) else ""
    )
    attached = [each.get("extracted_content") for each in objects(message.get("attachments"))]
    return "\n\n".join([own_text, *(text for text in attached if isinstance(text, str) and text.strip())]).strip()


def _project(value: Any) -> Iterator[Record]:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise UnreadableElement("it is no project: it has no `name`.")
    title = checked_title(value["name"])
    description = value["description"] if isinstance(value.get("description"), str) else ""
    prompt = value["prompt_template"] if isinstance(value.get("prompt_template"), str) else ""
    if prompt.strip():
        yield ImportedDocument(title, "instructions", checked_text(prompt, MAX_MESSAGE_LENGTH), description)
    for document in objects(value.get("docs")):
        content = document.get("content")
        if isinstance(content, str) and content.strip():
            name = checked_title(document.get("filename")) or "document"
            yield ImportedDocument(title, name, checked_text(content, MAX_MESSAGE_LENGTH), description)


def _memories(value: Any, titles: Mapping[str, str]) -> Iterator[Record]:
    if not isinstance(value, dict):
        raise UnreadableElement("it is no memory: it has no `conversations_memory`.")
    yield from _paragraphs(value.get("conversations_memory"), ())
    for project_id, text in mapping(value.get("project_memories")).items():
        title = titles.get(project_id, "")
        yield from _paragraphs(text, (title[:100],) if title else ())


def _paragraphs(text: Any, tags: tuple[str, ...]) -> Iterator[Record]:
    """Yield a memory for each paragraph; a heading of one line goes before those below it."""
    heading = ""
    for piece in text.split("\n\n") if isinstance(text, str) else ():
        words = piece.strip()
        bare = words.strip("#*_: ")
        if "\n" not in words and words != bare and len(bare) <= 80 and words[:1] in "#*":
            heading = bare
        elif words:
            fact = f"{heading}: {words}" if heading else words
            yield ImportedMemory(checked_text(fact, MAX_MEMORY_LENGTH), tags=tags, drawn=True)
