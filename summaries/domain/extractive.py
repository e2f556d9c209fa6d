"""Cutting what was said into sentences, English and Japanese: pure, and linear in the text.

A rule of thumb, not a grammar: what is cut wrongly costs a summary a little, so the rules stay few.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from conversations.domain.messages import Role, asks
from conversations.domain.text import label, visible
from memoryhub.search.analysis import COMPOUND, analyse, is_unspaced
from summaries.domain.rolling import Call, SpokenMessage, shortened

LONGEST_READ: Final = 20_000
"""Characters of a message that are looked at: its sentences are chosen from the beginning of a pasted book."""

_OPENING: Final = "「『（【("
_CLOSING: Final = "」』）】)"
_ENDS: Final = "。！？!?."
_CODE_FENCE: Final = re.compile(r"^\s*(?:```|~~~)")
_LIST_MARK: Final = re.compile(r"^\s*(?:[-*•・#>]+|\d{1,2}[.)])\s+")
_ABBREVIATION: Final = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|approx|mr|mrs|ms|dr|prof|st|no|fig|inc|ltd|a\.m|p\.m|[a-z])\.$",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text; code between fences is left out, and a line's end ends a sentence."""
    return [
        sentence
        for line in _prose(visible(text[:LONGEST_READ]))
        for part in _cut(line)
        if any(map(str.isalnum, sentence := " ".join(part.split())))
    ]


def _prose(text: str) -> Iterator[str]:
    """Yield the lines that are no code, without the marks of lists and headings."""
    in_code = False
    for line in text.splitlines():
        if _CODE_FENCE.match(line):
            in_code = not in_code
        elif not in_code:
            yield _LIST_MARK.sub("", line)


def _cut(line: str) -> Iterator[str]:
    """Yield a line's sentences; what stands in quotation marks or brackets belongs to the sentence around it."""
    start, depth = 0, 0
    for place, letter in enumerate(line):
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth = max(0, depth - 1)
        elif letter in _ENDS and not depth and _ends_at(line, start, place):
            yield line[start : place + 1]
            start = place + 1
    yield line[start:]


def _ends_at(line: str, start: int, place: int) -> bool:
    """Say whether the mark at a place ends a sentence: not where another follows, nor within a number or a name."""
    after = line[place + 1 : place + 2]
    if after in _ENDS and after:
        return False
    if line[place] in "。！？":
        return True
    if after and not after.isspace():
        # "3.5", "v1.2", "example.org"; but Japanese writes no space after "!?".
        return line[place] != "." and ord(after) > 0x2E80
    return line[place] != "." or not _ABBREVIATION.search(line[max(start, place - 12) : place + 1])


MOST_SENTENCES: Final = 8
LONGEST_SENTENCE: Final = 60
"""Tokens of one chosen sentence; a longer one is shortened in its middle."""

FEWEST_THEMES: Final = 2
"""A sentence with fewer says hello, thanks, or yes."""

DOES: Final = 0.5
ASKS_LAST: Final = 0.5
ASKED_BEFORE: Final = -0.3
TOLD_BY_USER: Final = 0.2
BEGINS: Final = 0.3
ENDS: Final = 0.3
KEPT: Final = 0.25
REPEATS: Final = 0.8
"""What is added to a sentence's weight, as a share of it, and what is taken off for what was chosen already."""

LAST_PART: Final = 0.7
"""A question in the last part of a conversation is likely to be open still; earlier ones were answered."""

_ENGLISH_DEEDS: Final = (
    r"\b(?:decid\w*|decision|agree[ds]?|settled?|confirmed|let'?s|we(?:'ll| will)|i(?:'ll| will)|going to"
    r"|plan(?:s|ned)?|next (?:step|time|week|month)|to-?do|deadline|must|need(?:s|ed)? to|have to|should|until"
    r"|by (?:mon|tues|wednes|thurs|fri|satur|sun)day|because|turn(?:s|ed) out|works? now|fixed|solved|finished"
    r"|done|result(?:s|ed)?|cause[ds]?|blocked|waiting for|open question|prefer\w*|allergic|moved|birthday|chose"
    r"|chosen|instead of|remember)\b"
)
_JAPANESE_DEEDS: Final = (
    r"決め|決ま|決定|にします|ことにし|しましょう|ましょう|予定|次回|次は|今後|までに|必要|課題|宿題|約束|締め?切|結論|原因|"
    r"完了|終わ[りっ]|できました|直りました|直した|解決|わかりました|分かりました|結果|未定|保留|検討|確認し|待ち|好き|苦手|"
    r"アレルギー|引っ越|代わりに|お願いします|覚えて"
)
_DEED: Final = re.compile(f"{_ENGLISH_DEEDS}|{_JAPANESE_DEEDS}", re.IGNORECASE)
_SPEAKERS: Final = {
    "en": {"user": "User", "assistant": "Assistant"},
    "ja": {"user": "ユーザー", "assistant": "アシスタント"},
}


