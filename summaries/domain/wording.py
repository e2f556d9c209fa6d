"""How a question to the model is put, and how a summary is introduced where others read it: words by language."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from conversations.domain.cleaning import visible
from memoryhub.llm.delimiters import fenced
from summaries.domain.rolling import Call

PREVIOUS: Final = "previous-summary"
CONVERSATION: Final = "conversation"

WORDS_PER_TOKEN: Final = 0.5
CHARACTERS_PER_TOKEN: Final = 0.6
"""As much as surely fits into a token of any model, so that an answer within them is never cut off."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The line above a summary in a context, by what it is of."""

    excerpts: str
    previous: str
    previous_excerpts: str


LABELS: Final[Mapping[str, Labels]] = {
    "en": Labels(
        excerpts="(Sentences taken from the conversation as they were said.)",
        previous="(Of the conversation before, of {day}.)",
        previous_excerpts="(Of the conversation before, of {day}: sentences as they were said.)",
    ),
    "ja": Labels(
        excerpts="（会話から抜き出した発言）",
        previous="（前回の会話、{day}）",
        previous_excerpts="（前回の会話、{day}。会話から抜き出した発言）",
    ),
}


def room_for_words(output_tokens: int) -> dict[str, int]:
    """Return how long an answer may be, in words and in characters, as prompts say it."""
    return {
        "words": int(output_tokens * WORDS_PER_TOKEN),
        "characters": int(output_tokens * CHARACTERS_PER_TOKEN),
    }


def material(call: Call, fence: str) -> str:
    """Return a call's texts, each between its fences. Raises ForgedFence."""
    blocks = {PREVIOUS: call.previous} if call.previous else {}
    return fenced({**blocks, CONVERSATION: call.transcript}, fence)


def answer_without(fence: str, text: str) -> str:
    """Return a model's answer as it is kept: no characters that nobody sees, no line that repeats a fence."""
    lines = (line.rstrip() for line in visible(text).splitlines())
    return "\n".join(line for line in lines if fence not in line).strip()


def introduced(text: str, *, language: str, is_own: bool, is_excerpts: bool, ended_at: datetime) -> str:
    """Return a summary as a context shows it: with a line that says whose it is, and what kind, where that matters."""
    labels = LABELS.get(language, LABELS["en"])
    if is_own:
        line = labels.excerpts if is_excerpts else ""
    else:
        line = labels.previous_excerpts if is_excerpts else labels.previous
    return f"{line.format(day=f'{ended_at:%Y-%m-%d}')}\n{text}" if line else text
