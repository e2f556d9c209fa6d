"""One chat with memory, from a whole installation: its trace is complete in a real collector, and has no text (SPEC O10)."""

import json
import sys
import urllib.request
from typing import Any, Final

import pytest

from tests.fakes.collector import Collector, Received
from tests.fakes.llm_server import LLMServer
from tests.slow.chaos.hub import Hub, eventually
from tests.slow.chaos.model import by_rules
from tests.slow.chaos.talking import SHORT_WAITS, talking

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")]

TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
LAST: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER: Final = "b7ad6b7169203331"
REQUEST: Final = "request-of-the-test"
MARKS: Final = ("Quillonby", "Zephyrine", "Marmaduke", "Ostrobogulous")
"""Words that only texts have: a memory, a question, the session's user and a system prompt."""

IMPORTS: Final = {"PYTHONPROFILEIMPORTTIME": "1"}
"""Makes each process of Python write every module that it imports to its log."""


def settings_of(model: LLMServer, provider: str) -> dict[str, str]:
    address = model.url if provider == "anthropic" else model.base_url
    return {
        "settings": SHORT_WAITS,
        "MEMORYHUB_LLM_PROVIDER": provider,
        "MEMORYHUB_LLM_BASE_URL": address,
        "MEMORYHUB_WEB_PROCESSES": "2",
        "MEMORYHUB_EMBEDDING_PROVIDER": "openai",
        "MEMORYHUB_EMBEDDING_BASE_URL": model.base_url,
        "MEMORYHUB_EMBEDDING_API_KEY": model.key,
        "MEMORYHUB_EMBEDDING_DIMENSION": str(model.dimension),
    }


def ask(hub: Hub, path: str, body: Any, **headers: str) -> tuple[dict[str, str], Any]:
    """Return headers and body of an answer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{hub.port}/api/v1/{path}",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {hub.key}", "Content-Type": "application/json", **headers},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return {name.lower(): value for name, value in answer.headers.items()}, json.load(answer)


def chat(hub: Hub) -> dict[str, str]:
    """Write a memory, ask something by OpenAI's endpoint that uses it, and return the headers of the answer."""
    ask(hub, "agents", {"agent_id": "kana", "system_prompt": f"You are {MARKS[3]}."})
    names = {"agent_id": "kana", "user_id": MARKS[2]}
    ask(hub, "memories", {**names, "content": f"The user's boat is called {MARKS[0]}.", "kind": "fact"})
    question = f"I bought a {MARKS[1]} lamp. What is my boat called?"
    headers, answer = ask(
        hub,
        "openai/chat/completions",
        {"model": "kana", "user": MARKS[2], "messages": [{"role": "user", "content": question}]},
        Traceparent=f"00-{TRACE}-{CALLER}-01",
        **{"X-Request-ID": REQUEST},
    )
    assert MARKS[0] in answer["choices"][0]["message"]["content"]
    return headers


def stop(hub: Hub) -> None:
    assert hub.process is not None
    hub.process.terminate()
    hub.process.wait(timeout=30)


def extracted(hub: Hub) -> bool:
    return bool(hub.rows("SELECT FROM strength_memory WHERE source = 'extraction'"))


@pytest.mark.long
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_chat_and_its_extraction_are_one_trace_without_texts(provider: str) -> None:
    with Collector() as collector, LLMServer() as model:
        model.answer(by_rules)
        settings = settings_of(model, provider)
        with talking(model, **settings, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url) as hub:
            headers = chat(hub)
            assert eventually(lambda: extracted(hub), 60) is not None, hub.said()
            assert eventually(lambda: is_complete(collector), 30) is not None, "a span is missing"
            ask(hub, "agents", {"agent_id": "last"}, Traceparent=f"00-{LAST}-{CALLER}-01")
            lines = hub.said()
            stop(hub)
        assert headers["x-trace-id"] == TRACE and headers["x-request-id"] == REQUEST

    (request,) = collector.named(TRACE, "POST /api/v1/openai/chat/completions")
    assert request.parent == CALLER and request.process == "web" and request.service == "memoryhub"
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["memoryhub.request.id"] == REQUEST
    within_request(collector, request)
    within_job(collector)
    assert {span.scope for span in collector.spans} == {"memoryhub"}, "no SDK adds its spans"
    assert all(span.events == 0 and span.message == "" for span in collector.spans)
    assert collector.named(LAST, "POST /api/v1/agents"), "what is left is sent at a stop"
    assert not [mark for mark in MARKS if mark.encode() in collector.data]
    assert not [mark for mark in MARKS if mark in lines]
    assert not [asked for asked in model.asked if "traceparent" in asked.headers], "the vendor gets no id of ours"
    logged = [line for line in lines.splitlines() if TRACE in line]
    assert any(f"request_id={REQUEST}" in line and "status=200" in line for line in logged)


def is_complete(collector: Collector) -> bool:
    """Return whether all has come: of what was sent, parents may come after their children, and jobs go on."""
    spans = collector.spans_of(TRACE)
    is_extracted = bool(collector.named(TRACE, "job extract"))
    return is_extracted and {span.parent for span in spans} <= {CALLER, *(span.id for span in spans)}


def within_request(collector: Collector, request: Received) -> None:
    (search,) = [span for span in collector.named(TRACE, "search_memory") if span.process == "web"]
    (layer,) = [span for span in collector.spans_of(TRACE) if span.id == search.parent]
    assert layer.name == "context layer semantic" and layer.parent == request.id
    assert search.attributes["gen_ai.operation.name"] == "search_memory"
    assert search.attributes["gen_ai.memory.record.count"] == 1
    assert 0 < search.attributes["memoryhub.scores"][0] <= 2
    statements = [span for span in collector.spans_of(TRACE) if span.parent == search.id]
    assert any("strength_memoryindex" in span.name and span.attributes["db.system.name"] for span in statements)
    (call,) = [span for span in collector.spans_of(TRACE) if span.attributes.get("memoryhub.operation") == "chat"]
    assert call.parent == request.id and call.name.startswith("chat ")
    assert call.attributes["gen_ai.usage.input_tokens"] > 0 and call.attributes["gen_ai.usage.output_tokens"] > 0
    assert any(span.name.startswith("embeddings ") for span in collector.spans_of(TRACE))


def within_job(collector: Collector) -> None:
    spans = {span.id: span for span in collector.spans_of(TRACE)}
    call = next(span for span in spans.values() if span.attributes.get("memoryhub.operation") == "extract")
    job = spans[call.parent]
    assert (job.name, job.process, job.attributes["memoryhub.job.attempt"]) == ("job extract", "worker", 1)
    assert spans[job.parent].process == "web"
    writes = [span for span in collector.named(TRACE, "upsert_memory") if span.parent == job.id]
    assert writes and all(span.attributes["gen_ai.memory.record.count"] == 1 for span in writes)


@pytest.mark.long
def test_without_an_endpoint_no_process_imports_opentelemetry() -> None:
    with LLMServer() as model:
        model.answer(by_rules)
        with talking(model, **settings_of(model, "openai"), **IMPORTS) as hub:
            headers = chat(hub)
            assert eventually(lambda: extracted(hub), 60) is not None
            lines = hub.said()
    assert "x-trace-id" not in headers and "trace_id" not in lines
    imported = {line.rpartition("|")[2].strip() for line in lines.splitlines() if line.startswith("import time:")}
    assert {"memoryhub.asgi", "memoryhub.jobs.worker", "memoryhub.telemetry.spans", "openai"} <= imported
    assert not [name for name in imported if name.startswith(("opentelemetry", "memoryhub.telemetry.tracer"))]
