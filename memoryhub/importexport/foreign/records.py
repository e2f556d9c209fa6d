"""Records that every foreign format is read into, and that apps write. Pure.

A format yields sessions, memories and documents, a `Refusal` for what it cannot read, and an `Omission` for what it
leaves out by design; the writer knows no format, and formats know no table.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from django.utils.translation import gettext_noop

from memoryhub.errors import stored_text
from memoryhub.look_alikes import is_blank
from memoryhub.validators import storable_text, text_problem

MAX_MESSAGE_LENGTH: Final = 1_000_000
MAX_MEMORY_LENGTH: Final = 100_000
MAX_ID_LENGTH: Final = 255
MAX_TAG_LENGTH: Final = 100
MAX_TITLE_LENGTH: Final = 500
MAX_TAGS: Final = 50

NEW_FILE: Final = "-"
"""The `base` of a new file in a folder that was exported from here."""

Role: TypeAlias = Literal["user", "assistant"]
Raw = TypeVar("Raw")


class UnreadableElement(ValueError):
    """An element that cannot be imported; the message gives the reason, without the element's text."""


class LeftOut(Exception):
    """An element that is not imported by design; the message is one of the reasons below."""


TOOLS: Final = gettext_noop("calls of tools, and their results.")
THOUGHTS: Final = gettext_noop("thoughts of the model.")
HIDDEN: Final = gettext_noop("instructions and other texts that the program hides from the conversation.")
FILES: Final = gettext_noop("files, images and sound of messages.")
NO_TEXT: Final = gettext_noop("messages without a text.")
NO_OBJECTS: Final = gettext_noop("messages that are no objects.")
FAILED: Final = gettext_noop("answers that failed with an error.")
BRANCHES: Final = gettext_noop("messages on other branches: before an edit, or before an answer was regenerated.")
UNREADABLE_TIMES: Final = gettext_noop("times that are none; the time before is taken.")
BROKEN_LINKS: Final = gettext_noop(
    "links to messages that are missing or go round in a circle; these are joined by their times."
)
NO_MESSAGES: Final = gettext_noop("conversations without a message.")
OTHER_PARTS: Final = gettext_noop("other parts of the file, such as settings, projects and relations.")
UNUSED_FILES: Final = gettext_noop("files that this format does not use.")

CUSTOM_INSTRUCTIONS: Final = "custom instructions"
SAVED_MEMORY: Final = "saved memory"
"""Origins of memories that another system kept, in their metadata."""


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    role: Role
    text: str = field(repr=False)
    id: str
    created_at: datetime | None = None
    left_out: Sequence[str] = ()
    """Reasons for the parts of the message that are not imported."""


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A conversation, or the next part of a long one; `id` is the other system's."""

    id: str
    title: str = field(default="", repr=False)
    started_at: datetime | None = None
    messages: Sequence[ImportedMessage] = field(default=(), repr=False)
    user_id: str = field(default="", repr=False)

    @property
    def weight(self) -> int:
        return 1 + len(self.messages)

    @property
    def size(self) -> int:
        return sum(len(message.text) for message in self.messages)


@dataclass(frozen=True, slots=True)
class ImportedMemory:
    """A memory; with `needs_review` it is pending. `user_id` is "" where none is named.

    `id` and `version` are set for a memory that was exported from here and may have been edited since.
    """

    text: str = field(repr=False)
    kind: str = "fact"
    tags: Sequence[str] = field(default=(), repr=False)
    since: datetime | None = None
    user_id: str = field(default="", repr=False)
    pinned: bool = False
    needs_review: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    id: str = ""
    version: int = 0
    weight: ClassVar[int] = 2

    @property
    def size(self) -> int:
        return len(self.text)


@dataclass(frozen=True, slots=True)
class ImportedDocument:
    """A document of a project.

    `project` and `name` are the source's own titles, which the writer turns into names. `base` is the digest of the
    exported text, for a file that was exported from here.
    """

    project: str
    name: str
    text: str = field(repr=False)
    description: str = field(default="", repr=False)
    base: str = ""
    weight: ClassVar[int] = 20

    @property
    def size(self) -> int:
        return len(self.text)


