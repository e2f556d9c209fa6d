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
    FILES,
    HIDDEN,
    MAX_MEMORY_LENGTH,
    MAX_MESSAGE_LENGTH,
    MEMORIES,
    NO_OBJECTS,
    NO_TEXT,
    SAVED_MEMORY,
    SESSIONS,
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
    session_records,
    sort_time,
)
from memoryhub.importexport.foreign.trees import branch_records, parent_id

ORIGIN: Final = {"origin": SAVED_MEMORY}
_ROLES: Final[Mapping[str, Role]] = {"human": "user", "assistant": "assistant"}

SIGN: Final = "conversations with `chat_messages`, projects with `docs`, or memories"


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
    session = ImportedSession(session_id, checked_title(value.get("name")), lenient_time(value.get("created_at")))
    messages = objects(value["chat_messages"])
    left_out = {NO_OBJECTS: len(value["chat_messages"]) - len(messages)}
    by_id = {message["uuid"]: message for message in messages if isinstance(message.get("uuid"), str)}
    parents = {key: parent_id(message.get("parent_message_uuid")) for key, message in by_id.items()}
    names_parents = any(isinstance(parent, str) and parent in by_id for parent in parents.values())
    if len(by_id) != len(messages) or not names_parents:
        return session_records(session, messages, _read_message, left_out=left_out)
    return branch_records(
        session,
        by_id,
        lambda node: _read_message(node[1]),
        parents=parents,
        times={key: sort_time(message.get("created_at")) for key, message in by_id.items()},
        current=value.get("current_leaf_message_uuid"),
        left_out=left_out,
    )


def _read_message(message: Mapping[str, Any]) -> ImportedMessage:
    role, text = _ROLES.get(str(message.get("sender"))), _text(message)
    if role is None:
        raise LeftOut(HIDDEN if text.strip() else NO_TEXT)
    files = [file for name in ("attachments", "files") for file in objects(message.get(name))]
    left_out = [FILES for file in files if not file.get("extracted_content")]
    left_out += left_out_blocks(message.get("content"))
    key, time = message.get("uuid"), message.get("created_at")
    return new_message(role, text, id=key, id_name="uuid", created_at=time, left_out=left_out)


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
        if not isinstance(content, str) or not content.strip():
            yield Omission(NO_TEXT, where=checked_title(value.get("uuid")))
        else:
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
            yield ImportedMemory(checked_text(fact, MAX_MEMORY_LENGTH), tags=tags, needs_review=True, metadata=ORIGIN)
