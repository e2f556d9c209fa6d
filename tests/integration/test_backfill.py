"""`manage.py backfill`: what was said before is caught up with, once, as far as caps allow (SPEC O3, L2)."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from rest_framework.test import APIClient

from conversations.models import MessageIndex
from memoryhub.ids import new_id
from memoryhub.jobs.backfill import SOURCES, Scope
from memoryhub.jobs.executor import claim
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue, offer_of
from memoryhub.jobs.registry import job_kind
from strength.models import Memory
from summaries.models import Summary
from tests.conftest import client_with_key, run_jobs
from tests.fakes.llm_server import Asked, LLMServer, Reply

API = "/api/v1"
pytestmark = pytest.mark.django_db(transaction=True)


def backfill(*arguments: str) -> str:
    out = StringIO()
    call_command("backfill", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def talk(client: APIClient, agent_id: str, user_id: str, *texts: str) -> str:
    names = {"agent_id": agent_id, "user_id": user_id}
    session = client.post(f"{API}/sessions", names).json()["id"]
    batch = [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]
    assert client.post(f"{API}/sessions/{session}/messages", {"messages": batch}).status_code == 201
    return str(session)


def forget_jobs() -> None:
    """As if what was said had been said before there was anybody to work on it."""
    Job.objects.all().delete()


def extracting(asked: Asked) -> Reply:
    """Summarise in a sentence; draw one fact from the first message."""
    if asked.schema is None:
        return Reply("They talked about tea.")
    empty: dict[str, Any] = {name: [] for name in asked.schema["properties"]}
    fact = {"text": "Drinks green tea.", "sources": [1], "confidence": 0.9, "speech": "own_statement"}
    return Reply(data={**empty, "facts": [fact]} if "facts" in empty else empty)


def test_summaries_are_written_for_those_who_were_asked_for(client: APIClient) -> None:
    mine = talk(client, "kana", "hiroki", "I drink green tea.", "Noted.")
    talk(client, "kana", "aoi", "I drink coffee.", "Noted.")
    talk(client, "yuno", "hiroki", "I drink water.", "Noted.")
    forget_jobs()
    assert "summaries: 1 to do" in backfill("--summaries", "--agent", "kana", "--user", "hiroki", "--dry-run")
    assert not Summary.objects.exists()
    backfill("--summaries", "--agent", "kana", "--user", "hiroki")
    assert [str(each.session_id) for each in Summary.objects.all()] == [mine]
    assert "summaries: 2 to do" in backfill("--summaries")
    assert Summary.objects.count() == 3
    assert "summaries: 0 to do" in backfill("--summaries")
    assert {each.version for each in Summary.objects.all()} == {1}


def test_a_limit_and_a_time_narrow_it(client: APIClient) -> None:
    for number in range(3):
        talk(client, "kana", f"user-{number}", "I drink green tea.")
    forget_jobs()
    assert "summaries: 2 to do" in backfill("--summaries", "--limit", "2")
    assert Summary.objects.count() == 2
    assert "summaries: 0 to do" in backfill("--summaries", "--since", "2999-01-01")
    assert "summaries: 1 to do" in backfill("--summaries", "--since", "2020-01-01T00:00+09:00")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--user", "hiroki"), "--user needs --agent"),
        (("--agent", "nobdy"), "There is no agent 'nobdy'. There"),
        (("--limit", "0"), "--limit: must be 1 or more"),
        (("--since", "yesterday"), "--since must be a day"),
        (("--since", "2026-02-31"), "--since must be a day"),
    ],
)
def test_wrong_arguments_are_said(arguments: tuple[str, ...], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        backfill(*arguments)


def test_extraction_reads_what_was_said_before_there_was_a_model(llm: LLMServer, settings: Any) -> None:
    client = client_with_key()
    configured, settings.LLM = settings.LLM, type(settings.LLM)()
    talk(client, "kana", "hiroki", "I drink green tea.", "Noted.")
    run_jobs()
    assert backfill("--extraction", "--dry-run") == (
        "extraction: No language model is configured (MEMORYHUB_LLM_PROVIDER); 2 messages wait.\n"
    )
    assert "summaries: " in backfill(), "the others go on"
    settings.LLM = configured
    llm.answer(extracting)
    assert "extraction: 1 to do" in backfill("--extraction", "--dry-run")
    assert not llm.asked
    backfill("--extraction")
    found = list(Memory.objects.filter(source="extraction").values_list("content", flat=True))
    assert found == ["Drinks green tea."]
    assert backfill("--extraction") == "extraction: 0 to do, nothing is missing.\n"


def test_a_provider_that_is_away_ends_it_and_the_next_run_goes_on(llm: LLMServer) -> None:
    client = client_with_key()
    talk(client, "kana", "hiroki", "I drink green tea.", "Noted.")
    forget_jobs()
    llm.answer(Reply(failure="retry_after_3600"))
    with pytest.raises(CommandError, match="What was done is kept"):
        backfill("--summaries")
    assert not Summary.objects.exists()
    llm.answer(Reply("They talked about tea."))
    backfill("--summaries")
    assert Summary.objects.get().text == "They talked about tea."


def test_a_session_that_takes_more_than_one_attempt_is_gone_on_with(
    llm: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_with_key()
    client.post(f"{API}/agents", {"agent_id": "kana", "policy": {"summary_max_messages": 10}})
    talk(client, "kana", "hiroki", *(f"I drink tea number {number}." for number in range(30)))
    forget_jobs()
    monkeypatch.setattr("summaries.actions.summaries.RESERVE_SECONDS", 10_000.0)
    llm.answer(Reply("They talked about tea."))
    assert "1 done" in backfill("--summaries")
    assert len(llm.asked) == 3 and Summary.objects.get().message_count == 30


def test_a_spend_cap_ends_it_with_its_reason(llm: LLMServer) -> None:
    client = client_with_key()
    client.post(f"{API}/agents", {"agent_id": "kana", "policy": {"daily_token_cap": 1}})
    for number in range(2):
        talk(client, "kana", f"user-{number}", "I drink green tea.", "Noted.")
    talk(client, "yuno", "aoi", "I drink coffee.", "Noted.")
    forget_jobs()
    llm.answer(Reply("They talked about tea."))
    with pytest.raises(CommandError, match="cap"):
        backfill("--summaries")
    agents = sorted(Summary.objects.values_list("actor__agent_id", flat=True))
    assert agents == ["kana", "yuno"], "who has no cap is not kept waiting"


def test_what_a_worker_has_is_left_to_it(client: APIClient) -> None:
    for user_id in ("hiroki", "aoi"):
        talk(client, "kana", user_id, "I drink green tea.", "Noted.")
    piece = next(SOURCES["summaries"](Scope()))
    order = piece.order
    job_id = enqueue(order.kind, actor_id=piece.actor_id, key=order.key, payload=order.payload)
    offered = offer_of(job_id)
    assert offered is not None and claim(offered, job_kind(order.kind), worker=new_id()) is not None
    assert "1 elsewhere, 1 done" in backfill("--summaries")
    assert Summary.objects.count() == 1


def test_embeddings_are_made_where_they_are_missing(client: APIClient) -> None:
    talk(client, "kana", "hiroki", "I drink green tea.", "Noted.")
    forget_jobs()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE conversations_messageindex SET vector = NULL")
    assert "embeddings: 1 to do, 2 texts" in backfill("--embeddings", "--dry-run")
    backfill("--embeddings")
    assert not MessageIndex.objects.filter(vector=None).exists()
