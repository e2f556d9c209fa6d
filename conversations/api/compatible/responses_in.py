"""Bring requests in the form of OpenAI's Responses to the form of chat completions."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rest_framework.exceptions import ValidationError

from conversations.domain.messages import Role

SAME_NAMES: Final = ("model", "user", "metadata", "stream", "temperature", "top_p", "parallel_tool_calls")
PART_TYPES: Final = {"input_text": "text", "output_text": "text", "text": "text"}


def completion_body(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request in the form of chat completions. Raises ValidationError for items of other kinds."""
    text, reasoning = mapping(data.get("text")), mapping(data.get("reasoning"))
    body = {name: data[name] for name in SAME_NAMES if name in data}
    body |= {"max_completion_tokens": data.get("max_output_tokens"), "verbosity": text.get("verbosity")}
    body |= {"reasoning_effort": reasoning.get("effort"), "tool_choice": data.get("tool_choice")}
    if isinstance(tools := data.get("tools"), list):
        body["tools"] = [_tool(each) for each in tools]
    if (shape := mapping(text.get("format"))).get("type") == "json_schema":
        described = {name: value for name, value in shape.items() if name != "type"}
        body["response_format"] = {"type": "json_schema", "json_schema": described}
    elif shape:
        body["response_format"] = shape
    given = data.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list):
        raise ValidationError({"input": ["Send a text, or a list of items."]})
    body["messages"] = _messages(items)
    if instructions := data.get("instructions"):
        body["messages"].insert(0, {"role": "system", "content": instructions})
    return body


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _tool(tool: Any) -> Any:
    """Return a function in the form of chat completions; other tools as they are, which are refused there."""
    if not isinstance(tool, dict) or tool.get("type") != "function":
        return tool
    return {"type": "function", "function": {name: tool.get(name) for name in ("name", "description", "parameters")}}


def _messages(items: Sequence[Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for place, item in enumerate(items):
        values = mapping(item)
        match values.get("type", "message"):
            case "message":
                messages.append({"role": values.get("role"), "content": _content(values.get("content"))})
            case "function_call":
                function = {"name": values.get("name"), "arguments": values.get("arguments") or "{}"}
                call = {"id": values.get("call_id"), "type": "function", "function": function}
                if not messages or messages[-1]["role"] != Role.ASSISTANT:
                    messages.append({"role": Role.ASSISTANT.value, "content": None})
                messages[-1]["tool_calls"] = [*messages[-1].get("tool_calls", ()), call]
            case "function_call_output":
                result = {"tool_call_id": values.get("call_id"), "content": _content(values.get("output"))}
                messages.append({"role": Role.TOOL.value, **result})
            case "reasoning":  # the vendor's own, which only it can read
                continue
            case kind:
                raise ValidationError({f"input.{place}": [f"Items of the type {kind!s:.50} are not supported."]})
    return messages


def _content(content: Any) -> Any:
    return [_part(each) for each in content] if isinstance(content, list) else content


def _part(part: Any) -> Any:
    values = mapping(part)
    kind = str(values.get("type"))
    if kind in PART_TYPES:
        return {"type": "text", "text": values.get("text")}
    if kind == "input_image":
        return {"type": "image_url", "image_url": {"url": values.get("image_url")}}
    if kind == "input_file":
        return {"type": "file", "file": {"filename": values.get("filename") or values.get("file_url")}}
    return part
