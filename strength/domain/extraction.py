"""Long-term strategies: what each reads next, the prompt, and validation of the answer (SPEC L2–L4).

Pure. A strategy's cursor in a session is the `seq` of the last message that it has read, never a time, as clients'
clocks are unreliable; `seq` has no gaps. Messages are untrusted data between delimiters. The answer is validated item
by item: each must cite its messages, at least one of them the user's; invalid items are dropped.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final, TypeVar
from uuid import UUID

from conversations.domain.content import label, one_line
from conversations.domain.layers import PHRASES
from conversations.domain.statements.grounding import Doubt, Evidence, Verdict
from conversations.domain.statements.kinds import DROPPED, Speech, Spoken
from memoryhub.llm.types import array_schema, object_schema
from memoryhub.search.analysis import HAN, KATAKANA
from memoryhub.tenancy.policy import Strategy as Strategy
from memoryhub.validators import text_problem
from strength.domain.cues import usable_cues
from strength.domain.duplicates import wording_digest
from strength.domain.memories import Kind, default_namespace

EXTRACT_KIND: Final = "extract"
MESSAGE_STRATEGIES: Final = (Strategy.SEMANTIC, Strategy.USER_PREFERENCE, Strategy.EPISODIC)
"""Strategies that read messages; reflection reads episodes, and summaries are written elsewhere."""

KINDS: Final[Mapping[Strategy, Kind]] = {
    Strategy.SEMANTIC: Kind.FACT,
    Strategy.USER_PREFERENCE: Kind.PREFERENCE,
    Strategy.SUMMARY: Kind.SUMMARY,
    Strategy.EPISODIC: Kind.EPISODE,
    Strategy.REFLECTION: Kind.REFLECTION,
}

SESSION_STRATEGIES: Final = frozenset({Strategy.SUMMARY, Strategy.EPISODIC})
"""Strategies whose memories have a namespace per session."""


def is_enabled(switches: Mapping[str, Any], strategy: Strategy) -> bool:
    return switches.get(strategy.value, True) is not False


def enabled_strategies(switches: Mapping[str, Any]) -> tuple[Strategy, ...]:
    return tuple(strategy for strategy in MESSAGE_STRATEGIES if is_enabled(switches, strategy))


def namespace_of(strategy: Strategy, session_id: object = "") -> str:
    folder = default_namespace(KINDS[strategy])
    return f"{folder}{session_id}/" if strategy in SESSION_STRATEGIES else folder


@dataclass(frozen=True)
class Span:
    """Messages after `after` up to `until` that these strategies have not read."""

    strategies: tuple[Strategy, ...]
    after: int
    until: int


def next_span(read_until: Mapping[Strategy, int], *, end: int) -> Span | None:
    """Return the next span of a session of `end` messages; None if all strategies have read it.

    The strategies furthest behind read up to the next cursor and continue together with that strategy: one call serves
    all strategies of a span.
    """
    behind = {strategy: seq for strategy, seq in read_until.items() if seq < end}
    if not behind:
        return None
    after = min(behind.values())
    together = tuple(strategy for strategy, seq in behind.items() if seq == after)
    return Span(together, after, min([end, *(seq for seq in behind.values() if seq > after)]))


MAX_ITEMS: Final = 20
"""Per slice."""

MAX_ITEM_LENGTH: Final = 1_000
MAX_EPISODE_LENGTH: Final = 3_000
"""Characters; longer texts are transcripts."""

MAX_EARLIER_MESSAGES: Final = 6
MAX_EARLIER_LENGTH: Final = 500
"""Earlier messages are context for messages such as "yes, that one"; nothing is extracted from them again."""

NEW_MESSAGES_SHARE: Final = 0.75
"""The share of new messages in a call's tokens; the rest is for earlier ones."""

