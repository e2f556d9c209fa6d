"""Projects go out as files and edits come back as versions; nothing is overwritten, nothing leaves the tree (SPEC P9)."""

import json
import os
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from memoryhub.auth.models import AuditEntry
from memoryhub.tenancy.policy import Trust
from summaries.actions.documents import append_entry, write_document
from summaries.actions.files import EditedMeanwhile, Folder, UnusableFile
from summaries.actions.projects import delete_project
from summaries.domain.documents import MAX_DOCUMENT_LENGTH, DocumentKind
from summaries.domain.files import digest_of
from summaries.models import Document, DocumentVersion, Project, ProjectEvent
from tests.integration.summaries.project_files import BY, LONG_AGO, a_document, a_project, text_of

pytestmark = pytest.mark.django_db

TEXT = "# otaru\n\n> A canal town\n\n- The ferry leaves at nine.\n"


def run(name: str, *arguments: Any) -> list[str]:
    """Run a command and return its lines."""
    out = StringIO()
    call_command(name, *(str(each) for each in arguments), stdout=out)
    return out.getvalue().splitlines()


def failed(name: str, *arguments: Any) -> str:
    """Run a command that fails and return all that it told."""
    out = StringIO()
    with pytest.raises(CommandError) as error:
        call_command(name, *(str(each) for each in arguments), stdout=out)
    return f"{out.getvalue()}{error.value}"


@pytest.fixture
def project(db: None) -> Project:
    """Return a project with two documents."""
    made = a_project()
    a_document(made, TEXT)
    a_document(made, "- 2026-03-01: Begun\n", "timeline.md")
    return made


@pytest.fixture
def tree(project: Project, tmp_path: Path) -> Path:
    """Return the folder of the project's exported files."""
    run("export_projects", tmp_path)
    return tmp_path / "projects" / "otaru"


