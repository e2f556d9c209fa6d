"""The layers of a context, and the candidates that they offer."""

from collections.abc import Mapping
from dataclasses import dataclass
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
"""The layers of the remembered block, in the order of the block (SPEC X5)."""

PRECEDENCE: Final = (PINNED, WORKING, SEMANTIC, RECALL, PROJECT, SESSION_SUMMARY)
"""Most important first: the one that keeps a duplicate, and the order in which unused shares are passed on."""

CANDIDATE_LAYERS: Final = frozenset(PRECEDENCE)

Block = Mapping[str, Any]
"""A neutral piece of a message: `{"type": "text", "text"}`, or a reference, `{"type": "image" | "file",
"name"?, "media_type"?, "url"? | "data"? (base64)}`."""

Content = str | tuple[Block, ...]

Contents = Mapping[int, Content]
"""The contents (still) in the context, by the candidate's place among all candidates."""


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
        if self.layer not in CANDIDATE_LAYERS:  # without a rule it could never give way
            raise ValueError(f"unknown context layer {self.layer!r}; one of {', '.join(PRECEDENCE)}")


@dataclass(frozen=True, slots=True)
class LayerResult:
    """The candidates of one layer, best first (working memory oldest first); `degraded` names what was unavailable."""

    candidates: tuple[Candidate, ...] = ()
    degraded: tuple[str, ...] = ()
