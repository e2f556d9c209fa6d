"""A program that keeps its conversation with an adapter and asks through an endpoint: everything is stored once."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from conversations.models import Message
from memoryhub_client import Memoryhub
from memoryhub_client.agents_session import MemoryhubSession
from memoryhub_client.pydantic_ai_store import MemoryhubConversationStore
from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.serving import Web

QUESTIONS = ["My cat is called Momo.", "How is the weather?", "yes", "yes"]


@pytest.fixture
def hub(web: Web, key: str) -> Iterator[Memoryhub]:
    with Memoryhub(web.url, key, agent_id="kana", user_id="hiroki") as hub:
        hub.agents_create(agent_id="kana")
        yield hub


@pytest.fixture
def answers(llm: LLMServer) -> list[str]:
    """The answers of a model that calls a tool for the weather."""
    given: list[str] = []

    def reply(asked: Asked) -> Reply:
        last = str(asked.messages[-1]["content"])
        if "weather?" in last:
            return Reply(calls=[("call_1", "weather", {"city": "Kyoto"})])
        given.append(f"Answer {len(given)} to what was asked.")
        return Reply(given[-1])

    llm.answer(reply)
    return given


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"Rain in {city}."


def openai_client(web: Web, key: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{web.url}/api/v1/openai", api_key=key, default_headers={"X-User-Id": "hiroki"})


def spoken() -> list[str]:
    """Return what was said, in the one session that there is."""
    rows = Message.objects.filter(role__in=["user", "assistant"], abandoned_at=None).exclude(content="").order_by("seq")
    assert Message.objects.values("session").distinct().count() == 1
    return [row.content for row in rows]


@pytest.mark.parametrize("form", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
@pytest.mark.parametrize("is_named", [True, False])
def test_agents_session_and_endpoint(
    hub: Memoryhub, web: Web, key: str, answers: list[str], form: Any, is_named: bool
) -> None:
    set_tracing_disabled(True)

    async def run() -> list[Any]:
        session = MemoryhubSession("conversation-7", hub)
        settings = ModelSettings(extra_headers=session.headers if is_named else {})
        async with openai_client(web, key) as client:
            agent = Agent(name="Kana", model=form("kana", client), tools=[weather])
            for question in QUESTIONS:
                await Runner.run(agent, question, session=session, run_config=RunConfig(model_settings=settings))
        return [*await session.get_items()]

    items = asyncio.run(run())
    said = [each for pair in zip(QUESTIONS, answers, strict=True) for each in pair]
    assert spoken() == said
    assert [text_of(item) for item in items] == [*said[:3], "function_call", "function_call_output", *said[3:]]


def test_conversation_store_and_endpoint(hub: Memoryhub, web: Web, key: str, answers: list[str]) -> None:
    async def run() -> Any:
        store = MemoryhubConversationStore(hub)
        async with openai_client(web, key) as client:
            model = OpenAIChatModel("kana", provider=OpenAIProvider(openai_client=client))
            agent = PydanticAgent(model, model_settings={"extra_headers": store.headers("conversation-7")})
            for question in [QUESTIONS[0], *QUESTIONS[2:]]:
                conversation = await store.load("conversation-7") or Conversation(conversation_id="conversation-7")
                await store.save(await agent.run(question, conversation=conversation))
        return await store.load("conversation-7")

    conversation = asyncio.run(run())
    assert len(conversation.messages) == 6
    assert spoken() == [each for pair in zip([QUESTIONS[0], *QUESTIONS[2:]], answers, strict=True) for each in pair]


def text_of(item: Any) -> str:
    content = item.get("content") or item["type"]
    return content if isinstance(content, str) else "".join(block["text"] for block in content)
