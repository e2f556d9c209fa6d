"""A real HTTP server on loopback that speaks both vendors' ways of asking a language model.

Anthropic's `/v1/messages` (JSON and SSE) and `/v1/messages/count_tokens`, OpenAI's `/v1/chat/completions` (JSON and
SSE), `/v1/models` of both, and `/v1/embeddings` as `embeddings_server` has it. What it answers is scripted:

    with LLMServer() as server:
        server.answer(Reply("Good morning."))             # from now on
        server.then(Reply(failure="529"), Reply("Hello")) # first these, in order
        … two requests
        assert server.asked[0].system == "You are …"

A callable in place of a Reply gets the Asked and returns the Reply. Requests that a vendor would refuse are refused
with 400: unknown parameters, empty texts, no key, schemas that leave objects open.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Literal
from urllib.parse import urlsplit

from memoryhub.llm.tokens import count_raw
from tests.fakes import embeddings_server
from tests.fakes.embeddings_server import EmbeddingsServer

Vendor = Literal["anthropic", "openai"]
JSON = {"Content-Type": "application/json"}
SSE = {"Content-Type": "text/event-stream; charset=utf-8"}
SECRET = "SECRET TEXT OF A USER"
"""What the vendors' error messages quote here, so that a test can see that it goes nowhere."""

WRONG_KEY = "wrong-key"
"""The one key that is refused, as none is; both vendors' SDKs send it as a bearer token."""

STATUSES: Mapping[str, tuple[int, str, dict[str, str]]] = {
    "400": (400, "invalid_request_error", {}),
    "401": (401, "authentication_error", {}),
    "403": (403, "permission_error", {}),
    "404": (404, "not_found_error", {}),
    "413": (413, "request_too_large", {}),
    "429": (429, "rate_limit_error", {}),
    "500": (500, "api_error", {}),
    "503": (503, "api_error", {}),
    "529": (529, "overloaded_error", {}),
    "retry_after_1": (429, "rate_limit_error", {"Retry-After": "1"}),
    "retry_after_9": (429, "rate_limit_error", {"Retry-After": "9"}),
    "retry_after_3600": (429, "rate_limit_error", {"Retry-After": "3600"}),
    "billing": (402, "billing_error", {}),
    "quota": (429, "insufficient_quota", {}),
}
"""Failures that are a status and nothing else, before anything is streamed."""

WHOLE_BODIES = ("html", "not_json", "timeout", "trickle", "huge")
"""Failures that look alike whether a stream was asked for or not."""

SHAPES = (
    "cut_stream",
    "dropped",
    "dropped_at_once",
    "empty",
    "max_tokens",
    "missing_fields",
    "overload_in_stream",
    "refusal",
    "stall",
    "truncated_json",
    "truncated_text",
    "wrong_schema",
)
"""Failures inside of what looks like an answer."""

FAILURES = (*STATUSES, *WHOLE_BODIES, *SHAPES)

