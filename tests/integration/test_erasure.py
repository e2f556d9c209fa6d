"""One call removes a user everywhere: nothing in any table of the database names the user or repeats a word (SPEC M11)."""

from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from conversations.models import Receipt, Session
from memoryhub.api.idempotency import IdempotencyRecord
from memoryhub.auth.erasure import actor_models, vacuum_tables
from memoryhub.auth.models import ApiKey, AuditEntry
from memoryhub.auth.principals import Scope
from memoryhub.jobs.models import Job
from memoryhub.search.models import FrequentTerms
from memoryhub.tenancy.models import Actor
from strength.models import Memory, PerspectiveStrength, ReviewComment, ReviewPlan, ReviewRule
from tests.conftest import client_with_key
from tests.database import everywhere, prepared
from tests.factories.planting import API, Planted, made, plant

pytestmark = pytest.mark.usefixtures("llm")

USER = "hiroki-0d5c2f"
OTHER = "aoi-77b1e9"


@pytest.fixture
def erased_and_kept(db: None) -> tuple[Planted, Planted]:
    """Return two users of one agent, each with a row of every sort."""

    def make() -> tuple[Planted, Planted]:
        client = client_with_key(name="planter")
        return lived_in(client, "kana", USER), lived_in(client, "kana-too", OTHER)

    return prepared("erased and kept", make)


def lived_in(client: APIClient, agent_id: str, user_id: str) -> Planted:
    planted = plant(client, agent_id=agent_id, user_id=user_id)
    mark, names = planted.user_mark, planted.names
    own_key = client_with_key(name=f"phone of {user_id}", agent_ids=[agent_id], user_id=user_id)
    client_with_key(name="any agent", user_id=user_id)
    made(
        own_key.post(
            f"{API}/memories", {**names, "content": f"{mark} by the own key"}, headers={"Idempotency-Key": mark}
        )
    )
    for number, (path, body) in enumerate(
        (
            ("sessions", {**names, "title": f"{mark} once"}),
            ("context", {**names, "message": f"{mark} in a recorded answer"}),
            ("memories/search", {**names, "query": f"{mark} searched"}),
            ("memories/retrieve", {**names, "query": f"{mark} retrieved"}),
        )
    ):
        made(client.post(f"{API}/{path}", body, headers={"Idempotency-Key": f"{mark} {number}"}))
    memory_id = planted.ids["memory_id"]
    made(client.post(f"{API}/memories/{memory_id}/unpin", {"reason": f"{mark} unpinned"}))
    with connection.cursor() as cursor:  # the feed of changes is written when a transaction commits
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
    FrequentTerms.objects.create(actor_id=planted.actor_id, terms=[1], counts=[100])
    admin, _ = User.objects.get_or_create(username="admin")
    ReviewRule.objects.create(
        actor_id=planted.actor_id, verb="approve", digest=b"0" * 32, reasons=["untrusted_writer"],
        memory_id=planted.ids["pending_id"], kind="fact", source="manual", person=admin, who_name="admin",
    )  # fmt: skip
    of_pending = {"actor_id": planted.actor_id, "memory_id": planted.ids["pending_id"]}
    ReviewPlan.objects.create(**of_pending, assigned_to=admin)
    ReviewComment.objects.create(**of_pending, author=admin, author_name="admin", text="Ask first.")
    for model, pk in ((Memory, memory_id), (Session, planted.ids["session_id"]), (Actor, planted.actor_id)):
        LogEntry.objects.create(
            user=admin,
            content_type=ContentType.objects.get_for_model(model),
            object_id=pk,
            object_repr=f"{mark} row",
            action_flag=CHANGE,
            change_message=f"{mark} edited",
        )
    return planted


def needles(planted: Planted) -> list[str]:
    ids = [planted.ids[name] for name in ("session_id", "memory_id", "pending_id", "revision_id", "receipt_id")]
    return [planted.user_id, planted.actor_id, planted.user_mark, *ids]


