"""Notes in Markdown: a folder, an Obsidian or basic-memory vault, and output of `export --format markdown`. Pure.

Each note becomes a document with its text unchanged; each observation, `- [category] text #tag`, also a memory. In
notes that were exported from here, `memories/` holds only memories, each line ending in `^id-version`, which editors
take for a block reference; `projects/` holds only documents.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final

import yaml
from django.utils.translation import gettext_noop

from memoryhub.importexport.foreign.archives import Archive
from memoryhub.importexport.foreign.records import (
    DOCUMENTS,
    MAX_MEMORY_LENGTH,
    MAX_MESSAGE_LENGTH,
    MEMORIES,
    NEW_FILE,
    ImportedDocument,
    ImportedMemory,
    LocatedRecord,
    Omission,
    Refusal,
    UnreadableElement,
    checked_text,
    mapping,
    usable_tags,
)
from memoryhub.tenancy.namespaces import KINDS

MANIFEST: Final = ".memoryhub.json"
NOTE_TYPE: Final = "memoryhub-memories"
MAX_FILE_BYTES: Final = 64 * 2**20
EMPTY_NOTES: Final = gettext_noop("empty notes.")

_FRONTMATTER: Final = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*$\r?\n?", re.DOTALL | re.MULTILINE)
# Not a check box, a wiki link or a link with an address.
_OBSERVATION: Final = re.compile(r"[-*] \[(?![ xX/>-]\]|\[)([^\[\]\n]{1,60})\](?!\() (.*)")
_ID_MARK: Final = re.compile(r"\s\^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-v(\d{1,9})[ \t]*\Z")
_TAGS: Final = re.compile(r"(?:\s#[^\s#]++)++")
_AFTER_TAGS: Final = re.compile(r"(?:\s++\(([^()]*+)\))?[ \t]*+\Z")
_UNESCAPED: Final = re.compile(r"(\A|\s)(\\*)(?=[#^])")
_ESCAPED: Final = re.compile(r"(\A|\s)\\(\\*)(?=[#^])")
_NOT_IN_TAG: Final = re.compile(r"[\s#]+")

SIGN: Final = "files that end in .md"


def recognises(archive: Archive) -> bool:
    return bool(archive.ending(".md"))


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    bases = _bases(archive)
    for name in archive.ending(".md"):
        path = PurePosixPath(name)
        if path.parts[0].startswith(".") or ".bak." in path.name:
            continue
        try:
            if (text := archive.text(name, max_bytes=MAX_FILE_BYTES)).strip():
                yield from _note(archive, path, text, bases)
            else:
                yield LocatedRecord(Omission(EMPTY_NOTES), file=name)
        except UnreadableElement as error:
            yield LocatedRecord(Refusal(DOCUMENTS, str(error)), file=name)


def _bases(archive: Archive) -> Mapping[tuple[str, str], str]:
    """Return the digests of exported documents by project and file name."""
    name = f"projects/{MANIFEST}"
    if name not in archive.names:
        return {}
    with suppress(ValueError, RecursionError):  # also UnreadableElement
        projects = mapping(mapping(json.loads(archive.text(name, max_bytes=MAX_FILE_BYTES))).get("projects"))
        return {
            (project, document): str(mapping(entry).get("digest"))
            for project, documents in projects.items()
            for document, entry in mapping(documents).items()
        }
    return {}


def _note(
    archive: Archive, path: PurePosixPath, text: str, bases: Mapping[tuple[str, str], str]
) -> Iterator[LocatedRecord]:
    name, parts = str(path), path.parts
    metadata, body_at = _frontmatter(text)
    if metadata.get("type") == NOTE_TYPE:
        yield from _observations(text, body_at, name, ())
        return
    if bases and parts[0] == "projects" and len(parts) == 3:
        base = bases.get((parts[1], parts[2]), NEW_FILE)
        yield LocatedRecord(
            ImportedDocument(parts[1], parts[2], checked_text(text, MAX_MESSAGE_LENGTH), base=base), file=name
        )
        return
    project = parts[0] if len(parts) > 1 else archive.title
    name_in_project = "/".join(parts[1:] if len(parts) > 1 else parts).removesuffix(".md")
    yield LocatedRecord(ImportedDocument(project, name_in_project, checked_text(text, MAX_MESSAGE_LENGTH)), file=name)
    tags = metadata.get("tags")
    note_tags = usable_tags(str(tags).split(",") if isinstance(tags, str | int) else tags)
    yield from _observations(text, body_at, name, note_tags)


def _frontmatter(text: str) -> tuple[Mapping[str, Any], int]:
    """Return the values between the first two lines of `---`, and the offset of the body."""
    match = _FRONTMATTER.match(text.removeprefix("\ufeff"))
    if match is None:
        return {}, 0
    with suppress(yaml.YAMLError, RecursionError, ValueError):
        return mapping(yaml.safe_load(match[1])), match.end()
    return {}, match.end()


def _observations(text: str, start: int, name: str, tags: Sequence[str]) -> Iterator[LocatedRecord]:
    first = text.count("\n", 0, start) + 1
    is_code = False
    lines = text[start:].replace("\r\n", "\n").split("\n")
    for number, (line, continuation) in enumerate(zip(lines, _continuations(lines), strict=True), first):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        if is_code or (match := _OBSERVATION.match(line)) is None:
            continue
        try:
            memory_line = Line.parsed(match[1], "\n".join([match[2], *continuation]))
            checked_text(memory_line.text, MAX_MEMORY_LENGTH)
            yield LocatedRecord(memory_line.record(name, tags), line=number, file=name)
        except UnreadableElement as error:
            yield LocatedRecord(Refusal(MEMORIES, str(error)), line=number, file=name)


def _continuations(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield for each line the indented lines below it, which belong to its list item."""
    for index in range(len(lines)):
        end = index + 1
        if lines[index][:2] in ("- ", "* "):
            while end < len(lines) and (lines[end].startswith("  ") or not lines[end]):
                end += 1
        item = [line.removeprefix("  ") for line in lines[index + 1 : end]]
        while item and not item[-1].strip():
            item.pop()
        yield item


