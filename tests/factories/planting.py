"""One user's rows of every sort, made through the API, each text with a mark that nothing else holds."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from rest_framework.test import APIClient

from memoryhub.importexport.foreign.models import ImportedRow
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Offer, enqueue
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.llm.usage.recording import record
from memoryhub.tenancy.policy import actor_id
from memoryhub.webhooks.actions.delivery import TEST_PLACE
from memoryhub.webhooks.models import Delivery
from strength.models import Memory, Profile, ProfileVersion, ReflectionCursor, StrategyCursor
from summaries.models import ProjectCursor, SummaryDraft
from tests.conftest import client_with_key
from tests.database import prepared

API = "/api/v1"


@dataclass
class Planted:
    """A user's rows: their ids by the name that addresses use, and the marks of their texts."""

    agent_id: str
    user_id: str
    agent_mark: str
    user_mark: str
    ids: dict[str, str] = field(default_factory=dict)
    upload_size: int = 0

    @property
    def names(self) -> dict[str, str]:
        """Return the two names that most bodies and queries carry."""
        return {"agent_id": self.agent_id, "user_id": self.user_id}

    @property
    def actor_id(self) -> str:
        """Return the key of the user's actor."""
        return str(actor_id(self.agent_id, self.user_id))


def made(response: Any, *statuses: int) -> Any:
    """Return the answer's JSON; fails with the answer where its status is not one of those expected."""
    assert response.status_code in (statuses or (200, 201)), response.content
    return response.json()