EPISODE_PARTS: Final = ("situation", "intent", "actions", "outcome")
_EPISODE_LABELS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"situation": "Situation", "intent": "Intent", "actions": "Actions", "outcome": "Outcome"},
    "ja": {"situation": "状況", "intent": "意図", "actions": "行動", "outcome": "結果"},
}
ANSWER_KEYS: Final[Mapping[Strategy, str]] = {
    Strategy.SEMANTIC: "facts",
    Strategy.USER_PREFERENCE: "preferences",
    Strategy.EPISODIC: "episodes",
}
"""The lists of an answer by strategy."""

OTHER_TOPIC: Final = ""

_LIKING: Final = re.compile(
    r"\b(?:likes?|loves?|prefers?|wants?|enjoys?|hates?|dislikes?|favou?rite|rather|never|always)\b|好|嫌|苦手|ほしい|希望|望"
)

_CHINESE_USER: Final = re.compile(f"^(?:用[户戶]|使用者)(?=の?[{HAN}{KATAKANA}]{{0,12}}[はがのもに])")
"""What Chinese models write for the user in Japanese."""

_REMEMBERED: Final = re.compile(r"<(/?)remembered-((?:[0-9a-f]{16}){1,2})>")
"""A line that opens or closes a block of memories; older contexts had codes of 32 digits."""

_ENDINGS: Final = "|".join(
    form
    for phrases in PHRASES.values()
    for form in (
        phrases.since.format(day=r"\d{1,2}", month=f"(?:{'|'.join(phrases.months)})", year=r"\d{1,4}"),
        rf"{phrases.relevance}: [01]\.\d\d",
    )
)
_SPEAKER: Final = r"\[(?:\d{4}-\d\d-\d\d · )?(?:user|assistant)(?: · [^\]\n]+)?\] "
_REMEMBERED_LINE: Final = re.compile(
    rf"^\d+\. (?:{_SPEAKER}.*|.* \((?:{_ENDINGS})\))[ \t\r]*$\n?", re.ASCII | re.MULTILINE
)
"""A line of a memory or an earlier message, as contexts write it: with its speaker, or its date or relevance."""

_REMEMBERED_HEADINGS: Final = frozenset(
    heading for phrases in PHRASES.values() for heading in phrases.headings.values()
)
_QUOTED: Final = ("> ", "### ")
"""Beginnings of lines of a summary or document under such a heading."""

_HEADINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"earlier": "earlier", "messages": "messages"},
    "ja": {"earlier": "それまでの会話", "messages": "メッセージ"},
}

Count = Callable[[str], int]
Row = TypeVar("Row")


PROBE_TEXT: Final = "Hello. こんにちは。"


@dataclass(frozen=True)
class SourceMessage:
    id: UUID
    seq: int
    is_users: bool
    author: str = field(repr=False)
    text: str = field(repr=False)
    is_trusted: bool
    said_at: datetime  # by the speaker's clock


@dataclass(frozen=True)
class Line:
    """A message and its text on one line, for the prompt; numbered from 1."""

    message: SourceMessage
    text: str = field(repr=False)


@dataclass(frozen=True)
class Slice:
    """The messages of one call; `until` is the `seq` of the last one.

    All are equally trusted, as untrusted messages could manipulate what is extracted from trusted ones.
    """

    lines: tuple[Line, ...]
    until: int

    @property
    def has_user_message(self) -> bool:
        """Return whether a message is a user's; extracting from assistants' alone would be a feedback loop."""
        return any(line.message.is_users for line in self.lines)

    @property
    def people(self) -> tuple[str, ...]:
        names = (label(line.message.author) for line in self.lines if line.message.is_users)
        return tuple(dict.fromkeys(name for name in names if name))


@dataclass(frozen=True)
class Topics:
    """Topics that an agent wants remembered or ignored (SPEC L4)."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.include, *self.exclude]))

    def admit(self, text: str, topic: str) -> bool:
        """Return whether an item's topic is wanted; topics are also recognised in the text."""
        if topic in self.exclude or any(_mentions(text, unwanted) for unwanted in self.exclude):
            return False
        return not self.include or topic in self.include or any(_mentions(text, each) for each in self.include)