def rows_of(planted: Planted) -> dict[str, list[Any]]:
    return {
        model._meta.db_table: list(
            model._default_manager.filter(actor_id=planted.actor_id).order_by("pk").values_list()
        )
        for model in actor_models()
    }


def erase(client: APIClient, planted: Planted) -> Any:
    return client.delete(f"{API}/actors?agent_id={planted.agent_id}&user_id={planted.user_id}")


def test_search_of_the_database_finds_what_is_there(
    client: APIClient, erased_and_kept: tuple[Planted, Planted]
) -> None:
    """The control: the search that later finds nothing finds texts, lists, JSON and ids now."""
    planted, _ = erased_and_kept
    columns = everywhere(planted.user_mark)
    assert {
        "strength_memory.content", "strength_memory.tags", "strength_memory.learnings", "conversations_message.blocks",
        "conversations_receipt.items", "memoryhub_idempotencyrecord.body", "memoryhub_idempotencyrecord.key",
        "django_admin_log.change_message", "strength_memoryrevision.after", "memoryhub_auditentry.reason", "memoryhub_actor.policy",
    } <= columns  # fmt: skip
    assert {"memoryhub_apikey.user_id", "memoryhub_auditentry.user_id"} <= everywhere(planted.user_id)
    assert "strength_memory.actor_id" in everywhere(planted.actor_id)
    assert "conversations_receipt.source_ids" in everywhere(planted.ids["memory_id"])


def test_every_table_of_an_actor_is_tested(client: APIClient, erased_and_kept: tuple[Planted, Planted]) -> None:
    planted, _ = erased_and_kept
    empty = [table for table, rows in rows_of(planted).items() if not rows]
    assert not empty, f"lived_in() makes no row of {empty}; their erasure would not be tested."


def test_erasure_leaves_nothing_of_the_user(client: APIClient, erased_and_kept: tuple[Planted, Planted]) -> None:
    planted, kept = erased_and_kept
    before, expected = rows_of(kept), {table: len(rows) for table, rows in rows_of(planted).items()}
    nobodys = AuditEntry.objects.filter(agent_id="kana", user_id="")
    others = nobodys.count() + 1  # and the erasure's own
    agents_own = client.get(f"{API}/memories?agent_id=kana").json()["results"]
    answer = erase(client, planted)
    assert answer.status_code == 200, answer.content
    counts, stay = answer.json()["erased"], answer.json()["anonymised"]
    assert set(stay) == {"memoryhub_auditentry", "memoryhub_ledgerentry", "strength_memorychange", "webhooks_event"}
    assert not set(stay) & set(counts)
    assert {table: {**counts, **stay}.get(table) for table in expected} == expected
    assert counts["memoryhub_actor"] == 1
    assert counts["memoryhub_apikey"] == 2
    assert counts["django_admin_log"] == 3
    assert stay["memoryhub_auditentry"] == nobodys.count() - others > 0
    for needle in needles(planted):
        # The agent's feed says which memories are gone, by id, so that a client's copy of them can go too.
        assert everywhere(needle) <= {"strength_memorychange.memory_id", "webhooks_event.object_id"}, needle
    assert rows_of(kept) == before
    assert everywhere(kept.user_mark)
    assert ApiKey.objects.filter(user_id=OTHER).count() == 2
    assert LogEntry.objects.count() == 3
    assert client.get(f"{API}/memories?agent_id=kana").json()["results"] == agents_own
    assert planted.agent_mark in client.get(f"{API}/agents/kana").content.decode()


def test_audit_keeps_what_happened_without_the_user(
    client: APIClient, erased_and_kept: tuple[Planted, Planted]
) -> None:
    planted, _ = erased_and_kept
    entries = AuditEntry.objects.count()
    counts = erase(client, planted).json()
    assert AuditEntry.objects.count() == entries + 1
    own = AuditEntry.objects.filter(verb="erase").get()
    assert (own.agent_id, own.user_id, own.object_id) == ("kana", "", "")
    assert own.details == {name: counts[name] for name in ("erased", "anonymised")}


