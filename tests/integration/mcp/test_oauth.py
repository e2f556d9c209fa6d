"""OAuth for MCP clients: the official client's whole flow against the real server, and what a grant allows."""

import asyncio
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from memoryhub.auth.models import OAuthGrant
from tests.integration.mcp.conftest import MODES, Calls
from tests.integration.mcp.oauth import Browser, Memory, official_client
from tests.serving import Web


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_connects_and_remembers(oauth: Web, browser: Browser, mode: str) -> None:
    storage = Memory()

    async def told() -> Any:
        provider = official_client(f"{oauth.url}/mcp", browser, storage)
        async with (
            httpx2.AsyncClient(auth=provider, timeout=60) as http,
            Client(streamable_http_client(f"{oauth.url}/mcp", http_client=http), mode=mode, cache=None) as client,
        ):
            call = Calls(client)
            await call("remember", content="Ann plays the cello.")
            return await call("recall", query="cello")

    assert asyncio.run(told())["memories"][0]["content"] == "Ann plays the cello."
    [grant] = OAuthGrant.objects.select_related("key", "person", "client")
    assert (grant.key.agent_ids, grant.key.user_id, grant.key.scopes) == (["helper"], "ann", ["read", "write"])
    assert (grant.person.username, grant.client.name) == ("hiroki", "Official client")
