"""Trials of an operator's instructions for models on a stored session, before they are saved; nothing is stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from conversations.domain.statements.grounding import Doubt
from conversations.models import Session
from memoryhub.auth.principals import Principal


@dataclass(frozen=True)
class TrialText:
    """A text that would be written, and why it would wait for review."""

    text: str = field(repr=False)
    doubt: Doubt | None = None


Trial = Callable[[Session, str, Principal, datetime], Sequence[TrialText]]
"""Returns what a model writes of a session with instructions in place of the policy's. Network; ProviderError."""

TRIALS: Final[dict[str, Trial]] = {}
"""Trials by the name of the policy value; the apps whose models write register theirs."""
