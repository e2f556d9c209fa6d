"""A language model of a few rules: what it answers follows from what it was given, so that a test can tell what was.

It likes and buys what the user says they do ("I like …", "I bought …", 「…が好き」), sums up the lines that tell a
result or a plan, and answers a question with the sentence of its context that shares most with it.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from tests.fakes.llm_server import Asked, Reply, plain

LINE: Final = re.compile(r"^\[(\d+)\] \S+ \w{3} user(?: \([^)]*\))?: (.*)$", re.MULTILINE)
TOLD: Final = re.compile(r"^\[[\w: -]+\] \w+(?: \([^)]*\))?: (.*)$", re.MULTILINE)
MESSAGES: Final = re.compile(r"^<(?:messages|メッセージ) (\w+)>$(.*?)^</", re.MULTILINE | re.DOTALL)
PREVIOUS: Final = re.compile(r"^<previous-summary (\w+)>$(.*?)^</", re.MULTILINE | re.DOTALL)
RESULTS: Final = re.compile(r"decided|finished|done|next|bought|完成|決め|次|設定|実装", re.IGNORECASE)
FACTS: Final = (
    (re.compile(r"\bI bought (.+?)[.!]"), "The user bought {}."),
    (re.compile(r"\b[Mm]y (\w+) is (?:called )?(\w+)"), "The user's {} is {}."),
    (re.compile(r"^(.+を買いました)"), "ユーザーは{}。"),
)
LIKINGS: Final = (
    (re.compile(r"\bI like (.+?)[.!]"), "The user likes {}."),
    (re.compile(r"^(.+が好き)"), "ユーザーは{}です。"),
)
LONGEST_SUMMARY: Final = 900
SUMMARY_PROMPTS: Final = ("You write the summary", "要約してください")


def by_rules(asked: Asked) -> Reply:
    """Answer a question of the hub: a summary, an extraction, a judgement, or a chat."""
    if asked.schema is not None:
        return _extraction(asked) if "facts" in asked.schema["properties"] else plain(asked)
    if any(words in asked.system for words in SUMMARY_PROMPTS):
        return Reply(_summary(asked.text))
    return Reply(_answer(asked))


def _extraction(asked: Asked) -> Reply:
    assert asked.schema is not None
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in asked.schema["properties"]}
    for _, block in MESSAGES.findall(asked.text):
        for number, words in LINE.findall(block):
            for name, rules in (("facts", FACTS), ("preferences", LIKINGS)):
                if name in found:
                    found[name] += _items(words, int(number), rules)
    return Reply(data=found)


def _items(words: str, number: int, rules: Sequence[tuple[re.Pattern[str], str]]) -> list[dict[str, Any]]:
    matches = [(pattern.search(words), text) for pattern, text in rules]
    return [
        {"text": text.format(*match.groups()), "sources": [number], "confidence": 0.9, "speech": "own_statement"}
        for match, text in matches
        if match
    ]


def _summary(text: str) -> str:
    """Return the former summary, and of the conversation what tells a result; its first line where none does."""
    former = [block.strip() for _, block in PREVIOUS.findall(text)]
    said = TOLD.findall(text)
    telling = [line for line in said if RESULTS.search(line)] or said[:1]
    return " ".join([*former, *telling])[-LONGEST_SUMMARY:].strip() or "Nothing was said."


def _answer(asked: Asked) -> str:
    *before, question = [_text(message["content"]) for message in asked.messages]
    given, _, last = question.rpartition("\n")
    sentences = [each.strip() for each in re.split(r"[\n。]|(?<=[.!?]) ", "\n".join([asked.system, *before, given]))]
    sentences = [each for each in sentences if not each.endswith(("?", "？"))]
    wanted = _words(last or question)
    best = max(sentences, key=lambda each: len(wanted & _words(each)), default="")
    return f"I remember: {best}" if wanted & _words(best) else "I do not know."


def _words(text: str) -> set[str]:
    """Return words of Latin letters, and pairs of Japanese ones, for those have no blanks between them."""
    latin = set(re.findall(r"[a-z0-9]{3,}", text.lower()))
    other = re.sub(r"[\x00-\x7f\s]", "", text)
    return latin | {other[place : place + 2] for place in range(len(other) - 1)}


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)
