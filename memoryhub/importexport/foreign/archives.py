"""Sources of an import: a file, a zip as it was downloaded, or a folder; read as streams, never unpacked.

Also readers for formats: the first JSON values, for detection; elements, each read or refused; whole texts.

Zip members are never written under their names, so path traversal is impossible. Zip bombs are refused by their
declared sizes; a member larger than declared raises an error of `zipfile`.
"""

import codecs
import io
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, BinaryIO, Final

from memoryhub.errors import stored_text
from memoryhub.importexport.foreign.json_stream import MAX_ELEMENT_BYTES, Element, elements, lines
from memoryhub.importexport.foreign.records import (
    OTHER_PARTS,
    LocatedRecord,
    Omission,
    Record,
    Refusal,
    UnreadableElement,
    mapping,
)
from memoryhub.importexport.native.jsonl import BrokenFile, printable

MAX_MEMBERS: Final = 200_000
MAX_UNPACKED_BYTES: Final = 64 * 2**30
MAX_COMPRESSION_RATIO: Final = 100
"""Highest compression ratio of a zip: JSON has 10 to 20, a bomb 1,000."""

RATIO_CHECKED_FROM: Final = 64 * 2**20
"""Unpacked size below which the ratio is not checked."""

UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""Beginnings of files as PowerShell writes them, which are read as UTF-8."""

SNIFFED_FILES: Final = 200
SNIFFED_ELEMENTS: Final = 6
"""Elements of a file by which its format is recognised."""


class Archive:
    """Named byte streams; `done` counts the bytes read of `total`. `title` is the archive's own name.

    `opened` holds the names of the files that were read; `columns` those of a table that a person named, by meaning.
    """

    columns: Mapping[str, str] = MappingProxyType({})

    def __init__(self, names: Sequence[str], total: int, title: str) -> None:
        self.names, self.total, self.title, self.done = sorted(names), total, title, 0
        self.opened: set[str] = set()

    @property
    def is_many(self) -> bool:
        return len(self.names) > 1

    def named(self, *names: str) -> list[str]:
        """Return the files with one of these base names, in any folder."""
        return [path for path in self.names if PurePosixPath(path).name in names]

    def ending(self, *endings: str) -> list[str]:
        return [path for path in self.names if path.lower().endswith(endings)]

    @contextmanager
    def open(self, name: str, *, counts: bool = True) -> Iterator[BinaryIO]:
        """Open a file. Raises BrokenFile where it is damaged."""
        if counts:
            self.opened.add(name)
        try:
            with self._open(name) as file:
                begin = file.read(2)
                file.seek(0)
                source: Any = _CountingFile(file, self) if counts else file
                yield codecs.EncodedFile(source, "utf-8", "utf-16", "replace") if begin in UTF_16 else source
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "encrypted" not in str(error):
                raise
            raise BrokenFile(f"{printable(name[-80:])}: the archive is damaged or encrypted here.") from error

    def text(self, name: str, *, max_bytes: int) -> str:
        """Return a file's content. Raises UnreadableElement if it exceeds `max_bytes` or is not UTF-8."""
        with self.open(name) as file:
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise UnreadableElement(stored_text("it is larger than {most} bytes.", most=f"{max_bytes:,}"))
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise UnreadableElement("it is no UTF-8.") from None

    def _open(self, name: str) -> BinaryIO:
        raise NotImplementedError


class _CountingFile(io.RawIOBase):
    def __init__(self, file: BinaryIO, archive: Archive) -> None:
        self._file, self._archive = file, archive

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self._archive.done += len(piece)
        return piece

    def readline(self, size: int | None = -1) -> bytes:
        line = self._file.readline(-1 if size is None else size)
        self._archive.done += len(line)
        return line


class Files(Archive):
    def __init__(self, files: Mapping[str, Path], title: str) -> None:
        super().__init__(list(files), sum(path.stat().st_size for path in files.values()), title)
        self._files = files

    def _open(self, name: str) -> BinaryIO:
        return self._files[name].open("rb")


