"""Every foreign format in its real shape: dry run, import, a second run that adds nothing, and the undo of it all."""

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import CommandError
from rest_framework.test import APIClient

from conversations.actions.client_history import ids_of_name
from conversations.models import Message, MessageIndex, Receipt, Session
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.importexport.foreign.formats import FORMATS
from memoryhub.importexport.foreign.imports import undo_rows
from memoryhub.importexport.foreign.models import Import, ImportedRow
from memoryhub.jobs.models import Job
from memoryhub.tenancy.models import Actor
from strength.actions.drafts import sources_of
from strength.actions.memories import NewMemory, write_memory
from strength.domain.memories import Kind
from strength.models import Memory, MemorySource, StrategyCursor
from summaries.actions.project_lifecycle import archive_project
from summaries.models import Document, DocumentVersion, Project, ProjectCursor, Summary
from tests.factories.foreign_exports import claude_code_lines, note_text, write_export
from tests.factories.planting import API, made
from tests.factories.writer import Writer
from tests.integration.memoryhub.importexport.conftest import everything, run

NOW = datetime(2026, 5, 1, tzinfo=UTC)
WHOSE = ("--agent", "kana", "--user", "hiroki")
NEW = {
    "table": {"sessions": 4, "messages": 24},
    "deepseek": {"sessions": 4, "messages": 24},
    "openwebui": {"sessions": 4, "messages": 24},
    "librechat": {"sessions": 4, "messages": 24, "memories": 2},
    "gemini": {"sessions": 4, "messages": 24},
    "grok": {"sessions": 4, "messages": 24, "memories": 1},
    "mistral": {"sessions": 4, "messages": 24},
    "chatgpt": {"sessions": 4, "messages": 24},
    "claude": {"sessions": 4, "messages": 24, "memories": 6, "documents": 2},
    "coding-agents": {"sessions": 4, "messages": 24, "documents": 1},
    "letta": {"sessions": 4, "messages": 24, "memories": 4},
    "mem0": {"memories": 24},
    "hindsight": {"memories": 12},
    "honcho": {"sessions": 4, "messages": 24, "memories": 4},
    "markdown": {"memories": 12, "documents": 4},
}


def undo_all(row: Import) -> int:
    kept = 0
    while rows := undo_rows(row=row, by=command("test"), reason="", now=row.created_at):
        if not rows[0]:
            return kept
        kept += rows[1]
    return kept


@pytest.mark.parametrize("format", FORMATS)
def test_a_format_comes_in_once_and_goes_as_a_whole(db: None, format: str, tmp_path: Path) -> None:
    path = write_export(format, tmp_path, count=4)
    before = everything()
    would = run("import", path, *WHOSE, "--dry-run")
    assert everything() == before
    told = run("import", path, *WHOSE)
    assert would.replace("Would be", "Imported") == told
    for name, count in NEW[format].items():
        assert f"{name}: {count} new, 0 here already, 0 refused" in told.replace("5 new, 0", f"{count} new, 0"), told
    assert MessageIndex.objects.count() == Message.objects.count() == NEW[format].get("messages", 0)
    assert set(Session.objects.values_list("channel", flat=True)) <= {f"import:{format}"}
    assert set(Memory.objects.values_list("channel", "source")) <= {(f"import:{format}", "import")}
    stored = everything()
    again = run("import", path, *WHOSE)
    assert everything() == stored
    assert "Imported: 0 new" in again
    row = Import.objects.get()
    assert (row.format, row.report["made"]["messages"] if "messages" in NEW[format] else 0) == (
        format,
        NEW[format].get("messages", 0),
    )
    assert undo_all(row) == 0
    for model in (Session, Message, Memory, Document, Project, ImportedRow):
        assert not model._default_manager.exists(), model
    run("import", path, *WHOSE)
    assert Session.objects.count() == NEW[format].get("sessions", 0)
    assert Import.objects.count() == 2


