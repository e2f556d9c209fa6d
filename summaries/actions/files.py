"""What an export and a sync tell of each file, and the manifest by which they know what was exported."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

from django.db import transaction

from memoryhub.auth import audit
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.tenancy.models import Actor
from summaries.actions.documents import DocumentTooLong, backups_of, put_document, trusted_text
from summaries.actions.folder import EditedMeanwhile, Folder, UnusableFile
from summaries.actions.projects import (
    ProjectExists,
    create_project,
    documents_of,
    hold_project,
    locked_project,
    note_event,
)
from summaries.domain.documents import (
    MEMORY,
    BadDocumentName,
    DocumentKind,
    check_document_name,
    description_in,
    line_digest,
    without_lines,
)
from summaries.domain.files import (
    BACKUP,
    FOLDER,
    MANIFEST,
    Exported,
    FileStatus,
    Manifest,
    backup_name,
    digest_of,
    export_status,
    is_backup,
    manifest_of,
    sync_status,
    with_untrusted_lines,
)
from summaries.domain.projects import BadProjectName, EventKind, check_name, one_line
from summaries.models import Document, Project

LONGEST_SHOWN: Final = 80
PROBLEMS: Final = frozenset({FileStatus.CONFLICT})


@dataclass(frozen=True)
class FileReport:
    """What became of one file, or of a whole folder; without a verdict it was refused, and `why` tells the reason."""

    project: str
    document: str = ""
    verdict: FileStatus | None = None
    why: str = ""

    @property
    def is_problem(self) -> bool:
        """Whether somebody must look at it: nothing was read or written."""
        return self.verdict is None or self.verdict in PROBLEMS

    @property
    def path(self) -> str:
        """Return where it lies in the tree, fit to be printed."""
        return "/".join(shown(part) for part in (FOLDER, self.project, self.document) if part)


def shown(name: str) -> str:
    """Return a file's name as it can be printed: it may be of any bytes."""
    line = one_line(name.encode("utf-8", "replace").decode())
    return line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]}…"


class ForeignTree(Exception):
    """The folder holds the projects of another agent or user."""


def whose_tree(root: Path) -> Manifest | None:
    """Return the manifest of a tree, None where it has none. Raises Unusable, BadManifest."""
    with Folder.at(root) as top:
        try:
            with top.folder(FOLDER) as tree:
                return _manifest(tree)
        except FileNotFoundError:
            return None


def _manifest(tree: Folder) -> Manifest | None:
    text = tree.read(MANIFEST)
    return manifest_of(text) if text is not None else None


@contextmanager
def opened(
    root: Path, actor: Actor, *, make: bool, keep: bool = True
) -> Iterator[tuple[Folder, "ManifestEditor"]]:
    """Open an actor's tree; what is known of it is written back at the end, also where it ends early.

    Raises Unusable, BadManifest, TreeOfAnother, FileNotFoundError.
    """
    with Folder.at(root, make=make) as top, top.folder(FOLDER, make=make) as tree:
        found = _manifest(tree)
        if found is not None and (found.agent_id, found.user_id) != (actor.agent_id, actor.user_id):
            raise ForeignTree("This folder holds the projects of another agent or user.")
        known = ManifestEditor(found or Manifest(actor.agent_id, actor.user_id))
        try:
            yield tree, known
        finally:
            if keep and known.manifest != found:
                old = digest_of(found.dumped()) if found else None
                _write_manifest(tree, known.manifest.dumped(), old)


def _write_manifest(tree: Folder, text: str, old: str | None) -> None:
    try:
        tree.write(MANIFEST, text, expected=old)
    except EditedMeanwhile as error:
        raise UnusableFile("somebody changed the manifest meanwhile") from error


class ManifestEditor:
    """The manifest as it changes."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    def base(self, project: str, document: str) -> str | None:
        """Return the digest of what was exported last."""
        return self.manifest.base(project, document)

    def note(self, document: Document, digest: str) -> None:
        """Note what the file of a document holds, and that it is this version."""
        key = (document.project.name, document.name)
        documents = {**self.manifest.documents, key: Exported(document.version, digest)}
        self.manifest = replace(self.manifest, documents=documents)

    def has(self, project: str) -> bool:
        """Say whether any of a project's documents was exported."""
        return any(name == project for name, _ in self.manifest.documents)

    def named(self, project: str) -> list[str]:
        """Return which of a project's documents were exported."""
        return sorted(document for name, document in self.manifest.documents if name == project)

    @property
    def projects(self) -> list[str]:
        """Return the projects of which anything was exported."""
        return sorted({name for name, _ in self.manifest.documents})


