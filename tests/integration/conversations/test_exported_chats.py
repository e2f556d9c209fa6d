"""Conversations leave as chats of other programs, and come back byte-equal."""

import json
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from conversations.actions.exported_chats import FORMS
from conversations.models import Message, Session
from tests.factories.foreign_exports import write_export
from tests.factories.planting import API, made
from tests.integration.memoryhub.importexport.conftest import empty_the_installation, everything, run

NAMES = {"agent_id": "kana", "user_id": "hiroki"}
WHOSE = ("--agent", "kana", "--user", "hiroki")
CALL = {"type": "tool_use", "id": "t1", "name": "search", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "found"}


def hold(client: APIClient) -> None:
    """Hold a conversation with a call of a tool and odd characters."""
    session = made(client.post(f"{API}/sessions", {**NAMES, "title": 'お茶 "quoted" </script>'}))
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Which tea?\n\n```\ncode\n```", "created_at": "2025-03-01T09:00:00.123456+09:00"},
        {"role": "assistant", "content": [CALL]},
        {"role": "tool", "content": [RESULT]},
        {"role": "assistant", "content": "緑茶 🍵 \u2028 end", "client_message_id": "m-4"},
    ]
    made(client.post(f"{API}/sessions/{session['id']}/messages", {"messages": messages}))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", ["chatgpt", "openwebui", "claude"])
def test_what_leaves_comes_back_byte_equal(client: APIClient, form: str, source: str, tmp_path: Path) -> None:
    run("import", write_export(source, tmp_path, count=3), *WHOSE)
    hold(client)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    run("export", first, *WHOSE, "--format", form)
    stored = everything()
    assert "Imported: 0 new" in run("import", first, *WHOSE)
    assert everything() == stored
    texts = list(
        Message.objects.filter(role__in=["user", "assistant"]).exclude(content="").values_list("content", flat=True)
    )
    empty_the_installation()

    told = run("import", first, *WHOSE)

    assert "sessions: 4 new, 0 here already, 0 refused" in told and "Left out" not in told
    assert sorted(Message.objects.values_list("content", flat=True)) == sorted(texts)
    assert set(Session.objects.values_list("channel", flat=True)) == {f"import:{form}"}
    run("export", second, *WHOSE, "--format", form)
    assert second.read_bytes() == first.read_bytes()


def test_nobody_has_no_chats_and_others_have_theirs(client: APIClient, tmp_path: Path) -> None:
    hold(client)
    made(client.post(f"{API}/sessions", {**NAMES, "user_id": "aoi"}))
    file = tmp_path / "chats.json"
    run("export", file, "--agent", "kana", "--user", "aoi", "--format", "openwebui")
    assert json.loads(file.read_bytes()) == []
    run("export", file, "--agent", "kana", "--format", "openwebui")
    assert [chat["user_id"] for chat in json.loads(file.read_bytes())] == ["hiroki"]
