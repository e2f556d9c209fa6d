"""Sessions end by themselves once nobody talks any more (SPEC C5)."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.actions.sessions import end_session
from conversations.models import Session
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import command
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from tests.conftest import run_jobs

API = "/api/v1"
pytestmark = pytest.mark.django_db


def talk(client: APIClient, *, minutes_ago: float, agent_id: str = "kana", user_id: str = "") -> UUID:
    """Open a session and say something in it so long ago."""
    session = client.post(f"{API}/sessions", {"agent_id": agent_id, "user_id": user_id}).data["id"]
    said_at = timezone.now() - timedelta(minutes=minutes_ago)
    body = {"role": "user", "content": "Good night", "created_at": said_at.isoformat()}
    assert client.post(f"{API}/sessions/{session}/messages", body).status_code == 201
    return UUID(session)


def ended() -> set[UUID]:
    enqueue("end_idle_sessions")
    run_jobs()
    jobs = Job.objects.filter(kind="end_idle_sessions")
    assert set(jobs.values_list("state", flat=True)) == {"done"}
    return set(Session.objects.exclude(ended_at=None).values_list("pk", flat=True))


def test_after_an_hour_of_silence_a_session_ends_and_says_who_ended_it(client: APIClient) -> None:
    silent, lively = talk(client, minutes_ago=61), talk(client, minutes_ago=59)

    assert ended() == {silent}
    entry = AuditEntry.objects.get(verb="end")
    assert (entry.who_kind, entry.who_name, entry.object_id) == ("job", "end_idle_sessions", str(silent))
    client.post(f"{API}/sessions/{silent}/messages", {"role": "user", "content": "I am back"})
    assert ended() == set(), "a later message reopens it"
    assert Session.objects.get(pk=lively).ended_at is None


def test_a_message_from_the_future_keeps_no_session_open(client: APIClient) -> None:
    session = talk(client, minutes_ago=-60 * 24 * 365 * 100)

    in_two_hours = timezone.now() + timedelta(hours=2)
    idle = Session.objects.idle(in_two_hours, default_minutes=60)
    assert [each.pk for each in idle] == [session]
    message = client.get(f"{API}/sessions/{session}/messages").data["results"][0]
    assert datetime.fromisoformat(message["created_at"]) > in_two_hours, "the message keeps what it was sent with"


def test_a_session_in_which_nothing_was_said_ends_too(client: APIClient) -> None:
    session = UUID(client.post(f"{API}/sessions", {"agent_id": "kana"}).data["id"])
    assert ended() == set()
    Session.objects.update(started_at=timezone.now() - timedelta(hours=2))

    assert ended() == {session}


@pytest.mark.parametrize(
    ("agent_policy", "user_policy", "ends"),
    [
        ({}, {}, False),
        ({"session_idle_minutes": 5}, {}, True),
        ({"session_idle_minutes": 5}, {"session_idle_minutes": 20}, False),
        ({}, {"session_idle_minutes": 5}, True),
    ],
)
def test_user_goes_before_agent_before_default(
    client: APIClient, agent_policy: dict[str, Any], user_policy: dict[str, Any], ends: bool
) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana", "policy": agent_policy})
    session = talk(client, minutes_ago=10, user_id="hiroki")
    client.patch(f"{API}/actors?agent_id=kana&user_id=hiroki", {"policy": user_policy})

    assert ended() == ({session} if ends else set())


def test_a_session_in_which_somebody_just_spoke_stays_open(client: APIClient) -> None:
    stale = Session.objects.select_related("actor__agent").get(pk=talk(client, minutes_ago=90))
    client.post(f"{API}/sessions/{stale.pk}/messages", {"role": "user", "content": "Wait"})
    end_session(session=stale, by=command("test"), now=timezone.now(), only_if_silent=True)

    assert Session.objects.get().ended_at is None


def test_many_sessions_end_in_one_run(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conversations.jobs.BATCH_SIZE", 2)
    sessions = {talk(client, minutes_ago=100 + number) for number in range(5)}

    assert ended() == sessions
    assert Job.objects.get(kind="end_idle_sessions").progress == {"done": 5, "total": None}
