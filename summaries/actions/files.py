"""Export of projects into a directory tree or a zip archive, and sync of edited files back (SPEC P9).

A sync imports a file as a new version if only the file changed since the export. If the document changed too, it
reports a conflict and writes nothing; a deleted file never deletes its document. Untrusted entries are not exported,
since agents read files as they are.

Users of the tree may put anything there: links, pipes, devices, huge files. Everything is reached through an open
folder's descriptor and by one name at a time, no link is followed, and a file is replaced as a whole.
"""

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

from django.db import transaction

from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.principals import Principal
from memoryhub.tenancy.models import Actor
from memoryhub.validators import text_problem
from summaries.actions.documents import DocumentTooLong, backups_of, put_document
from summaries.actions.entries import trusted_text
from summaries.actions.projects import (
    ProjectArchived,
    ProjectExists,
    create_project,
    documents_of,
    hold_project,
    locked_project,
    note_event,
)
from summaries.domain.documents import (
    MAX_DOCUMENT_LENGTH,
    MEMORY,
    BadDocumentName,
    DocumentKind,
    check_document_name,
    description_in,
)
from summaries.domain.files import (
    BACKUP,
    FOLDER,
    MANIFEST,
    BadManifest,
    Exported,
    FileStatus,
    Manifest,
    backup_name,
    digest_of,
    export_status,
    manifest_of,
    sync_status,
)
from summaries.domain.projects import BadProjectName, EventKind, check_name, one_line
from summaries.models import Document, Project

MAX_SHOWN_LENGTH: Final = 80
_BACKUP_TIME: Final = re.compile(r"\d{8}T\d{12}Z")
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
MAX_FILE_BYTES: Final = 4 * MAX_DOCUMENT_LENGTH
OPEN_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW


class UnusableFile(Exception):
    """File or folder that is neither read nor written; the message is the reason, and holds no text."""


class EditedMeanwhile(Exception):
    """A file changed while it was being replaced; the changed text is stored next to it."""


