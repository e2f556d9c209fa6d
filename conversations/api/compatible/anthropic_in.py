"""Validate requests in the form of Anthropic's Messages, and convert them to the parts of a question."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from conversations.api.blocks import BLOCK_FIELDS, ToolIn
from conversations.api.compatible.openai_in import MAX_MESSAGES, check_results, tools_and_constraints
from conversations.api.serializers import MAX_TOOLS, MessageIn
from conversations.domain.messages import NewMessage, Role, text_of_blocks
from memoryhub.api.fields import AgentIdField, ItemsField, ObjectField, TextField
from memoryhub.llm.types import Constraints

CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
MAX_STOPS: Final = 100

_SESSION: Final = re.compile(r"session_([0-9a-f-]{36})\Z")
"""In the `metadata.user_id` of Claude Code, which is no user of ours."""


class MessagesField(ItemsField):
    """Messages in Anthropic's form; results of tools become messages of their own before the text beside them."""

    child = MessageIn()

    def to_internal_value(self, data: Any) -> list[NewMessage]:
        said = [_message(each) for each in data] if isinstance(data, list) else data
        found: list[NewMessage] = []
        for values in super().to_internal_value([each for each in said if each] if isinstance(said, list) else said):
            found += _with_results_apart(MessageIn.message(values))
        return found


def _message(message: Any) -> Any:
    """Return a message with the known fields of its blocks, without blank ones; None where nothing is left."""
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    if isinstance(content, list):
        content = _blocks(content)
    is_blank = not content or (isinstance(content, str) and not content.strip())
    return None if is_blank else {"role": message.get("role"), "content": content}


def _blocks(content: Sequence[Any]) -> list[Any]:
    kept = []
    for block in content:
        if isinstance(block, dict) and (kind := str(block.get("type"))) == "document":
            block = {"type": "file", "name": str(block.get("title") or "document")[:255]}
        elif isinstance(block, dict) and kind in BLOCK_FIELDS:
            names = {"type", *BLOCK_FIELDS[kind][0], *BLOCK_FIELDS[kind][1]}
            block = {name: value for name, value in block.items() if name in names}
            if isinstance(block.get("content"), list):
                block["content"] = _blocks(block["content"])
        if not (isinstance(block, dict) and block.get("type") == "text" and not str(block.get("text") or "").strip()):
            kept.append(block)
    return kept


def _with_results_apart(message: NewMessage) -> list[NewMessage]:
    results = [block for block in message.blocks or () if block["type"] == "tool_result"]
    if message.role != Role.USER or not results:
        return [message]
    others = [block for block in message.blocks or () if block["type"] != "tool_result"]
    text = text_of_blocks(others)
    return [
        NewMessage(role=Role.TOOL, content="", blocks=results),
        NewMessage(role=Role.USER, content=text, blocks=others, author=message.author),
    ]


class CountIn(serializers.Serializer):
    """A conversation in Anthropic's form. Fields that are not named here are ignored."""

    model = AgentIdField()
    messages = MessagesField(max_length=MAX_MESSAGES)
    tools = ItemsField(child=ToolIn(), required=False, allow_null=True, max_length=MAX_TOOLS, default=None)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if isinstance(data, Mapping) and isinstance(data.get("tools"), list):
            data = {**data, "tools": [_tool(each) for each in data["tools"]]}
        values: dict[str, Any] = super().to_internal_value(data)
        values["raw_tools"] = values["tools"] or []
        said = [message for message in values["messages"] if message.role != Role.SYSTEM]
        # Claude Code sends instructions as messages, too.
        between = [message.content for message in values["messages"] if message.role == Role.SYSTEM]
        instructions = "\n\n".join(filter(None, [_system(data.get("system")), *between]))
        return {**values, "messages": said, "instructions": instructions}


def _tool(tool: Any) -> Any:
    """Return a tool that the client runs, with its known fields; one that Anthropic runs as it is, to be refused."""
    if not isinstance(tool, dict) or tool.get("type") not in (None, "custom"):
        return tool
    return {name: tool[name] for name in ("name", "description", "input_schema") if tool.get(name) is not None}


def _system(system: Any) -> str:
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system or []
    if not isinstance(blocks, list) or not all(isinstance(each, dict) for each in blocks):
        raise ValidationError({"system": ["Send a text, or a list of text blocks."]})
    return "\n\n".join(str(each.get("text")) for each in blocks if each.get("text"))


class MessagesIn(CountIn):
    """A request for a message."""

    max_tokens = serializers.IntegerField(min_value=1)
    metadata = ObjectField(required=False, allow_null=True, default=None)
    stream = serializers.BooleanField(required=False, allow_null=True, default=False)
    stop_sequences = ItemsField(
        child=TextField(max_length=1_000, trim_whitespace=False),
        required=False,
        allow_null=True,
        max_length=MAX_STOPS,
        default=None,
    )
    tool_choice = ObjectField(required=False, allow_null=True, default=None)
    output_config = ObjectField(required=False, allow_null=True, default=None)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        values = super().to_internal_value(data)
        choice, output = values.pop("tool_choice") or {}, values.pop("output_config") or {}
        shape, effort = output.get("format"), output.get("effort")
        has_schema = isinstance(shape, dict) and isinstance(shape.get("schema"), dict)
        if shape is not None and not has_schema:
            raise ValidationError({"output_config": ["Send a format of the type json_schema with its schema."]})
        schema = {"name": "answer", "schema": shape["schema"]} if shape and has_schema else None
        chosen = CHOICES.get(str(choice.get("type", "auto")), choice.get("name"))
        if not isinstance(chosen, str):
            raise ValidationError({"tool_choice": ["The type must be auto, any, tool with a name, or none."]})
        values["tools"], values["constraints"] = tools_and_constraints(
            tools=values["tools"] or [],
            choice=chosen,
            constraints=Constraints(
                stop=tuple(values.pop("stop_sequences") or ()),
                response_format={"type": "json_schema", "json_schema": schema} if schema else None,
                parallel_tool_calls=not choice.get("disable_parallel_tool_use"),
                sampling={"reasoning_effort": effort} if isinstance(effort, str) else {},
            ),
        )
        return values

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the values with `user` and `session` in place of the metadata."""
        named = str((attrs.pop("metadata") or {}).get("user_id") or "")
        session = _session_in(named)
        check_results(attrs["messages"], field="messages")
        return {**attrs, "user": None if session else named or None, "session": session}


def _session_in(user_id: str) -> str | None:
    """Return the session in a `metadata.user_id` of Claude Code: a JSON object, or a text that ends with it."""
    try:
        described = json.loads(user_id)
    except (ValueError, RecursionError):
        described = None
    if isinstance(described, dict):
        name = str(described.get("session_id") or "").encode("utf-8", "replace").decode()
        return name or None
    found = _SESSION.search(user_id)
    return found[1] if found else None
