"""Labelled stories: what is stored of a model's true and false statements, by the checks and by a whole server.

    python bench/extraction.py                    # the checks alone, half by half
    python bench/extraction.py --half held_out --failures
    python bench/extraction.py --model NAME --url http://127.0.0.1:8080/v1    # what of a real model's answers is stored

A story in `bench/stories/<half>_<language>.txt` is a short conversation as people write (`u:` the user, with a name in
a group, `a:` the assistant), the statements that are true of the user (`+ messages text`), and false ones with
their kind (`- message kind text`). The rules were first adjusted to the set `tuning`, then to
one set after the other; bench/RESULTS.md has the figures of each before its failures were seen.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conversations.domain.statements.grounding import UNRELIABLE, Evidence, Verdict
from conversations.domain.statements.kinds import Spoken
from conversations.domain.statements.languages import writing
from memoryhub.llm.config import LLMConfig
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.openai import OpenAIProvider
from memoryhub.llm.prompts import fenced, prompt
from memoryhub.llm.tokens import count_raw
from memoryhub.llm.types import ChatMessage, CompletionRequest, LLMProvider, Operation
from strength.domain.distrust import distrusted
from strength.domain.extraction import (
    MAX_ITEMS,
    MESSAGE_STRATEGIES,
    Item,
    Reading,
    SourceMessage,
    Topics,
    answer_schema,
    items_of,
    message_blocks,
    next_slice,
)

FOLDER: Final = Path(__file__).with_name("stories")
HALVES: Final = ("tuning", "held_out", "fresh", "single", "blind", "sealed", "last", "next")
LANGUAGES: Final = ("en", "ja")
SAID_AT: Final = datetime(2026, 3, 4, 10, tzinfo=UTC)
SHIFTS: Final = (-2, -1, 1, 2)
MAX_ANSWER_TOKENS: Final = 700

_MESSAGE: Final = re.compile(r"([ua])(?:\((.*?)\))?: (.*)")
_TRUE: Final = re.compile(r"\+ ([\d,]+) (.*)")
_FALSE: Final = re.compile(r"- (\d+) (\w+) (.*)")


@dataclass
class Story:
    """A conversation with statements; places of messages count from 0."""

    kind: str
    messages: list[Spoken] = field(default_factory=list)
    true: list[tuple[tuple[int, ...], str]] = field(default_factory=list)
    false: list[tuple[int, str, str]] = field(default_factory=list)

    @property
    def evidence(self) -> Evidence:
        return Evidence(tuple(self.messages))


def stories(half: str, language: str) -> list[Story]:
    """Return the stories of a file. Raises ValueError for a line of no known form."""
    found: list[Story] = []
    for line in (FOLDER / f"{half}_{language}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            found.append(Story(line.removeprefix("== ").strip()))
        elif match := _MESSAGE.fullmatch(line):
            text = match[3].replace("\\n", "\n")
            found[-1].messages.append(Spoken(text, match[1] == "u", SAID_AT, match[2] or ""))
        elif match := _TRUE.fullmatch(line):
            places = tuple(int(number) - 1 for number in match[1].split(","))
            found[-1].true.append((places, match[2]))
        elif match := _FALSE.fullmatch(line):
            found[-1].false.append((int(match[1]) - 1, match[2], match[3]))
        else:
            raise ValueError(line)
    return found


@dataclass
class Result:
    """Counts of one file, and the statements that were judged wrongly."""

    true: int = 0
    held: list[tuple[str, Verdict]] = field(default_factory=list)
    false: Counter[str] = field(default_factory=Counter)
    stored: list[tuple[str, str]] = field(default_factory=list)
    shifted: int = 0
    misplaced: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)


def measure(told: list[Story]) -> Result:
    """Return what the checks make of the statements, and of true ones whose citations are shifted."""
    result = Result()
    for story in told:
        evidence = story.evidence
        for places, text in story.true:
            result.true += 1
            verdict = evidence.check(text, places)
            if verdict.doubt or verdict.falls:
                result.held.append((text, verdict))
            for wrong in {*_shifted(places[0], len(story.messages)), 0} - set(places):
                result.shifted += 1
                found = evidence.check(text, [wrong]).places
                if not set(places) <= set(found):
                    result.misplaced.append((text, found))
        for place, kind, text in story.false:
            result.false[kind] += 1
            verdict = evidence.check(text, [place])
            if not (verdict.doubt or verdict.falls):
                result.stored.append((kind, text))
    return result


def _shifted(place: int, size: int) -> Iterator[int]:
    yield from (min(max(place + by, 0), size - 1) for by in SHIFTS)


def ask(provider: LLMProvider, story: Story, *, deadline_seconds: float) -> list[Item]:
    """Return what a real model draws from a story, as the server checks it. Raises ProviderError."""
    messages = [
        SourceMessage(UUID(int=seq), seq, each.is_users, each.author, each.text, True, each.said_at)
        for seq, each in enumerate(story.messages, 1)
    ]
    piece = next_slice(messages, max_tokens=4_000, count=count_raw, until=len(messages))
    wanted = writing("auto", [each.text for each in story.messages if each.is_users], agent="en")
    rules = prompt("extract_people", wanted.prompt, people=", ".join(piece.people)) if len(piece.people) > 1 else ""
    request = CompletionRequest(
        operation=Operation.EXTRACT,
        messages=(ChatMessage("user", fenced(message_blocks(piece, [], language=wanted.prompt), "f" * 32)),),
        max_output_tokens=MAX_ANSWER_TOKENS,
        deadline_seconds=deadline_seconds,
        system=prompt("extract", wanted.prompt, topics=rules, most=MAX_ITEMS, written=wanted.phrase),
        json_schema=answer_schema(MESSAGE_STRATEGIES[:2], Topics()),
    )
    data = provider.complete(request).data
    return items_of(data, Reading(piece, language=wanted.prompt), strategies=MESSAGE_STRATEGIES)


def try_model(options: argparse.Namespace) -> None:
    """Print each story's statements with a mark: stored (+) or waiting (?); a person judges whether they are true.

    All stories count as one user's.
    """
    config = LLMConfig("openai", options.model, base_url=options.url, attempt_timeout_seconds=options.seconds)
    provider, counts, failed = OpenAIProvider(config), Counter[str](), list[bool]()
    for half in [options.half] if options.half else HALVES:
        for story in (story for language in LANGUAGES for story in stories(half, language)):
            try:
                items = distrusted(ask(provider, story, deadline_seconds=options.seconds), failed)
            except ProviderError as error:
                counts[f"no answer ({error.code})"] += 1
                continue
            print(f"== {story.kind}: {story.messages[0].text[:60]!r}", flush=True)
            failed = [*(bool(each.doubt and each.doubt.reason != UNRELIABLE) for each in items), *failed]
            for each in items:
                counts["waits" if each.doubt else "stored"] += 1
                print(f"  {f'? {each.doubt.reason}' if each.doubt else '+'} {each.text}", flush=True)
    print(dict(counts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=HALVES)
    parser.add_argument("--failures", action="store_true", help="print the statements that were judged wrongly")
    parser.add_argument("--url", help="an OpenAI-compatible server")
    parser.add_argument("--model", help="its model")
    parser.add_argument("--seconds", type=float, default=600.0, help="the longest wait for an answer")
    options = parser.parse_args()
    if options.url:
        try_model(options)
        return
    for half in [options.half] if options.half else HALVES:
        for language in LANGUAGES:
            result = measure(stories(half, language))
            print(
                f"{half} {language}: true held back {len(result.held)}/{result.true}, "
                f"false stored {len(result.stored)}/{result.false.total()}, "
                f"shifted citations right {result.shifted - len(result.misplaced)}/{result.shifted}"
            )
            if options.failures:
                for line in (*result.held, *result.stored, *result.misplaced):
                    print("  ", *line)


if __name__ == "__main__":
    main()
