"""One question and its answer: what states they pass through, and what is sent to the model. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from conversations.domain.formats import Format

GRACE_SECONDS: Final = 5.0
"""How much longer than its deadline an answer may take before somebody else may ask again."""


class TurnState(StrEnum):
    """What became of a question."""

    ANSWERING = "answering"
    ANSWERED = "answered"
    FAILED = "failed"


@dataclass(frozen=True)
class Plain:
    """What a model is sent: the system prompt by itself, and turns in the vendor's form."""

    system: str | Sequence[Mapping[str, Any]] = field(repr=False)
    turns: Sequence[Mapping[str, Any]] = field(repr=False)


def split_system(
    form: Format, system: str | list[dict[str, Any]] | None, messages: Sequence[Mapping[str, Any]]
) -> Plain:
    """Return a context's system prompt apart from its turns, in whichever form it was written."""
    if form == "openai":
        return Plain(messages[0]["content"], messages[1:])
    return Plain(system or "", messages)


def body_digest(*parts: object) -> str:
    """Return what tells one question from another under the same idempotency key."""
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def key_digest(asked_by: str, key: str) -> str:
    """Return how an idempotency key of one API key, or person, is kept."""
    return hashlib.sha256(f"{asked_by}|{key}".encode("utf-8", "surrogatepass")).hexdigest()