OPENAI_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "refusal": "content_filter",
    "tool_use": "tool_calls",
}
ANTHROPIC_PARAMETERS = {
    *("model", "messages", "max_tokens", "system", "stream", "output_config", "metadata", "thinking"),
    *("stop_sequences", "service_tier", "cache_control", "tools", "tool_choice"),
}
OPENAI_PARAMETERS = {
    *("model", "messages", "max_tokens", "max_completion_tokens", "stream", "stream_options", "response_format"),
    *("metadata", "store", "user", "reasoning_effort", "temperature", "tools", "tool_choice"),
    *("stop", "parallel_tool_calls", "top_p", "seed", "frequency_penalty", "presence_penalty", "verbosity"),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as it came in, both vendors' forms brought to one."""

    vendor: Vendor
    model: str
    system: str
    messages: list[dict[str, Any]]
    """As they were sent, without the system message of OpenAI's form."""
    text: str
    """The text of all user messages, joined by line feeds."""
    schema: dict[str, Any] | None
    max_tokens: int | None
    stream: bool
    headers: dict[str, str] = field(repr=False)
    """Names in lower case."""
    body: dict[str, Any] = field(repr=False)
    path: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, or one way to fail."""

    text: str = ""
    data: Any = None
    """Written as JSON in place of the text."""
    calls: Sequence[tuple[str, str, Any]] = ()
    """Calls of tools after the text: id, name, input; an input that is a text is written as it is."""
    thinking: str = ""
    """What Anthropic's model thinks before its text, with the signature `signed`."""
    input_tokens: int | None = None
    """All that was read; counted by the server where None. -1: no usage is told."""
    output_tokens: int | None = None
    cached_tokens: int = 0
    """How many of the input tokens came from the vendor's cache."""
    cache_written_tokens: int = 0
    """How many of the input tokens went into it; Anthropic alone tells that."""
    stop: str | None = "end_turn"
    failure: str | None = None
    delay_seconds: float = 0.0
    pieces: Sequence[str] | None = None
    """The text as it is streamed; cut every few characters where None."""
    piece_delay_seconds: float = 0.0
    go_on: Event | None = None
    """What every piece but the first waits for."""
    last_word: bool = True
    """Whether a stream ends with `message_stop` or `[DONE]`; some compatible servers forget it."""

    def __post_init__(self) -> None:
        if self.failure is not None and self.failure not in FAILURES:
            raise ValueError(f"The fake knows no failure {self.failure!r}: {', '.join(FAILURES)}.")

    @property
    def whole(self) -> str:
        """All of the text, before any failure."""
        if self.pieces is not None:
            return "".join(self.pieces)
        return self.text if self.data is None else json.dumps(self.data, ensure_ascii=False)


Answer = Reply | Callable[[Asked], Reply]


class LLMServer(EmbeddingsServer):
    """Context manager around the server; `url` is for Anthropic's client, `base_url` (with /v1) for OpenAI's."""

    def __init__(self, *, dimension: int = 8, key: str = "test-key") -> None:
        super().__init__(dimension=dimension, key=key)
        self.asked: list[Asked] = []
        self.counted: list[Asked] = []
        """What count_tokens was asked for; it does not stand in `asked`."""
        self.json_forms: frozenset[str] = frozenset({"text", "json_object", "json_schema"})
        """The types of `response_format` that are taken."""
        self.listings: deque[Reply] = deque()
        """What the next requests for the list of models get in place of it."""
        self.documents: dict[str, Any] = {}
        """JSON documents at other paths, in which servers report their context window, also in place of `/v1/models`."""
        self.count: Callable[[str], int] = count_raw
        """How the vendor counts tokens; replace it to calibrate."""
        self._standing: Answer = plain
        self._first: deque[Answer] = deque()
        self._server.RequestHandlerClass = _Handler
        self._server.socket.listen(256)

    def answer(self, answer: Answer) -> None:
        """Answer so from now on."""
        self._standing = answer

    def then(self, *answers: Answer) -> None:
        """Answer the next questions with these, in order, before the standing answer."""
        self._first.extend(answers)

    def reply_to(self, asked: Asked) -> Reply:
        """Note a question and return what is answered to it."""
        self.asked.append(asked)
        try:
            answer = self._first.popleft()
        except IndexError:
            answer = self._standing
        return answer if isinstance(answer, Reply) else answer(asked)

    def size_of(self, asked: Asked) -> int:
        """Return a question's input tokens as this vendor counts."""
        said = [text for message in asked.messages for text in _texts(message["content"])]
        return sum(map(self.count, [asked.system, *said]))


def plain(asked: Asked) -> Reply:
    """Return a short answer, or the smallest document that the schema allows."""
    return Reply("Understood.") if asked.schema is None else Reply(data=smallest(asked.schema))


def smallest(schema: Mapping[str, Any]) -> Any:
    """Return the smallest document that a plain schema allows."""
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    if "anyOf" in schema:
        return smallest(schema["anyOf"][0])
    kind = schema.get("type")
    if kind == "object":
        return {name: smallest(schema["properties"][name]) for name in schema.get("required", ())}
    if kind == "array":
        return [smallest(schema["items"])] * schema.get("minItems", 0)
    empty: dict[Any, Any] = {"string": "x", "boolean": False, "integer": 0, "number": 0}
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    return empty.get(kind)


class _Handler(embeddings_server._Handler):
    disable_nagle_algorithm = True

    @property
    def fake(self) -> LLMServer:
        server = self.server.fake
        assert isinstance(server, LLMServer)
        return server

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path in self.fake.documents:
            self.send_json(200, self.fake.documents[path])
        elif path != "/v1/models":
            self.refuse(404, "not_found_error")
        elif self.headers.get("authorization", f"Bearer {WRONG_KEY}") == f"Bearer {WRONG_KEY}":
            self.refuse(401, "authentication_error")
        else:
            self.list_models()

    def list_models(self) -> None:
        reply = self.fake.listings.popleft() if self.fake.listings else Reply()
        if reply.failure and reply.failure in STATUSES:
            self.send_status(reply.failure)
        elif reply.failure:
            _Answering(self, _models_asked(self), reply).answer()
        else:
            models = [{"id": "fake-model", "type": "model", "object": "model", "owned_by": "us", "created": 1}]
            self.send_json(200, {"object": "list", "data": models, "has_more": False})

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        if path in self.fake.documents:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_json(200, self.fake.documents[path])
            return
        if path not in ("/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions"):
            super().do_POST()
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = _asked(path, headers, body)
        form = body.get("response_format", {"type": "text"})["type"]
        if refusal := _refusal(asked):
            self.refuse(*refusal)
        elif form not in {"text", *self.fake.json_forms}:
            self.refuse(400, "invalid_request_error", param="response_format")
        elif path.endswith("count_tokens"):
            self.fake.counted.append(asked)
            self.send_json(200, {"input_tokens": self.fake.size_of(asked)})
        else:
            _Answering(self, asked, self.fake.reply_to(asked)).answer()

    def refuse(
        self, status: int, kind: str, headers: dict[str, str] | None = None, *, param: str | None = None
    ) -> None:
        error = {"type": kind, "message": SECRET, "code": kind, "param": param}
        self.send_json(status, {"type": "error", "error": error}, headers)

    def send_status(self, failure: str) -> None:
        status, kind, headers = STATUSES[failure]
        self.refuse(status, kind, headers)


def _models_asked(handler: _Handler) -> Asked:
    return Asked("openai", "", "", [], "", None, None, False, {}, {"model": ""})


def _asked(path: str, headers: dict[str, str], body: dict[str, Any]) -> Asked:
    vendor: Vendor = "openai" if path.endswith("/chat/completions") else "anthropic"
    messages = body.get("messages") or []
    system = body.get("system", "")
    if vendor == "openai":
        system = [text for each in messages if each["role"] == "system" for text in _texts(each["content"])]
        messages = [each for each in messages if each["role"] != "system"]
    return Asked(
        vendor=vendor,
        model=body.get("model", ""),
        system="\n".join(_texts(system)),
        messages=messages,
        text="\n".join(text for each in messages if each["role"] == "user" for text in _texts(each["content"])),
        schema=_schema(body),
        max_tokens=body.get("max_completion_tokens", body.get("max_tokens")),
        stream=bool(body.get("stream")),
        headers=headers,
        body=body,
        path=path,
    )


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    texts = []
    for each in content or ():
        if isinstance(each, str):
            texts.append(each)
        elif each["type"] == "tool_result":
            texts += _texts(each["content"]) if each.get("content") else []
        elif each["type"] == "text":
            texts.append(each["text"])
    return texts


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    if "format" in body.get("output_config", {}):
        schema: dict[str, Any] = body["output_config"]["format"]["schema"]
        return schema
    form = body.get("response_format") or {}
    return form["json_schema"]["schema"] if form.get("type") == "json_schema" else None


def _refusal(asked: Asked) -> tuple[int, str] | None:
    """Return status and kind where the vendor would not even try."""
    is_anthropic = asked.vendor == "anthropic"
    if asked.headers.get("authorization", f"Bearer {WRONG_KEY}") == f"Bearer {WRONG_KEY}":
        return 401, "authentication_error"
    known = ANTHROPIC_PARAMETERS if is_anthropic else OPENAI_PARAMETERS
    counting = asked.path.endswith("count_tokens")
    lacks_size = is_anthropic and not counting and not asked.max_tokens
    has_version = not is_anthropic or "anthropic-version" in asked.headers
    texts = [text for each in asked.messages for text in _texts(each["content"])]
    if (
        set(asked.body) - known
        or lacks_size
        or not has_version
        or not asked.model
        or not (asked.messages or (asked.system and not is_anthropic))
        or (is_anthropic and not all(text.strip() for text in texts))
        or not {each["role"] for each in asked.messages} <= {"user", "assistant", "tool"}
        or message_problem(asked.vendor, asked.messages, asked.body.get("tools"))
        or (asked.schema is not None and not all(map(_is_closed, _objects(asked.schema))))
    ):
        return 400, "invalid_request_error"
    return None


NAMES = {"anthropic": re.compile("[a-zA-Z0-9_-]{1,128}"), "openai": re.compile("[a-zA-Z0-9_-]{1,64}")}
IDS = {"anthropic": re.compile("[a-zA-Z0-9_-]+"), "openai": re.compile("(?s).{1,40}")}


def message_problem(vendor: Vendor, messages: Sequence[Mapping[str, Any]], tools: Any) -> str | None:
    """Return why a vendor refuses messages: roles, calls of tools and their results; None where it takes them."""
    check = _anthropic_problem if vendor == "anthropic" else _openai_problem
    problem, called = check(messages)
    if problem is None and called and not tools and vendor == "anthropic":
        return "calls, and no tools are described"
    names = [tool["name"] if vendor == "anthropic" else tool["function"]["name"] for tool in tools or ()]
    if len(names) > len(set(names)) or not all(map(NAMES[vendor].fullmatch, names)):
        return "names of tools"
    return problem


def _anthropic_problem(messages: Sequence[Mapping[str, Any]]) -> tuple[str | None, bool]:
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kinds = [block["type"] for block in blocks]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if not blocks or message["role"] not in ("user", "assistant"):
            return "an empty message, or a strange role", True
        if sorted(results) != sorted(waiting) or kinds[: len(results)] != ["tool_result"] * len(results):
            return "results that do not answer the calls before them, first of all", True
        calls = [block for block in blocks if block["type"] == "tool_use"]
        thoughts = [kind for kind in kinds if kind in ("thinking", "redacted_thinking")]
        waiting = [call["id"] for call in calls]
        if (calls or thoughts) and message["role"] != "assistant":
            return "only an assistant calls and thinks", True
        if thoughts and kinds[0] not in ("thinking", "redacted_thinking"):
            return "thinking begins a message", True
        if len(set(waiting)) < len(waiting) or seen & set(waiting) or not all(map(IDS["anthropic"].fullmatch, waiting)):
            return "ids of calls", True
        if not all(NAMES["anthropic"].fullmatch(call["name"]) and isinstance(call["input"], dict) for call in calls):
            return "names or inputs of calls", True
        seen |= set(waiting)
    return ("a call without its result" if waiting else None), bool(seen)


def _openai_problem(messages: Sequence[Mapping[str, Any]]) -> tuple[str | None, bool]:
    waiting: set[str] = set()
    has_called = False
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting or not isinstance(message["content"], str):
                return "a result of no call", True
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return "a call without its result", True
        calls = message.get("tool_calls", [])
        if "tool_calls" in message and (not calls or message["role"] != "assistant"):
            return "calls of nobody", True
        if not calls and not message["content"]:
            return "an empty message", True
        waiting = {call["id"] for call in calls}
        if len(waiting) < len(calls) or not all(map(IDS["openai"].fullmatch, waiting)):
            return "ids of calls", True
        for call in calls:
            function = call["function"]
            if not NAMES["openai"].fullmatch(function["name"]) or not isinstance(
                json.loads(function["arguments"]), dict
            ):
                return "names or arguments of calls", True
        has_called = has_called or bool(calls)
    return ("a call without its result" if waiting else None), has_called


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for each in schema.values():
            yield from _objects(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _objects(each)


def _is_closed(schema: dict[str, Any]) -> bool:
    return schema.get("additionalProperties") is False


class _Answering:
    """One reply on its way out, in the form that was asked for."""

    def __init__(self, handler: _Handler, asked: Asked, reply: Reply) -> None:
        self.handler = handler
        self.asked = asked
        self.reply = reply
        self.failure = reply.failure
        self.closing = handler.fake.closing
        self.text = _text_of(reply)
        self.output_tokens = reply.output_tokens
        if self.output_tokens is None:
            self.output_tokens = max(1, handler.fake.count(self.text)) if self.text else 0
        self.input_tokens = reply.input_tokens
        if self.input_tokens is None:
            self.input_tokens = handler.fake.size_of(asked) if asked.messages else 0

    def answer(self) -> None:
        if self.reply.delay_seconds:
            self.closing.wait(self.reply.delay_seconds)
        if self.failure in STATUSES:
            assert self.failure is not None
            self.handler.send_status(self.failure)
        elif self.failure in WHOLE_BODIES or self.failure == "dropped_at_once":
            getattr(self, f"_{self.failure}")()
        elif self.asked.stream:
            self._stream()
        else:
            self._whole()

    def _html(self) -> None:
        page = b"<!doctype html><title>Sign in</title>" + SECRET.encode()
        self.handler.send(200, page, {"Content-Type": "text/html; charset=utf-8"})

    def _not_json(self) -> None:
        self.handler.send(200, b'["' + SECRET.encode() + b'"]', JSON)

    def _timeout(self) -> None:
        self.closing.wait()
        self.handler.close_connection = True

    def _trickle(self) -> None:
        """Send a byte now and then, each soon enough to keep a read time-out from firing."""
        kind = SSE if self.asked.stream else JSON
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", kind["Content-Type"])
        self.handler.send_header("Content-Length", "1000000")
        self.handler.end_headers()
        while not self.closing.wait(0.02):
            self.handler.wfile.write(b"\n" if self.asked.stream else b" ")

    def _huge(self) -> None:
        """Send more than anybody should keep in memory, declared as if it were plain."""
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", (SSE if self.asked.stream else JSON)["Content-Type"])
        self.handler.send_header("Content-Length", str(1 << 40))
        self.handler.end_headers()
        while not self.closing.is_set():
            self.handler.wfile.write(b" " * (1 << 20))

    def _dropped_at_once(self) -> None:
        embeddings_server.dropped_connection(self.handler, None)  # type: ignore[arg-type]

    def _whole(self) -> None:
        body = json.dumps(self._message()).encode()
        if self.failure in ("truncated_json", "dropped", "stall"):
            self._part_of(body)
        elif self.failure == "overload_in_stream":
            self.handler.send_status("529")
        else:
            self.handler.send(200, body, JSON)

    def _part_of(self, body: bytes) -> None:
        """Send the first half: as if it were whole, or hanging up or falling silent in the middle."""
        half = body[: len(body) // 2]
        if self.failure == "truncated_json":
            self.handler.send(200, half, JSON)
            return
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "application/json")
        self.handler.send_header("Content-Length", str(len(body)))
        self.handler.end_headers()
        self.handler.wfile.write(half)
        if self.failure == "stall":
            self.closing.wait()
        self.handler.close_connection = True

    def _message(self) -> dict[str, Any]:
        return self._anthropic() if self.asked.vendor == "anthropic" else self._openai()

    @property
    def _stop(self) -> str | None:
        special = {"cut_stream": None, "refusal": "refusal", "max_tokens": "max_tokens"}
        stop = "tool_use" if self.reply.calls and self.reply.stop == "end_turn" else self.reply.stop
        return special.get(self.failure or "", stop)

    def _anthropic(self) -> dict[str, Any]:
        content = [{"type": "text", "text": self.text}] if self.failure != "refusal" else []
        if self.reply.calls:
            content = [*self._thoughts, *(content if self.text else []), *self._tool_uses]
        message = {
            "id": "msg_fake",
            "type": "message",
            "role": "assistant",
            "model": self.asked.model,
            "content": content,
            "stop_reason": self._stop,
            "stop_sequence": None,
            "usage": self._anthropic_usage(),
        }
        return {"type": "message", "id": "msg_fake"} if self.failure == "missing_fields" else message

    @property
    def _thoughts(self) -> list[dict[str, Any]]:
        thinking = self.reply.thinking
        return [{"type": "thinking", "thinking": thinking, "signature": "signed"}] if thinking else []

    @property
    def _tool_uses(self) -> list[dict[str, Any]]:
        return [{"type": "tool_use", "id": key, "name": name, "input": given} for key, name, given in self.reply.calls]

    @property
    def _tool_calls(self) -> list[dict[str, Any]]:
        return [
            {"id": key, "type": "function", "function": {"name": name, "arguments": _as_text(given)}}
            for key, name, given in self.reply.calls
        ]

    def _anthropic_usage(self) -> dict[str, Any]:
        assert self.input_tokens is not None
        cached, written = self.reply.cached_tokens, self.reply.cache_written_tokens
        return {
            "input_tokens": self.input_tokens - cached - written,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": written,
            "output_tokens": self.output_tokens,
        }

    def _openai(self) -> dict[str, Any]:
        if self.failure == "missing_fields":
            return {"object": "chat.completion", "id": "chatcmpl-fake", "choices": []}
        refused = self.failure == "refusal"
        message = {
            "role": "assistant",
            "content": None if refused or (self.reply.calls and not self.text) else self.text,
            "refusal": SECRET if refused else None,
        } | ({"tool_calls": self._tool_calls} if self.reply.calls else {})
        choice = {"index": 0, "message": message, "finish_reason": self._openai_stop, "logprobs": None}
        return {**self._openai_frame("chat.completion"), "choices": [choice], **self._openai_usage()}

    @property
    def _openai_stop(self) -> str | None:
        if self.failure == "refusal":
            return "stop"
        return OPENAI_STOPS.get(self._stop, self._stop) if self._stop else None

    def _openai_frame(self, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-fake", "object": kind, "created": 1, "model": self.asked.model}

    def _openai_usage(self) -> dict[str, Any]:
        assert self.input_tokens is not None and self.output_tokens is not None
        if self.input_tokens < 0:
            return {}
        usage = {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
            "prompt_tokens_details": {"cached_tokens": self.reply.cached_tokens},
        }
        return {"usage": usage}

    def _stream(self) -> None:
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", SSE["Content-Type"])
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.end_headers()
        events = self._anthropic_events() if self.asked.vendor == "anthropic" else self._openai_events()
        for event in events:
            self._chunk(event)
        if self.failure == "dropped":
            self.handler.close_connection = True
            self.handler.connection.close()
            return
        if self.failure == "stall":
            self.closing.wait()
        self.handler.wfile.write(b"0\r\n\r\n")

    def _chunk(self, content: str) -> None:
        data = content.encode("utf-8", "surrogatepass")
        self.handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _pieces(self) -> Iterator[str]:
        """Yield the pieces; only the first half where the stream breaks in the middle."""
        pieces = _cut(self.text) if self.reply.pieces is None else list(self.reply.pieces)
        if self.failure == "refusal":
            pieces = []
        if self.failure in ("cut_stream", "dropped", "overload_in_stream", "stall", "truncated_json"):
            pieces = pieces[: max(1, len(pieces) // 2)]
        for number, piece in enumerate(pieces):
            if number and self.reply.piece_delay_seconds:
                self.closing.wait(self.reply.piece_delay_seconds)
            if number and self.reply.go_on is not None:
                while not (self.reply.go_on.wait(0.02) or self.closing.is_set()):
                    pass
            yield piece

    @property
    def _breaks(self) -> bool:
        return self.failure in ("cut_stream", "dropped", "stall")

    def _anthropic_events(self) -> Iterator[str]:
        if self.failure == "missing_fields":
            yield _event("message_start", {"message": {}}) + _event("message_stop", {})
            return
        usage = {**self._anthropic_usage(), "output_tokens": 1}
        start = {**self._anthropic(), "content": [], "stop_reason": None, "usage": usage}
        yield _event("message_start", {"message": start})
        yield _event("ping", {})
        if self.failure != "refusal":
            yield _event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
        for piece in self._pieces():
            yield _event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": piece}})
        if self.reply.calls:
            yield from self._anthropic_tool_events()
        if self.failure == "overload_in_stream":
            yield _event("error", {"error": {"type": "overloaded_error", "message": SECRET}})
        elif self.failure == "truncated_json":
            yield 'event: message_delta\ndata: {"type": "message_delta", "del\n\n'
        elif not self._breaks:
            yield from self._anthropic_end()

    def _anthropic_tool_events(self) -> Iterator[str]:
        """Yield a thought and the calls; the numbers say the order, so that the thought comes before the text."""
        if self.reply.thinking:
            start: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
            yield _event("content_block_start", {"index": -1, "content_block": start})
            for piece in _cut(self.reply.thinking):
                delta = {"type": "thinking_delta", "thinking": piece}
                yield _event("content_block_delta", {"index": -1, "delta": delta})
            yield _event(
                "content_block_delta", {"index": -1, "delta": {"type": "signature_delta", "signature": "signed"}}
            )
        for number, (key, name, given) in enumerate(self.reply.calls, 1):
            start = {"type": "tool_use", "id": key, "name": name, "input": {}}
            yield _event("content_block_start", {"index": number, "content_block": start})
            for piece in _cut(_as_text(given)):
                delta = {"type": "input_json_delta", "partial_json": piece}
                yield _event("content_block_delta", {"index": number, "delta": delta})
            yield _event("content_block_stop", {"index": number})

    def _anthropic_end(self) -> Iterator[str]:
        if self.failure != "refusal":
            yield _event("content_block_stop", {"index": 0})
        usage = {"output_tokens": self.output_tokens}
        delta = {"stop_reason": self._stop, "stop_sequence": None}
        yield _event("message_delta", {"delta": delta, "usage": usage})
        if self.reply.last_word:
            yield _event("message_stop", {})

    def _openai_events(self) -> Iterator[str]:
        if self.failure == "missing_fields":
            yield _data({"object": "chat.completion.chunk"}) + "data: [DONE]\n\n"
            return
        yield self._openai_chunk({"role": "assistant", "content": ""})
        for piece in self._pieces():
            yield self._openai_chunk({"content": piece})
        for number, call in enumerate(self._tool_calls):
            start = {**call, "index": number, "function": {"name": call["function"]["name"], "arguments": ""}}
            yield self._openai_chunk({"tool_calls": [start]})
            for piece in _cut(call["function"]["arguments"]):
                yield self._openai_chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
        if self.failure == "refusal":
            yield self._openai_chunk({"refusal": SECRET})
        if self.failure == "overload_in_stream":
            yield _data({"error": {"type": "server_error", "code": "overloaded", "message": SECRET}})
        elif self.failure == "truncated_json":
            yield 'data: {"object": "chat.completion.chunk", "cho\n\n'
        elif not self._breaks:
            yield from self._openai_end()

    def _openai_end(self) -> Iterator[str]:
        yield self._openai_chunk({}, finish_reason=self._openai_stop)
        if (self.asked.body.get("stream_options") or {}).get("include_usage"):
            frame = self._openai_frame("chat.completion.chunk")
            yield _data({**frame, "choices": [], **self._openai_usage()})
        if self.reply.last_word:
            yield "data: [DONE]\n\n"

    def _openai_chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return _data({**self._openai_frame("chat.completion.chunk"), "choices": [choice], "usage": None})


def _text_of(reply: Reply) -> str:
    """Return what the answer says, spoilt where the failure is in the words."""
    whole = reply.whole
    spoilt = {
        "empty": "",
        "refusal": "",
        "wrong_schema": '{"unexpected": true}',
        "max_tokens": whole[: len(whole) // 2] or "Half of",
        "truncated_text": (whole or '{"half": "of it"}')[: len(whole or '{"half": "of it"}') // 2],
    }
    if reply.failure in ("cut_stream", "dropped", "overload_in_stream", "stall", "truncated_json"):
        return whole or "A partial answer that must never be stored."
    return spoilt.get(reply.failure or "", whole)


def _as_text(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _cut(text: str, length: int = 12) -> list[str]:
    return [text[start : start + length] for start in range(0, len(text), length)]


def _event(name: str, content: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps({'type': name, **content})}\n\n"


def _data(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"


__all__ = ["FAILURES", "SECRET", "Asked", "LLMServer", "Reply", "smallest"]
