"""From imported chats to memories: what it costs, the newest first, and the undo of one conversation."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from conversations.models import Message, Session
from memoryhub.auth.models import AuditEntry
from memoryhub.importexport.foreign.imports import Reading, extraction_cost
from memoryhub.importexport.foreign.models import Import
from memoryhub.jobs.models import Job
from memoryhub.llm.prompts import FOLDER
from memoryhub.llm.tokens import count_raw
from memoryhub.prices import PriceList
from memoryhub.tenancy.models import Actor
from strength.actions.extraction_costs import INSTRUCTION_TOKENS
from strength.actions.import_reading import reading
from strength.models import Memory
from tests.conftest import client_with_key
from tests.factories.planting import API, made
from tests.fakes.llm_server import Asked, LLMServer
from tests.integration.memoryhub.importexport.conftest import run
from tests.integration.strength.talking import Model, item, messages_shown, read, talk

WHOSE = ("--agent", "kana", "--user", "hiroki")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def write_chats(folder: Path, *, count: int) -> Path:
    """Write chats of one question each, a day apart, the oldest first."""
    chats = []
    for day in range(count):
        time = int(datetime(2025, 5, 1 + day, tzinfo=UTC).timestamp())
        message = {"id": f"m{day}", "role": "user", "content": f"I like tea number {day}.", "timestamp": time}
        history = {"messages": {f"m{day}": message}, "currentId": f"m{day}"}
        chats.append({"id": f"chat-{day}", "user_id": "u", "title": f"Tea {day}", "chat": {"history": history}})
    path = folder / "chats.json"
    path.write_text(json.dumps(chats))
    return path


@pytest.fixture
def boss(db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss", password="a long password"))
    return browser


def draw(asked: Asked) -> dict[str, Any]:
    return {"facts": [item(f"Noted: {messages_shown(asked)[0]}", 1)]}


def test_an_import_says_what_extraction_takes(
    client: APIClient, boss: Client, llm: LLMServer, settings: Settings, tmp_path: Path
) -> None:
    settings.PRICES = PriceList.from_json('{"claude": {"input": 3, "output": 15}}')
    told = run("import", write_chats(tmp_path, count=3), *WHOSE)
    assert "New messages have about 15 tokens." in told
    row = Import.objects.get()
    cost = extraction_cost(row, now=NOW)
    assert cost is not None and cost.dollars is not None
    assert (cost.calls, cost.output_tokens) == (3, 900)
    assert cost.dollars == (Decimal(cost.input_tokens) * 3 + Decimal(cost.output_tokens) * 15) / 1_000_000
    shown = made(client.get(f"{API}/imports/{row.pk}"))["extraction_cost"]
    assert (shown["calls"], shown["dollars"]) == (3, pytest.approx(float(cost.dollars)))
    page = boss.get(reverse("import_page", args=[row.pk])).content.decode()
    assert f"At most 3 calls of {cost.model}" in page
    settings.PRICES = PriceList.from_json("{}")
    assert "The price of the model is not known." in boss.get(reverse("import_page", args=[row.pk])).content.decode()


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_instructions_of_a_call_are_not_longer_than_estimated(language: str) -> None:
    assert count_raw(Path(FOLDER, language, "extract.txt").read_text(encoding="utf-8")) < INSTRUCTION_TOKENS


def test_without_a_model_nothing_is_read(db: None, tmp_path: Path) -> None:
    run("import", write_chats(tmp_path, count=1), *WHOSE)
    assert extraction_cost(Import.objects.get(), now=NOW) is None


def test_the_newest_conversations_are_read_first(db: None, llm: LLMServer, tmp_path: Path) -> None:
    run("import", write_chats(tmp_path, count=3), *WHOSE)
    seen: list[str] = []

    def noted(asked: Asked) -> dict[str, Any]:
        seen.append(messages_shown(asked)[0])
        return {}

    Model(llm, noted)
    read(Actor.objects.get(user_id="hiroki"), now=NOW)
    assert [text.split()[-1] for text in seen] == ["2.", "1.", "0."]


def test_extraction_is_paused_and_resumed(db: None, boss: Client, llm: LLMServer, tmp_path: Path) -> None:
    run("import", write_chats(tmp_path, count=3), *WHOSE)
    Model(llm, draw)
    actor, row = Actor.objects.get(user_id="hiroki"), Import.objects.get()
    address = reverse("import_page", args=[row.pk])
    assert reading(row) == Reading(3, 3, 0)
    assert "Pause the extraction" in boss.get(address).content.decode()

    boss.post(address, {"verb": "pause"})

    assert reading(row) == Reading(3, 0, 3)
    read(actor, now=NOW)
    assert not Memory.objects.exists()
    talk(actor, "I like coffee.")
    read(actor, now=NOW)
    assert Memory.objects.get().content.endswith("I like coffee.")
    page = boss.get(address).content.decode()
    assert (
        "read: 0 of 3 messages." in page
        and "Left out until it is resumed: 3." in page
        and "Pause the extraction" not in page
    )

    Job.objects.all().delete()
    boss.post(address, {"verb": "resume"})

    assert reading(row) == Reading(3, 3, 0)
    assert Job.objects.filter(kind="extract", actor=actor).exists()
    read(actor, now=NOW)
    assert (Memory.objects.count(), reading(row)) == (4, Reading(3, 0, 0))
    assert "Left out until" not in boss.get(address).content.decode()
    assert set(AuditEntry.objects.filter(verb__in=["pause", "resume"]).values_list("object_id", flat=True)) == {
        str(row.pk)
    }


def test_a_key_pauses_and_resumes(db: None, client: APIClient, llm: LLMServer, tmp_path: Path) -> None:
    run("import", write_chats(tmp_path, count=3), *WHOSE)
    row = Import.objects.get()
    address = f"{API}/imports/{row.pk}"
    assert client.post(f"{address}/orders", {"verb": "pause"}).status_code == 202
    assert made(client.get(address))["extraction"] == {"messages": 3, "waiting": 0, "skipped": 3}
    assert client.post(f"{address}/orders", {"verb": "resume"}).status_code == 202
    assert made(client.get(address))["extraction"] == {"messages": 3, "waiting": 3, "skipped": 0}
    refused = client_with_key(scopes=["admin"], is_trusted=False).post(f"{address}/orders", {"verb": "pause"})
    assert (refused.status_code, reading(row)) == (403, Reading(3, 3, 0))
    begun = made(client.post(f"{API}/imports", {"agent_id": "kana", "user_id": "hiroki", "file_name": "a.json"}))
    early = client.post(f"{API}/imports/{begun['id']}/orders", {"verb": "pause"})
    assert (early.status_code, early.json()["code"]) == (409, "wrong_import_state")


def test_a_conversation_is_removed_with_its_memories(db: None, boss: Client, llm: LLMServer, tmp_path: Path) -> None:
    path = write_chats(tmp_path, count=2)
    run("import", path, *WHOSE)
    Model(llm, draw)
    read(Actor.objects.get(user_id="hiroki"), now=NOW)
    assert Memory.objects.filter(source="extraction").count() == 2
    row, session = Import.objects.get(), Session.objects.get(title="Tea 1")
    address = reverse("import_page", args=[row.pk])
    page = boss.get(address).content.decode()
    assert page.count("Remove from the import") == 2 and "Tea 0" in page
    answer = boss.post(address, {"row_id": str(session.pk)}, follow=True)
    assert "was removed" in answer.content.decode()
    assert [*Session.objects.values_list("title", flat=True)] == ["Tea 0"]
    assert Message.objects.count() == Memory.objects.filter(source="extraction").count() == 1
    assert "Imported: 2 new" in run("import", path, *WHOSE)
    assert boss.post(address, {"row_id": "nonsense"}).status_code == 404


def test_a_conversation_that_went_on_is_kept(client: APIClient, boss: Client, tmp_path: Path) -> None:
    run("import", write_chats(tmp_path, count=1), *WHOSE)
    session, row = Session.objects.get(), Import.objects.get()
    more = {"messages": [{"role": "user", "content": "And coffee?"}]}
    made(client.post(f"{API}/sessions/{session.pk}/messages", more))
    answer = boss.post(reverse("import_page", args=[row.pk]), {"row_id": str(session.pk)}, follow=True)
    assert "changed since the import, and is kept" in answer.content.decode()
    assert Session.objects.exists()
