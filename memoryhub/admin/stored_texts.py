"""Show texts in the reader's language that are stored in English: errors of jobs, reasons of imports.

A sentence with values is found by the source of its translation, in which they are named: "longer than {most} bytes."
"""

import re
from functools import lru_cache

from django.utils.translation import get_language, gettext
from django.utils.translation.trans_real import catalog

MIN_LITERAL_LENGTH = 12
"""Characters of a sentence beside its values; a shorter one would match texts that it is not of."""

FIELD = re.compile(r"\{(\w+)\}")


def translated(text: str) -> str:
    """Return a stored text in the reader's language; as it is, where there is no translation."""
    shown = gettext(text) if text else text
    if shown != text or not text or (get_language() or "en").startswith("en"):
        return shown
    for pattern, template in _patterns(get_language() or ""):
        if found := pattern.fullmatch(text):
            return gettext(template).format(**found.groupdict())
    return text


@lru_cache(maxsize=8)
def _patterns(language: str) -> list[tuple[re.Pattern[str], str]]:
    """Return the active language's sentences with values, those with the longest wording first."""
    entries = catalog()._catalog.items()  # type: ignore[attr-defined]
    sources = {source for source, text in entries if isinstance(source, str) and text and FIELD.search(source)}
    sentences = [source for source in sources if "\x04" not in source and len(_literal(source)) >= MIN_LITERAL_LENGTH]
    return [(_pattern(each), each) for each in sorted(sentences, key=lambda each: (-len(_literal(each)), each))]


def _literal(source: str) -> str:
    return FIELD.sub("", source).replace(" ", "")


def _pattern(source: str) -> re.Pattern[str]:
    pieces, seen = FIELD.split(source), set[str]()
    parts = [re.escape(pieces[0])]
    for name, literal in zip(pieces[1::2], pieces[2::2], strict=True):
        parts += [f"(?P={name})" if name in seen else f"(?P<{name}>.{{1,500}}?)", re.escape(literal)]
        seen.add(name)
    return re.compile("".join(parts), re.DOTALL)
