"""What a context is made of, and what gives way first when it does not fit.

The layers' names, the candidate that every layer offers, and the one table of priorities (SPEC X3).
This module must not know how a candidate is written down or counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

SYSTEM: Final = "system"
PINNED: Final = "pinned"
SEMANTIC: Final = "semantic"
RECALL: Final = "recall"
PROJECT: Final = "project"
SESSION_SUMMARY: Final = "session_summary"
WORKING: Final = "working"
USER_MESSAGE: Final = "user_message"

REMEMBERED: Final = (PINNED, SEMANTIC, RECALL, PROJECT, SESSION_SUMMARY)
"""What stands in the remembered block, in the order it stands there (SPEC X5)."""

PRECEDENCE: Final = (PINNED, WORKING, SEMANTIC, RECALL, PROJECT, SESSION_SUMMARY)
"""Dearest first: who wins over a duplicate, and the way in which unused shares flow on."""

CANDIDATE_LAYERS: Final = frozenset(PRECEDENCE)

Block = Mapping[str, Any]
"""A neutral piece of a message: `{"type": "text", "text"}`, or a reference, `{"type": "image" | "file",
"name"?, "media_type"?, "url"? | "data"? (base64)}`."""

Content = str | tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something that may enter a context.

    `relevance` lies in [0, 1]; `created_at` is ISO 8601; `title` names a project's document;
    `role` and `author` tell who said a message. Equal `source_id`s mean the same message
    (working, recall) or the same memory (pinned, semantic).
    """

    layer: str
    content: Content
    source_id: str | None = None
    title: str = ""
    role: str = ""
    author: str = ""
    created_at: str = ""
    relevance: float | None = None
    final_score: float | None = None
    score_breakdown: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        """Refuse a layer that no rule speaks about: it could never give way."""
        if self.layer not in CANDIDATE_LAYERS:
            raise ValueError(f"unknown context layer {self.layer!r}; one of {', '.join(PRECEDENCE)}")


@dataclass(frozen=True, slots=True)
class LayerResult:
    """What one layer offers: best first, working memory oldest first; and what it had to do without."""

    candidates: tuple[Candidate, ...] = ()
    degraded: tuple[str, ...] = ()


class How(StrEnum):
    """The order in which the parts of a layer go."""

    ATTACHMENTS = "images and files become a word, oldest message first"
    SECTIONS = "last Markdown section of the last document first, its title and first section longest"
    LEAST_RELEVANT = "least relevant first"
    OLDEST = "oldest first"
    LAST = "last (weakest) first"


@dataclass(frozen=True, slots=True)
class GiveWay:
    """One row of the table: `layer` shrinks in this manner down to `floor` entries."""

    layer: str
    how: How
    floor: int = 0
    breaks_floor: bool = False


GIVE_WAY_ORDER: Final = (
    GiveWay(WORKING, How.ATTACHMENTS),
    GiveWay(SESSION_SUMMARY, How.LAST),
    GiveWay(PROJECT, How.SECTIONS),
    GiveWay(RECALL, How.LEAST_RELEVANT),
    GiveWay(SEMANTIC, How.LEAST_RELEVANT, floor=1),
    GiveWay(WORKING, How.OLDEST, floor=2),
    GiveWay(SEMANTIC, How.LEAST_RELEVANT, floor=0, breaks_floor=True),
    GiveWay(WORKING, How.OLDEST, floor=0, breaks_floor=True),
    GiveWay(PINNED, How.LAST),
)
"""First row first; a row begins when the one above it has nothing left to give. System prompt and user
message have no row: they never give way."""


def steps_within_share(layer: str) -> tuple[GiveWay, ...]:
    """Return how `layer` alone is confined to its share: as in the table, never below its floor."""
    return tuple(step for step in GIVE_WAY_ORDER if step.layer == layer and not step.breaks_floor)


Contents = Mapping[int, Content]
"""What is (still) in the context: a candidate's place among all candidates → what it says."""
