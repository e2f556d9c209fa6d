"""When a session is due for a summary: pure, from counts and ages; the clocks of messages play no part (SPEC U2).

"Every 20 messages" is "20 since the last summary": counts jump by two or by a whole batch, so they are compared and
never divided.
"""

from dataclasses import dataclass
from enum import StrEnum

from summaries.domain.policy import SummaryPolicy


class Trigger(StrEnum):
    """What makes a summary due."""

    COUNT = "count"
    INTERVAL = "interval"
    END = "end"
    ASKED = "asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a session stands to its summary.

    `new_messages` counts what people and assistants said since; `seconds_since` is the age of the summary's last
    writing, or of the session while it has none; below zero where a clock was set back.
    """

    new_messages: int
    seconds_since: float
    has_ended: bool
    is_locked: bool = False
    is_asked_for: bool = False


def trigger(standing: Standing, policy: SummaryPolicy) -> Trigger | None:
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
