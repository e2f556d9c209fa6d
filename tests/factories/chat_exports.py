"""Exports of chat programs in their real shapes, with what is odd in them; half of the texts are Japanese."""

import csv
import json
import zipfile
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.factories.writer import Writer


def openwebui_chat(writer: Writer, turns: int, user_id: str) -> dict[str, Any]:
    """Return a chat with a regenerated answer, folded thoughts, an attached image, and its messages a second time."""
    nodes: dict[str, Any] = {}

    def add(parent: str | None, role: str, content: str, **values: Any) -> str:
        key = writer.id()
        time = int(writer.time().timestamp())
        node = {"id": key, "parentId": parent, "childrenIds": [], "role": role, "content": content, "timestamp": time}
        nodes[key] = {**node, **values}
        if parent is not None:
            nodes[parent]["childrenIds"].append(key)
        return key

    place = None
    for turn in range(turns):
        files = [{"type": "image", "url": "data:image/png;base64,AA=="}] if turn == 1 else []
        place = add(place, "user", writer.text(), models=["llama3.2"], files=files)
        if turn == 0:
            add(place, "assistant", writer.text(), model="llama3.2", done=True)
        thoughts = '<details type="reasoning" done="true" duration="3">\n<summary>Thought</summary>\n> hm\n</details>\n'
        text = (thoughts if turn == 0 else "") + writer.text()
        place = add(place, "assistant", text, model="llama3.2", modelName="llama3.2", modelIdx=0, done=True)
    key, title = writer.id(), writer.text(4)[:60]
    shown = [nodes[place]] if place else []
    chat = {
        "id": "", "title": title, "models": ["llama3.2"], "params": {}, "files": [], "tags": [],
        "history": {"messages": nodes, "currentId": place}, "messages": shown, "timestamp": int(writer.at.timestamp() * 1000),
    }  # fmt: skip
    times = {"created_at": int(writer.at.timestamp()), "updated_at": int(writer.at.timestamp())}
    frame = {"share_id": None, "archived": False, "pinned": False, "meta": {"tags": []}, "folder_id": None}
    return {"id": key, "user_id": user_id, "title": title, "chat": chat, **times, **frame}


