"""Sources of an import: a file, a zip as it was downloaded, or a folder; read as streams, never unpacked.

And what formats read of them: a first look at JSON, its elements, each read or refused, and whole texts.

Members of a zip are only read under their names, so a name can lead nowhere; a bomb is refused by what it says that it
holds, and a member that holds more than it says ends in an error of the zip's own.
"""

import io
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final

from memoryhub.importexport.json_stream import MAX_ELEMENT_BYTES, Element, elements, lines
from memoryhub.importexport.jsonl import BrokenFile
from memoryhub.importexport.records import LocatedRecord, Record, Refusal, UnreadableElement

MAX_MEMBERS: Final = 200_000
MAX_UNPACKED_BYTES: Final = 64 * 2**30
MAX_COMPRESSION_RATIO: Final = 100
"""Highest compression ratio of a zip: JSON has 10 to 20, a bomb 1,000."""

RATIO_CHECKED_FROM: Final = 64 * 2**20
"""Unpacked size below which the ratio is not checked."""

SNIFFED_ELEMENTS: Final = 5
"""Elements of a file by which its format is recognised."""


class Archive:
    """Named byte streams; `done` counts the bytes that were read of `total`. `title` is its own name."""

    def __init__(self, names: Sequence[str], total: int, title: str) -> None:
        self.names, self.total, self.title, self.done = sorted(names), total, title, 0

    @property
    def is_many(self) -> bool:
        return len(self.names) > 1

    def named(self, *names: str) -> list[str]:
        """Return the files with one of these base names, in any folder."""
        return [each for each in self.names if PurePosixPath(each).name in names]

    def ending(self, *endings: str) -> list[str]:
        return [each for each in self.names if each.lower().endswith(endings)]

    @contextmanager
    def open(self, name: str, *, counts: bool = True) -> Iterator[BinaryIO]:
        """Open a file. Raises BrokenFile where it is damaged."""
        try:
            with self._open(name) as file:
                yield _CountingFile(file, self) if counts else file  # type: ignore[misc]
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "encrypted" not in str(error):
                raise
            raise BrokenFile(f"{shown(name)}: the archive is damaged or encrypted here.") from error

    def text(self, name: str, *, most: int) -> str:
        """Return a file's content. Raises UnreadableElement for more than `most` bytes, and for what is no UTF-8."""
        with self.open(name) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise UnreadableElement(f"it is larger than {most:,} bytes.")
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


class OneFile(Archive):
    def __init__(self, path: Path, name: str) -> None:
        super().__init__([name], path.stat().st_size, PurePosixPath(name).stem)
        self._path = path

    def _open(self, name: str) -> BinaryIO:
        return self._path.open("rb")


class Folder(Archive):
    """A folder with all below it; symbolic links are left out, as they may lead anywhere."""

    def __init__(self, path: Path) -> None:
        files = {each.relative_to(path).as_posix(): each.lstat().st_size for each in _files(path)}
        super().__init__(list(files), sum(files.values()), path.resolve().name)
        self.path = path

    def _open(self, name: str) -> BinaryIO:
        return (self.path / name).open("rb")


def _files(top: Path) -> Iterator[Path]:
    waiting, count = [top], 0
    while waiting:
        for each in sorted(waiting.pop().iterdir()):
            with suppress(OSError):  # it went meanwhile
                mode = each.lstat().st_mode
                if stat.S_ISDIR(mode) and each.name not in (".git", "node_modules", ".venv", ".trash"):
                    waiting.append(each)
                elif stat.S_ISREG(mode):
                    count += 1
                    yield each
            if count > MAX_MEMBERS:
                raise BrokenFile(f"The folder holds more than {MAX_MEMBERS:,} files.")


class Zip(Archive):
    def __init__(self, path: Path, name: str) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as error:
            raise BrokenFile(f"The archive cannot be read: {error}.") from error
        members = [each for each in self._zip.infolist() if not each.is_dir()]
        total = sum(each.file_size for each in members)
        if len(members) > MAX_MEMBERS or total > MAX_UNPACKED_BYTES:
            raise BrokenFile(f"The archive says that it holds {len(members):,} files of {total:,} bytes.")
        if total > RATIO_CHECKED_FROM and total > MAX_COMPRESSION_RATIO * path.stat().st_size:
            raise BrokenFile(f"The archive unpacks to {total:,} bytes, {MAX_COMPRESSION_RATIO} times its size: a bomb.")
        if unsafe := next((each.filename for each in members if not _is_inside(each.filename)), None):
            raise BrokenFile(f"{shown(unsafe)}: a name in the archive leads out of it.")
        super().__init__([each.filename for each in members], total, PurePosixPath(name).stem)

    def _open(self, name: str) -> BinaryIO:
        return self._zip.open(name)  # type: ignore[return-value]


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))
    return not path.is_absolute() and ".." not in path.parts and ":" not in (path.parts or ("",))[0]


def shown(name: str) -> str:
    """Return a name as messages show it: short, and without what a terminal would obey."""
    return ascii(name[-80:])


def first_values(archive: Archive, names: Iterable[str]) -> Iterator[Any]:
    """Yield the first readable elements of some files, without counting them as read."""
    for name in names:
        with archive.open(name, counts=False) as file:
            for number, element in enumerate(_elements(name, file)):
                if not element.problem:
                    yield element.value
                if number >= SNIFFED_ELEMENTS:
                    break


def _elements(name: str, file: BinaryIO, longest: int = MAX_ELEMENT_BYTES) -> Iterator[Element]:
    return (lines if name.lower().endswith(".jsonl") else elements)(file, longest=longest)


def records_of(
    archive: Archive,
    names: Iterable[str],
    read: Callable[[Any], Iterable[Record]],
    *,
    what: str,
    longest: int = MAX_ELEMENT_BYTES,
) -> Iterator[LocatedRecord]:
    """Yield what `read` makes of each element; an element that raises UnreadableElement is refused alone."""
    for name in names:
        with archive.open(name) as file:
            for element in _elements(name, file, longest):
                try:
                    if element.problem:
                        raise UnreadableElement(element.problem)
                    for record in read(element.value):
                        yield LocatedRecord(record, element.entry, element.line, name)
                except UnreadableElement as error:
                    yield LocatedRecord(Refusal(what, str(error)), element.entry, element.line, name)


def open_archive(path: Path, *, name: str = "") -> Archive:
    """Return what lies under a path; `name` is what its owner calls the file. Raises BrokenFile, OSError."""
    if path.is_dir():
        return Folder(path)
    with path.open("rb") as file:
        is_zip = file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")
    return (Zip if is_zip else OneFile)(path, name or path.name)
