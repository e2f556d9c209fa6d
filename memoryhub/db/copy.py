"""Insert many rows by COPY: `bulk_create` prepares every value of every row by its field, five times as slowly.

In PostgreSQL's binary form: a vector of 384 numbers is then copied, neither written nor read as text.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from struct import pack
from typing import Any, Final

from django.contrib.postgres.fields import ArrayField
from django.db import DataError, connection
from django.db.models import Field, IntegerField, JSONField, Model
from pgvector import SparseVector
from pgvector.django import HalfVectorField, SparseVectorField
from psycopg.types import TypeInfo
from psycopg.types.json import Jsonb

from memoryhub.db import reach

ADAPTERS: Final[Mapping[type, Callable[[Any], Any]]] = {
    JSONField: Jsonb,
    HalfVectorField: lambda vector: vector.to_binary(),
    SparseVectorField: lambda vector: vector.to_binary(),
}
VECTORS: Final = (HalfVectorField, SparseVectorField)
BATCH: Final = 1_000
_LENGTH: Final = re.compile(r"\([\d, ]+\)|(?<=\[)\d+(?=])")


def copy_rows(model: type[Model], rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows, given as values by `attname`, all with the same columns; the database sets defaults of the others.

    A generator of rows runs while the server stores those before; it must not use the connection. Values must have the
    columns' types: nothing converts them. Raises DataError, as an INSERT does, for a text with NUL or beyond its
    length, and for a number out of range.
    """
    remaining = iter(rows)
    if (first := next(remaining, None)) is None:
        return
    if reach.agents() is not None:  # PostgreSQL copies into no table with policies
        model._base_manager.bulk_create([model(**row) for row in chain([first], remaining)], BATCH)
        return
    statement, types, adapters = _copying(model, tuple(first))
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(statement) as copy:
        copy.set_types(types)
        for row in chain([first], remaining):
            values = [*row.values()]
            for index, adapt in adapters:
                if values[index] is not None:
                    values[index] = adapt(values[index])
            copy.write_row(values)


@cache
def _copying(
    model: type[Model], names: tuple[str, ...]
) -> tuple[str, list[str], list[tuple[int, Callable[[Any], Any]]]]:
    """Return the COPY statement, the PostgreSQL types of the columns, and adapters by column index."""
    fields_by_name, quoted = {field.attname: field for field in model._meta.concrete_fields}, connection.ops.quote_name
    fields = [fields_by_name[name] for name in names]
    columns = ", ".join(quoted(str(field.column)) for field in fields)
    # A vector is passed in its binary form, as bytes; psycopg does not know its type.
    types = [
        "bytea"
        if isinstance(field, VECTORS) or _is_vector_array(field)
        else _LENGTH.sub("", str(field.db_type(connection)))
        for field in fields
    ]
    adapters = [(index, adapt) for index, field in enumerate(fields) if (adapt := _adapter(field))]
    return f"COPY {quoted(model._meta.db_table)} ({columns}) FROM STDIN (FORMAT BINARY)", types, adapters


def _adapter(field: "Field[Any, Any]") -> Callable[[Any], Any] | None:
    if isinstance(field, IntegerField):
        low, high = connection.ops.integer_field_range(field.get_internal_type())
        return partial(_checked, low=low, high=high)
    if _is_vector_array(field):
        connection.ensure_connection()
        element = TypeInfo.fetch(connection.connection, "sparsevec")
        assert element is not None
        return partial(_binary_array, element_oid=element.oid)
    return next((adapt for kind, adapt in ADAPTERS.items() if isinstance(field, kind)), None)


def _is_vector_array(field: "Field[Any, Any]") -> bool:
    return isinstance(field, ArrayField) and isinstance(field.base_field, SparseVectorField)


def _binary_array(vectors: Sequence[SparseVector], *, element_oid: int) -> bytes:
    """Return PostgreSQL's binary format of an array of one dimension."""
    elements = [vector.to_binary() for vector in vectors]
    head = pack(">iiIii", 1, 0, element_oid, len(elements), 1)
    return head + b"".join(pack(">i", len(each)) + each for each in elements)


def _checked(number: int, *, low: int, high: int) -> int:
    """Raise DataError for a number out of range; COPY in binary form would cut off its upper bytes silently."""
    if not low <= number <= high:
        raise DataError(f"A whole number of this column lies between {low} and {high}.")
    return number


def copy_models(rows: Sequence[Model]) -> None:
    """Insert new instances of one model with all their columns, and mark them as stored."""
    if not rows:
        return
    columns = [field.attname for field in rows[0]._meta.concrete_fields if not field.generated]
    copy_rows(type(rows[0]), [{name: getattr(row, name) for name in columns} for row in rows])
    for row in rows:
        row._state.adding = False
