"""The Python client against the real server: one story told twice, and what holds for all calls."""

import asyncio
import inspect
from typing import Any

import pytest

from memoryhub.tenancy.models import Actor
from memoryhub_client import (
    AsyncMemoryhub,
    AuthenticationFailed,
    Conflict,
    Forbidden,
    InvalidRequest,
    Memoryhub,
    NotFound,
    ServerError,
    VersionMismatch,
)
from tests.fakes.llm_server import LLMServer, Reply
from tests.integration.clients.conftest import new_key
from tests.integration.mcp.test_story import left_behind
from tests.serving import Web

WHOSE = {"agent_id": "kana", "user_id": "hiroki"}


async def story(hub: Any) -> dict[str, Any]:
    """Tell, recall in another session, correct, forget, erase; return what the steps answered."""

    async def answered(value: Any) -> Any:
        return await value if inspect.isawaitable(value) else value

    told = await answered(hub.sessions_create(channel="app"))
    said = {"role": "user", "content": "My cat is called Momo.", "client_message_id": "1"}
    await answered(hub.messages_create(told["id"], **said))
    await answered(hub.messages_create(told["id"], **said))
    memory = await answered(hub.memories_create(content="Hiroki's cat is called Momo", kind="fact"))
    other = await answered(hub.sessions_create(channel="app"))
    context = await answered(hub.context_assemble(session_id=other["id"], message="What is my cat called?"))
    corrected = await answered(
        hub.memory_update(memory["id"], content="Hiroki's cat is called Mimi", if_match=memory["etag"])
    )
    search = await answered(hub.memories_search(query="cat", include_messages=True))
    await answered(hub.memory_archive(memory["id"], reason="no longer asked for"))
    erased = await answered(hub.actor_erase(user_id="hiroki"))
    return {"context": context, "corrected": corrected, "search": search, "erased": erased["erased"]}


async def told_by_async(web: Web, key: str) -> dict[str, Any]:
    async with AsyncMemoryhub(web.url, key, **WHOSE) as hub:
        return await story(hub)


@pytest.mark.parametrize("door", ["sync", "async"])
def test_story_leaves_the_same_rows_and_erasure_none(door: str, web: Web, key: str) -> None:
    if door == "sync":
        with Memoryhub(web.url, key, **WHOSE) as hub:  # type: ignore[arg-type]
            told = asyncio.run(story(hub))
    else:
        told = asyncio.run(told_by_async(web, key))
    assert "Momo" in str(told["context"]["messages"])
    assert told["corrected"]["content"] == "Hiroki's cat is called Mimi"
    found = [each.get("memory") or each["message"] for each in told["search"]["results"]]
    assert [each["content"] for each in found] == ["Hiroki's cat is called Mimi", "My cat is called Momo."]
    erased = told["erased"]
    assert (erased["conversations_session"], erased["conversations_message"], erased["strength_memory"]) == (2, 1, 1)
    assert left_behind() == {}
    assert not Actor.objects.filter(user_id="hiroki").exists()


def test_lists_are_read_over_all_pages(web: Web, key: str) -> None:
    async def all_of_them() -> list[str]:
        async with AsyncMemoryhub(web.url, key, **WHOSE) as hub:
            return [each["content"] async for each in hub.memories_list(limit=2, ordering="created_at")]

    with Memoryhub(f"{web.url}/api/v1/", key, **WHOSE) as hub:  # type: ignore[arg-type]
        texts = [f"The answer to question {number}" for number in range(5)]
        for text in texts:
            hub.memories_create(content=text)
        assert [each["content"] for each in hub.memories_list(limit=2, ordering="created_at")] == texts
    assert asyncio.run(all_of_them()) == texts


def test_a_filter_may_have_several_values_on_every_page(web: Web, key: str) -> None:
    with Memoryhub(web.url, key, **WHOSE) as hub:  # type: ignore[arg-type]
        for kind in ("fact", "preference", "note"):
            hub.memories_create(content=f"A {kind}", kind=kind)
        found = hub.memories_list(kind=["fact", "note"], limit=1, ordering="created_at")
        assert [each["content"] for each in found] == ["A fact", "A note"]


