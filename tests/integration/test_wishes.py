"""Wishes that contexts ask to honour: pinned, the user's own preferences, and what a curator approved; all else is data."""

from datetime import UTC, datetime
from typing import Any

import pytest
from rest_framework.test import APIClient

from memoryhub.auth.principals import Principal, PrincipalKind, command
from strength.actions.curation import apply_transition
from strength.models import Memory
from tests.conftest import client_with_key
from tests.integration.conversations.test_sessions_and_messages import context
from tests.unit.conversations.domain.context_reader import read_context

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
NOW = datetime(2026, 3, 1, tzinfo=UTC)
CURATOR = Principal(kind=PrincipalKind.CURATOR, id="1", name="Ann")

pytestmark = pytest.mark.django_db


def remember(client: APIClient, content: str, **values: Any) -> Memory:
    answer = client.post(f"{API}/memories", {**WHO, "content": content, **values})
    assert answer.status_code == 201, answer.content
    return Memory.objects.get(pk=answer.json()["id"])


def lists(client: APIClient) -> dict[str, list[str]]:
    answer = context(client, "How should answers about tea be?")
    block = answer["messages"][0]["content"][0]["text"]
    nonce = block.split("-")[1].split(">")[0]
    entries = read_context(answer["system"], answer["messages"], nonce).entries
    return {layer: sorted(line.split(" (")[0] for line in lines) for layer, lines in entries.items()}


def test_wishes_stand_apart_from_data(client: APIClient) -> None:
    remember(client, "Answers about tea should be short.", kind="preference")
    remember(client, "Tea answers never mention milk.", pinned=True)
    remember(client, "The last answer about tea was long.", kind="fact")

    assert lists(client) == {
        "pinned": ["Tea answers never mention milk."],
        "wishes": ["Answers about tea should be short."],
        "semantic": ["The last answer about tea was long."],
    }


def test_what_a_curator_approved_is_a_wish_and_what_a_program_did_is_not(client: APIClient) -> None:
    stranger = client_with_key(is_trusted=False, name="stranger")
    note = remember(stranger, "Answers about tea rhyme.", kind="note")
    other = remember(stranger, "Answers about tea are in verse.", kind="note")
    assert (note.status, other.status) == ("pending", "pending")

    for memory, by in ((note, CURATOR), (other, command("test"))):
        apply_transition(memory=memory, verb="approve", by=by, reason="", now=NOW)

    assert lists(client) == {"wishes": ["Answers about tea rhyme."], "semantic": ["Answers about tea are in verse."]}


def test_preferences_of_the_agent_itself_are_not_the_users(client: APIClient) -> None:
    body = {
        "agent_id": "kana",
        "content": "Answers about tea name the leaf.",
        "kind": "preference",
        "scope_level": "universal",
    }
    assert client.post(f"{API}/memories", body).status_code == 201

    assert lists(client) == {"semantic": ["Answers about tea name the leaf."]}
