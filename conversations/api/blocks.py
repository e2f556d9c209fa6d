"""Blocks of messages in the forms of both vendors, brought to the neutral one (`conversations.domain.layers.Block`)."""

import re
from collections.abc import Sequence
from typing import Any, Final

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import Direction
from rest_framework import serializers

from conversations.domain.formats import IMAGE_TYPES
from conversations.domain.messages import Role, text_of_blocks
from memoryhub.api.fields import ObjectField, OneOf, PatternField, StrictSerializer, TextField, URLField
from memoryhub.look_alikes import is_blank
from memoryhub.validators import UnusableJSON, parse_mended_json

MAX_TEXT_LENGTH: Final = 1_000_000
MAX_DATA_LENGTH: Final = 7_000_000
"""Of base64, which is 5 MB (of 2²⁰ bytes) of an image."""

MAX_ID_LENGTH: Final = 255
MAX_BLOCKS: Final = 1_000

BLOCK_FIELDS: Final = {
    "text": ({"text"}, {"citations"}),
    "image": (set(), {"name", "media_type", "url", "data", "source"}),
    "image_url": ({"image_url"}, set()),
    "file": (set(), {"name", "media_type", "url", "data"}),
    "tool_use": ({"id", "name", "input"}, {"caller", "toolset_name"}),
    "tool_result": ({"tool_use_id"}, {"content", "is_error", "toolset_name"}),
    "thinking": ({"thinking", "signature"}, set()),
    "redacted_thinking": ({"data"}, set()),
}
"""Required and optional fields of each type."""

IGNORED_FIELDS: Final = ("cache_control", "citations", "caller", "toolset_name")
"""Fields of answers that clients send back as they got them, and that say nothing about what was said."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_DATA_ADDRESS: Final = re.compile(r"data:(?P<media_type>[\w.+-]+/[\w.+-]+);base64,(?P<data>.*)", re.DOTALL)


TOOL_NAME: Final = r"^[a-zA-Z0-9_-]{1,128}$"


class ToolNameField(PatternField):
    """Name of a tool, as both vendors allow it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(TOOL_NAME, allowed="1 to 128 letters a-z or A-Z, digits, - or _", max_length=128, **kwargs)


