"""Export of memories as notes in Markdown, which `import` reads back with what was edited in them.

A note whose file was edited since the last export is left as it is, so that no edit is lost before it was imported.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.importexport.exporter import snapshot
from memoryhub.importexport.forms.markdown import MANIFEST, Line, note_of
from memoryhub.tenancy.models import Actor
from strength.domain.memories import Kind
from strength.models import Memory

FOLDER: Final = "memories"
EDITED: Final = "was edited since the last export; import it first."


def export_notes(*, actor: Actor, root: Path, by: Principal, now: datetime) -> list[str]:
    """Write an actor's active memories into `root`/memories, a note for each kind; return what was left, and why.

    Raises OSError.
    """
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / MANIFEST
    known: dict[str, str] = {}
    with suppress(FileNotFoundError, ValueError):
        known = json.loads(manifest.read_text(encoding="utf-8"))
    left, exported = [], dict(known)
    for name, text in _notes(actor):
        file = folder / name
        digest = _digest(text)
        current = _digest(file.read_bytes().decode("utf-8", "replace")) if file.exists() else None
        if current not in (None, digest, known.get(name)):
            left.append(f"{FOLDER}/{name}: {EDITED}")
            continue
        if current != digest:
            _replace(file, text)
        exported[name] = digest
    _replace(manifest, json.dumps(exported, indent=1, sort_keys=True) + "\n")
    audit.record_each(by=by, verb="export", object_kind="memories", actor=actor, now=now)
    return left


def _notes(actor: Actor) -> Iterator[tuple[str, str]]:
    """Yield the notes of an actor from one moment; kinds without memories have none, unless it was written before."""
    with snapshot():
        rows = Memory.objects.of([actor.pk]).active().order_by("id")
        columns = rows.values_list("content", "tags", "pk", "version")
        for kind in Kind:
            lines = [
                Line(kind, content, tags, id=str(key), version=version)
                for content, tags, key, version in columns.filter(kind=kind).iterator(chunk_size=500)
            ]
            if lines:
                yield f"{kind}s.md", note_of(f"{kind}s", lines)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def _replace(file: Path, text: str) -> None:
    """Write a file whole or not at all, for its owner's eyes alone."""
    part = file.with_name(f".{file.name}.part")
    part.touch(mode=0o600)
    part.write_bytes(text.encode("utf-8", "surrogatepass"))
    part.replace(file)
