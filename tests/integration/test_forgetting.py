"""A deleted message is nowhere: no table repeats its words, and what rests on others too is kept for review (SPEC C6)."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from rest_framework.test import APIClient

from conversations.actions import forgetting
from conversations.models import Message, Session
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import Scope, command
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Offer
from strength.models import Memory, Profile, ProfileVersion, Tombstone
from summaries.actions.documents import append_entry, write_document
from summaries.domain.documents import DocumentKind
from summaries.models import Document, DocumentEntry, Project, Summary
from tests.conftest import client_with_key
from tests.database import everywhere
from tests.factories.planting import API, made
from tests.fakes.llm_server import Asked, LLMServer, Reply

pytestmark = pytest.mark.django_db

NAMES = {"agent_id": "kana", "user_id": "hiroki"}
MESSAGES = 6
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BY = command("test")


@dataclass
class Spoken:
    """A session with what was drawn from it: each text repeats the mark of its message, those of several a common one."""

    client: APIClient
    session_id: str = ""
    marks: list[str] = field(default_factory=list)
    shared: str = field(default_factory=lambda: f"shared{uuid4().int}")
    messages: list[dict[str, Any]] = field(default_factory=list)

    def post(self, path: str, body: dict[str, Any], *statuses: int) -> Any:
        return made(self.client.post(f"{API}/{path}", body, headers={"Idempotency-Key": uuid4().hex}), *statuses)

    def delete(self, path: str, **params: Any) -> Any:
        return self.client.delete(f"{API}/{path}", query_params=params)


@pytest.fixture
def spoken(client: APIClient, llm: LLMServer) -> Spoken:
    """Return a session whose messages were summarised, remembered, routed, filed and recalled."""
    spoken = Spoken(client, marks=[f"mark{uuid4().int}" for _ in range(MESSAGES)])
    spoken.session_id = spoken.post("sessions", {**NAMES})["id"]
    spoken.messages = spoken.post(
        f"sessions/{spoken.session_id}/messages", {"messages": [_body(spoken, place) for place in range(MESSAGES)]}
    )["results"]
    Message.objects.filter(pk=spoken.messages[5]["id"]).update(abandoned_at=NOW)
    llm.answer(Reply(" ".join(spoken.marks[:5])))
    job = spoken.post(f"sessions/{spoken.session_id}/summary", {}, 202)["job_id"]
    run(Offer(UUID(job), "summarize"), worker=uuid4())
    run_job("remember_summary")
    _remember(spoken)
    _file(spoken)
    spoken.post("context", {**NAMES, "message": "What was said about the harbour?"})
    for place in (0, 3):
        content = Message.objects.get(pk=spoken.messages[place]["id"]).content
        spoken.post("context", {**NAMES, "session_id": spoken.session_id, "message": content})
        spoken.post("projects/route", {**NAMES, "message": content})
    return spoken


def _body(spoken: Spoken, place: int) -> dict[str, Any]:
    mark = spoken.marks[place]
    if place == 1:
        call = {"type": "tool_use", "id": "call-1", "name": "look_up", "input": {"about": mark}}
        return {"role": "assistant", "content": [{"type": "text", "text": f"I look {mark} up."}, call]}
    if place == 2:
        result = {"type": "tool_result", "tool_use_id": "call-1", "content": f"It says {mark}."}
        return {"role": "user", "content": [result], "metadata": {"note": mark}}
    image = {"type": "image", "name": f"{mark}.png"}
    role = "assistant" if place == 4 else "user"
    return {
        "role": role, "content": [{"type": "text", "text": f"About {mark} in the harbour."}, image], "author": mark,
        "client_message_id": mark, "metadata": {mark: mark},
    }  # fmt: skip


def _remember(spoken: Spoken) -> None:
    """Write memories of one to five messages, and a profile that rests on those of one."""
    ids = [message["id"] for message in spoken.messages]
    lines = []
    for place, mark in enumerate(spoken.marks):
        memory = spoken.post(
            "memories", {**NAMES, "content": f"They spoke of {mark}.", "source_message_ids": [ids[place]]}
        )
        made(spoken.client.patch(f"{API}/memories/{memory['id']}", {"content": f"They only spoke of {mark}."}))
        lines.append({"text": f"Speaks of {mark}", "sources": [{"id": memory["id"], "digest": "0" * 16}]})
    for number in range(2, 6):
        content = f"{spoken.shared} was said {number} times."
        spoken.post("memories", {**NAMES, "content": content, "source_message_ids": ids[:number]})
    session = Session.objects.get(pk=spoken.session_id)
    times = {"created_at": NOW, "generator": "llm", "lines": lines}
    profile = Profile.objects.create(actor_id=session.actor_id, updated_at=NOW, **times)
    ProfileVersion.objects.create(
        actor_id=session.actor_id, profile=profile, number=1, verb="write", who_kind="job", **times
    )


def _file(spoken: Spoken) -> None:
    spoken.post("projects", {**NAMES, "name": "harbour"})
    project = Project.objects.select_related("actor__agent").get(name="harbour")
    ids = [message["id"] for message in spoken.messages]
    entries = [(f"Filed {mark}.", [ids[place]]) for place, mark in enumerate(spoken.marks)]
    for text, sources in [*entries, (f"Filed {spoken.shared}.", ids[:3])]:
        append_entry(
            project=project, document_name="decisions.md", text=text, sources={"message_ids": sources},
            by=BY, now=NOW,
        )  # fmt: skip


def run_job(kind: str) -> None:
    """Run the queued jobs of a kind, as a worker would."""
    for job in Job.objects.open().filter(kind=kind):
        run(Offer(job.pk, kind), worker=uuid4())


def test_every_place_repeats_the_words_before(spoken: Spoken) -> None:
    """The control: the search that later finds nothing finds them now."""
    assert {
        "conversations_message.content", "conversations_message.blocks", "conversations_message.metadata",
        "conversations_receipt.query", "conversations_receipt.items", "summaries_summary.text",
        "summaries_summaryversion.text", "summaries_document.text", "summaries_documentversion.text",
        "summaries_routingdecision.message", "strength_memory.content", "strength_memoryrevision.after",
        "strength_profile.lines", "strength_profileversion.lines", "memoryhub_idempotencyrecord.body",
    } <= everywhere(spoken.marks[0])  # fmt: skip


@pytest.mark.parametrize("place", range(MESSAGES))
def test_a_deleted_message_is_nowhere(spoken: Spoken, place: int) -> None:
    """Whatever its role or branch; what others said is kept, but for the texts that held it."""
    answer = spoken.delete(f"messages/{spoken.messages[place]['id']}")
    assert answer.status_code == 200, answer.content
    assert answer.json()["counts"]["messages"] == 1
    assert everywhere(spoken.marks[place]) == set()
    kept = Message.objects.filter(session=spoken.session_id).order_by("seq").values_list("seq", flat=True)
    assert list(kept) == [seq for seq in range(1, MESSAGES + 1) if seq != place + 1]
    for other in set(range(MESSAGES)) - {place}:
        assert {"conversations_message.content", "strength_memory.content", "summaries_document.text"} & everywhere(
            spoken.marks[other]
        )


def test_what_others_said_too_is_kept_and_waits_for_review(spoken: Spoken) -> None:
    counts = spoken.delete(f"messages/{spoken.messages[0]['id']}").json()["counts"]
    shared = Memory.objects.filter(content__contains=spoken.shared)
    assert counts["memories_for_review"] == shared.count() == 4
    assert set(shared.values_list("status", flat=True)) == {"pending"}
    assert all(memory.sources.count() == number for number, memory in enumerate(shared.order_by("content"), 1))
    assert counts["entries_for_review"] == 1
    entry = DocumentEntry.objects.get(trust="untrusted")
    assert entry.source["message_ids"] == [message["id"] for message in spoken.messages[1:3]]
    assert spoken.shared in Document.objects.get(name="decisions.md").text


def test_a_deleted_range_is_nowhere(spoken: Spoken) -> None:
    body = {"from_seq": 2, "to_seq": 4, "reason": "a slip"}
    answer = spoken.post(f"sessions/{spoken.session_id}/forget", body)
    assert answer["counts"]["messages"] == 3
    for place in (1, 2, 3):
        assert everywhere(spoken.marks[place]) == set()
    assert Message.objects.filter(session=spoken.session_id).count() == 3
    spoken.post(f"sessions/{spoken.session_id}/messages", {"role": "user", "content": "More."})
    assert Message.objects.filter(session=spoken.session_id).order_by("seq").last().seq == MESSAGES + 1  # type: ignore[union-attr]


def test_a_deleted_session_is_nowhere(spoken: Spoken) -> None:
    answer = spoken.delete(f"sessions/{spoken.session_id}").json()
    assert answer["counts"]["sessions"] == 1
    for mark in (*spoken.marks, spoken.shared):
        assert everywhere(mark) == set()
    assert spoken.client.get(f"{API}/sessions/{spoken.session_id}").status_code == 404
    assert spoken.delete(f"sessions/{spoken.session_id}").status_code == 404


def test_a_dry_run_counts_the_same_and_deletes_nothing(spoken: Spoken) -> None:
    before = {mark: everywhere(mark) for mark in spoken.marks}
    path = f"messages/{spoken.messages[0]['id']}"
    preview = spoken.delete(path, dry_run="true").json()
    assert preview["dry_run"]
    assert {mark: everywhere(mark) for mark in spoken.marks} == before
    assert spoken.delete(path).json()["counts"] == preview["counts"]


def test_the_summary_is_written_again_without_it(spoken: Spoken, llm: LLMServer) -> None:
    spoken.delete(f"messages/{spoken.messages[0]['id']}")
    assert not Summary.objects.exists()
    llm.answer(Reply("They spoke of the rest."))
    run_job("summarize")
    assert Summary.objects.get().text == "They spoke of the rest."
    assert all(spoken.marks[0] not in asked.text for asked in llm.asked[-1:])


def test_a_memory_that_rested_on_it_leaves_its_tombstone(spoken: Spoken) -> None:
    spoken.delete(f"messages/{spoken.messages[0]['id']}")
    assert Tombstone.objects.filter(message_ids=[spoken.messages[0]["id"]], decision="deleted").exists()
    again = {**NAMES, "content": f"They only spoke of {spoken.marks[0]}.", "source": "extraction"}
    refused = spoken.client.post(f"{API}/memories", again)
    assert (refused.status_code, refused.json()["code"]) == (409, "decided_against")


def test_the_audit_has_no_words(spoken: Spoken) -> None:
    spoken.delete(f"messages/{spoken.messages[0]['id']}")
    entry = AuditEntry.objects.filter(verb="delete", object_kind="session").get()
    assert entry.object_id == spoken.session_id
    assert entry.details == {"messages": 1, "first_seq": 1, "whole": False}


def test_a_key_of_one_user_deletes_what_it_said_by_the_scope_write(spoken: Spoken) -> None:
    path = f"messages/{spoken.messages[0]['id']}"
    stranger = client_with_key(scopes=[Scope.READ, Scope.WRITE], user_id="aoi")
    assert stranger.delete(f"{API}/{path}").status_code == 404
    assert client_with_key(scopes=[Scope.WRITE]).delete(f"{API}/{path}").status_code == 403
    assert client_with_key(scopes=[Scope.READ], user_id="hiroki").delete(f"{API}/{path}").status_code == 403
    assert client_with_key(scopes=[Scope.WRITE], user_id="hiroki").delete(f"{API}/{path}").status_code == 200


def test_an_untrusted_key_deletes_no_message(spoken: Spoken) -> None:
    untrusted = client_with_key(is_trusted=False)
    assert untrusted.delete(f"{API}/messages/{spoken.messages[0]['id']}").status_code == 403
    assert Message.objects.count() == MESSAGES


def test_a_range_without_messages_is_404(spoken: Spoken) -> None:
    path = f"{API}/sessions/{spoken.session_id}/forget"
    assert spoken.client.post(path, {"from_seq": 90, "to_seq": 99}).status_code == 404


def test_a_deleted_memory_names_the_messages_that_still_say_it(spoken: Spoken) -> None:
    memory = Memory.objects.get(content__contains=f"only spoke of {spoken.marks[0]}")
    answer = spoken.delete(f"memories/{memory.pk}")
    assert answer.json()["source_message_ids"] == [spoken.messages[0]["id"]]
    assert "conversations_message.content" in everywhere(spoken.marks[0])


def test_a_memory_is_deleted_with_its_sources(spoken: Spoken) -> None:
    memory = Memory.objects.get(content__contains=f"{spoken.shared} was said 2")
    writer = client_with_key(scopes=[Scope.WRITE])
    assert writer.delete(f"{API}/memories/{memory.pk}?with_sources=true").status_code == 403
    answer = spoken.delete(f"memories/{memory.pk}", with_sources="true").json()
    assert (answer["source_message_ids"], answer["counts"]["messages"]) == ([], 2)
    for mark in spoken.marks[:2]:
        assert everywhere(mark) == set()
    assert Message.objects.count() == MESSAGES - 2


def test_a_compaction_does_not_keep_the_words(spoken: Spoken) -> None:
    """Neither its text nor what came after it; lines that were added since are kept."""
    project = Project.objects.select_related("actor__agent").get(name="harbour")
    document = Document.objects.get(name="decisions.md")
    write_document(
        document=document, text=f"In short: {' '.join(spoken.marks)}.\n", kind=DocumentKind.COMPACTION, by=BY, now=NOW
    )
    append_entry(project=project, document_name="decisions.md", text="Later.", by=BY, now=NOW)
    spoken.delete(f"messages/{spoken.messages[0]['id']}")
    assert everywhere(spoken.marks[0]) == set()
    text = Document.objects.get(name="decisions.md").text
    assert "Later." in text and "In short" not in text
    assert all(f"Filed {mark}." in text for mark in spoken.marks[1:])


def test_lines_that_moved_to_another_project_are_removed_there(spoken: Spoken) -> None:
    spoken.post("projects", {**NAMES, "name": "canal"})
    path = f"projects/harbour/documents/decisions.md/move?agent_id={NAMES['agent_id']}&user_id={NAMES['user_id']}"
    spoken.post(path, {"lines": [f"Filed {spoken.marks[0]}."], "into": "canal"})
    spoken.delete(f"messages/{spoken.messages[0]['id']}")
    assert everywhere(spoken.marks[0]) == set()


def test_a_project_that_was_named_by_the_message_loses_its_description(spoken: Spoken) -> None:
    content = Message.objects.get(pk=spoken.messages[0]["id"]).content
    spoken.post("projects", {**NAMES, "name": "canal", "description": content})
    spoken.delete(f"messages/{spoken.messages[0]['id']}")
    assert everywhere(spoken.marks[0]) == set()
    assert Project.objects.get(name="canal").description == ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_summary_that_was_being_written_is_not_stored(client: APIClient, llm: LLMServer, is_whole: bool) -> None:
    """The job has read the message, and the model answers after it was deleted."""
    talk = Spoken(client, marks=["a mark of its own", "what is left"])
    talk.session_id = talk.post("sessions", {**NAMES})["id"]
    bodies = [{"role": "user", "content": f"This is {mark}."} for mark in talk.marks]
    talk.messages = talk.post(f"sessions/{talk.session_id}/messages", {"messages": bodies})["results"]
    path = f"sessions/{talk.session_id}" if is_whole else f"messages/{talk.messages[0]['id']}"

    def deleted_meanwhile(asked: Asked) -> Reply:
        if talk.marks[0] in asked.text:
            assert talk.delete(path).status_code == 200
            connection.close()  # the fake answers in a thread of its own
            return Reply(f"They spoke of {talk.marks[0]}.")
        return Reply("They spoke of the rest.")

    llm.answer(deleted_meanwhile)
    job = talk.post(f"sessions/{talk.session_id}/summary", {}, 202)["job_id"]
    for _attempt in range(2):
        Job.objects.filter(pk=job, state="queued").update(due_at=NOW)
        run(Offer(UUID(job), "summarize"), worker=uuid4())
    assert Job.objects.get(pk=job).state == "done"
    assert everywhere(talk.marks[0]) == set()
    assert list(Summary.objects.values_list("text", flat=True)) == ([] if is_whole else ["They spoke of the rest."])


@pytest.mark.django_db(transaction=True)
def test_memories_that_were_being_extracted_are_not_stored(client: APIClient, llm: LLMServer) -> None:
    talk = Spoken(client, marks=["a mark of its own"])
    talk.session_id = talk.post("sessions", {**NAMES})["id"]
    body = {"role": "user", "content": f"I like {talk.marks[0]}."}
    message = talk.post(f"sessions/{talk.session_id}/messages", body)["results"][0]

    def deleted_meanwhile(asked: Asked) -> Reply:
        if "a mark" in asked.text:
            assert talk.delete(f"messages/{message['id']}").status_code == 200
            connection.close()
        fact = {"text": f"Likes {talk.marks[0]}.", "sources": [1], "confidence": 0.9, "speech": "own_statement"}
        lists = asked.schema["properties"] if asked.schema else {}
        return Reply(data={name: [fact] if name == "preferences" else [] for name in lists})

    llm.answer(deleted_meanwhile)
    job = talk.post(f"sessions/{talk.session_id}/extract", {}, 202)["job_id"]
    run(Offer(UUID(job), "extract"), worker=uuid4())
    assert Job.objects.get(pk=job).state == "done"
    assert everywhere(talk.marks[0]) == set()


def test_a_long_session_is_deleted_by_a_job_in_parts(spoken: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is whole by itself: a job that is broken off has deleted what its progress says."""
    monkeypatch.setattr(forgetting, "STEP_MESSAGES", 2)
    answer = spoken.delete(f"sessions/{spoken.session_id}")
    assert (answer.status_code, answer.json()["counts"]) == (202, {})
    job_id = answer.json()["job_id"]
    assert spoken.delete(f"sessions/{spoken.session_id}").json()["job_id"] == job_id
    run(Offer(UUID(job_id), "forget_session"), worker=uuid4())
    job = Job.objects.get(pk=job_id)
    assert (job.state, job.progress) == ("done", {"done": MESSAGES, "total": MESSAGES})
    for mark in (*spoken.marks, spoken.shared):
        assert everywhere(mark) == set()
    assert not Session.objects.exists() and not Job.objects.filter(key__endswith=":forgotten").exists()
    assert Tombstone.objects.filter(message_ids=[spoken.messages[0]["id"]]).exists()