@dataclass(frozen=True)
class Item:
    strategy: Strategy
    text: str = field(repr=False)
    confidence: float
    sources: tuple[SourceMessage, ...] = field(repr=False)
    doubt: Doubt | None = None
    """Reason why the item waits for a person."""
    cues: str = field(default="", repr=False)
    """Other words by which searches find it."""

    @property
    def authors(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for each in self.sources if each.is_users and (name := label(each.author))))

    @property
    def said_at(self) -> datetime:
        return max(each.said_at for each in self.sources)


def without_memories(text: str) -> str:
    """Remove remembered text: blocks from an opening to its closing line, and single lines.

    Unclosed openings stay. Linear in time, also for a message of nothing but openings.
    """
    lines = text.split("\n")
    marks = [_REMEMBERED.fullmatch(line) for line in lines]
    last = {mark[2]: place for place, mark in enumerate(marks) if mark and mark[1]}
    kept, inside, is_headed = list[str](), "", False
    for place, (line, mark) in enumerate(zip(lines, marks, strict=True)):
        if inside:
            inside = "" if mark and mark[1] and mark[2] == inside else inside
        elif mark and not mark[1] and last.get(mark[2], -1) > place:
            inside = mark[2]
        elif line.rstrip() in _REMEMBERED_HEADINGS:
            is_headed = True
        elif not (is_headed and (line == ">" or line.startswith(_QUOTED))):
            is_headed = False
            kept.append(line)
    return _REMEMBERED_LINE.sub("", "\n".join(kept)).strip()


def next_slice(messages: Sequence[SourceMessage], *, max_tokens: int, count: Count, until: int) -> Slice:
    """Return the first messages that fit and are equally trusted; at least one, shortened if necessary."""
    remaining, lines = max_tokens * NEW_MESSAGES_SHARE, list[Line]()
    for place, message in enumerate(messages):
        text = one_line(without_memories(message.text))
        if not text:
            continue
        number = len(lines) + 1
        if not lines:
            text = _shorten_to_fit(text, message, remaining, count)
        remaining -= count(_prompt_line(message, text, number=number))
        if lines and (remaining < 0 or message.is_trusted != lines[0].message.is_trusted):
            return Slice(tuple(lines), messages[place - 1].seq)
        lines.append(Line(message, text))
    return Slice(tuple(lines), until)


def probe_lines(piece: Slice) -> tuple[Line]:
    """Return a greeting in place of a slice's messages, to test whether the model answers at all."""
    first = piece.lines[0].message
    return (Line(replace(first, is_users=True, author="", text=PROBE_TEXT), PROBE_TEXT),)


def earlier_lines(messages: Sequence[SourceMessage], *, max_tokens: int, count: Count) -> list[str]:
    """Return the latest messages before a slice, shortened, in order."""
    remaining, lines = max_tokens * (1 - NEW_MESSAGES_SHARE), list[str]()
    for message in list(messages)[: -MAX_EARLIER_MESSAGES - 1 : -1]:
        text = one_line(without_memories(message.text))[:MAX_EARLIER_LENGTH]
        remaining -= count(text)
        if remaining < 0:
            break
        if text:
            lines.insert(0, f"- {_speaker(message)}: {text}")
    return lines


def prompt_lines(piece: Slice) -> list[str]:
    return [_prompt_line(line.message, line.text, number=number) for number, line in enumerate(piece.lines, 1)]


def message_blocks(piece: Slice, earlier: Sequence[str], *, language: str) -> dict[str, str]:
    words = _HEADINGS.get(language, _HEADINGS["en"])
    before = {words["earlier"]: "\n".join(earlier)} if earlier else {}
    return {**before, words["messages"]: "\n".join(prompt_lines(piece))}


def answer_schema(strategies: Sequence[Strategy], topics: Topics) -> dict[str, Any]:
    lists = {}
    for strategy in strategies:
        parts = EPISODE_PARTS if strategy is Strategy.EPISODIC else ("text",)
        values: dict[str, Any] = {part: {"type": "string"} for part in parts}
        values |= {"sources": array_schema({"type": "integer"}), "confidence": {"type": "number"}}
        values["speech"] = {"type": "string", "enum": [each.value for each in Speech], "default": Speech.OWN.value}
        values["cues"] = {"type": "string", "default": ""}
        if topics.all:
            values["topic"] = {"type": "string", "enum": [*topics.all, OTHER_TOPIC]}
        lists[ANSWER_KEYS[strategy]] = array_schema(object_schema(values))
    return object_schema(lists)


