"""A server with Ollama's default window gets no request that exceeds it, whatever is asked of it (SPEC A6)."""

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from memoryhub.embeddings import registry
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import offer_of
from memoryhub.llm.config import LLMConfig
from tests.fakes.llm_server import Asked, LLMServer, Reply, plain

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "mika"}
WINDOW = 4_096
SAID = "On day {0} of the walk I slept in hut {0}, paid {0} crowns, met a shepherd and wrote it down by candlelight. "


@pytest.fixture
def ollama(llm_server: LLMServer, settings: Any) -> LLMServer:
    """A server that refuses no request, with models that have the default window."""
    registry.reset()
    llm_server.documents = {"/api/ps": {"models": []}, "/api/show": {"parameters": ""}}
    llm_server.answer(answer)
    settings.LLM = LLMConfig("openai", "small", base_url=llm_server.base_url, api_key=llm_server.key)
    return llm_server


def answer(asked: Asked) -> Reply:
    if "shorten" in asked.system.lower() or asked.schema is not None:
        return plain(asked)
    return Reply("They walked from hut to hut, and paid crowns.")


def run_jobs() -> list[str]:
    """Run what is queued, with what follows from it; return the errors."""
    while rows := list(Job.objects.filter(state="queued").exclude(kind__startswith="purge").order_by("id")[:50]):
        for row in rows:
            offered = offer_of(row.pk)
            if offered is not None:
                run(offered, worker=row.pk)
        if not Job.objects.filter(pk__in=[row.pk for row in rows], state__in=["done", "failed", "dead"]).exists():
            break
    return sorted({row.error for row in Job.objects.exclude(error="")})


def test_no_request_exceeds_the_window(client: APIClient, ollama: LLMServer) -> None:
    client.post(f"{API}/projects", {**WHO, "name": "walk", "description": "The walk from hut to hut"})
    session = client.post(f"{API}/sessions", WHO).json()["id"]
    talk = [{"role": role, "content": SAID.format(day) * 6} for day in range(1, 31) for role in ("user", "assistant")]
    client.post(f"{API}/sessions/{session}/messages", {"messages": talk})
    chat = client.post(
        f"{API}/chat", {**WHO, "session_id": session, "project": "auto", "message": "Where did I sleep?"}
    )
    assert chat.status_code == 200, chat.content
    client.post(f"{API}/sessions/{session}/end", {})

    errors = run_jobs()

    operations = {
        asked.body.get("response_format", {}).get("json_schema", {}).get("name", "") for asked in ollama.asked
    }
    assert {"extract", "route", ""} <= operations
    sizes = [
        ollama.size_of(asked) + len(json.dumps(asked.schema or "")) // 5 + (asked.max_tokens or 0)
        for asked in ollama.asked
    ]
    assert max(sizes) <= WINDOW
    assert max(ollama.size_of(asked) for asked in ollama.asked) > WINDOW // 3, "the talk is many times as long"
    assert errors == []
