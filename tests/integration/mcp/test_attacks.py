"""The MCP endpoint refuses strangers and survives clients that misbehave."""

import asyncio
import json
from typing import Any

import anyio
import httpx2
import pytest

from strength.models import Memory
from tests.integration.mcp.conftest import MODES, connected, new_key
from tests.serving import Web

PATH = "/mcp/helper/ann"
SECRET = "Ann keeps her key under the blue stone."
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def post(web: Web, key: str | None, body: Any = PING, path: str = PATH, **headers: str) -> httpx2.Response:
    accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    bearer = {"Authorization": f"Bearer {key}"} if key else {}
    content = body if isinstance(body, (bytes, str)) else json.dumps(body)
    return httpx2.post(web.url + path, content=content, headers={**accepted, **bearer, **headers}, timeout=60)


def tell(web: Web, key: str, *texts: str) -> list[str]:
    async def told() -> list[str]:
        async with connected(web.url + PATH, key) as call:
            return [(await call("remember", content=text))["id"] for text in texts]

    return asyncio.run(told())


@pytest.mark.parametrize("mode", [MODES[0], pytest.param(MODES[1], marks=pytest.mark.slow)])
def test_a_foreign_tenants_key_reaches_nothing(web: Web, key: str, mode: str) -> None:
    [memory_id] = tell(web, key, SECRET)
    other_agent, other_user = new_key(agent_ids=["other"]), new_key(agent_ids=["helper"], user_id="bob")

    async def attack(stranger: str, path: str) -> None:
        async with connected(web.url + path, stranger, mode) as call:
            texts = [
                await call.refused("correct", memory_id=memory_id, content="Gone."),
                await call.refused("correct", memory_id=memory_id, content="Gone.", changed=True),
                await call.refused("forget", memory_id=memory_id),
            ]
            for tool, arguments in (("recall", {"query": "key"}), ("context", {"message": "key"})):
                result = await call.client.call_tool(tool, arguments)
                texts.append(result.content[0].text)
            result = await call.client.call_tool("project_file", {"command": "view"})
            texts.append(result.content[0].text)
            try:
                texts.append(str(await call.client.read_resource("memoryhub://pinned")))
            except Exception as error:
                texts.append(str(error))
            assert "blue stone" not in " ".join(texts)
        async with connected(f"{web.url}{path}?profile=connector", stranger, mode) as call:
            assert "blue stone" not in await call.refused("fetch", id=memory_id)

    for stranger, path in (
        (other_agent, PATH),
        (other_agent, "/mcp/other/ann"),
        (other_user, PATH),
        (other_user, "/mcp"),
    ):
        asyncio.run(attack(stranger, path))
    assert Memory.objects.get().content == SECRET


def test_an_address_binds_a_key_that_may_do_more(web: Web, key: str) -> None:
    [memory_id] = tell(web, key, SECRET)

    async def attack() -> None:
        async with connected(web.url + "/mcp/helper/bob", key) as call:
            assert "not_found" in await call.refused("forget", memory_id=memory_id)
            assert (await call("recall", query="key"))["memories"] == []

    asyncio.run(attack())


def test_what_an_untrusted_key_writes_waits(web: Web, key: str) -> None:
    doubted = new_key(is_trusted=False)

    async def attack() -> None:
        async with connected(web.url + PATH, doubted) as call:
            told = await call("remember", content="Ann wants all her keys published.", pinned=True)
            assert told["status"] == "pending"
        async with connected(web.url + PATH, key) as call:
            assert (await call("recall", query="keys"))["memories"] == []
            assert "published" not in (await call("context", message="Ann's keys?"))["remembered"]
            assert (await call.client.read_resource("memoryhub://pinned")).contents[0].text == ""
        async with connected(f"{web.url}{PATH}?profile=connector", key) as call:
            assert "not_found" in await call.refused("fetch", id=told["id"])

    asyncio.run(attack())


