"""Programs at the compatible endpoints are answered while memory is slow, and while the database is away (SPEC B7)."""

# ruff: noqa: F811

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from threading import Event
from typing import Any

import httpx2
import openai
import psycopg
import pytest
from django.conf import settings
from django.db import connection, connections
from django.test import override_settings

from conversations.models import Message
from memoryhub.auth.actions import revoke_key
from memoryhub.auth.models import ApiKey
from memoryhub.auth.principals import command
from memoryhub.db.limits import OutOfTime, time_limit
from memoryhub.llm.usage.models import LedgerEntry
from tests.fakes.llm_server import LLMServer, Reply
from tests.integration.conversations.test_openai import Talk, echo, key_of, said, sdk, sdk_of, stored  # noqa: F401
from tests.serving import Web

HEADER = "X-Memoryhub-Degraded"
NAMES: dict[str, Any] = {"model": "kana", "user": "hiroki"}


@contextmanager
def short_wait() -> Iterator[None]:
    """Let calls wait 400 ms for memory; elsewhere a busy machine has time."""
    with override_settings(ENVIRONMENT=replace(settings.ENVIRONMENT, memory_ms=400)):
        yield


@contextmanager
def database_away() -> Iterator[None]:
    """End all connections but the test's own, and refuse new ones."""
    values = connections.settings["default"]
    port = values["PORT"]
    values["PORT"] = 1
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    try:
        with short_wait():
            yield
    finally:
        values["PORT"] = port


@contextmanager
def locked(table: str) -> Iterator[None]:
    """Hold a table, so that every statement on it waits."""
    with psycopg.connect(**{**connection.get_connection_params(), "cursor_factory": psycopg.ClientCursor}) as other:
        other.execute(f"LOCK TABLE {table}")
        with short_wait():
            yield


def ask(sdk: openai.OpenAI, messages: list[Any], **options: Any) -> Any:
    return sdk.chat.completions.with_raw_response.create(messages=messages, **{**NAMES, **options})


def asked_of_the_vendor(llm: LLMServer) -> list[tuple[str, Any]]:
    return [(each["role"], each["content"]) for each in llm.asked[-1].messages]


@pytest.mark.parametrize("table", ["conversations_session", "strength_memory"])
def test_a_question_goes_on_without_memory_where_that_is_slow(sdk: openai.OpenAI, llm: LLMServer, table: str) -> None:
    first = Talk(sdk)
    first.say("My tea is gyokuro, from the farm in Uji.")
    shown = [said("system", "Be brief."), *first.messages, said("user", "Which tea is mine?")]
    with locked(table):
        answer = ask(sdk, shown)
    assert answer.headers[HEADER] == "memory_slow"
    assert answer.parse().choices[0].message.content
    assert llm.asked[-1].system == "Be brief."
    assert [role for role, _content in asked_of_the_vendor(llm)] == ["user", "assistant", "user"]


def test_what_was_said_meanwhile_is_stored_with_the_next_question(sdk: openai.OpenAI, echo: LLMServer) -> None:
    talk = Talk(sdk)
    talk.say("My tea is gyokuro, from the farm in Uji.")
    with locked("conversations_session"):
        talk.say("And my cup is blue.")
    talk.say("Which cup is mine?")
    questions = list(Message.objects.filter(role="user").order_by("seq").values_list("content", flat=True))
    assert questions == ["My tea is gyokuro, from the farm in Uji.", "And my cup is blue.", "Which cup is mine?"]
    assert Message.objects.count() == 6


@pytest.mark.parametrize("is_streamed", [False, True])
def test_keys_that_were_used_go_on_while_the_database_is_away(
    sdk: openai.OpenAI, echo: LLMServer, is_streamed: bool
) -> None:
    ask(sdk, [said("user", "Hello.")])
    with database_away():
        answer = ask(sdk, [said("user", "Which tea?")], stream=is_streamed)
        if is_streamed:
            text = "".join(chunk.choices[0].delta.content or "" for chunk in answer.parse() if chunk.choices)
        else:
            text = answer.parse().choices[0].message.content
    assert answer.headers[HEADER] == "database_unavailable"
    assert text.startswith("Which tea?!")


def test_messages_and_responses_go_on_too(web: Web, echo: LLMServer) -> None:
    with httpx2.Client(base_url=web.url, headers={"X-Api-Key": key_of(user_id="hiroki", agent_ids=None)}) as client:
        messages = {**{"model": "kana", "max_tokens": 9}, "messages": [said("user", "Hello.")]}
        client.post("/api/v1/anthropic/v1/messages", json=messages)
        with database_away():
            answer = client.post("/api/v1/anthropic/v1/messages", json=messages)
            other = client.post("/api/v1/openai/responses", json={"model": "kana", "input": "Hello."})
    assert (answer.status_code, answer.headers[HEADER]) == (200, "database_unavailable")
    assert answer.json()["content"][0]["text"].startswith("Hello.!")
    assert (other.status_code, other.headers[HEADER]) == (200, "database_unavailable")


def test_unknown_and_revoked_keys_do_not_go_on(web: Web, sdk: openai.OpenAI, echo: LLMServer) -> None:
    ask(sdk, [said("user", "Hello.")])
    revoke_key(key=ApiKey.objects.get(), reason="lost", by=command("test"), now=datetime.now(UTC))
    with pytest.raises(openai.AuthenticationError):
        ask(sdk, [said("user", "Hello.")])
    key, asked = key_of(), len(echo.asked)
    with database_away():
        for client in (sdk, sdk_of(web, key), sdk_of(web, "mh_0123456789_nobody")):
            with pytest.raises(openai.InternalServerError) as refused:
                ask(client.with_options(max_retries=0), [said("user", "Which tea?")])
            assert refused.value.status_code == 503
    assert len(echo.asked) == asked


def test_streams_end_as_the_vendors_do_when_the_database_goes_away(sdk: openai.OpenAI, llm: LLMServer) -> None:
    ask(sdk, [said("user", "Hello.")])
    told = Event()

    def read(number: int) -> tuple[str, str | None]:
        text, reason = "", None
        for chunk in sdk.chat.completions.create(messages=[said("user", f"Question {number}?")], stream=True, **NAMES):
            told.set()
            text += chunk.choices[0].delta.content or ""
            reason = chunk.choices[0].finish_reason or reason
        return text, reason

    gate = Event()
    llm.answer(lambda asked: Reply("All of it.", go_on=gate))
    with ThreadPoolExecutor(20) as threads:
        reading = [threads.submit(read, number) for number in range(20)]
        assert told.wait(30)
        with database_away():
            gate.set()
            found = [each.result(60) for each in reading]
    assert found == [("All of it.", "stop")] * 20


def test_the_ledger_has_what_was_answered_without_memory(sdk: openai.OpenAI, echo: LLMServer) -> None:
    with locked("strength_memory"):
        ask(sdk, [said("user", "Hello.")])
        ask(sdk, [said("user", "Which tea?")])
    ends_at = time.monotonic() + 30  # it is written after the answer
    while LedgerEntry.objects.count() < 2 and time.monotonic() < ends_at:
        time.sleep(0.05)
    assert LedgerEntry.objects.filter(operation="chat", outcome="ok").count() == 2


def test_statements_are_cancelled_at_the_end_of_the_time(transactional_db: None) -> None:

    with pytest.raises(OutOfTime), time_limit(time.monotonic() + 0.1), connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(60)")
    with pytest.raises(OutOfTime), time_limit(time.monotonic() - 1), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)
