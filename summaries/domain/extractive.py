"""Extractive summary without a model: sentences of the conversation, chosen and not rewritten (SPEC U6). Pure.

Text is cut into English and Japanese sentences by a few rules, in linear time; a wrong cut costs little. A sentence is
weighted by the themes that it shares with the rest of the conversation, by its speech act (decision, question, result,
next step) and by its position: the beginning and the end of a conversation tell most. Sentences that repeat a chosen
one count less. The weights were set by hand on small conversations in both languages; the tests pin their effect.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from conversations.domain.content import label
from conversations.domain.messages import Role, is_question
from conversations.domain.passages import sentences
from memoryhub.search.analysis import COMPOUND, analyse, is_unspaced
from summaries.domain.summaries import Call, SpokenMessage, shortened

MAX_SENTENCES: Final = 8
MAX_SENTENCE_WORDS: Final = 60
"""Tokens of one chosen sentence; a longer one is shortened in its middle."""

MIN_THEMES: Final = 2
"""A sentence with fewer is a greeting, thanks, or yes."""

ACTION_WEIGHT: Final = 0.5
LAST_QUESTION_WEIGHT: Final = 0.5
EARLIER_QUESTION_WEIGHT: Final = -0.3
USER_WEIGHT: Final = 0.2
FIRST_WEIGHT: Final = 0.3
LAST_WEIGHT: Final = 0.3
KEPT: Final = 0.25
REPEATED_SHARE: Final = 0.8
"""Bonuses as shares of a sentence's weight, and the penalty for themes that a chosen sentence has."""

LAST_PART: Final = 0.7
"""A question in the last part of a conversation is probably still open; earlier ones were answered."""

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
    """Candidate sentence; `place` is from 0 (first) to 1 (last), `was_chosen` that the previous summary has it."""

    text: str = field(repr=False)
    place: float
    said_by: str = ""
    was_chosen: bool = False
    is_users: bool = False

    @cached_property
    def themes(self) -> frozenset[str]:
        """Content terms: words, and in scripts without spaces whole expressions."""
        return frozenset(term for term in analyse(self.text) if term.startswith(COMPOUND) or not is_unspaced(term))

    @property
    def line(self) -> str:
        return f"{self.said_by}: {self.text}" if self.said_by else self.text


def extract(call: Call, *, language: str, most_tokens: int, count: Callable[[str], int]) -> str:
    """Return the best sentences of a call, one a line, in their order; where there are none, the first message."""
    earlier = sentences(call.previous)
    fresh = [(message, text) for message in call.messages for text in sentences(message.text)]
    last = max(1, len(fresh) - 1)
    # The previous summary precedes the messages, as it covers the start of the conversation.
    kept = [Sentence(line, 0.0 if place == 0 else 0.5, was_chosen=True) for place, line in enumerate(earlier)]
    begin = 0.5 if kept else 0.0
    found = kept + [
        Sentence(
            shortened(text, MAX_SENTENCE_WORDS, count),
            begin + (1 - begin) * place / last,
            _speaker(message, language),
            is_users=message.role == Role.USER,
        )
        for place, (message, text) in enumerate(fresh)
    ]
    chosen: list[int] = []
    left = most_tokens
    for place in _ranked(found):
        cost = count(f"{found[place].line}\n")
        if cost <= left and len(chosen) < MAX_SENTENCES:
            chosen.append(place)
            left -= cost
    if not chosen:
        return shortened(call.lines[0], most_tokens, count)
    return "\n".join(found[place].line for place in sorted(chosen))


def _speaker(message: SpokenMessage, language: str) -> str:
    words = _SPEAKERS.get(language, _SPEAKERS["en"])
    return label(message.author) or words.get(message.role, message.role)


def _weight(sentence: Sentence, frequency: Counter[str]) -> float:
    themes = sentence.themes
    if len(themes) < MIN_THEMES:
        return 0.0
    # Divided by a root of the length: information grows with length, but less than linearly.
    shared = sum(math.log1p(frequency[theme]) for theme in themes) / math.sqrt(len(themes) + 4)
    bonus = ACTION_WEIGHT * bool(_DEED.search(sentence.text))
    bonus += (LAST_QUESTION_WEIGHT if sentence.place >= LAST_PART else EARLIER_QUESTION_WEIGHT) * is_question(
        sentence.text
    )
    bonus += USER_WEIGHT * sentence.is_users
    bonus += FIRST_WEIGHT * max(0.0, 1 - sentence.place / 0.2) + LAST_WEIGHT * max(0.0, 1 - (1 - sentence.place) / 0.2)
    bonus += KEPT * sentence.was_chosen
    return shared * (1 + bonus)


def _ranked(found: Sequence[Sentence]) -> list[int]:
    """Return the sentences' places, best first: one of the beginning, one of the end, then by weight.

    Each counts less by the share of its themes that chosen sentences cover already.
    """
    frequency = Counter(theme for sentence in found for theme in sentence.themes)
    weights = [_weight(sentence, frequency) for sentence in found]
    covered: Counter[str] = Counter()
    order: list[int] = []
    left = {place for place, weight in enumerate(weights) if weight > 0}
    stages = [lambda place: found[place].place <= 1 - LAST_PART, lambda place: found[place].place >= LAST_PART]

    def worth(place: int) -> tuple[float, int]:
        themes = found[place].themes
        again = sum(theme in covered for theme in themes) / len(themes)
        return weights[place] * (1 - REPEATED_SHARE * again), -place

    while left and len(order) < MAX_SENTENCES * 3:
        stage = stages.pop(0) if stages else None
        pool = {place for place in left if stage is None or stage(place)} or left
        best = max(pool, key=worth)
        order.append(best)
        covered.update(found[best].themes)
        left.discard(best)
    return order