@pytest.mark.parametrize("format", ["chatgpt", "claude", "openwebui", "deepseek", "grok", "gemini"])
def test_a_later_export_adds_what_is_new_in_any_order(db: None, format: str, tmp_path: Path) -> None:
    path = write_export(format, tmp_path, count=3)
    run("import", path, *WHOSE)
    before = Session.objects.count(), Message.objects.count()
    reordered(path)
    assert "Imported: 0 new" in run("import", path, *WHOSE)
    later = tmp_path / "later"
    later.mkdir()
    told = run("import", write_export(format, later, count=4), *WHOSE)
    assert "sessions: 1 new, 3 here already" in told and "messages: 6 new, 18 here already" in told
    assert (Session.objects.count(), Message.objects.count()) == (before[0] + 1, before[1] + 6)


def reordered(path: Path) -> None:
    """Turn round every list of conversations in an export."""
    if not zipfile.is_zipfile(path):
        path.write_text(json.dumps(json.loads(path.read_text())[::-1]))
        return
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            value = json.loads(content) if name.endswith(".json") else None
            if isinstance(value, dict) and "conversations" in value:
                value["conversations"].reverse()
            value = value[::-1] if isinstance(value, list) else value
            archive.writestr(name, content if value is None else json.dumps(value))


def test_gemini_is_imported_from_html(db: None, tmp_path: Path) -> None:
    cell = (
        '<div class="outer-cell"><p class="mdl-typography--title">{}<br></p><div class="content-cell mdl-typography--body-1">'
        "Prompted&nbsp;{}<br>Feb {}, 2026, 9:00:00 AM UTC<br><p>Green.</p></div></div>"
    )
    log = "".join(
        cell.format(*each) for each in (("Gemini Apps", "Tea?", 2), ("Search", "tea", 2), ("Gemini Apps", "Hi", 1))
    )
    with zipfile.ZipFile(tmp_path / "takeout.zip", "w") as archive:
        archive.writestr("Takeout/Mi actividad/Gemini/MiActividad.html", f"<html>{log}</html>")
        archive.writestr("Takeout/YouTube/history.json", '[{"a": 1}]')
        archive.writestr("Takeout/archive_browser.html", "<html>")
    told = run("import", tmp_path / "takeout.zip", *WHOSE)
    assert "sessions: 2 new, 0 here already, 0 refused" in told and "messages: 4 new" in told
    assert "1 × activities of other products." in told and "2 × files that this format does not use." in told
    assert "Imported: 0 new" in run("import", tmp_path / "takeout.zip", *WHOSE)


def test_chats_of_several_users_go_to_each_of_them(db: None, tmp_path: Path) -> None:
    path = write_export("openwebui", tmp_path, count=2)
    chats = json.loads(path.read_text())
    chats[1]["user_id"] = "aoi"
    path.write_text(json.dumps(chats))
    with pytest.raises(CommandError, match="several users"):
        run("import", path, *WHOSE)
    run("import", path, "--agent", "kana")
    users = Session.objects.values_list("actor__user_id", flat=True)
    assert sorted(users) == sorted([chats[0]["user_id"], "aoi"])


def test_a_chat_that_was_stored_while_it_was_held_is_not_stored_again(client: APIClient, tmp_path: Path) -> None:
    path = write_export("openwebui", tmp_path, count=3)
    names = [chat["id"] for chat in json.loads(path.read_text())]
    actor = actor_for_writing(command("test"), "kana", "hiroki", now=NOW)
    for session_id in (names[0], str(ids_of_name(actor, names[1])[0])):  # opened by a client, and by a chat program
        made(client.post(f"{API}/sessions", {"agent_id": "kana", "user_id": "hiroki", "session_id": session_id}))
    told = run("import", path, *WHOSE)
    assert told.count("was stored here while it was held") == 2
    assert "sessions: 1 new, 2 here already" in told and "messages: 6 new, 12 here already" in told


