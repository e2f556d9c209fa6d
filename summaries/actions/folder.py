"""Safe reading and writing of a tree of small text files (SPEC P9).

Users of the tree may put anything there: links, pipes, devices, huge files. Everything is reached through an open
folder's descriptor and by one name at a time, no link is followed, and a file is replaced as a whole.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from memoryhub.validators import text_problem
from summaries.domain.documents import LONGEST_DOCUMENT
from summaries.domain.files import digest_of

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
MOST_BYTES: Final = 4 * LONGEST_DOCUMENT
OPENING: Final = os.O_CLOEXEC | os.O_NOFOLLOW


class UnusableFile(Exception):
    """File or folder that is neither read nor written; the message is the reason, and holds no text."""


class EditedMeanwhile(Exception):
    """A file changed while it was replaced; its text then lies next to it."""


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
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, FOLDER_MODE, dir_fd=self.descriptor)
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | OPENING, dir_fd=self.descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise UnusableFile(_why(error)) from None
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
            # A pipe would be waited for without O_NONBLOCK.
            descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | OPENING, dir_fd=self.descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnusableFile(_why(error)) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise UnusableFile("it is no ordinary file")
        with os.fdopen(descriptor, "rb") as file:
            return _text(file.read(MOST_BYTES + 1))

    def write(self, name: str, text: str, *, expected: str | None) -> None:
        """Write a file as a whole, for its owner alone, in the place of one with the digest `expected`.

        Raises UnusableFile, and EditedMeanwhile where it changed just then; that text is in `<name>.edited-…`.
        """
        _check(name)
        part, former = f".{name}.part", f"{name}.edited-{secrets.token_hex(4)}"
        self._write_new(part, text)
        try:
            if expected is None:
                os.link(part, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
                return
            os.link(
                name, former, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor, follow_symlinks=False
            )
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
            raise UnusableFile(_why(error)) from None
        finally:
            self.remove(part)

    def remove(self, name: str) -> None:
        """Remove a file that this module wrote, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def _write_new(self, name: str, text: str) -> None:
        try:
            self.remove(name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPENING
            descriptor = os.open(name, flags, FILE_MODE, dir_fd=self.descriptor)
        except OSError as error:
            raise UnusableFile(_why(error)) from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())


def _check(name: str) -> None:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise UnusableFile("it is no name of a file")


def _text(raw: bytes) -> str:
    if len(raw) > MOST_BYTES:
        raise UnusableFile("it is too large")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnusableFile(f"it is not UTF-8 (byte {error.start})") from None
    if problem := text_problem(text):
        raise UnusableFile(problem.rstrip("."))
    if len(text) > LONGEST_DOCUMENT:
        raise UnusableFile(f"it has more than {LONGEST_DOCUMENT:,} characters")
    return text


def _why(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "it is a link, or not what it should be"
    return f"it cannot be used ({error.strerror})"