class Folder:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    @contextmanager
    def at(cls, path: Path, *, make: bool = False) -> Iterator["Folder"]:
        """Open the folder that an operator names, wherever it leads. Raises UnusableFile."""
        try:
            if make:
                path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UnusableFile(f"the folder cannot be opened ({error.strerror})") from None
        try:
            yield cls(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def folder(self, name: str, *, make: bool = False) -> Iterator["Folder"]:
        """Open a folder in this one. Raises UnusableFile, for a link too; FileNotFoundError."""
        _check(name)
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, FOLDER_MODE, dir_fd=self.descriptor)
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | OPEN_FLAGS, dir_fd=self.descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise UnusableFile(_reason(error)) from None
        try:
            yield Folder(descriptor)
        finally:
            os.close(descriptor)

    def names(self) -> list[str]:
        with os.scandir(self.descriptor) as entries:
            return sorted(entry.name for entry in entries)

    def read(self, name: str) -> str | None:
        """Return a file's text, None where there is none. Raises UnusableFile."""
        _check(name)
        try:
            # Without O_NONBLOCK, opening a named pipe would block.
            descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | OPEN_FLAGS, dir_fd=self.descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnusableFile(_reason(error)) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise UnusableFile("it is no ordinary file")
        with os.fdopen(descriptor, "rb") as file:
            return _text(file.read(MAX_FILE_BYTES + 1))

    def write(self, name: str, text: str, *, expected: str | None) -> None:
        """Replace a file of the digest `expected` atomically, or create it for None; only its owner may read it.

        Raises UnusableFile, and EditedMeanwhile where it changed just then; that text is in `<name>.edited-…`.
        """
        _check(name)
        part, former = f".{name}.part", f"{name}.edited-{secrets.token_hex(4)}"
        self._write_new(part, text)
        try:
            if expected is None:
                os.link(part, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
                return
            os.link(name, former, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor, follow_symlinks=False)
            os.replace(part, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
            try:
                replaced = self.read(former)
            except UnusableFile:
                raise EditedMeanwhile from None
            if replaced is None or digest_of(replaced) != expected:
                raise EditedMeanwhile
            self.remove(former)
        except FileExistsError:
            raise EditedMeanwhile from None
        except OSError as error:
            raise UnusableFile(_reason(error)) from None
        finally:
            self.remove(part)

    def remove(self, name: str) -> None:
        """Remove a file that this module wrote, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def _write_new(self, name: str, text: str) -> None:
        try:
            self.remove(name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN_FLAGS
            descriptor = os.open(name, flags, FILE_MODE, dir_fd=self.descriptor)
        except OSError as error:
            raise UnusableFile(_reason(error)) from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())


def _check(name: str) -> None:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise UnusableFile("it is no name of a file")


def _text(raw: bytes) -> str:
    if len(raw) > MAX_FILE_BYTES:
        raise UnusableFile("it is too large")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnusableFile(f"it is not UTF-8 (byte {error.start})") from None
    if problem := text_problem(text):
        raise UnusableFile(problem.rstrip("."))
    if len(text) > MAX_DOCUMENT_LENGTH:
        raise UnusableFile(f"it has more than {MAX_DOCUMENT_LENGTH:,} characters")
    return text


def _reason(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "it is a link, or not what it should be"
    return f"it cannot be used ({error.strerror})"


class ForeignTree(Exception):
    """The folder holds the projects of another agent or user."""


@dataclass(frozen=True)
class FileReport:
    """Result for one file or folder; without a status it was refused, for `reason`."""

    project: str
    document: str = ""
    status: FileStatus | None = None
    reason: str = ""

    @property
    def is_problem(self) -> bool:
        return self.status in (None, FileStatus.CONFLICT)

    @property
    def path(self) -> str:
        names = (one_line(part.encode("utf-8", "replace").decode()) for part in (self.project, self.document))
        shortened = (f"{name[:MAX_SHOWN_LENGTH]}…" if len(name) > MAX_SHOWN_LENGTH else name for name in names)
        return "/".join([FOLDER, *filter(None, shortened)])


def read_manifest(root: Path) -> Manifest | None:
    """Return the manifest of a tree, None where it has none. Raises UnusableFile, BadManifest."""
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
def _open_tree(root: Path, actor: Actor, *, make: bool, write_back: bool = True) -> Iterator[tuple[Folder, Manifest]]:
    """Open an actor's tree, and write its manifest back at the end.

    Raises UnusableFile, BadManifest, ForeignTree, FileNotFoundError.
    """
    with Folder.at(root, make=make) as top, top.folder(FOLDER, make=make) as tree:
        stored = _manifest(tree)
        if stored is not None and (stored.agent_id, stored.user_id) != (actor.agent_id, actor.user_id):
            raise ForeignTree("This folder holds the projects of another agent or user.")
        former = stored.dumped() if stored else None
        manifest = stored or Manifest(actor.agent_id, actor.user_id)
        try:
            yield tree, manifest
        finally:
            if write_back and manifest.dumped() != former:
                try:
                    tree.write(MANIFEST, manifest.dumped(), expected=digest_of(former) if former else None)
                except EditedMeanwhile as error:
                    raise UnusableFile("somebody changed the manifest meanwhile") from error


def _note(manifest: Manifest, document: Document, digest: str) -> None:
    manifest.documents[document.project.name, document.name] = Exported(document.version, digest)


def export_projects(*, actor: Actor, root: Path, by: Principal, now: datetime) -> list[FileReport]:
    """Write an actor's projects into `root`/projects and report each document.

    A file that was edited since the last export is left as it is. Raises UnusableFile, BadManifest, ForeignTree.
    """
    reports: list[FileReport] = []
    with _open_tree(root, actor, make=True) as (tree, manifest):
        projects = list(Project.objects.of(actor.pk).active().select_related("actor__agent").order_by("name"))
        for project in projects:
            try:
                with tree.folder(project.name, make=True) as folder:
                    for document in documents_of(project):
                        reports.append(_export_document(document, folder, manifest))
            except UnusableFile as error:
                reports.append(FileReport(project.name, reason=str(error)))
            note_event(actor=actor, project=project, kind=EventKind.EXPORT, outcome="exported", now=now)
        deleted = manifest.projects - {project.name for project in projects}
        reports += [FileReport(name, status=FileStatus.DOCUMENT_GONE) for name in sorted(deleted)]
    details = {"projects": len(projects)}
    audit.record_each(by=by, verb="export", object_kind="projects", actor=actor, details=details, now=now)
    return reports


def export_tree(*, actor: Actor, root: Path, by: Principal, now: datetime) -> list[str]:
    """Export an actor's projects as part of a Markdown export; return a message for each file not written."""
    try:
        reports = export_projects(actor=actor, root=root, by=by, now=now)
    except (UnusableFile, BadManifest, ForeignTree) as error:
        return [f"{FOLDER}: {error}"]
    return [
        f"{report.path}: {report.reason or 'was edited since the last export; import it first.'}"
        for report in reports
        if report.is_problem or report.status is FileStatus.EDITED
    ]


def _export_document(document: Document, folder: Folder, manifest: Manifest) -> FileReport:
    project = document.project.name
    try:
        text, current = trusted_text(document), folder.read(document.name)
        file, stored = digest_of(current) if current is not None else None, digest_of(text)
        status = export_status(base=manifest.base(project, document.name), file=file, stored=stored)
        if status is FileStatus.WRITE:
            folder.write(document.name, text, expected=file)
        if status in (FileStatus.WRITE, FileStatus.SAME):
            _note(manifest, document, stored)
        backups = _backups(document)
        for name, former in backups.items():
            if folder.read(name) is None:
                folder.write(name, former, expected=None)
        for name in folder.names():
            stamp = name.removeprefix(f"{document.name}{BACKUP}")
            if name not in backups and stamp != name and _BACKUP_TIME.fullmatch(stamp):
                folder.remove(name)
        return FileReport(project, document.name, status)
    except EditedMeanwhile:
        return FileReport(project, document.name, FileStatus.CONFLICT)
    except UnusableFile as error:
        return FileReport(project, document.name, reason=str(error))


def _backups(document: Document) -> dict[str, str]:
    return {
        backup_name(document.name, version.created_at): trusted_text(
            Document(pk=document.pk, actor_id=document.actor_id, text=version.text)
        )
        for version in backups_of(document)
    }


@transaction.atomic
def zip_project(*, project: Project, by: Principal, now: datetime) -> bytes:
    """Return a zip archive of a project's documents, backups and manifest. Raises UnknownRow where it is gone."""
    hold_project(project)
    manifest = Manifest(project.actor.agent_id, project.actor.user_id)
    content = BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as archive:
        for document in documents_of(project):
            text = trusted_text(document)
            _note(manifest, document, digest_of(text))
            for name, file in {document.name: text, **_backups(document)}.items():
                archive.writestr(f"{FOLDER}/{project.name}/{name}", file)
        archive.writestr(f"{FOLDER}/{MANIFEST}", manifest.dumped())
    note_event(actor=project.actor, project=project, kind=EventKind.EXPORT, outcome="exported", now=now)
    audit.record(by=by, verb="export", row=project, now=now)
    return content.getvalue()


@dataclass(frozen=True)
class SyncContext:
    """Owner, principal and time of a sync; a dry run only reports."""

    actor: Actor
    by: Principal
    now: datetime
    dry_run: bool = False


def sync_projects(*, syncing: SyncContext, root: Path) -> list[FileReport]:
    """Import the changed files of `root`/projects and report every file; a dry run writes nothing.

    Raises UnusableFile, BadManifest, ForeignTree, and FileNotFoundError where there is no such tree.
    """
    reports: list[FileReport] = []
    with _open_tree(root, syncing.actor, make=False, write_back=not syncing.dry_run) as (tree, manifest):
        rows = Project.objects.of(syncing.actor.pk).not_deleted().select_related("actor__agent")
        projects = {project.name: project for project in rows}
        names = [name for name in tree.names() if not name.startswith(".")]
        for name in names:
            reports += _sync_folder(syncing, name, projects.get(name), tree, manifest)
        for name in sorted({*projects, *manifest.projects} - set(names)):
            project, known = projects.get(name), manifest.documents_of(name)
            stored = {row.name for row in documents_of(project)} if project else set()
            for document in sorted(stored | known):
                status = FileStatus.FILE_GONE if document in known else FileStatus.NEWER
                reports.append(FileReport(name, document, status if project else FileStatus.DOCUMENT_GONE))
    return reports


def _sync_folder(
    syncing: SyncContext, name: str, project: Project | None, tree: Folder, manifest: Manifest
) -> list[FileReport]:
    try:
        check_name(name)
        with tree.folder(name) as folder:
            stored = {document.name: document for document in documents_of(project)} if project else {}
            files = [file for file in folder.names() if BACKUP not in file and not file.startswith(".")]
            reports: list[FileReport] = []
            names = {*files, *stored, *manifest.documents_of(name)}
            for file in sorted(names, key=lambda file: (file != MEMORY, file)):
                synced_file = _SyncedFile(name, file, folder, manifest)
                report, project = _sync_file(syncing, synced_file, project, stored.get(file))
                reports.append(report)
            return reports
    except (BadProjectName, UnusableFile, FileNotFoundError) as error:
        return [FileReport(name, reason=str(error) or "it is gone")]


@dataclass(frozen=True)
class _SyncedFile:
    """File in the tree, which may not exist, with the manifest of the last export."""

    project: str
    name: str
    folder: Folder
    manifest: Manifest


def _sync_file(
    syncing: SyncContext, file: _SyncedFile, project: Project | None, document: Document | None
) -> tuple[FileReport, Project | None]:
    """Sync one file; also return its project, which may be new."""
    try:
        check_document_name(file.name)
        text = file.folder.read(file.name)
        digest = digest_of(text) if text is not None else None
        stored = digest_of(trusted_text(document)) if document else None
        base = file.manifest.base(file.project, file.name)
        status = sync_status(base=base, file=digest, stored=stored)
        # A file added to the folder of a deleted project does not recreate the project.
        if status is FileStatus.NEW and project is None and file.project in file.manifest.projects:
            status = FileStatus.DOCUMENT_GONE
        if text is not None and status in (FileStatus.EDITED, FileStatus.NEW) and not syncing.dry_run:
            written = _write_document(syncing, file, project, document, text)
            _note(file.manifest, written, digest_of(text))
            project = written.project
        elif text is not None and status is FileStatus.SAME and document is not None:
            _note(file.manifest, document, digest_of(text))
    except VersionMismatch:
        return FileReport(file.project, file.name, FileStatus.CONFLICT), project
    except (BadDocumentName, UnusableFile, DocumentTooLong, ProjectArchived, ProjectExists, UnknownRow) as error:
        return FileReport(file.project, file.name, reason=str(error)), project
    return FileReport(file.project, file.name, status), project


@transaction.atomic
def _write_document(
    syncing: SyncContext, file: _SyncedFile, project: Project | None, document: Document | None, text: str
) -> Document:
    """Write a file's text as a version of its document, followed by the untrusted lines, which were not exported.

    Raises VersionMismatch where the document was changed or created since it was read.
    """
    if project is None:
        description = description_in(text) if file.name == MEMORY else ""
        project = create_project(
            actor=syncing.actor, name=file.project, description=description, by=syncing.by, now=syncing.now
        )
        document = next((row for row in documents_of(project) if row.name == file.name), None)
    elif document is None:
        project = locked_project(project)
        if project.current_documents.filter(name=file.name).exists():
            raise VersionMismatch(1)
    return put_document(
        project=project,
        name=file.name,
        text=text,
        kind=DocumentKind.SYNC,
        by=syncing.by,
        now=syncing.now,
        expected_version=document.version if document else None,
        keeps_pending=True,
    )
