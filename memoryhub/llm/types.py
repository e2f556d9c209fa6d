"""Types of requests and answers, and the interface of language model providers. No vendor, no prompt."""

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, Literal, Self
from uuid import UUID

from memoryhub.llm.errors import ProviderError


class Operation(StrEnum):
    CHAT = "chat"
    SUMMARIZE = "summarize"
    EXTRACT = "extract"
    ROUTE = "route"
    COMPACT = "compact"
    JUDGE = "judge"


def array_schema(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object that has all of these properties and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


Form = Literal["anthropic", "openai"]
"""In which vendor's shape blocks are written (`conversations.domain.formats`)."""

IMAGE_TOKENS: Final = 4_784
"""The most that one image costs in Anthropic's current high-resolution models (older ones: about 1,600).
An upper bound on purpose: the size of an image behind an address is not known here."""

Content = str | Sequence[Mapping[str, Any]]
"""A text, or blocks in the provider's own form."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn. There is no system role here: a system prompt is a field of the request.

    `more` are fields besides the two, which OpenAI's form has for tools: `tool_calls`, or `tool_call_id`.
    """

    role: Literal["user", "assistant", "tool"]
    content: Content | None = field(repr=False)
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> Self:
        more = {name: value for name, value in message.items() if name not in ("role", "content")}
        return cls(message["role"], message["content"], more)

    def as_sent(self) -> dict[str, Any]:
        return {"role": self.role, "content": self.content, **self.more}


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may ask for; `parameters` is a JSON Schema of its arguments, an object."""

    name: str
    parameters: Mapping[str, Any] = field(repr=False)
    description: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """Constrain an answer as the client asks: values for the vendor, which alone enforces them.

    `stop` are texts before which the answer ends. `response_format` is in OpenAI's form. `tool_choice` is `auto`,
    `none`, `required`, or the name of the tool to call. `sampling` are OpenAI's parameters of SAMPLING.
    """

    stop: tuple[str, ...] = field(default=(), repr=False)
    response_format: Mapping[str, Any] | None = field(default=None, repr=False)
    tool_choice: str = "auto"
    parallel_tool_calls: bool = True
    sampling: Mapping[str, float | str] = field(default_factory=dict)


SAMPLING: Final = (
    "temperature", "top_p", "seed", "frequency_penalty", "presence_penalty", "reasoning_effort", "verbosity",
)  # fmt: skip
"""Parameters of an answer that only the vendor interprets."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One question to a model; texts are kept out of the repr, so also out of logs and tracebacks."""

    operation: Operation
    messages: tuple[ChatMessage, ...]
    max_output_tokens: int
    deadline_seconds: float
    """Deadline of the whole call, retries included."""
    system: Content = field(default="", repr=False)
    json_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    """The answer must be JSON that is valid under it."""
    tools: tuple[Tool, ...] = ()
    constraints: Constraints = field(default_factory=Constraints)
    key_id: UUID | None = None
    """The API key that asked, for its daily cap."""

    @property
    def blocks(self) -> list[Mapping[str, Any]]:
        """Return the blocks of all contents; a plain text is one text block."""
        contents = (self.system, *(message.content or "" for message in self.messages))
        return [
            block
            for content in contents
            for block in ([{"type": "text", "text": content}] if isinstance(content, str) else content)
        ]

    def texts(self) -> Iterator[str]:
        """Yield all that counts as tokens, images apart: texts, and other blocks, schema and tools as JSON."""
        for block in self.blocks:
            text = block.get("text")
            if not is_image(block):
                yield text if isinstance(text, str) else json.dumps(block, ensure_ascii=False, default=str)
        if self.json_schema is not None:
            yield json.dumps(self.json_schema, ensure_ascii=False)
        for tool in self.tools:
            yield json.dumps([tool.name, tool.description, tool.parameters], ensure_ascii=False, default=dict)
        yield from (json.dumps(message.more, ensure_ascii=False) for message in self.messages if message.more)


def is_image(block: Mapping[str, Any]) -> bool:
    return block.get("type") in ("image", "image_url")


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished, validated answer; anything less is a ProviderError."""

    text: str = field(repr=False)
    model: str
    input_tokens: int
    """All that was read, what came from the provider's cache included."""
    output_tokens: int
    cache_read_tokens: int = 0
    """Of the input tokens, those that came from the provider's cache; most vendors ask less for them."""
    cache_write_tokens: int = 0
    """Of the input tokens, those that the provider put into its cache; some vendors ask more for them."""
    data: Any = field(default=None, repr=False)
    """The parsed answer where a schema was asked for."""
    blocks: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """All of an answer that calls tools, as neutral blocks (`conversations.domain.content`); else nothing."""
    usage_is_estimated: bool = False
    """Whether the tokens are estimated, because the provider reported no usage."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer that is still being written; it counts for nothing until the Completion comes."""

    text: str = field(repr=False)


OnFailed = Callable[[ProviderError, float], None]
"""Called after a failed attempt that another one follows: with its error, and the seconds until that one begins."""


def ignore_failure(error: ProviderError, pause_seconds: float) -> None: ...


class LLMProvider(ABC):
    """Answers prompts. Instances are shared by all threads of a process."""

    name: ClassVar[str]
    form: ClassVar[Form] = "anthropic"

    @abstractmethod
    def model_for(self, operation: Operation) -> str:
        """Return the name of the model that answers an operation; "" where none does."""

    @abstractmethod
    def complete(self, request: CompletionRequest, *, on_failed: OnFailed = ignore_failure) -> Completion:
        """Return a finished answer. Raises ProviderError; cut, refused or empty answers are errors too.

        Blocks, so it is not for coroutines. `on_failed` is called for each attempt that another one follows.
        """

    @abstractmethod
    def stream(
        self, request: CompletionRequest, *, on_failed: OnFailed = ignore_failure
    ) -> AsyncIterator[Delta | Completion]:
        """Yield the pieces of an answer as they come, and the finished answer last.

        Raises ProviderError, also in the middle: then what was yielded is no answer. Tried again only before the
        first piece. To be used from any event loop.
        """

    def unsupported(self, constraints: Constraints) -> tuple[str, ...]:
        """Return the fields of constraints that the vendor has nothing for."""
        return ()

    def knows_window(self, operation: Operation) -> bool:
        """Return whether `context_window` answers without network."""
        return True

    def context_window(self, operation: Operation) -> int | None:
        """Return the tokens that prompt and answer may have together; None where that is unknown. Network."""
        return None

    def count_tokens(self, request: CompletionRequest) -> int | None:
        """Return the exact size of a request in tokens, asked of the provider; None where it cannot tell.

        Raises ProviderError.
        """
        return None

    def probe(self) -> None:  # noqa: B027 - what needs no network is always there
        """Look whether the provider can be reached and takes our key, at no cost. Raises ProviderError."""
