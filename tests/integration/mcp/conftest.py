"""The real web server, keys for it, and the official MCP client."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from memoryhub.auth.throttling import call_counter
from memoryhub.tenancy.models import Agent
from tests.fakes.plugin import llm, llm_server
from tests.integration.clients.conftest import key, new_key, web
from tests.integration.mcp.oauth import Browser, person
from tests.serving import Web

__all__ = ["key", "llm", "llm_server", "new_key", "web"]

MODES = ("legacy", "2026-07-28")
"""Both protocols: the handshake of 2025-11-25, and requests that stand alone."""


class Calls:
    """A connected client whose tools return what their JSON says."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, meta: Any = None, **arguments: Any) -> Any:
        result = await self.client.call_tool(tool, arguments, meta=meta)
        [content] = result.content
        assert not result.is_error, content.text
        return json.loads(content.text)

    async def refused(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result
        return str(result.content[0].text)


@asynccontextmanager
async def connected(url: str, key: str, mode: str = MODES[0], **headers: str) -> AsyncIterator[Calls]:
    headers = {"Authorization": f"Bearer {key}", **{name.replace("_", "-"): headers[name] for name in headers}}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, cache=None) as client,
    ):
        yield Calls(client)


@pytest.fixture
def oauth(web: Web, settings: Any) -> Web:
    """The server with OAuth on, an agent, and the account that `Browser` logs in to."""
    settings.OAUTH_URL = web.url
    call_counter.cache_clear()  # all tests call from one address
    Agent.objects.create(agent_id="helper", name="Helper")
    return web


@pytest.fixture
def browser(oauth: Web) -> Iterator[Browser]:
    """The browser of an administrator."""
    person()
    with Browser(oauth.url) as browser:
        yield browser
