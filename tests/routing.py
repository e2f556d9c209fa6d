"""Which statements could run on the one node that holds an actor, were tables distributed by `actor_id` (ADR 42).

PostgreSQL itself takes each statement apart: in its plan, every scan of an actor's table must be tied to a given
actor, by a condition of its own or by joins on `actor_id`. What is not tied would be asked of every node.
"""

import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.apps import apps
from django.db import connection, models

from memoryhub.tenancy.models import Actor

ROOT: Final = Path(__file__).parent.parent
MACHINERY: Final = (
    "memoryhub/db/prepared.py",
    "strength/sql.py",
    "memoryhub/search/query.py",
    "memoryhub/api/views.py",
    "memoryhub/api/pagination.py",
)
"""Files that run statements for others: a statement is named by who asked for it."""

_NAME: Final = r'(?:"[^"]+"|\w+)'
_EQUAL: Final = re.compile(rf"^({_NAME})\.({_NAME}) = ({_NAME})\.({_NAME})$")
_GIVEN: Final = re.compile(rf"^({_NAME})\.({_NAME}) = (ANY \()?(.*)$", re.S)
_EXPLAINED: Final = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.I)
_NEXT: Final = re.compile(r";\s*(?=(?:SELECT|INSERT|UPDATE|DELETE|WITH)\b)")


@cache
def distributed_tables() -> Mapping[str, str]:
    """Return the tables that would be distributed, with the column that holds the actor.

    Tables whose rows may have no actor (jobs, the ledger, keys' calls, the feed) stay on one node.
    """
    tables = {Actor._meta.db_table: "id"}
    for model in apps.get_models():
        for each in model._meta.local_concrete_fields:
            is_owner = isinstance(each, models.ForeignKey) and each.related_model is Actor and not each.null
            if is_owner and model._meta.managed:  # views are read through their tables
                tables[model._meta.db_table] = "actor_id"
    return tables


@dataclass(frozen=True)
class Spanning:
    """A statement that is not tied to one actor: who asked for it, and the tables that it would look for everywhere."""

    caller: str
    tables: frozenset[str]


@dataclass
class Audit:
    """What was recorded: how many statements touched actors' tables, and which of them span actors."""

    seen: int = 0
    spanning: dict[Spanning, str] = field(default_factory=dict)

    def add(self, sql: str, params: Any) -> None:
        text = connection.ops.compose_sql(sql, params) if params is not None else sql
        for statement in _NEXT.split(text):
            if _EXPLAINED.match(statement) and any(table in statement for table in distributed_tables()):
                self.seen += 1
                if loose := untied(statement):
                    self.spanning.setdefault(Spanning(_caller(), frozenset(loose)), statement)


@contextmanager
def recorded() -> Iterator[Audit]:
    """Record the statements of this thread. COPY is not among them: it writes rows, which name their actor."""
    audit = Audit()

    def record(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if not many:
            audit.add(sql, params)
        return result

    with connection.execute_wrapper(record):
        yield audit


def untied(statement: str) -> set[str]:
    """Return the actors' tables that a statement reads or changes without saying of which actor."""
    with connection.connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) {statement}")
        (((entry,),),) = cursor.fetchall()
    return _Ties(entry["Plan"]).untied()


class _Ties:
    """The scans of a plan, joined into groups by equal actors; a group is tied where one of them is given."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.tables: dict[str, str] = {}
        self.group: dict[str, str] = {}
        self.given: set[str] = set()
        nodes = list(_nodes(plan))
        for node in nodes:
            self._scan(node)
        for node in nodes:
            for condition in _conditions(node):
                self._read(condition)

    def untied(self) -> set[str]:
        tied = {self._root(alias) for alias in self.given}
        return {table for alias, table in self.tables.items() if self._root(alias) not in tied}

    def _scan(self, node: dict[str, Any]) -> None:
        alias, table = node.get("Alias"), node.get("Relation Name")
        if alias is None or node["Node Type"] == "ModifyTable":
            return
        if table in distributed_tables():
            self.tables[alias] = table
        elif table is None:  # a CTE, a subquery, a function: what is read within is looked at by itself
            self.given.add(alias)

    def _read(self, condition: str) -> None:
        if equal := _EQUAL.match(condition):
            left, right = (self._actor_of(*each) for each in (equal.groups()[:2], equal.groups()[2:]))
            if left and right:
                self.group[self._root(left)] = self._root(right)
        elif given := _GIVEN.match(condition):
            alias = self._actor_of(given[1], given[2])
            if alias and not re.search(rf"\b({'|'.join(map(re.escape, self.tables))})\.", given[4]):
                self.given.add(alias)

    def _actor_of(self, alias: str, column: str) -> str | None:
        """Return the alias where the column holds its actor; any column of a CTE may."""
        alias, column = alias.strip('"'), column.strip('"')
        table = self.tables.get(alias)
        if table is None:
            return alias if alias in self.given else None
        return alias if column == distributed_tables()[table] else None

    def _root(self, alias: str) -> str:
        while self.group.get(alias, alias) != alias:
            alias = self.group[alias]
        return alias


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from _nodes(each)


def _conditions(node: dict[str, Any]) -> Iterator[str]:
    """Yield what must hold for every row, one comparison at a time."""
    if node["Node Type"] == "Bitmap Index Scan":  # may be one side of an OR; the heap's scan repeats it
        return
    for name, text in node.items():
        if name.endswith(("Cond", "Filter")) and isinstance(text, str):
            yield from _conjuncts(text)


def _conjuncts(text: str) -> Iterator[str]:
    text = text.strip()
    if text.startswith("(") and _closing(text) == len(text) - 1:
        yield from _conjuncts(text[1:-1])
        return
    depth, quoted, begin = 0, False, 0
    for place, sign in enumerate(text):
        quoted ^= sign == "'"
        depth += 0 if quoted else (sign == "(") - (sign == ")")
        if depth == 0 and not quoted and text.startswith(" OR ", place):
            return
        if depth == 0 and not quoted and text.startswith(" AND ", place):
            yield from _conjuncts(text[begin:place])
            begin = place + 5
    if begin:
        yield from _conjuncts(text[begin:])
    else:
        yield text


def _closing(text: str) -> int:
    depth, quoted = 0, False
    for place, sign in enumerate(text):
        quoted ^= sign == "'"
        depth += 0 if quoted else (sign == "(") - (sign == ")")
        if depth == 0:
            return place
    return -1


def _caller() -> str:
    """Return the function of ours that asked for the statement, as `module.function`."""
    for frame in reversed(traceback.extract_stack()):
        path = Path(frame.filename)
        if not path.is_relative_to(ROOT) or ".venv" in path.parts:
            continue
        relative = path.relative_to(ROOT)
        if relative.as_posix() not in MACHINERY and relative.parts[0] != "tests":
            return f"{'.'.join(relative.with_suffix('').parts)}.{frame.name}"
    return "tests"
