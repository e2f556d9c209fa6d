"""Validate requests in the form of OpenAI's chat completions, and bring them to the parts of a question."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from conversations.api.blocks import ToolIn
from conversations.api.serializers import MAX_TOOLS, MessageIn
from conversations.domain.content import calls_in
from conversations.domain.messages import NewMessage, Role
from memoryhub.api.fields import AgentIdField, ItemsField, ObjectField, TextField, UserIdField
from memoryhub.llm.client import llm_provider
from memoryhub.llm.types import SAMPLING, Constraints, Tool

MAX_MESSAGES: Final = 2_000
MAX_STOPS: Final = 4

NEUTRAL_VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "audio": (),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "n": (1,),
    "top_logprobs": (0,),
    "web_search_options": (),
}
"""Parameters that would change what an answer is, with their neutral values; others are refused."""


class CompletionMessageIn(MessageIn):
    """A message in OpenAI's form; what else a client sends with it is not kept."""

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            return super().to_internal_value(data)
        known = {name: data[name] for name in ("role", "content", "tool_calls", "tool_call_id") if name in data}
        if known.get("role") == "developer":
            known["role"] = Role.SYSTEM.value
        if isinstance(known.get("content"), list):
            known["content"] = _parts(known["content"])
        if known.get("content") in (None, "", []) and isinstance(data.get("refusal"), str):
            known["content"] = data["refusal"]
        if isinstance(calls := known.get("tool_calls"), list):
            known["tool_calls"] = [_pick(each, "id", "type", "function") for each in calls]
        return super().to_internal_value(known | ({"author": data["name"]} if data.get("name") else {}))

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["role"] == Role.TOOL and attrs["tool_call_id"] is None:
            raise ValidationError({"tool_call_id": ["This field is required."]})
        return super().validate(attrs)


def _pick(data: Any, *names: str) -> Any:
    return {name: data[name] for name in names if name in data} if isinstance(data, dict) else data


def _parts(parts: Sequence[Any]) -> list[Any]:
    """Return parts without blank texts; files and sound are named, and not kept."""
    kept = []
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "refusal":
            part = {"type": "text", "text": part.get("refusal")}
        elif kind == "file":
            described = part.get("file") if isinstance(part.get("file"), dict) else {}
            part = {"type": "file", "name": described.get("filename") or described.get("file_id") or "file"}
        elif kind == "input_audio":
            described = part.get("input_audio") if isinstance(part.get("input_audio"), dict) else {}
            part = {"type": "file", "name": f"audio.{described.get('format') or 'wav'}"}
        if not (isinstance(part, dict) and part.get("type") == "text" and _is_blank_text(part.get("text"))):
            kept.append(part)
    return kept


def _is_blank_text(text: Any) -> bool:
    return isinstance(text, str) and not text.strip()


class CompletionMessagesField(ItemsField):
    """Messages without empty ones: an answer that was stopped before its first word."""

    child = CompletionMessageIn()

    def to_internal_value(self, data: Any) -> list[NewMessage]:
        said = [each for each in _with_calls(data) if not _is_blank(each)] if isinstance(data, list) else data
        messages: list[NewMessage] = []
        for values in super().to_internal_value(said):
            message = MessageIn.message(values)
            if message.role == Role.TOOL and messages and messages[-1].role == Role.TOOL:
                message = NewMessage(
                    role=Role.TOOL, content="", blocks=[*(messages.pop().blocks or ()), *(message.blocks or ())]
                )
            messages.append(message)
        return messages


def _with_calls(messages: Sequence[Any]) -> list[Any]:
    """Return messages with the calls and results of functions, OpenAI's first form of tools, as those of tools."""
    brought: list[Any] = []
    key = ""
    for place, message in enumerate(messages):
        if isinstance(message, dict) and isinstance(message.get("function_call"), dict):
            key = f"function_{place}"
            call = {"id": key, "type": "function", "function": message["function_call"]}
            message = {**message, "tool_calls": [call]}
        elif isinstance(message, dict) and message.get("role") == "function":
            message = {"role": Role.TOOL.value, "tool_call_id": key or None, "content": message.get("content")}
        brought.append(message)
    return brought


def _is_blank(message: Any) -> bool:
    if not isinstance(message, dict) or message.get("tool_calls") or message.get("role") == Role.TOOL:
        return False
    content = message.get("content")
    if content is None and isinstance(message.get("refusal"), str):
        content = message["refusal"]
    return content is None or _is_blank_text(content) or (isinstance(content, list) and not _parts(content))


class StopField(ItemsField):
    """Texts before which an answer ends; OpenAI takes one by itself as well."""

    child = TextField(max_length=1_000, trim_whitespace=False, allow_blank=True)

    def to_internal_value(self, data: Any) -> Any:
        texts = [data] if isinstance(data, str) else data
        return super().to_internal_value([each for each in texts if each != ""] if isinstance(texts, list) else texts)