@dataclass(frozen=True, slots=True)
class Refusal:
    record_name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Omission:
    """Elements that are left out by design; `where` is the other system's id of their conversation."""

    reason: str
    count: int = 1
    where: str = ""


Record: TypeAlias = ImportedSession | ImportedMemory | ImportedDocument | Refusal | Omission
SESSIONS, MESSAGES, MEMORIES, DOCUMENTS = "sessions", "messages", "memories", "documents"
RECORD_NAMES: Final[Mapping[type[Any], str]] = {
    ImportedSession: SESSIONS,
    ImportedMemory: MEMORIES,
    ImportedDocument: DOCUMENTS,
}


@dataclass(frozen=True, slots=True)
class LocatedRecord:
    """A record with its position: entry of a list, line of a file, or both; 0 where unknown."""

    record: Record
    entry: int = 0
    line: int = 0
    file: str = field(default="", repr=False)


YEARS: Final = range(1970, 2200)
UNREADABLE_TIME: Final = datetime.min
"""Marks a time that cannot be read; `session_records` counts and removes it."""

UNITS: Final = (1e3, 1e6, 1e9)
LATEST_SECONDS: Final = 1e11


def parse_time(value: Any) -> datetime | None:
    """Parse an ISO 8601 time, or seconds since 1970 or a fraction of them; None where there is none.

    Raises UnreadableElement, also for a year outside YEARS, which no database column is sure to hold.
    """
    if value is None or value == "":
        return None
    parsed = None
    with suppress(ValueError, OverflowError, OSError):
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            parsed = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            if value >= LATEST_SECONDS:
                value /= next((unit for unit in UNITS if value < LATEST_SECONDS * unit), 1)
            parsed = datetime.fromtimestamp(value, UTC)
    if parsed is None or parsed.year not in YEARS:
        raise UnreadableElement("a time in it is none.")
    return parsed


def lenient_time(value: Any) -> datetime | None:
    """Parse a time of a message or session, whose text counts more: UNREADABLE_TIME for what is none."""
    try:
        return parse_time(value)
    except UnreadableElement:
        return UNREADABLE_TIME


def sort_time(value: Any) -> float:
    """Return a time as a number, 0 for none, by which `visible_branch` orders messages: seconds, or the file's unit."""
    if isinstance(value, int | float):
        return value
    time = lenient_time(value)
    return 0.0 if time is None or time is UNREADABLE_TIME else time.timestamp()


def checked_text(text: str, max_length: int) -> str:
    """Return a text with U+FFFD in place of what cannot be stored. Raises UnreadableElement."""
    text = storable_text(text)
    if is_blank(text):
        raise UnreadableElement("its text is empty.")
    if len(text) > max_length:
        raise UnreadableElement(stored_text("its text is longer than {most} characters.", most=max_length))
    return text


def checked_id(value: Any, name: str) -> str:
    """Return an id of the other system. Raises UnreadableElement."""
    if not isinstance(value, str) or not value or len(value) > MAX_ID_LENGTH or text_problem(value):
        raise UnreadableElement(stored_text("it has no usable `{name}`.", name=name))
    return value


def checked_user(value: Any) -> str:
    """Return a user's id, "" for none. Raises UnreadableElement."""
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MAX_ID_LENGTH or text_problem(value):
        raise UnreadableElement("its `user_id` cannot be used.")
    return value


def checked_title(value: Any) -> str:
    """Return a title, "" for none."""
    return storable_text(value)[:MAX_TITLE_LENGTH] if isinstance(value, str) else ""


def usable_tags(values: Any) -> tuple[str, ...]:
    candidates = values if isinstance(values, list | tuple) else []
    tags = [tag.strip() for tag in candidates if isinstance(tag, str) and tag.strip() and not text_problem(tag)]
    return tuple(tag[:MAX_TAG_LENGTH] for tag in dict.fromkeys(tags))[:MAX_TAGS]


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def block_texts(blocks: Any) -> list[str]:
    """Return the texts of a message's blocks, without thoughts, tools and files."""
    texts = [block.get("text") for block in objects(blocks) if block.get("type") == "text"]
    return [text for text in texts if isinstance(text, str)]