def test_what_a_model_worded_waits_and_what_people_wrote_does_not(db: None, tmp_path: Path) -> None:
    for format in ("claude", "markdown", "letta"):
        run("import", write_export(format, tmp_path, count=2), *WHOSE)
    assert set(Memory.objects.filter(channel="import:claude").values_list("status", flat=True)) == {"pending"}
    assert set(Memory.objects.filter(channel="import:markdown").values_list("status", flat=True)) == {"active"}
    assert set(Memory.objects.filter(channel="import:letta").values_list("status", "pinned")) == {("active", True)}
    note = Memory.objects.filter(channel="import:markdown", kind="decision").first()
    assert note is not None and set(note.tags) == {"tea", "旅", "shop"}
    assert note.metadata["category"] == "decision" and note.metadata["note"].endswith(".md")


def test_projects_come_with_their_documents_and_titles(db: None, tmp_path: Path) -> None:
    run("import", write_export("claude", tmp_path, count=1), *WHOSE)
    project = Project.objects.get()
    assert project.description == "A tea shop in Kyoto"
    texts = dict(Document.objects.values_list("name", "text"))
    assert texts["detail-instructions.md"] == "Answer briefly."
    assert set(texts) == {"MEMORY.md", "detail-instructions.md", "detail-suppliers-md.md"}
    run("import", write_export("coding-agents", tmp_path, count=1), *WHOSE)
    assert Document.objects.get(project__name="tea-shop", name="detail-memory-memory.md").text.startswith("# Memory")


def test_documents_of_one_name_are_all_imported(db: None, tmp_path: Path) -> None:
    docs = [{"filename": "notes.md", "content": text} for text in ("One.", "Two.", "One.")]
    path = tmp_path / "projects.json"
    path.write_text(json.dumps([{"uuid": "p", "name": "shop", "docs": docs}]))
    assert "documents: 2 new, 1 here already" in run("import", path, *WHOSE)
    assert {"One.", "Two."} <= set(Document.objects.values_list("text", flat=True))
    assert "Imported: 0 new" in run("import", path, *WHOSE)


def test_what_changed_since_stays_when_an_import_is_undone(db: None, tmp_path: Path) -> None:
    path = write_export("markdown", tmp_path, count=2)
    run("import", path, *WHOSE)
    run("import", write_export("chatgpt", tmp_path, count=2), *WHOSE)
    edited = Memory.objects.first()
    assert edited is not None
    Memory.objects.filter(pk=edited.pk).update(locked=True)
    session = Session.objects.first()
    assert session is not None
    Session.objects.filter(pk=session.pk).update(message_count=session.message_count + 1)
    note = path / "shop" / "note 1.md"
    note.write_text(note.read_text() + "\nOne line more.\n", encoding="utf-8")
    assert "documents: 1 new, 1 here already" in run("import", path, *WHOSE)
    first, chats, second = Import.objects.order_by("id")
    assert undo_all(second) == 0
    assert "One line more" not in Document.objects.get(project__name="shop", name__startswith="detail").text
    assert undo_all(first) == 2  # the edited memory, and the document that has two more versions
    assert [*Memory.objects.values_list("pk", flat=True)] == [edited.pk]
    assert undo_all(chats) == 1
    assert [*Session.objects.values_list("pk", flat=True)] == [session.pk]


def test_an_archived_project_stays_when_an_import_is_undone(db: None, tmp_path: Path) -> None:
    run("import", write_export("markdown", tmp_path, count=4), *WHOSE)
    row, project = Import.objects.get(), Project.objects.get(name="shop")
    archive_project(project=project, by=command("test"), now=row.created_at)
    before = set(Document.objects.filter(project=project).values_list("name", "version"))
    notes = sum(name.startswith("detail-") for name, _version in before)
    assert undo_all(row) == notes > 0
    assert set(Document.objects.values_list("name", "version")) == before
    assert not Memory.objects.exists() and list(Project.objects.all()) == [project]


