"""Writes keep their position, in the scope of who wrote, before they are acknowledged (ADR 65).

What is read from a replica is tested with one, in tests/slow/test_replicas.py.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from memoryhub.auth.models import ApiKey
from memoryhub.auth.principals import generate_key
from memoryhub.db import replicas
from memoryhub.db.copy import copy_models
from memoryhub.db.limits import note_of_a_read
from memoryhub.db.positions import Position, with_position
from memoryhub.db.replicated.base import DatabaseWrapper
from memoryhub.tenancy.models import Agent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def routed(settings: Any) -> Iterator[None]:
    """Use the backend that routes, on the database of the tests."""
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, replica_urls=("postgresql://u@h/n",))
    plain, own = connections["default"], DatabaseWrapper(connections["default"].settings_dict, "default")
    connections["default"] = own
    try:
        with replicas.request():
            yield
    finally:
        own.close()
        connections["default"] = plain


def positions() -> dict[str, int]:
    return dict(Position.objects.values_list("scope", "position"))


def written() -> int:
    with connection.cursor() as cursor:
        cursor.execute(replicas.WRITTEN)
        return int(cursor.fetchone()[0])


def test_a_write_keeps_its_position_once_it_is_committed() -> None:
    before = written()
    Agent.objects.create(agent_id="kana")
    first = positions()[replicas.EVERYTHING]
    assert before < first
    with transaction.atomic():
        Agent.objects.create(agent_id="yuno")
        assert positions() == {replicas.EVERYTHING: first}
    second = positions()[replicas.EVERYTHING]
    assert first < second
    with pytest.raises(ValueError, match="no"), transaction.atomic():
        Agent.objects.create(agent_id="mei")
        raise ValueError("no")
    assert positions() == {replicas.EVERYTHING: second}, "what was rolled back has none"


def test_rows_that_are_copied_have_a_position_too() -> None:
    copy_models([Agent(agent_id="kana", created_at=timezone.now(), updated_at=timezone.now())])
    assert replicas.EVERYTHING in positions()


def test_reads_locks_and_notes_have_none() -> None:
    Agent.objects.create(agent_id="kana")
    before = positions()
    with transaction.atomic():
        assert Agent.objects.select_for_update().get().agent_id == "kana"
    with note_of_a_read():
        Agent.objects.update(name="Kana")
    replicas.expect_read(of_api=True)
    Agent.objects.update(name="Kana again")
    assert positions() == before


def test_a_key_reads_with_the_position_of_its_agent_and_of_everything() -> None:
    keys = {
        name: ApiKey.objects.create(name=name, prefix=new.prefix, digest=new.digest, scopes=["read"], agent_ids=agents)
        for name, agents in (("kana", ["kana"]), ("yuno", ["yuno"]), ("both", ["kana", "yuno"]), ("all", None))
        for new in [generate_key()]
    }
    common = positions()[replicas.EVERYTHING]
    replicas.identify("kana", None)
    Agent.objects.create(agent_id="kana")
    own = positions()["kana"]
    assert own > common
    found = {key.name: key.position for key in with_position(ApiKey.objects.all())}
    assert found == {"kana": own, "yuno": common, "both": own, "all": own}
    assert keys.keys() == found.keys()
    Position.objects.filter(scope=replicas.EVERYTHING).delete()  # as a crash does
    assert {key.position for key in with_position(ApiKey.objects.all())} == {None}


def test_a_read_after_a_crash_begins_the_positions_again() -> None:
    replicas.expect_read(of_api=True)
    replicas.identify("kana", None)
    assert replicas.replica() is None, "there is none in these settings"
    assert positions() == {}