@dataclass(frozen=True)
class Sentence:
    """A sentence that may be chosen: where it stands, from 0 (first) to 1 (last), and who said it."""

    text: str = field(repr=False)
    place: float
    said_by: str = ""
    was_chosen: bool = False
    """Whether it stands in the summary so far, which was chosen once already."""
    is_users: bool = False

    @cached_property
    def themes(self) -> frozenset[str]:
        """The terms that tell what it is about: words, and in scripts without spaces whole expressions."""
        return frozenset(
            term for term in analyse(self.text) if term.startswith(COMPOUND) or not is_unspaced(term)
        )

    @property
    def line(self) -> str:
        """The sentence as it stands in a summary."""
        return f"{self.said_by}: {self.text}" if self.said_by else self.text


def extract(call: Call, *, language: str, most_tokens: int, count: Callable[[str], int]) -> str:
    """Return the sentences that tell most of a call's summary so far and messages, one a line, as they followed.

    Where nobody said more than hello, the first message as it stands.
    """
    found = _candidates(call, language, count)
    weights = _weights(found)
    chosen: list[int] = []
    left = most_tokens
    for place in _ranked(found, weights):
        cost = count(f"{found[place].line}\n")
        if cost <= left and len(chosen) < MOST_SENTENCES:
            chosen.append(place)
            left -= cost
    if not chosen:
        return shortened(call.lines[0], most_tokens, count)
    return "\n".join(found[place].line for place in sorted(chosen))


def _candidates(call: Call, language: str, count: Callable[[str], int]) -> list[Sentence]:
    earlier = sentences(call.previous)
    fresh = [(said, text) for said in call.said for text in sentences(said.text)]
    last = max(1, len(fresh) - 1)
    # What stands in the summary so far came before all else: its beginning is the conversation's.
    kept = [Sentence(line, 0.0 if place == 0 else 0.5, was_chosen=True) for place, line in enumerate(earlier)]
    begin = 0.5 if kept else 0.0
    return kept + [
        Sentence(
            shortened(text, LONGEST_SENTENCE, count),
            begin + (1 - begin) * place / last,
            _speaker(said, language),
            is_users=said.role == Role.USER,
        )
        for place, (said, text) in enumerate(fresh)
    ]


def _speaker(said: SpokenMessage, language: str) -> str:
    words = _SPEAKERS.get(language, _SPEAKERS["en"])
    return label(said.author) or words.get(said.role, said.role)


def _weights(found: Sequence[Sentence]) -> list[float]:
    """Return how much each sentence tells: its themes by how many sentences return to them, and its bonuses."""
    spread = Counter(theme for sentence in found for theme in sentence.themes)
    return [_weight(sentence, spread) for sentence in found]


def _weight(sentence: Sentence, spread: Counter[str]) -> float:
    themes = sentence.themes
    if len(themes) < FEWEST_THEMES:
        return 0.0
    # Divided by a root: a long sentence says more than a short one, and not as much more as it is longer.
    shared = sum(math.log1p(spread[theme]) for theme in themes) / math.sqrt(len(themes) + 4)
    bonus = DOES * bool(_DEED.search(sentence.text))
    bonus += (ASKS_LAST if sentence.place >= LAST_PART else ASKED_BEFORE) * asks(sentence.text)
    bonus += TOLD_BY_USER * sentence.is_users
    bonus += BEGINS * max(0.0, 1 - sentence.place / 0.2) + ENDS * max(0.0, 1 - (1 - sentence.place) / 0.2)
    bonus += KEPT * sentence.was_chosen
    return shared * (1 + bonus)


def _ranked(found: Sequence[Sentence], weights: Sequence[float]) -> list[int]:
    """Return the sentences' places, best first: one of the beginning, one of the end, then whatever tells most.

    Each counts less by the share of its themes that a chosen one has told already.
    """
    told: Counter[str] = Counter()
    order: list[int] = []
    left = {place for place, weight in enumerate(weights) if weight > 0}
    stages = [
        lambda place: found[place].place <= 1 - LAST_PART,
        lambda place: found[place].place >= LAST_PART,
    ]

    def worth(place: int) -> tuple[float, int]:
        themes = found[place].themes
        again = sum(theme in told for theme in themes) / len(themes)
        return weights[place] * (1 - REPEATS * again), -place

    while left and len(order) < MOST_SENTENCES * 3:
        stage = stages.pop(0) if stages else None
        pool = {place for place in left if stage is None or stage(place)} or left
        best = max(pool, key=worth)
        order.append(best)
        told.update(found[best].themes)
        left.discard(best)
    return order
