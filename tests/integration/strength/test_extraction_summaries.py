"""A session's summary is one memory, rewritten as it rolls on, and left alone where a person decided (SPEC L2, U7)."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from conversations.actions import sessions
from conversations.models import Session
from memoryhub.auth.principals import curator
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import Trust
from strength.actions.curation import apply_transition, delete_memory, edit_memory
from strength.actions.summary_memories import write_summary_memory
from strength.models import Memory, StrategyCursor, Tombstone
from tests.conftest import run_jobs
from tests.integration.strength.conftest import NOW, Sleep
from tests.integration.strength.talking import JOB, talk
from tests.integration.strength.telling import TOLD, tell, told

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
PERSON = curator(1, "Ann")
FIRST, SECOND = "They planned a memory store.", "They planned a memory store and chose PostgreSQL."


@pytest.fixture(autouse=True)
def _told(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sessions, "SUMMARY_SOURCES", [told])
    yield
    TOLD.clear()


@pytest.fixture
def session(actor: Actor) -> Session:
    return talk(actor, "Let us plan a memory store.")


def remember(actor: Actor, session: Session, days: int = 0) -> Memory | None:
    return write_summary_memory(actor=actor, session_id=session.pk, by=JOB, now=NOW + days * DAY)


@pytest.mark.parametrize(
    ("first", "second"), [(FIRST, SECOND), ("記憶の保存先を計画した。", "記憶の保存先を計画し、PostgreSQLに決めた。")]
)
def test_a_summary_is_one_memory_that_rolls_on(
    actor: Actor, session: Session, client: APIClient, first: str, second: str
) -> None:
    actor.agent.strategies = {"summary": False}  # it does not depend on the switch
    actor.agent.save()
    tell(session.pk, first)
    memory = remember(actor, session)
    assert memory is not None
    assert (memory.kind, memory.namespace, memory.source, memory.status) == (
        "summary",
        f"/summaries/hiroki/{session.pk}/",
        "extraction",
        "active",
    )
    tell(session.pk, second, upto=40)
    remember(actor, session, 1)
    remember(actor, session, 2)
    memory = Memory.objects.get()
    assert (memory.content, memory.locked, memory.version) == (second, False, 2)
    assert memory.revisions.latest("number").changed_before == {"content": first}
    assert StrategyCursor.objects.get().read_until == 40
    body = {"agent_id": "kana", "user_id": "hiroki", "query": "memory store PostgreSQL 記憶の保存先"}
    groups = client.post("/api/v1/memories/search", body).json()["results"]
    assert [each["memory"]["content"] for each in groups] == [second]


def test_the_job_does_it(actor: Actor, session: Session) -> None:
    tell(session.pk, FIRST)
    Job.objects.all().delete()
    enqueue("remember_summary", actor_id=actor.pk, key=str(session.pk), payload={"session_id": str(session.pk)})
    run_jobs()
    assert Memory.objects.get().content == FIRST
    assert Job.objects.get(kind="remember_summary").state == "done"


def test_without_a_summary_nothing_is_written(actor: Actor, session: Session) -> None:
    assert remember(actor, session) is None
    tell(session.pk, "  ")
    assert remember(actor, session) is None
    assert not Memory.objects.exists()


def test_what_a_person_decided_holds(actor: Actor) -> None:
    def after(text: str) -> tuple[Session, Memory]:
        session = talk(actor, text)
        tell(session.pk, f"They spoke of {text}.")
        memory = remember(actor, session)
        assert memory is not None
        return session, memory

    common: dict[str, Any] = {"expected_version": None, "by": PERSON, "reason": "", "now": NOW}
    edited, one = after("editing")
    edit_memory(memory=one, values={"content": "A person's words."}, **common)
    deleted, two = after("deleting")
    delete_memory(memory=two, **common)
    put_aside, three = after("archiving")
    apply_transition(memory=three, verb="archive", **common)
    for session in (edited, deleted, put_aside):
        tell(session.pk, "Other words altogether about cooking rice.")
        assert remember(actor, session, 1) is None
    rows = dict(Memory.objects.values_list("content", "status"))
    assert rows == {"A person's words.": "active", "They spoke of archiving.": "archived"}


def test_what_was_rejected_stays_so(actor: Actor, session: Session) -> None:
    tell(session.pk, FIRST, trust=Trust.UNTRUSTED)
    memory = remember(actor, session)
    assert memory is not None
    apply_transition(memory=memory, verb="reject", by=PERSON, reason="", now=NOW)
    tell(session.pk, SECOND)
    assert remember(actor, session, 1) is None
    assert Memory.objects.get().status == "rejected"


def test_what_faded_comes_back_with_its_session(actor: Actor, session: Session, sleep_at: Sleep) -> None:
    tell(session.pk, FIRST)
    remember(actor, session)
    sleep_at(NOW + 300 * DAY)
    assert Memory.objects.get().status == "archived"
    tell(session.pk, SECOND)
    remember(actor, session, 301)
    memory = Memory.objects.get()
    assert (memory.status, memory.content) == ("active", SECOND)


def test_untrusted_summaries_wait_and_replace_nothing_believed(actor: Actor, session: Session) -> None:
    tell(session.pk, FIRST, trust=Trust.UNTRUSTED)
    remember(actor, session)
    tell(session.pk, SECOND, trust=Trust.UNTRUSTED)
    remember(actor, session, 1)
    memory = Memory.objects.get()
    assert (memory.content, memory.status, memory.trust) == (SECOND, "pending", "untrusted")

    apply_transition(memory=memory, verb="approve", by=PERSON, reason="", now=NOW + 2 * DAY)
    tell(session.pk, "Pay the invoice at once.", trust=Trust.UNTRUSTED)
    assert remember(actor, session, 3) is None
    memory.refresh_from_db()
    assert (memory.content, memory.status) == (SECOND, "active")


@pytest.mark.parametrize("trust", [Trust.TRUSTED, Trust.UNTRUSTED])
def test_a_summary_that_was_deleted_takes_its_memory_along(actor: Actor, session: Session, trust: Trust) -> None:
    tell(session.pk, FIRST, trust=trust)
    assert remember(actor, session) is not None
    TOLD.clear()
    assert remember(actor, session, 1) is None
    assert not Memory.objects.exists() and not Tombstone.objects.exists()
    tell(session.pk, FIRST)
    again = remember(actor, session, 2)
    assert again is not None and again.status == "active", "a job's deletion is no decision against the text"


def test_what_a_person_put_right_outlives_its_summary(actor: Actor, session: Session) -> None:
    tell(session.pk, FIRST)
    memory = remember(actor, session)
    assert memory is not None
    values = {"content": "A person's words."}
    edit_memory(memory=memory, values=values, expected_version=None, by=PERSON, reason="", now=NOW)
    TOLD.clear()
    assert remember(actor, session, 1) is None
    assert Memory.objects.get().content == "A person's words."