class ResponseFormatField(ObjectField):
    """OpenAI's `response_format`."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        given = super().to_internal_value(data)
        if given.get("type") not in ("text", "json_object", "json_schema"):
            raise ValidationError("The type must be text, json_object or json_schema.")
        described = given.get("json_schema")
        has_schema = isinstance(described, dict) and isinstance(described.get("schema"), dict)
        if given["type"] == "json_schema" and not (has_schema and isinstance(given["json_schema"].get("name"), str)):
            raise ValidationError("Send `json_schema` with `name` and `schema`.")
        return given


class ToolChoiceField(serializers.Field):
    """`auto`, `none`, `required`, the name of one tool, or (choice, names of the tools allowed)."""

    def to_internal_value(self, data: Any) -> str | tuple[str, list[str]]:
        if isinstance(data, str) and data in ("auto", "none", "required"):
            return data
        kind = data.get("type") if isinstance(data, dict) else None
        if kind == "allowed_tools":
            return self._allowed(data.get("allowed_tools") or data)
        name = _tool_name(data) if kind == "function" else None
        if name is None:
            raise ValidationError("Send auto, none, required, or a function or allowed tools in OpenAI's form.")
        return name

    def _allowed(self, data: Any) -> tuple[str, list[str]]:
        tools = data.get("tools") if isinstance(data, dict) else None
        names = [_tool_name(each) for each in tools] if isinstance(tools, list) else []
        if not names or None in names or data.get("mode", "auto") not in ("auto", "required"):
            raise ValidationError("Send allowed tools with `mode` (auto or required) and `tools`.")
        return data.get("mode", "auto"), [str(name) for name in names]


def _tool_name(data: Any) -> str | None:
    """Return the name of a function in either of OpenAI's forms."""
    function = data.get("function", data) if isinstance(data, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


class SamplingIn(serializers.Serializer):
    """Parameters that go on to the vendor unread; the vendor refuses what it cannot do."""

    def to_internal_value(self, data: Any) -> dict[str, float | str]:
        given = {name: data[name] for name in SAMPLING if data.get(name) is not None}
        for name, value in given.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18
            if not is_number and not (isinstance(value, str) and len(value) <= 100):
                raise ValidationError({name: ["must be a number or a word."]})
        return given


class CompletionIn(serializers.Serializer):
    """A request for a completion. Fields that are not named here are ignored, for clients send many."""

    model = AgentIdField()
    messages = CompletionMessagesField(max_length=MAX_MESSAGES)
    user = UserIdField(allow_null=True, default=None)
    metadata = ObjectField(required=False, allow_null=True, default=None)
    tools = ItemsField(child=ToolIn(), required=False, allow_null=True, max_length=MAX_TOOLS, default=None)
    max_tokens = serializers.IntegerField(required=False, allow_null=True, min_value=1, default=None)
    max_completion_tokens = serializers.IntegerField(required=False, allow_null=True, min_value=1, default=None)
    stream = serializers.BooleanField(required=False, allow_null=True, default=False)
    stream_options = ObjectField(required=False, allow_null=True, default=None)
    stop = StopField(required=False, allow_null=True, max_length=MAX_STOPS, default=None)
    response_format = ResponseFormatField(required=False, allow_null=True, default=None)
    tool_choice = ToolChoiceField(required=False, allow_null=True, default="auto")
    parallel_tool_calls = serializers.BooleanField(required=False, allow_null=True, default=True)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        values: dict[str, Any] = super().to_internal_value(data)
        wanted = {name: data[name] for name in NEUTRAL_VALUES if data.get(name) is not None}
        if unmet := [name for name, value in wanted.items() if value not in NEUTRAL_VALUES[name]]:
            raise ValidationError({name: ["is not supported here with this value."] for name in unmet})
        values["tools"], values["constraints"] = tools_and_constraints(
            tools=values["tools"] or [],
            choice=values.pop("tool_choice") or "auto",
            constraints=Constraints(
                stop=tuple(values.pop("stop") or ()),
                response_format=shape if (shape := values.pop("response_format")) and shape["type"] != "text" else None,
                parallel_tool_calls=values.pop("parallel_tool_calls") is not False,
                sampling=SamplingIn().to_internal_value(data),
            ),
        )
        return values

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the values with `instructions` in place of the system's messages."""
        messages: list[NewMessage] = attrs["messages"]
        instructions = "\n\n".join(each.content for each in messages if each.role == Role.SYSTEM)
        said = [each for each in messages if each.role != Role.SYSTEM]
        if not said and not instructions:
            raise ValidationError({"messages": ["One must hold a text."]})
        check_results(said, field="messages")
        return {**attrs, "instructions": instructions, "messages": said}


def tools_and_constraints(
    *, tools: Sequence[Mapping[str, Any]], choice: str | tuple[str, list[str]], constraints: Constraints
) -> tuple[tuple[Tool, ...], Constraints]:
    """Return the tools that the model may call, and the constraints with the choice among them.

    Raises ValidationError for tools that are not described or described twice, and for what the provider cannot do.
    """
    names = [tool["name"] for tool in tools]
    if len(names) > len(set(names)):
        raise ValidationError({"tools": ["Two tools have the same name."]})
    choice, allowed = choice if isinstance(choice, tuple) else (choice, names)
    is_described = {"auto": True, "none": True, "required": bool(tools)}
    if not is_described.get(choice, choice in names) or set(allowed) - set(names):
        raise ValidationError({"tool_choice": ["Describe the tool in `tools`."]})
    if not tools:
        constraints = replace(constraints, parallel_tool_calls=True)
    else:
        constraints = replace(constraints, tool_choice=choice)
    provider = llm_provider()
    if unmet := provider.unsupported(constraints):
        raise ValidationError({name: [f"The provider ({provider.name}) cannot do this."] for name in unmet})
    described = [tool for tool in tools if tool["name"] in allowed]
    return tuple(Tool(each["name"], each["input_schema"], each["description"]) for each in described), constraints


def check_results(messages: Sequence[NewMessage], *, field: str) -> None:
    """Raise ValidationError unless results at the end of a conversation answer calls of the message before them."""
    if not messages or messages[-1].role != Role.TOOL:
        return
    calls = {call["id"] for call in calls_in(messages[-2].blocks)} if len(messages) > 1 else set()
    if unknown := [each for each in messages[-1].blocks or () if each["tool_use_id"] not in calls]:
        raise ValidationError({field: [f"No call before it has the id {unknown[0]['tool_use_id']}."]})
