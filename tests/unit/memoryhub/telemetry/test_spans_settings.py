"""Traces are sent where OpenTelemetry's variables name a collector, and what has no effect is reported."""

import pytest

from memoryhub.env import EnvironmentProblem, ineffective_trace_settings, read_environment
from memoryhub.telemetry.spans import NONE, is_recorded, is_tracing, root, span, traceparent

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("variables", "sends"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://collector.example.org/v1/traces"}, True),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "True"}, False),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_an_endpoint_turns_traces_on(variables: dict[str, str], sends: bool) -> None:
    assert read_environment(variables).traces is sends


def test_an_endpoint_is_an_address() -> None:
    with pytest.raises(EnvironmentProblem, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        read_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"})


def test_what_has_no_effect_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    assert ineffective_trace_settings(ENDPOINT) == ineffective_trace_settings({"OTEL_SDK_DISABLED": "true"}) == []
    (sentence,) = ineffective_trace_settings(other)
    assert sentence.startswith("OTEL_EXPORTER_OTLP_PROTOCOL grpc has no effect")
    monkeypatch.setattr("memoryhub.env.find_spec", lambda name: None)
    assert not read_environment(ENDPOINT).traces
    (sentence,) = ineffective_trace_settings(ENDPOINT)
    assert sentence == "OTEL_EXPORTER_OTLP_ENDPOINT has no effect without the extra `telemetry`."


def test_without_traces_nothing_is_recorded() -> None:
    with (
        root("request", {}, kind="server", traceparent=f"00-{'a' * 32}-{'b' * 16}-01") as request,
        span("part") as part,
    ):
        assert request is part is NONE
        assert not is_tracing() and not is_recorded() and traceparent() is None
        part.set({"count": 1})
        part.fail("code")
