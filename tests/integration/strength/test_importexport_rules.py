"""mem0's and ChatGPT's exports through `manage.py import`: into memories and sessions, once each, by the usual rules."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from rest_framework.test import APIClient

from conversations.models import Message, MessageIndex, Session
from memoryhub.auth.erasure import actor_models
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.policy import actor_id
from strength.models import Memory, MemoryIndex, MemoryNumbers
from tests.factories.planting import API, made
from tests.integration.memoryhub.importexport.conftest import everything, run

MEMORIES = [
    {
        "id": "1",
        "memory": "Likes green tea",
        "user_id": "hiroki",
        "created_at": "2025-01-01T00:00:00Z",
        "categories": ["food"],
    },
    {"id": "2", "memory": "京都に住んでいる", "user_id": "hiroki", "created_at": "2025-02-01T00:00:00Z"},
    {"id": "3", "memory": "Plays chess", "user_id": "aoi"},
]
Save = Callable[[Any], Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def save(content: Any) -> Path:
        file = tmp_path / "foreign.json"
        raw = content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode()
        file.write_bytes(raw)
        return file

    return save


def texts(agent_id: str, user_id: str) -> set[str]:
    return set(Memory.objects.filter(actor_id=actor_id(agent_id, user_id)).values_list("content", flat=True))


@pytest.mark.parametrize(
    "shape",
    [
        lambda rows: rows,
        lambda rows: {"results": rows},
        lambda rows: {"memories": rows, "user": {}},
        lambda rows: "\n".join(json.dumps(row) for row in rows).encode(),
    ],
    ids=["list", "results", "memories", "lines"],
)
def test_memories_of_mem0_go_to_their_users(db: None, save: Save, shape: Callable[[Any], Any]) -> None:
    told = run("import", save(shape(MEMORIES)), "--agent", "kana")
    assert texts("kana", "hiroki") == {"Likes green tea", "京都に住んでいる"}
    assert texts("kana", "aoi") == {"Plays chess"}
    assert "Imported: 3 new, 0 here already, 0 refused." in told
    memory = Memory.objects.get(content="Likes green tea")
    assert (memory.kind, memory.namespace, memory.source, memory.status) == (
        "fact",
        "/facts/hiroki/",
        "import",
        "active",
    )
    assert (memory.tags, memory.valid_from and memory.valid_from.isoformat()) == (["food"], "2025-01-01T00:00:00+00:00")
    assert MemoryIndex.objects.count() == MemoryNumbers.objects.count() == 3


def test_a_second_import_strengthens_nothing(db: None, save: Save) -> None:
    file = save([*MEMORIES, MEMORIES[0]])
    first = run("import", file, "--agent", "kana")
    assert "memories: 3 new, 1 here already, 0 refused" in first
    before = everything()
    told = run("import", file, "--agent", "kana")
    assert everything() == before
    assert told.count("a memory with the same words is here already") == 4
    assert "tea" not in told


def test_a_dry_run_tells_the_same_and_changes_nothing(db: None, save: Save) -> None:
    file = save(MEMORIES)
    before = everything()
    would = run("import", file, "--agent", "kana", "--dry-run")
    assert everything() == before
    assert not Agent.objects.exists()
    assert would.replace("Would be", "Imported") == run("import", file, "--agent", "kana")


def test_an_import_that_is_not_trusted_waits_for_a_curator(db: None, save: Save) -> None:
    told = run("import", save(MEMORIES), "--agent", "kana", "--untrusted")
    assert set(Memory.objects.values_list("status", "trust")) == {("pending", "untrusted")}
    assert told.count("is pending") == 3


def test_what_a_person_deleted_waits_for_a_curator(client: APIClient, save: Save) -> None:
    names = {"agent_id": "kana", "user_id": "hiroki"}
    memory = made(client.post(f"{API}/memories", {**names, "content": "Likes green tea", "kind": "fact"}))
    client.delete(f"{API}/memories/{memory['id']}")
    told = run("import", save(MEMORIES), "--agent", "kana")
    assert Memory.objects.get(content="Likes green tea").status == "pending"
    assert told.count("is pending") == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp932"])
def test_a_table_is_imported_by_its_columns(db: None, tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "notes.csv"
    rows = ["what,when,whose,mood", '"緑茶が好き, 毎日",2025/02/03 09:30,hiroki,', "Plays chess,soon,aoi,good", ",,"]
    file.write_text("\n".join(rows), encoding=encoding)
    with pytest.raises(CommandError, match="not recognised"):
        run("import", file, "--agent", "kana")
    told = run("import", file, "--agent", "kana", "--map", "content=what,created_at=when,user_id=whose")
    assert "memories: 2 new" in told and "Left out: 1 × times that are none" in told and "line 3" in told
    assert "Left out: 1 × columns that are not used. Such as mood." in told
    assert texts("kana", "hiroki") == {"緑茶が好き, 毎日"}
    assert Memory.objects.get(content__startswith="緑茶").valid_from == datetime(2025, 2, 3, 9, 30, tzinfo=UTC)
    with pytest.raises(CommandError, match="no column text; there are: what, when, whose, mood"):
        run("import", file, "--agent", "kana", "--map", "content=text")
    with pytest.raises(CommandError, match="give columns as meaning=column"):
        run("import", file, "--agent", "kana", "--map", "colour=what")


def test_json_lines_are_imported_by_paths(db: None, save: Save) -> None:
    rows = [
        {"body": {"text": text}, "by": by, "chat": "c1"} for text, by in (("Hi", "me"), ("Hello", "bot"), ("x", "tool"))
    ]
    file = save("\n".join(map(json.dumps, rows)).encode())
    told = run("import", file, *WHOSE, "--map", "content=body.text,role=by,session=chat")
    assert "messages: 2 new" in told and "Left out: 1 × calls of tools" in told
    assert dict(Message.objects.values_list("role", "content")) == {"user": "Hi", "assistant": "Hello"}
    assert "Imported: 0 new" in run("import", file, *WHOSE, "--map", "content=body.text,role=by,session=chat")


def test_one_user_does_not_get_what_several_said(db: None, save: Save) -> None:
    with pytest.raises(CommandError, match="several users"):
        run("import", save(MEMORIES), "--agent", "kana", "--user", "hiroki")
    run("import", save(MEMORIES[:2]), "--agent", "kana", "--user", "other-name")
    assert texts("kana", "other-name") == {"Likes green tea", "京都に住んでいる"}


def test_an_agent_has_to_be_named(db: None, save: Save) -> None:
    with pytest.raises(CommandError, match="give --agent"):
        run("import", save(MEMORIES))
    with pytest.raises(CommandError, match="give --agent and --user"):
        run("import", save([TALK]), "--agent", "kana")
    assert not Actor.objects.exists()


def test_hostile_memories_are_refused_singly(db: None, save: Save) -> None:
    long = json.dumps({"memory": "x" * 100_001, "user_id": "u"})
    rows = [
        '{"memory": "good", "user_id": "u"}', '{"memory": "nul \\u0000", "user_id": "u"}', '{"memory": "half \\ud800"}',
        '{"memory": "time", "created_at": 1e39}', '{"memory": 1e999}', '{"memory": NaN}', "nonsense", '{"memory": }', long,
        '{"memory": ["deep"], "metadata": ' + "[" * 60_000 + "]" * 60_000 + "}", '{"memory": "also good", "user_id": "u"}',
    ]  # fmt: skip
    told = run("import", save("\n".join(rows).encode()), "--agent", "kana")
    assert set(Memory.objects.values_list("content", flat=True)) == {"good", "also good", "nul \ufffd", "half \ufffd"}
    assert "memories: 4 new, 0 here already, 7 refused" in told
    for number in (4, 5, 6, 7, 8, 9, 10):
        assert f"Line {number}: memories: " in told


@pytest.mark.parametrize(
    ("shape", "places"),
    [
        (lambda rows: json.dumps({"user": 1, "results": rows}), ["Entry 2", "Entry 4"]),
        (lambda rows: json.dumps({"results": rows}, indent=2), ["Entry 2, line 12", "Entry 4, line 22"]),
        (lambda rows: json.dumps(rows), ["Entry 2, line 1", "Entry 4, line 1"]),
        (lambda rows: "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]", ["Entry 2, line 3", "Entry 4, line 5"]),
        (lambda rows: "\n".join(map(json.dumps, rows)), ["Line 2", "Line 4"]),
    ],
    ids=["one object", "a list in it", "a list of one line", "a list", "lines"],
)
def test_what_is_refused_is_told_with_its_place(
    db: None, save: Save, shape: Callable[[Any], str], places: list[str]
) -> None:
    wrong = {"memory": "tea", "user_id": "nul \x00"}
    told = run("import", save(shape([MEMORIES[0], wrong, MEMORIES[1], wrong]).encode()), "--agent", "kana")
    assert [each.partition(": memories: ")[0] for each in told.splitlines() if "user_id" in each] == places


def node(parent: str | None, role: str, text: str, time: float | None = None, **message: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    return {
        "parent": parent,
        "children": [],
        "message": {"author": {"role": role}, "content": content, "create_time": time, **message},
    }


TALK = {
    "title": "お茶の話",
    "create_time": 1_700_000_000,
    "conversation_id": "c-1",
    "current_node": "4",
    "mapping": {
        "1": node(None, "system", ""),
        "2": node("1", "user", "Which tea is green?", 1_700_000_001),
        "2x": node("1", "user", "Another question", 1_700_000_001),
        "3": node("2", "assistant", "Sencha.", 1_700_000_002),
        "b": node("3", "assistant", "Hiroki likes sencha.", 1_700_000_003, recipient="bio"),
        "4": node("b", "user", "Thank you", 1_700_000_004),
    },
}
WHOSE = ("--agent", "kana", "--user", "hiroki")


def test_conversations_of_chatgpt_become_sessions(client: APIClient, save: Save) -> None:
    told = run("import", save([TALK]), *WHOSE)
    session = Session.objects.get()
    assert (session.channel, session.title, session.message_count) == ("import:chatgpt", "お茶の話", 3)
    assert session.started_at.timestamp() == 1_700_000_000
    assert session.last_message_at is not None and session.last_message_at.timestamp() == 1_700_000_004
    said = Message.objects.order_by("seq").values_list("role", "content", "trust")
    assert list(said) == [
        ("user", "Which tea is green?", "trusted"),
        ("assistant", "Sencha.", "trusted"),
        ("user", "Thank you", "trusted"),
    ]
    assert texts("kana", "hiroki") == {"Hiroki likes sencha."}
    assert MessageIndex.objects.count() == 3
    assert "messages: 3 new" in told and "sessions: 1 new" in told and "memories: 1 new" in told
    found = made(
        client.post(
            f"{API}/memories/search",
            {"agent_id": "kana", "user_id": "hiroki", "query": "green tea", "include_messages": True},
        )
    )
    assert any("message" in each for each in found["results"])


def test_a_conversation_comes_in_once_and_grows(db: None, save: Save) -> None:
    run("import", save([TALK]), *WHOSE)
    before = everything()
    run("import", save([TALK]), *WHOSE)
    assert everything() == before
    grown = {
        **TALK,
        "current_node": "5",
        "mapping": {**TALK["mapping"], "5": node("4", "assistant", "Welcome", 1_700_000_005)},
    }
    told = run("import", save([grown]), *WHOSE)
    assert Session.objects.get().message_count == 4
    assert "messages: 1 new, 3 here already" in told


def test_the_same_file_of_two_people_is_two_peoples(db: None, save: Save) -> None:
    run("import", save([TALK]), *WHOSE)
    run("import", save([TALK]), "--agent", "kana", "--user", "aoi")
    assert set(Session.objects.values_list("actor__user_id", flat=True)) == {"hiroki", "aoi"}
    assert {model._meta.label for model in actor_models()} >= {"conversations.Session"}


def test_untrusted_conversations_stay_out_of_other_sessions(db: None, save: Save) -> None:
    run("import", save([TALK]), *WHOSE, "--untrusted")
    assert set(Message.objects.values_list("trust", flat=True)) == {"untrusted"}
    assert set(Memory.objects.values_list("status", flat=True)) == {"pending"}


def test_hostile_conversations_are_refused_singly(db: None, save: Save) -> None:
    circle = {**TALK, "conversation_id": "c-2", "mapping": {"4": node("3", "user", "a"), "3": node("4", "user", "b")}}
    late = {**TALK, "conversation_id": "c-3", "create_time": 1e39}
    lost = {**TALK, "conversation_id": "c-4", "current_node": "none"}
    partly = {
        **TALK,
        "conversation_id": "c-5",
        "current_node": "2",
        "mapping": {"1": node(None, "user", " \u200b"), "2": node("1", "assistant", "fine \x00")},
    }
    rows = [json.dumps(each) for each in (circle, late, lost, partly, TALK)]
    content = "[" + ",\n".join(
        [
            *rows,
            '{"mapping": {"1": {}}, "conversation_id": "c-6", "current_node": "none", "title": "half \\ud800"}',
            '{"mapping": ',
        ]
    )
    told = run("import", save(content.encode()), *WHOSE, "--format", "chatgpt")
    assert Session.objects.count() == 5
    assert "sessions: 5 new, 0 here already, 1 refused" in told
    assert "messages: 12 new, 0 here already, 1 refused" in told
    for why in ("its text is empty", "ends in the middle", "1 × times that are none", "1 × conversations without a"):
        assert why in told
    assert "Left out: 3 × links to messages" in told and "Such as entry 1, line 1, c-2; entry 3, line 3, c-4" in told
    assert Message.objects.filter(content="fine \ufffd").exists()
