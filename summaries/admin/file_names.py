"""What files are called that people are handed: names are of Latin letters, topics may be in any script."""

import unicodedata

from memoryhub.admin.titles import shortened
from summaries.domain.projects import is_stand_in

UNUSABLE = frozenset('/\\:*?"<>|')
"""What some system has no room for in a file's name."""


def file_name(name: str, topic: str) -> str:
    """Return a file's name; one that is a digest, for words in another script, with these words behind it."""
    stem, dot, ending = name.rpartition(".")
    words = shortened("".join(" " if _is_unusable(each) else each for each in topic))
    return f"{stem} {words}{dot}{ending}" if words and is_stand_in(stem) else name


def topic_of(text: str) -> str:
    """Return a text's first heading, "" where it has none."""
    headings = (line.lstrip("#").strip() for line in text.splitlines() if line.startswith("#"))
    return next(headings, "")


def _is_unusable(character: str) -> bool:
    return character in UNUSABLE or unicodedata.category(character).startswith("C")
