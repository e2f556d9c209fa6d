"""Statements name the actor of their rows, so that tables can be distributed by actor (ADR 42)."""

from typing import Final

import pytest
from django.db import connection, transaction
from rest_framework.test import APIClient

from conversations.models import Message
from memoryhub.importexport.foreign.models import Import
from memoryhub.tenancy.models import Actor
from strength.models import Memory, MemoryNumbers
from tests.factories.planting import plant
from tests.integration.test_tenants import CALLS, call
from tests.routing import Spanning, distributed_tables, recorded

pytestmark = pytest.mark.usefixtures("llm")

SPANNING: Final = {
    "memoryhub.auth.access.resolve": "An address has a bare id; one row of one table, by its key.",
    "memoryhub.auth.access.resolve_many": "A body has bare ids; one table, by their keys.",
    "strength.api.sleep.runs": "An address has a bare id: a sleep's, or that of a round of several users.",
    "conversations.actions.sessions.open_session": "A client may choose the id, which nobody else may have.",
    "conversations.actions.receipts.clear_excerpts": "What belongs to an agent is in the receipts of all its users.",
    "memoryhub.importexport.foreign.uploads.append_chunk": "The files that wait are limited per agent, over its users.",
    "conversations.actions.what_if.readable_users": "The users whose contexts a change of their agent may alter.",
    "memoryhub.auth.erasure._delete_keys": "Whether the erased user lives on with another agent; keys name no agent.",
}
"""Functions of the API with a statement that names no actor, and why. Do not add to it where a caller knows the actor."""


def test_calls_say_of_which_actor(client: APIClient) -> None:
    with recorded() as audit:
        planted = plant(client, agent_id="kana", user_id="hiroki")
        for route, method in CALLS:
            # Each call finds the rows as they were planted. Within `atomic` calls of the model would be recorded elsewhere.
            before = transaction.savepoint()
            call(client, route, method, planted)
            transaction.savepoint_rollback(before)
    assert audit.seen >= 1000
    spanning = {each.caller: statement for each, statement in audit.spanning.items()}
    assert {caller: text for caller, text in spanning.items() if caller not in SPANNING} == {}
    assert set(SPANNING) == set(spanning), "Take out of the list what does not span actors any more."


def test_tables_are_found() -> None:
    tables = distributed_tables()
    assert len(tables) >= 35
    assert tables[Memory._meta.db_table] == "actor_id"
    assert tables[Actor._meta.db_table] == "id"
    ground = {"memoryhub_job", "memoryhub_agent", "strength_memorychange"}
    assert not ground & set(tables)


BOTH = "SELECT 1 FROM strength_memory AS memory JOIN strength_memorynumbers AS numbers ON "
OTHER = "6a347d89-5ab1-54dd-a5bc-9fee82dfc533"


@pytest.mark.parametrize(
    ("statement", "loose"),
    [
        ("SELECT 1 FROM strength_memory WHERE actor_id = %s", set()),
        ("SELECT 1 FROM strength_memory WHERE actor_id = ANY(%s::uuid[])", set()),
        ("SELECT 1 FROM strength_memory WHERE id = %s", {"strength_memory"}),
        (f"SELECT 1 FROM strength_memory WHERE actor_id = %s OR id = '{OTHER}'", {"strength_memory"}),
        ("UPDATE strength_memory SET pinned = true WHERE id = %s", {"strength_memory"}),
        ("SELECT 1 FROM memoryhub_actor WHERE id = %s", set()),
        ("SELECT 1 FROM memoryhub_actor WHERE agent_id = %s::text", {"memoryhub_actor"}),
        (f"{BOTH} numbers.memory_id = memory.id WHERE memory.actor_id = %s", {"strength_memorynumbers"}),
        (f"{BOTH} numbers.memory_id = memory.id AND numbers.actor_id = memory.actor_id WHERE memory.actor_id = %s", set()),
        ("WITH mine AS MATERIALIZED (SELECT actor_id, id FROM strength_memory WHERE actor_id = %s) SELECT 1 FROM mine"
         " JOIN strength_memorynumbers AS n ON n.actor_id = mine.actor_id AND n.memory_id = mine.id", set()),
        ("WITH mine AS MATERIALIZED (SELECT actor_id, id FROM strength_memory WHERE id = %s) SELECT 1 FROM mine"
         " JOIN strength_memorynumbers AS n ON n.actor_id = mine.actor_id AND n.memory_id = mine.id",
         {"strength_memory"}),
        ("SELECT 1 FROM memoryhub_agent WHERE agent_id = %s::text", set()),
    ],
    ids=["one", "some", "bare-id", "or", "update", "actor", "agent", "join-by-id", "join-by-actor", "cte", "loose-cte",
         "ground"],
)  # fmt: skip
def test_statement_without_an_actor_is_named(client: APIClient, statement: str, loose: set[str]) -> None:
    values = [[OTHER]] if "ANY" in statement else [OTHER]
    with recorded() as audit, connection.cursor() as cursor:
        cursor.execute(statement, values)
    assert set(audit.spanning) == ({Spanning("tests", frozenset(loose))} if loose else set())


@pytest.fixture
def memory(client: APIClient) -> Memory:
    plant(client, agent_id="kana", user_id="hiroki")
    return Memory.objects.filter(pinned=True).get()


def test_rows_that_hang_together_are_read_changed_and_deleted_by_actor(memory: Memory) -> None:
    message = Message.objects.order_by("seq")[0]
    with recorded() as audit:
        assert MemoryNumbers.objects.get(actor_id=memory.actor_id, pk=memory.pk).memory == memory
        assert memory.numbers.memory_id == memory.pk
        assert [each.memory_id for each in memory.sources.all()] == [memory.pk]
        assert message.session.messages.count() == 2
        mine = Memory.objects.of([memory.actor_id]).with_numbers().filter(numbers__strength__gte=0)
        assert memory in mine
        memory.refresh_from_db()
        memory.tags = ["other"]
        memory.save()
        Import.objects.get(actor_id=memory.actor_id).delete()
        memory.delete()
    assert audit.seen >= 20
    assert not audit.spanning
    assert not Memory.objects.filter(tags=["other"]).exists()


def test_another_actors_row_is_not_followed(memory: Memory) -> None:
    """An id of another actor's row that got into a foreign key leads nowhere."""
    numbers = MemoryNumbers.objects.get(pk=memory.pk)
    numbers.actor_id = Actor.objects.exclude(pk=memory.actor_id)[0].pk
    with pytest.raises(Memory.DoesNotExist):
        numbers.memory  # noqa: B018
