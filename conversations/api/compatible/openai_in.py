"""Validate requests in the form of OpenAI's chat completions, and bring them to the parts of a question."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from conversations.api.blocks import ToolIn
from conversations.api.serializers import MAX_TOOLS, MessageIn
from conversations.domain.content import calls_in
from conversations.domain.messages import NewMessage, Role
from memoryhub.api.fields import AgentIdField, ItemsField, ObjectField, TextField, UserIdField
from memoryhub.llm.client import llm_provider
from memoryhub.llm.types import Constraints

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
        if isinstance(calls := known.get("tool_calls"), list):
            known["tool_calls"] = [_pick(each, "id", "type", "function") for each in calls]
        return super().to_internal_value(known | ({"author": data["name"]} if data.get("name") else {}))

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["role"] == Role.TOOL and attrs["tool_call_id"] is None:
            raise ValidationError({"tool_call_id": ["This field is required."]})
        return super().validate(attrs)


def _pick(data: Any, *names: str) -> Any:
    return {name: data[name] for name in names if name in data} if isinstance(data, dict) else data


class CompletionMessagesField(ItemsField):
    """Messages without empty ones: an answer that was stopped before its first word."""

    child = CompletionMessageIn()

    def to_internal_value(self, data: Any) -> list[NewMessage]:
        said = [each for each in data if not _is_blank(each)] if isinstance(data, list) else data
        messages: list[NewMessage] = []
        for values in super().to_internal_value(said):
            message = MessageIn.message(values)
            if message.role == Role.TOOL and messages and messages[-1].role == Role.TOOL:
                message = NewMessage(
                    role=Role.TOOL, content="", blocks=[*(messages.pop().blocks or ()), *(message.blocks or ())]
                )
            messages.append(message)
        return messages


def _is_blank(message: Any) -> bool:
    if not isinstance(message, dict) or message.get("tool_calls") or message.get("role") == Role.TOOL:
        return False
    content = message.get("content")
    return content in (None, []) or (isinstance(content, str) and not content.strip())


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
    """`auto`, `none`, `required`, or the name of one tool."""

    def to_internal_value(self, data: Any) -> str:
        if isinstance(data, str) and data in ("auto", "none", "required"):
            return data
        function = data.get("function") if isinstance(data, dict) and data.get("type") == "function" else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise ValidationError("Send auto, none, required, or a function in OpenAI's form.")
        return str(function["name"])


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
        if values["tool_choice"] == "none":
            values["tools"] = None
        names = [tool["name"] for tool in values["tools"] or ()]
        if len(names) > len(set(names)):
            raise ValidationError({"tools": ["Two tools have the same name."]})
        values["constraints"] = _constraints(values, names)
        return values

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the values with `instructions`, `history` and `asked` in place of the messages."""
        messages: list[NewMessage] = attrs.pop("messages")
        attrs["instructions"] = "\n\n".join(each.content for each in messages if each.role == Role.SYSTEM)
        history = [each for each in messages if each.role != Role.SYSTEM]
        asked = history.pop() if history else None
        if asked is None or asked.role == Role.ASSISTANT:
            raise ValidationError({"messages": ["The last message must be a user's, or the result of a tool."]})
        if asked.role == Role.USER and not asked.content.strip():
            raise ValidationError({"messages": ["The last message must hold a text."]})
        if asked.role == Role.TOOL:
            _check_results(asked, history, has_tools=bool(attrs["tools"]))
        return {**attrs, "history": history, "asked": asked}


def _constraints(values: dict[str, Any], tools: Sequence[str]) -> Constraints:
    """Take what constrains the answer out of the values. Raises ValidationError for what the provider cannot do."""
    choice, shape = values.pop("tool_choice") or "auto", values.pop("response_format")
    is_described = {"auto": True, "none": True, "required": bool(tools)}
    if not is_described.get(choice, choice in tools):
        raise ValidationError({"tool_choice": ["Describe the tool in `tools`."]})
    is_parallel = values.pop("parallel_tool_calls") is not False
    constraints = Constraints(
        stop=tuple(values.pop("stop") or ()),
        response_format=shape if shape and shape["type"] != "text" else None,
        tool_choice=choice if tools else "auto",
        parallel_tool_calls=is_parallel or not tools,
    )
    provider = llm_provider()
    if unmet := provider.unsupported(constraints):
        raise ValidationError({name: [f"The provider ({provider.name}) cannot do this."] for name in unmet})
    return constraints


def _check_results(asked: NewMessage, history: list[NewMessage], *, has_tools: bool) -> None:
    """Raise ValidationError unless results answer calls of the message before them, and the tools are described."""
    calls = {call["id"] for call in calls_in(history[-1].blocks)} if history else set()
    if unknown := [each for each in asked.blocks or () if each["tool_use_id"] not in calls]:
        about = f"No call before it has the id {unknown[0]['tool_use_id']}."
        raise ValidationError({"messages": [about]})
    if not has_tools:
        raise ValidationError({"tools": ["Send the tools with their results as well."]})
