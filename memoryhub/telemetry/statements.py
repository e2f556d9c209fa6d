"""Spans of SQL statements: their verb and the tables that they name, never the statement and its values."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from django.apps import apps
from django.db.backends.signals import connection_created

from memoryhub.telemetry.spans import is_recorded, is_tracing, span

_TABLE: Final = re.compile(r'\b(?:FROM|INTO|UPDATE|JOIN|ONLY)\s+"?([a-z_0-9]+)"?', re.IGNORECASE)
_VERB: Final = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM|SELECT|SAVEPOINT|RELEASE|ROLLBACK|SET|LOCK|NOTIFY)\b")
_NO_VERB: Final = re.compile(r"--.*|\bFOR (?:NO KEY )?UPDATE\b")
KNOWN_STATEMENTS: Final = 2_048
MAX_TABLES: Final = 3


def trace_statements() -> None:
    """Record the statements of all connections of this process, if traces are sent."""
    if is_tracing():
        import memoryhub.telemetry.tracer  # noqa: F401  before processes are forked, so that they share its memory

        connection_created.connect(_watch, dispatch_uid="memoryhub.telemetry")


def _watch(*, connection: Any, **_kwargs: object) -> None:
    if record not in connection.execute_wrappers:
        # The first, as the block of an `execute_wrapper` that connects removes the last.
        connection.execute_wrappers.insert(0, record)


def record(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Execute a statement within a span."""
    if not is_recorded():
        return execute(sql, params, many, context)
    verb, summary = described(sql if isinstance(sql, str) else "")
    values = {"db.system.name": "postgresql", "db.operation.name": verb, "db.query.summary": summary}
    with span(summary, values, kind="client") as statement:
        try:
            return execute(sql, params, many, context)
        except Exception as error:
            if state := getattr(error.__cause__, "sqlstate", None):
                statement.set({"db.response.status_code": state})
            raise


@lru_cache(KNOWN_STATEMENTS)
def described(sql: str) -> tuple[str, str]:
    """Return a statement's verb, and that with the first of its tables, for which no other name is taken.

    Of a statement with parts the verb is that of the change, where there is one.
    """
    text = _NO_VERB.sub("", sql)
    found = _VERB.findall(text)
    changes = [verb for verb in found if verb in ("INSERT INTO", "UPDATE", "DELETE FROM")]
    verb = next(iter(changes or found), "SQL").split()[0]
    tables = dict.fromkeys(name for name in map(str.lower, _TABLE.findall(text)) if name in _tables())
    return verb, " ".join([verb, *list(tables)[:MAX_TABLES]])


@lru_cache(1)
def _tables() -> frozenset[str]:
    return frozenset(model._meta.db_table for model in apps.get_models(include_auto_created=True))
