"""What every language model provider is and promises. Interface only: no vendor, no prompt."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal


class Operation(StrEnum):
    """What a model is asked for; each may have a model of its own."""

    CHAT = "chat"
    SUMMARIZE = "summarize"
    EXTRACT = "extract"
    ROUTE = "route"
    COMPACT = "compact"
    JUDGE = "judge"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn. There is no system role here: a system prompt is a field of the request."""

    role: Literal["user", "assistant"]
    content: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One question to a model; texts are kept out of the repr, so also out of logs and tracebacks."""

    operation: Operation
    messages: tuple[ChatMessage, ...]
    max_output_tokens: int
    deadline_seconds: float
    """How long the whole call may take, retries included."""
    system: str = field(default="", repr=False)
    json_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    """When given, the answer must be JSON that is valid under it."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished, validated answer; anything less is a ProviderError."""

    text: str = field(repr=False)
    model: str
    input_tokens: int
    output_tokens: int
    data: Any = field(default=None, repr=False)
    """The parsed answer where a schema was asked for."""


class LLMProvider(ABC):
    """Answers prompts. Instances are shared by all threads of a process."""

    name: ClassVar[str]

    @abstractmethod
    def complete(self, request: CompletionRequest) -> Completion:
        """Return a finished answer. Raises ProviderError; cut, refused or empty answers are errors too."""
