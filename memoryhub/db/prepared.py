"""Querysets compiled once: Django takes 1 to 2 ms to turn filters into SQL, and most requests use the same filters.

    ACTORS = PreparedQuery(lambda: Actor.objects.select_related("agent"))
    ACTORS.first(Q(id=key))

The SQL is cached by the shape of the condition: its lookups, connectors, and the values that are part of the SQL text
(None, True, False). All other values are bound at each call. A condition with a lookup that takes no bound value is
compiled each time, so that every condition returns the same rows as `filter`.

PostgreSQL keeps the statement prepared, too, for as long as the connection lives (`prepared_cursor`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import EmptyResultSet, FieldError
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Expression, Field, JSONField, Lookup, Model, Q, QuerySet
from django.db.models.base import ModelState
from django.db.models.constants import LOOKUP_SEP
from django.db.models.fields.related import ForeignObject
from django.db.models.query import FlatValuesListIterable, ModelIterable, ValuesListIterable

from memoryhub.db.cursors import prepared_cursor as prepared_cursor

Row = TypeVar("Row")
Stored = TypeVar("Stored", bound=Model)
Sql = tuple[str, tuple[Any, ...]]
Shape = tuple[Any, ...]
Values = dict[str | int, Any]

MAX_SHAPES: Final = 64
"""Cached statements of one query; clients choose the filters of a search, so there are many shapes."""

SCALARS: Final = (str, int, float, UUID, datetime, date)
COMPARISONS: Final = frozenset({"exact", "lt", "lte", "gt", "gte"})


class Param(Expression):
    """Placeholder of a value that is bound at each call."""

    def __init__(self, name: str | int, output_field: Any = None) -> None:
        super().__init__(output_field=output_field)
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Param) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def as_sql(self, compiler: Any, connection: Any) -> Sql:
        return "%s", (self,)


@ForeignObject.register_lookup
@Field.register_lookup
class AnyOf(Lookup):
    """`column = ANY(array)`: `__in` of a list that is bound as one value, of the column's type without its length."""

    lookup_name = "any_of"

    def as_sql(self, compiler: Any, connection: Any) -> Sql:
        column, of_column = self.process_lhs(compiler, connection)
        array, of_array = compiler.compile(self.rhs)
        kind = self.lhs.output_field.db_type(connection).partition("(")[0]
        return f"{column} = ANY({array}::{kind}[])", (*of_column, *of_array)


class PreparedQuery(Generic[Row]):
    """A queryset that is filtered at each call; what it selects, joins and orders by is fixed.

    Without `server_prepared`, the server plans each call by its values.
    The first call raises TypeError for a queryset that prefetches, or yields dictionaries or named tuples.
    """

    def __init__(self, build: Callable[[], QuerySet[Any, Row]], *, server_prepared: bool = True) -> None:
        self._build = build  # called later, as models are not loaded at import
        self._server_prepared = server_prepared
        self._known = lru_cache(MAX_SHAPES)(self._compiled)
        self._lookup_of = lru_cache(MAX_SHAPES)(self._lookup)

    @cached_property
    def _base(self) -> QuerySet[Any, Row]:
        rows: Any = self._build()
        if rows._prefetch_related_lookups or rows._iterable_class not in READERS:
            raise TypeError(
                f"A prepared query of {rows.model.__name__} reads models or (flat) values_list, and joins with "
                "select_related; it cannot prefetch_related, nor yield dictionaries or named tuples."
            )
        return rows  # type: ignore[no-any-return]

    def rows(self, where: Q, /, *, limit: int | None = None, **params: Any) -> list[Row]:
        """Return the rows that meet a condition; `params` are the values of the queryset's own `Param`s."""
        try:
            statement, values = self._bound(where, params, limit)
        except EmptyResultSet:
            return []
        return statement.rows(values)

    def first(self, where: Q, /, **params: Any) -> Row | None:
        return next(iter(self.rows(where, limit=1, **params)), None)

    def sql(self, where: Q, /, **params: Any) -> Sql:
        """Return the statement, as a part of another one, and its values. Raises EmptyResultSet."""
        statement, values = self._bound(where, params, None)
        return statement.sql, values

    def _bound(self, where: Q, params: dict[str, Any], limit: int | None) -> tuple["Statement[Row]", tuple[Any, ...]]:
        values: Values = dict(params.items())
        shape = self._shape(where, values)
        statement = self._compiled(where, limit) if shape is None else self._known(shape, limit)
        bound = [values[param.name] if isinstance(param, Param) else param for param in statement.bound_params]
        return statement, tuple(bound)

    def _compiled(self, where: Q | Shape, limit: int | None) -> "Statement[Row]":
        rows = self._base.filter(where if isinstance(where, Q) else _condition(where))[:limit]
        return Statement(rows, server_prepared=self._server_prepared and not isinstance(where, Q))

    def _shape(self, where: Q, values: Values) -> Shape | None:
        """Return a condition with `Param`s for values, and add these to `values`; None if it cannot be cached."""
        children: list[Any] = []
        for child in where.children:
            shape = self._shape(child, values) if isinstance(child, Q) else self._leaf(child, values)
            if shape is None:
                return None
            children.append(shape)
        return (where.connector, where.negated, tuple(children))

    def _leaf(self, child: Any, values: Values) -> Shape | None:
        if not isinstance(child, tuple):
            return None
        path, value = child
        if value is None or isinstance(value, bool):
            return child
        field, lookup = self._lookup_of(path)
        number = len(values)
        if lookup == "in" and isinstance(value, list | tuple | set | frozenset):
            values[number] = list(value)
            return (f"{field}{LOOKUP_SEP}any_of", Param(number))
        if lookup in COMPARISONS and isinstance(value, SCALARS):
            values[number] = value
            return (path, Param(number))
        return None

    def _lookup(self, path: str) -> tuple[str, str]:
        """Return the field and the lookup of a condition's left side; no lookup where values cannot be bound."""
        names = path.split(LOOKUP_SEP)
        try:
            _, field, _, rest = self._base.query.names_to_path(names, self._base.model._meta)
        except FieldError:
            return path, ""
        if len(rest) > 1 or isinstance(field, JSONField | ArrayField):
            return path, ""
        return (path.rpartition(LOOKUP_SEP)[0], rest[0]) if rest else (path, "exact")