def write_openwebui(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    path, user_id = folder / "chat-export-1740000000000.json", writer.id()
    path.write_text(json.dumps([openwebui_chat(writer, turns, user_id) for _ in range(count)]), encoding="utf-8")
    return path


def deepseek_conversation(writer: Writer, turns: int) -> dict[str, Any]:
    nodes: dict[str, Any] = {"root": {"id": "root", "parent": None, "children": ["1"], "message": None}}

    def add(parent: str, *fragments: tuple[str, str]) -> str:
        key, at = str(len(nodes)), writer.time().strftime("%Y-%m-%dT%H:%M:%S.%f+08:00")
        parts = [{"type": kind, "content": text} for kind, text in fragments]
        message = {"files": [], "model": "deepseek-reasoner", "inserted_at": at, "fragments": parts}
        nodes[key] = {"id": key, "parent": parent, "children": [], "message": message}
        nodes[parent]["children"].append(key)
        return key

    place = "root"
    for turn in range(turns):
        place = add(place, ("REQUEST", writer.text()))
        if turn == 0:
            add(place, ("RESPONSE", writer.text()))
        place = add(place, ("THINK", writer.text(8)), ("RESPONSE", writer.text()))
    at = writer.iso()
    return {"id": writer.id(), "title": writer.text(4)[:60], "inserted_at": at, "updated_at": at, "mapping": nodes}


def write_deepseek(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    path = folder / "deepseek_data.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json", json.dumps({"user_id": writer.id(), "email": "hiroki@example.com"}))
        archive.writestr("conversations.json", json.dumps([deepseek_conversation(writer, turns) for _ in range(count)]))
    return path


def librechat_conversation(writer: Writer, turns: int, *, recursive: bool) -> dict[str, Any]:
    key, parent = writer.id(), "00000000-0000-0000-0000-000000000000"
    messages: list[dict[str, Any]] = []
    for number in range(2 * turns):
        message_id, is_user = writer.id(), number % 2 == 0
        text = writer.text()
        blocks = [{"type": "think", "think": "hm"}, {"type": "text", "text": text}]
        message = {
            "messageId": message_id, "conversationId": key, "parentMessageId": parent, "isCreatedByUser": is_user,
            "sender": "User" if is_user else "GPT-4o", "text": text if is_user else "", "createdAt": writer.iso(),
            "unfinished": False, "error": False, **({} if is_user else {"content": blocks}),
        }  # fmt: skip
        messages.append(message)
        parent = message_id
    head = {
        "conversationId": key, "endpoint": "openAI", "title": writer.text(4)[:60], "exportAt": "09:00:00 GMT+0900",
        "branches": True, "recursive": recursive, "options": {"model": "gpt-4o", "promptPrefix": "Answer briefly."},
    }  # fmt: skip
    if not recursive:
        return {**head, "messages": messages}
    for above, below in pairwise(messages):
        above["children"] = [below]
    return {**head, "messagesTree": messages[:1]}


def write_librechat(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    """Write a folder of conversations, every other one as a tree, and the list of memories."""
    top = folder / "librechat"
    top.mkdir()
    for number in range(count):
        value = librechat_conversation(writer, turns, recursive=number % 2 == 1)
        (top / f"conversation-{number}.json").write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    memory = {"key": "food_preferences", "value": "Likes green tea", "tokenCount": 4, "updated_at": writer.iso()}
    listed = {"memories": [memory], "totalTokens": 4, "tokenLimit": None, "usagePercentage": None}
    (top / "memories.json").write_text(json.dumps(listed), encoding="utf-8")
    return top


def write_gemini(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    """Write a log of `count` days, the newest first, with feedback and a search between the questions."""
    path = folder / "takeout.zip"
    log: list[dict[str, Any]] = []
    base = {"header": "Gemini Apps", "products": ["Gemini Apps"], "activityControls": ["Gemini Apps Activity"]}
    for _ in range(count):
        writer.at = writer.at.replace(hour=9, minute=0)
        for _ in range(turns):
            html = f"<p>{writer.text()}</p>\n<ul><li>one</li><li>two</li></ul>"
            asked = {
                **base,
                "title": f"Prompted {writer.text()}",
                "time": writer.iso(),
                "safeHtmlItem": [{"html": html}],
            }
            log.append(asked)
        log.append({**base, "title": "Gave feedback: Good response", "time": writer.iso()})
        log.append({"header": "Search", "title": "Searched for tea", "time": writer.iso(), "products": ["Search"]})
        writer.skip_day()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        name = "Takeout/マイ アクティビティ/Gemini アプリ/マイアクティビティ.json"
        archive.writestr(name, json.dumps(log[::-1], ensure_ascii=False))
        archive.writestr("Takeout/archive_browser.html", "<html></html>")
    return path


def grok_conversation(writer: Writer, turns: int) -> dict[str, Any]:
    key, parent = writer.id(), None
    responses: list[dict[str, Any]] = []
    for number in range(2 * turns):
        message_id, milliseconds = writer.id(), int(writer.time().timestamp() * 1000)
        sender = "human" if number % 2 == 0 else ("ASSISTANT", "assistant", "grok-3")[number % 3]
        response = {
            "_id": message_id, "conversation_id": key, "message": writer.text(), "sender": sender,
            "create_time": {"$date": {"$numberLong": str(milliseconds)}}, "parent_response_id": parent, "model": "grok-4",
            "steps": [], "file_attachments": [],
        }  # fmt: skip
        responses.append({"response": response, "share_link": None})
        parent = message_id if number != 1 else None  # a tenth of real ones name no parent
    head = {
        "id": key,
        "user_id": writer.id(),
        "title": writer.text(4)[:60],
        "create_time": writer.iso(),
        "starred": False,
    }
    return {"conversation": head, "responses": responses}


def write_grok(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    path = folder / "grok.zip"
    project = {"name": "shop", "custom_personality": "Answer like a tea master.", "preferred_model": "grok-4"}
    whole = {"conversations": [grok_conversation(writer, turns) for _ in range(count)], "projects": [project]}
    inside = f"ttl/30d/export_data/{writer.id()}"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{inside}/prod-mc-billing.json", json.dumps({"balance": 0}))
        archive.writestr(f"{inside}/prod-grok-backend.json", json.dumps({**whole, "tasks": [], "media_posts": [{}]}))
    return path


def write_mistral(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    path = folder / "le-chat.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for _ in range(count):
            key = writer.id()
            messages = [
                {
                    "id": writer.id(), "chatId": key, "version": 0, "role": "assistant" if number % 2 else "user",
                    "content": writer.text(), "contentChunks": None, "createdAt": writer.iso(), "files": [],
                }
                for number in range(2 * turns)
            ]  # fmt: skip
            archive.writestr(f"chat-{key}.json", json.dumps(messages[::-1], ensure_ascii=False))
        archive.writestr(f"chat-{key}-files/photo.png", b"PNG")
    return path


def write_table(folder: Path, count: int, turns: int, writer: Writer) -> Path:
    """Write a table as Copilot's export has it."""
    path = folder / "copilot-activity-history.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        table = csv.writer(file)
        table.writerow(["Conversation", "Time", "Author", "Message"])
        for _ in range(count):
            title = writer.text(4)[:60]
            for number in range(2 * turns):
                at = writer.time().strftime("%Y-%m-%dT%H:%M:%S")
                table.writerow(
                    [title, at, "AI" if number % 2 else "user", f"{writer.text()}\nSecond line, with a comma."]
                )
    return path


CHAT_WRITERS: Mapping[str, Callable[[Path, int, int, Writer], Path]] = {
    "openwebui": write_openwebui,
    "deepseek": write_deepseek,
    "librechat": write_librechat,
    "gemini": write_gemini,
    "grok": write_grok,
    "mistral": write_mistral,
    "table": write_table,
}