def test_an_export_is_for_its_owner_alone_and_tells_what_it_wrote(project: Project, tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder"
    lines = run("export_projects", target, "--agent", "kana", "--user", "hiroki")
    assert lines == ["projects/otaru/MEMORY.md: written", "projects/otaru/timeline.md: written"]
    memory = target / "projects" / "otaru" / "MEMORY.md"
    assert memory.read_text() == TEXT
    files = [path for path in (target / "projects").rglob("*") if path.is_file()]
    assert {oct(path.stat().st_mode)[-3:] for path in files} == {"600"}
    assert {oct(path.stat().st_mode)[-3:] for path in (target, target / "projects", memory.parent)} == {"700"}
    manifest = json.loads((target / "projects" / ".memoryhub.json").read_text())
    assert manifest["projects"]["otaru"]["MEMORY.md"] == {"version": 2, "digest": digest_of(TEXT)}
    assert [path.name for path in memory.parent.iterdir() if path.name.startswith(".")] == []
    assert ProjectEvent.objects.filter(kind="export", outcome="exported").count() == 1
    assert AuditEntry.objects.get(verb="export", object_kind="projects").details == {"projects": 1}
    assert all("unchanged" in line for line in run("export_projects", target))


def test_an_edit_arrives_as_a_version(project: Project, tree: Path) -> None:
    (tree / "MEMORY.md").write_text(TEXT + "- And at five.\n")
    assert "would be taken over" in run("sync_projects", tree.parent.parent, "--dry-run")[0]
    assert text_of(project) == TEXT
    lines = run("sync_projects", tree.parent.parent)
    assert lines == ["projects/otaru/MEMORY.md: taken over", "projects/otaru/timeline.md: unchanged"]
    assert text_of(project) == TEXT + "- And at five.\n"
    version = DocumentVersion.objects.get(kind=DocumentKind.SYNC)
    assert (version.text, version.who_kind, version.who_name) == (TEXT, "command", "sync_projects")
    assert all("unchanged" in line for line in run("sync_projects", tree.parent.parent))
    a_document(project, "- Newer\n")
    assert "export it again" in run("sync_projects", tree.parent.parent)[0]
    run("export_projects", tree.parent.parent)
    assert (tree / "MEMORY.md").read_text() == "- Newer\n"


def test_a_file_edited_on_both_sides_is_a_conflict_and_stays_as_it_is_on_both(project: Project, tree: Path) -> None:
    (tree / "MEMORY.md").write_text("- Edited there\n")
    a_document(project, "- Edited here\n")
    root = tree.parent.parent
    for name in ("sync_projects", "export_projects"):
        told = failed(name, root)
        assert "projects/otaru/MEMORY.md: CONFLICT" in told and "1 of 2" in told
    assert (tree / "MEMORY.md").read_text() == "- Edited there\n" and text_of(project) == "- Edited here\n"
    (tree / "MEMORY.md").unlink()
    run("export_projects", root)
    (tree / "MEMORY.md").write_text("- Edited here\n- Edited there\n")
    run("sync_projects", root)
    assert text_of(project) == "- Edited here\n- Edited there\n"


def test_an_export_leaves_an_edited_file_and_a_deleted_project_alone(project: Project, tree: Path) -> None:
    root = tree.parent.parent
    (tree / "MEMORY.md").write_text("- Edited there\n")
    assert "left as it is: the file was changed" in run("export_projects", root)[0]
    assert (tree / "MEMORY.md").read_text() == "- Edited there\n"
    delete_project(project=project, by=BY, now=LONG_AGO)
    (tree / "pinned.md").write_text("- Come back\n")
    told = run("sync_projects", root)
    assert [line.partition(": ")[2] for line in told] == ["deleted here; the file stays"] * 3
    assert run("export_projects", root, "--agent", "kana", "--user", "hiroki") == [
        "projects/otaru: left as it is: the project was deleted here"
    ]
    assert not Project.objects.not_deleted().exists()


def test_new_files_and_folders_are_taken_over(project: Project, tree: Path) -> None:
    root = tree.parent.parent
    (tree / "detail-ferry.md").write_text("At nine.\n")
    (tree.parent / "sapporo").mkdir()
    (tree.parent / "sapporo" / "MEMORY.md").write_text("# sapporo\n\n> Snow and beer\n\n- 雪まつり\n")
    (tree.parent / "sapporo" / "decisions.md").write_text("- Go by train.\n")
    assert sum("would be taken over" in line for line in run("sync_projects", root, "--dry-run")) == 3
    assert Project.objects.count() == 1
    assert sum("new, taken over" in line for line in run("sync_projects", root)) == 3
    sapporo = Project.objects.get(name="sapporo")
    assert sapporo.description == "Snow and beer" and "雪まつり" in text_of(sapporo)
    assert text_of(sapporo, "decisions.md") == "- Go by train.\n"
    assert text_of(project, "detail-ferry.md") == "At nine.\n"
    assert all("unchanged" in line for line in run("sync_projects", root))


def test_deleted_files_and_folders_take_no_document_with_them(project: Project, tree: Path) -> None:
    root = tree.parent.parent
    (tree / "MEMORY.md").unlink()
    assert run("sync_projects", root)[0] == "projects/otaru/MEMORY.md: the file is gone; the document stays"
    (tree / "timeline.md").unlink()
    tree.rmdir()
    assert all("the file is gone" in line for line in run("sync_projects", root))
    assert text_of(project) == TEXT
    assert all("written" in line for line in run("export_projects", root))


def test_names_that_cannot_be_are_refused_with_a_proposal(project: Project, tree: Path) -> None:
    for name in ("CON", "小樽の運河", "x" * 200, "Two Words", "routes", "カナ"):
        folder = tree.parent / name
        folder.mkdir()
        (folder / "MEMORY.md").write_text("- text\n")
    (tree / "notes.md").write_text("no")
    (tree / "detail-CON.md").write_text("no")
    (tree.parent / "README.md").write_text("no")
    (tree.parent / os.fsdecode(b"\xff\xfe")).mkdir()
    told = failed("sync_projects", tree.parent.parent)
    assert "10 of 12 were not taken over." in told and told.count("refused: ") == 10
    for name in (
        "CON",
        "小樽の運河",
        "Two Words",
        "routes",
        "カナ",
        "otaru/notes.md",
        "otaru/detail-CON.md",
        "README.md",
    ):
        assert f"projects/{name}: refused: " in told
    assert "'two-words'" in told and "'kana'" in told
    assert Project.objects.count() == 1 and Document.objects.count() == 2


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder beside the tree with a file in it."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret.md").write_text("- secret\n")
    (folder / "MEMORY.md").write_text("- secret\n")
    return folder


