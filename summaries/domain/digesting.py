"""Making one text of several sessions' summaries: which of them, and how one stands on a line (SPEC U9). Pure."""

from collections.abc import Sequence

from conversations.domain.cleaning import one_line
from summaries.domain.rolling import Count, Limits, Said


def latest_for(calls: int, summaries: Sequence[Said], limits: Limits, count: Count) -> Sequence[Said]:
    """Return the latest summaries that about so many calls can hold, one at least; they are ordered by time.

    Each call but the first holds the digest so far as well.
    """
    room = calls * max(0, limits.room - limits.output)
    taken = 0
    for said in reversed(summaries):
        room -= min(count(f"{line_of(said)}\n"), limits.room)
        if taken and room < 0:
            break
        taken += 1
    return summaries[len(summaries) - taken :]


def line_of(said: Said, before: Said | None = None) -> str:
    """Return a session's summary as one line with its day."""
    return f"[{said.said_at:%Y-%m-%d}] {one_line(said.text)}"
