"""Read and write the documents of projects; every change keeps the former text as a version (SPEC P1, P4, P6)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from memoryhub.api.idempotency import forget_answers
from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.principals import Principal
from memoryhub.auth.screening import Screening
from memoryhub.db.limits import note_of_a_read
from memoryhub.errors import DomainError
from memoryhub.jobs.queue import enqueue
from memoryhub.tenancy.policies import effective_policy, zone_of
from memoryhub.tenancy.policy import Trust
from memoryhub.zones import local_time
from summaries.actions.entries import pending_digests, pending_entries, trust_new_lines
from summaries.actions.projects import (
    change_project,
    check_active,
    check_trusted,
    create_document,
    forget_texts,
    hold_project,
    locked_project,
    note_event,
    replace_text,
)
from summaries.domain.compaction import COMPACTED, FOLLOW_UP, Outcome
from summaries.domain.documents import (
    MAX_DOCUMENT_LENGTH,
    MEMORY,
    PIN,
    DocumentKind,
    appended,
    check_document_name,
    description_in,
    entry_line,
    line_digest,
    lines_by_digest,
    pinned_line,
    with_line_replaced,
    with_pending_lines,
)
from summaries.domain.policy import CompactionPolicy
from summaries.domain.projects import EventKind, free_name, is_generated_name, one_line, propose_name
from summaries.models import Document, DocumentVersion, Project, ProjectEvent

MAX_BACKUPS: Final = 3
"""Texts from before a compaction that are offered as backups; all versions are kept."""

COMPACT_KIND: Final = "compact"
"""Name of the job that compacts a document."""

EVENT_KINDS: Final[Mapping[DocumentKind, EventKind]] = {
    DocumentKind.COMPACTION: EventKind.COMPACT,
    DocumentKind.RESTORE: EventKind.RESTORE,
    DocumentKind.SYNC: EventKind.SYNC,
}

TRUSTED_KINDS: Final = (DocumentKind.EDIT, DocumentKind.SYNC)
"""Kinds of changes whose new lines a trusted writer wrote; the others repeat existing lines."""


class DocumentTooLong(DomainError, ValueError):
    """The document would be longer than MAX_DOCUMENT_LENGTH."""

    code = "document_too_long"
    field = "text"


class DocumentAlreadyExists(DomainError):
    """The document exists already."""


class DocumentNotEmpty(DomainError):
    """The document has content, so it can only be deleted with its project."""


class DocumentExists(VersionMismatch):
    """A document of this name exists, but a new one was to be created."""

    def __init__(self, current: int) -> None:
        super().__init__(current, _("The project has this document already."))


def check_length(text: str) -> None:
    if len(text) > MAX_DOCUMENT_LENGTH:
        raise DocumentTooLong(
            format_lazy(_("A document has at most {most} characters."), most=format(MAX_DOCUMENT_LENGTH, ","))
        )


def find_document(*, project: Project, name: str) -> Document:
    """Return a project's document; raises BadDocumentName, UnknownRow."""
    check_document_name(name)
    document = project.current_documents.filter(name=name).first()
    if document is None:
        raise UnknownRow(format_lazy(_("The project has no {name} yet."), name=name))
    return document


def read_document(*, project: Project, name: str, now: datetime) -> Document:
    """Return a project's document and note that it was read; raises BadDocumentName, UnknownRow."""
    document = find_document(project=project, name=name)
    with note_of_a_read(), transaction.atomic():
        hold_project(project)
        _record_event(document, EventKind.READ, "read", now)
    return document


def _record_event(document: Document, kind: EventKind, outcome: str, now: datetime, **more: Any) -> None:
    """Record an event of a document; its project is loaded."""
    details = {"document_id": str(document.pk), "version": document.version, **more}
    note_event(
        actor=document.project.actor,
        project=document.project,
        kind=kind,
        tokens=document.token_count,
        outcome=outcome,
        details=details,
        now=now,
    )


@transaction.atomic
def write_document(
    *,
    document: Document,
    text: str,
    kind: DocumentKind,
    by: Principal,
    reason: str = "",
    now: datetime,
    expected_version: int | None = None,
) -> Document:
    """Replace a document's text, keeping the former as a version; the same text changes nothing.

    Raises VersionMismatch, UnknownRow, DocumentTooLong, and Forbidden for an untrusted key.
    """
    check_trusted(by)
    project, document = _locked_with_project(document, expected_version)
    return _write(project, document, document.name, text, kind, by, reason, now)