def test_answers_of_other_kinds(web: Web, key: str) -> None:
    with Memoryhub(web.url, key, **WHOSE) as hub:  # type: ignore[arg-type]
        assert hub.projects_catalog() == ""
        hub.projects_create(name="garden", description="What grows where")
        first = hub.document_put("garden", "detail-roses.md", text="Roses.", if_none_match="*")
        assert hub.projects_catalog() == "1. **garden** - What grows where"
        with pytest.raises(VersionMismatch):
            hub.document_put("garden", "detail-roses.md", text="Others.", if_none_match="*")
        hub.document_put("garden", "detail-roses.md", text="Red roses.", if_match=first["etag"])
        project: Any = hub.project_get("garden")
        assert "detail-roses.md" in [each["name"] for each in project["documents"]]
        nothing: Any = hub.project_delete("garden")
        assert nothing is None
        assert [line for line in hub.actor_export() if "end" in line]
        assert hub.usage_get(from_="2026-01-01", to="2026-01-02")["results"] == []


def test_problems_are_typed(web: Web, key: str) -> None:
    with Memoryhub(web.url, key, **WHOSE) as hub:  # type: ignore[arg-type]
        memory = hub.memories_create(content="likes tea")
        with pytest.raises(InvalidRequest) as invalid:
            hub.memories_create(content="", confidence=2.0)
        assert {each["field"] for each in invalid.value.errors} == {"content", "confidence"}
        with pytest.raises(NotFound):
            hub.memory_get("0198c5b2-6f1e-7d3a-9c41-5a7e2b9d4f10")
        with pytest.raises(Conflict) as conflict:
            hub.memory_reactivate(memory["id"])
        assert (conflict.value.code, conflict.value.retryable) == ("wrong_state", False)
        with pytest.raises(InvalidRequest) as reused:
            hub.memories_create(content="likes tea", idempotency_key="1")
            hub.memories_create(content="likes coffee", idempotency_key="1")
        assert reused.value.code == "idempotency_key_reused"
        with pytest.raises(ServerError) as failed:
            hub.chat(message="Hello?")
        assert (failed.value.status, failed.value.code) == (503, "llm_unavailable")
        assert failed.value.members["session_id"]
    with Memoryhub(web.url, "mh_wrong", agent_id="kana") as hub, pytest.raises(AuthenticationFailed):
        hub.memory_get(memory["id"])
    reader = new_key(scopes=["read"])
    with Memoryhub(web.url, reader, agent_id="kana") as hub, pytest.raises(Forbidden):
        hub.memories_create(content="likes tea")


def test_chat_comes_whole_or_as_events(web: Web, key: str, llm: LLMServer) -> None:
    llm.answer(Reply("Green tea.", pieces=["Green ", "tea."]))

    async def events() -> list[Any]:
        async with AsyncMemoryhub(web.url, key, **WHOSE) as hub:
            assert (await hub.chat(message="Which tea?"))["text"] == "Green tea."
            return [event async for event in hub.chat(message="Which tea?", stream=True)]

    with Memoryhub(web.url, key, **WHOSE) as hub:  # type: ignore[arg-type]
        assert hub.chat(message="Which tea?")["text"] == "Green tea."
        streamed: list[Any] = list(hub.chat(message="Which tea?", stream=True))
    for each in (streamed, asyncio.run(events())):
        assert [name for name, _ in each] == ["session", "delta", "delta", "done"]
        assert each[-1][1]["text"] == "Green tea."


def test_failure_inside_of_a_stream_is_raised(web: Web, key: str, llm: LLMServer) -> None:
    llm.answer(Reply("Half an answer that is long enough", failure="overload_in_stream"))
    with Memoryhub(web.url, key, **WHOSE) as hub, pytest.raises(ServerError) as failed:  # type: ignore[arg-type]
        list(hub.chat(message="Which tea?", stream=True))
    assert (failed.value.code, failed.value.retryable) == ("llm_failed", True)
    assert failed.value.members["message_id"]
