"""Split a Markdown document into its sections, so that a long one can give way piece by piece."""

import re
from typing import Final

_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")


def sections_of(text: str) -> list[str]:
    """Return the sections of a text, each with its heading; joined they are the text.

    What stands before the first heading is a section of its own. A `#` inside a code fence is no heading.
    """
    sections: list[str] = []
    current: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        if not fence and _HEADING.match(line) and current:
            sections.append("".join(current))
            current = []
        fence = _fence_after(line, fence)
        current.append(line)
    return [*sections, "".join(current)] if current else sections


def _fence_after(line: str, fence: str) -> str:
    """Return the code fence that is open after this line, "" when none is."""
    mark = _FENCE.match(line)
    if mark is None:
        return fence
    if not fence:
        return mark[1]
    return "" if mark[1] == fence else fence
