"""Writing an actor's projects into a directory tree, for agents that read files (SPEC P9)."""

import re
from datetime import datetime
from pathlib import Path
from typing import Final

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.tenancy.models import Actor
from summaries.actions.documents import backups_of, believed_text
from summaries.actions.files import EditedMeanwhile, Folder, Unusable
from summaries.actions.projects import documents_of, note_event
from summaries.actions.trees import Known, Told, file_text, opened
from summaries.domain.projects import EventKind
from summaries.domain.tree import BACKUP, Verdict, backup_name, digest_of, on_export
from summaries.models import Document, Project

_STAMP: Final = re.compile(r"\d{8}T\d{12}Z")


def export_projects(*, actor: Actor, root: Path, by: Principal, now: datetime) -> list[Told]:
    """Write an actor's projects into `root`/projects and tell of each document.

    A file that somebody changed since the last export is left as it is, and told. Raises Unusable, BadManifest,
    TreeOfAnother.
    """
    told: list[Told] = []
    with opened(root, actor, make=True) as (tree, known):
        projects = list(Project.objects.of(actor.pk).select_related("actor__agent").order_by("name"))
        for project in projects:
            told += _project(project, tree, known)
            note_event(actor=actor, project=project, kind=EventKind.EXPORT, outcome="exported", now=now)
        gone = set(known.projects) - {project.name for project in projects}
        told += [Told(name, verdict=Verdict.DOCUMENT_GONE) for name in sorted(gone)]
    audit.record(
        by=by,
        verb="export",
        object_kind="projects",
        actor=actor,
        details={"projects": len(projects)},
        now=now,
    )
    return told


def _project(project: Project, tree: Folder, known: Known) -> list[Told]:
    try:
        with tree.folder(project.name, make=True) as folder:
            documents = documents_of(project)
            return [_told(project, document, folder, known) for document in documents]
    except Unusable as error:
        return [Told(project.name, why=str(error))]


def _told(project: Project, document: Document, folder: Folder, known: Known) -> Told:
    document.project = project
    try:
        verdict = _written(document, folder, known)
        _write_backups(document, folder)
        return Told(project.name, document.name, verdict)
    except EditedMeanwhile:
        return Told(project.name, document.name, Verdict.CONFLICT)
    except Unusable as error:
        return Told(project.name, document.name, why=str(error))


def _written(document: Document, folder: Folder, known: Known) -> Verdict:
    text, lies = file_text(document), folder.read(document.name)
    file, stored = digest_of(lies) if lies is not None else None, digest_of(text)
    verdict = on_export(base=known.base(document.project.name, document.name), file=file, stored=stored)
    if verdict is Verdict.WRITE:
        folder.write(document.name, text, expected=file)
    if verdict in (Verdict.WRITE, Verdict.SAME):
        known.note(document, stored)
    return verdict


def _write_backups(document: Document, folder: Folder) -> None:
    """Write the last texts from before a compaction beside the document, and remove older ones."""
    wanted = {
        backup_name(document.name, version.created_at): version.text for version in backups_of(document)
    }
    for name, text in wanted.items():
        if folder.read(name) is None:
            former = Document(pk=document.pk, actor_id=document.actor_id, text=text)
            folder.write(name, believed_text(former), expected=None)
    for name in folder.names():
        stamp = name.removeprefix(f"{document.name}{BACKUP}")
        if name not in wanted and stamp != name and _STAMP.fullmatch(stamp):
            folder.remove(name)
