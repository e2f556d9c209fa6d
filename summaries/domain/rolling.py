"""A summary is never more trusted than the least trusted of what it was made of (SPEC M10)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from conversations.domain.text import label, one_line, visible
from memoryhub.llm.prompts import fenced
from memoryhub.tenancy.domain import Trust
from summaries.domain.policy import SummaryPolicy


def lowest_trust(*trusts: Trust | str, among: Iterable[Trust | str] = ()) -> Trust:
    """Return the lowest of these trusts; of none at all, trusted."""
    return Trust.UNTRUSTED if Trust.UNTRUSTED in {*trusts, *among} else Trust.TRUSTED


Count = Callable[[str], int]
Line = Callable[["SpokenMessage", "SpokenMessage | None"], str]
"""Writes a message as one line, from it and the one before."""

PREVIOUS_SHARE: Final = 2
"""The summary so far has half of what the prompt leaves at most, so that a call always takes messages as well."""

GAP: Final = " […] "
"""What stands for the middle of a text that was too long."""

LONGEST_TOKEN: Final = 128
"""Letters of the vocabulary's longest token: a text longer than these for each token of room need not be counted."""

SENTENCE_ENDS: Final = ".!?。！？"

MOST_LETTERS: Final = 16
"""Letters of a token, hardly ever more: where to begin to look for how much of a text fits."""


class NoRoom(ValueError):
    """The prompt alone leaves no room for a message; `summary_max_tokens` is too small for it."""

    permanent = True


@dataclass(frozen=True, slots=True)
class SpokenMessage:
    """One message as it is summarised; its text is kept out of the repr."""

    seq: int
    role: str
    author: str
    text: str = field(repr=False)
    said_at: datetime
    trust: Trust = Trust.TRUSTED


@dataclass(frozen=True, slots=True)
class Call:
    """One step of a rolling summary: the summary so far, and the lines of the messages that join it."""

    previous: str = field(repr=False)
    lines: tuple[str, ...] = field(repr=False)
    said: tuple[SpokenMessage, ...] = field(repr=False)

    @property
    def transcript(self) -> str:
        """The messages, one a line."""
        return "\n".join(self.lines)

    @property
    def half(self) -> "Call":
        """The call with the first half of its messages, one at least; the others are left for the next."""
        first = (len(self.said) + 1) // 2
        return replace(self, lines=self.lines[:first], said=self.said[:first])


