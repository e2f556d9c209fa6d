"""pydantic-ai's conversation store: the same answers as its store in memory, and what was said is remembered."""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RunUsage

from conversations.models import Message, Session
from memoryhub_client import Memoryhub
from memoryhub_client.pydantic_ai_store import MemoryhubConversationStore
from tests.serving import Web

MESSAGES: list[Any] = [
    ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("My cat is called Momo. 猫")]),
    ModelResponse([ThinkingPart("nul \0 …", signature="s"), TextPart("Hello Momo!")], model_name="fake"),
    ModelRequest([UserPromptPart(["Look \0", BinaryContent(b"\x00\xff", media_type="application/pdf")])]),
    ModelResponse([ToolCallPart("look", {"at": [1.5, None]}, "c1")]),
    ModelRequest([ToolReturnPart("look", {"seen": "a cat"}, "c1"), SystemPromptPart("later")]),
    ModelResponse([TextPart("")]),
]


@pytest.fixture
def hub(web: Web, key: str) -> Iterator[Memoryhub]:
    with Memoryhub(web.url, key, agent_id="kana", user_id="hiroki") as hub:
        yield hub


def prompt(text: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text, timestamp=datetime(2026, 11, 25, tzinfo=UTC))])


def test_messages_come_back_whole_and_are_what_was_said(hub: Memoryhub) -> None:
    async def run() -> None:
        store = MemoryhubConversationStore(hub)
        usage = RunUsage(requests=2, input_tokens=7)
        conversation = Conversation(messages=list(MESSAGES), usage=usage, conversation_id="talk 1")
        entries = await store.save(conversation, scope="slack")
        again = MemoryhubConversationStore(hub)
        loaded = await again.load("talk 1", scope="slack")
        assert loaded is not None
        assert (loaded.messages, loaded.usage, loaded.revision) == (MESSAGES, usage, conversation.revision)
        assert await again.load_entries("talk 1", limit=2) == entries[-2:]
        assert await MemoryhubConversationStore(hub).read_entry(entries[3].id) == entries[3]
        assert await again.load("talk 1", scope="mail") is None
        with pytest.raises(LookupError):
            await store.read_entry("no such entry")

    asyncio.run(run())
    said = [(each.role, each.content) for each in Message.objects.order_by("seq") if each.role != "tool"]
    assert said == [("user", "My cat is called Momo. 猫"), ("assistant", "Hello Momo!"), ("user", "Look ")]
    assert "called Momo" in str(hub.context_assemble(message="What is my cat called?")["messages"])


async def outcome(call: Any) -> Any:
    """Return what a call answers, without ids, times and revisions, or the kind of its error."""
    try:
        answer = await call
    except (ConversationConflict, UserError) as error:
        return type(error).__name__
    if isinstance(answer, Conversation):
        return answer.messages, answer.usage, answer.revision is not None
    if isinstance(answer, list) and answer and isinstance(answer[0], ConversationRecord):
        return [(each.conversation_id, each.scope, each.forked_from, len(each.branches)) for each in answer]
    return [each.message for each in answer] if isinstance(answer, list) else answer


async def life(store: ConversationStore, seed: int) -> list[Any]:
    """Return the outcomes of random saves, branches, forks and deletions, some of them out of date."""
    chance, seen, held = random.Random(seed), [], {}  # type: ignore[var-annotated]
    for step in range(24):
        name = f"talk {chance.randrange(3)}"
        verb = chance.choice(["load", "say", "say", "rewrite", "stale", "branch", "fork", "delete", "list", "read"])
        known = held.get(name) or Conversation(conversation_id=name)
        if verb == "load":
            held[name] = await store.load(name, limit=chance.choice([None, 0, 2]))
            seen.append(held[name] and held[name].messages)
        elif verb in ("say", "rewrite", "stale"):
            messages = [*known.messages[: -1 if verb == "rewrite" else None], prompt(f"{verb} {step}")]
            fresh = replace(known, messages=messages, revision="old" if verb == "stale" else known.revision)
            seen.append(await outcome(store.save(fresh, scope=chance.choice([None, "a"]))))
            held[name] = fresh if seen[-1] != "ConversationConflict" else known
        elif verb == "branch":
            at = chance.randrange(3)
            seen.append(await outcome(store.branch(name, at=at, expected_revision=known.revision or "none")))
        elif verb == "fork":
            seen.append(await outcome(store.fork(name, new_conversation_id=f"talk {chance.randrange(4)}")))
        elif verb == "delete":
            seen.append(await outcome(store.delete(name, scope=chance.choice([None, "a"]))))
        elif verb == "list":
            seen.append(await outcome(store.list_conversations(scope=chance.choice([None, "a"]))))
        else:
            seen.append(await outcome(store.load_entries(name)))
    return seen


@pytest.mark.parametrize("seed", range(4))
def test_random_lives_end_as_in_memory(hub: Memoryhub, seed: int) -> None:
    ours = asyncio.run(life(MemoryhubConversationStore(hub), seed))
    assert ours == asyncio.run(life(InMemoryConversationStore(), seed))
    assert len(ours) == 24


def test_of_two_writers_one_wins_and_erasure_leaves_nothing(hub: Memoryhub, web: Web, key: str) -> None:
    async def run() -> None:
        store = MemoryhubConversationStore(hub)
        await store.save(Conversation(messages=[prompt("first")], conversation_id="talk"))
        copies = [await MemoryhubConversationStore(hub).load("talk") for _ in range(4)]
        writers = []
        for n, copy in enumerate(copies):
            assert copy is not None
            copy.messages.append(prompt(f"writer {n}"))
            writers.append(MemoryhubConversationStore(hub).save(copy))
        results = await asyncio.gather(*writers, return_exceptions=True)
        assert sorted(type(each).__name__ for each in results) == [*["ConversationConflict"] * 3, "list"]
        left = await store.load("talk")
        assert left is not None
        assert len(left.messages) == 2
        assert len(list(hub.messages_list(next(iter(hub.sessions_list()))["id"]))) == 4
        with Memoryhub(web.url, key, agent_id="kana", user_id="maya") as other:
            assert await MemoryhubConversationStore(other).load("talk") is None
        hub.actor_erase(user_id="hiroki")
        assert await MemoryhubConversationStore(hub).load("talk") is None

    asyncio.run(run())
    assert not Message.objects.exists()
    assert not Session.objects.exists()
