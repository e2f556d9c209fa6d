"""Tables of memories or messages: CSV, TSV, and JSON Lines with columns that a person names. Pure.

With a column of roles each row is a message of a session, else a memory. Columns are recognised by common names, such
as those of Copilot's export; `columns` maps them where they are called otherwise: `content=text,created_at=date`.
"""

import codecs
import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from hashlib import sha256
from itertools import groupby, islice
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final

from django.utils.translation import gettext_noop

from memoryhub.errors import stored_text
from memoryhub.importexport.foreign.archives import Archive, elements_of, json_files
from memoryhub.importexport.foreign.json_stream import MAX_ELEMENT_BYTES
from memoryhub.importexport.foreign.records import (
    HIDDEN,
    MAX_MEMORY_LENGTH,
    MAX_MESSAGE_LENGTH,
    MAX_PART_MESSAGES,
    MEMORIES,
    MESSAGES,
    TOOLS,
    UNREADABLE_TIME,
    UNREADABLE_TIMES,
    ImportedMemory,
    ImportedMessage,
    ImportedSession,
    LeftOut,
    LocatedRecord,
    Omission,
    Record,
    Refusal,
    Role,
    UnreadableElement,
    checked_id,
    checked_text,
    checked_title,
    checked_user,
    lenient_time,
    mapping,
    new_message,
    session_records,
    usable_tags,
)
from memoryhub.importexport.native.jsonl import BrokenFile, printable
from memoryhub.tenancy.namespaces import KINDS

COMMON_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "content": ("content", "text", "memory", "message", "messagecontent", "note", "fact"),
    "role": ("role", "author", "sender", "speaker"),
    "session": ("session", "session_id", "conversation", "conversation_id", "chatname", "chat", "thread"),
    "title": ("title", "name", "subject"),
    "created_at": ("created_at", "createdat", "date", "time", "timestamp", "datetime"),
    "user_id": ("user_id", "user"),
    "id": ("id", "message_id", "messageid"),
    "kind": ("kind",),
    "tags": ("tags", "labels", "categories"),
}
"""What a column may mean, and the names by which it is recognised."""

MEANINGS: Final = f"Meanings: {', '.join(COMMON_NAMES)}."
UNUSED_COLUMNS: Final = gettext_noop("columns that are not used.")
USERS: Final = ("user", "human", "me", "you", "prompt")
OTHERS: Final = {"system": HIDDEN, "developer": HIDDEN, "tool": TOOLS, "function": TOOLS}
ENDINGS: Final = (".csv", ".tsv")
TIME_FORMATS: Final = ("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d", "%m/%d/%Y %H:%M:%S %z", "%m/%d/%Y %H:%M:%S")
SNIFFED_BYTES: Final = 2**16
MAX_SHOWN_COLUMNS: Final = 20

Row = tuple[int, Mapping[str, Any]]
"""Line, and values by meaning."""


def parse_columns(text: str) -> dict[str, str]:
    """Parse `content=text,created_at=date`. Raises ValueError."""
    columns: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        meaning, equals, column = (side.strip() for side in part.partition("="))
        if meaning not in COMMON_NAMES or not equals or not column:
            raise ValueError(f"{part[:80]}: give columns as meaning=column. {MEANINGS}")
        columns[meaning] = column
    if columns and "content" not in columns:
        raise ValueError("Name the column of the text: content=….")
    return columns


SIGN: Final = "named columns, or a first line with the column of a text"


def recognises(archive: Archive) -> bool:
    return any("content" in _meanings(header, {}) for header in _headers(archive))


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    tables = archive.ending(*ENDINGS)
    for name in tables or json_files(archive):
        notes: list[LocatedRecord] = []
        rows = _table_rows(archive, name, notes) if tables else _json_rows(archive, name, notes)
        # Rows of a session that follow each other are written together.
        for session, group in groupby(rows, partial(_session, name=name)):
            yield from _records(session, group, name)
        yield from notes


def _headers(archive: Archive) -> Iterator[list[str]]:
    for name in archive.ending(*ENDINGS):
        with archive.open(name, counts=False) as file:
            yield next(_reader(file, name, _encoding(archive, name)), [])


def _encoding(archive: Archive, name: str) -> str:
    """Return UTF-8, or else the Shift JIS of Japanese spreadsheets."""
    with archive.open(name, counts=False) as file:
        sample = file.read(SNIFFED_BYTES)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return "cp932"
    return "utf-8"


def _reader(file: BinaryIO, name: str, encoding: str) -> Iterator[list[str]]:
    csv.field_size_limit(MAX_MESSAGE_LENGTH)
    raw_lines = iter(lambda: file.readline(MAX_ELEMENT_BYTES), b"")
    lines = (raw.decode(encoding, "replace").removeprefix("\ufeff") for raw in raw_lines)
    return csv.reader(lines, delimiter="\t" if name.lower().endswith(".tsv") else ",")


