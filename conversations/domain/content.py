"""The contents of a context: sanitized text, content blocks, Markdown sections.

Remembered text is data that anybody may have written. It could imitate something else by the start of a line
(headings, list items, closing marks, `Human:`) and by invisible characters. Content blocks are neutral; `formats` turns
them into a provider's. Unknown kinds of blocks are treated as references, so that nothing that a client stored can
stop an assembly.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from conversations.domain.layers import Block, Content, Phrases
from conversations.domain.tools import THINKING, TOOL_RESULT, TOOL_USE, calls_in, traces

_UNSEEN: Final = (
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"  # controls, apart from tab and the line breaks
    "\u00ad\u180e\u200b\u2060-\u2064\ufeff"  # soft hyphen, zero-width spaces, invisible operators
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # direction marks, overrides, isolates
    "\ufff9-\ufffb"  # annotations
    "\U000e0000-\U000e007f"  # tags: a whole hidden alphabet
)
_INVISIBLE: Final = re.compile(f"[{_UNSEEN}]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_JOINER: Final = "\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""Joiners and variation selectors. Emoji, Persian and kanji need them, two in a row at most."""

_JOINERS: Final = re.compile(f"([{_JOINER}]{{2}})[{_JOINER}]+")
_SEEN: Final = re.compile(rf"[^\s{_UNSEEN}{_JOINER}]")


def visible(text: str) -> str:
    """Return text without controls and invisible characters; line breaks stay, lone surrogates become U+FFFD.

    A run of joiners is cut after the second: longer ones are hidden messages. Plain ASCII, the common
    case, is told apart first: it costs a hundredth of the three passes.
    """
    if text.isascii() and text.replace("\n", " ").isprintable():
        return text
    return _JOINERS.sub(r"\1", _SURROGATE.sub("\ufffd", _INVISIBLE.sub("", text)))


def is_blank(text: str) -> bool:
    return _SEEN.search(text) is None


def one_line(text: str) -> str:
    """Return text as one line: every run of line breaks of any kind is one space, the ends are stripped.

    `str.splitlines` knows them all: LF, CR, VT, FF, FS, GS, RS, NEL, U+2028, U+2029. (A regular
    expression for "spaces, break, spaces" takes quadratic time on hostile blanks.)
    """
    shown = visible(text)
    if shown.isprintable():  # no break of any kind
        return shown.strip()
    parts = (part.strip() for part in shown.replace("\t", " ").splitlines())
    return " ".join(part for part in parts if part)


def quoted(text: str) -> str:
    """Return text with its lines kept, each marked `> `; blank lines at both ends are dropped."""
    lines = [line.rstrip() for line in visible(text).splitlines()]
    filled = [number for number, line in enumerate(lines) if line]
    if not filled:
        return ""
    return "\n".join(f"> {line}".rstrip() for line in lines[filled[0] : filled[-1] + 1])


@lru_cache(maxsize=1_000)
def label(text: str, longest: int = 60) -> str:
    """Return a name for use inside brackets: one line, none of its own, at most `longest` characters."""
    return one_line(text).translate({ord("["): "(", ord("]"): ")"})[:longest].rstrip()


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
        mark = _FENCE.match(line)
        if mark is not None:
            fence = mark[1] if not fence else "" if mark[1] == fence else fence
        current.append(line)
    return [*sections, "".join(current)] if current else sections


TEXT: Final = "text"
REDUCED: Final = "given_way"
"""Marks a reference that gave way: only its kind is still told."""


def text_block(text: str) -> Block:
    return {"type": TEXT, "text": text}


def is_text(block: Block) -> bool:
    return block.get("type") == TEXT


def text_of(block: Block) -> str:
    """Return a text block's text; a malformed one has none."""
    text = block.get("text")
    return text if isinstance(text, str) else ""


def is_reference(block: Block) -> bool:
    """Return whether a block is an image or a file, or of a kind that nobody knows."""
    return block.get("type") not in (TEXT, TOOL_USE, TOOL_RESULT, *THINKING)


def references_in(blocks: Iterable[Block] | None) -> tuple[Block, ...]:
    return tuple(filter(is_reference, blocks or ()))


def blocks_of(content: Content) -> tuple[Block, ...]:
    """Return the blocks that say something: no blank text; thinking and results only beside calls."""
    if isinstance(content, str):
        return (text_block(content),) if content.strip() else ()
    calls = calls_in(content)
    hidden = () if calls else (*THINKING, TOOL_RESULT)
    return tuple(
        block
        for block in content
        if (text_of(block).strip() if is_text(block) else block.get("type") not in hidden)
        and (block.get("type") != TOOL_USE or block in calls)
    )


def reference_in_words(block: Block, phrases: Phrases) -> str:
    """Return the words for a reference that is not shown: `[image: name]`, or `[image]` once it gave way."""
    kind = label(str(block.get("type") or "file"))
    shown = phrases.attachments.get(kind, kind)
    name = label(str(block.get("name") or ""))
    return f"[{shown}: {name}]" if name and not block.get(REDUCED) else f"[{shown}]"


def plain_text(content: Content, phrases: Phrases) -> str:
    """Return content in words: references by their names, a line for each call of a tool."""
    if isinstance(content, str):
        return content
    words = [
        text_of(block) if is_text(block) else reference_in_words(block, phrases)
        for block in blocks_of(content)
        if is_text(block) or is_reference(block)
    ]
    return "\n".join([*words, *(f"({line})" for line in traces(content, phrases.language))])


def excerpt(content: Content, phrases: Phrases, longest: int = 200) -> str:
    return one_line(plain_text(content, phrases)[: longest * 8])[:longest]


def attachment_reductions(content: Content) -> list[Content]:
    """Return content with one more reference reduced to its kind each time, the first reference first."""
    if isinstance(content, str):
        return []
    stages: list[Content] = []
    blocks = list(content)
    for place, block in enumerate(blocks):
        if is_reference(block):
            blocks[place] = {"type": block.get("type"), REDUCED: True}
            stages.append(tuple(blocks))
    return stages
