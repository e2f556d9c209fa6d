"""Some memories, and nothing else of their users, as an export that `import` reads (SPEC M12, W1)."""

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from memoryhub.importexport.lines import Digest, Part, header
from memoryhub.importexport.tables import ACTORS, AGENTS, Table, exported_tables
from memoryhub.importexport.writing import snapshot
from memoryhub.tenancy.models import Actor, Agent
from strength.actions.exports import rows_as_csv
from strength.models import (
    Memory,
    MemoryNumbers,
    MemoryRevision,
    MemorySource,
    PerspectiveStrength,
    StrengthPoint,
)

BELONGING: Final = (MemoryNumbers, PerspectiveStrength, MemorySource, MemoryRevision, StrengthPoint)
"""What is nothing apart from its memory."""

ROWS_AT_ONCE: Final = 200


def some_as_csv(keys: Sequence[UUID]) -> Iterator[bytes]:
    """Yield these memories as a table for people."""
    return rows_as_csv(Memory.objects.filter(pk__in=list(keys)))


def some_as_lines(keys: Sequence[UUID]) -> Iterator[bytes]:
    """Yield these memories with what belongs to them, their agents and actors above them; of one moment.

    What stands in a memory's place is left out where it is not among them: nothing in the file then leads outside it.
    """
    wanted, digest = list(keys), Digest()
    memories = Table(Memory)
    belonging = [table for table in exported_tables() if table.model in BELONGING]
    with snapshot():
        rows = memories.rows.filter(pk__in=wanted)
        actors = Actor.objects.filter(pk__in=rows.values("actor_id"))
        agents = Agent.objects.filter(pk__in=actors.values("agent_id"))
        counts = {AGENTS.name: agents.count(), ACTORS.name: actors.count(), memories.name: rows.count()}
        yield digest.line(Part.HEADER, header(counts))
        among = {str(key) for key in wanted}
        for agent in _read(AGENTS, agents):
            yield digest.line(Part.AGENT, agent)
            for actor in _read(ACTORS, actors.filter(agent_id=agent["agent_id"])):
                yield digest.line(Part.ACTOR, actor)
                for row in _read(memories, rows.filter(actor_id=actor["id"])):
                    yield digest.line(Part.ROW, _without_strangers(row, among), table=memories.name)
                for table in belonging:
                    of_these = table.rows.filter(actor_id=actor["id"], memory_id__in=wanted)
                    for row in _read(table, of_these):
                        yield digest.line(Part.ROW, row, table=table.name)
    yield digest.end()


def _read(table: Table, rows: Any) -> Iterator[dict[str, Any]]:
    values = rows.order_by(*table.key_order).values_list(*table.codecs)
    return (table.written(each) for each in values.iterator(chunk_size=ROWS_AT_ONCE))


def _without_strangers(row: dict[str, Any], among: set[str]) -> dict[str, Any]:
    return row if row["superseded_by_id"] in among else {**row, "superseded_by_id": None}
