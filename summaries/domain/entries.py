"""Extract entries for a project's documents from its messages: prompt, answer schema and validation (SPEC P6). Pure.

Messages are untrusted data, so they are fenced in the prompt. The answer is validated: each entry must cite its source
messages, and what a document says already is not repeated.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from conversations.domain.content import label, one_line
from memoryhub.llm.types import array_schema, object_schema
from memoryhub.search.analysis import analyse, fold
from memoryhub.validators import text_problem
from summaries.domain.documents import DECISIONS, MEMORY, PIN, TIMELINE
from summaries.domain.summaries import NoRoom, shortened

LISTS: Final[Mapping[str, str]] = {"facts": MEMORY, "decisions": DECISIONS, "timeline": TIMELINE}
"""Lists of an answer, and the documents that their entries go to."""

MAX_ENTRIES: Final = 12
MAX_EXTRACTED_LENGTH: Final = 500
PASSAGE_TOKENS: Final = 4_000
KNOWN_TOKENS: Final = 1_500
"""Known entries are shown from the end of a document, since repetitions are mostly of recent ones."""

DUPLICATE_SHARE: Final = 0.6
"""Share of an older entry's terms that a repetition in fewer words has at least."""

_HEADINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"known": "known-already", "messages": "messages"},
    "ja": {"known": "記録済み", "messages": "メッセージ"},
}
_REMEMBERED: Final = re.compile(
    r"^<remembered-((?:[0-9a-f]{16}){1,2})>$.*?^</remembered-\1>$\n?", re.MULTILINE | re.DOTALL
)
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_NEGATION: Final = re.compile(
    r"\b(?:not|no|never|none|nobody|without|against|cannot|neither|nor|stop(?:s|ped)?|cancel\w*|reject\w*|unlike|un\w+"
    r"|\w+n't)\b|ない|なし|なく|ません|ず(?=に|、|。|$)|中止|廃止|取り消|撤回|却下|見送|やめ|反対|不[一-龠]|未[一-龠]"
)

Count = Callable[[str], int]


@dataclass(frozen=True)
class ProjectMessage:
    """Message to be read; `project` is the name of its project, "" where it has none."""

    id: UUID
    seq: int
    project: str
    is_users: bool
    author: str = field(repr=False)
    text: str = field(repr=False)
    is_trusted: bool
    said_at: datetime


@dataclass(frozen=True)
class Passage:
    """Messages that one call reads; `until` is the `seq` up to which the session is read afterwards.

    They are of one project and of one trust, since untrusted text could influence what is made of trusted text.
    """

    project: str
    lines: tuple[str, ...] = field(repr=False)
    messages: tuple[ProjectMessage, ...]
    until: int

    @property
    def is_trusted(self) -> bool:
        return all(message.is_trusted for message in self.messages)


@dataclass(frozen=True)
class NewEntry:
    document: str
    text: str = field(repr=False)
    sources: tuple[ProjectMessage, ...] = field(repr=False)


def next_passage(messages: Sequence[ProjectMessage], *, count: Count, most: int = PASSAGE_TOKENS) -> Passage:
    """Return the first messages that one call can read; they are ordered by `seq`, at least one.

    Messages without a project or without words are skipped; one that is too long loses its middle.
    """
    first = messages[0]
    lines: list[str] = []
    taken: list[ProjectMessage] = []
    until, left = first.seq, most
    for message in messages:
        if message.project != first.project or message.is_trusted != first.is_trusted:
            break
        words = one_line(_REMEMBERED.sub("", message.text)) if message.project else ""
        if words:
            line = _line_within(f"[{len(lines) + 1}] {_speaker(message)}: {words}", most, count)
            left -= count(line)
            if left < 0 and lines:
                break
            lines.append(line)
            taken.append(message)
        until = message.seq
    return Passage(first.project, tuple(lines), tuple(taken), until)


def _line_within(line: str, most: int, count: Count) -> str:
    try:
        return shortened(line, most, count)
    except NoRoom:
        return line[:most]


def _speaker(message: ProjectMessage) -> str:
    role = "user" if message.is_users else "assistant"
    name = label(message.author)
    return f"{message.said_at:%Y-%m-%d %a} {role}{f' ({name})' if name else ''}"


def known_lines(documents: Iterable[str], *, count: Count, most: int = KNOWN_TOKENS) -> list[str]:
    shown: list[str] = []
    texts = [text for text in documents if text.strip()]
    for text in texts:
        left, latest = most // len(texts), list[str]()
        for line in reversed([one_line(line) for line in text.splitlines() if line.strip()]):
            left -= count(line)
            if left < 0:
                break
            latest.insert(0, line)
        shown += latest
    return shown


def prompt_blocks(passage: Passage, known: Sequence[str], *, language: str) -> dict[str, str]:
    words = _HEADINGS.get(language, _HEADINGS["en"])
    before = {words["known"]: "\n".join(known)} if known else {}
    return {**before, words["messages"]: "\n".join(passage.lines)}


def answer_schema() -> dict[str, Any]:
    entry = object_schema({"text": {"type": "string"}, "sources": array_schema({"type": "integer"})})
    return object_schema({name: array_schema(entry) for name in LISTS})


def parse_entries(data: Any, passage: Passage, known: Mapping[str, str]) -> list[NewEntry]:
    """Return the valid and new entries of an answer, at most MAX_ENTRIES; `known` has the documents' texts by name."""
    found: list[NewEntry] = []
    earlier_words = {
        name: [EntryWords.of(line) for line in text.splitlines() if line.strip()] for name, text in known.items()
    }
    for name, document in LISTS.items():
        earlier = earlier_words.setdefault(document, [])
        given = data.get(name) if isinstance(data, Mapping) else None
        for raw in given if isinstance(given, list) else []:
            new = _entry_of(raw, document, passage)
            words = EntryWords.of(new.text) if new else None
            if new and words and not any(words.repeats(each) for each in earlier):
                found.append(new)
                earlier.append(words)
    return found[:MAX_ENTRIES]


def _entry_of(raw: Any, document: str, passage: Passage) -> NewEntry | None:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("text"), str):
        return None
    text = one_line(raw["text"].replace(PIN, "").lstrip(" -*+#>\t"))
    numbers = raw.get("sources")
    given = numbers if isinstance(numbers, list) else []
    whole = {number for number in given if isinstance(number, int) and not isinstance(number, bool)}
    sources = tuple(message for number, message in enumerate(passage.messages, 1) if number in whole)
    if not text or len(text) > MAX_EXTRACTED_LENGTH or text_problem(text) or not sources:
        return None
    return NewEntry(document, text, sources)


@dataclass(frozen=True)
class EntryWords:
    """Terms, numbers and negations of an entry, by which repetitions are found."""

    terms: frozenset[str]
    numbers: frozenset[str]
    negations: int

    @classmethod
    def of(cls, text: str) -> "EntryWords":
        folded = fold(text)
        numbers = frozenset(_NUMBER.findall(folded))
        return cls(frozenset(analyse(text, as_written=True)), numbers, len(_NEGATION.findall(folded)))

    def repeats(self, older: "EntryWords") -> bool:
        """Return whether an older entry has all terms and numbers of this one, and as many negations.

        A new fact that is taken for a repetition is lost, so another word, or a negation, always makes a new entry.
        """
        if not self.terms or self.negations != older.negations or not self.numbers <= older.numbers:
            return False
        return self.terms <= older.terms and len(self.terms) >= DUPLICATE_SHARE * len(older.terms)
