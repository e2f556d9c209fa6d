"""Create, change and delete projects; record their events and sum them by day (SPEC P1, P8).

Days are those of a time zone that the caller gives.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.db.models import Count, Sum
from django.db.models.functions import TruncDate
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.actions.receipts import forget_sources
from memoryhub.api.idempotency import forget_answers
from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow, lock_actor
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.principals import Forbidden, Principal
from memoryhub.auth.screening import Screening
from memoryhub.errors import DomainError
from memoryhub.llm.tokens import count_raw
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import Trust
from memoryhub.zones import day_end, day_start, local_day
from summaries.domain.documents import (
    MEMORY,
    DocumentKind,
    described,
    document_order,
    line_digest,
    with_description,
    with_heading,
)
from summaries.domain.projects import (
    MAX_DESCRIPTION_LENGTH,
    CatalogEntry,
    DayTotals,
    EventCount,
    EventKind,
    catalog,
    check_name,
    is_name,
    one_line,
    totals_by_day,
)
from summaries.models import Document, DocumentVersion, Project, ProjectEvent

# The weakest lock that prevents a deletion; the ORM has no option for it.
LOCK_PROJECT = "SELECT 1 FROM summaries_project WHERE actor_id = %s AND id = %s AND deleted_at IS NULL FOR KEY SHARE"


MAX_DAYS: Final = 366
"""Days of a daily sum, at most."""


class ProjectExists(DomainError):
    """The actor has a project of this name already."""

    code = "project_exists"
    field = "name"


class ProjectArchived(DomainError):
    """An archived project is read only."""

    code = "project_archived"


def check_active(project: Project) -> None:
    if project.archived_at is None:
        return
    if project.merged_into is not None:
        message = _("This project was merged into {name}; write to that one, or undo the merge.")
        raise ProjectArchived(format_lazy(message, name=project.merged_into.name))
    raise ProjectArchived(_("This project is archived; reactivate it to change it."))


def check_trusted(by: Principal) -> None:
    """Raise Forbidden for an untrusted key, since the texts of projects enter prompts."""
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may add entries to a project, but not change its text."))


@transaction.atomic
def create_project(*, actor: Actor, name: str, description: str, by: Principal, now: datetime) -> Project:
    """Create a project with its MEMORY.md. Raises BadProjectName, ProjectExists, UnknownRow, Forbidden."""
    check_trusted(by)
    check_name(name)
    lock_actor(actor.pk)
    description = one_line(Screening(actor).text(description))[:MAX_DESCRIPTION_LENGTH]
    with _unique_name(name):
        project = Project.objects.create(
            actor=actor, name=name, description=description, created_at=now, updated_at=now
        )
    create_document(project=project, name=MEMORY, text=described(name, description), by=by, reason="", now=now)
    audit.record(by=by, verb="create", row=project, actor=actor, now=now)
    note_event(actor=actor, project=project, kind=EventKind.CREATE, outcome="created", now=now)
    return project


@contextmanager
def _unique_name(name: str) -> Iterator[None]:
    """Translate a violated constraint inside the block into ProjectExists."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        raise ProjectExists(format_lazy(_("There is a project {name} already."), name=repr(name))) from error


def create_document(*, project: Project, name: str, text: str, by: Principal, reason: str, now: datetime) -> Document:
    """Create a document of a project that is locked already; it replaces an empty text with the version 0."""
    document = Document(actor_id=project.actor_id, project=project, name=name, version=0, created_at=now)
    return replace_text(document, text, kind=DocumentKind.CREATE, by=by, reason=reason, now=now)


