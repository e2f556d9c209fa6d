"""Claude's memory tool on project documents, beside the SDK's own backend on files."""

import asyncio
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

from memoryhub_client import Memoryhub
from memoryhub_client.memory_tool import AsyncMemoryTool, MemoryTool, checked, readable
from tests.integration.clients.conftest import new_key
from tests.integration.mcp.test_story import left_behind
from tests.serving import Web

PATHS = [
    "/memories/notes.md",
    "/memories/work/tea.txt",
    "/memories/work/deep/er/x.txt",
    "/memories/緑茶.md",
    "/memories/",
]
TEXTS = ["green tea\nblack tea\n", "", "one\r\ntwo\r\n", "# heading\n\ntea tea", "緑茶"]


@pytest.fixture
def tool(web: Web, key: str) -> Iterator[MemoryTool]:
    with Memoryhub(web.url, key, agent_id="kana", user_id="hiroki") as hub:
        yield MemoryTool(hub)


def commands(seed: int, number: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(seed)
    for _ in range(number):
        path, other, text = chance.choice(PATHS), chance.choice(PATHS), chance.choice(TEXTS)
        yield chance.choice([
            {"command": "create", "path": path, "file_text": text},
            {"command": "create", "path": path, "file_text": text},
            {"command": "view", "path": chance.choice([path, "/memories", "/memories/work", "/etc", "/memories/../x"])},
            {"command": "view", "path": path, "view_range": chance.choice([[1, 1], [2, -1], [0, 9]])},
            {"command": "str_replace", "path": path, "old_str": "tea", "new_str": chance.choice(["TEA", "", "a\nb"])},
            {"command": "insert", "path": path, "insert_line": chance.choice([0, 1, 2, 9]), "insert_text": "new\n"},
            {"command": "delete", "path": chance.choice([path, "/memories/work"])},
            {"command": "rename", "old_path": path, "new_path": chance.choice([other, "/memories/moved/it.txt"])},
        ])  # fmt: skip


def told(tool: Any, command: dict[str, Any]) -> str:
    """Return what Claude would be told; sizes of folders and empty folders are the file system's own."""
    try:
        answer = str(tool.call(command))
    except ToolError as error:
        answer = f"error: {error}"
    except OSError as error:
        return type(error).__name__
    if "up to 2 levels" in answer:
        header, *lines = answer.split("\n")
        return "\n".join([header, *(line for line in lines[1:] if not line.endswith("/"))])
    return answer


@pytest.mark.parametrize("seed", range(2))
def test_answers_are_those_of_the_sdks_backend(seed: int, tool: MemoryTool, tmp_path: Path) -> None:
    reference = BetaLocalFilesystemMemoryTool(str(tmp_path))
    for command in commands(seed, 40):
        expected = told(reference, command)
        for folder in sorted((tmp_path / "memories").rglob("*"), reverse=True):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()  # documents have no empty folders
        assert told(tool, command) == expected, command


def test_async_tool_answers_the_same(tool: MemoryTool) -> None:
    slow = AsyncMemoryTool(tool.hub)
    created: Any = {"command": "create", "path": "/memories/a.txt", "file_text": "one"}
    replaced: Any = {"command": "str_replace", "path": "/memories/a.txt", "old_str": "one", "new_str": "two"}
    renamed: Any = {"command": "rename", "old_path": "/memories/a.txt", "new_path": "/memories/b.txt"}

    async def run() -> list[Any]:
        answers = [await slow.call(each) for each in (created, replaced, renamed)]
        answers.append(
            await slow.call({"command": "insert", "path": "/memories/b.txt", "insert_line": 1, "insert_text": "x"})
        )
        answers.append(await slow.call({"command": "view", "path": "/memories/b.txt"}))
        answers.append(await slow.call({"command": "delete", "path": "/memories/b.txt"}))
        return [*answers, await slow.clear_all_memory()]

    answers = asyncio.run(run())
    assert answers[0] == "File created successfully at: /memories/a.txt"
    assert answers[4].endswith("     1\ttwo\n     2\tx\n     3\t")
    assert answers[5:] == ["Successfully deleted /memories/b.txt", "All memory cleared"]


def test_concurrent_edits_are_all_kept(tool: MemoryTool) -> None:
    tool.call({"command": "create", "path": "/memories/log.txt", "file_text": "".join(f"<{n}>\n" for n in range(4))})
    edits = [
        {"command": "str_replace", "path": "/memories/log.txt", "old_str": f"<{n}>", "new_str": f"done {n}"}
        for n in range(4)
    ]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(tool.call, edits))
    text = str(tool.call({"command": "view", "path": "/memories/log.txt"}))
    assert re.findall(r"done (\d)", text) == ["0", "1", "2", "3"]