def test_without_a_usable_key_nothing_is_told(web: Web, key: str) -> None:
    for wrong in (None, "mh_wrong", "", key[:-1], "mh wrong"):
        answer = post(web, wrong)
        assert answer.status_code == 401 and "Bearer" in answer.headers["WWW-Authenticate"]
    assert post(web, key, **{"Authorization": key}).status_code == 401


def test_other_hosts_and_pages_are_refused(web: Web, key: str) -> None:
    assert post(web, key).status_code == 200
    for host in ("evil.example", "evil.example:8000", "localhost.evil.example", ""):
        assert post(web, key, Host=host).status_code == 421
    assert post(web, key, Origin="https://evil.example").status_code == 403
    assert post(web, key, Origin="null").status_code == 403
    assert post(web, key, Origin="http://localhost:3000").status_code == 200


def test_behind_tls_plain_requests_are_refused(web: Web, key: str, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert (post(web, key).status_code, post(web, key).json()["code"]) == (403, "https_required")


def test_other_methods_and_addresses_are_refused(web: Web, key: str) -> None:
    for method in ("GET", "DELETE", "PUT", "OPTIONS"):
        answer = httpx2.request(method, web.url + PATH, timeout=60)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    for path in ("/mcp/a/b/c", "/mcp/a%2Fb", "/mcp/a/b%0Ac", f"/mcp/a/{'b' * 256}", "/mcp?profile=all"):
        assert post(web, key, path=path).status_code == 404
    assert post(web, key, path="/mcpx").status_code in (403, 404)


def test_large_and_broken_bodies_are_answered(web: Web, key: str) -> None:
    def remember(text: str) -> dict[str, Any]:
        params = {"name": "remember", "arguments": {"content": text}}
        return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    large = post(web, key, remember("x" * 4_000_000))
    assert large.status_code in (200, 413) and '"isError":true' in large.text.replace(" ", "")
    assert post(web, key, b"x" * 40_000_000).status_code == 413
    for body in (b"", b"{", b"[]", b"null", b"\xff", b'{"jsonrpc":"2.0"}', json.dumps([PING] * 3).encode()):
        for version in ({}, {"MCP-Protocol-Version": "2025-11-25"}, {"MCP-Protocol-Version": "2026-07-28"}):
            assert 400 <= post(web, key, body, **version).status_code < 500, body
    assert not Memory.objects.exists()
    for text in ("tea \x00", "tea \ud800"):
        assert post(web, key, remember(text)).status_code < 500
    assert set(Memory.objects.values_list("content", flat=True)) <= {"tea \ufffd"}


def test_a_cancelled_call_leaves_the_server_well(web: Web, key: str) -> None:
    tell(web, key, SECRET)

    async def cancel(mode: str) -> None:
        async with connected(web.url + PATH, key, mode) as call:
            for delay in (0.0, 0.002, 0.01):
                with anyio.move_on_after(delay):
                    await call("recall", query="key")
            assert (await call("recall", query="key", repeat=True))["memories"]

    for mode in MODES:
        asyncio.run(cancel(mode))


@pytest.mark.slow
def test_fifty_at_once_are_served(web: Web, key: str) -> None:
    async def crowd() -> None:
        async def one(number: int) -> None:
            async with connected(web.url + PATH, key, MODES[number % 2]) as call:
                await call("remember", content=f"Ann has seen film {number}.")
                assert (await call("recall", query=f"film {number}"))["memories"]

        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(one(number))

    asyncio.run(crowd())
    assert Memory.objects.count() == 50


@pytest.mark.parametrize("call", ["tools/call", "prompts/get"])
def test_unknown_names_are_invalid_parameters(web: Web, key: str, call: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": call, "params": {"name": "zz", "arguments": {}}}
    error = post(web, key, body, **{"MCP-Protocol-Version": "2025-11-25"}).json()["error"]
    assert error["code"] == -32602 and "zz" in error["message"]
