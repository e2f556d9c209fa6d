"""Records that every foreign format is read into, and that apps write. Pure.

A format yields sessions, memories and documents, and a `Refusal` for what it cannot read; the writer knows no format,
and formats know no table.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

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


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    role: Role
    text: str = field(repr=False)
    id: str
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A conversation, or the next part of a long one; `id` is the other system's."""

    id: str
    title: str = field(default="", repr=False)
    started_at: datetime | None = None
    messages: Sequence[ImportedMessage] = field(default=(), repr=False)

    @property
    def weight(self) -> int:
        return 1 + len(self.messages)

    @property
    def size(self) -> int:
        return sum(len(message.text) for message in self.messages)


@dataclass(frozen=True, slots=True)
class ImportedMemory:
    """A memory; with `is_generated` a model worded it, and it waits for review. `user_id` is "" where none is named.

    `id` and `version` are set for a memory that was exported from here and may have been edited since.
    """

    text: str = field(repr=False)
    kind: str = "fact"
    tags: Sequence[str] = field(default=(), repr=False)
    since: datetime | None = None
    user_id: str = field(default="", repr=False)
    pinned: bool = False
    is_generated: bool = False
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


Record: TypeAlias = ImportedSession | ImportedMemory | ImportedDocument | Refusal
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


def parse_time(value: Any) -> datetime | None:
    """Parse an ISO 8601 time or seconds since 1970; None where there is none. Raises UnreadableElement."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise UnreadableElement("a time in it is none.")


def checked_text(text: str, max_length: int) -> str:
    """Return a text with U+FFFD in place of what cannot be stored. Raises UnreadableElement."""
    text = storable_text(text)
    if is_blank(text):
        raise UnreadableElement("its text is empty.")
    if len(text) > max_length:
        raise UnreadableElement(f"its text is longer than {max_length} characters.")
    return text


def checked_id(value: Any, name: str) -> str:
    """Return an id of the other system. Raises UnreadableElement."""
    if not isinstance(value, str) or not value or len(value) > MAX_ID_LENGTH or text_problem(value):
        raise UnreadableElement(f"it has no usable `{name}`.")
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


MAX_PART_MESSAGES: Final = 500
"""Maximum number of messages in a part of a session."""


def session_records(
    session: ImportedSession,
    messages: Iterable[Raw],
    read: Callable[[Raw], ImportedMessage | None],
    *,
    undated_at: datetime | None = None,
) -> Iterator[Record]:
    """Yield a session with its messages parsed by `read`, and a refusal for each that raises UnreadableElement.

    A long session is yielded in consecutive parts, which the writer joins.
    """
    parsed: list[ImportedMessage] = []
    refused: list[Refusal] = []
    for raw in messages:
        try:
            if (message := read(raw)) is not None:
                parsed.append(message)
        except UnreadableElement as error:
            refused.append(Refusal(MESSAGES, str(error)))
    parsed = fill_times(parsed, undated_at)
    for start in range(0, max(1, len(parsed)), MAX_PART_MESSAGES):
        yield replace(session, messages=parsed[start : start + MAX_PART_MESSAGES])
    yield from refused


def fill_times(messages: Sequence[ImportedMessage], fallback: datetime | None) -> list[ImportedMessage]:
    """Return the messages; those without a time get that of the message before."""
    result, latest = [], fallback
    for message in messages:
        latest = message.created_at or latest
        result.append(message if message.created_at else replace(message, created_at=latest))
    return result
