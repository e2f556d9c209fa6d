"""Taking over what somebody changed in a tree of exported projects (SPEC P9).

A file arrives as a version where it alone was changed. Where both sides were, that is told and nothing is written; a
file that is gone takes no document with it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from django.db import transaction

from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.tenancy.models import Actor
from summaries.actions.documents import DocumentTooLong, put_document
from summaries.actions.files import Folder, Unusable
from summaries.actions.projects import ProjectExists, create_project, documents_of, locked_project
from summaries.actions.trees import Known, Told, file_text, opened
from summaries.domain.documents import line_digest, without_lines
from summaries.domain.projects import (
    MEMORY,
    BadDocumentName,
    BadProjectName,
    DocumentKind,
    check_document_name,
    check_name,
    description_in,
)
from summaries.domain.tree import Verdict, digest_of, is_backup, on_sync, with_hidden
from summaries.models import Document, Project

TAKEN: Final = (Verdict.EDITED, Verdict.NEW)


@dataclass(frozen=True)
class Syncing:
    """For whom, by whom and when; a dry run only tells."""

    actor: Actor
    by: Principal
    now: datetime
    dry_run: bool = False


def sync_projects(*, syncing: Syncing, root: Path) -> list[Told]:
    """Take over what was changed in `root`/projects and tell of every file; in a dry run, of what would happen.

    Raises Unusable, BadManifest, TreeOfAnother, and FileNotFoundError where there is no such tree.
    """
    told: list[Told] = []
    with opened(root, syncing.actor, make=False, keep=not syncing.dry_run) as (tree, known):
        found = Project.objects.of(syncing.actor.pk).select_related("actor__agent")
        projects = {project.name: project for project in found}
        names = [name for name in tree.names() if not name.startswith(".")]
        for name in names:
            told += _folder(syncing, name, projects.get(name), tree, known)
        for name in sorted({*projects, *known.projects} - set(names)):
            told += _without_files(name, projects.get(name), known)
    return told


def _without_files(name: str, project: Project | None, known: Known) -> Iterator[Told]:
    """Tell of documents whose folder is not there."""
    documents = [each.name for each in documents_of(project)] if project else []
    for document in sorted({*documents, *known.named(name)}):
        is_known = known.base(name, document) is not None
        verdict = Verdict.FILE_GONE if is_known else Verdict.NEWER
        if project or is_known:
            yield Told(name, document, verdict if project else Verdict.DOCUMENT_GONE)


def _folder(syncing: Syncing, name: str, project: Project | None, tree: Folder, known: Known) -> list[Told]:
    try:
        check_name(name)
        with tree.folder(name) as folder:
            return _documents(syncing, name, project, folder, known)
    except (BadProjectName, Unusable, FileNotFoundError) as error:
        return [Told(name, why=str(error) or "it is gone")]


def _documents(
    syncing: Syncing, name: str, project: Project | None, folder: Folder, known: Known
) -> list[Told]:
    stored = {document.name: document for document in documents_of(project)} if project else {}
    files = [each for each in folder.names() if not is_backup(each) and not each.startswith(".")]
    told: list[Told] = []
    for file in sorted({*files, *stored, *known.named(name)}, key=lambda each: (each != MEMORY, each)):
        one, project = _document(syncing, _Place(name, file, folder, known), project, stored.get(file))
        told.append(one)
    return told


@dataclass(frozen=True)
class _Place:
    """Where a file lies, or should."""

    project: str
    name: str
    folder: Folder
    known: Known

    @property
    def base(self) -> str | None:
        """Return the digest of what was exported last."""
        return self.known.base(self.project, self.name)


def _document(
    syncing: Syncing, place: _Place, project: Project | None, document: Document | None
) -> tuple[Told, Project | None]:
    """Deal with one file; also return its project, which may be new."""
    try:
        check_document_name(place.name)
        text = place.folder.read(place.name)
        verdict = _verdict(place, project, document, text)
        if text is not None and verdict in TAKEN and not syncing.dry_run:
            taken = _take(syncing, place, project, document, text)
            place.known.note(taken, digest_of(text))
            project = taken.project
        elif text is not None and verdict is Verdict.SAME and document is not None:
            place.known.note(document, digest_of(text))
    except VersionMismatch:
        return Told(place.project, place.name, Verdict.CONFLICT), project
    except (BadDocumentName, Unusable, DocumentTooLong, ProjectExists, UnknownRow) as error:
        return Told(place.project, place.name, why=str(error)), project
    return Told(place.project, place.name, verdict), project


def _verdict(place: _Place, project: Project | None, document: Document | None, text: str | None) -> Verdict:
    file = digest_of(text) if text is not None else None
    stored = digest_of(file_text(document)) if document else None
    verdict = on_sync(base=place.base, file=file, stored=stored)
    # A project that was deleted here does not come back by a file that somebody adds to its folder.
    if verdict is Verdict.NEW and project is None and place.known.has(place.project):
        return Verdict.DOCUMENT_GONE
    return verdict


@transaction.atomic
def _take(
    syncing: Syncing, place: _Place, project: Project | None, document: Document | None, text: str
) -> Document:
    """Write a file's text as a version of its document, with the lines behind it that the file was not given.

    Raises VersionMismatch where somebody changed, or made, the document since it was looked at.
    """
    if project is None:
        project, document = _new_project(syncing, place, text)
    elif document is None:
        project = locked_project(project)
        if Document.objects.of(project.actor_id).filter(project=project, name=place.name).exists():
            raise VersionMismatch(1)
    return put_document(
        project=project, name=place.name, text=with_hidden(text, _hidden(document)), kind=DocumentKind.SYNC,
        by=syncing.by, now=syncing.now, expected_version=document.version if document else None,
    )  # fmt: skip


def _new_project(syncing: Syncing, place: _Place, text: str) -> tuple[Project, Document | None]:
    """Create a project as its folder is called; also return the document that it has from the first, if it is meant."""
    description = description_in(text) if place.name == MEMORY else ""
    project = create_project(
        actor=syncing.actor, name=place.project, description=description, by=syncing.by, now=syncing.now
    )
    return project, next((each for each in documents_of(project) if each.name == place.name), None)


def _hidden(document: Document | None) -> str:
    """Return the lines of a document that nobody believes yet, which its file does not hold."""
    if document is None:
        return ""
    seen = {line_digest(line) for line in file_text(document).splitlines()}
    return without_lines(document.text, seen)
