"""The client behind a network that breaks: no write is lost, and none is done twice."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from conversations.models import Message
from memoryhub_client import AnswerLost, Memoryhub, MemoryhubError, NotFound, RetryPolicy
from strength.models import Memory, MemoryRevision
from summaries.models import Document
from tests.fakes.faulty_proxy import FAULTS, FaultyProxy
from tests.fakes.llm_server import LLMServer, Reply
from tests.serving import Web

ANSWER = "The answer to everything comes in a few pieces. 緑茶。"


class Storm:
    """Writes of every kind, and what their callers were told: `True` done, `None` unknown or refused."""

    def __init__(self, hub: Memoryhub) -> None:
        self.hub = hub
        self.told: dict[str, dict[str, bool]] = {"memory": {}, "message": {}, "entry": {}, "chat": {}}
        self.session = hub.sessions_create(session_id=str(uuid4()))["id"]
        hub.projects_create(name="garden")
        self.edited = hub.memories_create(content="edited again and again")["id"]
        self.edits: list[str] = []
        self.deleted: list[str] = []

    def write(self, number: int) -> None:
        kind = list(self.told)[number % 4]
        text = f"{kind} {number} {uuid4().hex}"
        self.told[kind][text] = self._is_done(kind, text)
        if number % 4 == 0:
            self._edit(f"edit {number}")
            self._delete(f"short-lived {number}")

    def _is_done(self, kind: str, text: str) -> bool:
        hub = self.hub
        try:
            if kind == "memory":
                hub.memories_create(content=text, namespace="/storm/")
            elif kind == "message":
                hub.messages_create(self.session, role="user", content=text)
            elif kind == "entry":
                hub.document_entries_create("garden", "decisions.md", text=text)
            else:
                events = list(hub.chat(message=text, session_id=self.session, stream=True, memory=False))
                assert [name for name, _ in events] == ["session", *["delta"] * (len(events) - 2), "done"]
                assert "".join(data.get("text", "") for name, data in events if name == "delta") == ANSWER
        except MemoryhubError as error:
            assert error.retryable, error
            return False
        return True

    def _edit(self, text: str) -> None:
        try:
            self.hub.memory_update(self.edited, content=text)
        except AnswerLost:
            return
        except MemoryhubError:
            return
        self.edits.append(text)

    def _delete(self, text: str) -> None:
        try:
            made = self.hub.memories_create(content=text)
            self.hub.memory_delete(made["id"])
        except MemoryhubError:
            return
        self.deleted.append(made["id"])


def counted(storm: Storm) -> dict[str, dict[str, int]]:
    """Return how often each text stands in the database."""
    document = Document.objects.get(name="decisions.md").text
    return {
        "memory": {text: Memory.objects.filter(content=text).count() for text in storm.told["memory"]},
        "message": {text: Message.objects.filter(content=text).count() for text in storm.told["message"]},
        "entry": {text: document.count(text) for text in storm.told["entry"]},
        "chat": {text: Message.objects.filter(content=text).count() for text in storm.told["chat"]},
    }


def survive(web: Web, key: str, llm: LLMServer, *, faults: int, attempts: int, seed: int) -> None:
    llm.answer(Reply(ANSWER))
    with FaultyProxy(web.url, share=0.0, seed=seed) as proxy:
        retries = RetryPolicy(attempts=attempts, first_wait_seconds=0.002)
        with Memoryhub(proxy.url, key, agent_id="kana", user_id="hiroki", retries=retries) as hub:
            storm, number = Storm(hub), 0
            proxy.share = 0.5
            with ThreadPoolExecutor(4) as pool:
                while proxy.faults.total() < faults:
                    list(pool.map(storm.write, range(number, number + 16)))
                    number += 16
            proxy.share = 0.0
    assert set(proxy.faults) == set(FAULTS) or faults < 100
    check(storm)


def check(storm: Storm) -> None:
    found = counted(storm)
    for kind, told in storm.told.items():
        for text, is_done in told.items():
            assert found[kind][text] == 1 if is_done else found[kind][text] <= 1, (kind, text)
    assert Memory.objects.filter(namespace="/storm/", numbers__strength__gt=1.0).count() == 0, "written twice"
    answers = Message.objects.filter(role="assistant", content=ANSWER).count()
    done = sum(storm.told["chat"].values())
    assert done <= answers <= len(storm.told["chat"])
    assert not Memory.objects.filter(pk__in=storm.deleted).exists()
    kept = MemoryRevision.objects.filter(memory_id=storm.edited).values_list("after__content", flat=True)
    assert set(storm.edits) <= set(kept)


def test_faults_lose_no_write_and_double_none(web: Web, key: str, llm: LLMServer) -> None:
    survive(web, key, llm, faults=16, attempts=12, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("attempts", "seed"), [(12, 2), (3, 3)])
def test_many_faults_lose_no_write_and_double_none(
    attempts: int, seed: int, web: Web, key: str, llm: LLMServer
) -> None:
    survive(web, key, llm, faults=250, attempts=attempts, seed=seed)


@contextmanager
def lossy(web: Web, key: str, *faults: str | None) -> Iterator[tuple[Memoryhub, FaultyProxy]]:
    """Return a client, to the first of whose calls these faults happen."""
    with FaultyProxy(web.url, share=0.0, seed=0) as proxy:
        proxy.then(*faults)
        with Memoryhub(proxy.url, key, agent_id="kana", retries=RetryPolicy(first_wait_seconds=0.002)) as hub:
            yield hub, proxy


def test_conditional_change_whose_answer_is_lost_is_not_repeated(web: Web, key: str) -> None:
    with Memoryhub(web.url, key, agent_id="kana") as direct, lossy(web, key, "lost") as (hub, proxy):
        memory = direct.memories_create(content="tea")
        with pytest.raises(AnswerLost) as lost:
            hub.memory_update(memory["id"], if_match=memory["etag"], content="coffee")
        assert not lost.value.retryable
        assert proxy.faults.total() == 1
        assert direct.memory_get(memory["id"])["content"] == "coffee"


def test_deletion_whose_answer_is_lost_succeeds(web: Web, key: str) -> None:
    with Memoryhub(web.url, key, agent_id="kana") as direct, lossy(web, key, "lost") as (hub, _):
        memory: Any = direct.memories_create(content="tea")
        hub.memory_delete(memory["id"])
        with pytest.raises(NotFound):
            direct.memory_delete(memory["id"])
