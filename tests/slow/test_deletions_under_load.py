"""Deletions of messages while others write and read, and deletions that are killed: all or nothing (SPEC C6)."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.actions import forgetting
from conversations.models import Message, Session
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Offer
from memoryhub.runtime.postgres.cluster import ConnectionInfo
from strength.models import Memory
from tests.conftest import client_with_key
from tests.database import everywhere
from tests.factories.planting import API, made
from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.fakes.plugin import llm, llm_server  # noqa: F401
from tests.integration.test_concurrency import at_once, many  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)
NAMES = {"agent_id": "kana", "user_id": "hiroki"}
ROUNDS, MESSAGES = 5, 8
MARK = re.compile(r"mark[0-9a-f]{32}")
ROOT = Path(__file__).resolve().parents[2]

DELETE_IN_STEPS = """
import sys, time, django
django.setup()
from uuid import UUID, uuid4
from conversations.actions import forgetting
from memoryhub.jobs.executor import run
from memoryhub.jobs.queue import Offer
forgetting.STEP_MESSAGES = 4
print("ready", flush=True)
run(Offer(UUID(sys.argv[1]), "forget_session"), worker=uuid4())
"""


def spoken(client: APIClient, messages: int) -> tuple[str, list[str], list[str]]:
    """Return a session's id, the ids of its messages and their marks; each is remembered, and one is filed."""
    session = made(client.post(f"{API}/sessions", NAMES))["id"]
    marks = [f"mark{uuid4().hex}" for _ in range(messages)]
    bodies = [{"role": "user", "content": f"The harbour has {mark}."} for mark in marks]
    ids = [
        each["id"] for each in made(client.post(f"{API}/sessions/{session}/messages", {"messages": bodies}))["results"]
    ]
    for place, mark in enumerate(marks):
        body = {**NAMES, "content": f"They like {mark}.", "source_message_ids": [ids[place]]}
        made(client.post(f"{API}/memories", body))
    return session, ids, marks


def run_jobs(kinds: Sequence[str]) -> None:
    for key, kind in Job.objects.open().filter(kind__in=kinds).values_list("pk", "kind"):
        run(Offer(key, kind), worker=uuid4())


def repeat_all(asked: Asked) -> Reply:
    """Answer with every mark that was shown, as a summary and as facts."""
    marks = MARK.findall(asked.text)
    if not asked.schema:
        return Reply(f"They spoke of {' '.join(marks) or 'the rest'}.")
    facts = [{"text": f"Likes {mark}.", "sources": [1], "confidence": 0.9} for mark in marks[:2]]
    return Reply(data={name: facts if name == "preferences" else [] for name in asked.schema["properties"]})


@pytest.mark.long
def test_what_is_deleted_while_seven_others_work_is_nowhere(
    many: Sequence[APIClient],  # noqa: F811
    llm: LLMServer,  # noqa: F811
) -> None:
    llm.answer(repeat_all)
    statuses: Counter[int] = Counter()
    for _ in range(ROUNDS):
        session, ids, marks = spoken(many[0], MESSAGES)
        kept = made(many[0].post(f"{API}/memories", {**NAMES, "content": f"Kept {uuid4().hex}."}))["id"]
        address = f"{API}/sessions/{session}"

        def work(number: int, session: str = session, ids: list[str] = ids, address: str = address) -> None:
            client = many[number]
            for turn in range(MESSAGES):
                match number:
                    case 0:
                        statuses[client.delete(f"{API}/messages/{ids[turn]}").status_code] += 1
                    case 1 | 2:
                        named = {"session_id": session} if number == 1 else {}
                        body = {**NAMES, **named, "message": "What does the harbour have?"}
                        statuses[client.post(f"{API}/context", body).status_code] += 1
                    case 3:
                        body = {"role": "user", "content": f"Turn {turn} of the harbour."}
                        statuses[client.post(f"{address}/messages", body).status_code] += 1
                    case 4:
                        body = {**NAMES, "content": f"Note {uuid4().hex}."}
                        statuses[client.post(f"{API}/memories", body).status_code] += 1
                    case 5:
                        statuses[client.post(f"{address}/summary", {}).status_code] += 1
                        statuses[client.post(f"{address}/extract", {}).status_code] += 1
                        run_jobs(["summarize", "extract", "remember_summary"])
                    case 6:
                        statuses[client.post(f"{API}/sleep-runs", NAMES).status_code] += 1
                        run_jobs(["sleep"])
                    case _:
                        answer = client.get(f"{API}/actors/export", NAMES)
                        statuses[answer.status_code] += 1
                        assert b"".join(answer.streaming_content)

        at_once(work)
        for _ in range(2):
            Job.objects.open().update(due_at=timezone.now())
            run_jobs(["summarize", "extract", "remember_summary"])
        assert not Message.objects.filter(pk__in=ids).exists()
        assert {mark: everywhere(mark) for mark in marks} == {mark: set() for mark in marks}
        assert Memory.objects.get(pk=kept).status == "active"
    assert not [status for status in statuses if status >= 500], statuses


@pytest.mark.long
def test_a_deletion_that_is_killed_is_all_or_nothing_and_resumed() -> None:
    """Killed at 20 moments: what is deleted is nowhere, what is not is whole, and the next run ends it."""
    client, chance = client_with_key(), Random(7)
    kills = 0
    while kills < 20:
        session, ids, marks = spoken(client, 20)
        order = _ordered(client, session)
        while Session.objects.filter(pk=session).exists():
            took = _run_apart(order, kill_after=chance.uniform(0.0, 0.5) if kills < 20 else None)
            kills += took is None
            left = set(map(str, Message.objects.filter(pk__in=ids).values_list("pk", flat=True)))
            for message_id, mark in zip(ids, marks, strict=True):
                places = everywhere(mark)
                assert (not places) if message_id not in left else {"conversations_message.content"} <= places
            Job.objects.filter(pk=order).update(state="queued", due_at=timezone.now(), lease_until=None, worker=None)
        assert not [mark for mark in marks if everywhere(mark)]


def _ordered(client: APIClient, session: str) -> str:
    before = forgetting.STEP_MESSAGES
    forgetting.STEP_MESSAGES = 4
    try:
        answer = client.delete(f"{API}/sessions/{session}")
    finally:
        forgetting.STEP_MESSAGES = before
    assert answer.status_code == 202
    return str(UUID(answer.json()["job_id"]))


def _run_apart(order: str, *, kill_after: float | None) -> float | None:
    """Let a process of its own delete; return its seconds, None where it was killed."""
    place = connection.settings_dict
    url = ConnectionInfo(place["HOST"], int(place["PORT"]), place["NAME"], place["USER"], place["PASSWORD"]).url()
    child = subprocess.Popen(
        [sys.executable, "-c", DELETE_IN_STEPS, order], cwd=ROOT, env={**os.environ, "DATABASE_URL": url},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        started = time.perf_counter()
        try:
            child.wait(timeout=kill_after)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            return None
    return time.perf_counter() - started