class BlockIn(StrictSerializer):
    """One block of a message: text, an image or a file, a call of a tool or its result, thinking."""

    type = OneOf(choices=list(BLOCK_FIELDS))
    text = TextField(required=False, allow_blank=True, max_length=MAX_TEXT_LENGTH)
    name = TextField(required=False, max_length=255)
    media_type = PatternField(
        r"^[\w.+-]+/[\w.+-]+$", allowed="a media type such as image/png", required=False, max_length=100
    )
    url = URLField(required=False, max_length=2000)
    image_url = serializers.JSONField(required=False, help_text='OpenAI\'s form of an image: `{"url": …}`.')
    id = TextField(required=False, max_length=MAX_ID_LENGTH)
    input = ObjectField(required=False, max_bytes=MAX_TEXT_LENGTH)
    tool_use_id = TextField(required=False, max_length=MAX_ID_LENGTH)
    content = serializers.JSONField(required=False, help_text="Of a result: a text, or blocks of text and images.")
    is_error = serializers.BooleanField(required=False, allow_null=True)
    thinking = TextField(required=False, allow_blank=True, max_length=MAX_TEXT_LENGTH)
    signature = TextField(required=False, allow_blank=True, max_length=MAX_TEXT_LENGTH)
    citations = serializers.JSONField(required=False, allow_null=True, help_text="Not kept.")
    caller = serializers.JSONField(required=False, allow_null=True, help_text="Not kept.")
    toolset_name = serializers.JSONField(required=False, allow_null=True, help_text="Not kept.")
    cache_control = serializers.JSONField(required=False, allow_null=True, help_text="Not kept.")

    def get_fields(self) -> dict[str, serializers.Field]:
        data = TextField(required=False, max_length=MAX_DATA_LENGTH)
        source = serializers.JSONField(required=False, help_text="Anthropic's form of an image.")
        return {**super().get_fields(), "data": data, "source": source}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the block in neutral form."""
        kind = attrs["type"]
        required, allowed = BLOCK_FIELDS[kind]
        names = set(attrs) - {"type", "cache_control"}
        article = "An" if kind[0] in "aeiou" else "A"
        if missing := sorted(required - names):
            raise serializers.ValidationError({missing[0]: [f"{article} {kind} block needs it."]})
        if unexpected := sorted(names - required - allowed):
            raise serializers.ValidationError({unexpected[0]: [f"{article} {kind} block has none."]})
        block = {name: value for name, value in attrs.items() if name not in IGNORED_FIELDS}
        if kind in ("image", "file", "image_url"):
            return _reference(block)
        if kind == "tool_use" and not re.match(TOOL_NAME, block["name"]):
            raise serializers.ValidationError({"name": [ToolNameField().error_messages["invalid"]]})
        if kind == "text" and is_blank(block["text"]):
            raise serializers.ValidationError({"text": ["must hold more than white space."]})
        return _result(block) if kind == "tool_result" else block


def _reference(block: dict[str, Any]) -> dict[str, Any]:
    """Return an image or a file with `url`, or `media_type` and `data`. Raises ValidationError."""
    source = block.pop("source", None)
    if source is not None:
        values = source if isinstance(source, dict) else {}
        names = {"url": ["url"], "base64": ["media_type", "data"]}.get(str(values.get("type")))
        if names is None or any(not isinstance(values.get(name), str) for name in names):
            raise serializers.ValidationError({"source": ["must be of the type base64 or url."]})
        block |= _checked({name: values[name] for name in names})
    if "image_url" in block:
        image_url = block.pop("image_url")
        address = image_url.get("url") if isinstance(image_url, dict) else image_url
        inline = _DATA_ADDRESS.fullmatch(address) if isinstance(address, str) else None
        block |= {"type": "image", **_checked(inline.groupdict() if inline else {"url": address})}
    if "data" in block and not _BASE64.fullmatch(block["data"]):
        raise serializers.ValidationError({"data": ["must be base64 without white space or a data: prefix."]})
    if (source is not None or block["type"] == "image_url") and block.get("media_type", "image/png") not in IMAGE_TYPES:
        raise serializers.ValidationError({"media_type": ["must be an image's."]})
    return block


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    """Return fields as they are checked where they stand in the block itself. Raises ValidationError."""
    inner = BlockIn(data={"type": "image", **values})
    inner.is_valid(raise_exception=True)
    return {name: inner.validated_data[name] for name in values}


def _result(block: dict[str, Any]) -> dict[str, Any]:
    """Return a result whose content is a text, or blocks of text and images. Raises ValidationError."""
    content = block.pop("content", None)
    if not block.get("is_error"):
        block.pop("is_error", None)
    if content is None or content in ("", []):
        return {**block, "content": ""}
    if isinstance(content, str):
        if len(content) > MAX_TEXT_LENGTH:
            raise serializers.ValidationError({"content": [f"must have at most {MAX_TEXT_LENGTH} characters."]})
        return {**block, "content": content}
    parts = ContentField().run_validation(content)
    if {part["type"] for part in parts} - {"text", "image"}:
        raise serializers.ValidationError({"content": ["must be a text, or blocks of text and images."]})
    return {**block, "content": parts}


class ContentField(serializers.Field):
    """A message's content: a text, or a list of blocks."""

    default_error_messages = {
        "kind": "must be a text, or a list of 1 to 1,000 blocks.",
        "empty": "must hold more than white space.",
        "long": f"must have at most {MAX_TEXT_LENGTH} characters.",
    }

    def __init__(self, *, allow_blank: bool = False, **kwargs: Any) -> None:
        self.allow_blank = allow_blank
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> str | list[dict[str, Any]]:
        if isinstance(data, str):
            return self._text(data)
        if not isinstance(data, list) or not 0 < len(data) <= MAX_BLOCKS:
            self.fail("kind")
        blocks = BlockIn(data=data, many=True)
        blocks.is_valid(raise_exception=True)
        return [dict(block) for block in blocks.validated_data]

    def to_representation(self, value: Any) -> Any:
        return value

    def _text(self, text: str) -> str:
        if is_blank(text) and not self.allow_blank:
            self.fail("empty")
        if len(text) > MAX_TEXT_LENGTH:
            self.fail("long")
        return text


class ContentDescription(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """Says in the interface's description what a content's blocks are."""

    target_class = ContentField
    match_subclasses = True

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Direction) -> dict[str, Any]:
        block = auto_schema.resolve_serializer(BlockIn, direction)
        blocks = {"type": "array", "items": block.ref, "minItems": 1, "maxItems": MAX_BLOCKS}
        return {"oneOf": [{"type": "string", "maxLength": MAX_TEXT_LENGTH}, blocks]}


