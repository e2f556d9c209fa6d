"""Import documents into projects and update those with a changed file; undo an import."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from conversations.actions.receipts import forget_sources
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Principal
from memoryhub.errors import DomainError, gettext_noop
from memoryhub.importexport.foreign.imports import ImportContext
from memoryhub.importexport.foreign.models import ImportedRow
from memoryhub.importexport.foreign.records import DOCUMENTS, NEW_FILE, ImportedDocument, LocatedRecord
from memoryhub.tenancy.models import Actor
from summaries.actions.documents import delete_document, put_document, restore_document
from summaries.actions.entries import trusted_text
from summaries.actions.projects import create_project, delete_project, documents_of, purge_document, purge_project
from summaries.domain.documents import DocumentKind, check_document_name
from summaries.domain.files import FileStatus, digest_of, sync_status
from summaries.domain.projects import free_name, is_name, propose_name
from summaries.models import Document, Project, ProjectCursor, Summary

DOCUMENT_KIND: Final = "document"
PROJECT_KIND: Final = "project"
CONFLICT_TEXT: Final = gettext_noop("was changed here and in the file; what is here is kept.")
DELETED_TEXT: Final = gettext_noop("was deleted here; it does not come back by a file.")


def write_documents(records: Sequence[LocatedRecord], *, context: ImportContext) -> None:
    """Create new documents, and update those changed in the file alone."""
    actor = context.actor("")
    for located in records:
        if isinstance(record := located.record, ImportedDocument):
            try:
                _write_document(actor, located, record, context)
            except DomainError as error:
                context.refuse(located, str(error))


def _write_document(actor: Actor, located: LocatedRecord, record: ImportedDocument, context: ImportContext) -> None:
    key = sha256("\0".join([context.format, record.project, record.name]).encode()).hexdigest()
    rows = ImportedRow.objects.filter(actor_id=actor.pk, key=key, kind=DOCUMENT_KIND)
    last_import = rows.order_by("-id").first()
    projects = Project.objects.of(actor.pk).not_deleted().select_related("actor__agent")
    project = projects.filter(name=_project_name(record)).first()
    name, document = _find_or_name(project, record, last_import)
    stored = None if document is None else digest_of(trusted_text(document))
    file = digest_of(record.text.removeprefix("\ufeff"))
    bases = [record.base, last_import.details["digest"] if last_import else ""]
    # A file that was added to exported ones has no base.
    base = stored if stored in bases else next((digest for digest in bases if digest not in ("", NEW_FILE)), None)
    status = sync_status(base=base, file=file, stored=stored)
    if status in (FileStatus.SAME, FileStatus.NEWER):
        context.add_known(located)
        return
    if status in (FileStatus.CONFLICT, FileStatus.DOCUMENT_GONE):
        context.refuse(located, CONFLICT_TEXT if document is not None else DELETED_TEXT)
        return
    if project is None:
        project = _create_project(actor, record, context)
        document = _document(project, name=name)
    written = put_document(
        project=project,
        name=name,
        text=record.text,
        kind=DocumentKind.SYNC,
        by=context.by,
        now=context.now,
        expected_version=document.version if document is not None else None,
        keeps_pending=True,
    )
    context.report.made[DOCUMENTS] += 1
    details: dict[str, Any] = {"version": written.version, "digest": file, "created": document is None}
    context.note_row(actor, DOCUMENT_KIND, written.pk, key=key, **details)


def _project_name(record: ImportedDocument) -> str:
    return record.project if is_name(record.project) else propose_name(record.project)


def _find_or_name(
    project: Project | None, record: ImportedDocument, last_import: ImportedRow | None
) -> tuple[str, Document | None]:
    """Return the name under which a document is filed, and the document where there is one."""
    if last_import is not None and (document := _document(project, pk=last_import.row_id)) is not None:
        return document.name, document
    if record.base:
        check_document_name(record.name)
        return record.name, _document(project, name=record.name)
    topic = propose_name(record.name)
    name = f"detail-{topic}.md"
    if (existing := _document(project, name=name)) is None or existing.text == record.text:
        return name, existing
    names = existing.project.current_documents.filter(name__startswith="detail-").values_list("name", flat=True)
    topics = {existing_name.removeprefix("detail-").removesuffix(".md") for existing_name in names}
    return f"detail-{free_name(topic, topics)}.md", None


def _document(project: Project | None, **lookup: Any) -> Document | None:
    return project.current_documents.filter(**lookup).first() if project is not None else None


def _create_project(actor: Actor, record: ImportedDocument, context: ImportContext) -> Project:
    """Create the project of a document; a title that cannot be a name becomes the description."""
    name = _project_name(record)
    description = record.description or ("" if name == record.project else record.project)
    project = create_project(actor=actor, name=name, description=description, by=context.by, now=context.now)
    context.note_row(actor, PROJECT_KIND, project.pk)
    return project


def undo_documents(rows: Sequence[ImportedRow], *, actor: Actor, by: Principal, reason: str, now: datetime) -> int:
    """Delete imported documents, or restore their former texts; return the number of those left unchanged.

    Documents changed since are left, and those of a project that was archived or merged since, which is read only.
    """
    stored = Document.objects.of(actor.pk).not_deleted().filter(project__deleted_at=None)
    documents = stored.select_related("project__actor__agent").in_bulk([row.row_id for row in rows])
    remaining = 0
    for row in rows:
        document = documents.get(row.row_id)
        if document is None:
            continue
        version = row.details["version"]
        if document.version != version or document.project.archived_at is not None:
            remaining += 1
        elif row.details["created"]:
            delete_document(document=document, by=by, reason=reason, now=now)
            purge_document(document=document)
        else:
            restore_document(document=document, number=version - 1, by=by, reason=reason, now=now)
    return remaining


def undo_projects(rows: Sequence[ImportedRow], *, actor: Actor, by: Principal, reason: str, now: datetime) -> int:
    """Delete the projects that an import created, except those with documents that were left."""
    for project in Project.objects.of(actor.pk).not_deleted().filter(pk__in=[row.row_id for row in rows]):
        documents = documents_of(project)
        if len(documents) > 1 or any(document.version > 1 for document in documents):
            continue
        with suppress(UnknownRow):
            delete_project(project=project, by=by, reason=reason, now=now)
            purge_project(project=project)
    return 0


def undo_summaries(
    *,
    actor: Actor,
    sessions: Mapping[UUID, int],
    message_ids: Sequence[UUID],
    by: Principal,
    reason: str,
    now: datetime,
) -> None:
    """Delete the summaries of deleted messages, also from receipts, and reset the cursors of project updates.

    `sessions` as in `conversations.actions.imported_sessions.UNDO_HANDLERS`. An edited summary stays with its session.
    """
    rows = Summary.objects.filter(actor_id=actor.pk, session_id__in=sessions)
    covering = [row for row in rows if row.message_count >= sessions[row.session_id]]
    deleted = [row.pk for row in covering if sessions[row.session_id] == 1 or not row.locked]
    forget_sources(deleted)
    rows.filter(pk__in=deleted).delete()
    for session_id, first in sessions.items():
        if first > 1:
            rows.filter(session_id=session_id, message_count__gte=first).update(message_count=first - 1)
            cursors = ProjectCursor.objects.filter(actor_id=actor.pk, session_id=session_id, read_until__gte=first)
            cursors.update(read_until=first - 1)