@dataclass(frozen=True, slots=True)
class Limits:
    """How large one call may be; `overhead` is what the prompt around the texts costs."""

    messages: int
    tokens: int
    output: int
    overhead: int = 0

    @classmethod
    def of(cls, policy: SummaryPolicy, *, overhead: int = 0) -> "Limits":
        """Return the limits of a policy. An answer never takes more than the next call can read again."""
        limits = cls(
            policy.summary_max_messages, policy.summary_max_tokens, policy.summary_output_limit, overhead
        )
        return replace(limits, output=min(limits.output, limits.room // PREVIOUS_SHARE))

    @property
    def room(self) -> int:
        """What the prompt leaves for texts."""
        return max(0, self.tokens - self.overhead)


def next_call(
    previous: str,
    waiting: Sequence[SpokenMessage],
    limits: Limits,
    count: Count,
    *,
    line_of: "Line | None" = None,
) -> Call:
    """Return the next call: the first of the waiting messages that fit, one at least; `line_of` writes one.

    A message that does not even fit by itself is shortened in its middle, visibly. Raises NoRoom.
    """
    line_of = line_of or transcript_line
    so_far = shortened(previous, limits.room // PREVIOUS_SHARE, count) if previous else ""
    room = limits.room - count(so_far)
    lines: list[str] = []
    left = room
    for said, before in zip(waiting[: limits.messages], (None, *waiting), strict=False):
        line = line_of(said, before)
        if not _fits(f"{line}\n", left, count):
            break
        lines.append(line)
        left -= count(f"{line}\n")
    # Counts of lines add up to that of the text, give or take a token at each seam.
    while len(lines) > 1 and count("\n".join(lines)) > room:
        lines.pop()
    lines = lines or [shortened(line_of(waiting[0], None), room, count)]
    return Call(so_far, tuple(lines), tuple(waiting[: len(lines)]))


def call_to_condense(draft: "Draft", limits: Limits, count: Count) -> tuple[Call, str] | None:
    """Return a call about the beginning of a summary that is too long to be rolled on, and what is left of it.

    Only a person writes so much, and all of it is read before messages join. None where it fits. Raises NoRoom.
    """
    if _fits(draft.text, limits.room // PREVIOUS_SHARE, count) or draft.end_time is None:
        return None
    beginning = _beginning(one_line(draft.text), limits.room, count)
    said = SpokenMessage(draft.covered, "", "", beginning, draft.end_time, draft.trust)
    return Call("", (beginning,), (said,)), one_line(draft.text)[len(beginning) :]


def _beginning(text: str, room: int, count: Count) -> str:
    """Return the longest beginning of at most `room` tokens, to a sentence's end if one is near. Raises NoRoom."""
    low, high = 0, min(len(text), room * LONGEST_TOKEN)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= room else (low, middle - 1)
    if not low:
        raise NoRoom("summary_max_tokens is too small for the prompt and a message.")
    if low == len(text):
        return text
    return text[: max((text.rfind(end, low // 2, low) for end in SENTENCE_ENDS), default=-1) + 1 or low]


def transcript_line(said: SpokenMessage, before: SpokenMessage | None) -> str:
    """Return a message as one line: its time, the day where it is another than the line's before, who, and what."""
    same_day = before is not None and before.said_at.date() == said.said_at.date()
    time = f"{said.said_at:%H:%M}" if same_day else f"{said.said_at:%Y-%m-%d %H:%M}"
    return f"[{time}] {speaker(said)}: {one_line(said.text)}"


def speaker(said: SpokenMessage) -> str:
    """Return who speaks: the role, and the name where there is one."""
    name = label(said.author)
    return f"{said.role} ({name})" if name else said.role


def shortened(text: str, room: int, count: Count) -> str:
    """Return a text of at most `room` tokens: itself, or its beginning and its end with a gap between them.

    Raises NoRoom where not even a few characters fit.
    """
    if _fits(text, room, count):
        return text
    low, high = 0, min(len(text) // 2, max(0, room) * MOST_LETTERS)
    while low < high:
        half = (low + high + 1) // 2
        if count(_without_middle(text, half)) <= room:
            low = half
        else:
            high = half - 1
    if not low:
        raise NoRoom("summary_max_tokens is too small for the prompt and a message.")
    return _without_middle(text, low)


def _fits(text: str, room: int, count: Count) -> bool:
    return len(text) <= room * LONGEST_TOKEN and count(text) <= room


def _without_middle(text: str, half: int) -> str:
    return f"{text[:half].rstrip()}{GAP}{text[len(text) - half :].lstrip()}"


@dataclass(frozen=True, slots=True)
class Draft:
    """A summary on its way: its text, and what it covers so far."""

    text: str = field(default="", repr=False)
    covered: int = 0
    """The last `seq` that the text covers."""
    start_time: datetime | None = None
    end_time: datetime | None = None
    trust: Trust = Trust.TRUSTED
    model: str = ""

    def joined_by(self, call: Call, *, text: str, model: str) -> "Draft":
        """Return the draft after a call that answered with `text`."""
        times = [said.said_at for said in call.said]
        return Draft(
            text=text,
            covered=call.said[-1].seq,
            start_time=min([*times, *([self.start_time] if self.start_time else [])]),
            end_time=max([*times, *([self.end_time] if self.end_time else [])]),
            trust=lowest_trust(self.trust, among=(said.trust for said in call.said)),
            model=model,
        )

    def condensed_to(self, text: str, *, model: str) -> "Draft":
        """Return the draft as covering what it did, in other words."""
        return replace(self, text=text, model=model)


PREVIOUS: Final = "previous-summary"
CONVERSATION: Final = "conversation"

WORDS_PER_TOKEN: Final = 0.5
CHARACTERS_PER_TOKEN: Final = 0.6
"""As much as surely fits into a token of any model, so that an answer within them is never cut off."""


def length_limits(output_tokens: int) -> dict[str, int]:
    """Return how long an answer may be, in words and in characters, as prompts say it."""
    return {
        "words": int(output_tokens * WORDS_PER_TOKEN),
        "characters": int(output_tokens * CHARACTERS_PER_TOKEN),
    }


def fenced_material(call: Call, fence: str) -> str:
    """Return a call's texts, each between its fences. Raises ForgedFence."""
    blocks = {PREVIOUS: call.previous} if call.previous else {}
    return fenced({**blocks, CONVERSATION: call.transcript}, fence)


def cleaned_answer(fence: str, text: str) -> str:
    """Return a model's answer as it is kept: no characters that nobody sees, no line that repeats a fence."""
    lines = (line.rstrip() for line in visible(text).splitlines())
    return "\n".join(line for line in lines if fence not in line).strip()


def latest_that_fit(
    calls: int, summaries: Sequence[SpokenMessage], limits: Limits, count: Count
) -> Sequence[SpokenMessage]:
    """Return the latest summaries that about so many calls can hold, one at least; they are ordered by time.

    Each call but the first holds the digest so far as well.
    """
    room = calls * max(0, limits.room - limits.output)
    taken = 0
    for said in reversed(summaries):
        room -= min(count(f"{digest_line(said)}\n"), limits.room)
        if taken and room < 0:
            break
        taken += 1
    return summaries[len(summaries) - taken :]


def digest_line(said: SpokenMessage, before: SpokenMessage | None = None) -> str:
    """Return a session's summary as one line with its day."""
    return f"[{said.said_at:%Y-%m-%d}] {one_line(said.text)}"