class FunctionIn(StrictSerializer):
    """The function that a model calls, in OpenAI's form."""

    name = ToolNameField()
    arguments = TextField(allow_blank=True, max_length=MAX_TEXT_LENGTH, help_text="JSON of an object.")


class ToolCallIn(StrictSerializer):
    """A call of a tool in OpenAI's form."""

    id = TextField(max_length=MAX_ID_LENGTH)
    type = OneOf(choices=["function"], default="function")
    function = FunctionIn()


def placement_error(role: Role, content: Any, *, has_calls: bool, has_result: bool) -> dict[str, list[str]] | None:
    """Return an error for content that the role may not have: only assistants call tools, only others bring results."""
    kinds = {block["type"] for block in content} if isinstance(content, list) else set()
    if content is None and not has_calls:
        return {"content": ["This field is required."]}
    if isinstance(content, str) and is_blank(content) and not has_calls and not has_result:
        return {"content": ["must hold more than white space."]}
    if has_calls and role != Role.ASSISTANT:
        return {"tool_calls": ["Only an assistant calls tools."]}
    if has_result and role != Role.TOOL:
        return {"tool_call_id": ["Only a message of the role tool answers a call."]}
    if kinds & {"tool_use", "thinking", "redacted_thinking"} and role != Role.ASSISTANT:
        return {"content": ["Only an assistant's message has tool_use or thinking blocks."]}
    if "tool_result" in kinds and (role not in (Role.USER, Role.TOOL) or has_result):
        return {"content": ["Only a user's or a tool's message has tool_result blocks."]}
    return None


def text_and_blocks(
    content: Any, tool_calls: Sequence[dict[str, Any]] | None = None, tool_call_id: str | None = None
) -> tuple[str, list[dict[str, Any]] | None]:
    """Return a message's text, and its neutral blocks where it is more than text. Raises ValidationError."""
    if tool_call_id is not None:
        return "", [{"type": "tool_result", "tool_use_id": tool_call_id, "content": content}]
    blocks = content if isinstance(content, list) else None
    if tool_calls:
        if isinstance(content, str):
            content = [{"type": "text", "text": content}] if content.strip() else []
        text_blocks = content or []
        blocks = [*text_blocks, *map(_call, tool_calls)]
    return text_of_blocks(blocks) if blocks is not None else content, blocks


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    try:
        arguments, _replaced = parse_mended_json((function["arguments"].strip() or "{}").encode())
    except UnusableJSON:
        arguments = None
    if not isinstance(arguments, dict):
        # Malformed arguments written by a model are accepted; otherwise its answer could not be stored.
        arguments = {"arguments": function["arguments"]}
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}


class ToolIn(StrictSerializer):
    """A tool that the model may call, in Anthropic's form or, with `function`, in OpenAI's."""

    type = OneOf(choices=["function", "custom"], required=False, allow_null=True)
    name = ToolNameField(required=False)
    description = TextField(required=False, allow_blank=True, max_length=20_000, default="")
    input_schema = ObjectField(required=False)
    function = serializers.JSONField(
        required=False, help_text='OpenAI\'s form: `{"name", "description"?, "parameters"?}`.'
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "function" in attrs:
            function = attrs["function"] if isinstance(attrs["function"], dict) else {}
            inner = {name: function[name] for name in ("name", "description") if function.get(name) is not None}
            schema = {"input_schema": function["parameters"]} if function.get("parameters") is not None else {}
            tool = ToolIn(data={**inner, **schema})
            tool.is_valid(raise_exception=True)
            return dict(tool.validated_data)
        if "name" not in attrs:
            raise serializers.ValidationError({"name": ["This field is required."]})
        schema = attrs.get("input_schema") or {"type": "object", "properties": {}}
        if schema.get("type") != "object":
            raise serializers.ValidationError({"input_schema": ["must be a JSON Schema of the type object."]})
        return {"name": attrs["name"], "description": attrs["description"], "input_schema": schema}


class ToolResultIn(StrictSerializer):
    """The result of a tool that the last answer called."""

    tool_use_id = TextField(max_length=MAX_ID_LENGTH)
    content = serializers.JSONField(help_text="A text, or blocks of text and images.")
    is_error = serializers.BooleanField(default=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        return _result({"type": "tool_result", **attrs})
