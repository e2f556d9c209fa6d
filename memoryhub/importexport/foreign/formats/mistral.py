"""Mistral's Le Chat: the zip as downloaded, with a file `chat-<id>.json` of messages for each conversation. Pure.

Conversations have no title: it is the beginning of the first question.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final

from memoryhub.errors import gettext_noop
from memoryhub.importexport.foreign.archives import Archive, elements_of, first_values, json_files
from memoryhub.importexport.foreign.records import (
    FILES,
    HIDDEN,
    MESSAGES,
    SESSIONS,
    THOUGHTS,
    TOOLS,
    ImportedMessage,
    ImportedSession,
    LeftOut,
    LocatedRecord,
    Refusal,
    UnreadableElement,
    checked_id,
    checked_title,
    mapping,
    new_message,
    objects,
    session_records,
    sort_time,
)

TITLE_LENGTH: Final = 80
_CHUNKS: Final = {"text": "", "thinking": THOUGHTS, "image_url": FILES, "document_url": FILES, "file": FILES}

SIGN: Final = "messages with a `chatId`"


NO_MESSAGE: Final = gettext_noop("it is no message: it has no `chatId`, `role` or `content`.")


def recognises(archive: Archive) -> bool:
    return any(map(_is_message, first_values(archive, json_files(archive)[:20])))


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and {"chatId", "role", "content"} <= value.keys()


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    for name in json_files(archive):
        messages: list[Mapping[str, Any]] = []
        with archive.open(name) as file:
            for element in elements_of(name, file):
                if element.problem or not _is_message(element.value):
                    reason = element.problem or NO_MESSAGE
                    yield LocatedRecord(Refusal(MESSAGES, reason), element.entry, element.line, name)
                else:
                    messages.append(element.value)
        if messages:
            yield from _conversation(sorted(messages, key=lambda each: sort_time(each.get("createdAt"))), name)


def _conversation(messages: list[Mapping[str, Any]], name: str) -> Iterator[LocatedRecord]:
    questions = (message["content"] for message in messages if message["role"] == "user")
    title = next((text for text in questions if isinstance(text, str) and text.strip()), "")
    try:
        key = checked_id(messages[0]["chatId"] or PurePosixPath(name).stem, "chatId")
    except UnreadableElement as error:
        yield LocatedRecord(Refusal(SESSIONS, str(error)), file=name)
        return
    session = ImportedSession(key, checked_title(title.strip().partition("\n")[0][:TITLE_LENGTH]))
    yield from (LocatedRecord(record, file=name) for record in session_records(session, messages, _read_message))


def _read_message(message: Mapping[str, Any]) -> ImportedMessage:
    role, text = message["role"], message["content"]
    if role not in ("user", "assistant"):
        raise LeftOut(TOOLS if role == "tool" else HIDDEN)
    reasons = [_CHUNKS.get(str(chunk.get("type")), TOOLS) for chunk in objects(message.get("contentChunks"))]
    left_out = [*filter(None, reasons), *[FILES for _ in objects(message.get("files"))]]
    if not isinstance(text, str):
        text = "\n".join(str(mapping(chunk).get("text") or "") for chunk in objects(message.get("contentChunks")))
    return new_message(role, text, id=message.get("id"), created_at=message.get("createdAt"), left_out=left_out)