@dataclass(frozen=True)
class Reading:
    """Evidence for the items of an answer: a slice, the messages before it, and the agent's settings."""

    piece: Slice
    topics: Topics = Topics()
    language: str = "en"
    """Language of the labels of an episode."""
    written_in: str = ""
    """Language that was asked for; "" for that of the messages."""
    earlier: tuple[SourceMessage, ...] = ()

    @cached_property
    def messages(self) -> tuple[SourceMessage, ...]:
        return (*self.earlier, *(line.message for line in self.piece.lines))

    @cached_property
    def evidence(self) -> Evidence:
        spoken = (Spoken(without_memories(m.text), m.is_users, m.said_at, label(m.author)) for m in self.messages)
        return Evidence(tuple(spoken), self.written_in)

    def places(self, numbers: Any) -> list[int]:
        """Return the places of the messages that an answer cites."""
        first = len(self.earlier)
        return [first + place for place in cited(range(len(self.piece.lines)), numbers)]

    def verdict(self, text: str, strategy: Strategy, raw: Mapping[str, Any]) -> Verdict:
        """Return the messages that support an item; those of an episode as cited, as it includes what was done."""
        places, speech = self.places(raw.get("sources")), _text(raw.get("speech")) or Speech.OWN
        if strategy is not Strategy.EPISODIC:
            return self.evidence.check(text, places, speech=speech)
        doubt = Doubt(speech) if speech != Speech.OWN else self.evidence.doubt_details(text)
        return Verdict(tuple(places), doubt, falls=speech in DROPPED)


def items_of(data: Any, reading: Reading, *, strategies: Sequence[Strategy]) -> list[Item]:
    """Return the valid items of an answer, at most MAX_ITEMS: not blank or too long, supported by a user's message.

    The same text in two lists is one item: a preference where its words state one.
    """
    found = [
        item
        for strategy in strategies
        for raw in list_at(data, ANSWER_KEYS[strategy])
        if (item := _item(raw, strategy, reading)) is not None
    ]
    unique: dict[bytes, Item] = {}
    for item in found:
        key = wording_digest(item.text)
        if key not in unique or (item.strategy is Strategy.USER_PREFERENCE and _LIKING.search(item.text.casefold())):
            unique[key] = item
    return list(unique.values())[:MAX_ITEMS]


def _item(raw: Any, strategy: Strategy, reading: Reading) -> Item | None:
    if not isinstance(raw, Mapping):
        return None
    text, longest = _CHINESE_USER.sub("ユーザー", _text(raw.get("text"))), MAX_ITEM_LENGTH
    if strategy is Strategy.EPISODIC:
        words, longest = _EPISODE_LABELS.get(reading.language, _EPISODE_LABELS["en"]), MAX_EPISODE_LENGTH
        parts = {part: one_line(_text(raw.get(part))) for part in EPISODE_PARTS}
        if not parts["situation"] or not (parts["actions"] or parts["outcome"]):
            return None
        text = "\n".join(f"{words[part]}: {value}" for part, value in parts.items() if value)
    confidence = confidence_of(raw.get("confidence"))
    if not is_storable(text, longest) or confidence is None:
        return None
    verdict = reading.verdict(text, strategy, raw)
    sources = tuple(reading.messages[place] for place in verdict.places)
    is_new = any(place >= len(reading.earlier) for place in verdict.places)
    if verdict.falls or not is_new or not any(each.is_users for each in sources):
        return None
    item = Item(strategy, text, confidence, sources, verdict.doubt, usable_cues(raw.get("cues")))
    if len(reading.piece.people) > 1 and not any(name.casefold() in text.casefold() for name in item.authors):
        item = replace(item, text=f"{', '.join(item.authors)}: {text}" if item.authors else text)
    return item if reading.topics.admit(text, _text(raw.get("topic"))) else None