@transaction.atomic
def put_document(
    *,
    project: Project,
    name: str,
    text: str,
    kind: DocumentKind = DocumentKind.EDIT,
    by: Principal,
    reason: str = "",
    now: datetime,
    expected_version: int | None = None,
    is_new: bool = False,
    keeps_pending: bool = False,
) -> Document:
    """Write a document by its name, creating it if necessary. Raises as `write_document`, and BadDocumentName.

    With `is_new` it must not exist yet; raises DocumentExists where it does. With `keeps_pending` the untrusted lines,
    which the writer was not shown, stay at the end.
    """
    check_trusted(by)
    check_document_name(name)
    project = locked_project(project)
    document = _document_for_update(project, name, expected_version)
    if document is not None and is_new:
        raise DocumentExists(document.version)
    if document is not None and keeps_pending:
        text = with_pending_lines(text, document.text, pending_digests(document))
    kind = kind if document is not None else DocumentKind.CREATE
    return _write(project, document, name, text, kind, by, reason, now)


@transaction.atomic
def append_entry(
    *,
    project: Project,
    document_name: str,
    text: str,
    pinned: bool = False,
    sources: Mapping[str, Any] | None = None,
    trust: Trust = Trust.TRUSTED,
    by: Principal,
    now: datetime,
    said_at: datetime | None = None,
    expected_version: int | None = None,
) -> Document:
    """Append one line with its provenance to a document, which is created if necessary.

    `sources` is `{"message_ids", "channel"}`, `said_at` the time of the latest of them by its speaker's clock. An
    existing line is not repeated; a trusted source makes it trusted, or pins it in its place. Raises
    BadDocumentName, DocumentTooLong, UnknownRow, VersionMismatch.
    """
    check_document_name(document_name)
    project = locked_project(project)
    trust = trust if by.is_trusted else Trust.UNTRUSTED
    at = said_at or local_time(now, zone_of(project.actor.agent, project.actor))
    screening = Screening(project.actor)
    text = screening.text(text)
    line = entry_line(text, pinned=pinned, document=document_name, at=at)
    entry = {"pinned": pinned, "source": dict(sources or {}), "trust": trust, "created_at": now}
    document = _document_for_update(project, document_name, expected_version)
    if document is not None:
        unpinned = entry_line(text, pinned=False, document=document_name, at=at)
        repeated = _repeat_entry(project, document, line, unpinned, entry, by, now)
        if repeated is not None:
            return repeated
    text = appended(document.text if document else "", line)
    document = _write(project, document, document_name, text, DocumentKind.APPEND, by, "", now)
    screening.record(by=by, row=document, now=now)
    document.entries.update_or_create(actor_id=project.actor_id, text_digest=line_digest(line), defaults=entry)
    return document


def _repeat_entry(
    project: Project,
    document: Document,
    line: str,
    unpinned: str,
    entry: Mapping[str, Any],
    by: Principal,
    now: datetime,
) -> Document | None:
    """Return the document if it has the line, which a trusted source makes trusted or pins; None if it does not."""
    digest, unpinned_digest = line_digest(line), line_digest(unpinned)
    known, is_trusted = set(lines_by_digest(document.text)), entry["trust"] is Trust.TRUSTED
    if digest in known:
        if is_trusted:  # with the trusted writer's provenance
            pending_entries(document, digest).update(**entry)
        return document
    if is_trusted and unpinned_digest in known:
        pending_entries(document, unpinned_digest).update(**entry)
        return _pin_line(project, document, unpinned_digest, line, by, now)
    return None


def _pin_line(
    project: Project, document: Document, unpinned: bytes, line: str, by: Principal, now: datetime
) -> Document:
    """Replace the line of this digest by a pinned one, which keeps its provenance and becomes trusted."""
    pinned = line_digest(line)
    document.entries.filter(text_digest=pinned).delete()
    document.entries.filter(text_digest=unpinned).update(text_digest=pinned, pinned=True, trust=Trust.TRUSTED)
    text = with_line_replaced(document.text, unpinned, line)
    return _write(project, document, document.name, text, DocumentKind.APPEND, by, "", now)


