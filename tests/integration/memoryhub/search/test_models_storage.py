"""Vectors are stored in the rows on every version of PostgreSQL; before 16, by a statement of its own."""

import pytest
from django.apps import apps
from django.db import connection

from memoryhub.search import models
from strength.models import MemoryIndex

pytestmark = pytest.mark.django_db
COLUMNS = ("vector", "words", "passages")


def storage() -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT attname, attstorage::text FROM pg_attribute WHERE attrelid = %s::regclass AND attname = ANY(%s)",
            [MemoryIndex._meta.db_table, list(COLUMNS)],
        )
        return dict(cursor.fetchall())


def test_migrations_store_vectors_inline() -> None:
    assert storage() == dict.fromkeys(COLUMNS, "m")


def test_a_server_that_takes_no_storage_with_the_type_gets_it_after_the_migrations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(models, "STORAGE_SINCE", 10**9)
    assert MemoryIndex._meta.get_field("words").db_type(connection).startswith("sparsevec(")
    assert "STORAGE" not in MemoryIndex._meta.get_field("vector").db_type(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {MemoryIndex._meta.db_table} ALTER COLUMN words SET STORAGE EXTENDED")
    assert storage()["words"] == "x"
    models.store_inline(apps.get_app_config("strength"))
    assert storage() == dict.fromkeys(COLUMNS, "m")