def plant(client: APIClient, *, agent_id: str, user_id: str) -> Planted:
    """Make an agent, a user, a session with messages, memories in several states, a receipt; return what was made."""
    planted = Planted(agent_id, user_id, f"agentmark{uuid4().hex}", f"usermark{uuid4().hex}")
    mark, names = planted.user_mark, planted.names
    made(client.post(f"{API}/agents", {"agent_id": agent_id, "system_prompt": planted.agent_mark}), 201, 409)
    made(client.post(f"{API}/memories", {"agent_id": agent_id, "content": f"{planted.agent_mark} own memory"}))
    made(
        client.patch(f"{API}/actors?agent_id={agent_id}&user_id={user_id}", {"policy": {"untrusted_channels": [mark]}})
    )
    session = made(
        client.post(f"{API}/sessions", {**names, "title": f"{mark} title", "metadata": {"note": f"{mark} metadata"}})
    )
    messages = made(
        client.post(
            f"{API}/sessions/{session['id']}/messages",
            {"messages": [
                {"role": "user", "content": f"{mark} asks about green tea", "author": f"{mark} author",
                 "client_message_id": f"{mark} client id"},
                {"role": "assistant", "content": [{"type": "text", "text": f"{mark} answers about green tea"},
                                                  {"type": "image", "name": f"{mark}.png"}],
                 "metadata": {"note": f"{mark} message metadata"}},
            ]},
        )
    )["results"]  # fmt: skip
    memory = made(
        client.post(
            f"{API}/memories",
            {**names, "content": f"{mark} likes green tea", "kind": "preference", "tags": [f"{mark} tag"],
             "learning": f"{mark} learning", "perspective": f"{mark} view", "pinned": True,
             "strength_by_perspective": {f"{mark} view": 0.4}, "source_message_ids": [messages[0]["id"]]},
        )
    )  # fmt: skip
    pending = made(
        client.post(f"{API}/memories", {**names, "content": f"{mark} perhaps drinks coffee", "confidence": 0.1})
    )
    made(
        client.patch(
            f"{API}/memories/{memory['id']}", {"content": f"{mark} loves green tea", "reason": f"{mark} reason"}
        )
    )
    revision = made(client.get(f"{API}/memories/{memory['id']}/revisions"))["results"][-1]
    context = made(
        client.post(f"{API}/context", {**names, "session_id": session["id"], "message": f"{mark} wants green tea"})
    )
    summary = f"{API}/sessions/{session['id']}/summary"
    run(Offer(UUID(made(client.post(summary, {}), 202)["job_id"]), "summarize"), worker=uuid4())
    made(client.patch(summary, {"summary": f"{mark} spoke of green tea", "locked": False, "reason": f"{mark} reason"}))
    _plant_project(client, planted, session["id"])
    # What a job that broke off has written so far.
    SummaryDraft.objects.create(
        actor_id=UUID(planted.actor_id), session_id=UUID(session["id"]), job_id=uuid4(), base_version=2,
        text=f"{mark} was about to speak of tea", covered=1, start_time=datetime.now(UTC), end_time=datetime.now(UTC),
        trust="trusted", generator="llm", updated_at=datetime.now(UTC),
    )  # fmt: skip
    _plant_profile(planted, memory["id"])
    # Without a language model the question is kept all the same.
    made(client.post(f"{API}/chat", {**names, "message": f"{mark} wants an answer"}), 200, 503)
    task = made(client.post(f"{API}/tasks", {**names, "query": f"{mark} tea?", "perspective": f"{mark} view"}))
    made(client.post(f"{API}/memories/{memory['id']}/used", {"task_id": f"{mark} task", "perspective": f"{mark} view"}))
    done = made(client.post(f"{API}/tasks", {**names, "query": f"{mark} asked"}))
    made(
        client.post(
            f"{API}/tasks/{done['task_id']}/complete",
            {
                "result": {"text": f"{mark} answered"},
                "used_memory_ids": [memory["id"]],
                "learning_content": f"{mark} learnt",
                "learning_text": f"{mark} why",
            },
        )
    )
    forgotten = made(client.post(f"{API}/memories", {**names, "content": f"{mark} said something silly"}))
    client.delete(f"{API}/memories/{forgotten['id']}")
    unsaid = made(client.post(f"{API}/sessions", names))["id"]
    made(client.post(f"{API}/sessions/{unsaid}/messages", {"role": "user", "content": f"{mark} better not said"}))
    made(client.delete(f"{API}/sessions/{unsaid}"))
    for same in (f"{mark} rides a red bicycle", f"{mark} rides the red bicycle"):
        made(client.post(f"{API}/memories", {**names, "content": same}))
    bulk = made(client.post(f"{API}/memories/bulk", {**names, "verb": "pin", "tag": [f"{mark} tag"]}), 202)["batch"]
    run(Offer(Job.objects.get(key=bulk).pk, "curate_memories"), worker=uuid4())
    slept = made(client.post(f"{API}/sleep-runs", names))
    merge = made(client.get(f"{API}/merges?agent_id={agent_id}&user_id={user_id}"))["results"][0]
    expected = {"receipt_id": context["receipt_id"], "memory_id": memory["id"]}
    expectation = made(client.post(f"{API}/expectations", expected))
    entry = LedgerEntry(
        created_at=datetime.now(UTC), agent_id=agent_id, actor_id=planted.actor_id, operation="chat",
        provider="anthropic", model="a-model", estimated_tokens=10, raw_latin=8, messages=1, latency_ms=5.0,
        input_tokens=9, output_tokens=3,
    )  # fmt: skip
    record(entry)
    StrategyCursor.objects.create(
        actor_id=planted.actor_id, session_id=session["id"], strategy="semantic", read_until=2
    )
    ProjectCursor.objects.create(actor_id=planted.actor_id, session_id=session["id"], read_until=2)
    ReflectionCursor.objects.create(actor_id=planted.actor_id, until=datetime.now(UTC))
    upload = f'[{{"memory": "{mark} came by an import"}}]'.encode()
    begun = made(client.post(f"{API}/imports", {**names, "file_name": f"{mark}.json", "format": "mem0"}))
    made(
        client.post(f"{API}/imports/{begun['id']}/chunks", {"offset": 0, "content": base64.b64encode(upload).decode()})
    )
    planted.upload_size = len(upload)
    for memory_key in Memory.objects.filter(actor_id=planted.actor_id).values_list("pk", flat=True)[:1]:
        ImportedRow.objects.create(
            actor_id=UUID(planted.actor_id), import_id=UUID(begun["id"]), kind="memory", row_id=memory_key
        )
    hook = made(
        client.post(f"{API}/webhooks", {"agent_id": agent_id, "url": f"https://{planted.agent_mark}.example.org/hook"})
    )
    delivery = Delivery.objects.create(endpoint_id=hook["id"], place=TEST_PLACE, kind="webhook.test", status=204)
    planted.ids |= {
        "webhook_id": hook["id"], "delivery_id": str(delivery.pk),
        "import_id": begun["id"], "agent_id": agent_id, "model": agent_id, "session_id": session["id"], "message_id": messages[0]["id"], "memory_id": memory["id"], "pending_id": pending["id"],
        "revision_id": revision["id"], "receipt_id": context["receipt_id"],
        "expectation_id": expectation["id"], "task_id": task["task_id"], "run_id": slept["id"], "merge_id": merge["id"], "batch_id": bulk,
        "job_id": str(enqueue("embed", actor_id=UUID(planted.actor_id), key="texts")),
    }  # fmt: skip
    return planted


def plant_first() -> Planted:
    """Plant kana's hiroki by a key of its own, where nothing is planted yet; cheap from the second time on."""

    def make() -> Planted:
        return plant(client_with_key(name="planter"), agent_id="kana", user_id="hiroki")

    return prepared(("planted", settings.LLM.provider), make)


