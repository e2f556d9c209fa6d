"""A language model of a few rules: what it answers follows from what it was given, so that a bench can tell what was.

It likes and buys what the user says they do ("I like …", "I bought …", 「…が好き」), sums up the lines that tell a
result or a plan, and answers a question with the sentence of its context that shares most with it.
"""

import multiprocessing
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Final

from tests.fakes.llm_server import Asked, LLMServer, Reply, plain

LINE: Final = re.compile(r"^\[(\d+)\] \S+ user(?: \([^)]*\))?: (.*)$", re.MULTILINE)
TOLD: Final = re.compile(r"^\[[\d: -]+\] \w+(?: \([^)]*\))?: (.*)$", re.MULTILINE)
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
MARK: Final = re.compile(r"mark-(\w+)")
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
        {"text": text.format(*match.groups()), "sources": [number], "confidence": 0.9}
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
    sentences = [
        each.strip() for each in re.split(r"[\n。]|(?<=[.!?]) ", "\n".join([asked.system, *before, given]))
    ]
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


@dataclass
class Noting(Sequence[str]):
    """An answer's pieces, which notes when the first goes out: the server walks through them as it sends."""

    mark: str
    noted: dict[str, float] = field(repr=False)
    pieces: tuple[str, ...] = ("One ", "answer, ", "in ", "five ", "pieces.")

    def __getitem__(self, place: Any) -> Any:
        """Return a piece."""
        return self.pieces[place]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.pieces)

    def __iter__(self) -> Iterator[str]:
        """Note the time and begin."""
        self.noted[self.mark] = time.monotonic()
        return iter(self.pieces)


def answering_in_pieces(noted: dict[str, float], *, piece_delay_seconds: float) -> Any:
    """Return an answer for streams: each begins after 50 ms and is noted by its question's mark."""

    def answer(asked: Asked) -> Reply:
        if asked.schema is not None or not asked.stream:
            return by_rules(asked)
        found = MARK.search(asked.text)
        pieces = Noting(found.group(1) if found else "", noted)
        return Reply(pieces=pieces, delay_seconds=0.05, piece_delay_seconds=piece_delay_seconds)

    return answer


@dataclass(frozen=True)
class ModelApart:
    """A model in a process of its own, for where the bench's own threads would be in its way."""

    url: str
    key: str
    pipe: Connection = field(repr=False)

    def noted(self) -> dict[str, float]:
        """Return when each answer began, by its mark; the clock is the machine's."""
        self.pipe.send("noted")
        times: dict[str, float] = self.pipe.recv()
        return times


@contextmanager
def model_apart(*, piece_delay_seconds: float) -> Iterator[ModelApart]:
    """Run a model that answers in pieces in another process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, piece_delay_seconds), daemon=True)
    process.start()
    try:
        url, key = ours.recv()
        yield ModelApart(url, key, ours)
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection, piece_delay_seconds: float) -> None:
    noted: dict[str, float] = {}
    with LLMServer() as server:
        server.answer(answering_in_pieces(noted, piece_delay_seconds=piece_delay_seconds))
        pipe.send((server.url, server.key))
        while pipe.recv():
            pipe.send(dict(noted))
