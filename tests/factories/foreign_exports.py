"""Exports of other systems in their real shapes, as large as asked for; half of the texts are Japanese."""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.factories.chat_exports import CHAT_WRITERS
from tests.factories.memory_servers import write_hindsight, write_honcho
from tests.factories.writer import Writer


def chatgpt_conversation(writer: Writer, turns: int) -> dict[str, Any]:
    """Return a conversation with a hidden system node, a regenerated answer, and a call of `bio` now and then."""
    nodes: dict[str, Any] = {}

    def add(parent: str | None, role: str, text: str, **message: Any) -> str:
        key = writer.id()
        nodes[key] = {
            "id": key, "parent": parent, "children": [],
            "message": {
                "id": key, "author": {"role": role, "name": None, "metadata": {}},
                "create_time": writer.time().timestamp(), "update_time": None,
                "content": {"content_type": "text", "parts": [text]}, "status": "finished_successfully",
                "end_turn": True, "weight": 1.0, "metadata": {"model_slug": "gpt-4o", "timestamp_": "absolute"},
                "recipient": "all", "channel": None, **message,
            },
        }  # fmt: skip
        if parent is not None:
            nodes[parent]["children"].append(key)
        return key

    root = writer.id()
    nodes[root] = {"id": root, "message": None, "parent": None, "children": []}
    place = add(root, "system", "", metadata={"is_visually_hidden_from_conversation": True})
    for turn in range(turns):
        place = add(place, "user", writer.text())
        if turn == 0:
            add(place, "assistant", writer.text())  # regenerated: on no branch that its owner sees
        place = add(place, "assistant", writer.text())
    if writer.random.random() < 0.2:
        place = add(place, "assistant", f"User {writer.text(6)}", recipient="bio")
    return {
        "title": writer.text(4)[:60], "create_time": writer.at.timestamp() - 60 * turns,
        "update_time": writer.at.timestamp(), "mapping": nodes, "moderation_results": [], "current_node": place,
        "plugin_ids": None, "conversation_id": root, "conversation_template_id": None, "gizmo_id": None,
        "is_archived": False, "safe_urls": [], "default_model_slug": "gpt-4o", "id": root,
    }  # fmt: skip


def claude_conversation(writer: Writer, turns: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for number in range(2 * turns):
        text, at = writer.text(), writer.iso()
        block = {"start_timestamp": at, "stop_timestamp": at, "type": "text", "text": text, "citations": []}
        thought = {"type": "thinking", "thinking": writer.text(8), "summaries": []}
        messages.append(
            {
                "uuid": writer.id(),
                "text": text,
                "content": [thought, block] if number % 2 else [block],
                "sender": "assistant" if number % 2 else "human",
                "created_at": at,
                "updated_at": at,
                "attachments": [],
                "files": [],
            }
        )
    return {
        "uuid": writer.id(),
        "name": writer.text(4)[:60],
        "summary": "",
        "created_at": messages[0]["created_at"],
        "updated_at": messages[-1]["updated_at"],
        "account": {"uuid": writer.id()},
        "chat_messages": messages,
    }


def claude_code_lines(writer: Writer, turns: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of a transcript, with a summary, a tool's call and its result."""
    session, parent = writer.id(), None
    base = {
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/hiroki/src/tea-shop",
        "sessionId": session,
        "version": "2.0.14",
        "gitBranch": "main",
    }
    yield {"type": "summary", "summary": writer.text(4)[:60], "leafUuid": writer.id()}
    yield {"type": "file-history-snapshot", "messageId": writer.id(), "snapshot": {}, "isSnapshotUpdate": False}
    for number in range(2 * turns):
        key, is_user = writer.id(), number % 2 == 0
        blocks = [
            {"type": "text", "text": writer.text()},
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "make test"}},
        ]
        message = (
            {"role": "user", "content": writer.text()}
            if is_user
            else {"role": "assistant", "type": "message", "model": "claude-sonnet", "content": blocks}
        )
        kind = "user" if is_user else "assistant"
        yield {**base, "parentUuid": parent, "type": kind, "message": message, "uuid": key, "timestamp": writer.iso()}
        parent = key
        if not is_user:
            result = {"tool_use_id": "toolu_1", "type": "tool_result", "content": "1 passed"}
            yield {
                **base,
                "parentUuid": parent,
                "type": "user",
                "message": {"role": "user", "content": [result]},
                "uuid": writer.id(),
                "timestamp": writer.iso(),
                "toolUseResult": {"stdout": "1 passed"},
            }


def write_chatgpt(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    """Write the zip as it is downloaded, in shards of 500."""
    path = folder / "chatgpt.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json", json.dumps({"id": "user-1", "email": "hiroki@example.com"}))
        archive.writestr("chat.html", "<html><body>…</body></html>")
        for shard in range(0, count, 500):
            talks = [chatgpt_conversation(writer, turns) for _ in range(min(500, count - shard))]
            archive.writestr(f"conversations-{shard // 500:03d}.json", json.dumps(talks))
    return path


