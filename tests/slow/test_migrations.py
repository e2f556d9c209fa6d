"""Migrations that carry data: what an older release has written is what this one reads."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from rest_framework.test import APIClient

from conversations.domain.messages import asks
from conversations.models import MessageIndex, Session
from memoryhub.auth.domain import command
from memoryhub.auth.tenancy import actor_for_writing, ensure_actor
from memoryhub.ids import new_id
from memoryhub.search.maintenance import count_outdated
from memoryhub.search.models import EmbeddingSpace
from memoryhub.tenancy.models import Agent
from strength.actions.memories import NewMemory, write_memory
from strength.actions.sleep import SleepRequest, sleep
from strength.domain.memories import content_digest
from strength.domain.sleep import Trigger
from strength.models import CurrentNumbers, MemoryIndex
from tests.conftest import client_with_key

API = "/api/v1"
BEFORE = [("conversations", "0001_initial"), ("strength", "0002_shared_and_pinned_indexes")]
AT = datetime(2023, 5, 8, 12, 0, tzinfo=UTC)
NO_WORDS = "{}/536870912"
ENDINGS = [
    "Is it? ", "猫は好き？🐈", "本当ですか", "本当ですか。\n", "まさか！", "Really?!", "(so?)", "I like tea.", "Why? Because.",
    "どこかで見た", "か。そうだね。", "?" + "!" * 49, "?" + "!" * 50, "", "Why? なぜなら", "Pourquoi ? é", "?_",
    "何？\u3000", "か\u3000", "か\u00a0", "か\u2028", "x?\x1c", "? Ⅷ", "?\u0301", "?ー",
]  # fmt: skip
pytestmark = pytest.mark.django_db(transaction=True)


def migrate(targets: list[Any]) -> None:
    MigrationExecutor(connection).migrate(targets)


def newest() -> list[Any]:
    return list(MigrationExecutor(connection).loader.graph.leaf_nodes())


@pytest.fixture
def older_database() -> Iterator[None]:
    """Take the database back to before the migrations; bring it to the newest state again, come what may."""
    targets = newest()
    migrate(BEFORE)
    try:
        yield
    finally:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(targets):  # a migration failed, perhaps because of what lies in the tables
            with connection.cursor() as cursor:
                cursor.execute("TRUNCATE memoryhub_agent, memoryhub_embeddingspace CASCADE")
            executor.migrate(targets)


def insert(table: str, **values: Any) -> None:
    columns = ", ".join(values)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({columns}) VALUES ({', '.join(['%s'] * len(values))})",
            list(values.values()),
        )


class OlderRelease:
    """Writes rows as the tables were then."""

    def __init__(self) -> None:
        self.actor = ensure_actor(Agent.objects.create(agent_id="kana"), "hiroki")
        self.space = EmbeddingSpace.objects.create(
            provider="hashing", model="ngrams-1", dimension=384, state="active", cosine_low=0.3, cosine_high=0.6,
            vector_weight=0.2,
        )  # fmt: skip
        self.seq: dict[UUID, int] = {}

    def session(self) -> UUID:
        session_id = new_id()
        insert(
            "conversations_session",
            id=session_id, actor_id=self.actor.pk, channel="api", title="", metadata="{}", message_count=0,
        )  # fmt: skip
        self.seq[session_id] = 0
        return session_id

    def message(
        self, session_id: UUID, content: str, *, role: str = "user", author: str = "", trust: str = "trusted"
    ) -> UUID:
        message_id = new_id()
        self.seq[session_id] += 1
        insert(
            "conversations_message",
            id=message_id, actor_id=self.actor.pk, session_id=session_id, seq=self.seq[session_id], role=role, author=author,
            content=content, token_count=1, trust=trust, created_at=AT, metadata="{}",
        )  # fmt: skip
        insert(
            "conversations_messageindex",
            actor_id=self.actor.pk, space_id=self.space.pk, message_id=message_id, session_id=session_id,
            seq=self.seq[session_id], words=NO_WORDS,
        )  # fmt: skip
        return message_id

    def memory(self, content: str, **facets: Any) -> UUID:
        memory_id = new_id()
        values = {
            "kind": "note", "namespace": "/notes/hiroki/", "tags": [], "scope_level": "project", "scope_domain": "",
            "scope_project": "", "status": "active", "pinned": False, "created_at": AT, **facets,
        }  # fmt: skip
        insert(
            "strength_memory",
            id=memory_id, actor_id=self.actor.pk, content=content, content_digest=content_digest(content), locked=False,
            source="manual", channel="", trust="trusted", learnings="{}", version=1, **values,
        )  # fmt: skip
        insert(
            "strength_memorynumbers",
            memory_id=memory_id, actor_id=self.actor.pk, strength=1.0, access_count=0, candidate_count=0, impact_score=0,
            consolidation_level=0,
        )  # fmt: skip
        insert(
            "strength_memoryindex",
            actor_id=self.actor.pk, space_id=self.space.pk, memory_id=memory_id, words=NO_WORDS,
        )  # fmt: skip
        return memory_id


def test_index_rows_of_messages_are_filled(older_database: None) -> None:
    older = OlderRelease()
    session = older.session()
    question = older.message(session, "猫は好きですか？", author="ann", trust="untrusted")
    statement = older.message(session, "Yes, I do.", role="assistant", author="kana")
    system = older.message(session, "Be kind, will you?", role="system", author="boss")
    tool = older.message(session, "exit 0", role="tool", author="grep")
    older.message(session, "Me too.", author="ann")
    older.message(session, "Nobody said this.")
    older.message(session, "Believe me.", author="mallory", trust="untrusted")
    silent = older.session()
    older.message(silent, "Anonymous?")

    migrate(newest())

    asked = MessageIndex.objects.get(message_id=question)
    assert (asked.trust, asked.author, asked.asks, asked.words_version) == ("untrusted", "ann", True, 1)
    told = MessageIndex.objects.get(message_id=statement)
    assert (told.trust, told.author, told.asks, told.words_version) == ("trusted", "kana", False, 1)
    assert not MessageIndex.objects.filter(message_id__in=[system, tool]).exists()
    assert MessageIndex.objects.count() == 6
    assert Session.objects.get(pk=session).authors == ["ann", "kana"]
    assert Session.objects.get(pk=silent).authors == []


def test_migration_takes_the_same_for_a_question_as_this_release(older_database: None) -> None:
    older = OlderRelease()
    session = older.session()
    ids = {older.message(session, content): content for content in ENDINGS}

    migrate(newest())

    found = {ids[row.message_id]: row.asks for row in MessageIndex.objects.all()}
    assert found == {content: asks(content) for content in ENDINGS}


def test_index_rows_of_memories_are_filled(older_database: None) -> None:
    older = OlderRelease()
    facets = {
        "kind": "decision", "namespace": "/facts/hiroki/", "tags": ["a", "b"], "scope_level": "domain",
        "scope_domain": "tea", "scope_project": "pot", "status": "archived", "pinned": True, "valid_from": AT, "valid_to": AT,
        "created_at": AT,
    }  # fmt: skip
    archived, plain = older.memory("green tea", **facets), older.memory("black tea")

    migrate(newest())

    row = MemoryIndex.objects.get(memory_id=archived)
    assert {name: getattr(row, name) for name in facets} == facets
    assert row.words_version == 1
    other = MemoryIndex.objects.get(memory_id=plain)
    assert (other.status, other.tags, other.pinned, other.created_at) == ("active", [], False, AT)
    assert MemoryIndex.mend() == 0


def test_what_an_older_release_wrote_is_found_after_reindexing(older_database: None) -> None:
    older = OlderRelease()
    older.message(older.session(), "I like marmalade.", author="ann")
    older.memory("Hiroki likes marmalade.")
    migrate(newest())
    client: APIClient = client_with_key()
    body = {"agent_id": "kana", "user_id": "hiroki", "query": "marmalade", "include_messages": True}
    assert client.post(f"{API}/memories/search", body).json()["results"] == []
    assert count_outdated() == 2

    call_command("reindex", stdout=StringIO(), stderr=StringIO())

    assert len(client.post(f"{API}/memories/search", body).json()["results"]) == 2


def test_migrations_can_be_taken_back(older_database: None) -> None:
    OlderRelease().memory("green tea")
    migrate(newest())
    migrate(BEFORE)
    migrate(newest())

    assert MemoryIndex.objects.get().namespace == "/notes/hiroki/"


def test_numbers_are_settled_where_the_clock_is_taken_back(db: None) -> None:
    by, newest_ones = command("test"), newest()
    actor = actor_for_writing(by, "kana", "hiroki", now=AT)
    write_memory(actor=actor, new=NewMemory(content="Likes tea."), by=by, now=AT)
    for day in (1, 2, 3):
        sleep(actor=actor, waking=SleepRequest(Trigger.COMMAND, by, AT + timedelta(days=day)))
    try:
        migrate([("strength", "0015_beside_has_a_default")])
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT strength, before_strength, slept_in, last_decay_at FROM strength_memorynumbers"
            )
            found = cursor.fetchall()
    finally:
        migrate(newest_ones)
    assert found == [(pytest.approx(0.95**3), pytest.approx(0.95**2), 3, AT + timedelta(days=3))]
    assert CurrentNumbers.objects.get().strength == pytest.approx(0.95**3)
