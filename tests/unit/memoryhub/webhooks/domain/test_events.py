"""Kinds of events by what changed, and bodies without texts unless one is given."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from memoryhub.webhooks.domain.events import Event, EventKind, body_of, memory_event

KEY = UUID("0198c5b2-6f1e-7d3a-9c41-5a7e2b9d4f10")


@pytest.mark.parametrize(
    ("change", "before", "after", "kind"),
    [
        ("created", {}, {"status": "active"}, EventKind.MEMORY_CREATED),
        ("created", {}, {"status": "pending"}, EventKind.MEMORY_WAITING),
        ("created", {}, {}, EventKind.MEMORY_CREATED),
        ("changed", {}, {"tags": []}, EventKind.MEMORY_CHANGED),
        ("changed", {"status": "active"}, {"status": "pending"}, EventKind.MEMORY_WAITING),
        ("changed", {"status": "pending"}, {"status": "active"}, EventKind.MEMORY_DECIDED),
        ("changed", {"status": "archived"}, {"status": "active"}, EventKind.MEMORY_CHANGED),
        ("rejected", {"status": "pending"}, {"status": "rejected"}, EventKind.MEMORY_DECIDED),
        ("rejected", {}, {}, EventKind.MEMORY_DECIDED),
        ("archived", {"status": "pending"}, {"status": "archived"}, EventKind.MEMORY_DECIDED),
        ("archived", {"status": "active"}, {"status": "archived"}, EventKind.MEMORY_ENDED),
        ("archived", {}, {}, EventKind.MEMORY_ENDED),
        ("superseded", {}, {"valid_to": "x"}, EventKind.MEMORY_ENDED),
        ("erased", {}, {}, EventKind.MEMORY_FORGOTTEN),
    ],
)
def test_kind_of_a_memorys_change(change: str, before: dict[str, Any], after: dict[str, Any], kind: EventKind) -> None:
    assert memory_event(change, before, after) is kind


def event(kind: str, **values: Any) -> Event:
    return Event(7, kind, "kana", "hiroki", KEY, datetime(2026, 3, 1, tzinfo=UTC), **values)


def test_body_has_ids_and_kind() -> None:
    assert body_of(event("session.ended")) == {
        "type": "session.ended",
        "timestamp": "2026-03-01T00:00:00Z",
        "data": {"agent_id": "kana", "user_id": "hiroki", "id": str(KEY)},
    }
    assert body_of(event("memory.created", version=2), "tea")["data"]["text"] == "tea"
    assert body_of(event("memory.created", version=2))["data"]["version"] == 2


def test_only_some_kinds_have_a_text() -> None:
    assert event("memory.created", actor_id=KEY).has_text
    assert not event("memory.created").has_text
    assert not event("memory.forgotten", actor_id=KEY).has_text
    assert not event("sleep.finished", actor_id=KEY).has_text
