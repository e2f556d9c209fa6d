"""Import memories as any client would write them, and export them as CSV, JSON Lines and notes (SPEC M12, W1).

Tombstones, trust and policies hold for imports. `import` reads notes back with what was edited in them. A note that
was edited since the last export is left as it is, so that no edit is lost before it was imported.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.functions import Least

from memoryhub.auth import audit
from memoryhub.auth.principals import Principal
from memoryhub.errors import DomainError, gettext_noop, stored_text
from memoryhub.importexport.foreign.formats.markdown import MANIFEST, Line, render_note, tag_in_line
from memoryhub.importexport.foreign.imports import ImportContext
from memoryhub.importexport.foreign.models import ImportedRow
from memoryhub.importexport.foreign.records import MEMORIES, ImportedMemory, LocatedRecord
from memoryhub.importexport.native.exporter import Selection, read_rows, snapshot
from memoryhub.importexport.native.fields import ACTORS, AGENTS, Table, exported_tables
from memoryhub.importexport.native.jsonl import Digest, Part, header
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.namespaces import expand_namespace
from memoryhub.tenancy.policy import Trust
from strength.actions.curation import delete_without_tombstones, edit_memory
from strength.actions.drafts import NewMemory
from strength.actions.revisions import undo_revision
from strength.actions.write_many import write_memories
from strength.domain.extraction import Strategy
from strength.domain.memories import (
    Kind,
    MemoryRefused,
    Source,
    Status,
    WrongState,
    check_metadata,
    content_digest,
    default_namespace,
)
from strength.models import (
    Memory,
    MemoryNumbers,
    MemoryRevision,
    MemorySource,
    PerspectiveStrength,
    StrategyCursor,
    StrengthPoint,
)
from strength.models.locks import lock_shared
from strength.models.memory import STRENGTH_OF_MEMORY

MEMORY_KIND: Final = "memory"
DUPLICATE_TEXT: Final = gettext_noop("a memory with the same words is here already.")
PENDING_TEXT: Final = gettext_noop("is pending.")
CONFLICT_TEXT: Final = gettext_noop(
    "was edited in the file, and changed here since it was exported; what is here is kept."
)
EDIT_REASON: Final = stored_text("Edited in a Markdown file.")


def write_imported(records: Sequence[LocatedRecord], *, context: ImportContext) -> None:
    """Write memories with texts that are not stored yet, and apply the edits of those that were exported from here.

    Existing memories are not reinforced. Raises CannotImport as `ImportContext.actor`.
    """
    by_user: dict[str, list[tuple[LocatedRecord, ImportedMemory]]] = {}
    for located in records:
        if isinstance(memory := located.record, ImportedMemory):
            by_user.setdefault(memory.user_id, []).append((located, memory))
    for user_id, memories in by_user.items():
        actor = context.actor(user_id)
        _write_new(actor, _apply_edits(actor, memories, context), context)


def _apply_edits(
    actor: Actor, memories: Sequence[tuple[LocatedRecord, ImportedMemory]], context: ImportContext
) -> list[tuple[LocatedRecord, ImportedMemory]]:
    """Apply the edits of stored memories; return the other records."""
    ids = [UUID(memory.id) for _, memory in memories if memory.id]
    rows = Memory.objects.of([actor.pk]).select_related("actor__agent") if ids else Memory.objects.none()
    existing = {str(row.pk): row for row in rows.filter(pk__in=ids)}
    not_stored = []
    for located, memory in memories:
        row = existing.get(memory.id)
        if row is None:
            not_stored.append((located, memory))
        elif not (values := _edited_values(row, memory)):
            context.add_known(located)
        else:
            _apply_edit(row, values, memory, located, context)
    return not_stored


def _edited_values(row: Memory, memory: ImportedMemory) -> dict[str, Any]:
    """Return the values that were edited in a line of an exported note; tags are compared as the line spells them."""
    known = {tag_in_line(tag): tag for tag in row.tags}
    tags = [known.get(tag, tag) for tag in memory.tags]
    values: dict[str, Any] = {}
    if memory.text != row.content.strip().replace("\r\n", "\n"):
        values["content"] = memory.text
    if tags != row.tags:
        values["tags"] = tags
    if memory.kind != row.kind:
        values["kind"] = memory.kind
    return values


def _apply_edit(
    row: Memory, values: dict[str, Any], memory: ImportedMemory, located: LocatedRecord, context: ImportContext
) -> None:
    if memory.version < row.version:
        context.refuse(located, CONFLICT_TEXT)
        return
    try:
        edited = edit_memory(
            memory=row, values=values, expected_version=row.version, by=context.by, reason=EDIT_REASON, now=context.now
        )
    except DomainError as error:
        context.refuse(located, str(error))
        return
    context.report.made[MEMORIES] += 1
    context.note_row(row.actor, MEMORY_KIND, row.pk, version=edited.version)


def _write_new(actor: Actor, memories: Sequence[tuple[LocatedRecord, ImportedMemory]], context: ImportContext) -> None:
    digests = [content_digest(memory.text) for _, memory in memories]
    rows = Memory.objects.of([actor.pk]).filter(content_digest__in=digests)
    if context.by.is_trusted:  # an untrusted copy must not prevent a trusted one
        rows = rows.exclude(trust=Trust.UNTRUSTED)
    known = {(namespace, bytes(digest)) for namespace, digest in rows.values_list("namespace", "content_digest")}
    new_memories: list[tuple[LocatedRecord, NewMemory]] = []
    for (located, memory), digest in zip(memories, digests, strict=True):
        namespace = expand_namespace(
            default_namespace(Kind(memory.kind)), agent_id=actor.agent_id, user_id=actor.user_id
        )
        if (namespace, digest) in known:
            context.add_known(located, DUPLICATE_TEXT)
            continue
        known.add((namespace, digest))
        new_memories.append((located, _new_memory(memory, context)))
    if not new_memories:
        return
    items = write_memories(actor=actor, news=[new for _, new in new_memories], by=context.by, now=context.now)
    for (located, _), item in zip(new_memories, items, strict=True):
        if item.memory is None:
            context.refuse(located, str(item.error))
        elif not item.is_new:
            context.add_known(located, DUPLICATE_TEXT)
        else:
            context.report.made[MEMORIES] += 1
            context.note_row(actor, MEMORY_KIND, item.memory.pk)
            if item.memory.status == Status.PENDING:
                context.note(located, PENDING_TEXT)


def _new_memory(memory: ImportedMemory, context: ImportContext) -> NewMemory:
    metadata = dict(memory.metadata)
    try:
        check_metadata(metadata)
    except MemoryRefused:
        metadata = {}
    return NewMemory(
        content=memory.text,
        kind=Kind(memory.kind),
        tags=memory.tags,
        source=Source.IMPORT,
        channel=context.channel,
        valid_from=memory.since,
        pinned=memory.pinned,
        metadata=metadata,
        needs_approval=memory.needs_review,
    )


def undo_memories(rows: Sequence[ImportedRow], *, actor: Actor, by: Principal, reason: str, now: datetime) -> int:
    """Delete imported memories and undo their edits, except what a person edited since; return the number left.

    Leaves no tombstones: the texts were not rejected, and a later import may write them again.
    """
    lock_shared(actor.pk)
    edits = {row.row_id: row.details["version"] for row in rows if row.details}
    created = [row.row_id for row in rows if not row.details]
    memories = Memory.objects.of([actor.pk]).locked([*created, *edits])
    unchanged = 0
    for key, version in edits.items():
        revision = MemoryRevision.objects.filter(actor_id=actor.pk, memory_id=key, number=version).first()
        try:
            if key in memories and revision is not None:
                undo_revision(revision=revision, by=by, reason=reason, now=now)
        except WrongState:
            unchanged += 1
    deleted = [memory.pk for key, memory in memories.items() if key not in edits and not memory.locked]
    delete_without_tombstones(actor=actor, memory_ids=deleted, by=by, reason=reason, now=now)
    return unchanged + sum(memory.locked for key, memory in memories.items() if key not in edits)


def undo_extracted(
    *,
    actor: Actor,
    sessions: Mapping[UUID, int],
    message_ids: Sequence[UUID],
    by: Principal,
    reason: str,
    now: datetime,
) -> None:
    """Delete the memories extracted only from deleted messages, and move the cursors back before these.

    `sessions` as in `imported_sessions.UNDO_HANDLERS`. A summary's memory is deleted with any message it
    covers.
    """
    sources = MemorySource.objects.filter(actor_id=actor.pk)
    extracted = sources.filter(message_id__in=message_ids).values_list("memory_id", flat=True)
    with_other_sources = sources.filter(memory_id__in=extracted).exclude(message_id__in=message_ids).values("memory_id")
    cursors = StrategyCursor.objects.filter(actor_id=actor.pk)
    shortened = {key: first for key, first in sessions.items() if first > 1}
    summarised = [
        cursor
        for cursor in cursors.filter(session_id__in=sessions, strategy=Strategy.SUMMARY)
        if cursor.read_until >= sessions[cursor.session_id]
    ]
    deletable = (Q(pk__in=set(extracted)) & ~Q(pk__in=with_other_sources)) | Q(
        pk__in=[cursor.memory_id for cursor in summarised]
    )
    keys = list(Memory.objects.of([actor.pk]).filter(deletable, locked=False).values_list("pk", flat=True))
    delete_without_tombstones(actor=actor, memory_ids=keys, by=by, reason=reason, now=now)
    # A cursor without its memory would mean that a person deleted the memory.
    forgotten = [cursor.session_id for cursor in summarised if cursor.memory_id in keys]
    cursors.filter(session_id__in=forgotten, strategy=Strategy.SUMMARY).delete()
    for key, first in shortened.items():
        cursors.filter(session_id=key, read_until__gte=first).update(
            read_until=first - 1,
            passed_until=Least("passed_until", first - 1),
            passed_after=Least("passed_after", first - 1),
        )


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
# Spreadsheets evaluate such cells as formulas, which may send data elsewhere.
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")
BYTE_ORDER_MARK = "\ufeff"
"""Byte order mark; without it spreadsheets decode Japanese wrongly. Python reads it as `utf-8-sig`."""


def memories_as_csv(selection: Selection) -> Iterator[bytes]:
    yield from rows_as_csv(Memory.objects.filter(actor__in=selection.actors()))


CSV_DECIMALS: Final = 3
"""Decimals as on screens; JSON Lines exports keep full precision."""


def rows_as_csv(memories: QuerySet[Memory]) -> Iterator[bytes]:
    """Yield memories as CSV with a header; formulas are escaped by a `'`."""
    yield (BYTE_ORDER_MARK + _csv_line(list(COLUMNS))).encode()
    rows = memories.annotate(strength_now=STRENGTH_OF_MEMORY).order_by("actor__agent_id", "actor__user_id", "id")
    with snapshot():
        for values in rows.values_list(*COLUMNS.values()).iterator(chunk_size=CSV_CHUNK_ROWS):
            yield _csv_line(list(map(_cell, values))).encode()


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return round(value, CSV_DECIMALS)
    text = ", ".join(value) if isinstance(value, list) else value
    return f"'{text}" if isinstance(text, str) and text.startswith(FORMULA_PREFIXES) else text


def _csv_line(cells: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


DEPENDENT_MODELS: Final = (MemoryNumbers, PerspectiveStrength, MemorySource, MemoryRevision, StrengthPoint)
"""Rows that belong to a memory."""


def rows_as_lines(keys: Sequence[UUID]) -> Iterator[bytes]:
    """Yield memories with their agents, actors and rows for `import`; no reference leads outside the file."""
    selected_ids, digest = list(keys), Digest()
    memories = Table(Memory)
    dependent_tables = [table for table in exported_tables() if table.model in DEPENDENT_MODELS]
    with snapshot():
        rows = memories.rows.filter(pk__in=selected_ids)
        actors = Actor.objects.filter(pk__in=rows.values("actor_id"))
        agents = Agent.objects.filter(pk__in=actors.values("agent_id"))
        counts = {AGENTS.name: agents.count(), ACTORS.name: actors.count(), memories.name: rows.count()}
        yield digest.line(Part.HEADER, header(counts))
        selected = {str(key) for key in selected_ids}
        for agent in read_rows(AGENTS, agents):
            yield digest.line(Part.AGENT, agent)
            for actor in read_rows(ACTORS, actors.filter(agent_id=agent["agent_id"])):
                yield digest.line(Part.ACTOR, actor)
                for row in read_rows(memories, rows.filter(actor_id=actor["id"])):
                    if row["superseded_by_id"] not in selected:
                        row["superseded_by_id"] = None
                    yield digest.line(Part.ROW, row, table=memories.name)
                for table in dependent_tables:
                    related = table.rows.filter(actor_id=actor["id"], memory_id__in=selected_ids)
                    for row in read_rows(table, related):
                        yield digest.line(Part.ROW, row, table=table.name)
    yield digest.end()


NOTES_FOLDER: Final = "memories"

UNIMPORTED_EDIT_TEXT: Final = "was edited since the last export; import it first."


def export_notes(*, actor: Actor, root: Path, by: Principal, now: datetime) -> list[str]:
    """Write an actor's active memories into `root`/memories, a note for each kind; return messages about skipped files.

    Raises OSError.
    """
    folder = root / NOTES_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / MANIFEST
    previous: dict[str, str] = {}
    with suppress(FileNotFoundError, ValueError):
        previous = json.loads(manifest.read_text(encoding="utf-8"))
    skipped, exported = [], dict(previous)
    for name, text in _notes(actor):
        file = folder / name
        digest = _digest(text)
        current = _digest(file.read_bytes().decode("utf-8", "replace")) if file.exists() else None
        if current not in (None, digest, previous.get(name)):
            skipped.append(f"{NOTES_FOLDER}/{name}: {UNIMPORTED_EDIT_TEXT}")
            continue
        if current != digest:
            _write_atomically(file, text)
        exported[name] = digest
    _write_atomically(manifest, json.dumps(exported, indent=1, sort_keys=True) + "\n")
    audit.record_each(by=by, verb="export", object_kind="memories", actor=actor, now=now)
    return skipped


def _notes(actor: Actor) -> Iterator[tuple[str, str]]:
    """Yield names and texts of an actor's notes from one snapshot; kinds without memories have none."""
    with snapshot():
        rows = Memory.objects.of([actor.pk]).active().order_by("id")
        columns = rows.values_list("content", "tags", "pk", "version")
        for kind in Kind:
            lines = [
                Line(kind, content, tags, id=str(key), version=version)
                for content, tags, key, version in columns.filter(kind=kind).iterator(chunk_size=500)
            ]
            if lines:
                yield f"{kind.plural}.md", render_note(kind.plural, lines)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def _write_atomically(file: Path, text: str) -> None:
    """Write a file atomically, readable by its owner only."""
    part = file.with_name(f".{file.name}.part")
    part.touch(mode=0o600)
    part.write_bytes(text.encode("utf-8", "surrogatepass"))
    part.replace(file)