def test_links_and_special_files_are_neither_read_nor_written(project: Project, tree: Path, outside: Path) -> None:
    root = tree.parent.parent
    (tree / "MEMORY.md").unlink()
    (tree / "MEMORY.md").symlink_to(outside / "secret.md")
    (tree / "pinned.md").symlink_to(outside / "secret.md")
    (tree / "timeline.md").unlink()
    os.mkfifo(tree / "timeline.md")
    (tree / "decisions.md").mkdir()
    (tree.parent / "linked").symlink_to(outside)
    a_document(project, "- New text\n")
    told = failed("sync_projects", root)
    assert told.count("refused") == 5 and "it is no ordinary file" in told and "it is a link" in told
    told = failed("export_projects", root)
    assert told.count("refused") == 2
    assert (outside / "secret.md").read_text() == "- secret\n" and (tree / "MEMORY.md").is_symlink()
    assert not Document.objects.filter(text__contains="secret").exists()


def test_a_project_folder_that_is_a_link_is_not_followed(project: Project, tmp_path: Path, outside: Path) -> None:
    (tmp_path / "projects").mkdir()
    (tmp_path / "projects" / "otaru").symlink_to(outside)
    assert "projects/otaru: refused: it is a link" in failed("export_projects", tmp_path)
    assert (outside / "MEMORY.md").read_text() == "- secret\n"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "projects").symlink_to(outside)
    assert "it is a link" in failed("export_projects", tmp_path / "other")
    assert "it is a link" in failed("sync_projects", tmp_path / "other")
    assert sorted(path.name for path in outside.iterdir()) == ["MEMORY.md", "secret.md"]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\xff\xfe text", "it is not UTF-8"),
        (b"a\0b", "NUL"),
        (b"x" * (MAX_DOCUMENT_LENGTH + 1), "characters"),
        (b"x" * (4 * MAX_DOCUMENT_LENGTH + 1), "too large"),
    ],
    ids=["utf8", "nul", "long", "huge"],
)
def test_files_that_cannot_be_kept_are_refused(project: Project, tree: Path, raw: bytes, why: str) -> None:
    (tree / "MEMORY.md").write_bytes(raw)
    assert why in failed("sync_projects", tree.parent.parent)
    assert text_of(project) == TEXT
    assert "refused" in failed("export_projects", tree.parent.parent)
    assert (tree / "MEMORY.md").read_bytes() == raw


def test_what_nobody_believes_is_not_exported_and_survives_an_edit(project: Project, tree: Path) -> None:
    append_entry(project=project, document_name="MEMORY.md", text="Rumours", trust=Trust.UNTRUSTED, by=BY, now=LONG_AGO)
    root = tree.parent.parent
    assert all("unchanged" in line for line in run("export_projects", root))
    (tree / "MEMORY.md").write_text(TEXT + "- Edited\n")
    run("sync_projects", root)
    assert text_of(project) == TEXT + "- Edited\n- Rumours\n"
    assert all("unchanged" in line for line in [*run("sync_projects", root), *run("export_projects", root)])


def test_backups_of_compactions_lie_beside_the_document(project: Project, tree: Path) -> None:
    root, now = tree.parent.parent, timezone.now()
    document = Document.objects.get(project=project, name="MEMORY.md")
    for number in range(5):
        document = write_document(
            document=document,
            text=f"- text {number}\n",
            kind=DocumentKind.COMPACTION,
            by=BY,
            now=now + timedelta(minutes=number),
        )
        run("export_projects", root)
    backups = sorted(path for path in tree.iterdir() if ".bak." in path.name)
    assert [path.read_text() for path in backups] == ["- text 1\n", "- text 2\n", "- text 3\n"]
    assert {oct(path.stat().st_mode)[-3:] for path in backups} == {"600"}
    assert all("unchanged" in line for line in run("sync_projects", root))


