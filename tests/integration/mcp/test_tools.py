"""An assistant's work with its memory over MCP, in both protocols."""

import asyncio
import json

import pytest

from memoryhub.auth.models import AuditEntry
from memoryhub.llm.tokens import count_raw
from strength.models import Memory, MemoryRevision
from tests.integration.mcp.conftest import MODES, connected, new_key
from tests.serving import Web

PATH = "/mcp/helper/ann"
MOST_SCHEMA_TOKENS = 1_500


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_memory_is_told_found_corrected_and_forgotten(web: Web, key: str, mode: str) -> None:
    async def story() -> tuple[str, str]:
        async with connected(web.url + PATH, key, mode) as call:
            told = await call("remember", content="Ann lives in Lisbon.", kind="fact")
            assert told["status"] == "active" and told["new"]
            again = await call("remember", content="Ann lives in Lisbon.", kind="fact")
            assert (again["id"], again["new"]) == (told["id"], False)
        async with connected(web.url + PATH, key, mode) as call:
            [found] = (await call("recall", query="Where does Ann live?"))["memories"]
            assert found == {"id": told["id"], "kind": "fact", "content": "Ann lives in Lisbon.", "on": found["on"]}
            assert "Lisbon" in (await call("context", message="In which town does Ann live?"))["remembered"]
            tried = await call("what_if", memory_id=told["id"], content="Ann lives in Porto.")
            assert tried == {"contexts": 1, "before": 1, "after": 1, "brings_in": [], "pushes_out": []}
            fixed = await call("correct", memory_id=told["id"], content="Ann lives in Porto.", reason="typo")
            moved = await call("correct", memory_id=fixed["id"], content="Ann lives in Faro.", changed=True)
            assert fixed["id"] == told["id"] != moved["id"]
            [found] = (await call("recall", query="Where does Ann live?"))["memories"]
            assert found["content"] == "Ann lives in Faro."
            assert (await call("forget", memory_id=moved["id"]))["status"] == "archived"
            assert (await call("recall", query="Where does Ann live?", repeat=True))["memories"] == []
        return told["id"], moved["id"]

    first, second = asyncio.run(story())
    assert {str(each.pk): each.actor.user_id for each in Memory.objects.all()} == {first: "ann", second: "ann"}
    revision = MemoryRevision.objects.filter(memory_id=first, verb="edit").get()
    assert (revision.who_kind, revision.reason) == ("key", "typo")


def test_a_session_is_not_given_the_same_twice_unless_it_asks(web: Web, key: str) -> None:
    async def story(mode: str, **headers: str) -> None:
        async with connected(web.url + PATH, key, mode, **headers) as call:
            [told] = (await call("recall", query="tea"))["memories"]
            assert await call("recall", query="tea") == {"memories": [], "given_before": 1}
            assert len((await call("recall", query="tea", repeat=True))["memories"]) == 1
            await call("correct", memory_id=told["id"], content=f"Ann likes green tea, said {mode}.")
            assert "said" in (await call("recall", query="tea"))["memories"][0]["content"]

    async def begin() -> None:
        async with connected(web.url + PATH, key) as call:
            await call("remember", content="Ann likes tea.")
        async with connected(web.url + PATH, key, MODES[1]) as call:  # a client without a session
            assert await call("recall", query="tea") == await call("recall", query="tea")

    asyncio.run(begin())
    asyncio.run(story("legacy"))
    asyncio.run(story(MODES[1], Mcp_Session_Id="s1"))


def test_a_call_with_an_idempotency_key_is_done_once(web: Web, key: str, mode: str) -> None:
    async def story() -> None:
        async with connected(web.url + PATH, key, mode) as call:
            meta = {"memoryhub/idempotency-key": "k1"}
            first = await call("remember", meta, content="Ann likes tea.")
            assert await call("remember", meta, content="Ann likes tea.") == first
            assert first["new"]
            result = await call.client.call_tool("remember", {"content": "Ann likes cocoa."}, meta=meta)
            assert "idempotency_key_reused" in result.content[0].text

    asyncio.run(story())
    assert Memory.objects.count() == 1


