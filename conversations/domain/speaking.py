"""What can be told from a message's letters alone: whether it asks, whom it names, by which words it is found.

Pure. What these did to recall is in docs/algorithm.md.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from memoryhub.search.analysis import UNSPACED, is_unspaced

_ENDS_ASKING: Final = re.compile(r"(?:[?？]|か)\W*$")
_TAIL_CHARACTERS: Final = 50
"""As much of a message's end as can matter; a page of question marks must not take long."""

_ENGLISH_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip

# Clients put these where a name could stand; whoever asks about "the user" means nobody.
_ROLES: Final = frozenset({"user", "assistant", "system", "tool", "human", "ai", "bot"})
_SHORTEST_NAME: Final = 2
_SPACED: Final = rf"[^\W{UNSPACED}]"
"""A letter that would go on with a name: 「Kaiさん」 ends after Kai, Kaito does not."""
_POSSESSIVE: Final = r"(?:['’]s)?"
_HONORIFIC: Final = "(?:さん|くん|ちゃん|君|様|氏)?"


def asks(content: str) -> bool:
    """Say whether a message ends as a question: with a question mark, or with か."""
    return bool(_ENDS_ASKING.search(content[-_TAIL_CHARACTERS:]))


def findable_words(content: str, *, author: str, said_at: datetime) -> str:
    """Return the text by whose words a message is found: who said it, what, and on which day.

    So that a question may ask what somebody said in May 2023, or 2023年5月.
    """
    if is_unspaced(content):
        day = f"{said_at.year}年{said_at.month}月{said_at.day}日"
    else:
        day = f"{said_at.day} {_ENGLISH_MONTHS[said_at.month - 1]} {said_at.year}"
    return f"{author}: {content} {day}" if author else f"{content} {day}"


def named(text: str, authors: Iterable[str]) -> frozenset[str]:
    """Return those authors whom a text names, by the whole name or a part of it, in letters as they write it."""
    return frozenset(author for author in authors if any(form.search(text) for form in _forms(author)))


def without_names(text: str, authors: Iterable[str]) -> str:
    """Return a text without these authors' names; the text itself where nothing else would be left.

    A vector of "What does Kai like?" is nearest to what is said *to* Kai, and that is never said by Kai.
    """
    bare = text
    for author in authors:
        for form in _forms(author):
            bare = form.sub(" ", bare)
    return " ".join(bare.split()) if any(map(str.isalnum, bare)) else text


def _is_too_short(part: str, author: str) -> bool:
    """Say whether a name could be anything: one character, or an initial of a longer name."""
    letters = len(part) if part == author else sum(map(str.isalnum, part))
    return letters < _SHORTEST_NAME


def _forms(author: str) -> Iterator[re.Pattern[str]]:
    for part in dict.fromkeys((author, *author.split())):
        if _is_too_short(part, author) or part.casefold() in _ROLES:
            continue
        if is_unspaced(part):
            yield re.compile(re.escape(part) + _HONORIFIC)
        else:
            name = "|".join(dict.fromkeys(map(re.escape, (part, part[0].upper() + part[1:]))))
            yield re.compile(f"(?<!{_SPACED})(?:{name}){_POSSESSIVE}(?!{_SPACED}){_HONORIFIC}")
