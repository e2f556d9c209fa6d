"""`manage.py export` and `import` as a person uses them, and the table for spreadsheets."""

import csv
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError
from rest_framework.test import APIClient

from memoryhub.importexport.foreign.formats import FORMATS
from memoryhub.importexport.native.exporter import EXPORT_FORMATS
from memoryhub.tenancy.models import Agent
from strength.models import Memory
from tests.factories.planting import API, Planted, made, plant_first
from tests.integration.memoryhub.importexport.conftest import empty_the_installation, exported, run

Save = Callable[..., Path]


@pytest.fixture
def planted(client: APIClient) -> Planted:
    return plant_first()


def test_a_file_is_whole_and_its_owners_alone(planted: Planted, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text("older")
    told = run("export", file, "--agent", "kana", "--user", "hiroki")
    assert file.read_bytes() == exported("kana", "hiroki")
    assert file.stat().st_mode & 0o777 == 0o600
    assert told == f"Wrote {file} ({file.stat().st_size} bytes).\n"
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_without_a_file_it_is_printed(planted: Planted) -> None:
    assert run("export", "--agent", "kana").encode() == exported("kana")
    assert run("export").encode() == exported()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--user", "hiroki"), "--user needs --agent"),
        (("--agent", "nobody"), "There is no agent 'nobody'. There are: kana"),
        (("--agent", "kana", "--user", "nobody"), "no memory of a user 'nobody'"),
    ],
)
def test_nobody_is_not_exported(planted: Planted, arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        run("export", *arguments)


def test_a_folder_that_is_not_there_is_named(planted: Planted, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="Cannot write"):
        run("export", tmp_path / "none" / "out.jsonl")
    with pytest.raises(CommandError, match="Cannot read"):
        run("import", tmp_path / "none.jsonl")


def test_what_nobody_knows_is_refused(db: None, tmp_path: Path) -> None:
    for content in (b"", b"hello", b"[]", b'[{"a": 1}]', b"\x00\xff"):
        file = tmp_path / "what"
        file.write_bytes(content)
        with pytest.raises(CommandError, match="The format of this file is not recognised"):
            run("import", file)


def test_an_export_comes_in_through_the_standard_input(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    before = exported()
    empty_the_installation()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(before)))
    run("import", "-")
    assert exported() == before


def table(*arguments: str) -> list[dict[str, str]]:
    """Return the CSV as Python's reader sees it, from a file as a person saves it."""
    text = run("export", "--format", "csv", *arguments).encode().decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_memories_open_as_a_table(planted: Planted, client: APIClient, tmp_path: Path) -> None:
    text = 'She said "no", twice;\n次の行, 終わり'
    made(client.post(f"{API}/memories", {**planted.names, "content": text, "tags": ["a", "b"]}))
    rows = table("--agent", "kana", "--user", "hiroki")
    assert len(rows) == Memory.objects.filter(actor_id=planted.actor_id).count()
    (row,) = [each for each in rows if each["content"] == text]
    assert (row["agent_id"], row["user_id"], row["kind"], row["tags"]) == ("kana", "hiroki", "note", "a, b")
    assert (row["strength"], row["status"], row["pinned"]) == ("1.0", "active", "false")
    assert {each["agent_id"] for each in table()} == {"kana"}
    file = tmp_path / "memories.csv"
    run("export", file, "--format", "csv")
    with file.open(encoding="utf-8-sig", newline="") as opened:
        assert len(list(csv.DictReader(opened))) == Memory.objects.count()


@pytest.mark.parametrize("begins", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_no_cell_is_a_formula(client: APIClient, begins: str) -> None:
    made(client.post(f"{API}/memories", {"agent_id": "kana", "content": f"{begins} remembered"}))
    (row,) = table("--agent", "kana")
    assert row["content"] == f"'{begins} remembered"


def test_an_empty_table_has_its_head(db: None) -> None:
    Agent.objects.create(agent_id="kana")
    assert table("--agent", "kana") == []
    assert "content" in run("export", "--format", "csv", "--agent", "kana")


def test_the_programs_help_names_both(db: None) -> None:
    for name in ("export", "import"):
        done = subprocess.run(
            [sys.executable, "manage.py", name, "--help"], capture_output=True, text=True, timeout=300, check=True
        )
        assert "--agent" in done.stdout


def test_every_other_form_is_there_and_documented() -> None:
    page = Path("docs/howto/import-and-export.md").read_text().lower()
    for name in {**FORMATS, **EXPORT_FORMATS}:
        assert name in page, name