def test_notes_are_called_by_the_plural_of_their_kind(db: None, client: APIClient, tmp_path: Path) -> None:
    for kind in ("fact", "summary"):
        body = {"agent_id": "kana", "user_id": "hiroki", "kind": kind, "content": f"A {kind} of tea."}
        made(client.post(f"{API}/memories", body))
    run("export", tmp_path, *WHOSE, "--format", "markdown")
    assert {each.name for each in (tmp_path / "memories").glob("*.md")} == {"facts.md", "summaries.md"}
    assert "Imported: 0 new" in run("import", tmp_path, *WHOSE)


def test_undoing_an_import_takes_its_texts_out_of_receipts(db: None, client: APIClient, tmp_path: Path) -> None:
    run("import", write_export("chatgpt", tmp_path, count=2), *WHOSE)
    run("import", write_export("markdown", tmp_path, count=2), *WHOSE)
    said = Message.objects.filter(role="user").first()
    known = Memory.objects.filter(status="active").first()
    assert said is not None and known is not None
    for text in (said.content, known.content):
        made(client.post(f"{API}/context", {"agent_id": "kana", "user_id": "hiroki", "message": text}))
    quoted = {"recall", "working", "semantic", "profile"}
    assert any(item["excerpt"] for each in Receipt.objects.all() for item in each.items)
    for row in Import.objects.order_by("-id"):
        assert undo_all(row) == 0
    left = [item for each in Receipt.objects.all() for item in each.items if item["layer"] in quoted]
    assert {"recall", "semantic"} <= {item["layer"] for item in left}
    assert [item for item in left if item["excerpt"]] == []


