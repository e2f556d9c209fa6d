"""Tool use in messages: calls paired with their results, results shortened, and the line that stands for an exchange.

A call is a block `{"type": "tool_use", "id", "name", "input"}`, its result `{"type": "tool_result", "tool_use_id",
"content", "is_error"?}`, with a text or text and image blocks as content. Pure.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from conversations.domain.layers import Block, Content

TOOL_USE: Final = "tool_use"
TOOL_RESULT: Final = "tool_result"
THINKING: Final = frozenset({"thinking", "redacted_thinking"})

LONGEST_RESULT: Final = 1_000
"""Bytes that a shortened result keeps, half of them from its end: logs and tables say most at both ends."""

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


def trace(call: Block, result: Block | None, language: str) -> str:
    """Return the line that stands for a call: its name and how many results it had, nothing of what they say."""
    words = _TRACES.get(language, _TRACES["en"])
    kind, count = "call", None
    if result is not None:
        count = _count_of(text_of_result(result))
        kind = (
            "error"
            if result.get("is_error")
            else "done"
            if count is None
            else "one"
            if count == 1
            else "count"
        )
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
    by_id = (
        results
        if results is not None
        else {str(each.get("tool_use_id")): each for each in results_in(blocks)}
    )
    return [trace(call, by_id.get(str(call.get("id"))), language) for call in calls_in(blocks)]


def texts_with_traces(messages: Sequence[tuple[str, Sequence[Block] | None]], language: str) -> list[str]:
    """Return the texts of messages in their order, each with a line in parentheses for every call that it makes."""
    results = {str(each.get("tool_use_id")): each for _, blocks in messages for each in results_in(blocks)}
    return [
        "\n".join(
            part
            for part in (text, *(f"({line})" for line in traces(blocks or (), language, results)))
            if part
        )
        for text, blocks in messages
    ]


@dataclass(frozen=True, slots=True)
class Said:
    """A message as it is stored: `number` in its session, and its blocks, () for plain text."""

    session: str
    role: str
    blocks: tuple[Block, ...] = ()


def paired(messages: Sequence[Said]) -> list[tuple[int, tuple[Block, ...]]]:
    """Return (place, blocks) of what is said, each call together with its results; () for plain text.

    So nothing can part them. A result whose call is not here is left out, as is a second result of a call. What stands
    beside the results in a user's message is said by itself.
    """
    said: list[tuple[int, tuple[Block, ...]]] = []
    waiting: dict[tuple[str, str], int] = {}
    for place, message in enumerate(messages):
        for result in results_in(message.blocks):
            at = waiting.pop((message.session, str(result.get("tool_use_id"))), None)
            if at is not None:
                said[at] = (said[at][0], (*said[at][1], result))
        rest = tuple(_once(block for block in message.blocks if block.get("type") != TOOL_RESULT))
        if message.role == "tool" or (message.blocks and not rest):
            continue
        waiting |= {(message.session, str(call["id"])): len(said) for call in calls_in(rest)}
        said.append((place, rest))
    return said


def _once(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks without a second call of the same id, whose result nobody could tell from the first's."""
    seen: set[Any] = set()
    for block in blocks:
        if block.get("type") == TOOL_USE:
            if block.get("id") in seen:
                continue
            seen.add(block.get("id"))
        yield block


def with_all_results(blocks: Sequence[Block], missing: str) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
    """Return what is said with its calls, and the results in the order of the calls; `missing` for those without."""
    by_id = {each.get("tool_use_id"): each for each in results_in(blocks)}
    spoken = tuple(block for block in blocks if block.get("type") != TOOL_RESULT)
    lost = {"type": TOOL_RESULT, "content": missing, "is_error": True}
    return spoken, tuple(
        by_id.get(call["id"]) or {**lost, "tool_use_id": call["id"]} for call in calls_in(spoken)
    )


def shortened_results(content: Content) -> Content:
    """Return content whose long results keep LONGEST_RESULT bytes; images in them are left out."""
    if isinstance(content, str) or not results_in(content):
        return content
    return tuple(_shortened(block) if block.get("type") == TOOL_RESULT else block for block in content)


def _shortened(result: Block) -> Block:
    text = text_of_result(result)
    encoded, half = text.encode(), LONGEST_RESULT // 2
    if len(encoded) > LONGEST_RESULT:
        start, end = encoded[:half].decode(errors="ignore"), encoded[-half:].decode(errors="ignore")
        text = f"{start} […] {end}"
    return result if text == result.get("content") else {**result, "content": text}