@transaction.atomic
def change_project(
    *,
    project: Project,
    values: Mapping[str, Any],
    expected_version: int | None = None,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> Project:
    """Change name or description, also in MEMORY.md's block quote. Raises as `create_project`, and VersionMismatch."""
    check_trusted(by)
    project = locked_project(project, expected_version)
    check_active(project)
    name = values.get("name", project.name)
    description = Screening(project.actor).text(values.get("description", project.description))
    description = one_line(description)[:MAX_DESCRIPTION_LENGTH]
    if (name, description) == (project.name, project.description):
        return project
    if name != project.name:
        check_name(name)
    former = project.name
    is_new_description = description != project.description
    project.name, project.description = name, description
    project.version, project.updated_at = project.version + 1, now
    with _unique_name(name):
        project.save()
    memory = project.current_documents.filter(name=MEMORY).first()
    if memory is not None:
        text = with_heading(memory.text, former, name)
        text = with_description(text, name, description) if is_new_description else text
        if text != memory.text:
            replace_text(memory, text, kind=DocumentKind.EDIT, by=by, reason=reason, now=now)
    elif is_new_description:
        text = described(name, description)
        create_document(project=project, name=MEMORY, text=text, by=by, reason=reason, now=now)
    audit.record(by=by, verb="update", row=project, reason=reason, now=now)
    note_event(actor=project.actor, project=project, kind=EventKind.UPDATE, outcome="changed", now=now)
    return project


def locked_project(project: Project, expected_version: int | None = None) -> Project:
    """Return a project's row, locked, its actor and agent loaded; raises UnknownRow, VersionMismatch."""
    lock_actor(project.actor_id)
    rows = Project.objects.of(project.actor_id).not_deleted().select_related("actor__agent")
    locked = rows.select_for_update(of=["self"], no_key=True).filter(pk=project.pk).first()
    if locked is None:
        raise UnknownRow(_("No such project."))
    if expected_version is not None and locked.version != expected_version:
        raise VersionMismatch(locked.version)
    return locked


def hold_project(project: Project) -> None:
    """Lock a project against deletion until the transaction ends; raises UnknownRow where it was deleted."""
    lock_actor(project.actor_id)
    with connection.cursor() as cursor:
        cursor.execute(LOCK_PROJECT, [project.actor_id, project.pk])
        if cursor.fetchone() is None:
            raise UnknownRow(_("No such project."))


def replace_text(
    document: Document, text: str, *, kind: DocumentKind, by: Principal, reason: str, now: datetime
) -> Document:
    """Replace the text of a document whose project is locked, keeping the former as a version."""
    former = DocumentVersion(
        actor_id=document.actor_id,
        document=document,
        number=document.version,
        text=document.text,
        kind=kind,
        **DocumentVersion.made(by, reason, now),
    )
    document.text = text
    document.version += 1
    document.token_count = count_raw(text)
    document.updated_at = now
    document.save()
    former.save()
    note_lines(document)
    return document


def note_lines(document: Document) -> None:
    """Note which untrusted entries the text of a document has: only these wait for a person."""
    rows = document.entries.filter(actor_id=document.actor_id, trust=Trust.UNTRUSTED)
    entries = list(rows.values_list("pk", "text_digest", "in_text"))
    if not entries:
        return
    lines = {line_digest(line) for line in document.text.splitlines()}
    for is_there in (True, False):
        changed = [
            pk for pk, digest, noted in entries if (bytes(digest) in lines) is is_there and noted is not is_there
        ]
        if changed:
            rows.filter(pk__in=changed).update(in_text=is_there)


@transaction.atomic
def delete_project(
    *, project: Project, expected_version: int | None = None, by: Principal, reason: str = "", now: datetime
) -> None:
    """Delete a project with its documents; their texts are removed from receipts at once.

    The rows stay until `purge_project`, so that this can be undone; decisions and events stay for good.
    Raises UnknownRow, VersionMismatch, Forbidden.
    """
    check_trusted(by)
    project = locked_project(project, expected_version)
    actor = project.actor
    _forget_texts(project)
    project.deleted_at = project.updated_at = now
    project.version += 1
    project.save(update_fields=["deleted_at", "updated_at", "version"])
    audit.record(by=by, verb="delete", row=project, actor=actor, reason=reason, now=now)
    note_event(actor=actor, project=project, kind=EventKind.DELETE, outcome="deleted", undo={}, now=now)


def _forget_texts(project: Project) -> None:
    """Remove the texts of a project's documents from receipts and from stored answers."""
    for document in project.documents.defer("text"):
        forget_texts(document)
    forget_answers(actor=project.actor, row_ids=[project.pk])


def forget_texts(document: Document) -> None:
    """Remove a document's text from receipts and from stored answers."""
    forget_sources([document.pk])
    forget_answers(actor=document.project.actor, row_ids=[document.pk])


@transaction.atomic
def purge_project(*, project: Project) -> None:
    """Delete a project's rows for good, some time after `delete_project`."""
    rows = Project.objects.of(project.actor_id).select_for_update().exclude(deleted_at=None)
    if (row := rows.select_related("actor").filter(pk=project.pk).first()) is not None:
        _forget_texts(row)
        row.delete()


@transaction.atomic
def purge_document(*, document: Document) -> None:
    """Delete a document's rows for good, some time after `delete_document`."""
    rows = Document.objects.of(document.actor_id).select_for_update(of=["self"]).exclude(deleted_at=None)
    if (row := rows.select_related("project__actor").filter(pk=document.pk).first()) is not None:
        forget_texts(row)
        row.delete()


def note_event(
    *,
    actor: Actor,
    project: Project | None,
    kind: EventKind,
    tokens: int = 0,
    outcome: str = "",
    details: Mapping[str, Any] | None = None,
    undo: Mapping[str, Any] | None = None,
    now: datetime,
) -> ProjectEvent:
    """Record an event of a project; `details` and `undo` hold ids and numbers, never a text."""
    return ProjectEvent.objects.create(
        actor=actor, project=project, project_name=project.name if project else "", kind=kind, tokens=tokens,
        outcome=outcome, details=dict(details or {}), undo=undo, created_at=now,
    )  # fmt: skip


def project_named(*, actor_id: UUID, name: str) -> Project:
    """Return an actor's project; raises UnknownRow, without the name, which may be any text."""
    rows = Project.objects.of(actor_id).not_deleted().select_related("actor__agent", "merged_into")
    project = rows.filter(name=name).first() if is_name(name) else None
    if project is None:
        raise UnknownRow(_("No project of this name."))
    return project


def active_project(*, actor_id: UUID, name: str) -> Project | None:
    """Return the active project of this name, for contexts and updates; for a merged one, its target.

    None where there is none, or where it is archived.
    """
    rows = Project.objects.of(actor_id).not_deleted().filter(name=name)
    keys = rows.values_list("pk", "merged_into_id").first() if is_name(name) else None
    if keys is None:
        return None
    active = Project.objects.of(actor_id).active().select_related("actor__agent")
    return active.filter(pk=keys[1] or keys[0]).first()


def catalog_of(*, actor_id: UUID) -> str:
    """Return the numbered list of an actor's projects (SPEC P2)."""
    rows = Project.objects.of(actor_id).active().order_by("name").values_list("name", "description")
    return catalog((CatalogEntry(*row) for row in rows), count_raw)


def documents_of(project: Project) -> list[Document]:
    """Return a project's documents, MEMORY.md first."""
    return sorted(project.current_documents, key=lambda row: document_order(row.name))


def daily_events(*, actor_id: UUID, days: int, now: datetime, project: str | None = None, zone: tzinfo = UTC) -> Any:
    """Return the number of events and tokens by day, project and kind; the latest days first."""
    today = local_day(now, zone)
    names = ("day", "project_name", "kind")
    rows = _daily_counts(actor_id, today - timedelta(days=days - 1), today, project, zone, *names)
    return rows.order_by("-day", "project_name", "kind")


def daily_totals(
    *, actor_id: UUID, first: date, last: date, project: str | None = None, zone: tzinfo = UTC
) -> list[DayTotals]:
    """Return the totals of each day with events from the first to the last, the latest first."""
    names = ("day", "project_name", "kind", "outcome")
    rows = _daily_counts(actor_id, first, last, project, zone, *names).order_by(*names)
    return totals_by_day(EventCount(*row) for row in rows.values_list(*names, "times", "all_tokens"))


def _daily_counts(actor_id: UUID, first: date, last: date, project: str | None, zone: tzinfo, *names: str) -> Any:
    begin, end = day_start(first, zone), day_end(last, zone)
    rows = ProjectEvent.objects.filter(actor_id=actor_id, created_at__gte=begin, created_at__lt=end)
    if project is not None:
        rows = rows.filter(project_name=project)
    days: Any = rows.order_by().annotate(day=TruncDate("created_at", tzinfo=zone))
    return days.values(*names).annotate(times=Count("id"), all_tokens=Sum("tokens"))
