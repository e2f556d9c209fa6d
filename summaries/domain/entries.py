"""What a model is asked about new messages of a project, and which of its answers become entries (SPEC P6). Pure.

Messages are data that others wrote, and stand fenced. What an answer holds is as little believed: each entry must name
the messages that it is drawn from, and what a document says already is not said again.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from conversations.domain.content import label, one_line
from memoryhub.search.analysis import analyse, fold
from memoryhub.validators import text_problem
from summaries.domain.documents import DECISIONS, MEMORY, PIN, TIMELINE
from summaries.domain.rolling import NoRoom, shortened

LISTS: Final[Mapping[str, str]] = {"facts": MEMORY, "decisions": DECISIONS, "timeline": TIMELINE}
"""The lists of an answer, and the documents that their entries go to."""

MOST_ENTRIES: Final = 12
LONGEST_ENTRY: Final = 500
PASSAGE_TOKENS: Final = 4_000
KNOWN_TOKENS: Final = 1_500
"""What is known already is shown from its end: what is told again was mostly told of late."""

SHARED: Final = 0.6
"""How much of an older entry's words a newer one has at least, if it says the same in fewer."""

_HEADINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"known": "known-already", "messages": "messages"},
    "ja": {"known": "記録済み", "messages": "メッセージ"},
}
_REMEMBERED: Final = re.compile(
    r"^<remembered-([0-9a-f]{32})>$.*?^</remembered-\1>$\n?", re.MULTILINE | re.DOTALL
)
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_DENIAL: Final = re.compile(
    r"\b(?:not|no|never|none|nobody|without|against|cannot|neither|nor|stop(?:s|ped)?|cancel\w*|reject\w*|unlike|un\w+"
    r"|\w+n't)\b|ない|なし|なく|ません|ず(?=に|、|。|$)|中止|廃止|取り消|撤回|却下|見送|やめ|反対|不[一-龠]|未[一-龠]"
)

Count = Callable[[str], int]


@dataclass(frozen=True)
class ProjectMessage:
    """A message as it is read for a project; `project` is the name of that it belongs to, "" where it has none."""

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
    """As many messages of one project, and of one trust, as one call reads; `until` is the last that is dealt with.

    Who is not believed must not stand beside those who are, for words may steer the reader.
    """

    project: str
    lines: tuple[str, ...] = field(repr=False)
    messages: tuple[ProjectMessage, ...]
    until: int

    @property
    def is_trusted(self) -> bool:
        """Whether what it tells is believed."""
        return all(message.is_trusted for message in self.messages)


@dataclass(frozen=True)
class NewEntry:
    """Something new for a document, and the messages that it is drawn from."""

    document: str
    text: str = field(repr=False)
    sources: tuple[ProjectMessage, ...] = field(repr=False)


def next_passage(messages: Sequence[ProjectMessage], *, count: Count, most: int = PASSAGE_TOKENS) -> Passage:
    """Return the first messages that one call can read; they are ordered by `seq`, and not none.

    A message without a project, or without words, is passed by. One that is too long loses its middle.
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
            line = _shortened(f"[{len(lines) + 1}] {_who(message)}: {words}", most, count)
            left -= count(line)
            if left < 0 and lines:
                break
            lines.append(line)
            taken.append(message)
        until = message.seq
    return Passage(first.project, tuple(lines), tuple(taken), until)


def _shortened(line: str, most: int, count: Count) -> str:
    try:
        return shortened(line, most, count)
    except NoRoom:
        return line[:most]


def _who(message: ProjectMessage) -> str:
    role = "user" if message.is_users else "assistant"
    name = label(message.author)
    return f"{message.said_at:%Y-%m-%d} {role}{f' ({name})' if name else ''}"


def known_lines(documents: Iterable[str], *, count: Count, most: int = KNOWN_TOKENS) -> list[str]:
    """Return the last lines of each document, as many as fit, in their order."""
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
    """Return the texts of a question by their headings, to be fenced."""
    words = _HEADINGS.get(language, _HEADINGS["en"])
    before = {words["known"]: "\n".join(known)} if known else {}
    return {**before, words["messages"]: "\n".join(passage.lines)}


def answer_schema() -> dict[str, Any]:
    """Return the form of the answer: a list of entries for each document."""
    entry = _object({"text": {"type": "string"}, "sources": {"type": "array", "items": {"type": "integer"}}})
    return _object({name: {"type": "array", "items": entry} for name in LISTS})


def parse_entries(data: Any, passage: Passage, known: Mapping[str, str]) -> list[NewEntry]:
    """Return what counts of an answer, at most MOST_ENTRIES; `known` is what the documents say, by their names."""
    found: list[NewEntry] = []
    said = {
        name: [_Words.of(line) for line in text.splitlines() if line.strip()] for name, text in known.items()
    }
    for name, document in LISTS.items():
        earlier = said.setdefault(document, [])
        for raw in _list(data, name):
            new = _learned(raw, document, passage)
            words = _Words.of(new.text) if new else None
            if new and words and not any(words.repeats(each) for each in earlier):
                found.append(new)
                earlier.append(words)
    return found[:MOST_ENTRIES]


def _learned(raw: Any, document: str, passage: Passage) -> NewEntry | None:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("text"), str):
        return None
    text = one_line(raw["text"].replace(PIN, "").lstrip(" -*+#>\t"))
    sources = _cited(passage.messages, raw.get("sources"))
    if not text or len(text) > LONGEST_ENTRY or text_problem(text) or not sources:
        return None
    return NewEntry(document, text, sources)


def _cited(messages: Sequence[ProjectMessage], numbers: Any) -> tuple[ProjectMessage, ...]:
    """Return the messages that an answer names by their numbers from 1 on; what is no such number is ignored."""
    given = numbers if isinstance(numbers, list) else []
    whole = {number for number in given if isinstance(number, int) and not isinstance(number, bool)}
    return tuple(message for number, message in enumerate(messages, 1) if number in whole)


def says_the_same(new: str, old: str) -> bool:
    """Say whether an entry says nothing that an older one does not: its words are all there, its numbers the same.

    A new fact that is taken for an old one is lost, so a word in another's stead, or a denial, is always new.
    """
    return _Words.of(new).repeats(_Words.of(old))


@dataclass(frozen=True)
class _Words:
    terms: frozenset[str]
    numbers: frozenset[str]
    denials: int

    @classmethod
    def of(cls, text: str) -> "_Words":
        folded = fold(text)
        numbers = frozenset(_NUMBER.findall(folded))
        return cls(frozenset(analyse(text)), numbers, len(_DENIAL.findall(folded)))

    def repeats(self, older: "_Words") -> bool:
        if not self.terms or self.denials != older.denials or not self.numbers <= older.numbers:
            return False
        return self.terms <= older.terms and len(self.terms) >= SHARED * len(older.terms)


def _list(data: Any, name: str) -> list[Any]:
    given = data.get(name) if isinstance(data, Mapping) else None
    return given if isinstance(given, list) else []


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