def test_project_files_are_viewed_and_edited(web: Web, key: str, mode: str) -> None:
    async def story() -> None:
        async with connected(web.url + PATH, key, mode) as call:
            assert "not_found" in await call.refused("project_file", command="view", project="garden")
            file = {"project": "garden", "name": "detail-plan.md"}
            await call("project_file", command="write", text="# Plan\n\n- roses\n- elder\n", **file)
            assert "garden" in (await call("project_file", command="view"))["projects"]
            await call("project_file", command="str_replace", old_text="roses", text="tulips", **file)
            await call("project_file", command="append", text="ivy beside the tulips", **file)
            text = (await call("project_file", command="view", **file))["text"]
            assert "tulips" in text and "ivy" in text and "roses" not in text
            refused = await call.refused("project_file", command="str_replace", old_text="tulips", text="x", **file)
            assert refused.endswith("old_text: stands 2 times in the file.")
            files = (await call("project_file", command="view", project="garden"))["files"]
            assert set(files) == {"MEMORY.md", "detail-plan.md"}
            read = await call.client.read_resource("memoryhub://projects/garden/detail-plan.md")
            assert read.contents[0].text == text
            assert "garden" in (await call.client.read_resource("memoryhub://projects")).contents[0].text

    asyncio.run(story())


def test_pinned_memories_are_a_resource(web: Web, key: str, mode: str) -> None:
    async def story() -> None:
        async with connected(web.url + PATH, key, mode) as call:
            await call("remember", content="Ann is allergic to nuts.", pinned=True)
            await call("remember", content="Ann likes tea.")
            read = await call.client.read_resource("memoryhub://pinned")
            assert read.contents[0].text == "- Ann is allergic to nuts."

    asyncio.run(story())


def test_connectors_search_and_fetch(web: Web, key: str, mode: str) -> None:
    async def story() -> None:
        async with connected(web.url + PATH, key, mode) as call:
            await call("remember", content="Ann likes tea." + " Green." * 20)
        async with connected(f"{web.url}{PATH}?profile=connector", key, mode) as call:
            assert [each.name for each in (await call.client.list_tools()).tools] == ["search", "fetch"]
            [found] = (await call("search", query="tea"))["results"]
            assert set(found) == {"id", "title", "url"}
            fetched = await call("fetch", id=found["id"])
            assert fetched["text"].endswith("Green.") and fetched["metadata"] == {"kind": "fact"}
            assert "id:" in await call.refused("fetch", id="nonsense")

    asyncio.run(story())


def test_the_schema_of_all_tools_is_small(web: Web, key: str, mode: str) -> None:
    async def listed() -> str:
        async with connected(web.url + PATH, key, mode) as call:
            tools = (await call.client.list_tools()).tools
            names = {"remember", "recall", "context", "correct", "forget", "project_file", "what_if"}
            assert {each.name for each in tools} == names
            destructive = {each.name for each in tools if each.annotations.destructive_hint}
            assert destructive == {"correct", "forget", "project_file"}
            return json.dumps([each.model_dump(by_alias=True, exclude_none=True) for each in tools])

    text = asyncio.run(listed())
    assert count_raw(text) <= MOST_SCHEMA_TOKENS
    assert "agent" not in json.loads(text)[0]["inputSchema"]["properties"]


def test_a_read_only_key_reads(web: Web, key: str) -> None:
    reader = new_key(scopes=["read"])

    async def story() -> None:
        async with connected(web.url + PATH, key) as call:
            await call("remember", content="Ann likes tea.")
        async with connected(web.url + PATH, reader) as call:
            assert (await call("recall", query="tea"))["memories"]
            assert "permission_denied" in await call.refused("remember", content="Ann hates tea.")
            assert "permission_denied" in await call.refused(
                "project_file", command="write", project="garden", name="detail-plan.md", text="x"
            )

    asyncio.run(story())
    assert Memory.objects.count() == 1


def test_the_agent_may_come_from_the_key(web: Web, key: str) -> None:
    bound = new_key(agent_ids=["helper"], user_id="ann")

    async def story() -> None:
        async with connected(web.url + "/mcp", key) as call:
            assert "/mcp/{agent}/{user}" in await call.refused("recall", query="tea")
        async with connected(web.url + PATH, key) as call:
            await call("remember", content="Ann likes tea.")
        async with connected(web.url + "/mcp", bound) as call:
            assert (await call("recall", query="tea"))["memories"]

    asyncio.run(story())
    assert AuditEntry.objects.filter(verb="create", object_kind="agent").count() == 1