def _plant_profile(planted: Planted, memory_id: str) -> None:
    """Make a written profile with a version, as a job would with a language model."""
    now, mark = datetime.now(UTC), planted.user_mark
    lines = [{"text": f"{mark} likes green tea", "sources": [{"id": memory_id, "digest": "0" * 16}]}]
    profile = Profile.objects.create(
        actor_id=UUID(planted.actor_id),
        lines=lines,
        generator="llm",
        model="a-model",
        read_from=lines[0]["sources"],
        written_at=now,
        created_at=now,
        updated_at=now,
    )
    ProfileVersion.objects.create(
        actor_id=UUID(planted.actor_id), profile=profile, number=1, verb="write", lines=lines, generator="llm",
        model="a-model", who_kind="job", who_id="write_profile", who_name="write_profile", reason=f"{mark} reason",
        created_at=now,
    )  # fmt: skip


def _plant_project(client: APIClient, planted: Planted, session_id: str) -> None:
    """Make a project with a document that has a version and an entry, and a decision that was put right."""
    mark, names = planted.user_mark, planted.names
    whose = f"?agent_id={planted.agent_id}&user_id={planted.user_id}"
    made(client.post(f"{API}/projects", {**names, "name": "tea-house", "description": f"{mark} tea house"}))
    document = f"{API}/projects/tea-house/documents/decisions.md"
    made(client.put(f"{document}{whose}", {"text": f"{mark} decided", "reason": f"{mark} reason"}))
    made(client.post(f"{document}/entries{whose}", {"text": f"{mark} entry"}))
    routed = made(client.post(f"{API}/projects/route", {**names, "message": f"{mark} message to a project"}))
    made(
        client.post(
            f"{API}/projects/routes/{routed['id']}/correct", {"project": "tea-house", "reason": f"{mark} reason"}
        )
    )
    made(
        client.post(
            f"{API}/context",
            {**names, "session_id": session_id, "message": f"{mark} tea house?", "project": "tea-house"},
        )
    )
    # Another project, and an event that can be undone, with a line more than the entry that calls may move.
    made(client.post(f"{API}/projects", {**names, "name": "tea-garden", "description": f"{mark} tea garden"}))
    made(client.post(f"{document}/entries{whose}", {"text": f"{mark} of the garden"}))
    moved = client.post(f"{document}/move{whose}", {"lines": [f"{mark} of the garden"], "into": "tea-garden"})
    planted.ids |= {
        "project_name": "tea-house",
        "document_name": "decisions.md",
        "route_id": routed["id"],
        "event_id": made(moved)["event_id"],
    }


Body = Callable[[Planted], dict[str, Any]]
REASON: Body = lambda planted: {"reason": "because"}  # noqa: E731

