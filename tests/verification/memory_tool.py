"""The SDK's own tests of its memory tool on files, run against ours on project documents.

They are in the source distribution of `anthropic` (`tests/lib/tools/memory_tools/test_filesystem.py`):

    ANTHROPIC_TESTS=…/test_filesystem.py pytest tests/verification/memory_tool.py

What looks at a file of the SDK's backend looks at the document instead; what is about links and file modes does not apply.
"""

import importlib.util
import os
from collections.abc import Iterator
from typing import Any

import pytest

from memoryhub_client import Memoryhub
from memoryhub_client.memory_tool import AsyncMemoryTool, MemoryTool
from tests.integration.clients.conftest import new_key
from tests.serving import serving

NOT_OURS = {
    "umask": "file modes: documents have none",
    "symlink": "links: documents have none",
    "too_many_lines": "a document has at most 1,000,000 characters; the file of 5,000,000 is refused when it is made",
}

_spec = importlib.util.spec_from_file_location("sdk_tests", os.environ["ANTHROPIC_TESTS"])
assert _spec is not None and _spec.loader is not None
sdk: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sdk)

TestSync = sdk.TestBetaLocalFilesystemMemoryTool
TestAsync = pytest.mark.anyio(sdk.TestBetaAsyncLocalFilesystemMemoryTool)


class StoredFile:
    """A file of the tool, with the methods of a path that the tests use."""

    def __init__(self, tool: MemoryTool, path: str) -> None:
        self.tool, self.path = tool, path

    def __truediv__(self, name: str) -> "StoredFile":
        return StoredFile(self.tool, f"{self.path}/{name}")

    def mkdir(self, **options: bool) -> None:
        pass

    def write_bytes(self, content: bytes) -> None:
        self.tool.call({"command": "create", "path": self.path, "file_text": content.decode()})

    def read_bytes(self) -> bytes:
        return (self.tool._read(self.path) or "").encode()

    def is_dir(self) -> bool:
        return "up to 2 levels" in str(self.tool.call({"command": "view", "path": self.path}))


class Root(StoredFile):
    """The root of the asynchronous tests, which they await."""

    async def is_dir(self) -> bool:  # type: ignore[override]
        return super().is_dir()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def skipped(request: pytest.FixtureRequest) -> None:
    name = request.node.name
    for part, reason in NOT_OURS.items():
        if part in name:
            pytest.skip(reason)


@pytest.fixture
def sync_local_filesystem_tool(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryTool]:
    with serving() as web, Memoryhub(web.url, new_key(), agent_id="kana", user_id="hiroki") as hub:
        tool: Any = MemoryTool(hub)
        tool.base_path, tool.memory_root = tool, StoredFile(tool, "/memories")
        monkeypatch.setattr(
            sdk,
            "get_directory_snapshot",
            lambda base_path: {each.path[1:]: tool._read(each.path) for each in tool._files()},
        )
        yield tool


@pytest.fixture
def async_local_filesystem_tool(sync_local_filesystem_tool: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncMemoryTool:
    tool: Any = AsyncMemoryTool(sync_local_filesystem_tool.hub)
    tool.base_path, tool.memory_root = tool, Root(tool.tool, "/memories")
    monkeypatch.setattr(sdk, "Path", lambda text: StoredFile(tool.tool, "/memories"))
    return tool