def test_undoing_what_made_a_session_longer_forgets_what_was_made_of_that_part(
    db: None, client: APIClient, tmp_path: Path
) -> None:
    path = tmp_path / "chat.jsonl"
    lines = [json.dumps(each) for each in claude_code_lines(Writer(1), 4)]
    path.write_text("\n".join(lines[: len(lines) // 2]), encoding="utf-8")
    run("import", path, *WHOSE)
    session = Session.objects.get()
    before = session.message_count
    path.write_text("\n".join(lines), encoding="utf-8")
    run("import", path, *WHOSE)
    session.refresh_from_db()
    messages = list(session.messages.order_by("seq"))
    assert len(messages) == session.message_count > before > 0
    summary = Summary.objects.create(
        actor_id=session.actor_id, session=session, text="All of it.", message_count=session.message_count,
        start_time=NOW, end_time=NOW, generator="extractive", written_at=NOW, created_at=NOW, updated_at=NOW,
    )  # fmt: skip
    ProjectCursor.objects.create(actor_id=session.actor_id, session=session, read_until=session.message_count)
    drawn = {}
    for name, sources in (("early", messages[:1]), ("late", messages[before:]), ("both", messages)):
        drawn[name] = draw(session.actor, f"A {name} memory.", sources)
    for strategy, memory in (("facts", None), ("summary", drawn["both"])):
        StrategyCursor.objects.create(
            actor_id=session.actor_id,
            session_id=session.pk,
            strategy=strategy,
            read_until=session.message_count,
            passed_until=session.message_count,
            memory_id=memory and memory.pk,
        )

    assert undo_all(Import.objects.order_by("id")[1]) == 0

    session.refresh_from_db()
    assert session.message_count == before == session.messages.count()
    assert not Summary.objects.filter(pk=summary.pk).exists()
    assert set(Memory.objects.filter(pk__in=[each.pk for each in drawn.values()])) == {drawn["early"]}
    assert ProjectCursor.objects.get().read_until == before
    (cursor,) = StrategyCursor.objects.all()
    assert (cursor.strategy, cursor.read_until, cursor.passed_until) == ("facts", before, before)
    run("import", path, *WHOSE)
    assert session.messages.count() == len(messages)


def test_undoing_an_import_takes_the_memories_of_its_summaries_along(db: None, tmp_path: Path) -> None:
    run("import", write_export("chatgpt", tmp_path, count=2), *WHOSE)
    kept, gone = Session.objects.order_by("pk")
    memories = [draw(each.actor, f"Summary of {each.pk}", []) for each in (kept, gone)]
    for session, memory in zip((kept, gone), memories, strict=True):
        StrategyCursor.objects.create(
            actor_id=session.actor_id,
            session_id=session.pk,
            strategy="summary",
            read_until=session.message_count,
            memory_id=memory.pk,
        )
    Session.objects.filter(pk=kept.pk).update(message_count=kept.message_count + 1)

    assert undo_all(Import.objects.get()) == 1

    assert list(Memory.objects.all()) == [memories[0]]
    assert list(StrategyCursor.objects.values_list("session_id", flat=True)) == [kept.pk]


def draw(actor: Actor, text: str, messages: list[Message]) -> Memory:
    """Return a memory that an extraction has drawn from messages."""
    memory, _ = write_memory(actor=actor, new=NewMemory(content=text, kind=Kind.FACT), by=command("test"), now=NOW)
    MemorySource.objects.bulk_create(sources_of(memory, messages, NOW))
    return memory


def test_a_document_that_was_changed_on_both_sides_is_kept(db: None, tmp_path: Path) -> None:
    path = write_export("markdown", tmp_path, count=1)
    run("import", path, *WHOSE)
    document = Document.objects.get(name__startswith="detail")
    Document.objects.filter(pk=document.pk).update(text="changed here", version=9)
    note = path / "旅行" / "note 0.md"
    assert "documents: 0 new, 1 here already" in run("import", path, *WHOSE)
    note.write_text("changed there", encoding="utf-8")
    assert "was changed here and in the file" in run("import", path, *WHOSE)
    assert Document.objects.get(pk=document.pk).text == "changed here"
    assert DocumentVersion.objects.filter(document=document).count() == 1


def test_a_transcript_with_a_torn_line_comes_in_but_for_that(db: None, tmp_path: Path) -> None:
    path = write_export("coding-agents", tmp_path, count=1)
    (file,) = path.rglob("*.jsonl")
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([*lines[:4], lines[4][:40], *lines[5:], '{"type": "user", "uuid": ']), encoding="utf-8")
    told = run("import", path, *WHOSE)
    assert "messages: 5 new" in told or "messages: 6 new" in told
    assert f"{file.relative_to(path)}: Line 5: messages: no JSON" in told


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ({"../conversations.json": b"[]"}, "leads out of it"),
        ({"C:/conversations.json": b"[]"}, "leads out of it"),
        ({"conversations.json": b" " * (80 * 2**20)}, "a bomb"),
        ({"what.json": b"[]"}, "The format of this file is not recognised"),
    ],
    ids=["up", "drive", "bomb", "unknown"],
)
def test_a_hostile_zip_is_refused_before_anything_is_written(
    db: None, tmp_path: Path, names: dict[str, bytes], why: str
) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in names.items():
            archive.writestr(name, content)
    with pytest.raises(CommandError, match=why):
        run("import", path, *WHOSE)
    assert not Session.objects.exists() and not Import.objects.exists()


def test_a_damaged_zip_says_so_and_what_came_before_stays(db: None, tmp_path: Path) -> None:
    path = write_export("chatgpt", tmp_path, count=4)
    whole = bytearray(path.read_bytes())
    place = whole.index(b"conversations-000.json") + 400
    whole[place : place + 50] = bytes(50)
    path.write_bytes(bytes(whole))
    with pytest.raises(CommandError, match="damaged"):
        run("import", path, *WHOSE, "--format", "chatgpt")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CommandError, match="archive cannot be read"):
        run("import", path, *WHOSE)


def test_a_vault_is_no_repository_and_links_lead_nowhere(db: None, tmp_path: Path) -> None:
    path = write_export("markdown", tmp_path, count=1)
    (path / "CLAUDE.md").write_text("Be brief.", encoding="utf-8")
    secret = tmp_path / "secret.md"
    secret.write_text("- [fact] the secret")
    (path / "link.md").symlink_to(secret)
    run("import", path, *WHOSE)
    assert set(Import.objects.values_list("format", flat=True)) == {"markdown"}
    assert not Memory.objects.filter(content__contains="secret").exists()


