"""The contents of a context: sanitized text, Markdown sections, content blocks, and the use of tools. Pure.

Remembered text is data that any client may have written. It could imitate something else by the start of a line
(headings, list items, closing marks, `Human:`) and by invisible characters. Content blocks are neutral; `formats` turns
them into a provider's. Unknown kinds of blocks are treated as references, so that nothing that a client stored can
stop an assembly.

A call of a tool is a block `{"type": "tool_use", "id", "name", "input"}`, its result `{"type": "tool_result",
"tool_use_id", "content", "is_error"?}`, with a text or text and image blocks as content.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from memoryhub.look_alikes import without_hidden

Language = Literal["en", "ja"]

Block = Mapping[str, Any]
"""A neutral piece of a message: `{"type": "text", "text"}`; a reference, `{"type": "image" | "file",
"name"?, "media_type"?, "url"? | "data"? (base64)}`; a call of a tool or its result; or Anthropic's `thinking` and
`redacted_thinking`."""

Content = str | tuple[Block, ...]

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """Return text without controls and what renders as nothing; line breaks stay, lone surrogates become U+FFFD."""
    shown = without_hidden(text)
    return shown if shown.isascii() else _SURROGATE.sub("\ufffd", shown)


def one_line(text: str) -> str:
    """Return text as one line: every run of line breaks of any kind is one space, the ends are stripped.

    `str.splitlines` knows them all: LF, CR, VT, FF, FS, GS, RS, NEL, U+2028, U+2029. (A regular
    expression for "spaces, break, spaces" takes quadratic time on hostile blanks.)
    """
    if text.isascii() and text.isprintable():
        return text.strip()
    shown = visible(text)
    if shown.isprintable():  # without any break
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


MAX_LABEL_LENGTH: Final = 60
MAX_EXCERPT_LENGTH: Final = 200


@lru_cache(maxsize=1_000)
def label(text: str) -> str:
    """Return a name for use inside brackets: one line, without brackets, at most MAX_LABEL_LENGTH characters."""
    return one_line(text).translate({ord("["): "(", ord("]"): ")"})[:MAX_LABEL_LENGTH].rstrip()


_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")


def sections_of(text: str) -> list[str]:
    """Return the sections of a text, each with its heading; joined they are the text.

    Text before the first heading is a separate section. A `#` inside a code fence is no heading.
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
TOOL_USE: Final = "tool_use"
TOOL_RESULT: Final = "tool_result"
THINKING: Final = frozenset({"thinking", "redacted_thinking"})

REDUCED_KEY: Final = "given_way"
"""Marks a reference that is reduced to its kind."""


def text_block(text: str) -> Block:
    return {"type": TEXT, "text": text}


def is_text(block: Block) -> bool:
    return block.get("type") == TEXT


def text_of(block: Block) -> str:
    """Return a text block's text; a malformed one has none."""
    text = block.get("text")
    return text if isinstance(text, str) else ""


def is_reference(block: Block) -> bool:
    """Return whether a block is an image or a file, or of an unknown kind."""
    return block.get("type") not in (TEXT, TOOL_USE, TOOL_RESULT, *THINKING)


def references_in(blocks: Iterable[Block] | None) -> tuple[Block, ...]:
    return tuple(filter(is_reference, blocks or ()))


def parts_in(blocks: Iterable[Block] | None) -> tuple[Block, ...]:
    """Return the texts, images and files of a message in their order."""
    return tuple(block for block in blocks or () if is_text(block) or is_reference(block))


def is_call(block: Block) -> bool:
    """Return whether a block is a whole call; what was imported may be anything."""
    is_named = isinstance(block.get("id"), str) and isinstance(block.get("name"), str)
    return block.get("type") == TOOL_USE and is_named and isinstance(block.get("input"), dict)


def calls_in(blocks: Iterable[Block] | None) -> list[Block]:
    return [block for block in blocks or () if is_call(block)]


def results_in(blocks: Iterable[Block] | None) -> list[Block]:
    return [block for block in blocks or () if block.get("type") == TOOL_RESULT]


def has_tools(content: Content) -> bool:
    return not isinstance(content, str) and bool(calls_in(content))


def text_of_result(result: Block) -> str:
    """Return the text of a result; its images have none."""
    content = result.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    return "\n".join(str(part.get("text") or "") for part in parts if part.get("type") == "text")


def blocks_of(content: Content) -> tuple[Block, ...]:
    """Return the blocks with content: no blank text; thinking and results only with calls."""
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


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it is stored; its blocks are () for plain text."""

    session: str
    role: str
    blocks: tuple[Block, ...] = ()


def pair_calls(messages: Sequence[StoredMessage]) -> list[tuple[int, tuple[Block, ...]]]:
    """Return (place, blocks) of each message, with every call and its results in one; () for plain text.

    Results without a call, and second results of a call, are dropped. Other blocks next to results stay a message of
    their own.
    """
    paired: list[tuple[int, tuple[Block, ...]]] = []
    waiting: dict[tuple[str, str], int] = {}
    for place, message in enumerate(messages):
        for result in results_in(message.blocks):
            at = waiting.pop((message.session, str(result.get("tool_use_id"))), None)
            if at is not None:
                paired[at] = (paired[at][0], (*paired[at][1], result))
        rest = tuple(_unique_calls(block for block in message.blocks if block.get("type") != TOOL_RESULT))
        if message.role == "tool" or (message.blocks and not rest):
            continue
        waiting |= {(message.session, str(call["id"])): len(paired) for call in calls_in(rest)}
        paired.append((place, rest))
    return paired


def _unique_calls(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks without second calls of the same id, whose results would be ambiguous."""
    seen: set[Any] = set()
    for block in blocks:
        if block.get("type") == TOOL_USE:
            if block.get("id") in seen:
                continue
            seen.add(block.get("id"))
        yield block


