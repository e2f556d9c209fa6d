"""The long-term strategies: what each draws from conversations, where it files it, and what it reads next (SPEC L2).

Pure. Where a strategy stands in a session is the number of the last message it has looked at (`seq`, which has no
gaps); never a time, for clocks of clients lie.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from strength.domain.memories import Kind, default_namespace


class Strategy(StrEnum):
    """One sort of long-term memory, by the name under which agents switch it."""

    SEMANTIC = "semantic"
    USER_PREFERENCE = "user_preference"
    SUMMARY = "summary"
    EPISODIC = "episodic"
    REFLECTION = "reflection"


EXTRACT_KIND: Final = "extract"
FROM_MESSAGES: Final = (Strategy.SEMANTIC, Strategy.USER_PREFERENCE, Strategy.EPISODIC)
"""Those that read messages; reflection reads episodes, and summaries are written elsewhere."""

KINDS: Final[Mapping[Strategy, Kind]] = {
    Strategy.SEMANTIC: Kind.FACT,
    Strategy.USER_PREFERENCE: Kind.PREFERENCE,
    Strategy.SUMMARY: Kind.SUMMARY,
    Strategy.EPISODIC: Kind.EPISODE,
    Strategy.REFLECTION: Kind.REFLECTION,
}

OF_SESSION: Final = frozenset({Strategy.SUMMARY, Strategy.EPISODIC})
"""Those whose memories lie in a folder of their session."""


def is_on(switches: Mapping[str, Any], strategy: Strategy) -> bool:
    """Say whether an agent's switches leave a strategy on; all are unless they say otherwise."""
    return switches.get(strategy.value, True) is not False


def switched_on(switches: Mapping[str, Any]) -> tuple[Strategy, ...]:
    """Return the strategies that read messages and are on."""
    return tuple(strategy for strategy in FROM_MESSAGES if is_on(switches, strategy))


def namespace_of(strategy: Strategy, session_id: object = "") -> str:
    """Return where a strategy files what it drew from a session."""
    folder = default_namespace(KINDS[strategy])
    return f"{folder}{session_id}/" if strategy in OF_SESSION else folder


@dataclass(frozen=True)
class Stretch:
    """Messages that some strategies have not looked at, and the others have: behind `after`, up to `until`."""

    strategies: tuple[Strategy, ...]
    after: int
    until: int


def next_stretch(read_until: Mapping[Strategy, int], *, end: int) -> Stretch | None:
    """Return what is to be read next of a session of `end` messages; None where everybody has read to its end.

    Those that are furthest behind read on, up to where another one stands, and from there on together with it:
    one question to a model serves all that share a stretch.
    """
    behind = {strategy: seq for strategy, seq in read_until.items() if seq < end}
    if not behind:
        return None
    after = min(behind.values())
    together = tuple(strategy for strategy, seq in behind.items() if seq == after)
    return Stretch(together, after, min([end, *_beyond(behind.values(), after)]))


def _beyond(places: Iterable[int], after: int) -> list[int]:
    return [seq for seq in places if seq > after]
