"""The OpenAI Agents SDK's session: items come back to the letter, and what was said is remembered."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from agents.memory import Session as AgentsSession

from conversations.models import Message, Session
from memoryhub_client import Memoryhub
from memoryhub_client.agents_session import MemoryhubSession
from tests.integration.mcp.test_story import left_behind
from tests.serving import Web

ITEMS: list[Any] = [
    {"role": "user", "content": "My cat is called Momo. 猫"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "…"},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "it"}', "n": 1.0, "z": None, "a": True},
    {"type": "function_call_output", "call_id": "c1", "output": "nul \0 and half \ud83d a pair"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello Momo!", "annotations": []}]},
    {"role": "user", "content": [{"type": "input_text", "text": "nul \0"}, {"type": "input_image", "image_url": "x"}]},
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": ""},
]  # fmt: skip


@pytest.fixture
def hub(web: Web, key: str) -> Iterator[Memoryhub]:
    with Memoryhub(web.url, key, agent_id="kana", user_id="hiroki") as hub:
        yield hub


def test_items_come_back_to_the_letter(hub: Memoryhub) -> None:
    async def run() -> None:
        session = MemoryhubSession("talk 1", hub)
        assert isinstance(session, AgentsSession)
        assert (await session.get_items(), await session.pop_item()) == ([], None)
        await session.clear_session()
        await session.add_items([])
        await session.add_items(ITEMS[:5])
        await session.add_items(ITEMS[5:])
        again = MemoryhubSession("talk 1", hub, session_settings={"limit": 3})
        assert await session.get_items() == ITEMS
        assert [list(item) for item in await session.get_items()] == [list(item) for item in ITEMS]
        assert await again.get_items() == ITEMS[-3:]
        assert (await again.get_items(1), await again.get_items(0)) == (ITEMS[-1:], [])
        assert await again.get_items(99) == ITEMS
        assert [await session.pop_item() for _ in range(2)] == [ITEMS[-1], ITEMS[-2]]
        await session.add_items(ITEMS[:1])
        assert await session.get_items() == [*ITEMS[:-2], ITEMS[0]]
        await again.clear_session()
        assert await session.get_items() == []
        await session.add_items(ITEMS[:1])
        assert await again.get_items() == ITEMS[:1]

    asyncio.run(run())
    assert not Session.objects.exclude(channel="openai-agents").exists()
    assert [each.content for each in Message.objects.filter(role="assistant")] == ["Hello Momo!"]


def test_many_items_and_many_writers(hub: Memoryhub) -> None:
    numbered: list[Any] = [{"role": "user", "content": f"message {number}"} for number in range(1001)]

    async def run() -> None:
        session = MemoryhubSession("long", hub)
        await session.add_items(numbered)
        assert await session.get_items() == numbered
        others = [MemoryhubSession("long", hub) for _ in range(4)]
        await asyncio.gather(*(each.add_items([{"role": "user", "content": f"w{n}"}]) for n, each in enumerate(others)))
        assert len(await session.get_items()) == 1005

    asyncio.run(run())


def test_story_is_told_recalled_corrected_forgotten_and_erased(hub: Memoryhub, web: Web, key: str) -> None:
    async def run() -> None:
        session = MemoryhubSession("talk", hub)
        await session.add_items([{"role": "user", "content": "My cat is called Momo."}])
        context = hub.context_assemble(message="What is my cat called?")
        assert "called Momo" in str(context["messages"])
        await session.pop_item()
        await session.add_items([{"role": "user", "content": "My cat is called Mimi."}])
        assert await session.get_items() == [{"role": "user", "content": "My cat is called Mimi."}]
        with Memoryhub(web.url, key, agent_id="kana", user_id="maya") as other:
            assert await MemoryhubSession("talk", other).get_items() == []
        await session.clear_session()
        hub.actor_erase(user_id="hiroki")
        assert await session.get_items() == []

    asyncio.run(run())
    assert left_behind() == {}
