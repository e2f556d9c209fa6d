"""Messages before they are stored: roles, numbering, and the features that search derives from their text.

The effect of the features on recall is in docs/algorithm.md.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from conversations.domain.layers import ENGLISH_MONTHS
from memoryhub.search.analysis import (
    ENGLISH_STOP_WORDS,
    JAPANESE_STOP_GRAMS,
    UNSPACED,
    is_unspaced,
    limit_combining_marks,
)


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


SPOKEN_ROLES = (Role.USER, Role.ASSISTANT)
"""Roles of people and assistants; messages of the others stay out of searches and contexts (SPEC C2)."""


# Names that older clients send as a message's type; each becomes an assistant with that author.
ASSISTANT_NAMES = ("kana", "yuno")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message as a client sends it; `created_at` None means now, `utc_offset_minutes` None the actor's zone.

    With `merge`, the session may have it already, from another way in: then what that row lacks is added to it.
    One that `needs_review`, as it states a password, is not found by searches.
    """

    role: Role
    content: str
    blocks: Sequence[Mapping[str, Any]] | None = None
    author: str = ""
    client_message_id: str | None = None
    created_at: datetime | None = None
    utc_offset_minutes: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    merge: bool = False
    needs_review: bool = False


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message that the client shows with its question; `source_id` is that of the stored one, where it is stored.

    `is_current`: later than the user's message, whose answer awaits tool results.
    """

    message: NewMessage
    source_id: str | None = None
    is_current: bool = False


def role_and_author(role: str, author: str) -> tuple[Role, str]:
    """Return role and author of a message type: a role, or the name of an assistant."""
    if role in ASSISTANT_NAMES:
        return Role.ASSISTANT, author or role
    return Role(role), author


def text_of_blocks(blocks: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


@dataclass(frozen=True, slots=True)
class Numbered:
    seq: int
    message: NewMessage


@dataclass(frozen=True, slots=True)
class Placement:
    """Plan of a batch: a new row, or the repeated `client_message_id`, for each message.

    `order` has one entry per message of the batch: a `seq` for new rows, a `client_message_id` for repeats.
    """

    new: tuple[Numbered, ...]
    order: tuple[int | str, ...]


def place_batch(batch: Sequence[NewMessage], *, known: frozenset[str], last_seq: int) -> Placement:
    """Number the messages of a batch after `last_seq`, once each; `known` are client ids that are stored already."""
    new: list[Numbered] = []
    order: list[int | str] = []
    taken = set(known)
    for message in batch:
        if message.client_message_id is not None and message.client_message_id in taken:
            order.append(message.client_message_id)
            continue
        if message.client_message_id is not None:
            taken.add(message.client_message_id)
        new.append(Numbered(last_seq + len(new) + 1, message))
        order.append(new[-1].seq)
    return Placement(tuple(new), tuple(order))


class TurnState(StrEnum):
    ANSWERING = "answering"
    ANSWERED = "answered"
    FAILED = "failed"


_QUESTION_END: Final = re.compile(r"(?:[?？]|か)\W*$")
_TAIL_CHARACTERS: Final = 50
"""Length of a message's end that is searched, which bounds the time."""

# Clients send these as authors, but "the user" in a query is not a name.
_ROLES: Final = frozenset({"user", "assistant", "system", "tool", "human", "ai", "bot"})
# "What did they say?" does not mean an author called "What The".
_NON_NAMES: Final = _ROLES | ENGLISH_STOP_WORDS | JAPANESE_STOP_GRAMS
_MIN_NAME_LENGTH: Final = 2

_EDGE: Final = "\0"
"""Put on both sides of words, so that whole names are found by comparing strings."""
_REMOVED: Final = "\1"
"""Placeholder of a removed name."""
_WORD: Final = re.compile(rf"[^\W{UNSPACED}]+")
"""A word; 「Kaiさん」 has the name Kai, Kaito has not."""
_REMOVED_WITH_SUFFIX: Final = re.compile(f"{_REMOVED}(?:['’]{_EDGE}s{_EDGE})?(?:さん|くん|ちゃん|君|様|氏)?")
"""A removed name with its possessive or honorific."""

