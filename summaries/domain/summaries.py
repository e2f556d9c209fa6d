"""Summaries: their vocabulary, the triggers that make one due (SPEC U2), and the calls of a rolling summary (SPEC U3).

Pure; token counting is a function that is handed in. Each message is one line, so that nothing in it
can begin a line and pass for another speaker's words.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from conversations.domain.content import label, one_line, visible
from memoryhub.errors import DomainError
from memoryhub.llm.prompts import fenced
from memoryhub.look_alikes import BLANK, CONTROLS, IGNORABLE, JOINERS
from memoryhub.tenancy.policy import Trust
from summaries.domain.policy import SummaryPolicy

JOB: Final = "summarize"
"""Name of the job that writes a summary."""

MAX_TEXT_LENGTH: Final = 20_000
"""Characters of a summary that a person writes; no policy lets a model write so much."""

_SPACES: Final = r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
VISIBLE_CHARACTER: Final = f"[^{_SPACES}{CONTROLS}{IGNORABLE}{JOINERS}{BLANK}]"
"""Regular expression for PostgreSQL, so that blank messages are excluded in the database.

Spelt out, since the classes of PostgreSQL depend on the database's locale."""


class Generator(StrEnum):
    """Origin of a text: a language model, sentences taken from the conversation, or a person who wrote it."""

    LLM = "llm"
    EXTRACTIVE = "extractive"
    PERSON = "person"


class Extent(StrEnum):
    """Reason of a version that no trigger explains: of a time window alone, or from the session's beginning."""

    WINDOW = "window"
    ANEW = "anew"


class Trigger(StrEnum):
    COUNT = "count"
    INTERVAL = "interval"
    END = "end"
    ASKED = "asked"


MIN_MESSAGES: Final = 2
"""Messages of a session from which on it is summarised without being asked for."""


def trigger(
    policy: SummaryPolicy,
    *,
    new_messages: int,
    seconds_since: float,
    has_ended: bool,
    has_summary: bool = True,
    is_locked: bool = False,
    is_asked_for: bool = False,
) -> Trigger | None:
    """Return why a summary is due, None where it is not; a locked summary never is.

    `new_messages` counts those of people and assistants since the summary was last written; `seconds_since` is the age
    of that writing, or of the session while it has none; negative where a clock was set back. The count is compared and
    never divided: "every 20 messages" is "20 since the last summary", since counts grow by whole batches. A single
    message is its own summary.
    """
    if is_locked:
        return None
    if is_asked_for:
        return Trigger.ASKED
    if not policy.summarizes or new_messages < (1 if has_summary else MIN_MESSAGES):
        return None
    if has_ended:
        return Trigger.END
    if new_messages >= policy.summary_trigger_message_count:
        return Trigger.COUNT
    return Trigger.INTERVAL if seconds_since >= policy.summary_trigger_interval_seconds else None


Count = Callable[[str], int]
PREVIOUS_SHARE: Final = 2
"""The previous summary has half of what the prompt leaves at most, so that a call always takes messages as well."""

GAP: Final = " […] "
"""Replaces the removed middle of a text that was too long."""

MAX_TOKEN_LENGTH: Final = 128
"""Letters of the vocabulary's longest token: a text longer than these for each token of room need not be counted."""

SENTENCE_ENDS: Final = ".!?。！？"

MAX_TOKEN_LETTERS: Final = 16
"""Letters of a token, hardly ever more: where the search for how much of a text fits begins."""

WORDS_PER_TOKEN: Final = 0.5
CHARACTERS_PER_TOKEN: Final = 0.6
"""As much as surely fits into a token of any model, so that an answer within them is never cut off."""


class NoRoom(DomainError, ValueError):
    """The prompt alone leaves no room for a message; `summary_max_tokens` is too small for it."""

    code = "no_room"

    permanent = True

    def __init__(self) -> None:
        super().__init__("summary_max_tokens is too small for the prompt and a message.")


@dataclass(frozen=True, slots=True)
class SpokenMessage:
    """Message to be summarised; its text is kept out of the repr."""

    seq: int
    role: str
    author: str
    text: str = field(repr=False)
    said_at: datetime
    trust: Trust = Trust.TRUSTED


@dataclass(frozen=True, slots=True)
class Call:
    """One step of a rolling summary: the previous summary, and the messages that join it, one a line."""

    previous: str = field(repr=False)
    lines: tuple[str, ...] = field(repr=False)
    messages: tuple[SpokenMessage, ...] = field(repr=False)

    @property
    def transcript(self) -> str:
        return "\n".join(self.lines)

    @property
    def half(self) -> "Call":
        """The call with the first half of its messages, one at least; the others are left for the next."""
        first = (len(self.messages) + 1) // 2
        return replace(self, lines=self.lines[:first], messages=self.messages[:first])


