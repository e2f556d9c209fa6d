"""Claude's memory tool (`memory_20250818`) on the documents of a memoryhub project; needs the extra `[anthropic]`.

A file is a document `detail-….md`, whose first line is its path as a heading. People see and edit it in the admin, with
its versions; contexts of the project may quote it. Claude is answered word for word as by the SDK's filesystem backend.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from posixpath import dirname, normpath
from typing import Any, Concatenate, Final, ParamSpec

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types import beta as commands
from anyio.to_thread import run_sync

from memoryhub_client.client import Memoryhub
from memoryhub_client.errors import Conflict, MemoryhubError, NotFound, VersionMismatch

ROOT: Final = "/memories"
MAX_LINES: Final = 999_999
WIDTH: Final = 6
DEPTH: Final = 2
LONGEST_SLUG: Final = 45
DESCRIPTION: Final = "Files that Claude keeps as its memory"
ATTEMPTS: Final = 5
"""At one edit of a file that others edit, too."""

P = ParamSpec("P")


@dataclass(frozen=True)
class File:
    """A stored file: where it lies, and how large it is without the heading."""

    path: str
    document: str
    size: int


def document_name(path: str) -> str:
    """Return the document of a path: readable, and distinct by a digest."""
    slug = re.sub(r"[^a-z0-9]+", "-", path.removeprefix(ROOT).lower()).strip("-")[:LONGEST_SLUG].strip("-")
    digest = sha256(path.encode()).hexdigest()[:12]
    return f"detail-{slug}-{digest}.md" if slug else f"detail-{digest}.md"


def heading(path: str) -> str:
    return f"# {path}\n"


def checked(path: str) -> str:
    """Return a path without `.`, `..` and doubled slashes. Raises ToolError for one outside of /memories."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with /memories, got: {path}")
    found = normpath(f"{ROOT}/{path[len(ROOT) :].lstrip('/')}")
    if found != ROOT and not found.startswith(f"{ROOT}/"):
        raise ToolError(f"Path {path} would escape /memories directory")
    if found != found.strip() or not found.isprintable():
        raise ToolError(f"Path {path!r} ends in a space, or has characters that cannot be shown")
    return found


def numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:>{WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def readable(size: int) -> str:
    """Return a size as `ls -h` would, the way the reference implementation does."""
    power = min(max(size.bit_length() - 1, 0) // 10, 3)
    value = size / 1024**power
    return f"{int(value) if value == int(value) else format(value, '.1f')}{'BKMG'[power]}"


def refusing(act: Callable[Concatenate["MemoryTool", P], str]) -> Callable[Concatenate["MemoryTool", P], str]:
    """Tell the model what the server refused, instead of ending the conversation."""

    def run(tool: "MemoryTool", /, *args: P.args, **values: P.kwargs) -> str:
        try:
            return act(tool, *args, **values)
        except MemoryhubError as error:
            raise ToolError(f"The memory could not be reached or changed: {error}") from error

    return run


class MemoryTool(BetaAbstractMemoryTool):
    """Memory tool for `client.beta.messages.tool_runner`; files are documents of one project of the client's user."""

    def __init__(self, hub: Memoryhub, *, project: str = "memories", **options: Any) -> None:
        super().__init__(**options)
        self.hub = hub
        self.project = project

    @refusing
    def view(self, command: commands.BetaMemoryTool20250818ViewCommand) -> str:
        path = checked(command.path)
        text = None if path == ROOT else self._read(path)
        if text is not None:
            return self._shown(command, text)
        files = self._files()
        if path != ROOT and not any(each.path.startswith(f"{path}/") for each in files):
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        lines = [f"{readable(size)}\t{command.path}{name}" for name, size in _tree(path, files)]
        header = f"Here're the files and directories up to 2 levels deep in {command.path}, excluding hidden items:"
        return "\n".join([header, *lines])

    @staticmethod
    def _shown(command: commands.BetaMemoryTool20250818ViewCommand, text: str) -> str:
        lines, first = text.split("\n"), 1
        if len(lines) > MAX_LINES:
            raise ToolError(f"File {command.path} exceeds maximum line limit of 999,999 lines.")
        if command.view_range and len(command.view_range) == 2:
            first, last = max(1, command.view_range[0]), command.view_range[1]
            lines = lines[first - 1 : None if last == -1 else last]
        return f"Here's the content of {command.path} with line numbers:\n{numbered(lines, first)}"

    @refusing
    def create(self, command: commands.BetaMemoryTool20250818CreateCommand) -> str:
        path = checked(command.path)
        paths = {each.path for each in self._files()}
        if path == ROOT or any(each.startswith(f"{path}/") for each in paths):
            raise ToolError(f"File {command.path} already exists")
        self._check_folders(path, paths)
        try:
            self._put(path, command.file_text, if_none_match="*")
        except VersionMismatch as error:
            raise ToolError(f"File {command.path} already exists") from error
        return f"File created successfully at: {command.path}"

    @refusing
    def str_replace(self, command: commands.BetaMemoryTool20250818StrReplaceCommand) -> str:
        def replaced(text: str) -> str:
            found = [match.start() for match in re.finditer(f"(?={re.escape(command.old_str)})", text)]
            if text.count(command.old_str) == 0:
                raise ToolError(
                    f"No replacement was performed, old_str `{command.old_str}` did not appear verbatim"
                    f" in {command.path}."
                )
            if text.count(command.old_str) > 1:
                lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in found)
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{command.old_str}`"
                    f" in lines: {lines}. Please ensure it is unique"
                )
            return text.replace(command.old_str, command.new_str)

        before, after = self._edit(command.path, replaced)
        changed = before.count("\n", 0, before.find(command.old_str))
        first = max(0, changed - 2)
        snippet = numbered(after.split("\n")[first : changed + 3], first + 1)
        edited = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return f"{edited}\n{snippet}"

    @refusing
    def insert(self, command: commands.BetaMemoryTool20250818InsertCommand) -> str:
        def inserted(text: str) -> str:
            lines = text.removesuffix("\n").split("\n") if text else []
            if not 0 <= command.insert_line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {command.insert_line}."
                    f" It should be within the range [0, {len(lines)}]."
                )
            lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
            joined = "\n".join(lines)
            return joined if joined.endswith("\n") else f"{joined}\n"

        self._edit(command.path, inserted)
        return f"The file {command.path} has been edited."

    @refusing
    def delete(self, command: commands.BetaMemoryTool20250818DeleteCommand) -> str:
        path = checked(command.path)
        if path == ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        found = self._below(path)
        if not found:
            raise ToolError(f"The path {command.path} does not exist")
        self._remove(found)
        return f"Successfully deleted {command.path}"

    @refusing
    def rename(self, command: commands.BetaMemoryTool20250818RenameCommand) -> str:
        old, new = checked(command.old_path), checked(command.new_path)
        if old == ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        if new == ROOT or self._below(new):
            raise ToolError(f"The destination {command.new_path} already exists")
        found = self._below(old)
        if not found:
            raise ToolError(f"The path {command.old_path} does not exist")
        if new.startswith(f"{old}/"):
            raise ToolError(f"Cannot rename {command.old_path} into itself")
        self._check_folders(new, {each.path for each in self._files()})
        for file in found:  # a copy first: what fails between the two leaves one too many, and loses none
            text = self._read(file.path) or ""
            self._put(new + file.path.removeprefix(old), text, if_none_match="*")
            self._remove([file])
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    @refusing
    def clear_all_memory(self) -> str:
        self._remove(self._files())
        return "All memory cleared"

    # Storage

    def _files(self) -> list[File]:
        try:
            documents = self.hub.project_get(self.project)["documents"]
        except NotFound:
            return []
        files = (
            File(each["title"], each["name"], each["size"] - len(heading(each["title"]).encode()))
            for each in documents
            if each["name"] == document_name(each["title"])
        )
        return sorted(files, key=lambda file: file.path)

    def _below(self, path: str) -> list[File]:
        return [each for each in self._files() if each.path == path or each.path.startswith(f"{path}/")]

    def _remove(self, files: list[File]) -> None:
        for file in files:
            with suppress(NotFound):  # somebody else was faster
                self.hub.document_delete(self.project, file.document)

    @staticmethod
    def _check_folders(path: str, files: set[str]) -> None:
        """Raise ToolError where a file stands where a folder of this path would."""
        while (path := dirname(path)) != ROOT:
            if path in files:
                raise ToolError(f"The path {path} is not a directory.")

    def _document(self, path: str) -> tuple[str, str | None] | None:
        """Return a file's text and ETag; None where there is none."""
        try:
            document = self.hub.document_get(self.project, document_name(path))
        except NotFound:
            return None
        return document.get("text", "").removeprefix(heading(path)), document.get("etag")

    def _read(self, path: str) -> str | None:
        found = self._document(path)
        return found[0] if found else None

    def _put(self, path: str, text: str, **conditions: Any) -> None:
        put = partial(self.hub.document_put, self.project, document_name(path), text=heading(path) + text, **conditions)
        try:
            put()
        except NotFound:
            with suppress(Conflict):
                self.hub.projects_create(name=self.project, description=DESCRIPTION)
            put()

    def _edit(self, path: str, change: Callable[[str], str]) -> tuple[str, str]:
        """Change a file's text, again where somebody else was faster; return the text before and after."""
        at = checked(path)
        for attempt in range(ATTEMPTS):
            found = self._document(at) if at != ROOT else None
            if found is None:
                if at == ROOT or self._below(at):
                    raise ToolError(f"The path {path} is not a file.")
                raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
            before, etag = found
            after = change(before)
            try:
                self._put(at, after, if_match=etag)
            except VersionMismatch:
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                break
        return before, after


def _tree(path: str, files: list[File]) -> Iterator[tuple[str, int]]:
    """Yield files and folders below a path with their sizes, folders before what is in them; none that are hidden."""
    sizes: dict[str, int] = {"": 0}
    for file in files:
        parts = file.path.removeprefix(path).split("/")[1:]
        if not file.path.startswith(f"{path}/") or any(part.startswith(".") for part in parts):
            continue
        sizes[""] += file.size
        for depth in range(1, min(len(parts), DEPTH) + 1):
            name = "/" + "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
            sizes[name] = sizes.get(name, 0) + file.size
    return iter(sorted(sizes.items(), key=lambda each: each[0].rstrip("/").split("/")))


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`: every command runs in a thread, on a synchronous client of memoryhub."""

    def __init__(self, hub: Memoryhub, *, project: str = "memories", **options: Any) -> None:
        super().__init__(**options)
        self.tool = MemoryTool(hub, project=project)

    async def view(self, command: commands.BetaMemoryTool20250818ViewCommand) -> str:
        return await run_sync(self.tool.view, command)

    async def create(self, command: commands.BetaMemoryTool20250818CreateCommand) -> str:
        return await run_sync(self.tool.create, command)

    async def str_replace(self, command: commands.BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await run_sync(self.tool.str_replace, command)

    async def insert(self, command: commands.BetaMemoryTool20250818InsertCommand) -> str:
        return await run_sync(self.tool.insert, command)

    async def delete(self, command: commands.BetaMemoryTool20250818DeleteCommand) -> str:
        return await run_sync(self.tool.delete, command)

    async def rename(self, command: commands.BetaMemoryTool20250818RenameCommand) -> str:
        return await run_sync(self.tool.rename, command)

    async def clear_all_memory(self) -> str:
        return await run_sync(self.tool.clear_all_memory)
