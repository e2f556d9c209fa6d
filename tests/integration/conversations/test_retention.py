"""What is said is kept for the days of a policy, and then deleted as a person deletes it (SPEC C8)."""

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command
from django.test import Client
from rest_framework.test import APIClient

from conversations.actions import forgetting
from conversations.models import Message, Receipt, Session
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Offer, enqueue
from strength.models import Memory, MemorySource
from summaries.models import Summary
from tests.database import everywhere
from tests.factories.planting import API, made
from tests.integration.test_forgetting import Spoken, spoken  # noqa: F401

pytestmark = pytest.mark.django_db
NAMES = {"agent_id": "kana", "user_id": "hiroki"}
NOW = datetime.now(UTC)


def set_policy(client: APIClient, **policy: Any) -> None:
    made(client.patch(f"{API}/actors?agent_id=kana&user_id=hiroki", {"policy": policy}))


def tonight() -> str:
    out = StringIO()
    call_command("retention", stdout=out)
    return out.getvalue().strip()


def apply() -> None:
    job_id = enqueue("apply_retention", key=uuid4().hex)
    run(Offer(UUID(str(job_id)), "apply_retention"), worker=uuid4())
    assert Job.objects.get(pk=job_id).state == "done"


def age(days: int, **chosen: Any) -> None:
    at = NOW - timedelta(days=days)
    Message.objects.filter(**chosen).update(created_at=at)
    if not chosen:
        Session.objects.update(started_at=at, last_message_at=at)
        Receipt.objects.update(created_at=at)


def test_nothing_is_deleted_by_default(client: APIClient, spoken: Spoken) -> None:  # noqa: F811
    age(10_000)
    assert tonight() == "Tonight nothing is deleted."
    apply()
    assert Message.objects.count() == 6


def test_old_messages_go_and_what_was_drawn_stays(
    client: APIClient,
    spoken: Spoken,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forgetting, "STEP_MESSAGES", 2)
    set_policy(client, message_retention_days=30)
    memories = set(Memory.objects.values_list("pk", "status"))
    summaries = Summary.objects.count()
    old = [each["id"] for each in spoken.messages[:3]]
    age(31, pk__in=old)
    assert tonight() == "kana/hiroki 3 messages"
    apply()
    assert tonight() == "Tonight nothing is deleted."
    assert sorted(Message.objects.values_list("seq", flat=True)) == [4, 5, 6]
    assert set(Memory.objects.values_list("pk", "status")) == memories and Summary.objects.count() == summaries
    assert not MemorySource.objects.filter(message_id__in=old).exists()
    assert not {place for place in everywhere(spoken.marks[1]) if "message" in place and "memory" not in place}


def test_with_memories_nothing_is_left(client: APIClient, spoken: Spoken) -> None:  # noqa: F811
    set_policy(client, message_retention_days=30, retention_takes_memories=True)
    age(31, pk=spoken.messages[0]["id"])
    apply()
    assert everywhere(spoken.marks[0]) == set()


def test_a_session_goes_by_its_last_message(client: APIClient, spoken: Spoken) -> None:  # noqa: F811
    set_policy(client, session_retention_days=30, receipt_retention_days=30)
    age(29)
    apply()
    assert Session.objects.filter(pk=spoken.session_id).exists()
    age(31)
    told = tonight()
    assert told.startswith("kana/hiroki 1 sessions, 6 messages, ") and told.endswith(" receipts")
    apply()
    assert not Session.objects.exists() and not Message.objects.exists() and not Receipt.objects.exists()
    assert not Summary.objects.exists() and Memory.objects.exists()


def test_the_page_of_the_user_tells_it(client: APIClient, admin_client: Client, spoken: Spoken) -> None:  # noqa: F811
    actor = Session.objects.get(pk=spoken.session_id).actor_id
    path = f"/admin/memoryhub/actor/{actor}/change/"
    assert "the retention deletes" not in admin_client.get(path).content.decode()
    set_policy(client, message_retention_days=30)
    assert "Tonight the retention deletes nothing." in admin_client.get(path).content.decode()
    age(31)
    assert "Tonight the retention deletes: Messages: 6." in admin_client.get(path).content.decode()
    assert "Messages: 6." in admin_client.get("/admin/memoryhub/agent/kana/change/").content.decode()