_BLOCK_REASONS: Final = {
    **dict.fromkeys(("thinking", "redacted_thinking", "think", "reasoning", "thoughts"), THOUGHTS),
    **dict.fromkeys(("tool_use", "tool_result", "tool_call", "server_tool_use", "web_search_tool_result"), TOOLS),
    **dict.fromkeys(("image", "image_url", "image_file", "document", "file", "audio", "video"), FILES),
}


def left_out_blocks(blocks: Any) -> list[str]:
    """Return a reason for each block that `block_texts` leaves out."""
    return [reason for block in objects(blocks) if (reason := _BLOCK_REASONS.get(str(block.get("type")))) is not None]


def new_message(
    role: Role, text: str, *, id: Any, created_at: Any, left_out: Sequence[str] = (), id_name: str = "id"
) -> ImportedMessage:
    """Return a message. Raises LeftOut where nothing but other parts were in it, UnreadableElement."""
    if not text.strip():
        raise LeftOut(left_out[0] if left_out else NO_TEXT)
    text, created_at = checked_text(text, MAX_MESSAGE_LENGTH), lenient_time(created_at)
    return ImportedMessage(role, text, checked_id(id, id_name), created_at, left_out)


def memories_once(read: Callable[[Any], Iterable[Record]]) -> Callable[[Any], Iterator[Record]]:
    """Return a reader that yields each memory once: conversations repeat instructions, and some all memories."""
    seen: set[str] = set()

    def read_once(value: Any) -> Iterator[Record]:
        for record in read(value):
            if not isinstance(record, ImportedMemory):
                yield record
            elif record.text not in seen:
                seen.add(record.text)
                yield record

    return read_once


MAX_PART_MESSAGES: Final = 500
"""Maximum number of messages in a part of a session."""


def session_records(
    session: ImportedSession,
    messages: Iterable[Raw],
    read: Callable[[Raw], ImportedMessage | None],
    *,
    left_out: Mapping[str, int] = MappingProxyType({}),
) -> Iterator[Record]:
    """Yield a session with its messages parsed by `read`, and a refusal for each that raises UnreadableElement.

    What raises LeftOut is counted, with `left_out`; None is what became another record. A message without a time has
    that of the message before, the first that of the session. A long session is yielded in consecutive parts, which
    the writer joins.
    """
    parsed: list[ImportedMessage] = []
    refused: list[Refusal] = []
    omitted = Counter(left_out)
    for raw in messages:
        try:
            if (message := read(raw)) is not None:
                parsed.append(message)
                omitted.update(message.left_out)
        except LeftOut as reason:
            omitted[str(reason)] += 1
        except UnreadableElement as error:
            refused.append(Refusal(MESSAGES, str(error)))
    times = [session.started_at, *(message.created_at for message in parsed)]
    omitted[UNREADABLE_TIMES] += sum(time is UNREADABLE_TIME for time in times)
    if session.started_at is UNREADABLE_TIME:
        session = replace(session, started_at=None)
    parsed = fill_times(parsed, session.started_at)
    for start in range(0, len(parsed), MAX_PART_MESSAGES):
        yield replace(session, messages=parsed[start : start + MAX_PART_MESSAGES])
    omitted[NO_MESSAGES] += not (parsed or refused)
    yield from refused
    yield from (Omission(reason, count, session.id) for reason, count in omitted.items() if count)


def fill_times(messages: Sequence[ImportedMessage], fallback: datetime | None) -> list[ImportedMessage]:
    """Return the messages; those without a time get that of the message before."""
    result, latest = [], fallback
    for message in messages:
        known = message.created_at if message.created_at is not UNREADABLE_TIME else None
        latest = known or latest
        result.append(message if known else replace(message, created_at=latest))
    return result
