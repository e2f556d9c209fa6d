"""A real HTTP server on loopback that speaks OpenAI's `/v1/embeddings` and Azure OpenAI's address for it.

Both SDKs bring their own HTTP library, so patching would test the patch. Answers follow the wire format of
the API reference (float and base64); failures are queued with `will(...)`, one for each request to come:

    with EmbeddingsServer() as server:
        server.will(status(429, {"Retry-After": "1"}), dropped_connection)
        … two requests fail, the third is answered
"""

import base64
import hashlib
import json
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from memoryhub.embeddings.calibration import COLUMNS, PROBES
from memoryhub.search.models import SPACED, UNSPACED

JSON = {"Content-Type": "application/json"}
MEANINGS = {
    row[column]: (row[0], script) for row in PROBES for script, columns in COLUMNS.items() for column in columns
}
"""Of each probe the meaning, and the script it is written in."""


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came in; header names in lower case."""

    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: dict[str, Any]


Behaviour = Callable[["_Handler", Received], None]


class EmbeddingsServer:
    """Context manager around the server; `url` is its root, `base_url` what an OpenAI client is given."""

    def __init__(self, *, dimension: int = 8, key: str = "test-key") -> None:
        self.knows = {SPACED, UNSPACED}
        self.dimension = dimension
        self.key = key
        self.received: list[Received] = []
        self.closing = threading.Event()
        self._planned: deque[Behaviour] = deque()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def will(self, *behaviours: Behaviour) -> None:
        """Answer the next requests with these, in order; after that, properly again."""
        self._planned.extend(behaviours)

    def next_behaviour(self) -> Behaviour:
        return self._planned.popleft() if self._planned else answered

    def vector(self, text: str) -> list[float]:
        """Return the vector of a text: the same for the same text, of length about 1 to 2, float32-exact.

        Of the probes of a calibration, those of `knows` have their meaning's vector; the others of a row say nothing
        of each other, as in a model that never learned their language.
        """
        meaning, script = MEANINGS.get(text, (text, SPACED))
        said = meaning if script in self.knows else text
        digest = b"".join(hashlib.sha256(f"{block}:{said}".encode()).digest() for block in range(self.dimension))
        return [byte / 128.0 - 1.0 for byte in digest[: self.dimension]]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    fake: EmbeddingsServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that hangs up is part of the play."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        address = urlsplit(self.path)
        content = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(address.path, parse_qs(address.query), headers, json.loads(content))
        self.server.fake.received.append(received)
        behaviour = self.server.fake.next_behaviour()
        behaviour(self, received)

    def send(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_json(self, code: int, content: Any, headers: dict[str, str] | None = None) -> None:
        self.send(code, json.dumps(content).encode(), {**JSON, **(headers or {})})

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test output clean."""


def answered(handler: _Handler, received: Received) -> None:
    """Check address and key as the vendors do, then answer with vectors."""
    fake = handler.server.fake
    refusal = _refusal(fake, received)
    if refusal:
        handler.send_json(refusal, _error("refused"))
        return
    handler.send_json(200, _embeddings(received, [fake.vector(text) for text in _texts(received)]))


def _refusal(fake: EmbeddingsServer, received: Received) -> int | None:
    if received.path == "/v1/embeddings":
        return None if received.headers.get("authorization") == f"Bearer {fake.key}" else 401
    if received.path.startswith("/openai/deployments/") and received.query.get("api-version"):
        return None if received.headers.get("api-key") == fake.key else 401
    return 404


def _texts(received: Received) -> list[str]:
    given = received.body["input"]
    return [given] if isinstance(given, str) else given


def _embeddings(received: Received, vectors: Sequence[Sequence[float]]) -> dict[str, Any]:
    as_base64 = received.body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _base64(vector) if as_base64 else vector}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": len(data), "total_tokens": len(data)}
    return {"object": "list", "data": data, "model": received.body["model"], "usage": usage}


def _base64(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _error(code: str) -> dict[str, Any]:
    return {"error": {"message": "SECRET TEXT OF A USER", "type": "error", "param": None, "code": code}}


def status(code: int, headers: dict[str, str] | None = None, *, error_code: str = "failed") -> Behaviour:
    """Answer with an HTTP status and the vendors' error object, which quotes a user's text."""
    return lambda handler, _: handler.send_json(code, _error(error_code), headers)


def body(content: bytes, content_type: str = "application/json") -> Behaviour:
    """Answer 200 with exactly this body."""
    return lambda handler, _: handler.send(200, content, {"Content-Type": content_type})


html = body(b"<!doctype html><title>Sign in</title>", "text/html; charset=utf-8")


def truncated_json(handler: _Handler, received: Received) -> None:
    """Answer 200 with the first half of a proper answer, its length declared as if it were whole."""
    vectors = [handler.server.fake.vector(text) for text in _texts(received)]
    content = json.dumps(_embeddings(received, vectors)).encode()
    handler.send(200, content[: len(content) // 2], JSON)


def vectors(make: Callable[[list[list[float]]], Sequence[Sequence[float]]]) -> Behaviour:
    """Answer with what `make` makes of the proper vectors: too few, too short, of other numbers."""

    def behave(handler: _Handler, received: Received) -> None:
        proper = [handler.server.fake.vector(text) for text in _texts(received)]
        handler.send_json(200, _embeddings(received, make(proper)))

    return behave


wrong_dimension = vectors(lambda proper: [vector[:-1] for vector in proper])
wrong_count = vectors(lambda proper: proper[:-1])
not_finite = vectors(lambda proper: [[float("nan"), *vector[1:]] for vector in proper])
zeros = vectors(lambda proper: [[0.0] * len(vector) for vector in proper])


def as_floats(handler: _Handler, received: Received) -> None:
    """Ignore the wish for base64, as older compatible servers do, and answer in reverse order."""
    received.body["encoding_format"] = "float"
    proper = _embeddings(received, [handler.server.fake.vector(text) for text in _texts(received)])
    handler.send_json(200, {**proper, "data": proper["data"][::-1]})


def dropped_connection(handler: _Handler, received: Received) -> None:
    """Hang up without a word."""
    handler.close_connection = True
    handler.connection.close()


def dropped_in_body(handler: _Handler, received: Received) -> None:
    """Hang up in the middle of the body."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"object": "list", ')
    handler.close_connection = True


def silence(handler: _Handler, received: Received) -> None:
    """Never answer; ends when the server closes."""
    handler.server.fake.closing.wait()
    handler.close_connection = True


def trickle(handler: _Handler, received: Received) -> None:
    """Send one byte after the other, each soon enough to keep a read time-out from firing."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not handler.server.fake.closing.wait(0.02):
        handler.wfile.write(b" ")
