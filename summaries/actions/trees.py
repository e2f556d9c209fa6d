"""What an export and a sync tell of each file, and the manifest by which they know what was exported."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from memoryhub.tenancy.models import Actor
from summaries.actions.documents import believed_text
from summaries.actions.files import EditedMeanwhile, Folder, Unusable
from summaries.domain.projects import one_line
from summaries.domain.tree import FOLDER, MANIFEST, Exported, Manifest, Verdict, digest_of, manifest_of
from summaries.models import Document

LONGEST_SHOWN: Final = 80
PROBLEMS: Final = frozenset({Verdict.CONFLICT})


@dataclass(frozen=True)
class Told:
    """What became of one file, or of a whole folder; without a verdict it was refused, and `why` tells the reason."""

    project: str
    document: str = ""
    verdict: Verdict | None = None
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


class TreeOfAnother(Exception):
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
def opened(root: Path, actor: Actor, *, make: bool, keep: bool = True) -> Iterator[tuple[Folder, "Known"]]:
    """Open an actor's tree; what is known of it is written back at the end, also where it ends early.

    Raises Unusable, BadManifest, TreeOfAnother, FileNotFoundError.
    """
    with Folder.at(root, make=make) as top, top.folder(FOLDER, make=make) as tree:
        found = _manifest(tree)
        if found is not None and (found.agent_id, found.user_id) != (actor.agent_id, actor.user_id):
            raise TreeOfAnother("This folder holds the projects of another agent or user.")
        known = Known(found or Manifest(actor.agent_id, actor.user_id))
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
        raise Unusable("somebody changed the manifest meanwhile") from error


class Known:
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
    return believed_text(document)
