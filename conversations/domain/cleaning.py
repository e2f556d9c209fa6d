"""Make remembered text harmless on the line it is given: it keeps its words and loses its layout tricks.

Remembered text is data that anybody may have written. What it could use to look like something else is
the start of a line (headings, list items, closing marks, `Human:`) and characters nobody sees.
"""

import re
from typing import Final

_INVISIBLE: Final = re.compile(
    "["
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"  # controls, apart from tab and the line breaks
    "\u00ad\u180e\u200b\u2060-\u2064\ufeff"  # soft hyphen, zero-width spaces, invisible operators
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # direction marks, overrides, isolates
    "\ufff9-\ufffb"  # annotations
    "\U000e0000-\U000e007f"  # tags: a whole hidden alphabet
    "]"
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_JOINER: Final = "[\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]"
"""Joiners and variation selectors. Emoji, Persian and kanji need them, two in a row at most."""

_JOINERS: Final = re.compile(f"({_JOINER}{{2}}){_JOINER}+")
_UNSEEN: Final = re.compile(rf"(?:{_JOINER}|\s)+")


def visible(text: str) -> str:
    """Return text without controls and invisible characters; line breaks stay, lone surrogates become U+FFFD.

    A run of joiners is cut after the second: longer ones are hidden messages. Plain ASCII, the common
    case, is told apart first: it costs a hundredth of the three passes.
    """
    if text.isascii() and text.replace("\n", " ").isprintable():
        return text
    return _JOINERS.sub(r"\1", _SURROGATE.sub("\ufffd", _INVISIBLE.sub("", text)))


def is_blank(text: str) -> bool:
    """Tell whether nothing of text would be seen."""
    return not _UNSEEN.sub("", visible(text))


def one_line(text: str) -> str:
    """Return text as one line: every run of line breaks of any kind is one space, the ends are stripped.

    `str.splitlines` knows them all: LF, CR, VT, FF, FS, GS, RS, NEL, U+2028, U+2029. (A regular
    expression for "spaces, break, spaces" takes quadratic time on hostile blanks.)
    """
    parts = (part.strip() for part in visible(text).replace("\t", " ").splitlines())
    return " ".join(part for part in parts if part)


def quoted(text: str) -> str:
    """Return text with its lines kept, each marked `> `; blank lines at both ends are dropped."""
    lines = [line.rstrip() for line in visible(text).splitlines()]
    filled = [number for number, line in enumerate(lines) if line]
    if not filled:
        return ""
    return "\n".join(f"> {line}".rstrip() for line in lines[filled[0] : filled[-1] + 1])


def label(text: str, longest: int = 60) -> str:
    """Return a name for use inside brackets: one line, none of its own, at most `longest` characters."""
    return one_line(text).translate({ord("["): "(", ord("]"): ")"})[:longest].rstrip()
