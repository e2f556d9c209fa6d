"""A database that takes no writes for a while: reads go on, what writes is a 503 that says so (SPEC O7)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from memoryhub.auth.models import ApiKey
from tests.factories.planting import plant_first
from tests.fakes.llm_server import LLMServer, Reply
from tests.integration.test_tenants import CALLS, call

pytestmark = pytest.mark.django_db

READ_ONLY = (503, "database_read_only")
WITHOUT_MODEL = (503, "llm_unavailable")
SEARCHES = {"memories-search", "memories-retrieve", "messages-search", "summaries-digest", "anthropic-count-tokens"}
"""POST routes that write nothing but notes."""

AUDITED = {("actors-export", "get")}
"""Reads without an entry in the audit trail would be a leak."""


@contextmanager
def no_writes() -> Iterator[None]:
    """Let the statements of the block meet a database that takes no writes, and undo what it did."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
        yield
        transaction.set_rollback(True)


def test_reads_go_on_and_writes_say_so(client: APIClient) -> None:
    planted, answers = plant_first(), {}
    for route, method in CALLS:
        ApiKey.objects.update(last_used_at=timezone.now() - timedelta(days=1))  # its use would be noted
        with no_writes():
            answer = call(client, route, method, planted)
        code = answer.json().get("code", "") if answer.status_code >= 400 else ""
        answers[route.name, method] = answer.status_code, code
    reads = {each: answer for each, answer in answers.items() if each[1] == "get" or each[0] in SEARCHES}
    assert {each for each, answer in reads.items() if answer[0] >= 400} == AUDITED
    writes = {each: answer for each, answer in answers.items() if each not in reads}
    unclear = {each: answer for each, answer in writes.items() if answer[0] >= 500 and answer != READ_ONLY}
    assert {each: answer for each, answer in unclear.items() if answer != WITHOUT_MODEL} == {}
    assert sum(answer == READ_ONLY for answer in writes.values()) > 50


@pytest.mark.django_db(transaction=True)
def test_a_connection_to_a_server_that_became_a_standby_is_left(client: APIClient) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    body = {"agent_id": "kana", "user_id": "hiroki", "content": "Lives in Kyoto."}
    refused = client.post("/api/v1/memories", body, format="json")
    assert (refused.status_code, refused.json()["code"]) == READ_ONLY
    assert client.post("/api/v1/memories", body, format="json").status_code == 201


def test_chat_programs_get_an_answer_without_memory(client: APIClient, llm: LLMServer) -> None:
    plant_first()
    llm.answer(Reply("Hello."))
    with no_writes():
        body = {"model": "kana", "user": "hiroki", "messages": [{"role": "user", "content": "Hi!"}]}
        answer = client.post("/api/v1/openai/chat/completions", body, format="json")
    assert (answer.status_code, answer.headers["X-Memoryhub-Degraded"]) == (200, "database_unavailable")


def test_readiness_reports_it_and_stays() -> None:
    with no_writes():
        answer = Client().get("/readyz")
    check = answer.json()["checks"]["writes"]
    assert answer.status_code == 200 and not check["ok"] and "reads go on" in check["detail"]


def test_pages_are_read_and_changes_say_so() -> None:
    person = User.objects.create_superuser("boss", password="a long password")
    browser = Client()
    browser.force_login(person)
    with no_writes():
        assert browser.get(reverse("admin:index")).status_code == 200
    with no_writes():
        answer = browser.post(reverse("admin:logout"))
        assert (answer.status_code, answer.json()["code"]) == READ_ONLY
    with no_writes():
        answer = Client().post(reverse("admin:login"), {"username": "boss", "password": "a long password"})
        assert (answer.status_code, answer.json()["code"]) == READ_ONLY


@pytest.mark.django_db(transaction=True)
def test_a_host_that_only_reads_keeps_its_connections(client: APIClient, settings: Any) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, read_only=True)
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    kept = connection.connection
    try:
        answer = client.post("/api/v1/memories", {"agent_id": "kana", "content": "likes green tea"})
        assert (answer.status_code, answer.json()["code"]) == READ_ONLY
        assert connection.connection is kept
    finally:
        connection.close()
