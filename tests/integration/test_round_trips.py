"""Numbers of statements that hot paths send, whatever the number of rows: no query in a loop.

The figures count a test's savepoints, where a server has BEGIN and COMMIT; around the note of a search it has neither.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from conversations.actions.messages import add_messages
from conversations.actions.sessions import open_session
from conversations.models import Session
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from strength.actions.memories import write_memory
from tests.database import prepared
from tests.factories.values import NewMemoryFactory, NewMessageFactory

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
BY = command("test")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def session(db: None) -> Session:
    """Return the second of two sessions of 30 messages, of an actor with 30 memories; all are found by `green tea`."""
    return prepared("green tea", write_rows)


def write_rows() -> Session:
    actor = actor_for_writing(BY, "kana", "hiroki", now=NOW)
    for day in range(2):
        opened, _ = open_session(actor=actor, session_id=None, channel="web", by=BY, now=NOW + timedelta(days=day))
        batch = [
            NewMessageFactory.build(content=f"Green tea, day {day}, cup {cup}", created_at=None) for cup in range(30)
        ]
        add_messages(session=opened, batch=batch, by=BY, now=NOW + timedelta(days=day))
    for number in range(30):
        new = NewMemoryFactory.build(content=f"Likes green tea of field {number}")
        write_memory(actor=actor, new=new, by=BY, now=NOW)
    return opened


Call = Callable[[APIClient, Session], Any]
CALLS: dict[str, tuple[int, Call]] = {
    "search": (13, lambda client, _: client.post(f"{API}/memories/search", {**WHO, "query": "green tea"})),
    "search with messages": (
        16,
        lambda client, _: client.post(
            f"{API}/memories/search", {**WHO, "query": "green tea", "include_messages": True, "limit": 50}
        ),
    ),
    "context": (
        # One asks whether a curator approved the memories that were found, one for the profile.
        21,
        lambda client, session: client.post(
            f"{API}/context", {**WHO, "session_id": str(session.pk), "message": "Where is green tea?"}
        ),
    ),
    "list of memories": (5, lambda client, _: client.get(f"{API}/memories?agent_id=kana&user_id=hiroki")),
    "list of messages": (3, lambda client, session: client.get(f"{API}/sessions/{session.pk}/messages")),
    "batch of messages": (
        14,
        lambda client, session: client.post(
            f"{API}/sessions/{session.pk}/messages",
            {"messages": [{"role": "user", "content": f"turn {number}"} for number in range(100)]},
        ),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_statements_do_not_grow_with_rows(name: str, client: APIClient, session: Session) -> None:
    number, call = CALLS[name]
    call(client, session)  # the key's last use and the terms' statistics are noted once
    with CaptureQueriesContext(connection) as statements:
        answer = call(client, session)
    assert answer.status_code in {200, 201}, answer.content
    assert len(statements) == number, "\n".join(str(each["sql"])[:120] for each in statements)
