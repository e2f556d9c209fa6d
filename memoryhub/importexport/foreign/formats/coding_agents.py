"""Coding agents: transcripts of Claude Code (`~/.claude/projects`), CLAUDE.md, AGENTS.md and memory folders. Pure.

A transcript is a session: what the user typed and what the agent answered, without tools, thoughts and sub-agents. The
files that people write for their agents become documents of a project that is called like the working folder.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final

from django.utils.translation import gettext_noop

from memoryhub.importexport.foreign.archives import Archive, first_values
from memoryhub.importexport.foreign.json_stream import lines
from memoryhub.importexport.foreign.records import (
    DOCUMENTS,
    HIDDEN,
    MAX_MESSAGE_LENGTH,
    MAX_PART_MESSAGES,
    MESSAGES,
    SESSIONS,
    UNREADABLE_TIME,
    UNREADABLE_TIMES,
    ImportedDocument,
    ImportedMessage,
    ImportedSession,
    LeftOut,
    LocatedRecord,
    Omission,
    Refusal,
    UnreadableElement,
    block_texts,
    checked_id,
    checked_text,
    checked_title,
    fill_times,
    left_out_blocks,
    mapping,
    new_message,
)

INSTRUCTIONS: Final = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENT.md", "GEMINI.md")
MEMORY_FOLDERS: Final = ("memory", "memories", "memory-bank", ".memory")
MAX_FILE_BYTES: Final = 4 * MAX_MESSAGE_LENGTH
TITLE_LENGTH: Final = 80

_NOISE_START, _NOISE_END = "<system-reminder>", "</system-reminder>"
_COMMANDS: Final = ("<command-", "<local-command-", "<bash-", "<task-notification")
SUB_AGENTS: Final = gettext_noop("messages of sub-agents.")
_TITLES: Final = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}

SIGN: Final = "transcripts with a `sessionId`, or files such as CLAUDE.md"


def recognises(archive: Archive) -> bool:
    if any(PurePosixPath(name).parts[0] == ".obsidian" for name in archive.names):
        return False
    transcripts = archive.ending(".jsonl")[:3]
    lines_read = map(mapping, first_values(archive, transcripts))
    has_lines = any(("sessionId" in line or "leafUuid" in line) and "type" in line for line in lines_read)
    return has_lines or bool(archive.named(*INSTRUCTIONS))


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    projects: dict[str, str] = {}
    for name in archive.ending(".jsonl"):
        yield from _transcript(archive, name, projects)
    for name in archive.ending(".md"):
        path = PurePosixPath(name)
        if path.name in INSTRUCTIONS or not set(MEMORY_FOLDERS).isdisjoint(path.parts[:-1]):
            yield from _document(archive, path, projects)


def _document(archive: Archive, path: PurePosixPath, projects: Mapping[str, str]) -> Iterator[LocatedRecord]:
    """Yield a file; its project is the working folder of the transcripts next to it, or its own folder."""
    top = path.parts[0] if len(path.parts) > 1 else ""
    project = projects.get(top) or (top.strip("-.") if top not in MEMORY_FOLDERS else "") or archive.title
    inside = path.parts[1:] if top else path.parts
    record: ImportedDocument | Refusal
    try:
        text = archive.text(str(path), max_bytes=MAX_FILE_BYTES).removeprefix("\ufeff")
        name = "/".join(inside).removesuffix(".md")
        record = ImportedDocument(project, name, checked_text(text, MAX_MESSAGE_LENGTH))
    except UnreadableElement as error:
        record = Refusal(DOCUMENTS, str(error))
    yield LocatedRecord(record, file=str(path))


def _transcript(archive: Archive, name: str, projects: dict[str, str]) -> Iterator[LocatedRecord]:
    """Yield the session of a file in parts, so that a long one is never held whole."""
    path = PurePosixPath(name)
    key, title, started_at = path.stem, "", None
    messages: list[ImportedMessage] = []
    left_out: Counter[str] = Counter()
    size = 0
    with archive.open(name) as file:
        for line in lines(file):
            try:
                if line.problem:
                    raise UnreadableElement(line.problem)
                value = mapping(line.value)
                if len(path.parts) > 1 and isinstance(value.get("cwd"), str):
                    projects.setdefault(path.parts[0], PurePosixPath(value["cwd"].replace("\\", "/")).name)
                title = title or _title(value)
                message = _read_message(value)
            except LeftOut as omitted:
                left_out[str(omitted)] += 1
                continue
            except UnreadableElement as error:
                yield LocatedRecord(Refusal(MESSAGES, str(error)), line=line.line, file=name)
                continue
            session_id = value.get("sessionId")
            key = session_id if session_id and isinstance(session_id, str) else key
            if message.created_at is not UNREADABLE_TIME:
                started_at = started_at or message.created_at
            messages.append(message)
            left_out.update(message.left_out)
            left_out[UNREADABLE_TIMES] += message.created_at is UNREADABLE_TIME
            size += len(message.text)
            if len(messages) == MAX_PART_MESSAGES or size >= MAX_FILE_BYTES:
                yield LocatedRecord(_session(key, title, started_at, messages), file=name)
                messages, size = [], 0
    if messages:
        yield LocatedRecord(_session(key, title, started_at, messages), file=name)
    for reason, count in left_out.items():
        if count:
            yield LocatedRecord(Omission(reason, count), file=name)


def _session(
    key: str, title: str, started_at: datetime | None, messages: list[ImportedMessage]
) -> ImportedSession | Refusal:
    try:
        title = title or messages[0].text.strip().partition("\n")[0][:TITLE_LENGTH]
        return ImportedSession(checked_id(key, "sessionId"), title, started_at, fill_times(messages, started_at))
    except UnreadableElement as error:
        return Refusal(SESSIONS, str(error))


def _title(value: Mapping[str, Any]) -> str:
    with suppress(UnreadableElement):
        return checked_title(value.get(_TITLES.get(str(value.get("type")), "")))
    return ""


def _read_message(value: Mapping[str, Any]) -> ImportedMessage:
    """Return a message. Raises LeftOut for other lines, sub-agents, notes of the program, and results of tools."""
    role, message = value.get("type"), mapping(value.get("message"))
    if role not in ("user", "assistant") or message.get("role") != role:
        raise LeftOut(HIDDEN)
    if value.get("isSidechain"):
        raise LeftOut(SUB_AGENTS)
    if value.get("isMeta") or value.get("isCompactSummary"):
        raise LeftOut(HIDDEN)
    content = message.get("content")
    texts = [content] if isinstance(content, str) else block_texts(content)
    cleaned = [_without_noise(raw).strip() for raw in texts]
    text = "\n\n".join(part for part in cleaned if part and not part.startswith(_COMMANDS))
    left_out = left_out_blocks(content)
    if not text and not left_out:
        raise LeftOut(HIDDEN)
    key, time = value.get("uuid"), value.get("timestamp")
    return new_message(role, text, id=key, id_name="uuid", created_at=time, left_out=left_out)


def _without_noise(text: str) -> str:
    """Remove reminders; by searching, as a pattern reads to the end again for each one that is not closed."""
    kept: list[str] = []
    position = 0
    while (start := text.find(_NOISE_START, position)) >= 0 and (end := text.find(_NOISE_END, start)) >= 0:
        kept.append(text[position:start])
        position = end + len(_NOISE_END)
    return "".join([*kept, text[position:]])