def file_text(document: Document) -> str:
    """Return what a file of a document says: no entry that nobody believes, for agents read it as it stands."""
    return trusted_text(document)


_STAMP: Final = re.compile(r"\d{8}T\d{12}Z")


def export_projects(*, actor: Actor, root: Path, by: Principal, now: datetime) -> list[FileReport]:
    """Write an actor's projects into `root`/projects and tell of each document.

    A file that somebody changed since the last export is left as it is, and told. Raises Unusable, BadManifest,
    TreeOfAnother.
    """
    told: list[FileReport] = []
    with opened(root, actor, make=True) as (tree, known):
        projects = list(Project.objects.of(actor.pk).select_related("actor__agent").order_by("name"))
        for project in projects:
            told += _project(project, tree, known)
            note_event(actor=actor, project=project, kind=EventKind.EXPORT, outcome="exported", now=now)
        gone = set(known.projects) - {project.name for project in projects}
        told += [FileReport(name, verdict=FileStatus.DOCUMENT_GONE) for name in sorted(gone)]
    audit.record(
        by=by,
        verb="export",
        object_kind="projects",
        actor=actor,
        details={"projects": len(projects)},
        now=now,
    )
    return told


def _project(project: Project, tree: Folder, known: ManifestEditor) -> list[FileReport]:
    try:
        with tree.folder(project.name, make=True) as folder:
            documents = documents_of(project)
            return [_told(project, document, folder, known) for document in documents]
    except UnusableFile as error:
        return [FileReport(project.name, why=str(error))]


def _told(project: Project, document: Document, folder: Folder, known: ManifestEditor) -> FileReport:
    document.project = project
    try:
        verdict = _written(document, folder, known)
        _write_backups(document, folder)
        return FileReport(project.name, document.name, verdict)
    except EditedMeanwhile:
        return FileReport(project.name, document.name, FileStatus.CONFLICT)
    except UnusableFile as error:
        return FileReport(project.name, document.name, why=str(error))


def _written(document: Document, folder: Folder, known: ManifestEditor) -> FileStatus:
    text, lies = file_text(document), folder.read(document.name)
    file, stored = digest_of(lies) if lies is not None else None, digest_of(text)
    verdict = export_status(base=known.base(document.project.name, document.name), file=file, stored=stored)
    if verdict is FileStatus.WRITE:
        folder.write(document.name, text, expected=file)
    if verdict in (FileStatus.WRITE, FileStatus.SAME):
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
            folder.write(name, trusted_text(former), expected=None)
    for name in folder.names():
        stamp = name.removeprefix(f"{document.name}{BACKUP}")
        if name not in wanted and stamp != name and _STAMP.fullmatch(stamp):
            folder.remove(name)


@transaction.atomic
def zip_project(*, project: Project, by: Principal, now: datetime) -> bytes:
    """Return an archive with a project's documents, backups and manifest; the actor of the project is loaded.

    What nobody believes stays out, as in a tree. Raises UnknownRow where the project is gone.
    """
    hold_project(project)
    known, files = ManifestEditor(Manifest(project.actor.agent_id, project.actor.user_id)), BytesIO()
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


def _files(document: Document, known: ManifestEditor) -> dict[str, str]:
    text = file_text(document)
    known.note(document, digest_of(text))
    files = {document.name: text}
    for version in backups_of(document):
        former = Document(pk=document.pk, actor_id=document.actor_id, text=version.text)
        files[backup_name(document.name, version.created_at)] = trusted_text(former)
    return files


TAKEN: Final = (FileStatus.EDITED, FileStatus.NEW)


@dataclass(frozen=True)
class SyncContext:
    """For whom, by whom and when; a dry run only tells."""

    actor: Actor
    by: Principal
    now: datetime
    dry_run: bool = False


