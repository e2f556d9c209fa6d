"""Insert many rows by COPY: `bulk_create` prepares every value of every row by its field, five times as slowly."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from django.db import connection
from django.db.models import JSONField, Model
from pgvector import HalfVector, SparseVector
from psycopg.types.json import Jsonb

AS_TEXT: Final[Mapping[type, Callable[[Any], str]]] = {
    HalfVector: HalfVector.to_text,
    SparseVector: SparseVector.to_text,
}


def copy_rows(model: type[Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, given by the names of their columns' attributes, all alike; the database fills in the others.

    Values are of the types that the fields' columns hold: nothing converts or checks them. Raises what an INSERT would.
    """
    if not rows:
        return
    by_name, quoted = {each.attname: each for each in model._meta.concrete_fields}, connection.ops.quote_name
    in_json = {name for name in rows[0] if isinstance(by_name[name], JSONField)}
    columns = ", ".join(quoted(str(by_name[name].column)) for name in rows[0])
    statement = f"COPY {quoted(model._meta.db_table)} ({columns}) FROM STDIN"
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row([_adapted(value, name in in_json) for name, value in row.items()])


def _adapted(value: Any, is_json: bool) -> Any:
    if is_json:
        return None if value is None else Jsonb(value)
    as_text = AS_TEXT.get(type(value))
    return as_text(value) if as_text else value