@dataclass(frozen=True)
class Line:
    """An observation; `id` and `version` are set if it was exported from here."""

    category: str
    text: str = field(repr=False)
    tags: Sequence[str] = field(default=(), repr=False)
    context: str = field(default="", repr=False)
    id: str = ""
    version: int = 0

    @classmethod
    def parsed(cls, category: str, text: str) -> "Line":
        id_match = _ID_MARK.search(text)
        text = text[: id_match.start()] if id_match else text
        tag_match, context = next(_final_tags(text), (None, None))
        tags = tag_match[0].split() if tag_match else []
        head, newline, last = (text[: tag_match.start()] if tag_match else text).rpartition("\n")
        content = head + newline + _ESCAPED.sub(r"\1\2", last)
        return cls(
            category.strip(),
            content.strip(),
            usable_tags([tag[1:] for tag in tags]),
            (context[1] or "") if context else "",
            id_match[1] if id_match else "",
            int(id_match[2]) if id_match else 0,
        )

    def dumped(self) -> str:
        """Return the line for an export; `parsed` is its inverse."""
        head, newline, last = self.text.strip().replace("\r\n", "\n").rpartition("\n")
        text = head + newline + _UNESCAPED.sub(r"\1\\\2", last)
        first, *rest = text.split("\n")
        lines = [f"- [{self.category}] {first}", *(f"  {line}" if line else "" for line in rest)]
        tags = "".join(f" #{tag_in_line(tag)}" for tag in self.tags)
        return "\n".join(lines) + f"{tags} ^{self.id}-v{self.version}"

    def record(self, note: str, note_tags: Sequence[str]) -> ImportedMemory:
        kind = self.category.lower()
        metadata = {} if self.id else {"note": note[-300:], "category": self.category}
        if self.context:
            metadata["context"] = self.context[:500]
        return ImportedMemory(
            text=self.text,
            kind=kind if kind in KINDS else "fact",
            tags=usable_tags([*self.tags, *note_tags]),
            metadata=metadata,
            id=self.id,
            version=self.version,
        )


def _final_tags(text: str) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """Yield runs of tags with the context behind them, up to the text's end."""
    for tags in _TAGS.finditer(text):
        if context := _AFTER_TAGS.match(text, tags.end()):
            yield tags, context


def tag_in_line(tag: str) -> str:
    return _NOT_IN_TAG.sub("-", tag)


def render_note(title: str, lines: Iterable[Line]) -> str:
    """Return a note of exported memories."""
    listed = "\n".join(line.dumped() for line in lines)
    return f"---\ntitle: {title}\ntype: {NOTE_TYPE}\n---\n\n{listed}\n"