def test_answer_names_what_it_cannot_reach_and_orders_a_vacuum(
    client: APIClient, erased_and_kept: tuple[Planted, Planted]
) -> None:
    planted, _ = erased_and_kept
    address = f"{API}/actors?agent_id={planted.agent_id}&user_id={planted.user_id}&vacuum=true"
    answer = client.delete(address).json()
    assert answer["remains"] == ["exported_trees", "database_pages", "backups"]
    job = Job.objects.get(pk=answer["vacuum_job_id"])
    assert job.kind == "vacuum" and "conversations_message" in job.payload["tables"]


@pytest.mark.django_db(transaction=True)
def test_vacuum_is_of_known_tables_alone() -> None:
    with CaptureQueriesContext(connection) as queries:
        vacuum_tables(["conversations_message", 'x"; DROP TABLE conversations_message'])
    assert [each["sql"] for each in queries] == ['VACUUM "conversations_message"']


def test_erased_twice_or_unknown_is_404(client: APIClient, erased_and_kept: tuple[Planted, Planted]) -> None:
    planted, _ = erased_and_kept
    assert client.delete(f"{API}/actors?agent_id=kana&user_id=nobody").status_code == 404
    assert client.delete(f"{API}/actors?agent_id=nothing&user_id={USER}").status_code == 404
    assert erase(client, planted).status_code == 200
    assert erase(client, planted).status_code == 404


def test_an_agent_itself_is_not_erased(client: APIClient, erased_and_kept: tuple[Planted, Planted]) -> None:
    for query in ("agent_id=kana", "agent_id=kana&user_id="):
        assert client.delete(f"{API}/actors?{query}").status_code == 400
    assert Memory.objects.filter(actor__agent_id="kana", actor__user_id="").exists()


def test_an_owner_is_not_erased(client: APIClient) -> None:
    made(client.post(f"{API}/agents", {"agent_id": "tonari", "fixed_user_id": "tonari-owner"}))
    made(client.post(f"{API}/memories", {"agent_id": "tonari", "user_id": "somebody", "content": "of the owner"}))
    refused = client.delete(f"{API}/actors?agent_id=tonari&user_id=tonari-owner")
    assert (refused.status_code, refused.json()["code"]) == (409, "owner_cannot_be_erased")
    assert Memory.objects.count() == 1


def test_a_user_can_start_anew(client: APIClient, erased_and_kept: tuple[Planted, Planted]) -> None:
    planted, _ = erased_and_kept
    erase(client, planted)
    session = made(client.post(f"{API}/sessions", {**planted.names, "session_id": planted.ids["session_id"]}), 201)
    assert session["message_count"] == 0
    made(client.post(f"{API}/memories", {**planted.names, "content": "a new life"}), 201)
    found = made(client.post(f"{API}/memories/search", {**planted.names, "query": "a new life"}))
    assert [each["memory"]["content"] for each in found["results"]] == ["a new life"]
    policy = made(client.get(f"{API}/actors?agent_id=kana&user_id={USER}"))
    assert policy["policy"] == {}


def test_the_same_person_with_another_agent_stays(client: APIClient) -> None:
    """Two agents' users of one name are two actors: erasing one touches neither rows nor keys of the other."""
    here, there = lived_in(client, "kana", USER), plant(client, agent_id="yuno", user_id=USER)
    client_with_key(name="there", agent_ids=["yuno"], user_id=USER)
    client_with_key(name="both", agent_ids=["kana", "yuno"], user_id=USER)
    before = rows_of(there)
    erase(client, here)
    assert rows_of(there) == before
    keys = {key.name: key.agent_ids for key in ApiKey.objects.filter(user_id=USER)}
    assert keys == {"there": ["yuno"], "both": ["yuno"], "any agent": None}
    assert everywhere(here.user_mark) == set()


