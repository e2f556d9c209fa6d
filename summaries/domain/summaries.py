"""What a summary is: who wrote it, and which changes make a version."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from summaries.domain.policy import SummaryPolicy


class Generator(StrEnum):
    """How a text came to be: by a model, or of sentences that were said."""

    LLM = "llm"
    EXTRACTIVE = "extractive"


class Verb(StrEnum):
    """What was done to a summary."""

    WRITE = "write"
    EDIT = "edit"
    LOCK = "lock"
    UNLOCK = "unlock"
    RESTORE = "restore"
    DELETE = "delete"


class Extent(StrEnum):
    """Why a version was written that no trigger explains: of a time alone, or from the session's beginning."""

    WINDOW = "window"
    ANEW = "anew"


JOB: Final = "summarize"
"""The kind of job that writes one."""

LONGEST_TEXT: Final = 20_000
"""Characters of a summary that a person writes; no policy lets a model write so much."""


class Trigger(StrEnum):
    """What makes a summary due."""

    COUNT = "count"
    INTERVAL = "interval"
    END = "end"
    ASKED = "asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionActivity:
    """How a session stands to its summary.

    `new_messages` counts what people and assistants said since; `seconds_since` is the age of the summary's last
    writing, or of the session while it has none; below zero where a clock was set back.
    """

    new_messages: int
    seconds_since: float
    has_ended: bool
    is_locked: bool = False
    is_asked_for: bool = False


def trigger(standing: SessionActivity, policy: SummaryPolicy) -> Trigger | None:
    """Return why a summary is due; None where it is not. What a person has locked never is."""
    if standing.is_locked:
        return None
    if standing.is_asked_for:
        return Trigger.ASKED
    if not policy.summarizes or not standing.new_messages:
        return None
    if standing.has_ended:
        return Trigger.END
    if standing.new_messages >= policy.summary_trigger_message_count:
        return Trigger.COUNT
    if standing.seconds_since >= policy.summary_trigger_interval_seconds:
        return Trigger.INTERVAL
    return None


_SPACES: Final = r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_UNSEEN: Final = (
    r"\u0001-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e"
    r"\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
VISIBLE_CHARACTER: Final = f"[^{_SPACES}{_UNSEEN}]"
"""A character that somebody sees. Spelt out: what else counts as a space depends on the database's locale."""