BODIES: dict[tuple[str, str], Body] = {
    ("agents", "post"): lambda planted: {"agent_id": "a-new-agent"},
    ("agent", "patch"): lambda planted: {"name": "renamed"},
    ("webhooks", "post"): lambda planted: {"agent_id": planted.agent_id, "url": "https://example.org/hook"},
    ("webhook-test", "post"): lambda planted: {},
    ("webhook-rotate", "post"): lambda planted: {},
    ("webhook-enable", "post"): lambda planted: {},
    ("webhook-redeliver", "post"): lambda planted: {},
    ("actors", "patch"): lambda planted: {"policy": {"recall_limit": 1}},
    ("imports", "post"): lambda planted: {**planted.names, "file_name": "mem0.json", "format": "mem0"},
    ("import-chunks", "post"): lambda planted: {"offset": planted.upload_size, "content": "W10="},
    ("import-orders", "post"): lambda planted: {"verb": "preview"},
    ("sessions", "post"): lambda planted: {**planted.names, "session_id": planted.ids["session_id"]},
    ("session-extract", "post"): lambda planted: {},
    ("session", "patch"): lambda planted: {"title": "renamed"},
    ("session-end", "post"): lambda planted: {},
    ("session-forget", "post"): lambda planted: {"from_seq": 1, "to_seq": 1, "dry_run": True},
    ("messages", "post"): lambda planted: {"role": "user", "content": "one more"},
    ("context", "post"): lambda planted: {
        **planted.names,
        "session_id": planted.ids["session_id"],
        "message": "green tea",
    },
    ("summary", "post"): lambda planted: {"start_time": "2020-01-01T00:00:00Z", "end_time": "2030-01-01T00:00:00Z"},
    ("summary", "patch"): lambda planted: {"summary": "They spoke of tea.", "locked": False, "reason": "because"},
    ("summary-restore", "post"): lambda planted: {"number": 1},
    ("summaries-digest", "post"): lambda planted: planted.names,
    ("projects", "post"): lambda planted: {**planted.names, "name": "coffee-house", "description": "Coffee."},
    ("project", "patch"): lambda planted: {"description": "Tea and cakes.", "reason": "because"},
    ("document", "put"): lambda planted: {"text": "Decided otherwise.", "reason": "because"},
    ("document-restore", "post"): lambda planted: {"number": 1},
    ("document-entries", "post"): lambda planted: {"text": "One more.", "pinned": True},
    ("document-compact", "post"): lambda planted: {},
    ("projects-route", "post"): lambda planted: {**planted.names, "message": "green tea", "channel": "slack"},
    ("project-archive", "post"): REASON,
    ("project-reactivate", "post"): REASON,
    ("project-merge", "post"): lambda planted: {"into": "tea-garden"},
    ("document-move", "post"): lambda planted: {"lines": [f"{planted.user_mark} entry"], "into": "tea-garden"},
    ("project-event-undo", "post"): REASON,
    ("route-misplaced", "post"): lambda planted: {"dry_run": True},
    ("route-correct", "post"): lambda planted: {"project": planted.ids["project_name"]},
    ("chat", "post"): lambda planted: {
        **planted.names,
        "session_id": planted.ids["session_id"],
        "message": "green tea?",
    },
    ("openai-chat-completions", "post"): lambda planted: {
        "model": planted.agent_id,
        "user": planted.user_id,
        "messages": [{"role": "user", "content": "green tea?"}],
    },
    ("openai-responses", "post"): lambda planted: {
        "model": planted.agent_id,
        "user": planted.user_id,
        "input": "green tea?",
    },
    ("anthropic-messages", "post"): lambda planted: {
        "model": planted.agent_id,
        "metadata": {"user_id": planted.user_id},
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "green tea?"}],
    },
    ("anthropic-count-tokens", "post"): lambda planted: {
        "model": planted.agent_id,
        "messages": [{"role": "user", "content": "green tea?"}],
    },
    ("profile", "post"): lambda planted: planted.names,
    ("profile", "patch"): lambda planted: {"text": "Likes tea.", "reason": "because"},
    ("profile-restore", "post"): lambda planted: {**planted.names, "number": 1},
    ("memories", "post"): lambda planted: {**planted.names, "content": "something new"},
    ("memories-batch", "post"): lambda planted: {**planted.names, "memories": [{"content": "something else"}]},
    ("memories-bulk", "post"): lambda planted: {**planted.names, "verb": "unpin", "text": "tea"},
    ("memories-bulk-undo", "post"): REASON,
    ("memories-search", "post"): lambda planted: {**planted.names, "query": "green tea", "include_messages": True},
    ("memories-retrieve", "post"): lambda planted: {**planted.names, "query": "green tea"},
    ("memory", "patch"): lambda planted: {"tags": ["changed"]},
    ("memory-restore", "post"): lambda planted: {"revision_id": planted.ids["revision_id"]},
    ("agent-what-if", "post"): lambda planted: {"policy": {"max_tokens": 4_000}},
    ("actor-what-if", "post"): lambda planted: {**planted.names, "policy": {"max_tokens": 4_000}},
    ("memory-what-if", "post"): lambda planted: {"verb": "edit", "values": {"content": "something else"}},
    ("merge-what-if", "post"): lambda planted: {},
    ("expectations", "post"): lambda planted: {
        "receipt_id": planted.ids["receipt_id"],
        "memory_id": planted.ids["memory_id"],
    },
    ("expectations-check", "post"): lambda planted: planted.names,
    ("memory-supersede", "post"): lambda planted: {"content": "something else by now"},
    ("memories-used", "post"): lambda planted: {"ids": [planted.ids["memory_id"]], "task_id": "t"},
    ("memories-candidates", "post"): lambda planted: {"ids": [planted.ids["memory_id"]]},
    ("memories-archive", "post"): lambda planted: {"ids": [planted.ids["memory_id"]], "reason": "because"},
    ("memories-strengths", "post"): lambda planted: {"updates": [{"id": planted.ids["memory_id"], "strength": 2}]},
    ("memory-used", "post"): lambda planted: {"perspective": "cost", "task_id": "t"},
    ("memory-impact", "post"): lambda planted: {"impact_type": "task_success"},
    ("tasks", "post"): lambda planted: {**planted.names, "query": "green tea"},
    ("task-complete", "post"): lambda planted: {"result": "green tea it is"},
    ("sleep-runs", "post"): lambda planted: planted.names,
    ("sleep-run-undo", "post"): REASON,
    **{(f"merge-{verb}", "post"): REASON for verb in ("accept", "dismiss", "undo")},
    **{(f"memory-{verb}", "post"): REASON for verb in ("pin", "unpin", "archive", "reactivate", "approve", "reject")},
}
"""A body that each call accepts; a new POST, PUT or PATCH needs its line here."""


def body_of(name: str, method: str, planted: Planted) -> dict[str, Any] | None:
    """Return a body that the call accepts; None for calls without one."""
    if method in ("get", "delete", "head", "options"):
        return None
    assert (name, method) in BODIES, f"Say in BODIES what a valid body of {method.upper()} {name} is."
    return BODIES[name, method](planted)