class Statement(Generic[Row]):
    """A compiled query: SQL, bound parameters, and a reader of rows. Independent of any call."""

    def __init__(self, rows: QuerySet[Any, Row], *, server_prepared: bool) -> None:
        """Compile a queryset. Raises EmptyResultSet."""
        compiler = rows.query.get_compiler(rows.db)
        self.using, self.server_prepared = rows.db, server_prepared
        self.sql, self.bound_params = compiler.as_sql()
        self._converters = compiler.get_converters([column for column, *_ in compiler.select]).items()
        self._read = READERS[rows._iterable_class](compiler)

    def rows(self, values: tuple[Any, ...]) -> list[Row]:
        connection = connections[self.using]  # this thread's
        with prepared_cursor(self.using) if self.server_prepared else connection.cursor() as cursor:
            cursor.execute(self.sql, values)
            rows: list[Any] = cursor.fetchall()
        if self._converters:
            rows = [self._converted(list(row), connection) for row in rows]
        return [self._read(row) for row in rows]

    def _converted(self, row: list[Any], connection: Any) -> list[Any]:
        for index, (converters, column) in self._converters:
            for convert in converters:
                row[index] = convert(row[index], column, connection)
        return row


def stored(
    model: type[Stored], values: Mapping[str, Any] | Iterable[tuple[str, Any]], *, using: str = DEFAULT_DB_ALIAS
) -> Stored:
    """Return a row as `Model.from_db` does, in a fifth of the time: nothing is checked or sent."""
    instance = model.__new__(model)
    state = instance.__dict__["_state"] = ModelState()
    state.adding, state.db = False, using
    instance.__dict__.update(values)
    return instance


def _model_reader(compiler: Any, kind: Any = None) -> Callable[[Sequence[Any]], Any]:
    """Return a function that builds a model instance from a row, with its joined instances.

    `kind` is the compiler's `klass_info`, which maps columns to models.
    """
    kind = kind or compiler.klass_info
    model, indexes = kind["model"], kind["select_fields"]
    names = [compiler.select[index][0].target.attname for index in indexes]
    own_columns = slice(indexes[0], indexes[-1] + 1)
    joined = [_joined_reader(compiler, related) for related in kind.get("related_klass_infos", ())]
    annotations = (compiler.annotation_col_map or {}).items() if kind is compiler.klass_info else ()

    def read(row: Sequence[Any]) -> Any:
        instance = stored(model, zip(names, row[own_columns], strict=True), using=compiler.using)
        for populate in joined:
            populate(row, instance)
        for name, index in annotations:
            setattr(instance, name, row[index])
        return instance

    return read


def _joined_reader(compiler: Any, kind: Any) -> Callable[[Sequence[Any], Any], None]:
    """Return a function that reads a joined instance from a row and sets the relation on both instances."""
    read = _model_reader(compiler, kind)
    key = next(index for index in kind["select_fields"] if compiler.select[index][0].target.primary_key)

    def populate(row: Sequence[Any], instance: Any) -> None:
        other = None if row[key] is None else read(row)
        kind["local_setter"](instance, other)
        if other is not None:
            kind["remote_setter"](other, instance)

    return populate


READERS: Final[Mapping[Any, Callable[[Any], Callable[[Sequence[Any]], Any]]]] = {
    ModelIterable: _model_reader,
    ValuesListIterable: lambda compiler: tuple,
    FlatValuesListIterable: lambda compiler: itemgetter(0),
}
"""Factories of row readers, by the queryset's iterable class."""


def _condition(shape: Shape) -> Q:
    connector, negated, children = shape
    leaves_and_branches = (child if len(child) == 2 else _condition(child) for child in children)
    return Q(*leaves_and_branches, _connector=connector, _negated=negated)
