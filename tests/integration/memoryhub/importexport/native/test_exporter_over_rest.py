"""`GET actors/export`: sent while it is read, to whoever may, and known as whole by its last line."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import AsyncClient
from rest_framework.test import APIClient

from memoryhub.api.agents import stream_from_thread
from memoryhub.auth.actions import issue_key
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import Scope, command
from memoryhub.importexport.native.exporter import CHUNK_BYTES
from tests.conftest import NOW, client_with_key
from tests.factories.planting import API, Planted, made, plant, plant_first
from tests.integration.memoryhub.importexport.conftest import exported

ADDRESS = f"{API}/actors/export?agent_id=kana&user_id=hiroki"


@pytest.fixture
def planted(client: APIClient) -> Planted:
    return plant_first()


def test_the_answer_is_the_export(planted: Planted, client: APIClient) -> None:
    answer = client.get(ADDRESS)
    assert answer.status_code == 200
    assert answer.streaming
    assert answer["Content-Type"] == "application/x-ndjson"
    assert answer["Cache-Control"] == "no-store"
    body = answer.getvalue()
    assert body == exported("kana", "hiroki")
    assert "end" in json.loads(body.splitlines()[-1])
    assert planted.user_mark.encode() in body


def test_a_client_may_ask_for_the_form(planted: Planted, client: APIClient) -> None:
    assert client.get(ADDRESS, headers={"Accept": "application/x-ndjson"}).getvalue() == exported("kana", "hiroki")
    unknown = client.get(f"{API}/actors/export?agent_id=nobody", headers={"Accept": "application/x-ndjson"})
    assert (unknown.status_code, unknown["Content-Type"]) == (404, "application/problem+json")
    assert json.loads(unknown.content)["code"] == "not_found"


def test_an_agents_own_memory_is_exported_without_a_user(planted: Planted, client: APIClient) -> None:
    body = client.get(f"{API}/actors/export?agent_id=kana").getvalue()
    assert body == exported("kana", "")
    assert planted.user_mark.encode() not in body


def test_who_may_not_gets_nothing(planted: Planted, client: APIClient) -> None:
    plant(client, agent_id="yuno", user_id="aoi")
    assert client_with_key(scopes=[Scope.READ, Scope.WRITE]).get(ADDRESS).status_code == 403
    assert client_with_key(agent_ids=["yuno"]).get(ADDRESS).status_code == 403
    assert client_with_key(agent_ids=["kana"], user_id="aoi").get(ADDRESS).status_code == 403
    assert client_with_key(agent_ids=["kana"], user_id="hiroki").get(ADDRESS).status_code == 200
    assert APIClient().get(ADDRESS).status_code == 401


def test_nobody_is_a_404(planted: Planted, client: APIClient) -> None:
    for query in ("agent_id=kana&user_id=nobody", "agent_id=nobody"):
        answer = client.get(f"{API}/actors/export?{query}")
        assert answer.status_code == 404
        assert answer["Content-Type"].startswith("application/problem+json")
    assert client.get(f"{API}/actors/export").status_code == 400


def test_an_export_is_in_the_audit_trail(planted: Planted, client: APIClient) -> None:
    client.get(ADDRESS)
    entry = AuditEntry.objects.get(verb="export")
    assert (entry.agent_id, entry.user_id, entry.object_id) == ("kana", "hiroki", planted.actor_id)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_through_asgi_it_comes_in_pieces_and_leaves_no_connection() -> None:
    client = client_with_key()
    planted = plant_first()
    for number in range(40):
        made(client.post(f"{API}/memories", {**planted.names, "content": f"{number} {'long ' * 1_000}"}))
    _, key = issue_key(name="async", scopes=list(Scope), by=command("test"), now=NOW)
    before = connections_of_the_database()

    async def fetch() -> list[bytes]:
        answer = await AsyncClient().get(ADDRESS, headers={"Authorization": f"Bearer {key.text}"})
        assert answer.status_code == 200
        return [piece async for piece in answer.streaming_content]

    pieces = async_to_sync(fetch)()
    assert len(pieces) > 2
    assert b"".join(pieces) == exported("kana", "hiroki")
    assert wait_for_connections(before)


@pytest.mark.django_db(transaction=True)
def test_a_client_that_goes_away_ends_the_reading() -> None:
    ended = []

    def pieces() -> Iterator[bytes]:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            while True:
                yield b"piece"
        finally:
            ended.append(True)

    before = connections_of_the_database()

    async def leave() -> None:
        sent: Any = stream_from_thread(pieces)
        assert (await anext(sent)).startswith(b"piece")
        await sent.aclose()
        while not ended:
            await asyncio.sleep(0.01)

    asyncio.run(leave())
    assert ended == [True]
    assert wait_for_connections(before)


@pytest.mark.django_db(transaction=True)
def test_a_client_that_stalls_holds_no_connection() -> None:
    def pieces() -> Iterator[bytes]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        yield from [b"x" * CHUNK_BYTES] * 20

    before = connections_of_the_database()

    def only_this_connection_is_new() -> bool:
        try:
            return wait_for_connections(before + 1)
        finally:
            connection.close()

    async def stall() -> int:
        sent: Any = stream_from_thread(pieces)
        first = len(await anext(sent))
        assert await asyncio.to_thread(only_this_connection_is_new), "the rest is read while nobody takes it"
        return first + sum([len(piece) async for piece in sent])

    assert asyncio.run(stall()) == 20 * CHUNK_BYTES


def connections_of_the_database() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def wait_for_connections(most: int) -> bool:
    """Say whether no more connections are open than that, as soon as the server has noticed."""
    for _ in range(3_000):
        if connections_of_the_database() <= most:
            return True
        time.sleep(0.02)
    return False
