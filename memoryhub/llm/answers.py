"""Read model answers: server-sent events, drafts, completions, JSON under a schema. No vendor, no network.

The SDKs' own event readers keep a line of any length and answer a broken one with an exception of the JSON library.
Both vendors take a part of JSON Schema only and refuse the rest (objects must be closed, no lengths or ranges): they
get `vendor_schema` a schema, and the answer is checked here against the whole.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any

from memoryhub.errors import stored_text
from memoryhub.llm.documents import parse_document, without_thoughts
from memoryhub.llm.errors import BadAnswer, ProviderRejected
from memoryhub.llm.tokens import counter_for
from memoryhub.llm.types import Completion, CompletionRequest, Operation
from memoryhub.validators import UnusableJSON, parse_json, storable_text

MAX_MODEL_CHARS = 200
MAX_BLOCKS = 100
KEPT_KEYWORDS = ("type", "enum", "const", "description", "title", "required", "$ref")
"""Keywords that both vendors understand; those that hold schemas are treated one by one."""
MAPS_OF_SCHEMAS = ("properties", "$defs")
LISTS_OF_SCHEMAS = ("anyOf", "allOf")


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `name` is "" where the server gave none."""

    name: str
    data: str = field(repr=False)


class EventDecoder:
    """Collects bytes and gives the events that are whole (WHATWG HTML, 9.2.6; without ids and retry times)."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        self._rest += chunk
        if b"\n" not in chunk:  # do not search an unfinished line again with every chunk
            return
        *lines, rest = self._rest.replace(b"\r\n", b"\n").split(b"\n")
        self._rest = rest
        for line in lines:
            if event := self._line(line.decode("utf-8", "replace")):
                yield event

    def _line(self, line: str) -> Event | None:
        if not line:
            event = Event(self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data = "", []
            return event
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._name = value
        elif name == "data":
            self._data.append(value)
        return None  # a comment, or an unused field


class Stop(Enum):
    FINISHED = auto()
    TRUNCATED = auto()
    REFUSED = auto()
    CALLS = auto()
    OTHER = auto()


@dataclass(slots=True)
class Draft:
    """The parts of an answer as they were read; None where the provider did not report them.

    `blocks` are texts, thoughts and calls of tools by their numbers; the arguments of a call are JSON in `arguments`.
    """

    pieces: list[str] = field(default_factory=list, repr=False)
    blocks: dict[int, dict[str, Any]] = field(default_factory=dict, repr=False)
    arguments: dict[int, str] = field(default_factory=dict, repr=False)
    model: Any = None
    stop: Stop | None = None
    has_begun: bool = False
    has_ended: bool = False
    """Whether the provider sent the end of the answer."""
    refused: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def add(self, piece: Any) -> str:
        """Append a piece of text and return it as it can be stored; "" for other values."""
        if not isinstance(piece, str) or not piece:
            return ""
        self.pieces.append(storable_text(piece))
        return self.pieces[-1]

    def block(self, number: Any, kind: str, **values: Any) -> None:
        """Begin a block, or go on with it: texts join, other values replace."""
        if not isinstance(number, int) or len(self.blocks) >= MAX_BLOCKS:
            return
        block = self.blocks.setdefault(number, {"type": kind})
        for name, value in values.items():
            if isinstance(value, str) and name in ("text", "thinking"):
                block[name] = block.get(name, "") + storable_text(value)
            elif value:
                block[name] = storable_text(value) if isinstance(value, str) else value

    def argue(self, number: Any, piece: Any) -> None:
        """Add a piece of the JSON of a call's arguments."""
        if isinstance(number, int) and isinstance(piece, str):
            self.arguments[number] = self.arguments.get(number, "") + piece

    @property
    def calls(self) -> bool:
        return any(block["type"] == "tool_use" for block in self.blocks.values())


class TruncatedAnswer(BadAnswer):
    """The answer reached the output limit; `partial` holds what was written."""

    def __init__(self, message: str, *, partial: Completion) -> None:
        super().__init__(message, code="truncated", permanent=True)
        self.partial = partial


