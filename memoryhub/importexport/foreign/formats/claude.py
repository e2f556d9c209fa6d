"""Claude's export: `conversations.json`, `projects.json` or `projects/<id>.json`, and `memories.json`. Pure.

Claude words its memories itself, as one text about the user and one for each project; each paragraph becomes a memory
that waits for review.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final

from memoryhub.importexport.foreign.archives import Archive, first_values, records_of
from memoryhub.importexport.foreign.records import (
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
    candidates = [name for kind in ("conversations", "projects", "memories") for name in _files(archive, kind)]
    candidates = candidates or (archive.names if len(archive.names) == 1 else [])
    return any(_is_element(value) for value in first_values(archive, candidates))


def _is_element(value: Any) -> bool:
    keys, names = {"chat_messages", "conversations_memory", "project_memories"}, mapping(value).keys()
    return {"uuid", "docs"} <= names or bool(keys & names)


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    titles: dict[str, str] = {}

    def read_project(value: Any) -> Iterator[Record]:
        records = _project(value)
        titles[str(mapping(value).get("uuid"))] = checked_title(mapping(value).get("name"))
        yield from records

    if len(archive.names) == 1 and not any(_files(archive, kind) for kind in _READERS):
        yield from records_of(archive, archive.names, lambda value: read_element(value, titles), record_name=SESSIONS)
        return
    yield from records_of(archive, _files(archive, "projects"), read_project, record_name=DOCUMENTS)
    yield from records_of(
        archive, _files(archive, "memories"), lambda value: _memories(value, titles), record_name=MEMORIES
    )
    yield from records_of(archive, _files(archive, "conversations"), _conversation, record_name=SESSIONS)


_READERS = ("conversations", "projects", "memories")


def read_element(value: Any, titles: Mapping[str, str]) -> Iterator[Record]:
    """Read an element of a file under a name of the user's own. Raises UnreadableElement."""
    if isinstance(value, dict) and "docs" in value:
        return _project(value)
    if isinstance(value, dict) and "chat_messages" not in value and _is_element(value):
        return _memories(value, titles)
    return _conversation(value)


def _files(archive: Archive, kind: str) -> list[str]:
    """Return `<kind>.json`, and the files of a folder of that name."""
    paths = [PurePosixPath(name) for name in archive.names]
    matches = [
        path
        for path in paths
        if path.suffix == ".json" and (path.stem == kind or (path.parts[:-1] or ("",))[-1] == kind)
    ]
    return [str(path) for path in matches]


def _conversation(value: Any) -> Iterator[Record]:
    if not isinstance(value, dict) or not isinstance(value.get("chat_messages"), list):
        raise UnreadableElement("it is no conversation: it has no `chat_messages`.")
    session_id = checked_id(value.get("uuid"), "uuid")
    session = ImportedSession(session_id, checked_title(value.get("name")), parse_time(value.get("created_at")))
    return session_records(session, _current_branch(objects(value["chat_messages"])), _read_message)


def _read_message(message: Mapping[str, Any]) -> ImportedMessage | None:
    role, text = _ROLES.get(str(message.get("sender"))), _text(message)
    if role is None or not text.strip():
        return None
    text, created_at = checked_text(text, MAX_MESSAGE_LENGTH), parse_time(message.get("created_at"))
    return ImportedMessage(role, text, checked_id(message.get("uuid"), "uuid"), created_at)


def _current_branch(messages: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the branch that ends in the newest message if messages name their parents, else all in order."""
    by_id = {message.get("uuid"): message for message in messages}
    parents = [message.get("parent_message_uuid") for message in messages]
    if len(by_id) != len(messages) or not any(parent in by_id for parent in parents):
        return messages
    branch: list[Mapping[str, Any]] = []
    node: Mapping[str, Any] | None = max(messages, key=lambda message: str(message.get("created_at")))
    while node is not None and len(branch) < len(messages):
        branch.append(node)
        node = by_id.get(node.get("parent_message_uuid"))
    return branch[::-1]


def _text(message: Mapping[str, Any]) -> str:
    """Return a message's text without thoughts and tools (`text` in older exports), followed by attached texts."""
    own_text = "\n".join(block_texts(message.get("content"))) or (
        message["text"] if isinstance(message.get("text"), str) else ""
    )
    attached = [attachment.get("extracted_content") for attachment in objects(message.get("attachments"))]
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
    """Yield a memory for each paragraph, prefixed by the one-line heading above it."""
    heading = ""
    for piece in text.split("\n\n") if isinstance(text, str) else ():
        paragraph = piece.strip()
        stripped = paragraph.strip("#*_: ")
        if "\n" not in paragraph and paragraph != stripped and len(stripped) <= 80 and paragraph[:1] in "#*":
            heading = stripped
        elif paragraph:
            fact = f"{heading}: {paragraph}" if heading else paragraph
            yield ImportedMemory(checked_text(fact, MAX_MEMORY_LENGTH), tags=tags, is_generated=True)
