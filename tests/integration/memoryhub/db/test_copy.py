"""Rows that are inserted by COPY are those that were given, whatever their columns hold."""

from datetime import UTC, date, datetime

import pytest
from django.apps import apps
from django.db import DataError, connection, transaction
from pgvector import HalfVector, SparseVector

from conversations.models import Message, Session
from memoryhub.db.copy import _copying, copy_models, copy_rows
from memoryhub.embeddings.spaces import active_space
from memoryhub.ids import new_id
from memoryhub.search.bm25 import DIMENSION
from memoryhub.tenancy.models import Actor, Agent
from strength.models import Memory, MemoryIndex

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 5, 1, 12, 30, 15, 123456, tzinfo=UTC)


def test_every_column_of_every_table_has_a_type_that_psycopg_knows() -> None:
    for model in apps.get_models():
        names = tuple(each.attname for each in model._meta.concrete_fields if not each.generated)
        for kind in _copying(model, names)[1]:
            assert connection.connection.adapters.types.get_oid(kind), (model, kind)


def test_rows_are_stored_as_they_were_given() -> None:
    actor = Actor.objects.create(id=new_id(), agent=Agent.objects.create(agent_id="one"), user_id="u")
    memory = Memory(
        actor=actor, content="読む\t\\N\n", content_digest=bytes(range(32)), tags=["a,b", '"', "日本"], created_at=NOW,
        learnings={"x": ["ü", None, 1.5]}, said_on=date(2026, 4, 1), valid_to=None, version=70_000, updated_at=NOW,
    )  # fmt: skip
    copy_models([memory])
    stored = Memory.objects.get(pk=memory.pk)
    for field in Memory._meta.concrete_fields:
        given, found = getattr(memory, field.attname), getattr(stored, field.attname)
        assert (bytes(found) if isinstance(found, memoryview) else found) == given, field.name

    space = active_space()
    vector = [0.25, -1.0, 6e-8] + [0.0] * (space.dimension - 3)
    row = {
        "actor_id": actor.pk,
        "memory_id": memory.pk,
        "space_id": space.pk,
        "vector": HalfVector(vector),
        "words": SparseVector({0: 0.5, DIMENSION - 1: 0.75}, DIMENSION),
        "passages": [SparseVector({3: 0.5}, DIMENSION), SparseVector({}, DIMENSION)],
        "length": 7,
        "words_version": 3,
        **MemoryIndex.copied_fields(memory),
    }
    copy_rows(MemoryIndex, [row])
    index = MemoryIndex.objects.get(memory_id=memory.pk)
    assert index.vector is not None
    assert index.words is not None
    assert (index.vector[:2], index.length) == ([0.25, -1.0], 7)
    assert index.vector[2] == pytest.approx(6e-8, rel=0.1)
    assert [each.to_text() for each in index.passages or ()] == [each.to_text() for each in row["passages"]]
    assert (index.words.indices(), index.words.values()) == ([0, DIMENSION - 1], [0.5, 0.75])


def test_rows_may_be_made_as_they_are_copied_and_there_may_be_none() -> None:
    actor = Actor.objects.create(id=new_id(), agent=Agent.objects.create(agent_id="one"), user_id="u")
    keys = [new_id() for _ in range(3)]

    copy_rows(
        Session,
        (
            {
                "id": key,
                "actor_id": actor.pk,
                "channel": "web",
                "title": "",
                "metadata": {},
                "message_count": 0,
                "authors": [],
            }
            for key in keys
        ),
    )
    copy_rows(Session, iter(()))

    assert set(Session.objects.values_list("id", flat=True)) == set(keys)


@pytest.mark.parametrize(("column", "number"), [("version", 2**40), ("version", -1), ("seq", 2**31)])
def test_a_number_that_the_column_cannot_hold_is_refused_and_not_cut_off(column: str, number: int) -> None:
    actor = Actor.objects.create(id=new_id(), agent=Agent.objects.create(agent_id="one"), user_id="u")
    session = Session.objects.create(id=new_id(), actor=actor, channel="web", started_at=NOW)
    said = Message(actor=actor, session=session, seq=1, role="user", content="Hello", created_at=NOW)
    known = Memory(actor=actor, content="Tea", content_digest=bytes(32), created_at=NOW, updated_at=NOW)
    row = said if column == "seq" else known
    setattr(row, column, number)

    with pytest.raises(DataError, match="lies between"), transaction.atomic():
        copy_models([row])

    assert not type(row)._default_manager.exists()