def sync_projects(*, syncing: SyncContext, root: Path) -> list[FileReport]:
    """Take over what was changed in `root`/projects and tell of every file; in a dry run, of what would happen.

    Raises Unusable, BadManifest, TreeOfAnother, and FileNotFoundError where there is no such tree.
    """
    told: list[FileReport] = []
    with opened(root, syncing.actor, make=False, keep=not syncing.dry_run) as (tree, known):
        found = Project.objects.of(syncing.actor.pk).select_related("actor__agent")
        projects = {project.name: project for project in found}
        names = [name for name in tree.names() if not name.startswith(".")]
        for name in names:
            told += _folder(syncing, name, projects.get(name), tree, known)
        for name in sorted({*projects, *known.projects} - set(names)):
            told += _without_files(name, projects.get(name), known)
    return told


def _without_files(name: str, project: Project | None, known: ManifestEditor) -> Iterator[FileReport]:
    """Tell of documents whose folder is not there."""
    documents = [each.name for each in documents_of(project)] if project else []
    for document in sorted({*documents, *known.named(name)}):
        is_known = known.base(name, document) is not None
        verdict = FileStatus.FILE_GONE if is_known else FileStatus.NEWER
        if project or is_known:
            yield FileReport(name, document, verdict if project else FileStatus.DOCUMENT_GONE)


def _folder(
    syncing: SyncContext, name: str, project: Project | None, tree: Folder, known: ManifestEditor
) -> list[FileReport]:
    try:
        check_name(name)
        with tree.folder(name) as folder:
            return _documents(syncing, name, project, folder, known)
    except (BadProjectName, UnusableFile, FileNotFoundError) as error:
        return [FileReport(name, why=str(error) or "it is gone")]


def _documents(
    syncing: SyncContext, name: str, project: Project | None, folder: Folder, known: ManifestEditor
) -> list[FileReport]:
    stored = {document.name: document for document in documents_of(project)} if project else {}
    files = [each for each in folder.names() if not is_backup(each) and not each.startswith(".")]
    told: list[FileReport] = []
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
    known: ManifestEditor

    @property
    def base(self) -> str | None:
        """Return the digest of what was exported last."""
        return self.known.base(self.project, self.name)


def _document(
    syncing: SyncContext, place: _Place, project: Project | None, document: Document | None
) -> tuple[FileReport, Project | None]:
    """Deal with one file; also return its project, which may be new."""
    try:
        check_document_name(place.name)
        text = place.folder.read(place.name)
        verdict = _verdict(place, project, document, text)
        if text is not None and verdict in TAKEN and not syncing.dry_run:
            taken = _take(syncing, place, project, document, text)
            place.known.note(taken, digest_of(text))
            project = taken.project
        elif text is not None and verdict is FileStatus.SAME and document is not None:
            place.known.note(document, digest_of(text))
    except VersionMismatch:
        return FileReport(place.project, place.name, FileStatus.CONFLICT), project
    except (BadDocumentName, UnusableFile, DocumentTooLong, ProjectExists, UnknownRow) as error:
        return FileReport(place.project, place.name, why=str(error)), project
    return FileReport(place.project, place.name, verdict), project


def _verdict(
    place: _Place, project: Project | None, document: Document | None, text: str | None
) -> FileStatus:
    file = digest_of(text) if text is not None else None
    stored = digest_of(file_text(document)) if document else None
    verdict = sync_status(base=place.base, file=file, stored=stored)
    # A project that was deleted here does not come back by a file that somebody adds to its folder.
    if verdict is FileStatus.NEW and project is None and place.known.has(place.project):
        return FileStatus.DOCUMENT_GONE
    return verdict


@transaction.atomic
def _take(
    syncing: SyncContext, place: _Place, project: Project | None, document: Document | None, text: str
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
        project=project, name=place.name, text=with_untrusted_lines(text, _hidden(document)), kind=DocumentKind.SYNC,
        by=syncing.by, now=syncing.now, expected_version=document.version if document else None,
    )  # fmt: skip


def _new_project(syncing: SyncContext, place: _Place, text: str) -> tuple[Project, Document | None]:
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
