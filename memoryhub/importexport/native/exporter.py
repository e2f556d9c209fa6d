"""Streaming export of one actor, an agent with its users, or everything, from one snapshot."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import UUID

from django.db import connection, models, transaction

from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Principal
from memoryhub.importexport.native.fields import ACTORS, AGENTS, Table, exported_tables
from memoryhub.importexport.native.jsonl import Digest, Part, header
from memoryhub.tenancy.models import Actor, Agent

CHUNK_ROWS = 200
EXPORT_FORMATS: Final[dict[str, Callable[["Selection"], Iterator[bytes]]]] = {}
"""Further formats by name; apps register theirs in `AppConfig.ready`."""


class TreeExport(Protocol):
    """Writes an app's part of an actor into a folder; returns a line per file left unchanged, with the reason."""

    def __call__(self, *, actor: Actor, root: Path, by: Principal, now: datetime) -> list[str]: ...


TREE_EXPORTS: Final[list[TreeExport]] = []
"""Parts of an export in Markdown; registered by apps."""

CHUNK_BYTES = 2**16
"""Size of a yielded chunk, about."""


@dataclass(frozen=True)
class Selection:
    """Rows to export: of one agent and user, an agent with all users, or all."""

    agent_id: str | None = None
    user_id: str | None = None

    def check(self) -> None:
        if self.agent_id is not None and not self.agents().exists():
            raise UnknownRow("No such agent.")
        if self.user_id is not None and not self.actors().exists():
            raise UnknownRow("No such user of this agent.")

    def agents(self) -> models.QuerySet[Agent]:
        rows = Agent._base_manager.all()
        return rows if self.agent_id is None else rows.filter(agent_id=self.agent_id)

    def actors(self) -> models.QuerySet[Actor]:
        rows = Actor._base_manager.filter(agent__in=self.agents())
        return rows if self.user_id is None else rows.filter(user_id=self.user_id)


@contextmanager
def snapshot() -> Iterator[None]:
    """Open a repeatable-read transaction; inside a transaction, use that one."""
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def export(selection: Selection) -> Iterator[bytes]:
    """Yield the export in chunks of about `CHUNK_BYTES` bytes; at most one is held in memory."""
    chunk = bytearray()
    for line in export_lines(selection):
        chunk += line
        if len(chunk) >= CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)


def export_lines(selection: Selection) -> Iterator[bytes]:
    tables, digest = exported_tables(), Digest()
    with snapshot():
        counts = {AGENTS.name: selection.agents().count(), ACTORS.name: selection.actors().count()}
        counts |= {table.name: table.rows.filter(actor__in=selection.actors()).count() for table in tables}
        yield digest.line(Part.HEADER, header({name: count for name, count in sorted(counts.items()) if count}))
        for agent in read_rows(AGENTS, selection.agents()):
            yield digest.line(Part.AGENT, agent)
            for actor in read_rows(ACTORS, selection.actors().filter(agent_id=agent["agent_id"])):
                yield digest.line(Part.ACTOR, actor)
                for table in tables:
                    for row in read_rows(table, table.rows.filter(actor_id=UUID(actor["id"]))):
                        yield digest.line(Part.ROW, row, table=table.name)
    yield digest.end()


def read_rows(table: Table, rows: models.QuerySet[Any]) -> Iterator[dict[str, Any]]:
    values = table.values(rows.order_by(*table.key_order))
    return (table.encode_row(row_values) for row_values in values.iterator(chunk_size=CHUNK_ROWS))
