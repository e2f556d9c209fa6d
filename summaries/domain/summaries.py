"""Vocabulary of summaries, and the triggers that make one due (SPEC U2). Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from summaries.domain.policy import SummaryPolicy

JOB: Final = "summarize"
"""Name of the job that writes a summary."""

LONGEST_TEXT: Final = 20_000
"""Characters of a summary that a person writes; no policy lets a model write so much."""

_SPACES: Final = r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_UNSEEN: Final = (
    r"\u0001-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e"
    r"\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
VISIBLE_CHARACTER: Final = f"[^{_SPACES}{_UNSEEN}]"
"""Regular expression for PostgreSQL, so that blank messages are excluded in the database.

Spelt out, since the classes of PostgreSQL depend on the database's locale."""


class Generator(StrEnum):
    """Origin of a text: a language model, or sentences taken from the conversation."""

    LLM = "llm"
    EXTRACTIVE = "extractive"


class Verb(StrEnum):
    """Change of a summary."""

    WRITE = "write"
    EDIT = "edit"
    LOCK = "lock"
    UNLOCK = "unlock"
    RESTORE = "restore"
    DELETE = "delete"


class Extent(StrEnum):
    """Reason of a version that no trigger explains: of a time window alone, or from the session's beginning."""

    WINDOW = "window"
    ANEW = "anew"


class Trigger(StrEnum):
    """Reason for which a summary is due."""

    COUNT = "count"
    INTERVAL = "interval"
    END = "end"
    ASKED = "asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionActivity:
    """Activity of a session since its summary was last written.

    `new_messages` counts those of people and assistants; `seconds_since` is the age of the summary's last writing, or
    of the session while it has none; negative where a clock was set back.
    """

    new_messages: int
    seconds_since: float
    has_ended: bool
    is_locked: bool = False
    is_asked_for: bool = False


def trigger(activity: SessionActivity, policy: SummaryPolicy) -> Trigger | None:
    """Return why a summary is due, None where it is not; a locked summary never is.

    The message count is compared and never divided: "every 20 messages" is "20 since the last summary", since counts
    grow by whole batches.
    """
    if activity.is_locked:
        return None
    if activity.is_asked_for:
        return Trigger.ASKED
    if not policy.summarizes or not activity.new_messages:
        return None
    if activity.has_ended:
        return Trigger.END
    if activity.new_messages >= policy.summary_trigger_message_count:
        return Trigger.COUNT
    if activity.seconds_since >= policy.summary_trigger_interval_seconds:
        return Trigger.INTERVAL
    return None