def test_erasing_touches_no_key_of_another_agent(client: APIClient) -> None:
    """A key that was given out for another agent's user of the same name, who has not come yet, stays."""
    here = lived_in(client, "kana", USER)
    client_with_key(name="not yet used", agent_ids=["yuno"], user_id=USER)
    erase(client_with_key(agent_ids=["kana"]), here)
    assert [key.name for key in ApiKey.objects.filter(user_id=USER)] == ["not yet used"]


def test_admin_log_of_other_things_stays(client: APIClient) -> None:
    """Some rows have numbers for keys, and so have accounts: equal numbers are not the same thing."""
    planted = lived_in(client, "kana", USER)
    number = PerspectiveStrength.objects.filter(actor_id=planted.actor_id).first().pk  # type: ignore[union-attr]
    admin = User.objects.get(username="admin")
    account = LogEntry.objects.create(
        user=admin,
        content_type=ContentType.objects.get_for_model(User),
        object_id=str(number),
        object_repr="an account",
        action_flag=CHANGE,
        change_message="password changed",
    )
    erase(client, planted)
    assert list(LogEntry.objects.all()) == [account]


def test_receipts_of_others_lose_a_deleted_text(client: APIClient) -> None:
    """A shared memory stands in other actors' receipts; deleting it takes its text out of them."""
    made(client.post(f"{API}/agents", {"agent_id": "reader"}))
    memory = made(
        client.post(
            f"{API}/memories", {"agent_id": "kana", "content": "quartzmark about tea", "scope_level": "universal"}
        )
    )
    made(client.post(f"{API}/context", {"agent_id": "reader", "user_id": "aoi", "message": "quartzmark about tea?"}))
    assert "conversations_receipt.items" in everywhere("quartzmark about tea")
    assert client.delete(f"{API}/memories/{memory['id']}").status_code == 204
    items = [item for receipt in Receipt.objects.all() for item in receipt.items]
    assert not [item for item in items if item["source_id"] == memory["id"] and "quartzmark" in item["excerpt"]]


def test_what_was_recorded_before_the_user_existed_goes_too(client: APIClient) -> None:
    """The answer to a read about a user without rows repeats the user's words; it must be found, or not be kept."""
    made(client.post(f"{API}/agents", {"agent_id": "kana"}))
    names = {"agent_id": "kana", "user_id": USER}
    for number, (path, body) in enumerate(
        (
            ("memories/search", {"query": "zincmark"}),
            ("memories/retrieve", {"query": "zincmark"}),
            ("context", {"message": "zincmark"}),
        )
    ):
        made(client.post(f"{API}/{path}", {**names, **body}, headers={"Idempotency-Key": f"early {number}"}))
    made(client.post(f"{API}/sessions", names))
    assert client.delete(f"{API}/actors?agent_id=kana&user_id={USER}").status_code == 200
    assert everywhere("zincmark") == set()
    assert everywhere(USER) == set()
    assert not IdempotencyRecord.objects.filter(actor=None).exists()


def test_erasure_needs_the_admin_scope_and_the_right_agent(
    client: APIClient, erased_and_kept: tuple[Planted, Planted]
) -> None:
    planted, _ = erased_and_kept
    for narrow in (
        client_with_key(scopes=[Scope.READ, Scope.WRITE]),
        client_with_key(agent_ids=["other"]),
        client_with_key(user_id="aoi"),
    ):
        assert erase(narrow, planted).status_code == 403
    assert Actor.objects.filter(id=planted.actor_id).exists()


def test_strings_of_rows_show_no_text(client: APIClient, erased_and_kept: tuple[Planted, Planted]) -> None:
    """`str()` reaches logs, the admin's history and error pages (SPEC M11)."""
    planted, _ = erased_and_kept
    actor = Actor.objects.get(id=planted.actor_id)
    rows = [actor, *AuditEntry.objects.filter(user_id=USER), *IdempotencyRecord.objects.all()]
    rows += [row for model in actor_models() for row in model._default_manager.filter(actor_id=planted.actor_id)]
    for row in rows:
        assert planted.user_mark not in str(row) and USER not in str(row), type(row)
        assert planted.user_mark not in repr(row) and USER not in repr(row), type(row)
