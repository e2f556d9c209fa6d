"""Three-way comparison of exported project files with the stored documents, and the manifest of an export. Pure.

Texts are compared by their digests: `base` is the last export, `file` the file in the tree, `stored` the document; None
where there is none. Nothing is ever overwritten that the other side has not seen.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

FOLDER: Final = "projects"
MANIFEST: Final = ".memoryhub.json"
FORMAT: Final = 1
BACKUP: Final = ".bak."


class FileStatus(StrEnum):
    SAME = "same"
    WRITE = "write"
    """The file is written: it is missing, or as it was exported."""
    EDITED = "edited"
    """The file was changed, and what is stored was not."""
    NEWER = "newer"
    """The stored text was changed, the file was not."""
    NEW = "new"
    """A file of a document that there is not yet."""
    CONFLICT = "conflict"
    """Both were changed, or there were two to begin with."""
    FILE_GONE = "file_gone"
    DOCUMENT_GONE = "document_gone"


@dataclass(frozen=True)
class Exported:
    version: int
    digest: str


@dataclass
class Manifest:
    """Record of an export, by project and document; it lies in the tree."""

    agent_id: str
    user_id: str
    documents: dict[tuple[str, str], Exported] = field(default_factory=dict)

    def base(self, project: str, document: str) -> str | None:
        known = self.documents.get((project, document))
        return known.digest if known else None

    @property
    def projects(self) -> set[str]:
        return {project for project, _ in self.documents}

    def documents_of(self, project: str) -> set[str]:
        return {document for name, document in self.documents if name == project}

    def dumped(self) -> str:
        projects: dict[str, dict[str, Any]] = {}
        for (project, document), known in sorted(self.documents.items()):
            projects.setdefault(project, {})[document] = {"version": known.version, "digest": known.digest}
        whole = {"format": FORMAT, "agent_id": self.agent_id, "user_id": self.user_id, "projects": projects}
        return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


class BadManifest(ValueError):
    """The manifest cannot be read."""


def manifest_of(text: str) -> Manifest:
    """Return a manifest from its file. Raises BadManifest."""
    try:
        whole = json.loads(text)
        if whole["format"] != FORMAT:
            raise BadManifest(f"The manifest has format {whole['format']!r}; this release reads {FORMAT}.")
        documents = {
            (str(project), str(document)): Exported(int(known["version"]), str(known["digest"]))
            for project, held in whole["projects"].items()
            for document, known in held.items()
        }
        return Manifest(str(whole["agent_id"]), str(whole["user_id"]), documents)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, BadManifest):
            raise
        raise BadManifest("The manifest is damaged.") from None


def digest_of(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def export_status(*, base: str | None, file: str | None, stored: str) -> FileStatus:
    """Return an export's action for a document; edited files are left unchanged."""
    if file == stored:
        return FileStatus.SAME
    if file is None or file == base:
        return FileStatus.WRITE
    return FileStatus.EDITED if stored == base else FileStatus.CONFLICT


def sync_status(*, base: str | None, file: str | None, stored: str | None) -> FileStatus:
    """Return what a sync does with a file, which is taken over where it alone was changed."""
    if file == stored:
        return FileStatus.SAME
    if file is None:
        return FileStatus.FILE_GONE if base is not None else FileStatus.NEWER
    if stored is None:
        return FileStatus.NEW if base is None else FileStatus.DOCUMENT_GONE
    if file == base:
        return FileStatus.NEWER
    return FileStatus.EDITED if stored == base else FileStatus.CONFLICT


def backup_name(document: str, at: datetime) -> str:
    return f"{document}{BACKUP}{at.astimezone(UTC):%Y%m%dT%H%M%S%fZ}"