def _meanings(header: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each meaning. Raises BrokenFile where a named column is missing."""
    if missing := [column for column in columns.values() if column not in header]:
        shown = ", ".join(header[:MAX_SHOWN_COLUMNS])
        raise BrokenFile(f"There is no column {printable(missing[0])}; there are: {printable(shown)}.")
    if columns:
        return dict(columns)
    by_name = {name.strip().lower(): name for name in reversed(header)}
    return {
        meaning: by_name[found]
        for meaning, names in COMMON_NAMES.items()
        if (found := next((name for name in names if name in by_name), None)) is not None
    }


def _table_rows(archive: Archive, name: str, notes: list[LocatedRecord]) -> Iterator[Row]:
    with archive.open(name) as file:
        reader: Any = _reader(file, name, _encoding(archive, name))
        header = [cell.strip() for cell in next(reader, [])]
        meanings = _meanings(header, archive.columns)
        columns = {meaning: header.index(column) for meaning, column in meanings.items()}
        if unused := [column for column in header if column and column not in meanings.values()]:
            notes.append(LocatedRecord(Omission(UNUSED_COLUMNS, len(unused), ", ".join(unused)), file=name))
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                notes.append(LocatedRecord(Refusal(MEMORIES, f"{error}."), line=reader.line_num, file=name))
                continue
            if any(cells):
                yield reader.line_num, {key: cells[at] for key, at in columns.items() if at < len(cells)}


def _json_rows(archive: Archive, name: str, notes: list[LocatedRecord]) -> Iterator[Row]:
    with archive.open(name) as file:
        for element in elements_of(name, file):
            if element.problem or not isinstance(element.value, dict):
                refusal = Refusal(MEMORIES, element.problem or stored_text("it is no object."))
                notes.append(LocatedRecord(refusal, element.entry, element.line, name))
                continue
            columns = _meanings(list(element.value), {}) if not archive.columns else archive.columns
            yield element.line, {key: _value(element.value, column) for key, column in columns.items()}


def _value(value: Any, path: str) -> Any:
    """Return a value by its path, such as `author.role`."""
    for part in (path,) if path in value else path.split("."):
        value = mapping(value).get(part)
    return value


def _session(row: Row, name: str) -> tuple[str, str, str] | None:
    """Return id, title and user of a row's session, None for a memory."""
    values = row[1]
    if "role" not in values:
        return None
    title = values.get("title") or values.get("session")
    return str(values.get("session") or PurePosixPath(name).stem), str(title or ""), str(values.get("user_id") or "")


def _records(named: tuple[str, str, str] | None, rows: Iterator[Row], name: str) -> Iterator[LocatedRecord]:
    if named is None:
        yield from _memories(rows, name)
        return
    key, title, user_id = named
    try:
        session = ImportedSession(checked_id(key, "session"), checked_title(title), user_id=checked_user(user_id))
    except UnreadableElement as error:
        yield from (LocatedRecord(Refusal(MESSAGES, str(error)), line=line, file=name) for line, _ in rows)
        return
    while part := list(islice(rows, MAX_PART_MESSAGES)):
        for record in session_records(session, (values for _, values in part), _read_message):
            yield LocatedRecord(record, line=part[0][0], file=name)


def _read_message(values: Mapping[str, Any]) -> ImportedMessage:
    spoken_by = str(values["role"] or "").strip().lower()
    if spoken_by in OTHERS:
        raise LeftOut(OTHERS[spoken_by])
    text, time = _text(values), _time(values.get("created_at"))
    role: Role = "user" if spoken_by in USERS else "assistant"
    key = str(values.get("id") or sha256(f"{role} {time} {text}".encode("utf-8", "replace")).hexdigest()[:32])
    return new_message(role, text, id=key, created_at=time)


def _memories(rows: Iterator[Row], name: str) -> Iterator[LocatedRecord]:
    for line, values in rows:
        try:
            for record in _memory(values):
                yield LocatedRecord(record, line=line, file=name)
        except UnreadableElement as error:
            yield LocatedRecord(Refusal(MEMORIES, str(error)), line=line, file=name)


def _memory(values: Mapping[str, Any]) -> Iterator[Record]:
    since, kind, tags = lenient_time(_time(values.get("created_at"))), values.get("kind"), values.get("tags")
    yield ImportedMemory(
        checked_text(_text(values), MAX_MEMORY_LENGTH),
        kind=kind if kind in KINDS else "fact",
        tags=usable_tags(tags.split(",") if isinstance(tags, str) else tags),
        since=None if since is UNREADABLE_TIME else since,
        user_id=checked_user(str(values.get("user_id") or "")),
    )
    if since is UNREADABLE_TIME:
        yield Omission(UNREADABLE_TIMES)


def _text(values: Mapping[str, Any]) -> str:
    text = values.get("content")
    return text if isinstance(text, str) else ""


def _time(value: Any) -> Any:
    """Return a time in one of the forms of spreadsheets as ISO 8601, others unchanged."""
    text = value.strip() if isinstance(value, str) else value
    if not isinstance(text, str):
        return value
    with suppress(ValueError):
        return float(text) if "-" not in text and len(text) > 8 else text
    for form in TIME_FORMATS:
        with suppress(ValueError):
            return datetime.strptime(text, form).isoformat()
    return text