def write_claude(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    path = folder / "claude.zip"
    project = writer.id()
    memories = {
        "conversations_memory": "**Work context**\n\n" + "\n\n".join(writer.text(20) for _ in range(5)),
        "project_memories": {project: writer.text(20)},
        "account_uuid": writer.id(),
    }
    document = {"uuid": writer.id(), "filename": "suppliers.md", "content": writer.text(60), "created_at": writer.iso()}
    projects = {
        "uuid": project,
        "name": "喫茶店の計画",
        "description": "A tea shop in Kyoto",
        "is_private": True,
        "is_starter_project": False,
        "prompt_template": "Answer briefly.",
        "created_at": writer.iso(),
        "creator": {"uuid": writer.id(), "full_name": "Hiroki"},
        "docs": [document],
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("users.json", json.dumps([{"uuid": writer.id(), "full_name": "Hiroki"}]))
        archive.writestr("memories.json", json.dumps([memories], ensure_ascii=False))
        archive.writestr("projects.json", json.dumps([projects], ensure_ascii=False))
        talks = [claude_conversation(writer, turns) for _ in range(count)]
        archive.writestr("conversations.json", json.dumps(talks, ensure_ascii=False))
    return path


def write_coding_agents(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    top = folder / "claude-code"
    place = top / "-home-hiroki-src-tea-shop"
    (place / "memory").mkdir(parents=True)
    (place / "memory" / "MEMORY.md").write_text("# Memory\n\n- The tests need PostgreSQL.\n", encoding="utf-8")
    for _ in range(count):
        lines = [json.dumps(line, ensure_ascii=False) for line in claude_code_lines(writer, turns)]
        (place / f"{writer.id()}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return top


def write_letta(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    """Write an agent file with an agent for each conversation."""
    path = folder / "agents.af"
    blocks, agents = [], []
    for number in range(count):
        block = f"block-{number}"
        blocks.append({"id": block, "label": "human", "value": writer.text(20), "limit": 5000, "description": None})
        messages: list[dict[str, Any]] = []
        for turn in range(turns):
            said = {"type": "user_message", "message": writer.text(), "time": "2025-03-01 09:00:00 AM UTC"}
            sent = {"name": "send_message", "arguments": json.dumps({"message": writer.text()}, ensure_ascii=False)}
            call = {"id": "call_1", "type": "function", "function": sent}
            messages += [
                {
                    "id": f"message-{2 * turn}",
                    "role": "user",
                    "created_at": writer.iso(),
                    "tool_calls": None,
                    "content": [{"type": "text", "text": json.dumps(said, ensure_ascii=False)}],
                },
                {
                    "id": f"message-{2 * turn + 1}",
                    "role": "assistant",
                    "created_at": writer.iso(),
                    "content": [{"type": "text", "text": "A thought."}],
                    "tool_calls": [call],
                },
            ]
        agents.append(
            {
                "id": f"agent-{number}",
                "name": f"Tea {number}",
                "agent_type": "memgpt_agent",
                "block_ids": [block],
                "system": "You are Letta.",
                "messages": messages,
                "in_context_message_ids": [],
                "tool_ids": [],
            }
        )
    whole = {"agents": agents, "groups": [], "blocks": blocks, "files": [], "sources": [], "tools": [], "metadata": {}}
    path.write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")
    return path


def write_mem0(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    """Write `count` × 2 × `turns` memories, as many as the others have messages."""
    path = folder / "mem0.json"
    rows = [
        {
            "id": writer.id(),
            "memory": writer.text(15),
            "hash": writer.id(),
            "user_id": "hiroki",
            "metadata": {"topic": "tea"},
            "categories": ["food"],
            "created_at": writer.iso(),
            "updated_at": None,
        }
        for _ in range(2 * count * turns)
    ]
    path.write_text(json.dumps({"results": rows}, ensure_ascii=False), encoding="utf-8")
    return path


def note_text(writer: Writer, number: int) -> str:
    """Return a note as basic-memory keeps them."""
    facts = "\n".join(f"- [{kind}] {writer.text(10)} #tea #旅" for kind in ("fact", "decision", "preference"))
    return (
        f"---\ntitle: Note {number}\ntype: note\npermalink: shop/note-{number}\ntags:\n- shop\n---\n\n# Note {number}\n\n"
        f"{writer.text(40)}\n\n## Observations\n{facts}\n- [ ] a task\n- [[Note 1]] is linked\n\n## Relations\n"
        f"- relates_to [[Note {number + 1}]]\n- [a link](https://example.com)\n"
    )


def write_markdown(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    vault = folder / "vault"
    for number in range(count):
        note = vault / ("shop" if number % 2 else "旅行") / f"note {number}.md"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(note_text(writer, number), encoding="utf-8")
    (vault / ".obsidian").mkdir()
    (vault / ".obsidian" / "app.json").write_text("{}")
    return vault


WRITERS: Mapping[str, Callable[[Path, int, int, Writer], Path]] = {
    "chatgpt": write_chatgpt,
    "claude": write_claude,
    "coding-agents": write_coding_agents,
    "hindsight": write_hindsight,
    "honcho": write_honcho,
    "letta": write_letta,
    "mem0": write_mem0,
    "markdown": write_markdown,
    **CHAT_WRITERS,
}


def write_export(format: str, folder: Path, *, count: int, turns: int = 3, seed: int = 1) -> Path:
    """Write an export of `count` conversations of `turns` questions and answers; return its path."""
    return WRITERS[format](folder, count, turns, Writer(seed))
