"""Policies of the database for people who are limited to some agents, and connections that have their limits (ADR 70)."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import ProgrammingError, connection, transaction
from rest_framework.test import APIClient

from memoryhub.auth import row_security
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.actions import issue_key
from memoryhub.auth.models import AgentLimit, ApiKey, agents_of
from memoryhub.auth.orders import OrderLapsed, caller_of, order_of
from memoryhub.auth.principals import Scope, command, curator, within
from memoryhub.auth.roles import ADMINISTRATOR
from memoryhub.db import reach
from memoryhub.db.cursors import prepared_cursor
from memoryhub.db.pool import run_in_background
from memoryhub.doctor import agent_limits
from memoryhub.jobs.executor import claim
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Offer, enqueue
from memoryhub.jobs.registry import job_kind
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.llm.usage.recording import record
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.webhooks.models import Endpoint
from strength.actions.memories import NewMemory, write_memory
from strength.models import Memory

pytestmark = pytest.mark.django_db
BY, NOW = command("test"), datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
KANA, NO_ONE = frozenset({"kana"}), frozenset[str]()


@pytest.fixture
def memories() -> list[Memory]:
    """Return a memory of kana and one of yuno."""
    made = []
    for agent_id in ("kana", "yuno"):
        actor = actor_for_writing(BY, agent_id, "hiroki", now=NOW)
        made.append(write_memory(actor=actor, new=NewMemory(content=f"likes {agent_id}"), by=BY, now=NOW)[0])
    return made


def seen() -> set[str]:
    return set(Memory.objects.values_list("actor__agent_id", flat=True))


def role() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        return str(cursor.fetchone()[0])


def test_every_table_is_in_one_list() -> None:
    lists = [set(row_security.conditions()), set(row_security.READABLE), set(row_security.CLOSED)]
    assert sum(map(len, lists)) == len(set[str]().union(*lists))
    assert set(connection.introspection.table_names()) == set[str]().union(*lists)


def test_every_row_of_an_actor_or_an_agent_is_limited() -> None:
    limited = set(row_security.conditions())
    for model in apps.get_models(include_auto_created=True):
        columns = {field.column for field in model._meta.local_concrete_fields}
        if model._meta.managed and columns & {"actor_id", "agent_id"} and model._meta.db_table != "webhooks_endpoint":
            assert model._meta.db_table in limited, model
        related = {field.related_model._meta.db_table for field in model._meta.local_fields if field.related_model}
        if related & limited:
            assert model._meta.db_table in limited | {"webhooks_endpoint"}, model


def test_the_database_has_the_policies_and_rights_of_the_lists() -> None:
    assert row_security.remedy() == ""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, string_agg(privilege_type, ', ' ORDER BY strpos(%s, privilege_type)) "
            "FROM information_schema.role_table_grants WHERE grantee = 'memoryhub_limited' GROUP BY 1",
            [row_security.ALL],
        )
        granted = dict(cursor.fetchall())
    assert granted == {**row_security.READABLE, **dict.fromkeys(row_security.conditions(), row_security.ALL)}
    row_security.protect()
    assert row_security.remedy() == ""


def test_a_limited_context_sees_and_writes_rows_of_its_agents_alone(memories: list[Memory]) -> None:
    own, other = memories
    with reach.limited_to(KANA):
        assert role() == "memoryhub_limited" and seen() == {"kana"} and Agent.objects.count() == 1
        assert Memory.objects.filter(pk=other.pk).update(tags=["mine"]) == 0
        assert Memory.objects.filter(pk=own.pk).update(tags=["mine"]) == 1
        assert other.delete()[0] == 0
        with pytest.raises(ProgrammingError, match="row-level security"), transaction.atomic():
            Actor.objects.create(id=uuid4(), agent_id="yuno", user_id="new")
        with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
            ApiKey.objects.count()
        with prepared_cursor() as cursor:
            cursor.execute("SELECT count(*) FROM strength_memory")
            assert cursor.fetchone() == (1,)
    assert role() == "memoryhub" and seen() == {"kana", "yuno"}
    with reach.limited_to(NO_ONE):
        assert seen() == set()


def test_a_prepared_statement_is_planned_again_in_other_limits(memories: list[Memory]) -> None:
    def count() -> int:
        with prepared_cursor() as cursor:
            cursor.execute("SELECT count(*) FROM strength_memory WHERE actor_id <> %s", [uuid4()])
            return int(cursor.fetchone()[0])

    for _ in range(10):  # long enough for a generic plan
        assert count() == 2
    with reach.limited_to(KANA):
        assert [count() for _ in range(10)] == [1] * 10
    assert count() == 2


def test_a_trigger_finds_a_webhook_of_which_limited_people_cannot_read_the_address() -> None:
    Endpoint.objects.create(url="https://example.org/secret", secret="sealed", agent=None)
    with reach.limited_to(KANA), connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM webhooks_endpoint)")
        assert cursor.fetchone() == (True,)
        with pytest.raises(ProgrammingError, match="denied"), transaction.atomic():
            Endpoint.objects.first()


@pytest.mark.django_db(transaction=True)
def test_what_no_agent_pays_for_is_noted_in_limits_as_well() -> None:
    with reach.limited_to(KANA):
        for agent_id in ("", "kana", "yuno"):
            record(
                LedgerEntry(
                    agent_id=agent_id, created_at=NOW, operation="embed_query", provider="fake", model="small",
                    input_tokens=1, estimated_tokens=1, latency_ms=1.0,
                )
            )  # fmt: skip
    assert set(LedgerEntry.objects.values_list("agent_id", flat=True)) == {"", "kana"}


def test_many_rows_are_written_in_limits_as_well(memories: list[Memory]) -> None:
    with reach.limited_to(KANA):
        new = NewMemory(content="drinks tea", tags=["tea"])
        memory, _ = write_memory(actor=memories[0].actor, new=new, by=BY, now=NOW)
    assert Memory.objects.get(pk=memory.pk).tags == ["tea"]


def test_limits_survive_a_rollback_and_end_with_an_error(memories: list[Memory]) -> None:
    with pytest.raises(ZeroDivisionError), reach.limited_to(KANA):
        for _ in range(2):
            with pytest.raises(ProgrammingError), transaction.atomic():
                ApiKey.objects.count()
            assert seen() == {"kana"}
        with transaction.atomic():
            transaction.set_rollback(True)
        assert seen() == {"kana"}
        raise ZeroDivisionError
    assert seen() == {"kana", "yuno"}


def test_a_rollback_does_not_take_limits_back_that_began_within_the_transaction(memories: list[Memory]) -> None:
    token = copy_context()

    def limited() -> set[str]:
        with reach.limited_to(KANA):
            return seen()

    with transaction.atomic():
        assert token.run(limited) == {"kana"}
        transaction.set_rollback(True)
    assert role() == "memoryhub" and token.run(limited) == {"kana"} and seen() == {"kana", "yuno"}


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_was_left_in_limits_is_free_for_the_next(memories: list[Memory]) -> None:
    with reach.limited_to(KANA):
        assert seen() == {"kana"}
        kept = connection.connection
    with transaction.atomic():
        assert role() == "memoryhub" and connection.connection is kept
    with reach.limited_to(KANA):
        with transaction.atomic():
            assert seen() == {"kana"}
            transaction.set_rollback(True)
        assert seen() == {"kana"}
        connection.close()
        assert seen() == {"kana"}, "a new connection has them too"
    assert seen() == {"kana", "yuno"}


@pytest.mark.django_db(transaction=True)
def test_a_connection_of_the_pool_has_the_limits_of_who_takes_it(memories: list[Memory]) -> None:
    pooled: Any = connection.copy()
    pooled.settings_dict["CONN_MAX_AGE"] = 0
    pooled.settings_dict["OPTIONS"]["pool"] = {"min_size": 1, "max_size": 1}

    def look() -> tuple[int, str, int]:
        with pooled.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid(), current_user, (SELECT count(*) FROM strength_memory)")
            found: tuple[int, str, int] = cursor.fetchone()
        return found

    try:
        seen_by = []
        for limit in (None, KANA, None, NO_ONE, None):
            with reach.limited_to(limit):
                seen_by.append(look())
                pooled.close()  # as `return_connection` does during a call of a model
                assert look() == seen_by[-1]
            pooled.close()
    finally:
        pooled.close()
        pooled.close_pool()
    assert len({process for process, _role, _count in seen_by}) == 1
    free, some, none = ("memoryhub", 2), ("memoryhub_limited", 1), ("memoryhub_limited", 0)
    assert [row[1:] for row in seen_by] == [free, some, free, none, free]


@pytest.mark.django_db(transaction=True)
def test_threads_and_tasks_of_a_limited_context_are_limited(memories: list[Memory]) -> None:
    found = []

    def look() -> None:
        try:
            found.append(seen())
        finally:
            connection.close()

    async def task() -> None:
        from asgiref.sync import sync_to_async

        await sync_to_async(look)()

    with reach.limited_to(KANA):
        run_in_background(task()).result(30)
        with ThreadPoolExecutor(1) as thread:
            thread.submit(copy_context().run, look).result(30)
    assert found == [{"kana"}, {"kana"}]


THREADS = {
    "memoryhub/api/agents.py": "the export runs in a copy of the context",
    "memoryhub/api/middleware.py": "requests begin in it, and are limited by their middleware",
    "memoryhub/db/pool.py": "parallel work runs in copies of the context; the loop's tasks have those of their callers",
    "memoryhub/jobs/context.py": "renews a lease",
    "memoryhub/llm/usage/recording.py": "writes what was spent",
    "memoryhub/mcp/oauth.py": "acts as a key",
    "memoryhub/mcp/server.py": "acts as a key",
    "memoryhub/telemetry/spans.py": "sends traces",
}


def test_every_thread_is_known_as_it_begins_without_limits() -> None:
    starts = re.compile(r"ThreadPoolExecutor\(|threading\.Thread\(")
    root = Path(settings.BASE_DIR)
    found = {
        str(path.relative_to(root))
        for app in ("memoryhub", "conversations", "summaries", "strength")
        for path in (root / app).rglob("*.py")
        if starts.search(path.read_text())
    }
    assert found - {"memoryhub/runtime/processes.py"} == set(THREADS)


def test_what_is_missing_is_named_and_mended() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE strength_memory DISABLE ROW LEVEL SECURITY")
        cursor.execute("DROP POLICY limited_people ON conversations_message")
        cursor.execute("GRANT SELECT ON memoryhub_apikey TO memoryhub_limited")
    assert all(table in row_security.remedy() for table in ("conversations_message", "strength_memory"))
    row_security.protect()
    assert row_security.remedy() == ""
    with reach.limited_to(KANA), pytest.raises(ProgrammingError, match="denied"), transaction.atomic():
        ApiKey.objects.count()


def test_rights_that_everyone_has_to_closed_tables_are_named() -> None:
    with connection.cursor() as cursor:
        cursor.execute("GRANT SELECT ON memoryhub_apikey, memoryhub_invitation TO PUBLIC")
        row_security.protect()
        statement = row_security.remedy().removeprefix("run: ").partition(";")[0]
        assert "memoryhub_apikey, memoryhub_invitation" in statement
        cursor.execute(statement)
    assert row_security.remedy() == ""


def test_without_the_role_nothing_is_set_and_doctor_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = row_security.STATE.replace("_limited", "_absent")
    monkeypatch.setattr(row_security, "STATE", missing)
    row_security.protect()
    call_command("migrate", verbosity=0)
    assert list(agent_limits()) == [], "no one is limited"
    AgentLimit.objects.create(person=User.objects.create_user("mika"), agent_ids=["kana"], source="granted")
    (finding,) = agent_limits()
    assert finding.level == "broken"
    assert 'CREATE ROLE "memoryhub_absent" NOLOGIN; GRANT "memoryhub_absent" TO "memoryhub"' in finding.detail


def person_with(*agent_ids: str) -> User:
    """Return a limited person with all permissions of an administrator, who is none."""
    person = User.objects.create_user("rin", password="a long password", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(group__name=ADMINISTRATOR))
    AgentLimit.objects.create(person=person, agent_ids=list(agent_ids), source="granted")
    return person


def test_administrators_and_superusers_are_not_limited() -> None:
    person = person_with("kana")
    assert agents_of(person) == {"kana"}
    person.groups.add(Group.objects.get(name=ADMINISTRATOR))
    assert agents_of(person) is None
    person.groups.clear()
    person.is_superuser = True
    assert agents_of(person) is None


@pytest.mark.parametrize(
    ("limit", "agent_ids", "both"),
    [
        (None, None, None),
        (None, ["a"], {"a"}),
        ({"a"}, None, {"a"}),
        ({"a", "b"}, ["b", "c"], {"b"}),
        ({"a"}, ["b"], set()),
    ],
)
def test_agents_within_a_limit(limit: set[str] | None, agent_ids: list[str] | None, both: set[str] | None) -> None:
    assert within(None if limit is None else frozenset(limit), agent_ids) == both


def test_a_personal_key_reaches_the_agents_of_its_person(memories: list[Memory]) -> None:
    person = person_with("kana", "yuno")
    options = {"name": "laptop", "scopes": [Scope.READ], "person": person, "is_personal": True}
    _key, new = issue_key(**options, by=BY, now=datetime.now(UTC))  # type: ignore[arg-type]
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {new.text}")

    def status(agent_id: str) -> int:
        return int(client.get("/api/v1/memories", {"agent_id": agent_id, "user_id": "hiroki"}).status_code)

    assert (status("kana"), status("yuno")) == (200, 200)
    AgentLimit.objects.update(agent_ids=["kana"])
    assert (status("kana"), status("yuno")) == (200, 403)
    ApiKey.objects.update(agent_ids=["yuno"])
    assert (status("kana"), status("yuno")) == (403, 403)


def test_an_order_is_upheld_for_the_agents_of_its_person(memories: list[Memory]) -> None:
    person = person_with("kana")
    by = curator(person.pk, "rin")

    def ordered(memory: Memory | None) -> Job:
        actor_id = memory.actor_id if memory else None
        key = str(uuid4())
        return Job.objects.get(pk=enqueue("summarize", actor_id=actor_id, key=key, order=order_of(by)))

    jobs = [ordered(memory) for memory in (*memories, None)]
    claimed = [claim(Offer(job.pk, "summarize"), job_kind("summarize"), worker=uuid4()) for job in jobs]
    own = caller_of(claimed[0])  # type: ignore[arg-type]
    assert own is not None and own.agent_ids == KANA
    for job in claimed[1:]:
        with pytest.raises(OrderLapsed, match="account"):
            caller_of(job)  # type: ignore[arg-type]
    AgentLimit.objects.all().delete()
    assert all(caller_of(job) for job in claimed)  # type: ignore[arg-type]


def test_an_order_of_a_personal_key_is_upheld_for_the_agents_of_its_person(memories: list[Memory]) -> None:
    person = person_with("kana", "yuno")
    options = {"name": "laptop", "scopes": [Scope.WRITE], "person": person, "is_personal": True}
    key, _new = issue_key(**options, by=BY, now=datetime.now(UTC))  # type: ignore[arg-type]
    claimed = []
    for actor_id in (memories[0].actor_id, memories[1].actor_id, None):
        job_id = enqueue("summarize", actor_id=actor_id, key=str(uuid4()), order=order_of(key.principal()))
        claimed.append(claim(Offer(job_id, "summarize"), job_kind("summarize"), worker=uuid4()))
    own, other, test_of_webhook = claimed
    AgentLimit.objects.update(agent_ids=["kana"])
    for job in (own, test_of_webhook):
        by = caller_of(job)  # type: ignore[arg-type]
        assert by is not None and by.agent_ids == KANA
    with pytest.raises(OrderLapsed, match="account"):
        caller_of(other)  # type: ignore[arg-type]
