"""The recipe of docs/howto/connect.md for Claude Code, run with Claude Code itself; its model is a fake.

    CLAUDE=…/node_modules/.bin/claude pytest tests/verification/claude_code.py --force-enable-socket -n 0

`npm install @anthropic-ai/claude-code` brings the program.
"""

import json
import os
import shlex
import stat
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from conversations.models import Message, Session
from tests.integration.clients.conftest import key, web
from tests.integration.clients.test_plugin import pasted
from tests.serving import Web

__all__ = ["key", "web"]


def events(model: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the stream of an answer that says "Noted."."""
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    yield "message_start", {"message": message}
    yield "content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}
    yield "content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "Noted."}}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
    yield "message_stop", {}


@pytest.fixture
def model() -> Iterator[tuple[str, list[str]]]:
    """Serve a model; yield its address and the requests that it gets."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.append(body)
            told = events(json.loads(body).get("model", ""))
            lines = (f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in told)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write("".join(lines).encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


def test_what_was_said_to_claude_code_is_recalled_by_it(
    web: Web, key: str, tmp_path: Path, model: tuple[str, list[str]]
) -> None:
    url, asked = model
    wrapper = tmp_path / "bin" / "claude"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(os.environ["CLAUDE"])} -p "$PROMPT" "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    environment = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }
    said = "My cat is called Momo, please remember it."
    assert pasted(web, key, tmp_path, PROMPT=said, **environment) == "Noted."
    stored = Message.objects.order_by("seq").values_list("role", "content")
    assert list(stored) == [("user", said), ("assistant", "Noted.")]
    assert Session.objects.get().channel == "claude-code"
    before = len(asked)
    pasted(web, key, tmp_path, PROMPT="What is the name of my cat?", **environment)
    told = "".join(asked[before:])
    assert "<memoryhub>" in told and said in told
    assert "mcp__plugin_memoryhub_memoryhub__recall" in told
