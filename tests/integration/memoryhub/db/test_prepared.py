"""Querysets compiled once: every condition finds what `filter` finds, whichever values come next."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DataError, NotSupportedError, connection, transaction
from django.db.models import F, Q
from django.test.utils import CaptureQueriesContext

from memoryhub.db.prepared import PreparedQuery, prepared_cursor
from memoryhub.env import read_environment
from memoryhub.ids import new_id
from memoryhub.runtime.database import database_settings
from memoryhub.tenancy.models import Actor, Agent
from strength.models import Memory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def memories() -> list[Memory]:
    agents = [Agent.objects.create(agent_id=name) for name in ("one", "two")]
    actors = [Actor.objects.create(id=new_id(), agent=agent, user_id="u") for agent in agents]
    return Memory.objects.bulk_create(
        Memory(
            actor=actors[number % 2], content=f"text {number}", content_digest=new_id().bytes, namespace=f"/{number % 3}/",
            pinned=number % 4 == 0, valid_to=NOW + timedelta(days=number - 6) if number % 2 else None,
            tags=["even"] if number % 2 == 0 else [], metadata={"n": number}, version=number + 1, created_at=NOW,
        )
        for number in range(12)
    )  # fmt: skip


@pytest.mark.parametrize(
    "written", ["0001-01-01T00:00:00Z", "2026-05-01T12:30:15.000001+09:00", "9999-12-31T23:59:59.999999Z"]
)
def test_moments_are_read_as_django_reads_them(written: str) -> None:
    found = []
    for cursor in (connection.cursor(), prepared_cursor()):
        with cursor:
            cursor.execute("SELECT %s::timestamptz, NULL::timestamptz", [written])
            found.append(cursor.fetchone())

    assert found[0] == found[1] == (datetime.fromisoformat(written), None)
    assert found[0][0].tzinfo is found[1][0].tzinfo is UTC


def conditions(memories: list[Memory], step: int) -> dict[str, Q]:
    """Return a condition of each kind; `step` changes its values alone."""
    some = [each.pk for each in memories[step : step + 4]]
    at, one = NOW + timedelta(days=step), memories[step]
    return {
        "no condition": Q(),
        "by key": Q(pk=one.pk),
        "by a list": Q(id__in=some),
        "by a set of another table's": Q(actor_id__in={one.actor_id}),
        "by nothing": Q(id__in=[]),
        "by an object": Q(actor=one.actor),
        "of another table": Q(actor__agent_id="one" if step % 2 else "two"),
        "none": Q(valid_to=None),
        "not none": Q(valid_to__isnull=False),
        "flag": Q(pinned=step % 2 == 0),
        "negated": ~Q(id__in=some) & ~Q(valid_to__lt=at),
        "joined": (Q(valid_to=None) | Q(valid_to__gt=at)) & (Q(pinned=True) | ~Q(version__gte=step)),
        "beginning": Q(namespace__startswith=f"/{step % 3}"),
        "letters of a pattern": Q(namespace__startswith="/%"),
        "array": Q(tags__contains=["even"]),
        "object in JSON": Q(metadata__contains={"n": step}),
        "key in JSON": Q(metadata__n=step),
        "part of a date": Q(created_at__year=2026 + step),
    }


@pytest.mark.parametrize("kind", list(conditions([Memory(actor=Actor())] * 12, 0)))
def test_condition_finds_what_filter_finds(memories: list[Memory], kind: str) -> None:
    prepared = PreparedQuery(lambda: Memory.objects.order_by("id").select_related("actor__agent"))

    for step in (0, 1, 5):
        where = conditions(memories, step)[kind]
        expected = list(Memory.objects.order_by("id").select_related("actor").filter(where))
        with CaptureQueriesContext(connection) as sent:
            found = prepared.rows(where)
            assert [each.actor.agent.pk for each in found] == [each.actor.agent_id for each in expected]
        assert found == expected
        assert prepared.rows(where, limit=2) == expected[:2]
        assert prepared.first(where) == (expected[0] if expected else None)
        assert len(sent) <= 1, "what is joined is loaded at once"


def test_rows_are_read_as_django_reads_them(memories: list[Memory]) -> None:
    """Attribute by attribute: joined rows, those that are missing, and annotations included."""
    Memory.objects.filter(pk__in=[each.pk for each in memories[:5]]).update(superseded_by=memories[7])
    joined = Memory.objects.order_by("id").select_related("actor__agent", "superseded_by")
    expected = joined.annotate(half=F("version") / 2.0)
    prepared = PreparedQuery(lambda: joined.annotate(half=F("version") / 2.0))

    for found, row in zip(prepared.rows(Q()), expected, strict=True):
        assert (found.superseded_by is None) == (row.superseded_by is None)
        of_found = (found, found.actor, found.actor.agent, found.superseded_by or found)
        of_row = (row, row.actor, row.actor.agent, row.superseded_by or row)
        for one, other in zip(of_found, of_row, strict=True):
            assert {**vars(one), "_state": None} == {**vars(other), "_state": None}
            assert (one._state.adding, one._state.db) == (other._state.adding, other._state.db)
            assert one._state.fields_cache.keys() == other._state.fields_cache.keys()
    assert PreparedQuery(lambda: expected.values_list("id", "tags", "half")).rows(Q()) == [
        (each.pk, each.tags, each.half) for each in expected
    ]


@pytest.mark.parametrize(
    "rows",
    [
        Memory.objects.prefetch_related("sources"),
        Memory.objects.values("id"),
        Memory.objects.values_list("id", named=True),
    ],
    ids=["prefetching", "dictionaries", "named tuples"],
)
def test_a_queryset_that_is_read_otherwise_is_refused(rows: Any) -> None:
    prepared = PreparedQuery(lambda: rows)

    with pytest.raises(TypeError, match=r"Memory .*prefetch_related"):
        prepared.rows(Q(pk=new_id()))


def test_compiles_once_for_conditions_of_one_shape(memories: list[Memory]) -> None:
    compiled: list[Any] = []

    class Counting(PreparedQuery[Memory]):
        def _compiled(self, where: Any, most: Any) -> Any:
            compiled.append(where)
            return super()._compiled(where, most)

    prepared = Counting(lambda: Memory.objects.order_by("id"))

    for each in memories:
        rows = prepared.rows(Q(pk=each.pk) & (Q(valid_to=None) | Q(valid_to__lte=each.valid_to or NOW)))
        assert rows == [each]
    assert len(compiled) == 1
    prepared.rows(Q(pk=new_id()))
    assert len(compiled) == 2


def test_values_of_parallel_calls_stay_apart(memories: list[Memory]) -> None:
    prepared = PreparedQuery(lambda: Memory.objects.order_by("id").values_list("id", flat=True))
    keys = [each.pk for each in memories] * 20

    with ThreadPoolExecutor(8) as threads:
        bound = list(threads.map(lambda key: prepared.sql(Q(pk=key))[1], keys))

    assert bound == [(key,) for key in keys]


def kept_by_the_server() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        return [statement for (statement,) in cursor.fetchall()]


@pytest.fixture
def fresh_connection(transactional_db: None) -> Iterator[None]:
    """A connection that keeps no statements yet, and that nothing is left in."""
    connection.close()
    yield
    connection.close()


def test_the_server_keeps_a_statement_by_its_shape(fresh_connection: None) -> None:
    prepared = PreparedQuery(lambda: Actor.objects.order_by("id"))
    for number in range(3):
        assert prepared.rows(Q(id__in=[new_id()] * (number + 1))) == []
    assert len(kept_by_the_server()) == 1

    assert PreparedQuery(lambda: Actor.objects.order_by("-id"), server_prepared=False).rows(Q(pk=new_id())) == []
    assert len(kept_by_the_server()) == 1


def test_values_of_djangos_statements_are_not_kept(fresh_connection: None) -> None:
    assert PreparedQuery(lambda: Actor.objects.order_by("id")).rows(Q()) == []
    assert not Actor.objects.filter(user_id="somebody").exists()
    manager = connection.connection._prepared
    assert b"somebody" not in b"".join(text for text, _types in (*manager._counts, *manager._names))


def test_the_server_keeps_nothing_where_the_url_says_so(
    fresh_connection: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = read_environment({"DATABASE_URL": "postgresql://u:p@h/n?prepare_threshold=none"})
    options: Any = database_settings(environment)["OPTIONS"]
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "prepare_threshold", options["prepare_threshold"])
    assert PreparedQuery(lambda: Actor.objects.order_by("id")).rows(Q(pk=new_id())) == []
    assert kept_by_the_server() == []


def test_statements_are_found_again_after_an_error(fresh_connection: None) -> None:
    agent = Agent.objects.create(agent_id="one")
    actor = Actor.objects.create(id=new_id(), agent=agent, user_id="u")
    prepared = PreparedQuery(lambda: Actor.objects.order_by("id"))
    assert prepared.rows(Q(pk=actor.pk)) == [actor]
    with pytest.raises(DataError), transaction.atomic(), prepared_cursor() as cursor:
        cursor.execute("SELECT 1 / %s::int", [0])
    assert prepared.rows(Q(pk=actor.pk)) == [actor]


@pytest.mark.parametrize("inside", [False, True])
def test_statements_are_found_again_after_a_column_has_another_type(fresh_connection: None, inside: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE shelf (name varchar(20))")
        cursor.execute("INSERT INTO shelf VALUES ('tea')")
    read = names_of_shelf
    assert [read() for _ in range(2)] == ["tea", "tea"]
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE shelf ALTER COLUMN name TYPE varchar(50)")

    if inside:  # nothing can be repeated there; the end of the transaction forgets the statement
        with pytest.raises(NotSupportedError), transaction.atomic():
            read()
    assert [read() for _ in range(2)] == ["tea", "tea"]


def names_of_shelf() -> str:
    with prepared_cursor() as cursor:
        cursor.execute("SELECT * FROM shelf")
        return str(cursor.fetchone()[0])


def test_keys_in_a_list_may_be_texts(memories: list[Memory]) -> None:
    prepared = PreparedQuery(lambda: Memory.objects.order_by("id"))
    assert prepared.rows(Q(id__in=[str(each.pk) for each in memories[:2]])) == memories[:2]
