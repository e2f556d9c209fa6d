"""Whole files whose rows hold what no export of ours would: refused with their line, never an error of the program."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.db import DatabaseError, models, transaction
from rest_framework.test import APIClient

from conversations.models import Session
from memoryhub.importexport.native.fields import Table, WrongValue, exported_tables
from tests.factories.planting import Planted, plant_first
from tests.integration.memoryhub.importexport.conftest import dumped, exported, objects, of_lines, run

pytestmark = pytest.mark.django_db
Save = Callable[[bytes], Path]


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


HOSTILE: dict[type[models.Field], list[Any]] = {
    models.DateTimeField: [
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "0001-01-01T00:00:00+00:00",
        "2026-01-01",
        "",
    ],
    models.IntegerField: [10**30, -(10**30), -1, 2**63 - 1, 1.5, True],
    models.FloatField: [10**400, "NaN", "Infinity", "-Infinity", 1e308, True],
    models.JSONField: [deep(90), {"a" * 100_000: 1}, 10**300, None],
    models.UUIDField: ["x", "00000000-0000-0000-0000-000000000000", "{}"],
    models.BooleanField: [1, "true", None],
    models.BinaryField: ["*", "AA=", ""],
    models.CharField: ["x" * 1_000_000, "", None, 7],
    models.TextField: ["", None, 7],
    models.DurationField: [10**30, "1"],
    models.DecimalField: ["NaN", "Infinity", "1e999", "-1"],
}


@pytest.fixture
def planted(client: APIClient) -> Planted:
    return plant_first()


def columns() -> list[tuple[str, str, list[Any]]]:
    """Return two columns of each type, of different tables, with what they are given."""
    found = []
    for kind, values in HOSTILE.items():
        of_kind = {
            table.name: (table.name, name, values)
            for table in exported_tables()
            for field in table.fields
            for name in [field.attname]
            if isinstance(field, kind)
        }
        found += list(of_kind.values())[:2]
    return found


def test_no_value_of_a_column_breaks_an_import(planted: Planted) -> None:
    """Each is refused by its column, or by the database, or comes in and can be exported again."""
    tables = {table.name: table for table in exported_tables()}
    rows = {line["table"]: line["row"] for line in objects(exported("kana", "hiroki")) if "table" in line}
    broke: list[str] = []
    for name, column, values in columns():
        for value in values:
            try:
                _come_and_go(tables[name], {**rows[name], column: value}, planted.actor_id)
            except (WrongValue, DatabaseError):
                continue
            except Exception as error:
                broke.append(f"{name}.{column} = {str(value)[:40]}: {type(error).__name__}: {str(error)[:90]}")
    assert broke == []


def _come_and_go(table: Table, row: dict[str, Any], actor_id: Any) -> None:
    instance = table.read(row, actor_id)
    with transaction.atomic():
        table.rows.filter(pk=instance.pk).delete()
        table.model._base_manager.bulk_create([instance])
        for values in table.rows.filter(pk=instance.pk).values_list(*table.codecs):
            dumped(table.encode_row(values))
        transaction.set_rollback(True)


@pytest.mark.parametrize(("levels", "why"), [(90, None), (120, "nested too deep")])
def test_deep_values_come_in_under_another_name_or_are_refused(
    planted: Planted, saved: Save, levels: int, why: str | None
) -> None:
    lines = objects(exported("kana", "hiroki"))
    place = next(place for place, line in enumerate(lines) if line.get("table") == "conversations_session")
    lines[place]["row"]["metadata"] = {"deep": deep(levels)}
    file = saved(of_lines(lines))
    if why is None:
        run("import", file, "--agent", "other")
        assert Session.objects.filter(actor__agent_id="other", metadata={"deep": deep(levels)}).exists()
        return
    with pytest.raises(CommandError, match=rf"Line {place + 1}: {why}"):
        run("import", file, "--agent", "other")
