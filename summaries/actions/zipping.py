"""A project's files in one archive, as an export writes them into a tree (SPEC P9)."""

from datetime import datetime
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

from django.db import transaction

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from summaries.actions.documents import backups_of, believed_text
from summaries.actions.projects import documents_of, hold_project, note_event
from summaries.actions.trees import Known, file_text
from summaries.domain.projects import EventKind
from summaries.domain.tree import FOLDER, MANIFEST, Manifest, backup_name, digest_of
from summaries.models import Document, Project


@transaction.atomic
def zip_project(*, project: Project, by: Principal, now: datetime) -> bytes:
    """Return an archive with a project's documents, backups and manifest; the actor of the project is loaded.

    What nobody believes stays out, as in a tree. Raises UnknownRow where the project is gone.
    """
    hold_project(project)
    known, files = Known(Manifest(project.actor.agent_id, project.actor.user_id)), BytesIO()
    with ZipFile(files, "w", ZIP_DEFLATED) as archive:
        for document in documents_of(project):
            document.project = project
            for name, text in _files(document, known).items():
                archive.writestr(f"{FOLDER}/{project.name}/{name}", text)
        archive.writestr(f"{FOLDER}/{MANIFEST}", known.manifest.dumped())
    note_event(actor=project.actor, project=project, kind=EventKind.EXPORT, outcome="exported", now=now)
    audit.record(
        by=by, verb="export", object_kind="project", object_id=project.pk, actor=project.actor, now=now
    )
    return files.getvalue()


def _files(document: Document, known: Known) -> dict[str, str]:
    text = file_text(document)
    known.note(document, digest_of(text))
    files = {document.name: text}
    for version in backups_of(document):
        former = Document(pk=document.pk, actor_id=document.actor_id, text=version.text)
        files[backup_name(document.name, version.created_at)] = believed_text(former)
    return files