def _files(root: Path) -> Iterator[Path]:
    """Yield a folder's files, recursively; without symbolic links, which may lead out of it."""
    folders, count = [root], 0
    while folders:
        for path in sorted(folders.pop().iterdir()):
            with suppress(OSError):  # deleted concurrently
                mode = path.lstat().st_mode
                if stat.S_ISDIR(mode) and path.name not in (".git", "node_modules", ".venv", ".trash"):
                    folders.append(path)
                elif stat.S_ISREG(mode):
                    count += 1
                    yield path
            if count > MAX_MEMBERS:
                raise BrokenFile(f"The folder holds more than {MAX_MEMBERS:,} files.")


class Zip(Archive):
    def __init__(self, path: Path, name: str) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as error:
            raise BrokenFile(f"The archive cannot be read ({error}): is the download complete?") from error
        members = [member for member in self._zip.infolist() if not member.is_dir()]
        total = sum(member.file_size for member in members)
        if len(members) > MAX_MEMBERS or total > MAX_UNPACKED_BYTES:
            raise BrokenFile(f"The archive says that it holds {len(members):,} files of {total:,} bytes.")
        if total > RATIO_CHECKED_FROM and total > MAX_COMPRESSION_RATIO * path.stat().st_size:
            raise BrokenFile(f"The archive unpacks to {total:,} bytes, {MAX_COMPRESSION_RATIO} times its size: a bomb.")
        if unsafe := next((member.filename for member in members if not _is_inside(member.filename)), None):
            raise BrokenFile(f"{printable(unsafe[-80:])}: a name in the archive leads out of it.")
        super().__init__([member.filename for member in members], total, PurePosixPath(name).stem)

    def _open(self, name: str) -> BinaryIO:
        return self._zip.open(name)  # type: ignore[return-value]


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))
    return not path.is_absolute() and ".." not in path.parts and ":" not in (path.parts or ("",))[0]


def first_values(archive: Archive, names: Iterable[str]) -> Iterator[Any]:
    """Yield the first readable elements of some files, without counting them as read."""
    for name in islice(names, SNIFFED_FILES):
        with archive.open(name, counts=False) as file:
            for element in islice(elements_of(name, file), SNIFFED_ELEMENTS):
                if not element.problem and not element.is_rest:
                    yield element.value


def elements_of(name: str, file: BinaryIO, max_bytes: int = MAX_ELEMENT_BYTES) -> Iterator[Element]:
    """Yield the elements of a file: lines for `.jsonl`."""
    return (lines if name.lower().endswith(".jsonl") else elements)(file, max_bytes=max_bytes)


def records_of(
    archive: Archive,
    names: Iterable[str],
    read: Callable[[Any], Iterable[Record]],
    *,
    record_name: str,
    max_bytes: int = MAX_ELEMENT_BYTES,
    read_rest: Callable[[Any], Iterable[Record]] | None = None,
) -> Iterator[LocatedRecord]:
    """Yield the records that `read` returns of each element; one that raises UnreadableElement is refused alone.

    `read_rest` reads what a file holds besides its list; without it that is counted.
    """
    for name in names:
        with archive.open(name) as file:
            for element in elements_of(name, file, max_bytes):
                reader = (read_rest or _count_rest) if element.is_rest else read
                try:
                    if element.problem:
                        raise UnreadableElement(element.problem)
                    for record in reader(element.value):
                        yield LocatedRecord(record, element.entry, element.line, name)
                except UnreadableElement as error:
                    yield LocatedRecord(Refusal(record_name, str(error)), element.entry, element.line, name)


def _count_rest(rest: Any) -> Iterator[Record]:
    if count := sum(len(part) for part in mapping(rest).values() if isinstance(part, list | dict)):
        yield Omission(OTHER_PARTS, count)


def json_files(archive: Archive) -> list[str]:
    """Return the files that may hold JSON: a single one under any name."""
    return archive.names if len(archive.names) == 1 else archive.ending(".json", ".jsonl")


def open_archive(path: Path, *, name: str = "", columns: Mapping[str, str] | None = None) -> Archive:
    """Open a file, zip or folder; `name` is the owner's file name. Raises BrokenFile, OSError."""
    archive = _open_archive(path, name or path.name)
    archive.columns = columns or {}
    return archive


def _open_archive(path: Path, name: str) -> Archive:
    if path.is_dir():
        return Files({file.relative_to(path).as_posix(): file for file in _files(path)}, path.resolve().name)
    with path.open("rb") as file:
        is_zip = file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")
    return Zip(path, name) if is_zip else Files({name: path}, PurePosixPath(name).stem)
