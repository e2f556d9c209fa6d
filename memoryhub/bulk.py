"""Insert many rows by COPY: `bulk_create` prepares every value of every row by its field, five times as slowly."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from django.db import connection
from django.db.models import JSONField, Model
from pgvector.django import HalfVectorField, SparseVectorField
from psycopg.types.json import Jsonb

# A list is written in C, five times as fast as number by number; PostgreSQL reads the blanks as well.
ADAPTERS: Final[Mapping[type, Callable[[Any], Any]]] = {
    JSONField: Jsonb,
    HalfVectorField: lambda vector: str(vector.to_list()),
    SparseVectorField: lambda vector: vector.to_text(),
}


def copy_rows(model: type[Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, given by the names of their columns' attributes, all alike; the database fills in the others.

    Values are of the types that the fields' columns hold: nothing converts or checks them. Raises what an INSERT would.
    """
    if not rows:
        return
    by_name, quoted = {each.attname: each for each in model._meta.concrete_fields}, connection.ops.quote_name
    adapters = [
        (place, adapt)
        for place, name in enumerate(rows[0])
        for kind, adapt in ADAPTERS.items()
        if isinstance(by_name[name], kind)
    ]
    columns = ", ".join(quoted(str(by_name[name].column)) for name in rows[0])
    statement = f"COPY {quoted(model._meta.db_table)} ({columns}) FROM STDIN"
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(statement) as copy:
        for row in rows:
            values = [*row.values()]
            for place, adapt in adapters:
                if values[place] is not None:
                    values[place] = adapt(values[place])
            copy.write_row(values)


def copy_models(rows: Sequence[Model]) -> None:
    """Insert new instances of one model, every column with what the instance holds, and note that they are stored."""
    if not rows:
        return
    columns = [each.attname for each in rows[0]._meta.concrete_fields if not each.generated]
    copy_rows(type(rows[0]), [{name: getattr(row, name) for name in columns} for row in rows])
    for row in rows:
        row._state.adding = False
