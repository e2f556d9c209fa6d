"""Making one text of several sessions' summaries: which of them fit, the latest first (SPEC U9). Pure."""

from collections.abc import Sequence
from dataclasses import replace

from conversations.domain.cleaning import one_line
from summaries.domain.rolling import Call, Count, Limits, Said, shortened


def digest_call(summaries: Sequence[Said], limits: Limits, count: Count) -> Call:
    """Return one call with as many summaries as fit, those of the latest sessions, in the order of time.

    `summaries` are ordered by time, and not none. One that does not even fit by itself is shortened. Raises NoRoom.
    """
    room = limits.room
    lines: list[str] = []
    left = room
    for said in reversed(summaries[-limits.messages :]):
        cost = count(f"{_line(said)}\n")
        if cost > left:
            break
        lines.insert(0, _line(said))
        left -= cost
    while len(lines) > 1 and count("\n".join(lines)) > room:
        lines.pop(0)
    lines = lines or [shortened(_line(summaries[-1]), room, count)]
    taken = summaries[-len(lines) :]
    # By the day, for whoever chooses sentences: a digest tells when, a summary who.
    return Call("", tuple(lines), tuple(replace(said, author=f"{said.said_at:%Y-%m-%d}") for said in taken))


def _line(said: Said) -> str:
    return f"[{said.said_at:%Y-%m-%d}] {one_line(said.text)}"