def blocks_and_results(
    content: Content, language: Language, *, with_calls: bool
) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
    """Return the blocks other than results, and one result for each call, in order.

    Without `with_calls`, each call is a line of text.
    """
    blocks = blocks_of(content)
    if not has_tools(blocks):
        return blocks, ()
    if not with_calls:
        return (text_block(plain_text(content, language)),), ()
    by_id = {each.get("tool_use_id"): each for each in results_in(blocks)}
    spoken = tuple(block for block in blocks if block.get("type") != TOOL_RESULT)
    lost = {"type": TOOL_RESULT, "content": _NO_RESULT[language], "is_error": True}
    return spoken, tuple(by_id.get(call["id"]) or {**lost, "tool_use_id": call["id"]} for call in calls_in(spoken))


def attachment_reductions(content: Content) -> list[Content]:
    """Return content with one more reference reduced to its kind each time, the first reference first."""
    if isinstance(content, str):
        return []
    stages: list[Content] = []
    blocks = list(content)
    for place, block in enumerate(blocks):
        if is_reference(block):
            blocks[place] = {"type": block.get("type"), REDUCED_KEY: True}
            stages.append(tuple(blocks))
    return stages


MAX_RESULT_BYTES: Final = 1_000
"""Bytes of a shortened result, half of them from its end, as logs and tables are most informative at both ends."""


def shortened_results(content: Content) -> Content:
    """Return content with long results cut to MAX_RESULT_BYTES bytes; images in them are left out."""
    if isinstance(content, str) or not results_in(content):
        return content
    return tuple(_shortened(block) if block.get("type") == TOOL_RESULT else block for block in content)


def _shortened(result: Block) -> Block:
    text = text_of_result(result)
    encoded, half = text.encode(), MAX_RESULT_BYTES // 2
    if len(encoded) > MAX_RESULT_BYTES:
        start, end = encoded[:half].decode(errors="ignore"), encoded[-half:].decode(errors="ignore")
        text = f"{start} […] {end}"
    return result if text == result.get("content") else {**result, "content": text}


_ATTACHMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"image": "image", "file": "file"},
    "ja": {"image": "画像", "file": "ファイル"},
}
_NO_RESULT: Final = {"en": "(no result)", "ja": "(結果なし)"}
_TRACES: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "call": "called {name}(…)",
        "count": "called {name}(…) → {count} results",
        "one": "called {name}(…) → 1 result",
        "done": "called {name}(…) → a result",
        "error": "called {name}(…) → an error",
    },
    "ja": {
        "call": "{name}(…) を実行",
        "count": "{name}(…) を実行 → {count}件",
        "one": "{name}(…) を実行 → 1件",
        "done": "{name}(…) を実行 → 結果あり",
        "error": "{name}(…) を実行 → エラー",
    },
}


def reference_label(block: Block, language: Language) -> str:
    """Return the text in place of a reference: `[image: name]`, or `[image]` if it was reduced."""
    kind = label(str(block.get("type") or "file"))
    shown = _ATTACHMENTS[language].get(kind, kind)
    name = label(str(block.get("name") or ""))
    return f"[{shown}: {name}]" if name and not block.get(REDUCED_KEY) else f"[{shown}]"


def plain_text(content: Content, language: Language) -> str:
    """Return content in words: references by their names, a line for each call of a tool."""
    if isinstance(content, str):
        return content
    words = [
        text_of(block) if is_text(block) else reference_label(block, language)
        for block in blocks_of(content)
        if is_text(block) or is_reference(block)
    ]
    return "\n".join([*words, *(f"({line})" for line in traces(content, language))])


def excerpt(content: Content, language: Language) -> str:
    """Return the beginning of content on one line, at most MAX_EXCERPT_LENGTH characters, with "…" where it is cut."""
    beginning = one_line(plain_text(content, language)[: 8 * MAX_EXCERPT_LENGTH])
    return beginning if len(beginning) <= MAX_EXCERPT_LENGTH else f"{beginning[: MAX_EXCERPT_LENGTH - 1].rstrip()}…"


def trace(call: Block, result: Block | None, language: str) -> str:
    """Return the line in place of a call: its name and the number of results, without their content."""
    words = _TRACES.get(language, _TRACES["en"])
    kind, count = "call", None
    if result is not None:
        count = _count_of(text_of_result(result))
        kind = "error" if result.get("is_error") else {None: "done", 1: "one"}.get(count, "count")
    return words[kind].format(name=call.get("name"), count=count)


def _count_of(text: str) -> int | None:
    """Return how many results a JSON list has, or the only list of a JSON object; None for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(data, dict):
        lists = [value for value in data.values() if isinstance(value, list)]
        data = lists[0] if len(lists) == 1 else None
    return len(data) if isinstance(data, list) else None


def traces(blocks: Sequence[Block], language: str, results: Mapping[str, Block] | None = None) -> list[str]:
    """Return a line for each call; `results` are by the id of their call, else those among the blocks."""
    by_id = _by_call(blocks) if results is None else results
    return [trace(call, by_id.get(str(call.get("id"))), language) for call in calls_in(blocks)]


def _by_call(blocks: Iterable[Block]) -> dict[str, Block]:
    return {str(each.get("tool_use_id")): each for each in results_in(blocks)}


def texts_with_traces(messages: Sequence[tuple[str, Sequence[Block] | None]], language: str) -> list[str]:
    """Return the texts of messages in their order, each with a line in parentheses for every call that it makes."""
    results = _by_call(block for _, blocks in messages for block in blocks or ())
    return [
        "\n".join(part for part in (text, *(f"({line})" for line in traces(blocks or (), language, results))) if part)
        for text, blocks in messages
    ]