def test_clearing_leaves_what_people_wrote_beside(tool: MemoryTool, web: Web) -> None:
    tool.call({"command": "create", "path": "/memories/a.txt", "file_text": "one"})
    tool.hub.document_put("memories", "decisions.md", text="- By people.\n")
    assert tool.clear_all_memory() == "All memory cleared"
    assert [each["name"] for each in tool.hub.project_get("memories")["documents"]] == ["MEMORY.md", "decisions.md"]
    assert tool.call({"command": "view", "path": "/memories"}).__str__().endswith("0B\t/memories")


def test_other_tenants_and_refusals_are_told_to_the_model(tool: MemoryTool, web: Web) -> None:
    tool.call({"command": "create", "path": "/memories/a.txt", "file_text": "one"})
    with Memoryhub(web.url, new_key(), agent_id="kana", user_id="maya") as hub:
        assert told(MemoryTool(hub), {"command": "view", "path": "/memories/a.txt"}).endswith("provide a valid path.")
    with Memoryhub(web.url, new_key(scopes=["read"]), agent_id="kana", user_id="hiroki") as hub:
        refused = told(MemoryTool(hub), {"command": "create", "path": "/memories/b.txt", "file_text": "x"})
    assert refused.startswith("error: The memory could not be reached or changed: 403 permission_denied")
    with pytest.raises(ToolError, match="could not be reached or changed: 400 invalid"):
        tool.call({"command": "create", "path": "/memories/b.txt", "file_text": "x" * 1_000_001})
    with pytest.raises(ToolError, match="not a directory"):
        tool.call({"command": "create", "path": "/memories/a.txt/b.txt", "file_text": "x"})
    with pytest.raises(ToolError, match="not a directory"):
        tool.call({"command": "create", "path": "/memories/c.txt", "file_text": "x"})
        tool.call({"command": "rename", "old_path": "/memories/c.txt", "new_path": "/memories/a.txt/c.txt"})
    for path in ("/memories/a\nb", "/memories/a "):
        with pytest.raises(ToolError, match="cannot be shown"):
            tool.call({"command": "create", "path": path, "file_text": "x"})


def test_sizes_are_readable() -> None:
    assert [readable(size) for size in (0, 5, 1024, 1536, 5 << 20, 3 << 30)] == ["0B", "5B", "1K", "1.5K", "5M", "3G"]


def test_story_is_told_recalled_corrected_forgotten_and_erased(tool: MemoryTool, web: Web, key: str) -> None:
    tool.call({"command": "create", "path": "/memories/cat.md", "file_text": "The cat is called Momo.\n"})
    with Memoryhub(web.url, key, agent_id="kana", user_id="hiroki") as hub:
        other = MemoryTool(hub)
        assert "called Momo" in told(other, {"command": "view", "path": "/memories/cat.md"})
        context = hub.context_assemble(message="What is the cat called?", project="memories")
        assert "called Momo" in str(context["messages"])
        correction = {"command": "str_replace", "path": "/memories/cat.md", "old_str": "Momo", "new_str": "Mimi"}
        assert "called Mimi" in told(other, correction)
        tool.call({"command": "delete", "path": "/memories/cat.md"})
        assert "called" not in str(hub.context_assemble(message="What is the cat named?", project="memories"))
        hub.actor_erase(user_id="hiroki")
    assert left_behind() == {}


@pytest.mark.parametrize("path", ["/memoriesX/a", "/memories-old/a", "/memorie", "memories/a"])
def test_a_path_beside_memories_is_none_of_it(path: str) -> None:
    with pytest.raises(ToolError, match="must start with"):
        checked(path)
