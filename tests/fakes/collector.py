"""A real HTTP server on loopback that receives traces by OTLP, as protobuf.

with Collector() as collector:
    … a process with OTEL_EXPORTER_OTLP_ENDPOINT=collector.url
    collector.spans_of(trace_id)
"""

import gzip
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


@dataclass(frozen=True)
class Received:
    """A span as it came in."""

    name: str
    kind: int
    trace_id: str
    id: str
    parent: str
    attributes: dict[str, Any]
    events: int
    has_failed: bool
    message: str
    process: str
    service: str
    ns: int
    scope: str = field(default="")


class Collector:
    """Keeps all spans, and the bytes of each request."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.data = b""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                data = gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data
                assert self.path == "/v1/traces", self.path
                collector.take(data)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="collector")
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, data: bytes) -> None:
        self.data += data
        request = ExportTraceServiceRequest.FromString(data)
        for of_resource in request.resource_spans:
            resource = _values(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    self.spans.append(
                        Received(
                            name=span.name,
                            kind=span.kind,
                            trace_id=span.trace_id.hex(),
                            id=span.span_id.hex(),
                            parent=span.parent_span_id.hex(),
                            attributes=_values(span.attributes),
                            events=len(span.events),
                            has_failed=span.status.code == span.status.STATUS_CODE_ERROR,
                            message=span.status.message,
                            process=str(resource["memoryhub.process"]),
                            service=str(resource["service.name"]),
                            ns=span.end_time_unix_nano - span.start_time_unix_nano,
                            scope=of_scope.scope.name,
                        )
                    )

    def spans_of(self, trace_id: str) -> list[Received]:
        return [span for span in self.spans if span.trace_id == trace_id]

    def named(self, trace_id: str, name: str) -> list[Received]:
        return [span for span in self.spans_of(trace_id) if span.name == name]


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind) if kind else None