@transaction.atomic
def set_pinned(
    *,
    document: Document,
    digest: bytes,
    is_pinned: bool,
    expected_version: int | None = None,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> Document:
    """Pin or unpin the line of this digest, as an edit of the text. Raises as `write_document`."""
    check_trusted(by)
    project, document = _locked_with_project(document, expected_version)
    former = lines_by_digest(document.text).get(digest)
    if former is None:
        raise UnknownRow(_("The document no longer has this line."))
    line = pinned_line(former, is_pinned=is_pinned)
    text = with_line_replaced(document.text, digest, line)
    document = _write(project, document, document.name, text, DocumentKind.EDIT, by, reason, now)
    document.entries.filter(text_digest=line_digest(line)).update(pinned=is_pinned)
    return document


@transaction.atomic
def restore_document(
    *,
    document: Document,
    number: int,
    expected_version: int | None = None,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> Document:
    """Restore the text of a version. Raises as `write_document`."""
    check_trusted(by)
    project, document = _locked_with_project(document, expected_version)
    version = document.versions.filter(number=number).first()
    if version is None:
        raise UnknownRow(format_lazy(_("No former version {number} of this document."), number=number))
    return _write(project, document, document.name, version.text, DocumentKind.RESTORE, by, reason, now)


def pinnable_lines(document: Document) -> list[tuple[bytes, str, bool]]:
    """Return the lines that are neither headings nor quotes, with their digests, and whether each is pinned."""
    pinned = {bytes(key) for key in document.entries.filter(pinned=True).values_list("text_digest", flat=True)}
    return [
        (digest, line, PIN in line or digest in pinned)
        for digest, line in lines_by_digest(document.text).items()
        if not line.startswith(("#", ">"))
    ]


def backups_of(document: Document) -> list[DocumentVersion]:
    """Return the last texts that a compaction replaced, newest first (SPEC P7)."""
    return list(document.versions.filter(kind=DocumentKind.COMPACTION).order_by("-number")[:MAX_BACKUPS])


def _locked_with_project(document: Document, expected_version: int | None) -> tuple[Project, Document]:
    """Lock and return a document and its project, the project first, to avoid deadlocks."""
    project = locked_project(Project(pk=document.project_id, actor_id=document.actor_id))
    locked = project.current_documents.select_for_update(no_key=True).filter(pk=document.pk).first()
    if locked is None:
        raise UnknownRow(_("No such document."))
    _check_version(locked, expected_version)
    return project, locked


def _document_for_update(project: Project, name: str, expected_version: int | None) -> Document | None:
    """Return the document, locked, or None. Raises VersionMismatch."""
    document = project.current_documents.select_for_update(no_key=True).filter(name=name).first()
    _check_version(document, expected_version)
    return document


def _check_version(document: Document | None, expected_version: int | None) -> None:
    """Raise VersionMismatch for another version than expected; a missing document has version 0."""
    if expected_version is not None and (document is None or document.version != expected_version):
        raise VersionMismatch(document.version if document else 0)


def _write(
    project: Project,
    document: Document | None,
    name: str,
    text: str,
    kind: DocumentKind,
    by: Principal,
    reason: str,
    now: datetime,
) -> Document:
    """Write the text of a document, created if there is none yet, and record the change; the same text changes nothing.

    The project's description follows MEMORY.md, and a compaction is enqueued if due.
    """
    check_active(project)
    text = text.removeprefix("\ufeff")  # Windows editors write a byte order mark
    screening = Screening(project.actor)
    if kind is not DocumentKind.APPEND:  # all but the new line was screened
        text = screening.text(text)
    if document is not None and text == document.text:
        return document
    check_length(text)
    if document is None:
        document = create_document(project=project, name=name, text=text, by=by, reason=reason, now=now)
    else:
        if kind in TRUSTED_KINDS:
            trust_new_lines(document, text)
        if not text.startswith(document.text):
            forget_answers(actor=project.actor, row_ids=[document.pk])
        replace_text(document, text, kind=kind, by=by, reason=reason, now=now)
    description = description_in(text) if name == MEMORY else ""
    if description and description != project.description:
        _set_description(project, description, now)
    audit.record(by=by, verb=kind, row=document, actor=project.actor, reason=reason, now=now)
    screening.record(by=by, row=document, now=now)
    document.project = project
    _record_event(document, EVENT_KINDS.get(kind, EventKind.UPDATE), kind, now)
    enqueue_compaction_if_due(document=document, now=now)
    return document


def enqueue_compaction_if_due(*, document: Document, now: datetime) -> None:
    """Enqueue the compaction of a document that passed its limit; after a refusal, a day later."""
    if document.name not in COMPACTED:
        return
    actor = document.project.actor
    limit = effective_policy(CompactionPolicy, actor.agent, actor).limit
    if document.token_count <= limit:
        return
    rows = ProjectEvent.objects.filter(
        actor_id=document.actor_id, project_id=document.project_id, kind=EventKind.COMPACT
    )
    rows = rows.filter(details__document_id=str(document.pk))
    last = rows.order_by("-created_at", "-id").first()
    if settings.LLM.provider == "none":
        if last is None or last.outcome != Outcome.NO_MODEL:
            note_outcome(document=document, outcome=Outcome.NO_MODEL, now=now)
    elif not (
        last and last.outcome in (Outcome.REFUSED, Outcome.TOO_MUCH_PROTECTED) and last.created_at > now - FOLLOW_UP
    ):
        payload = {"document_id": str(document.pk)}
        enqueue(COMPACT_KIND, actor_id=document.actor_id, key=str(document.pk), payload=payload)


def note_outcome(*, document: Document, outcome: Outcome, missing: int = 0, now: datetime) -> None:
    """Record the outcome of a compaction that changed nothing; one that did is recorded like any new text."""
    _record_event(document, EventKind.COMPACT, outcome, now, missing=missing)


@transaction.atomic
def add_document(
    *, project: Project, name: str = "", topic: str = "", by: Principal, reason: str = "", now: datetime
) -> Document:
    """Create an empty document with a name, or with a free name derived from a topic.

    Where the name cannot express the topic, for want of Latin letters, the text begins with it.
    Raises DocumentAlreadyExists, BadDocumentName, UnknownRow, Forbidden.
    """
    check_trusted(by)
    project = locked_project(project)
    existing = set(project.current_documents.values_list("name", flat=True))
    topic, text = one_line(topic), ""
    if not name:
        topics = {existing_name.removeprefix("detail-").removesuffix(".md") for existing_name in existing}
        name = f"detail-{free_name(propose_name(topic), topics)}.md"
        text = f"# {topic}\n" if topic and is_generated_name(name) else ""
    check_document_name(name)
    if name in existing:
        raise DocumentAlreadyExists(format_lazy(_("The project has a document {name} already."), name=name))
    return put_document(project=project, name=name, text=text, by=by, reason=reason, now=now)


@transaction.atomic
def remove_empty_document(*, document: Document, by: Principal, reason: str = "", now: datetime) -> None:
    """Delete a document that was never written to. Raises DocumentNotEmpty, UnknownRow, Forbidden."""
    check_trusted(by)
    project, locked = _locked_with_project(document, None)
    # A new document is empty, or contains only the topic that its name was derived from.
    topic = locked.text.removeprefix("# ").removesuffix("\n")
    is_topic = locked.text == f"# {topic}\n" and locked.name.startswith(f"detail-{propose_name(topic)}")
    if locked.version > 1 or (locked.text and not (is_topic and is_generated_name(locked.name))):
        raise DocumentNotEmpty(_("This document has been written to; it can be emptied, not removed."))
    audit.record(by=by, verb="delete", row=locked, actor=project.actor, reason=reason, now=now)
    locked.delete()


@transaction.atomic
def delete_document(
    *, document: Document, expected_version: int | None = None, by: Principal, reason: str = "", now: datetime
) -> None:
    """Delete a document; its text is removed from receipts at once.

    The rows stay until `purge_document`, so that this can be undone. Raises ProjectArchived, UnknownRow,
    VersionMismatch, Forbidden.
    """
    check_trusted(by)
    project, locked = _locked_with_project(document, expected_version)
    check_active(project)
    forget_texts(locked)
    locked.deleted_at = locked.updated_at = now
    locked.save(update_fields=["deleted_at", "updated_at"])
    audit.record(by=by, verb="delete", row=locked, actor=project.actor, reason=reason, now=now)
    note_event(
        actor=project.actor,
        project=project,
        kind=EventKind.DELETE,
        outcome="deleted",
        details={"document_id": str(locked.pk)},
        undo={},
        now=now,
    )


@transaction.atomic
def undo_project_change(
    *,
    project: Project,
    name: str,
    memory_version: int | None,
    expected_version: int | None,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> Project:
    """Restore a former name, and MEMORY.md with its description. Raises as `change_project`, `restore_document`."""
    project = locked_project(project, expected_version)
    if name != project.name:
        change_project(project=project, values={"name": name}, by=by, reason=reason, now=now)
    if memory_version is not None:
        memory = project.current_documents.filter(name=MEMORY).first()
        if memory is None:
            raise UnknownRow(_("No such document."))
        restore_document(
            document=memory, number=memory_version, expected_version=memory_version + 1, by=by, reason=reason, now=now
        )
        project = locked_project(project)
        memory.refresh_from_db(fields=["text"])
        # A description in the restored text has been adopted already.
        if project.description and not description_in(memory.text):
            _set_description(project, "", now)
    return project


def _set_description(project: Project, description: str, now: datetime) -> None:
    project.description, project.version, project.updated_at = description, project.version + 1, now
    project.save(update_fields=["description", "version", "updated_at"])