def completion(draft: Draft, request: CompletionRequest, *, model: str) -> Completion:
    """Return the finished, validated answer.

    Raises ProviderRejected for a refusal, TruncatedAnswer, and BadAnswer for what else is none.
    """
    if draft.refused or draft.stop is Stop.REFUSED:
        raise ProviderRejected("The provider refuses to answer.", code="refused")
    if draft.stop is Stop.TRUNCATED:
        message = stored_text("The provider's answer was cut at its greatest length.")
        if not _text_of(draft, request).strip():
            raise BadAnswer(message, code="truncated", permanent=True)
        raise TruncatedAnswer(message, partial=_completion(draft, request, model, None))
    calls = bool(request.tools) and draft.calls
    # Some compatible servers report `stop` for tool calls.
    if draft.stop is not Stop.FINISHED and not (calls and draft.stop is Stop.CALLS):
        raise BadAnswer("The provider's answer is not finished.", code="unfinished")
    text = _text_of(draft, request)
    if calls:
        return replace(_completion(draft, request, model, None), blocks=tuple(_blocks(draft)))
    if not text.strip():
        raise BadAnswer("The provider's answer is empty.", code="empty")
    data = None if request.json_schema is None else parse_document(text, request.json_schema)
    return _completion(draft, request, model, data)


def _text_of(draft: Draft, request: CompletionRequest) -> str:
    """Return an answer's text; without thoughts, except in a chat, where the reader has seen them already."""
    text = "".join(draft.pieces)
    return text if request.operation is Operation.CHAT else without_thoughts(text)


def _completion(draft: Draft, request: CompletionRequest, model: str, data: Any) -> Completion:
    text = _text_of(draft, request)
    counter, name = counter_for(model), draft.model
    is_name = isinstance(name, str) and 0 < len(name) <= MAX_MODEL_CHARS and name.isprintable()
    read, written = draft.input_tokens, draft.output_tokens
    return Completion(
        text=text,
        model=name if is_name else model,
        input_tokens=sum(map(counter.count, request.texts())) if read is None else read,
        output_tokens=counter.count(text) if written is None else written,
        cache_read_tokens=draft.cache_read_tokens,
        cache_write_tokens=draft.cache_write_tokens,
        data=data,
        usage_is_estimated=read is None or written is None,
    )


def _blocks(draft: Draft) -> Iterator[dict[str, Any]]:
    """Yield the blocks of an answer that calls tools. Raises BadAnswer for an invalid call."""
    for number, block in sorted(draft.blocks.items()):
        if block["type"] == "text" and not block.get("text", "").strip():
            continue
        if block["type"] == "tool_use":
            try:
                arguments = parse_json((draft.arguments.get(number, "").strip() or "{}").encode())
            except UnusableJSON:
                arguments = None
            if not isinstance(arguments, dict) or not block.get("id") or not block.get("name"):
                raise BadAnswer("The provider's answer calls a tool in a way that is none.", code="bad_call")
            block = {**block, "input": arguments}
        yield block


def parse_object(content: bytes | str) -> Mapping[str, Any]:
    """Return the JSON object in what a provider sent. Raises BadAnswer, with nothing of it in the message."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise BadAnswer("The provider answered with something that is not JSON.", code="not_json")
    return document


def value_at(document: Any, *path: str | int) -> Any:
    """Return the value at a path in a document of unknown shape; None where there is none."""
    for step in path:
        if isinstance(step, str) and isinstance(document, Mapping):
            document = document.get(step)
        elif isinstance(step, int) and isinstance(document, list) and len(document) > step:
            document = document[step]
        else:
            return None
    return document


def token_count(value: Any) -> int | None:
    """Return a number of tokens; None for anything else."""
    is_amount = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    return value if is_amount else None


def vendor_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a schema that vendors take; several types in one place become `anyOf`."""
    if isinstance(schema.get("type"), list):
        rest = {name: value for name, value in schema.items() if name not in ("type", "description")}
        described = {name: schema[name] for name in ("description",) if name in schema}
        return {**described, "anyOf": [vendor_schema({**rest, "type": kind}) for kind in schema["type"]]}
    shape = {name: schema[name] for name in KEPT_KEYWORDS if name in schema}
    for name in MAPS_OF_SCHEMAS:
        if name in schema:
            shape[name] = {key: vendor_schema(subschema) for key, subschema in schema[name].items()}
    for name in LISTS_OF_SCHEMAS:
        if name in schema:
            shape[name] = [vendor_schema(subschema) for subschema in schema[name]]
    if "items" in schema:
        shape["items"] = vendor_schema(schema["items"])
    if shape.get("type", "object") != "object":
        return {name: value for name, value in shape.items() if name not in ("properties", "required")}
    return {**shape, "additionalProperties": False} if "type" in shape else shape


def is_strict(shape: Any) -> bool:
    """Return whether every object requires all of its properties, which OpenAI's strict mode asks for."""
    if isinstance(shape, list):
        return all(map(is_strict, shape))
    if not isinstance(shape, dict):
        return True
    requires_all = set(shape.get("required", ())) == set(shape.get("properties", ()))
    return (shape.get("type") != "object" or requires_all) and all(map(is_strict, shape.values()))
