"""Read a written context back, strictly: anything that the grammar does not foresee is an AssertionError.

The reader shares no code with the writer. It is what the tests of X5 and X6 compare with what went in.
"""

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any

LAYER_OF_HEADING = {
    "## Pinned memories": "pinned",
    "## The user's wishes": "wishes",
    "## ユーザーの希望": "wishes",
    "## About the user": "profile",
    "## ユーザーについて": "profile",
    "## Related memories": "semantic",
    "## Earlier messages": "recall",
    "## Project memory": "project",
    "## Session summary": "session_summary",
    "## 固定された記憶": "pinned",
    "## 関連する過去の記憶": "semantic",
    "## 過去の発言": "recall",
    "## プロジェクトの記憶": "project",
    "## セッション要約": "session_summary",
}
BLOCK_ORDER = ["pinned", "wishes", "profile", "semantic", "recall", "project", "session_summary"]
ENTRY = re.compile(r"(\d+)\. (\S.*)")
SAID = re.compile(r"\[([^\[\]]+)\] (\S.*)")
SCORE = re.compile(r"(.*) \((?:relevance|関連度): (-?\d+\.\d\d)\)")
BREAKS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass
class ReadContext:
    """What a reader finds: the block's entries by layer, the turns of the history, the user's text."""

    system: str
    entries: dict[str, list[str]] = field(default_factory=dict)
    titles: list[str] = field(default_factory=list)
    turns: list[tuple[str, list[Any]]] = field(default_factory=list)
    message: str = ""
    has_block: bool = False


def read_context(system: Any, messages: list[dict[str, Any]], nonce: str) -> ReadContext:
    """Return the parts of a context in either format; the nonce may stand nowhere but in two delimiters of each block.

    There is one block, or a standing one before the other.
    """
    messages = list(messages)
    if system is None:
        first = messages.pop(0)
        assert first["role"] == "system"
        system = first["content"]
    if isinstance(system, list):
        (block,) = system
        system = block["text"]
    assert nonce not in system
    context = ReadContext(system)
    for message in messages:
        blocks = message["content"]
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else list(blocks)
        _read_message(context, message["role"], blocks, nonce)
    role, blocks = context.turns[-1]
    assert role == "user"
    context.message = blocks.pop()["text"]
    if not blocks:
        context.turns.pop()
    return context


def _read_message(context: ReadContext, role: str, blocks: list[Any], nonce: str) -> None:
    plain = []
    for block in blocks:
        if nonce in str(block).casefold():
            assert role == "user", "the block is on the user's side"
            _read_block(context, block["text"], nonce)
            context.has_block = True
        else:
            plain.append(block)
    context.turns.append((role, plain))


def _read_block(context: ReadContext, text: str, nonce: str) -> None:
    first, *lines, last = text.split("\n")
    assert text.casefold().count(nonce) == 2
    assert first == f"<remembered-{nonce}>"
    assert last == f"</remembered-{nonce}>"
    assert not any(BREAKS.search(line) for line in lines), "no other line break inside a line"
    layer, layers = "", list[str]()
    standing = dict(context.entries)
    for line in lines:
        if line in LAYER_OF_HEADING:
            layer = LAYER_OF_HEADING[line]
            assert layer not in layers, "a heading stands once"
            layers.append(layer)
            context.entries[layer] = []
        else:
            _read_line(context, layer, line)
    assert layers == [name for name in BLOCK_ORDER if name in layers]
    assert all(context.entries.values()), "no heading without an entry"
    if standing or context.has_block:  # the second of two blocks: wishes may be in both
        assert standing.keys() <= {"pinned", "wishes", "profile"} and standing.keys() & set(layers) <= {"wishes"}
        assert not {"pinned", "profile"} & set(layers)
        context.entries = {
            **context.entries,
            **standing,
            "wishes": standing.get("wishes", []) + context.entries.get("wishes", []),
        }
        context.entries = {name: context.entries[name] for name in BLOCK_ORDER if context.entries.get(name)}


def _read_line(context: ReadContext, layer: str, line: str) -> None:
    if line == "":
        return
    assert layer, "every line belongs to a heading"
    entries = context.entries[layer]
    if layer in ("project", "session_summary"):
        _read_quote(context, layer, line)
        return
    match = ENTRY.fullmatch(line)
    assert match, f"not an entry: {line!r}"
    assert int(match[1]) == len(entries) + 1
    entries.append(match[2])


def _read_quote(context: ReadContext, layer: str, line: str) -> None:
    if layer == "project" and line.startswith("### "):
        context.titles.append(line[4:])
        context.entries[layer].append("")
        return
    assert line == ">" or line.startswith("> "), f"not quoted: {line!r}"
    entries = context.entries[layer]
    if not entries:
        entries.append("")
    entries[-1] += line[2:] + "\n"


def split_score(entry: str) -> tuple[str, str | None]:
    """Return an entry without its relevance, and the relevance as written."""
    match = SCORE.fullmatch(entry)
    return (match[1], match[2]) if match else (entry, None)


def split_said(entry: str) -> tuple[str, str]:
    """Return who said a recalled message, and the message."""
    match = SAID.fullmatch(entry)
    assert match, f"nobody said {entry!r}"
    return match[1], match[2]


def essence(text: str) -> str:
    """Return the characters of a text that anybody sees."""
    return "".join(character for character in text if _is_seen(character))


def _is_seen(character: str) -> bool:
    if (
        "\ufe00" <= character <= "\ufe0f"
        or "\ufff0" <= character <= "\ufffd"
        or "\U000e0000" <= character <= "\U000e0fff"
    ):
        return False
    if character in "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2065\u2800\u3164\uffa0\U0001d159":
        return False
    return unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"}