@dataclass(frozen=True, slots=True)
class Limits:
    """Size limits of one call; `overhead` is the cost of the prompt around the texts."""

    messages: int
    tokens: int
    output: int
    overhead: int = 0

    @classmethod
    def of(cls, policy: SummaryPolicy, *, overhead: int = 0, window: int | None = None) -> "Limits":
        """Return the limits of a policy, within a model's context window, of which a quarter is kept for the answer.

        An answer never takes more than the next call can read again.
        """
        tokens = min(policy.summary_max_tokens, window * 3 // 4) if window else policy.summary_max_tokens
        limits = cls(policy.summary_max_messages, tokens, policy.summary_output_limit, overhead)
        return replace(limits, output=min(limits.output, limits.room // PREVIOUS_SHARE))

    @property
    def room(self) -> int:
        return max(0, self.tokens - self.overhead)


def lowest_trust(trusts: Sequence[Trust | str]) -> Trust:
    """Return the lowest of these trusts: a summary is trusted no more than its sources (SPEC M10)."""
    return Trust.UNTRUSTED if Trust.UNTRUSTED in trusts else Trust.TRUSTED


@dataclass(frozen=True, slots=True)
class Draft:
    """Summary in progress. `covered` is the last `seq` in it."""

    text: str = field(default="", repr=False)
    covered: int = 0
    start_time: datetime | None = None
    end_time: datetime | None = None
    trust: Trust = Trust.TRUSTED
    model: str = ""

    def joined_by(self, call: Call, *, text: str, model: str) -> "Draft":
        times = [message.said_at for message in call.messages]
        return Draft(
            text=text,
            covered=call.messages[-1].seq,
            start_time=min([*times, *([self.start_time] if self.start_time else [])]),
            end_time=max([*times, *([self.end_time] if self.end_time else [])]),
            trust=lowest_trust([self.trust, *(message.trust for message in call.messages)]),
            model=model,
        )


def next_call(
    previous: str,
    pending: Sequence[SpokenMessage],
    limits: Limits,
    count: Count,
    *,
    line_of: Callable[[SpokenMessage, SpokenMessage | None], str] | None = None,
) -> Call:
    """Return the next call: the first pending messages that fit, one at least, shortened if need be. Raises NoRoom."""
    line_of = line_of or transcript_line
    previous = shortened(previous, limits.room // PREVIOUS_SHARE, count) if previous else ""
    room = left = limits.room - count(previous)
    lines: list[str] = []
    for message, before in zip(pending[: limits.messages], (None, *pending), strict=False):
        line = line_of(message, before)
        if not _fits(f"{line}\n", left, count):
            break
        lines.append(line)
        left -= count(f"{line}\n")
    # Token counts of lines sum to that of the text within one token per line break.
    while len(lines) > 1 and count("\n".join(lines)) > room:
        lines.pop()
    lines = lines or [shortened(line_of(pending[0], None), room, count)]
    return Call(previous, tuple(lines), tuple(pending[: len(lines)]))


def call_to_condense(draft: Draft, limits: Limits, count: Count) -> tuple[Call, str] | None:
    """Return a call about the beginning of a summary that is too long for the next call, and the rest of its text.

    Only a person writes so much, and all of it is read before messages join. None where it fits. Raises NoRoom.
    """
    if _fits(draft.text, limits.room // PREVIOUS_SHARE, count) or draft.end_time is None:
        return None
    text = one_line(draft.text)
    lengths = range(1, min(len(text), limits.room * MAX_TOKEN_LENGTH) + 1)
    length = bisect_left(lengths, True, key=lambda each: count(text[:each]) > limits.room)
    if not length:
        raise NoRoom
    if length < len(text):  # ends at a nearby sentence end, if any
        length = max(text.rfind(end, length // 2, length) for end in SENTENCE_ENDS) + 1 or length
    message = SpokenMessage(draft.covered, "", "", text[:length], draft.end_time, draft.trust)
    return Call("", (text[:length],), (message,)), text[length:]


def transcript_line(message: SpokenMessage, before: SpokenMessage | None) -> str:
    """Return a message as one line: time, speaker, text; with the day where the line before has another."""
    same_day = before is not None and before.said_at.date() == message.said_at.date()
    time = f"{message.said_at:%H:%M}" if same_day else f"{message.said_at:%Y-%m-%d %a %H:%M}"
    name = label(message.author)
    speaker = f"{message.role} ({name})" if name else message.role
    return f"[{time}] {speaker}: {one_line(message.text)}"


def digest_line(message: SpokenMessage, before: SpokenMessage | None = None) -> str:
    return f"[{message.said_at:%Y-%m-%d}] {one_line(message.text)}"


def latest_that_fit(
    calls: int, summaries: Sequence[SpokenMessage], limits: Limits, count: Count
) -> Sequence[SpokenMessage]:
    """Return the latest summaries that about so many calls can hold, one at least; they are ordered by time.

    Each call but the first holds the previous digest as well.
    """
    room = calls * max(0, limits.room - limits.output)
    taken = 0
    for summary in reversed(summaries):
        room -= min(count(f"{digest_line(summary)}\n"), limits.room)
        if taken and room < 0:
            break
        taken += 1
    return summaries[len(summaries) - taken :]


def shortened(text: str, room: int, count: Count) -> str:
    """Return a text of at most `room` tokens: whole, or without its middle. Raises NoRoom."""
    if _fits(text, room, count):
        return text
    halves = range(1, min(len(text) // 2, max(0, room) * MAX_TOKEN_LETTERS) + 1)
    half = bisect_left(halves, True, key=lambda each: count(_without_middle(text, each)) > room)
    if not half:
        raise NoRoom
    return _without_middle(text, half)


def _fits(text: str, room: int, count: Count) -> bool:
    return len(text) <= room * MAX_TOKEN_LENGTH and count(text) <= room


def _without_middle(text: str, half: int) -> str:
    return f"{text[:half].rstrip()}{GAP}{text[len(text) - half :].lstrip()}"


def length_limits(output_tokens: int) -> dict[str, int]:
    return {"words": int(output_tokens * WORDS_PER_TOKEN), "characters": int(output_tokens * CHARACTERS_PER_TOKEN)}


def fenced_material(call: Call, fence: str) -> str:
    """Return a call's texts, each between its fences. Raises ForgedDelimiter."""
    previous = {"previous-summary": call.previous} if call.previous else {}
    return fenced({**previous, "conversation": call.transcript}, fence)


def cleaned_answer(fence: str, text: str) -> str:
    """Return a model's answer without invisible characters and without lines that repeat a fence."""
    lines = (line.rstrip() for line in visible(text).splitlines())
    return "\n".join(line for line in lines if fence not in line).strip()
