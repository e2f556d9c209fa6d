"""Faults of a summary that a model wrote, by which it is asked for once more and then replaced (SPEC U10). Pure."""

import re
from enum import StrEnum
from typing import Final

from conversations.domain.content import one_line
from conversations.domain.statements.details import Detail, stated
from conversations.domain.statements.grounding import Evidence
from conversations.domain.statements.kinds import Spoken
from conversations.domain.statements.languages import Writing, are_other_languages
from memoryhub.search.analysis import analyse, fold, is_unspaced
from summaries.domain.summaries import Call, length_limits

MAX_REPEATED: Final = 0.6
"""Share of a summary's sequences of words that are in the transcript; above, it is a transcript."""

RUN_LENGTH: Final = 5
"""Words of a sequence; in scripts without spaces, three times as many characters."""

MIN_RUNS: Final = 8
"""Shorter texts may repeat their material."""

MIN_TERMS: Final = 4
"""Terms from which on a summary shares one with its material."""

MAX_EXCESS: Final = 1.5
"""A summary may be longer than asked by this factor."""

CHECKED: Final = frozenset({"address", "date", "number", "name"})
MAX_COUNT: Final = 12
"""Smaller numbers may be counts by the model."""

_SPEAKER: Final = re.compile(
    r"^(?:\[[^\]\n]{1,40}\] )?(?:user|assistant|ユーザー|アシスタント)(?: \([^)\n]{1,60}\))?[:：]",
    re.IGNORECASE | re.MULTILINE,
)
_INSTRUCTIONS: Final = re.compile(
    r"\b(?:as an ai\b|language model|(?:the|these|my|your) instructions|system prompt|i was asked to"
    r"|i(?: am|'m) (?:unable|sorry)|i cannot (?:summari|help|assist)|previous-summary|at most \d{1,5} words)"
    r"|指示に(?:従|より)|指示どおり|プロンプト|言語モデル|お手伝いできません|要約できません|字以内で",
    re.IGNORECASE,
)


class Fault(StrEnum):
    REPEATS = "repeats"
    TOO_LONG = "too_long"
    LANGUAGE = "language"
    EMPTY = "empty"
    INSTRUCTIONS = "instructions"
    UNGROUNDED = "ungrounded"


def fault_of(text: str, call: Call, *, most_tokens: int, written: Writing) -> Fault | None:
    """Return what is wrong with a summary of a call's material; None for a good one."""
    material = "\n".join([call.previous, *(one_line(message.text) for message in call.messages)])
    spoken = "\n".join(message.text for message in call.messages if message.role)  # a digest may repeat summaries
    if _INSTRUCTIONS.search(text) and not _INSTRUCTIONS.search(material):
        return Fault.INSTRUCTIONS
    if len(_SPEAKER.findall(text)) > 1 or _repeated(text, spoken) > MAX_REPEATED:
        return Fault.REPEATS
    limits = length_limits(most_tokens)
    size, most = (len(text), limits["characters"]) if is_unspaced(text) else (len(text.split()), limits["words"])
    if size > MAX_EXCESS * most:
        return Fault.TOO_LONG
    if written.tag and are_other_languages(text, written.tag, is_tag=True):
        return Fault.LANGUAGE
    if is_unspaced(text) != is_unspaced(material):  # in another script no words are shared
        return None
    terms = set(analyse(text))
    if len(terms) >= MIN_TERMS and not terms & set(analyse(f"{material} {' '.join(call.lines)}")):
        return Fault.EMPTY
    return Fault.UNGROUNDED if _invents(text, call) else None


def _runs(text: str) -> list[tuple[str, ...]]:
    folded = fold(text)
    words = list("".join(filter(str.isalnum, folded))) if is_unspaced(folded) else re.findall(r"\w+", folded)
    length = RUN_LENGTH * 3 if is_unspaced(folded) else RUN_LENGTH
    return [tuple(words[start : start + length]) for start in range(len(words) - length + 1)]


def _repeated(text: str, material: str) -> float:
    """Return the share of a text's sequences of words that the material has."""
    runs, known = _runs(text), set(_runs(material))
    return sum(run in known for run in runs) / len(runs) if len(runs) >= MIN_RUNS else 0.0


def _invents(text: str, call: Call) -> bool:
    """Return whether a summary has a date, address, name or large number that its material lacks."""
    first = call.messages[0].said_at
    spoken = [Spoken(f"{message.author}\n{message.text}", True, message.said_at) for message in call.messages]
    known = Evidence((Spoken(call.previous, True, first), *spoken)).offered_by_all
    details = (each for each in stated(text) if each.kind in CHECKED)
    return any(not known.has(each) and not _is_count(each) for each in details)


def _is_count(detail: Detail) -> bool:
    return detail.kind == "number" and not detail.values[1] and detail.values[0] <= MAX_COUNT
