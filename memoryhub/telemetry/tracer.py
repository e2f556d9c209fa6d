"""The only module that imports OpenTelemetry: makes spans, and sends them by OTLP over HTTP.

The SDK reads `OTEL_…` itself. Its provider is not made the global one, by which the vendors' SDKs and that of MCP
would find it and record texts. No exceptions are recorded, as their messages may quote texts.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

Attributes = Mapping[str, Any]
DEFAULT_NAME: Final = "memoryhub"
KINDS: Final = {
    "internal": SpanKind.INTERNAL,
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "consumer": SpanKind.CONSUMER,
}
WORKER: Final = "worker"
SEND_AFTER_MS: Final = 1_000
"""Default of `OTEL_BSP_SCHEDULE_DELAY` of workers; below the usual 5 s, as an idle one is killed at a stop."""

CARRIER: Final = TraceContextTextMapPropagator()


class Tracer:
    """Makes the spans of a process."""

    def __init__(self, *, process: str) -> None:
        resource = Resource.create({"memoryhub.process": process})
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: DEFAULT_NAME}))
        is_default = process == WORKER and not os.environ.get("OTEL_BSP_SCHEDULE_DELAY")
        delay = SEND_AFTER_MS if is_default else None
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=delay))
        self._provider, self._tracer = provider, provider.get_tracer(DEFAULT_NAME)

    def flush(self) -> None:
        self._provider.force_flush()

    def start(self, name: str, attributes: Attributes, *, kind: str, parent: "OTelSpan") -> "OTelSpan":
        within = set_span_in_context(parent.span)
        return OTelSpan(self._tracer.start_span(name, within, kind=KINDS[kind], attributes=attributes))

    def start_root(
        self, name: str, attributes: Attributes, *, kind: str, traceparent: str | None, tracestate: str | None
    ) -> "OTelSpan":
        carrier = {"traceparent": traceparent or "", "tracestate": tracestate or ""}
        before = set_span_in_context(get_current_span(CARRIER.extract(carrier)))
        return OTelSpan(self._tracer.start_span(name, before, kind=KINDS[kind], attributes=attributes))


class OTelSpan:
    """A span of OpenTelemetry; see `memoryhub.telemetry.spans.Recording`."""

    __slots__ = ("is_recorded", "span")

    def __init__(self, span: Span) -> None:
        self.span = span
        self.is_recorded = span.is_recording()

    @property
    def trace_id(self) -> str:
        return f"{self.span.get_span_context().trace_id:032x}"

    @property
    def traceparent(self) -> str:
        context = self.span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def rename(self, name: str) -> None:
        self.span.update_name(name)

    def set(self, attributes: Attributes) -> None:
        values: Any = attributes
        self.span.set_attributes(values)

    def fail(self, kind: str) -> None:
        self.span.set_attribute("error.type", kind)
        self.span.set_status(StatusCode.ERROR)

    def end(self) -> None:
        self.span.end()
