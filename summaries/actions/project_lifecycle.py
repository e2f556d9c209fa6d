"""Lifecycle of projects: archive and reactivate, merge, move entries, undo of these and of deletions, purge.

A merge or move writes versions of documents like any other change. Its event stores which rows and versions it wrote;
`undo_event` reverts these, and leaves later changes.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.actions.receipts import forget_sources
from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow, lock_actor
from memoryhub.auth.principals import Principal
from memoryhub.errors import DomainError
from memoryhub.tenancy.policy import Trust
from summaries.actions.documents import check_length, enqueue_compaction_if_due, find_document
from summaries.actions.entries import pending_digests
from summaries.actions.projects import (
    ProjectExists,
    check_active,
    check_trusted,
    create_document,
    create_project,
    delete_project,
    documents_of,
    locked_project,
    note_event,
    purge_document,
    purge_project,
    replace_text,
)
from summaries.actions.updates import misplaced_entries
from summaries.domain.documents import (
    DocumentKind,
    body_lines,
    check_document_name,
    combined,
    line_digest,
    lines_by_digest,
    reverted,
    without_lines,
)
from summaries.domain.projects import EventKind, ProjectStatus
from summaries.models import Document, DocumentEntry, DocumentVersion, Project, ProjectEvent, RoutingDecision

DELETED_RETENTION: Final = timedelta(days=30)
"""Time for which a deleted project or document can be restored."""

MAX_UNDO_EVENTS: Final = 10
PURGE_BATCH_SIZE: Final = 100


class NotUndoable(DomainError):
    """The event changed nothing that can be undone, was undone before, or has been built upon."""

    code = "not_undoable"


class NothingToMove(DomainError):
    """The document holds none of the lines, or they would be moved to where they are."""

    code = "nothing_to_move"


@dataclass(frozen=True)
class DocumentChange:
    """Effect of a merge or move on one document: numbers of lines that it gains, and that it has already."""

    name: str
    added: int
    repeated: int
    is_new: bool


@dataclass(frozen=True)
class Transfer:
    """Result or preview of a merge or move; the event is None in a preview."""

    source: str
    into: str
    documents: Sequence[DocumentChange]
    routes: int = 0
    corrections: int = 0
    event: ProjectEvent | None = None


@transaction.atomic
def archive_project(*, project: Project, by: Principal, reason: str = "", now: datetime) -> Project:
    """Hide a project from catalogs, routing and contexts, without changing it. Raises UnknownRow, Forbidden."""
    check_trusted(by)
    project = locked_project(project)
    if project.archived_at is None:
        _set_archived(project, now, EventKind.ARCHIVE, by, reason, now)
    return project


@transaction.atomic
def reactivate_project(*, project: Project, by: Principal, reason: str = "", now: datetime) -> Project:
    """Bring an archived project back. Raises ProjectArchived for a merged one, UnknownRow, Forbidden."""
    check_trusted(by)
    project = locked_project(project)
    if project.merged_into_id is not None:
        check_active(project)
    if project.archived_at is not None:
        _set_archived(project, None, EventKind.REACTIVATE, by, reason, now)
    return project


def _set_archived(
    project: Project, at: datetime | None, kind: EventKind, by: Principal, reason: str, now: datetime
) -> None:
    project.archived_at, project.updated_at, project.version = at, now, project.version + 1
    project.save(update_fields=["archived_at", "updated_at", "version"])
    audit.record(by=by, verb=kind, row=project, reason=reason, now=now)
    note_event(actor=project.actor, project=project, kind=kind, now=now)


@transaction.atomic
def merge_projects(
    *, source: Project, into: Project, by: Principal, reason: str = "", now: datetime, dry_run: bool = False
) -> Transfer:
    """Add the entries of a project's documents to another's, with their origins, and archive it.

    Messages that were routed or corrected to it count as the other's from now on. Raises ProjectArchived where either
    is archived, DocumentTooLong, UnknownRow, Forbidden.
    """
    check_trusted(by)
    if source.pk == into.pk:
        raise NothingToMove(_("A project cannot be merged into itself."))
    source, into = _active_pair(source, into)
    transfer = _LineTransfer(into, DocumentKind.MERGE, by, reason, now, dry_run)
    for document in documents_of(source):
        lines = body_lines(document.text, document.name, name=source.name)
        transfer.add(document, lines, document.name)
    routed = RoutingDecision.objects.filter(actor_id=source.actor_id)
    routes, corrections = routed.filter(project=source), routed.filter(corrected_project=source)
    event = None
    if not dry_run:
        merged_earlier = Project.objects.of(source.actor_id).filter(merged_into=source)
        followers = list(merged_earlier.values_list("pk", flat=True))
        merged_earlier.update(merged_into=into)
        source.merged_into = into
        source.save(update_fields=["merged_into"])
        _set_archived(source, now, EventKind.ARCHIVE, by, reason, now)
        undo = {"source": str(source.pk), "followers": [str(key) for key in followers], **transfer.undo}
        event = _record_transfer(source, into, EventKind.MERGE, undo, transfer, by, reason, now)
    counts = (routes.count(), corrections.count())
    return Transfer(source.name, into.name, transfer.changes, *counts, event)


@transaction.atomic
def move_entries(
    *,
    source: Project,
    lines: Mapping[str, Collection[bytes]],
    into: Project | None,
    new_name: str = "",
    document_name: str = "",
    by: Principal,
    reason: str = "",
    now: datetime,
    dry_run: bool = False,
) -> Transfer:
    """Move lines to another project's documents of the same names, or all of them to its `document_name`.

    `lines` are the digests of `line_digest` by document. Without `into`, a project `new_name` is created for them.
    Raises as `merge_projects`, NothingToMove, BadDocumentName, and as `create_project`.
    """
    check_trusted(by)
    created = None
    if into is None:
        created = into = create_project(actor=source.actor, name=new_name, description="", by=by, now=now)
    if source.pk == into.pk:
        raise NothingToMove(_("The entries are in this project already."))
    source, into = _active_pair(source, into)
    transfer = _LineTransfer(into, DocumentKind.MOVE, by, reason, now, dry_run)
    for name, digests in lines.items():
        document, selected = find_document(project=source, name=name), set(digests)
        matches = [line for line in document.text.splitlines() if line.strip() and line_digest(line) in selected]
        if not matches:
            raise NothingToMove(format_lazy(_("{name} has none of these lines."), name=name))
        check_document_name(document_name or name)
        transfer.add(document, matches, document_name or name)
        transfer.write(document, without_lines(document.text, selected))
    if dry_run:
        transaction.set_rollback(created is not None)
        return Transfer(source.name, into.name, transfer.changes)
    undo = {"created": str(created.pk) if created else None, **transfer.undo}
    event = _record_transfer(source, into, EventKind.MOVE, undo, transfer, by, reason, now)
    return Transfer(source.name, into.name, transfer.changes, event=event)


def move_misplaced(
    *,
    decision: RoutingDecision,
    entry_ids: Collection[UUID] | None = None,
    by: Principal,
    reason: str = "",
    now: datetime,
    dry_run: bool = False,
) -> Transfer:
    """Move what a wrong decision caused to the project of its correction; see `misplaced_entries`.

    Raises as `move_entries`.
    """
    entries = misplaced_entries(decision, now=now)
    lines: dict[str, set[bytes]] = {}
    for entry in entries:
        is_there = bytes(entry.text_digest) in lines_by_digest(entry.document.text)
        if is_there and (entry_ids is None or entry.pk in entry_ids):
            lines.setdefault(entry.document.name, set()).add(bytes(entry.text_digest))
    if not lines or decision.project is None or decision.corrected_project is None:
        raise NothingToMove(_("Nothing was written into another project because of this decision."))
    return move_entries(
        source=decision.project,
        lines=lines,
        into=decision.corrected_project,
        by=by,
        reason=reason,
        now=now,
        dry_run=dry_run,
    )


def _locked_pair(one: Project, other: Project) -> tuple[Project, Project]:
    """Return two projects, locked in the order of their ids, to avoid deadlocks."""
    locked = {project.pk: locked_project(project) for project in sorted((one, other), key=lambda project: project.pk)}
    if one.actor_id != other.actor_id:
        raise UnknownRow(_("No such project."))
    return locked[one.pk], locked[other.pk]


def _active_pair(one: Project, other: Project) -> tuple[Project, Project]:
    """Return the two, locked. Raises ProjectArchived where either is archived."""
    pair = _locked_pair(one, other)
    for project in pair:
        check_active(project)
    return pair


def _record_transfer(
    source: Project,
    into: Project,
    kind: EventKind,
    undo: dict[str, Any],
    transfer: "_LineTransfer",
    by: Principal,
    reason: str,
    now: datetime,
) -> ProjectEvent:
    added = sum(change.added for change in transfer.changes)
    details = {"into": str(into.pk), "entries": added}
    audit.record(by=by, verb=kind, row=source, reason=reason, details=details, now=now)
    return note_event(
        actor=source.actor, project=source, kind=kind, outcome=into.name, details=details, undo=undo, now=now
    )


class _LineTransfer:
    """Copies lines with their provenance into the documents of one project; collects what undoes it in `undo`."""

    def __init__(
        self, into: Project, kind: DocumentKind, by: Principal, reason: str, now: datetime, dry_run: bool
    ) -> None:
        self.into, self.dry_run = into, dry_run
        self.change: dict[str, Any] = {"kind": kind, "by": by, "reason": reason, "now": now}
        self.changes: list[DocumentChange] = []
        self.undo: dict[str, list[Any]] = {"documents": [], "entries": [], "trusted": []}

    def add(self, source: Document, lines: Sequence[str], name: str) -> None:
        document = self.into.current_documents.filter(name=name).first()
        former = document.text if document else ""
        text = combined(former, lines, name)
        digests = {line_digest(line) for line in lines if line.strip()}
        known = {line_digest(line) for line in former.splitlines() if line.strip()}
        if text != former or digests & known:
            entries = {line_digest(line) for line in lines if line.strip() and not line.startswith("#")}
            counts = len(entries - known), len(entries & known)
            self.changes.append(DocumentChange(name, *counts, document is None))
        check_length(text)
        if self.dry_run or not digests:
            return
        if document is None:
            change = {name: self.change[name] for name in ("by", "reason", "now")}
            document = create_document(project=self.into, name=name, text=text, **change)
            self._record_change(document, is_new=True)
        else:
            self.write(document, text)
        self._copy_entries(source, document, digests, known)
        enqueue_compaction_if_due(document=document, now=self.change["now"])

    def write(self, document: Document, text: str) -> None:
        if text != document.text and not self.dry_run:
            replace_text(document, text, **self.change)
            self._record_change(document, is_new=False)

    def _record_change(self, document: Document, *, is_new: bool) -> None:
        change = {"id": str(document.pk), "version": document.version, "is_new": is_new}
        self.undo["documents"].append(change)

    def _copy_entries(self, source: Document, target: Document, digests: Set[bytes], known: Set[bytes]) -> None:
        """Copy the provenance of lines; of lines that the target had (`known`), the source may only raise the trust."""
        target_entries = target.entries.all()
        existing = {bytes(entry.text_digest): entry for entry in target_entries.filter(text_digest__in=digests)}
        copies = []
        for row in source.entries.filter(text_digest__in=digests):
            if bytes(row.text_digest) not in existing:
                row.pk, row.document = row._meta.pk.get_default(), target
                copies.append(row)
        created = DocumentEntry.objects.bulk_create(copies)
        self.undo["entries"] += [str(entry.pk) for entry in created]
        untrusted = pending_digests(source)
        lowered = [entry.pk for digest, entry in existing.items() if digest in untrusted - known]
        target_entries.filter(pk__in=lowered).update(trust=Trust.UNTRUSTED)
        raised = [
            entry.pk for digest, entry in existing.items() if entry.trust == Trust.UNTRUSTED and digest not in untrusted
        ]
        target_entries.filter(pk__in=raised).update(trust=Trust.TRUSTED)
        self.undo["trusted"] += [str(key) for key in raised]


@transaction.atomic
def undo_event(*, event: ProjectEvent, by: Principal, reason: str = "", now: datetime) -> Project:
    """Undo a merge, a move or a deletion, and return the project that it was done to.

    What was written since stays. Raises NotUndoable, ProjectExists where the name was taken concurrently, UnknownRow,
    Forbidden.
    """
    check_trusted(by)
    lock_actor(event.actor_id)
    rows = ProjectEvent.objects.select_for_update(of=["self"], no_key=True).filter(actor_id=event.actor_id)
    locked = rows.select_related("actor__agent", "project").filter(pk=event.pk).first()
    if locked is None or locked.undo is None:
        raise NotUndoable(_("Only merges, moves and deletions can be undone here."))
    if locked.undone_at is not None:
        raise NotUndoable(_("This was undone already."))
    if locked.project is None:
        raise NotUndoable(_("The project was deleted permanently."))
    if locked.kind != EventKind.DELETE:
        project = _undo_transfer(locked, by, reason, now)
    elif "document_id" in locked.details:
        project = _undelete_document(locked, now)
    else:
        project = _undelete(locked, now)
    locked.undone_at = now
    locked.save(update_fields=["undone_at"])
    audit.record(by=by, verb="undo", row=project, reason=reason, details={"event": str(event.pk)}, now=now)
    details = {"event_id": str(locked.pk)}
    note_event(actor=project.actor, project=project, kind=EventKind.UNDO, outcome=locked.kind, details=details, now=now)
    return project


def _undelete(event: ProjectEvent, now: datetime) -> Project:
    rows = Project.objects.of(event.actor_id).select_for_update(of=["self"]).select_related("actor__agent")
    project = rows.get(pk__in=[event.project_id])
    message = _("There is another project {name} now; rename that one first.")
    _restore(project, now, ProjectExists(format_lazy(message, name=repr(project.name))))
    return project


def _restore(row: Project | Document, now: datetime, name_taken: DomainError) -> None:
    """Undo the deletion of a row. Raises NotUndoable, and `name_taken` where another has its name by now."""
    if row.deleted_at is None:
        raise NotUndoable(_("It is no longer deleted."))
    if row.deleted_at <= now - DELETED_RETENTION:
        raise NotUndoable(_("A deletion can be undone for 30 days."))
    row.deleted_at, row.updated_at = None, now
    if isinstance(row, Project):
        row.version += 1
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        raise name_taken from error


def _undelete_document(event: ProjectEvent, now: datetime) -> Project:
    assert event.project is not None
    if event.project.status is ProjectStatus.DELETED:
        raise NotUndoable(_("One of the projects was deleted; undo that first."))
    project = locked_project(event.project)
    check_active(project)
    rows = Document.objects.of(event.actor_id).select_for_update()
    document = rows.filter(pk=UUID(event.details["document_id"])).first()
    if document is None:
        raise NotUndoable(_("A deletion can be undone for 30 days."))
    message = _("There is another document {name} in the project now; move or delete that one first.")
    _restore(document, now, NotUndoable(format_lazy(message, name=document.name)))
    return project


def _undo_transfer(event: ProjectEvent, by: Principal, reason: str, now: datetime) -> Project:
    assert event.project is not None
    undo: dict[str, Any] = event.undo or {}
    other = Project.objects.of(event.actor_id).filter(pk=UUID(event.details["into"])).first()
    if other is None or {ProjectStatus.DELETED} & {other.status, event.project.status}:
        raise NotUndoable(_("One of the projects was deleted; undo that first."))
    project, into = _locked_pair(event.project, other)
    is_merge = event.kind == EventKind.MERGE
    if into.archived_at is not None or (project.archived_at is not None and not is_merge):
        raise NotUndoable(_("One of the projects was archived or merged since; undo that first."))
    if is_merge:
        project.merged_into = None
        project.save(update_fields=["merged_into"])
        followers = Project.objects.of(event.actor_id).filter(pk__in=undo["followers"], merged_into=into)
        followers.update(merged_into=project)
        _set_archived(project, None, EventKind.REACTIVATE, by, reason, now)
    entries = DocumentEntry.objects.filter(actor_id=event.actor_id)
    entries.filter(pk__in=undo["trusted"]).update(trust=Trust.UNTRUSTED)
    # Keep pending entries, in case their line is restored.
    entries.filter(pk__in=undo["entries"], trust=Trust.TRUSTED).delete()
    for change in undo["documents"]:
        _revert(event.actor_id, change, by, reason, now)
    if undo.get("created") and not _has_entries(into):
        delete_project(project=into, by=by, reason=reason, now=now)
    return project


def _revert(actor_id: UUID, change: dict[str, Any], by: Principal, reason: str, now: datetime) -> None:
    document = Document.objects.of(actor_id).not_deleted().select_for_update().filter(pk=UUID(change["id"])).first()
    if document is None:
        raise NotUndoable(_("One of its documents was deleted since."))
    versions = DocumentVersion.objects.filter(actor_id=actor_id, document=document)
    texts = dict(versions.filter(number__in=[change["version"] - 1, change["version"]]).values_list("number", "text"))
    before, after = texts[change["version"] - 1], texts.get(change["version"], document.text)
    text = reverted(document.text, before=before, after=after)
    if change["is_new"] and not text.strip():
        forget_sources([document.pk])
        document.delete()
    elif text != document.text:
        replace_text(document, text, kind=DocumentKind.RESTORE, by=by, reason=reason, now=now)


def _has_entries(project: Project) -> bool:
    return any(
        line.strip()
        for document in documents_of(project)
        for line in body_lines(document.text, document.name, name=project.name)
    )


def due_for_purge(*, now: datetime) -> list[partial[None]]:
    """Return the purges of a batch of projects whose retention has ended, or else of documents."""
    due = {"deleted_at__lte": now - DELETED_RETENTION}
    projects = Project.objects.filter(**due)[:PURGE_BATCH_SIZE]
    documents = Document.objects.filter(**due).defer("text")[:PURGE_BATCH_SIZE]
    return [partial(purge_project, project=project) for project in projects] or [
        partial(purge_document, document=document) for document in documents
    ]


def events_to_undo(project: Project) -> list[ProjectEvent]:
    """Return the merges and moves of and into a project, and its deletion, that were not undone, latest first."""
    rows = ProjectEvent.objects.filter(actor_id=project.actor_id, undone_at=None).exclude(undo=None)
    own = rows.filter(project=project) | rows.filter(details__into=str(project.pk))
    return list(own.select_related("project").order_by("-created_at", "-id")[:MAX_UNDO_EVENTS])