def is_storable(text: str, longest: int) -> bool:
    return bool(one_line(text)) and len(text) <= longest and text_problem(text) is None


def cited(shown: Sequence[Row], numbers: Any) -> tuple[Row, ...]:
    """Return what an answer cites by its numbers, from 1; invalid numbers are ignored."""
    given = numbers if isinstance(numbers, list) else []
    whole = {number for number in given if isinstance(number, int) and not isinstance(number, bool)}
    return tuple(each for number, each in enumerate(shown, 1) if number in whole)


def confidence_of(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) if 0 <= value <= 1 else None


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def list_at(data: Any, name: str) -> list[Any]:
    given = data.get(name) if isinstance(data, Mapping) else None
    return given if isinstance(given, list) else []


def _mentions(text: str, topic: str) -> bool:
    """Return whether a text contains a topic, a Latin one as whole words: "tea" is not in "steady".

    `\\b` matches neither next to kana nor after "C++"; hence the look-around for Latin letters.
    """
    words = topic.strip().casefold()
    before = "(?<![a-z0-9])" if words[:1].isascii() else ""
    behind = "(?![a-z0-9])" if words[-1:].isascii() else ""
    return bool(words) and re.search(f"{before}{re.escape(words)}{behind}", text.casefold()) is not None


def _prompt_line(message: SourceMessage, text: str, *, number: int) -> str:
    return f"[{number}] {_speaker(message)}: {text}"


def _speaker(message: SourceMessage) -> str:
    role = "user" if message.is_users else "assistant"
    name = label(message.author)
    return f"{message.said_at:%Y-%m-%d %a} {role}{f' ({name})' if name else ''}"


def _shorten_to_fit(text: str, message: SourceMessage, limit: float, count: Count) -> str:
    """Cut the middle of a text until its line fits; the ends of long texts are most informative."""
    while count(_prompt_line(message, text, number=1)) > limit and len(text) > 1:
        half = len(text) // 4
        text = f"{text[:half]} … {text[-half:]}" if half > 3 else text[: len(text) // 2]
    return text


MAX_EPISODES: Final = 20
MAX_LESSONS: Final = 5
MAX_KNOWN_LESSONS: Final = 20

LESSONS_SCHEMA: Final = object_schema(
    {
        "lessons": array_schema(
            object_schema(
                {
                    "text": {"type": "string"},
                    "episodes": array_schema({"type": "integer"}),
                    "confidence": {"type": "number"},
                }
            )
        )
    }
)

_LESSON_HEADINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"lessons": "known lessons", "episodes": "episodes"},
    "ja": {"lessons": "既知の教訓", "episodes": "出来事"},
}


@dataclass(frozen=True)
class Lesson:
    text: str = field(repr=False)
    confidence: float
    episode_ids: tuple[UUID, ...]


def lesson_blocks(episodes: Sequence[str], lessons: Sequence[str], *, language: str) -> dict[str, str]:
    words = _LESSON_HEADINGS.get(language, _LESSON_HEADINGS["en"])
    known = {words["lessons"]: "\n".join(f"- {one_line(each)}" for each in lessons)} if lessons else {}
    lines = [f"{number}. {one_line(each)[:MAX_EPISODE_LENGTH]}" for number, each in enumerate(episodes, 1)]
    return {**known, words["episodes"]: "\n".join(lines)}


def lessons_of(data: Any, episode_ids: Sequence[UUID]) -> list[Lesson]:
    """Return the valid lessons of an answer: storable, and citing an episode."""
    lessons = []
    for raw in list_at(data, "lessons"):
        if not isinstance(raw, Mapping):
            continue
        text, confidence = _text(raw.get("text")), confidence_of(raw.get("confidence"))
        numbers = list_at(raw, "episodes")
        sources = tuple(each for number, each in enumerate(episode_ids, 1) if number in numbers)
        if confidence is not None and sources and is_storable(text, MAX_ITEM_LENGTH):
            lessons.append(Lesson(text, confidence, sources))
    return lessons[:MAX_LESSONS]