def test_sessions_that_come_in_are_worked_on_like_others(db: None, tmp_path: Path) -> None:
    run("import", write_export("chatgpt", tmp_path, count=3), *WHOSE)
    keys = {str(key) for key in Session.objects.values_list("pk", flat=True)}
    assert keys <= set(Job.objects.filter(kind="summarize").values_list("key", flat=True))


def test_memories_of_agents_and_assistants_wait(db: None, tmp_path: Path) -> None:
    rows = [
        {"memory": "said by the user", "user_id": "hiroki"},
        {"memory": "said by the assistant", "user_id": "hiroki", "role": "assistant"},
        {"memory": "of the agent", "agent_id": "kana"},
    ]
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps(rows))
    run("import", path, "--agent", "kana")
    assert dict(Memory.objects.values_list("content", "status")) == {
        "said by the user": "active",
        "said by the assistant": "pending",
        "of the agent": "pending",
    }
    assert note_text(Writer(1), 1).startswith("---")


def tree(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_notes_go_out_are_edited_and_come_in_again(client: APIClient, tmp_path: Path) -> None:
    names, folder = {"agent_id": "kana", "user_id": "hiroki"}, tmp_path / "notes"
    texts = ["Likes green tea", "京都に住んでいる\n\n  - 2020年から ^x #y", "Plays the koto"]
    for text in texts:
        made(client.post(f"{API}/memories", {**names, "content": text, "kind": "fact", "tags": ["two words", "食"]}))
    made(client.post(f"{API}/projects", {**names, "name": "shop", "description": "A tea shop"}))
    export = ("export", folder, *WHOSE, "--format", "markdown")
    assert "0 files were left" in run(*export)
    before, stored = tree(folder), everything()
    assert "Imported: 0 new, 4 here already, 0 refused" in run("import", folder, *WHOSE)
    assert {**everything(), "memoryhub_auditentry": 0} == {**stored, "memoryhub_auditentry": 0}
    run(*export)
    assert tree(folder) == before

    facts, shop = folder / "memories" / "facts.md", folder / "projects" / "shop" / "MEMORY.md"
    edited = (
        facts.read_text().replace("green tea #two-words", "white tea #two-words #new") + "\n- [decision] Buy a kettle\n"
    )
    facts.write_text(edited)
    shop.write_text(shop.read_text() + "\nOpens in May.\n")
    (folder / "projects" / "shop" / "detail-menu.md").write_text("# Menu\n\n- [fact] no memory of its own\n")
    left = run(*export)
    assert "memories/facts.md: was edited since the last export" in left and "2 files" in left
    told = run("import", folder, *WHOSE)
    assert "memories: 2 new, 2 here already" in told and "documents: 2 new" in told
    assert set(Memory.objects.get(content="Likes white tea").tags) == {"two words", "食", "new"}
    assert Memory.objects.get(kind="decision").content == "Buy a kettle"
    assert Memory.objects.count() == 4
    assert Document.objects.get(name="MEMORY.md").text.endswith("Opens in May.\n")
    assert "Imported: 0 new" in run("import", folder, *WHOSE)
    fresh = tmp_path / "fresh"
    run("export", fresh, *WHOSE, "--format", "markdown")
    assert "Imported: 0 new" in run("import", fresh, *WHOSE)
    assert fresh.joinpath("projects/shop/MEMORY.md").read_bytes() == shop.read_bytes()

    memory = Memory.objects.get(content="Plays the koto")
    made(client.patch(f"{API}/memories/{memory.pk}", {"content": "Plays the biwa"}))
    notes = fresh / "memories" / "facts.md"
    notes.write_text(notes.read_text().replace("Plays the koto", "Plays the shamisen"))
    assert "was edited in the file, and changed here" in run("import", fresh, *WHOSE)
    assert undo_all(Import.objects.order_by("id")[0]) == 0
    assert Memory.objects.filter(content="Likes green tea").exists()
    assert not Memory.objects.filter(kind="decision").exists()
