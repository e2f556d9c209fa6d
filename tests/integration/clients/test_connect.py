"""The recipes of docs/howto/connect.md run as they are printed."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from django.conf import settings

from conversations.models import Message, Receipt
from memoryhub.auth.actions import create_agent
from memoryhub.auth.principals import command
from strength.models import Memory
from summaries.models import Document
from tests.fakes.llm_server import LLMServer, Reply
from tests.serving import Web

CHECKOUT = Path(settings.BASE_DIR)
PAGE = CHECKOUT / "docs" / "howto" / "connect.md"
README = CHECKOUT / "clients" / "python" / "README.md"


def blocks(page: Path, heading: str, language: str = "python") -> list[str]:
    section = re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE)
    (found,) = (each for each in section if each.startswith(f"{heading}\n"))
    return re.findall(rf"^```{language}\n(.*?)^```", found, re.MULTILINE | re.DOTALL)


def run(code: str, web: Web, key: str, **environment: str) -> str:
    """Run a recipe as a person would, in a process of its own; return what it prints."""
    values = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(CHECKOUT / "clients" / "python" / "src"),
        "MEMORYHUB_URL": web.url,
        "MEMORYHUB_KEY": key,
        "PYTHONIOENCODING": "utf-8",
        **environment,
    }
    done = subprocess.run([sys.executable, "-c", code], env=values, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def claudes(content: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an answer of Anthropic's API with this content."""
    stop = "tool_use" if content[0]["type"] == "tool_use" else "end_turn"
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def openais(text: str) -> dict[str, Any]:
    """Return an answer of OpenAI's responses API with this text."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "fake", "status": "completed", "output": [message],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    }  # fmt: skip


@contextmanager
def vendor(*answers: dict[str, Any]) -> Iterator[str]:
    """Serve a vendor's API with these answers, one after the other."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(left.pop(0)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def test_python_recipe_stores_and_finds(web: Web, key: str) -> None:
    (recipe,) = blocks(PAGE, "Python")
    assert run(recipe, web, key) == "Hiroki likes matcha ice cream"
    assert Memory.objects.get().content == "Hiroki likes matcha ice cream"


@pytest.mark.slow
def test_memory_tool_recipe_writes_a_document(web: Web, key: str) -> None:
    (recipe,) = blocks(PAGE, "Claude's memory tool")
    command = {"command": "create", "path": "/memories/likes.md", "file_text": "- matcha ice cream\n"}
    asked = [{"type": "tool_use", "id": "toolu_1", "name": "memory", "input": command}]
    with vendor(claudes(asked), claudes([{"type": "text", "text": "I shall remember it."}])) as url:
        told = run(recipe, web, key, ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY="none")
    assert told == "I shall remember it."
    document = Document.objects.get(name__startswith="detail-likes-md-")
    assert document.text == "# /memories/likes.md\n- matcha ice cream\n"


@pytest.mark.slow
def test_langgraph_recipe_stores_and_finds(web: Web, key: str) -> None:
    (recipe,) = blocks(PAGE, "LangGraph")
    assert run(recipe, web, key) == "cat Hiroki's cat is called Momo."
    assert Memory.objects.get().metadata == {"sure": 0.9, "langgraph": {"key": "cat"}}


def test_openai_recipe_is_answered_with_a_receipt(web: Web, key: str, llm: LLMServer) -> None:
    (recipe,) = blocks(PAGE, "OpenAI-compatible programs")
    create_agent(agent_id="kana", values={}, by=command("test"), now=datetime.now(UTC))
    llm.answer(Reply("Matcha."))
    answer, receipt_id = run(recipe, web, key).splitlines()
    assert (answer, receipt_id) == ("Matcha.", str(Receipt.objects.get().pk))


@pytest.mark.slow
def test_pydantic_ai_recipe_keeps_what_was_said(web: Web, key: str) -> None:
    (recipe,) = blocks(PAGE, "pydantic-ai")
    assert run(recipe, web, key) == run(recipe, web, key) == "Hello Momo!"
    said = Message.objects.exclude(role="tool").order_by("seq").values_list("role", "content")
    assert list(said) == [("user", "My cat is called Momo."), ("assistant", "Hello Momo!")] * 2


@pytest.mark.slow
def test_agents_recipe_keeps_what_was_said(web: Web, key: str) -> None:
    (recipe,) = blocks(PAGE, "OpenAI Agents")
    with vendor(openais("Hello Momo!")) as url:
        environment = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
        assert run(recipe, web, key, **environment) == "Hello Momo!"
    said = Message.objects.order_by("seq").values_list("role", "content")
    assert list(said) == [("user", "My cat is called Momo."), ("assistant", "Hello Momo!")]


def test_five_minutes_of_the_clients_readme(web: Web, key: str) -> None:
    page = [
        each.replace("http://127.0.0.1:8000", web.url).replace("mh_…", key) for each in blocks(README, "Five minutes")
    ]
    first, second, _, asynchronous = page
    assert "likes matcha" in run(f"{first}{second}\nprint(context['messages'])", web, key)
    lists = asynchronous.partition("    async for event")[0]  # a chat needs a model
    code = f"import asyncio\nasync def main():\n{indent(lists, '    ')}\nasyncio.run(main())"
    assert run(code, web, key) == "Hiroki likes matcha ice cream"
