"""`memoryhub-mcp`: the server's tools for a client that starts a program."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from strength.models import Memory
from tests.integration.mcp.conftest import MODES, Calls
from tests.serving import Web

SOURCE = str(Path(__file__).parents[3] / "clients" / "python" / "src")


def program(web: Web, key: str, *options: str) -> StdioServerParameters:
    environment = {**os.environ, "PYTHONPATH": SOURCE, "MEMORYHUB_KEY": key}
    arguments = ["-m", "memoryhub_client.mcp_proxy", "--url", web.url, *options]
    return StdioServerParameters(command=sys.executable, args=arguments, env=environment)


@pytest.mark.parametrize("mode", MODES)
def test_a_story_over_stdio(web: Web, key: str, mode: str) -> None:
    async def story() -> None:
        options = ("--agent", "helper", "--user", "安娜/1")
        async with Client(program(web, key, *options), mode=mode, cache=None) as client:
            call = Calls(client)
            assert len((await client.list_tools()).tools) == 7
            told = await call("remember", content="Ann likes tea. 好き")
            [found] = (await call("recall", query="tea"))["memories"]
            assert (found["id"], found["content"]) == (told["id"], "Ann likes tea. 好き")
            assert await call("recall", query="tea") == {"memories": [], "given_before": 1}
            assert (await client.read_resource("memoryhub://pinned")).contents[0].text == ""
            assert "content" in await call.refused("remember", content="")

    asyncio.run(story())
    assert Memory.objects.get().actor.user_id == "安娜/1"


def test_what_fails_is_answered(web: Web, key: str) -> None:
    lines = (
        b'nonsense\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n{"jsonrpc":"2.0","id":7,"method":"ping"}\n'
    )

    def answers(url: str, key: str) -> list[dict]:
        command = [sys.executable, "-m", "memoryhub_client.mcp_proxy", "--url", url, "--key", key]
        environment = {**os.environ, "PYTHONPATH": SOURCE}
        done = subprocess.run(command, input=lines, env=environment, capture_output=True, timeout=300)
        assert done.returncode == 0 and done.stderr == b""
        return [json.loads(line) for line in done.stdout.splitlines()]

    by_id = {each["id"]: each for each in answers(web.url, "mh_wrong")}
    assert by_id.keys() == {None, 7} and by_id[None]["error"]["code"] == -32700
    assert "401" in by_id[7]["error"]["message"]
    assert "does not answer" in answers("http://127.0.0.1:9", key)[-1]["error"]["message"]
    assert answers(web.url, key)[-1]["result"] == {}
