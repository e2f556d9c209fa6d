"""Show texts in the reader's language that are stored in English: errors of jobs, reasons of imports.

A sentence with values is found by the source of its translation, in which they are named: "longer than {most} bytes."
"""

import re
from functools import lru_cache

from django.utils.translation import get_language, gettext
from django.utils.translation.trans_real import catalog

MIN_LITERAL_LENGTH = 12
"""Characters of a sentence without its values; a shorter one would match texts that it is not of."""

FIELD = re.compile(r"\{(\w+)\}")


def translated(text: str) -> str:
    """Return a stored text in the reader's language; as it is, where there is no translation."""
    shown = gettext(text) if text else text
    if shown != text or not text or (get_language() or "en").startswith("en"):
        return shown
    for sentence in _sentences(get_language() or ""):
        if (values := _values(sentence, text)) is not None:
            return gettext(sentence).format(**values)
    return text


@lru_cache(maxsize=8)
def _sentences(language: str) -> list[str]:
    """Return the active language's sentences with values, those with the longest wording first."""
    entries = catalog()._catalog.items()  # type: ignore[attr-defined]
    sources = {source for source, text in entries if isinstance(source, str) and text and FIELD.search(source)}
    usable = [each for each in sources if "\x04" not in each and len(_literal(each)) >= MIN_LITERAL_LENGTH]
    return sorted(usable, key=lambda each: (-len(_literal(each)), each))


def _literal(sentence: str) -> str:
    return FIELD.sub("", sentence).replace(" ", "")


def _values(sentence: str, text: str) -> dict[str, str] | None:
    """Return the values in a text that was made of a sentence, each up to the next words; None for another text."""
    first, *rest = FIELD.split(sentence)
    if not text.startswith(first):
        return None
    values: dict[str, str] = {}
    at, places = len(first), list(zip(rest[::2], rest[1::2], strict=True))
    for number, (name, literal) in enumerate(places, 1):
        is_last = number == len(places)
        end = len(text) - len(literal) if is_last else text.find(literal, at + 1)
        if end <= at or not text.startswith(literal, end) or values.setdefault(name, text[at:end]) != text[at:end]:
            return None
        at = end + len(literal)
    return values
