"""One story told through every door leaves the same rows, and one erasure leaves none."""

import asyncio
from typing import Any

import httpx2
import pytest
from django.apps import apps
from mcp.client import Client

from memoryhub.auth.models import AuditEntry
from memoryhub_client import AsyncMemoryhub, Memoryhub
from strength.models import Memory, MemoryRevision
from tests.integration.mcp.conftest import MODES, Calls, connected
from tests.integration.mcp.test_stdio import program
from tests.serving import Web

AGENT, USER = "helper", "ann"
TOLD, RIGHT = "Ann lives in Lisbon.", "Ann lives in Porto."


def over_rest(web: Web, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    with httpx2.Client(base_url=f"{web.url}/api/v1/", headers=headers, timeout=60) as http:
        owner = {"agent_id": AGENT, "user_id": USER}
        memory = http.post("memories", json={**owner, "content": TOLD, "kind": "fact"}).json()
        found = http.post("memories/search", json={**owner, "query": "Where does Ann live?"}).json()
        assert found["results"][0]["memory"]["id"] == memory["id"]
        assert http.patch(f"memories/{memory['id']}", json={"content": RIGHT}).status_code == 200
        assert http.post(f"memories/{memory['id']}/archive", json={}).status_code == 200


def over_client(web: Web, key: str) -> None:
    with Memoryhub(web.url, key, agent_id=AGENT, user_id=USER) as hub:
        memory = hub.memories_create(content=TOLD, kind="fact")
        found = hub.memories_search(query="Where does Ann live?")
        assert found["results"][0]["memory"]["id"] == memory["id"]
        hub.memory_update(memory["id"], content=RIGHT)
        hub.memory_archive(memory["id"])


def over_async_client(web: Web, key: str) -> None:
    async def story() -> None:
        async with AsyncMemoryhub(web.url, key, agent_id=AGENT, user_id=USER) as hub:
            memory = await hub.memories_create(content=TOLD, kind="fact")
            found = await hub.memories_search(query="Where does Ann live?")
            assert found["results"][0]["memory"]["id"] == memory["id"]
            await hub.memory_update(memory["id"], content=RIGHT)
            await hub.memory_archive(memory["id"])

    asyncio.run(story())


def over_mcp(mode: str) -> Any:
    def tell(web: Web, key: str) -> None:
        async def story() -> None:
            url = f"{web.url}/mcp/{AGENT}/{USER}"
            async with connected(url, key, mode) as call:
                memory = await call("remember", content=TOLD, kind="fact")
            async with connected(url, key, mode) as call:
                [found] = (await call("recall", query="Where does Ann live?"))["memories"]
                assert found["id"] == memory["id"]
                await call("correct", memory_id=memory["id"], content=RIGHT)
                await call("forget", memory_id=memory["id"])

        asyncio.run(story())

    return tell


def over_mcp_stdio(mode: str) -> Any:
    def tell(web: Web, key: str) -> None:
        async def story() -> None:
            options = ("--agent", AGENT, "--user", USER)
            async with Client(program(web, key, *options), mode=mode, cache=None) as client:
                memory = await Calls(client)("remember", content=TOLD, kind="fact")
            async with Client(program(web, key, *options), mode=mode, cache=None) as client:
                call = Calls(client)
                [found] = (await call("recall", query="Where does Ann live?"))["memories"]
                assert found["id"] == memory["id"]
                await call("correct", memory_id=memory["id"], content=RIGHT)
                await call("forget", memory_id=memory["id"])

        asyncio.run(story())

    return tell


DOORS = {
    "rest": over_rest,
    "client": over_client,
    "async client": over_async_client,
    **{f"mcp {mode}": over_mcp(mode) for mode in MODES},
    **{f"mcp stdio {mode}": over_mcp_stdio(mode) for mode in MODES},
}


def rows() -> dict[str, Any]:
    """Return what the story left, without ids and times."""
    [memory] = Memory.objects.all()
    revisions = MemoryRevision.objects.filter(memory=memory).order_by("number")
    fields = (
        "content",
        "kind",
        "namespace",
        "status",
        "trust",
        "source",
        "channel",
        "version",
        "locked",
        "scope_level",
    )
    return {
        "memory": {name: getattr(memory, name) for name in fields},
        "revisions": [(each.verb, each.who_kind, each.changed_before, each.changed_after) for each in revisions],
        "counts": {kind.__name__: kind.objects.filter(actor_id=memory.actor_id).count() for kind in owned()},
        "audit": sorted(AuditEntry.objects.exclude(verb="issue").values_list("verb", "object_kind", "who_kind")),
    }


def owned() -> list[Any]:
    """Return the models of an actor's rows but for the answers that repeats get."""
    kinds = [each for each in apps.get_models() if any(field.name == "actor" for field in each._meta.fields)]
    return [each for each in kinds if each.__name__ != "IdempotencyRecord"]


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return {}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_leaves_the_same_rows(door: str, web: Web, key: str, told: dict[str, Any]) -> None:
    DOORS[door](web, key)
    left = rows()
    assert left == told.setdefault("first", left)
    erase(web, key)


def erase(web: Web, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    erased = httpx2.delete(f"{web.url}/api/v1/actors?agent_id={AGENT}&user_id={USER}", headers=headers, timeout=60)
    assert erased.status_code in (200, 204)
    assert not Memory.objects.exists()
    assert left_behind() == {}


def left_behind() -> dict[str, int]:
    """Return how many rows of actors there are, by model; none after the erasure of the only one."""
    counted = {kind.__name__: kind.objects.exclude(actor=None).count() for kind in owned()}
    return {name: count for name, count in counted.items() if count}
