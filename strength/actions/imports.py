"""Write imported memories as any client would, so that tombstones, trust and policies hold; undo them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Least

from conversations.actions.context import forget_sources
from memoryhub.api.idempotency import forget_answers
from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.errors import DomainError
from memoryhub.importexport.formats.markdown import tag_in_line
from memoryhub.importexport.imports import CannotImport, Writing
from memoryhub.importexport.models import ImportedRow
from memoryhub.importexport.records import MEMORIES, ImportedMemory, Located
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.namespaces import expand_namespace
from strength.actions.batches import write_memories
from strength.actions.curation import edit_memory
from strength.actions.memories import NewMemory
from strength.actions.profiles import forget_in_profile
from strength.actions.revisions import undo_revision
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
from strength.models import Memory, MemoryRevision, MemorySource, StrategyCursor
from strength.models.locks import lock_shared

KIND: Final = "memory"
SAME: Final = "a memory with the same words is here already."
WAITS: Final = "waits for a curator."
CHANGED: Final = "was edited in the file, and changed here since it was exported; what is here is kept."
EDIT_REASON: Final = "Edited in a Markdown file."


def write_imported(records: Sequence[Located], *, writing: Writing) -> None:
    """Write memories whose text is not here yet, and take over edits of those that were exported from here.

    An import does not reinforce what is here. Raises CannotImport where users would be merged into one.
    """
    by_user: dict[str, list[tuple[Located, ImportedMemory]]] = {}
    for located in records:
        if isinstance(memory := located.record, ImportedMemory):
            writing.users.add(memory.user_id)
            by_user.setdefault(memory.user_id, []).append((located, memory))
    if writing.names.user_id is not None and len(writing.users - {""}) > 1:
        raise CannotImport("The file holds memories of several users; without --user each gets their own.")
    for user_id, memories in by_user.items():
        actor = writing.actor(user_id)
        _write_new(actor, _without_edits(actor, memories, writing), writing)


def _without_edits(
    actor: Actor, memories: Sequence[tuple[Located, ImportedMemory]], writing: Writing
) -> list[tuple[Located, ImportedMemory]]:
    """Take over the edits of memories that are here; return the others."""
    ids = [UUID(memory.id) for _, memory in memories if memory.id]
    rows = Memory.objects.of([actor.pk]).select_related("actor__agent") if ids else Memory.objects.none()
    here = {str(row.pk): row for row in rows.filter(pk__in=ids)}
    rest = []
    for located, memory in memories:
        row = here.get(memory.id)
        if row is None:
            rest.append((located, memory))
        elif not (values := _edits(row, memory)):
            writing.know(located)
        else:
            _edit(row, values, memory, located, writing)
    return rest


def _edits(row: Memory, memory: ImportedMemory) -> dict[str, Any]:
    """Return the values that a line of an exported note says otherwise; a tag is compared as it stands in the line."""
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


def _edit(
    row: Memory, values: dict[str, Any], memory: ImportedMemory, located: Located, writing: Writing
) -> None:
    if memory.version < row.version:
        writing.refuse(located, CHANGED)
        return
    try:
        edited = edit_memory(
            memory=row, values=values, expected_version=row.version, by=writing.by, reason=EDIT_REASON, now=writing.now
        )  # fmt: skip
    except DomainError as error:
        writing.refuse(located, str(error))
        return
    writing.report.made[MEMORIES] += 1
    writing.note_row(row.actor, KIND, row.pk, version=edited.version)


def _write_new(actor: Actor, memories: Sequence[tuple[Located, ImportedMemory]], writing: Writing) -> None:
    digests = [content_digest(memory.text) for _, memory in memories]
    rows = Memory.objects.of([actor.pk]).filter(content_digest__in=digests)
    known = {(place, bytes(digest)) for place, digest in rows.values_list("namespace", "content_digest")}
    fresh: list[tuple[Located, NewMemory]] = []
    for (located, memory), digest in zip(memories, digests, strict=True):
        namespace = expand_namespace(
            default_namespace(Kind(memory.kind)), agent_id=actor.agent_id, user_id=actor.user_id
        )
        if (namespace, digest) in known:
            writing.know(located, SAME)
            continue
        known.add((namespace, digest))
        fresh.append((located, _new_memory(memory, writing)))
    if not fresh:
        return
    items = write_memories(actor=actor, news=[new for _, new in fresh], by=writing.by, now=writing.now)
    for (located, _), item in zip(fresh, items, strict=True):
        if item.memory is None:
            writing.refuse(located, str(item.error))
        elif not item.is_new:
            writing.know(located, SAME)
        else:
            writing.report.made[MEMORIES] += 1
            writing.note_row(actor, KIND, item.memory.pk)
            if item.memory.status == Status.PENDING:
                writing.note(located, WAITS)


def _new_memory(memory: ImportedMemory, writing: Writing) -> NewMemory:
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
        channel=writing.channel,
        valid_from=memory.since,
        pinned=memory.pinned,
        metadata=metadata,
        needs_approval=memory.drawn,
    )


def undo_memories(
    rows: Sequence[ImportedRow], *, actor: Actor, by: Principal, reason: str, now: datetime
) -> int:
    """Delete imported memories, and take back edits; what a person has edited since stays. Return how many stay.

    No tombstone keeps a deleted one away: nobody said that it is wrong, and a later import may bring it again.
    """
    lock_shared(actor.pk)
    edits = {row.row_id: row.details["version"] for row in rows if row.details}
    made = [row.row_id for row in rows if not row.details]
    held = Memory.objects.of([actor.pk]).locked([*made, *edits])
    kept = 0
    for key, version in edits.items():
        revision = MemoryRevision.objects.filter(actor_id=actor.pk, memory_id=key, number=version).first()
        try:
            if key in held and revision is not None:
                undo_revision(revision=revision, by=by, reason=reason, now=now)
        except WrongState:
            kept += 1
    going = [memory.pk for key, memory in held.items() if key not in edits and not memory.locked]
    delete_untold(actor=actor, memory_ids=going, by=by, reason=reason, now=now)
    return kept + sum(memory.locked for key, memory in held.items() if key not in edits)


def delete_untold(
    *, actor: Actor, memory_ids: Sequence[UUID], by: Principal, reason: str, now: datetime
) -> None:
    """Delete memories with their texts in receipts, and without tombstones."""
    if not memory_ids:
        return
    forget_sources(memory_ids)
    forget_in_profile(actor_id=actor.pk, memory_ids=memory_ids)
    forget_answers(actor=actor, row_id=memory_ids[0])
    Memory.objects.of([actor.pk]).filter(pk__in=memory_ids).delete()
    audit.record_each(
        by=by, verb="delete", object_kind="memory", object_ids=memory_ids, actor=actor, reason=reason, now=now
    )


def undo_drawn(
    *,
    actor: Actor,
    sessions: Mapping[UUID, int],
    message_ids: Sequence[UUID],
    by: Principal,
    reason: str,
    now: datetime,
) -> None:
    """Delete the memories that were drawn from messages that go, and from nothing else; read on from before these.

    `sessions` as in `conversations.actions.imports.UNDONE`. The memory of a summary goes with any message it covers.
    """
    sources = MemorySource.objects.filter(actor_id=actor.pk)
    drawn = sources.filter(message_id__in=message_ids).values_list("memory_id", flat=True)
    others = sources.filter(memory_id__in=drawn).exclude(message_id__in=message_ids).values("memory_id")
    cursors = StrategyCursor.objects.filter(actor_id=actor.pk)
    shortened = {key: first for key, first in sessions.items() if first > 1}
    summarised = [
        cursor
        for cursor in cursors.filter(session_id__in=sessions, strategy=Strategy.SUMMARY)
        if cursor.read_until >= sessions[cursor.session_id]
    ]
    gone = (Q(pk__in=set(drawn)) & ~Q(pk__in=others)) | Q(pk__in=[cursor.memory_id for cursor in summarised])
    keys = list(Memory.objects.of([actor.pk]).filter(gone, locked=False).values_list("pk", flat=True))
    delete_untold(actor=actor, memory_ids=keys, by=by, reason=reason, now=now)
    # Without its memory, a cursor would say that a person deleted it.
    forgotten = [cursor.session_id for cursor in summarised if cursor.memory_id in keys]
    cursors.filter(session_id__in=forgotten, strategy=Strategy.SUMMARY).delete()
    for key, first in shortened.items():
        cursors.filter(session_id=key, read_until__gte=first).update(
            read_until=first - 1,
            passed_until=Least("passed_until", first - 1),
            passed_after=Least("passed_after", first - 1),
        )
