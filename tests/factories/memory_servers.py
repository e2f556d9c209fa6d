"""What Honcho (API v3) and Hindsight (API v1) keep, as their OpenAPI descriptions have it, and downloads of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.factories.writer import Writer

Lists = dict[str, list[dict[str, Any]]]
"""Items of a server's lists, by path, in the order in which they are downloaded."""

PAGE_SIZE = 100
SPACE = "kana tutoring"


def honcho_lists(writer: Writer, count: int, turns: int) -> Lists:
    """Return the lists of a workspace in which `hiroki` and, now and then, `maya` talk to an unobserved tutor."""
    root = "/v3/workspaces/kana%20tutoring"
    lists: Lists = {
        "/v3/workspaces/list": [{"id": SPACE, "metadata": {}, "configuration": {}, "created_at": writer.iso()}],
        f"{root}/peers/list": [
            {"id": name, "workspace_id": SPACE, "created_at": writer.iso(), "metadata": {}, "configuration": settings}
            for name, settings in (("hiroki", {}), ("maya", {"observe_me": True}), ("tutor", {"observe_me": False}))
        ],
        f"{root}/conclusions/list": [
            {
                "id": writer.id(), "content": writer.text(8), "observer_id": "tutor", "observed_id": observed,
                "session_id": None, "level": "explicit", "created_at": writer.iso(),
            }
            for observed in ("hiroki", "tutor") for _ in range(count)
        ],
    }  # fmt: skip
    sessions = [
        {"id": writer.id(), "is_active": True, "workspace_id": SPACE, "metadata": {}, "created_at": writer.iso()}
        for _ in range(count)
    ]
    lists[f"{root}/sessions/list"] = sessions
    for session in sessions:
        lists[f"{root}/sessions/{session['id']}/messages/list"] = [
            {
                "id": writer.id(), "content": writer.text(), "peer_id": peer, "session_id": session["id"],
                "metadata": {}, "created_at": writer.iso(), "workspace_id": SPACE, "token_count": 9,
            }
            for turn in range(turns) for peer in ("maya" if turn == 1 else "hiroki", "tutor")
        ]  # fmt: skip
    return lists


def hindsight_lists(writer: Writer, count: int, turns: int) -> Lists:
    """Return the lists of one bank: a document for each conversation, and a memory for each turn."""
    documents = [
        {"id": writer.id(), "bank_id": "hiroki", "created_at": writer.iso(), "memory_unit_count": turns, "tags": []}
        for _ in range(count)
    ]
    return {
        "/v1/default/banks": [{"bank_id": "hiroki", "name": "Hiroki", "fact_count": count * turns}],
        "/v1/default/banks/hiroki/documents": documents,
        "/v1/default/banks/hiroki/memories/list": [
            {
                "id": writer.id(), "text": writer.text(8), "context": "chat", "date": writer.iso(),
                "fact_type": ("world", "experience", "observation")[turn % 3], "document_id": document["id"],
                "mentioned_at": writer.iso(), "occurred_start": None, "entities": "Hiroki (PERSON)",
                "tags": ["chat"], "metadata": {"channel": "app"}, "state": "valid",
            }
            for document in documents for turn in range(turns)
        ],
    }  # fmt: skip


def pages(items: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the pages that a list is downloaded in; the last has fewer items than fit, or none."""
    for start in range(0, len(items) + 1, PAGE_SIZE):
        yield items[start : start + PAGE_SIZE]


def _write(service: str, lists: Lists, folder: Path) -> Path:
    path = folder / f"{service}.jsonl"
    lines = (
        json.dumps({"service": service, "path": name, "page": number, "items": page}, ensure_ascii=False)
        for name, items in lists.items()
        for number, page in enumerate(pages(items), 1)
    )
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_honcho(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    return _write("honcho", honcho_lists(writer, count, turns), folder)


def write_hindsight(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    return _write("hindsight", hindsight_lists(writer, count, turns), folder)
