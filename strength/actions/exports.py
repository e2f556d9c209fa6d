"""Exports of memories: for spreadsheets, of selected ones, and as notes in Markdown (SPEC M12, W1).

`import` reads notes back with what was edited in them. A note whose file was edited since the last export is left as it
is, so that no edit is lost before it was imported.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.importexport.exporter import Selection, read_rows, snapshot
from memoryhub.importexport.fields import ACTORS, AGENTS, Table, exported_tables
from memoryhub.importexport.formats.markdown import MANIFEST, Line, note_of
from memoryhub.importexport.jsonl import Digest, Part, header
from memoryhub.tenancy.models import Actor, Agent
from strength.domain.memories import Kind
from strength.models import (
    Memory,
    MemoryNumbers,
    MemoryRevision,
    MemorySource,
    PerspectiveStrength,
    StrengthPoint,
)
from strength.models.memory import STRENGTH_OF_MEMORY

COLUMNS = {
    "agent_id": "actor__agent_id", "user_id": "actor__user_id", "id": "id", "kind": "kind", "namespace": "namespace",
    "content": "content", "tags": "tags", "status": "status", "pinned": "pinned", "trust": "trust",
    "source": "source", "channel": "channel", "confidence": "confidence", "scope_level": "scope_level",
    "scope_domain": "scope_domain", "scope_project": "scope_project", "strength": "strength_now",
    "access_count": "numbers__access_count", "last_accessed_at": "numbers__last_accessed_at",
    "consolidation_level": "numbers__consolidation_level", "valid_from": "valid_from", "valid_to": "valid_to",
    "superseded_by": "superseded_by_id", "created_at": "created_at", "updated_at": "updated_at",
}  # fmt: skip
CSV_CHUNK_ROWS = 500
# Spreadsheets run a cell that begins so as a formula, which may send data elsewhere.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
MARK = "\ufeff"
"""Byte order mark; without it spreadsheets decode Japanese wrongly. Python reads it as `utf-8-sig`."""


def memories_as_csv(whose: Selection) -> Iterator[bytes]:
    yield from rows_as_csv(Memory.objects.filter(actor__in=whose.actors()))


CSV_DECIMALS: Final = 3
"""As pages show numbers; an export as JSON Lines holds them whole."""


def rows_as_csv(memories: QuerySet[Memory]) -> Iterator[bytes]:
    """Yield memories as CSV with a header; formulas are escaped by a `'`."""
    yield (MARK + _line(list(COLUMNS))).encode()
    rows = memories.annotate(strength_now=STRENGTH_OF_MEMORY).order_by(
        "actor__agent_id", "actor__user_id", "id"
    )
    with snapshot():
        for values in rows.values_list(*COLUMNS.values()).iterator(chunk_size=CSV_CHUNK_ROWS):
            yield _line(list(map(_cell, values))).encode()


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return round(value, CSV_DECIMALS)
    text = ", ".join(value) if isinstance(value, list) else value
    return f"'{text}" if isinstance(text, str) and text.startswith(FORMULA) else text


def _line(cells: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


BELONGING: Final = (MemoryNumbers, PerspectiveStrength, MemorySource, MemoryRevision, StrengthPoint)
"""Rows that belong to a memory."""


def some_as_lines(keys: Sequence[UUID]) -> Iterator[bytes]:
    """Yield memories with their agents, actors and rows for `import`; no reference leads outside the file."""
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
        for agent in read_rows(AGENTS, agents):
            yield digest.line(Part.AGENT, agent)
            for actor in read_rows(ACTORS, actors.filter(agent_id=agent["agent_id"])):
                yield digest.line(Part.ACTOR, actor)
                for row in read_rows(memories, rows.filter(actor_id=actor["id"])):
                    if row["superseded_by_id"] not in among:
                        row["superseded_by_id"] = None
                    yield digest.line(Part.ROW, row, table=memories.name)
                for table in belonging:
                    of_these = table.rows.filter(actor_id=actor["id"], memory_id__in=wanted)
                    for row in read_rows(table, of_these):
                        yield digest.line(Part.ROW, row, table=table.name)
    yield digest.end()


FOLDER: Final = "memories"
TITLES: Final = {Kind.SUMMARY: "summaries"}
"""Of notes whose kind takes no plain s."""

EDITED: Final = "was edited since the last export; import it first."


def export_notes(*, actor: Actor, root: Path, by: Principal, now: datetime) -> list[str]:
    """Write an actor's active memories into `root`/memories, a note for each kind; return what was left, and why.

    Raises OSError.
    """
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / MANIFEST
    known: dict[str, str] = {}
    with suppress(FileNotFoundError, ValueError):
        known = json.loads(manifest.read_text(encoding="utf-8"))
    left, exported = [], dict(known)
    for name, text in _notes(actor):
        file = folder / name
        digest = _digest(text)
        current = _digest(file.read_bytes().decode("utf-8", "replace")) if file.exists() else None
        if current not in (None, digest, known.get(name)):
            left.append(f"{FOLDER}/{name}: {EDITED}")
            continue
        if current != digest:
            _replace(file, text)
        exported[name] = digest
    _replace(manifest, json.dumps(exported, indent=1, sort_keys=True) + "\n")
    audit.record_each(by=by, verb="export", object_kind="memories", actor=actor, now=now)
    return left


def _notes(actor: Actor) -> Iterator[tuple[str, str]]:
    """Yield the notes of an actor from one moment; kinds without memories have none, unless it was written before."""
    with snapshot():
        rows = Memory.objects.of([actor.pk]).active().order_by("id")
        columns = rows.values_list("content", "tags", "pk", "version")
        for kind in Kind:
            lines = [
                Line(kind, content, tags, id=str(key), version=version)
                for content, tags, key, version in columns.filter(kind=kind).iterator(chunk_size=500)
            ]
            if lines:
                title = TITLES.get(kind, f"{kind}s")
                yield f"{title}.md", note_of(title, lines)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def _replace(file: Path, text: str) -> None:
    """Write a file whole or not at all, for its owner's eyes alone."""
    part = file.with_name(f".{file.name}.part")
    part.touch(mode=0o600)
    part.write_bytes(text.encode("utf-8", "surrogatepass"))
    part.replace(file)