def test_a_tree_of_somebody_else_and_a_damaged_one_are_refused(project: Project, tree: Path, tmp_path: Path) -> None:
    root = tree.parent.parent
    a_project("nemuro", user_id="mika")
    assert "say whose" in failed("export_projects", tmp_path / "all")
    assert "another agent or user" in failed("export_projects", root, "--agent", "kana", "--user", "mika")
    assert "another agent or user" in failed("sync_projects", root, "--agent", "kana", "--user", "mika")
    manifest = tree.parent / ".memoryhub.json"
    whole = manifest.read_text()
    manifest.write_text(whole.replace("hiroki", "nobody"))
    assert "not known here" in failed("sync_projects", root)
    manifest.write_text("{")
    assert "damaged" in failed("sync_projects", root) and "damaged" in failed(
        "export_projects", root, "--agent", "kana", "--user", "hiroki"
    )
    manifest.unlink()
    assert "say whose" in failed("sync_projects", root)
    lines = run("sync_projects", root, "--agent", "kana", "--user", "hiroki")
    assert all("unchanged" in line for line in lines), "without a manifest equal texts are no conflict"


def test_an_agent_alone_means_its_only_user_with_projects(project: Project, tmp_path: Path) -> None:
    assert run("export_projects", tmp_path, "--agent", "kana")
    assert (tmp_path / "projects" / "otaru").is_dir()
    assert run("sync_projects", tmp_path, "--agent", "kana", "--dry-run")
    a_project("nemuro", user_id="mika")
    assert "say whose" in failed("export_projects", tmp_path, "--agent", "kana")


def test_commands_say_what_is_missing(db: None, tmp_path: Path) -> None:
    assert "Nobody has a project" in failed("export_projects", tmp_path)
    assert "--user needs --agent" in failed("export_projects", tmp_path, "--user", "x")
    assert "no agent 'x'" in failed("export_projects", tmp_path, "--agent", "x")
    a_project()
    assert "no memory of a user 'x'" in failed("export_projects", tmp_path, "--agent", "kana", "--user", "x")
    assert "holds no projects" in failed("sync_projects", tmp_path)
    assert "cannot be opened" in failed("sync_projects", tmp_path / "nowhere")


def test_an_edit_while_a_file_is_replaced_is_kept_beside_it(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as folder:
        folder.write("a.md", "one", expected=None)
        (tmp_path / "a.md").write_text("edited")
        with pytest.raises(EditedMeanwhile):
            folder.write("a.md", "two", expected=digest_of("one"))
        (kept,) = tmp_path.glob("a.md.edited-*")
        assert (tmp_path / "a.md").read_text() == "two" and kept.read_text() == "edited"
        with pytest.raises(EditedMeanwhile):
            folder.write("a.md", "three", expected=None)
        assert folder.names() == ["a.md", kept.name]
        folder.write("a.md", "three", expected=digest_of("two"))
        assert folder.names() == ["a.md", kept.name], "what was kept once stays"
        for name in ("../x", "", ".", "..", "a/b", "a\0b"):
            with pytest.raises(UnusableFile):
                folder.write(name, "text", expected=None)
            with pytest.raises(UnusableFile):
                folder.read(name)
            with pytest.raises(UnusableFile), folder.folder(name):
                pass


def test_an_export_never_overwrites_a_strange_file(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "otaru"
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("somebody's own")
    assert "CONFLICT" in failed("export_projects", tmp_path)
    assert (folder / "MEMORY.md").read_text() == "somebody's own"


def test_nothing_to_do_is_said(db: None, tmp_path: Path) -> None:
    a_project().delete()
    whose = ("--agent", "kana", "--user", "hiroki")
    assert run("export_projects", tmp_path, *whose) == ["Nothing to export: there is no project."]
    assert run("sync_projects", tmp_path, *whose) == [f"Nothing to take over: {tmp_path} holds no files of projects."]