_NUMBERS: Final = {
    **{"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10},
    **{"二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9, "十": 10},
}
_ENGLISH_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PAST_DAYS: Final = re.compile(
    r"(?P<two>\bday before yesterday\b|一昨日|おととい)"
    r"|(?P<one>\b(?:yesterday|last night)\b|昨[日晩夜]|きのう|ゆうべ)"
    rf"|(?<![0-9A-Za-z二三四五六七八九十百-])(?P<number>\d{{1,2}}|{'|'.join(_NUMBERS)})(?: days ago\b|日前)"
    r"|\blast (?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b"
    r"|先週の?(?P<last_weeks>[月火水木金土日])曜"
    r"|(?P<week>\blast week\b|先週)",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(r"\b(?:tell|remind) me\b|っけ|教えて|覚えて", re.IGNORECASE)
"""Requests that do not end as questions do."""


def is_question(content: str) -> bool:
    """Return whether a message ends with a question mark or か."""
    return bool(_QUESTION_END.search(content[-_TAIL_CHARACTERS:]))


def past_days_asked(content: str, *, today: date) -> tuple[date, ...]:
    """Return the past days that a question names by their distance from today, such as those of "last week".

    Empty for statements: they describe events, not earlier messages.
    """
    text = unicodedata.normalize("NFKC", limit_combining_marks(content))
    if not (is_question(text) or _ASKS.search(text)):
        return ()
    return tuple(dict.fromkeys(day for match in _PAST_DAYS.finditer(text) for day in _days_of(match, today)))


def _days_of(match: re.Match[str], today: date) -> list[date]:
    monday = today - timedelta(days=today.weekday() + 7)
    if match["week"]:
        return [monday + timedelta(days=each) for each in range(7)]
    if match["last_weeks"]:
        return [monday + timedelta(days="月火水木金土日".index(match["last_weeks"]))]
    if match["weekday"]:
        weekday = _ENGLISH_WEEKDAYS.index(match["weekday"][:3].casefold())
        return [today - timedelta(days=(today.weekday() - weekday - 1) % 7 + 1)]
    if number := match["number"]:
        return [today - timedelta(days=_NUMBERS.get(number.casefold()) or int(number))]
    return [today - timedelta(days=2 if match["two"] else 1)]


def day_words(day: date, *, unspaced: bool) -> str:
    """Return a day without its year as `searchable_text` writes it."""
    return f"{day.month}月{day.day}日" if unspaced else f"{day.day} {ENGLISH_MONTHS[day.month - 1]}"


def is_searchable(role: str, content: str) -> bool:
    """Return whether searches may return a message: text of a person or an assistant (SPEC C2)."""
    return role in SPOKEN_ROLES and bool(content.strip())


def searchable_text(content: str, *, author: str, said_at: datetime) -> str:
    """Return the indexed text of a message: author, text, and the day in words."""
    day = day_words(said_at, unspaced=is_unspaced(content))
    day = f"{said_at.year}年{day}" if is_unspaced(content) else f"{day} {said_at.year}"
    return f"{author}: {content} {day}" if author else f"{content} {day}"


def named_authors(text: str, authors: Iterable[str]) -> frozenset[str]:
    """Return the authors whom a text names, by full name or a part of it, case-sensitively.

    Compares strings: an actor may have thousands of authors, and a regular expression for each took seconds.
    """
    marked = _with_edges(text)
    return frozenset(author for author in authors if any(form in marked for form in _forms(author, text)))


def without_names(text: str, authors: Iterable[str]) -> str:
    """Remove these authors' names from a text, unless nothing else would be left.

    The vector of "What does Kai like?" is nearest to messages *to* Kai, which are not by Kai.
    """
    marked = _with_edges(text)
    forms = {form for author in authors for form in _forms(author, text)}
    for form in sorted(forms, key=lambda each: (-len(each), each)):
        marked = marked.replace(form, _REMOVED)
    bare = _REMOVED_WITH_SUFFIX.sub(" ", marked).replace(_EDGE, "")
    return " ".join(bare.split()) if any(map(str.isalnum, bare)) else text


def _with_edges(text: str) -> str:
    return _WORD.sub(rf"{_EDGE}\g<0>{_EDGE}", text)


def _forms(author: str, text: str) -> Iterator[str]:
    """Yield the forms of an author's name, with edges marked, that the text may contain."""
    for part in dict.fromkeys((author, *author.split())):
        if part[1:] in text and _is_name(part, author):
            yield _with_edges(part)
            yield _with_edges(part[0].upper() + part[1:])


def _is_name(part: str, author: str) -> bool:
    """Return whether a part identifies its author: neither an initial nor a common word."""
    letters = sum(map(str.isalnum, part))
    length = len(part) if part == author and letters else letters
    return length >= _MIN_NAME_LENGTH and not _NON_NAMES.issuperset(part.casefold().split())
