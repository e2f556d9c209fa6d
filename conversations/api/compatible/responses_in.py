"""Bring requests in the form of OpenAI's Responses to the form of chat completions."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rest_framework.exceptions import ValidationError

from conversations.domain.messages import Role

SAME_NAMES: Final = ("model", "user", "metadata", "stream", "temperature", "top_p", "parallel_tool_calls")
PART_TYPES: Final = {"input_text": "text", "output_text": "text", "text": "text"}


CALL_TYPES: Final = {"function": "function_call", "custom": "custom_tool_call"}
FREE_TEXT: Final = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
"""Parameters of a tool that takes a text instead of JSON: chat completions have functions alone."""

OWN_MEMBERS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""The member of a call that holds what the tool is called with, by the call's type."""


HOSTED: Final = re.compile("[a-z0-9_]{1,40}")
"""The type of a tool that OpenAI runs; it is named in a header. Other types are refused."""


@dataclass
class ClientTools:
    """The tools of a request as functions, and what a call of each is for the client.

    `left_out` are the types of tools that OpenAI runs itself, such as its web search.
    """

    functions: list[Any] = field(default_factory=list)
    calls: dict[str, dict[str, str]] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)

    def add(self, tools: Iterable[Any], namespace: str | None = None) -> None:
        for tool in tools:
            match mapping(tool).get("type"):
                case "function" | "custom" as kind:
                    function = {name: tool.get(name) for name in ("name", "description", "parameters")}
                    function["name"] = _joined(namespace, function["name"])
                    if kind == "custom":
                        grammar = mapping(tool.get("format")).get("definition")
                        described = filter(None, (function["description"], grammar))
                        function |= {"parameters": FREE_TEXT, "description": "\n\n".join(map(str, described))}
                    self.functions.append({"type": "function", "function": function})
                    of_client = {"name": tool.get("name"), **({"namespace": namespace} if namespace else {})}
                    self.calls[str(function["name"])] = {"type": CALL_TYPES[kind], **of_client}
                case "namespace" if isinstance(tool.get("tools"), list) and isinstance(tool.get("name"), str):
                    self.add(tool["tools"], tool["name"])
                case str() as kind if HOSTED.fullmatch(kind):
                    self.left_out.add(kind)
                case _:
                    self.functions.append(tool)  # refused as a chat completion's

    def call_item(self, call: Mapping[str, Any], item_id: str) -> dict[str, Any]:
        """Return a call of a function as the item that the client knows."""
        of_client = self.calls.get(call["name"], {"type": "function_call", "name": call["name"]})
        values = call["input"]
        text = values.get("input") if of_client["type"] == "custom_tool_call" else None
        given = text if isinstance(text, str) else json.dumps(values, ensure_ascii=False)
        named = {"id": item_id, "status": "completed", "call_id": call["id"]}
        return {**named, **of_client, OWN_MEMBERS[of_client["type"]]: given}


def _joined(namespace: Any, name: Any) -> Any:
    return f"{namespace}__{name}" if namespace and isinstance(name, str) else name


def completion_body(data: Mapping[str, Any], tools: ClientTools) -> dict[str, Any]:
    """Return a request in the form of chat completions. Raises ValidationError for items of other kinds."""
    text, reasoning = mapping(data.get("text")), mapping(data.get("reasoning"))
    body = {name: data[name] for name in SAME_NAMES if name in data}
    body |= {"max_completion_tokens": data.get("max_output_tokens"), "verbosity": text.get("verbosity")}
    body |= {"reasoning_effort": reasoning.get("effort"), "tool_choice": _choice(data.get("tool_choice"))}
    if isinstance(given := data.get("tools"), list):
        tools.add(given)
        body["tools"] = tools.functions
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


def is_codex_task(data: Mapping[str, Any]) -> bool:
    """Return whether Codex describes a request as its own: a title, a compaction, a turn of a subagent."""
    described = mapping(data.get("client_metadata")).get("x-codex-turn-metadata")
    try:
        about = mapping(json.loads(described)) if isinstance(described, str) else {}
    except (ValueError, RecursionError):
        about = {}
    return (about.get("request_kind", "turn"), about.get("thread_source", "user")) != ("turn", "user")


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _choice(choice: Any) -> Any:
    """Return a choice of a tool with a namespace, or of one that takes a text, as that of the function in its place."""
    values = mapping(choice)
    if values.get("type") not in ("function", "custom") or not isinstance(values.get("name"), str):
        return choice
    return {"type": "function", "name": _joined(values.get("namespace"), values["name"])}


def _messages(items: Sequence[Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for place, item in enumerate(items):
        values = mapping(item)
        match values.get("type", "message"):
            case "message":
                messages.append({"role": values.get("role"), "content": _content(values.get("content"))})
            case "function_call" | "custom_tool_call" as kind:
                given = values.get(OWN_MEMBERS[kind])
                arguments = json.dumps({"input": given}) if kind == "custom_tool_call" else given or "{}"
                function = {"name": _joined(values.get("namespace"), values.get("name")), "arguments": arguments}
                call = {"id": values.get("call_id"), "type": "function", "function": function}
                if not messages or messages[-1]["role"] != Role.ASSISTANT:
                    messages.append({"role": Role.ASSISTANT.value, "content": None})
                messages[-1]["tool_calls"] = [*messages[-1].get("tool_calls", ()), call]
            case "function_call_output" | "custom_tool_call_output":
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
