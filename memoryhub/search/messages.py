"""Terms of a message as people write them: without pasted code, courtesies and what a request always says. Pure.

Stored texts keep all of that: whoever remembers a stack trace finds it by its words.
"""

import re
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Final

from memoryhub.search.analysis import analyse

_COURTESIES: Final = """
actual anyway ask bit bye cheer cool dear even fine forget good great guess hello help hey hi hope know let lot love
morn night nice ok okay pleas question quick realli remember remind sorri suppos sure tell thank thanks thing think
thx today way welcom well
"""
COURTESIES: Final = frozenset(_COURTESIES.split())
"""Stems that say that somebody asks, not for what."""

_JAPANESE_COURTESIES: Final = re.compile(
    "おはよう(?:ございます)?|こんにち[はわ]|こんばん[はわ]|ありがとう(?:ござい(?:ます|ました))?"
    "|よろしく(?:お願い(?:します|いたします)?)?|お願い(?:します|いたします)?|お疲れ(?:様|さま)(?:です|でした)?"
    "|すみません|ごめん(?:なさい|ね)?|教えて(?:ください|くれる|ほしい)?|覚えて(?:る|ます)?"
    r"|で?した?っけ|だった?っけ|でしょうか|ください|思い?(?:ます|って)|けれど|かな(?=[、。！？!?\s]|$)|ちょっと|今日は|元気"
)

_FENCED: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CODE_START: Final = re.compile(
    r"\s*(?:at |File \"|Traceback|def |class |import |from \S+ import|return\b|const |let |var |function |#include"
    r"|SELECT |INSERT |UPDATE |FROM |WHERE |</?\w|[{}\[\]]|\d{4}-\d\d-\d\d[T ]\d\d:|\$ |//|INFO|ERROR|WARN"
    r"|DEBUG|\w*(?:Error|Exception)\b|/\*|\+\+\+|---|@@|\"\w+\"\s*:)"
)
_SYMBOL: Final = re.compile(r"[{}()\[\]<>=;|/\\_$#@*&^%~`\"+:\d]")
SYMBOL_SHARE: Final = 0.18
"""Prose has 2 to 5 % of brackets, operators and digits, code and logs 15 to 40 %."""
CSV_COMMAS: Final = 3

EARLIER_TURNS: Final = 4
USER_SHARE: Final = 1.0
ASSISTANT_SHARE: Final = 0.5
FADING: Final = 0.7
"""What a turn's terms keep where the message itself says nothing: by role, and less with each exchange before."""

MAX_CHARACTERS: Final = 20_000
"""Of a longer message the beginning and the end count, where people say what they want."""


def message_terms(text: str) -> Collection[str]:
    """Return the terms of a message that say what it is about; all of them where nothing would be left."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[: MAX_CHARACTERS // 2]}\n{text[-MAX_CHARACTERS // 2 :]}"
    terms = analyse(_JAPANESE_COURTESIES.sub(" ", without_code(text))).keys() - COURTESIES
    return terms or analyse(text).keys()


def earlier_terms(turns: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Return the terms of the turns before a message, newest first as (role, text), with the share each keeps."""
    terms: dict[str, float] = {}
    for place, (role, text) in zip(range(EARLIER_TURNS), turns, strict=False):
        share = (USER_SHARE if role == "user" else ASSISTANT_SHARE) * FADING ** (place // 2)
        for term in message_terms(text):
            terms[term] = max(share, terms.get(term, 0.0))
    return terms


def without_code(text: str) -> str:
    """Return a message without fenced blocks and runs of lines that look like code, logs or tables."""
    lines = _FENCED.sub("\n", text).split("\n")
    code = [False, *map(_looks_like_code, lines), False]
    runs = [one and other for one, other in pairwise(code)]
    kept = [
        line for line, before, after in zip(lines, runs[:-1], runs[1:], strict=True) if not (before or after)
    ]
    prose = "\n".join(kept)
    return prose if prose.strip() else text


def _looks_like_code(line: str) -> bool:
    bare = line.strip()
    if not bare:
        return False
    indented = line.startswith(("    ", "\t"))
    table = bare.count(",") >= CSV_COMMAS and " " not in bare.replace(", ", ",")
    symbols = len(_SYMBOL.findall(bare)) / len(bare)
    return bool(indented or table or symbols > SYMBOL_SHARE or _CODE_START.match(line))
