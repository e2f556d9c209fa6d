"""`memoryhub-mcp`: the server's MCP endpoint for programs that speak MCP over stdin and stdout.

Passes messages on as they are, one POST each; knows no tools and no SDK.
"""

import argparse
import base64
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode
from uuid import uuid4

import anyio
import httpx2

UNREACHABLE = -32000
"""JSON-RPC code of an error of the connection; codes from -32000 on are the implementation's own."""
VERSION_MEMBER = "io.modelcontextprotocol/protocolVersion"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter of a method that the header `Mcp-Name` repeats."""


class Proxy:
    """Forwards each message in a task of its own, so that a slow call holds up no other."""

    def __init__(self, url: str, key: str, *, output: BinaryIO) -> None:
        self.url = url
        self.output = output
        self.version: str | None = None
        self._running: dict[Any, anyio.CancelScope] = {}
        headers = {
            "Authorization": f"Bearer {key}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Mcp-Session-Id": uuid4().hex,  # what was given to this process is not given again
        }
        self.http = httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(120, connect=10))

    async def run(self, source: BinaryIO) -> None:
        """Forward lines until the input ends and all answers are written."""
        async with self.http, anyio.create_task_group() as tasks:
            async for line in anyio.wrap_file(source):
                message = _parsed(line)
                if message is None:
                    self._write({"jsonrpc": "2.0", "id": None, "error": _error(-32700, "This is not a JSON object.")})
                elif message.get("method") == "notifications/cancelled":
                    self._cancel(message)
                else:
                    tasks.start_soon(self._forward, message, line)

    def _cancel(self, message: Mapping[str, Any]) -> None:
        scope = self._running.get((message.get("params") or {}).get("requestId"))
        if scope is not None:
            scope.cancel()

    async def _forward(self, message: dict[str, Any], line: bytes) -> None:
        request_id = message.get("id")
        with anyio.CancelScope() as scope:
            if request_id is not None:
                self._running[request_id] = scope
            try:
                answer = await self._ask(message, line)
            finally:
                self._running.pop(request_id, None)
            if answer is not None and request_id is not None:
                self._write(answer)

    async def _ask(self, message: dict[str, Any], line: bytes) -> dict[str, Any] | None:
        """Return the server's answer, or an error that says why there is none."""
        request_id = message.get("id")
        try:
            response = await self.http.post(self.url, content=line, headers=self._headers(message))
        except httpx2.HTTPError as error:
            text = f"memoryhub does not answer: {type(error).__name__}. Is it running at this URL?"
            return {"jsonrpc": "2.0", "id": request_id, "error": _error(UNREACHABLE, text)}
        answer = _parsed(response.content)
        if answer is None or "jsonrpc" not in answer:
            detail = (answer or {}).get("detail") or (answer or {}).get("error_description") or response.reason_phrase
            return {
                "jsonrpc": "2.0",
                "id": request_id,
                "error": _error(UNREACHABLE, f"memoryhub refused: {response.status_code} {detail}"),
            }
        if message.get("method") == "initialize":
            self.version = (answer.get("result") or {}).get("protocolVersion")
        return answer

    def _headers(self, message: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers by which the protocol repeats a message's version, method and name."""
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        own = (params.get("_meta") or {}).get(VERSION_MEMBER)
        version = own or self.version
        headers = {"Mcp-Protocol-Version": version} if version else {}
        if own:
            method = str(message.get("method"))
            headers["Mcp-Method"] = method
            name = params.get(NAMED_BY.get(method, ""))
            if isinstance(name, str):
                headers["Mcp-Name"] = _header_value(name)
        return headers

    def _write(self, message: Mapping[str, Any]) -> None:
        self.output.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")
        self.output.flush()


def _parsed(text: bytes) -> dict[str, Any] | None:
    with suppress(ValueError):
        message = json.loads(text)
        if isinstance(message, dict):
            return message
    return None


def _error(code: int, text: str) -> dict[str, Any]:
    return {"code": code, "message": text}


def _header_value(text: str) -> str:
    """Return a text as the protocol writes it into a header: in base64 where it is not plain ASCII."""
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def endpoint(url: str, *, agent: str | None, user: str | None, profile: str | None) -> str:
    """Return the address of the MCP endpoint for an agent and a user; without them the key names both."""
    if user is not None and agent is None:
        raise ValueError("--user needs --agent")
    places = [quote(place, safe="") for place in (agent, user) if place is not None]
    query = f"?{urlencode({'profile': profile})}" if profile else ""
    return "/".join([url.rstrip("/").removesuffix("/mcp"), "mcp", *places]) + query


def main() -> None:
    parser = argparse.ArgumentParser("memoryhub-mcp", description=__doc__)
    parser.add_argument("--url", default=os.environ.get("MEMORYHUB_URL", "http://127.0.0.1:8000"))
    parser.add_argument("--key", default=os.environ.get("MEMORYHUB_KEY"), help="default: MEMORYHUB_KEY")
    parser.add_argument("--agent", default=os.environ.get("MEMORYHUB_AGENT"))
    parser.add_argument("--user", default=os.environ.get("MEMORYHUB_USER"))
    parser.add_argument("--profile", choices=["memory", "connector"])
    options = parser.parse_args()
    if not options.key:
        parser.error("a key is needed: --key or MEMORYHUB_KEY")
    try:
        url = endpoint(options.url, agent=options.agent, user=options.user, profile=options.profile)
    except ValueError as error:
        parser.error(str(error))

    async def run() -> None:
        await Proxy(url, options.key, output=sys.stdout.buffer).run(sys.stdin.buffer)

    anyio.run(run)


if __name__ == "__main__":
    main()
