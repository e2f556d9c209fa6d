"""An import over REST: chunks, preview, run, progress, undo; and what does not fit is told."""

import base64
import json
import os
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from conversations.models import Message, Session
from memoryhub.importexport.foreign import imports, uploads
from memoryhub.importexport.foreign.models import Import, ImportedRow, UploadedPiece
from memoryhub.importexport.foreign.records import BRANCHES, UNUSED_FILES
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Offer
from strength.models import Memory
from tests.conftest import client_with_key
from tests.factories.foreign_exports import write_export
from tests.factories.planting import API, made

NAMES = {"agent_id": "kana", "user_id": "hiroki"}


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(uploads, "uploads_folder", lambda: tmp_path / "imports")
    return tmp_path / "imports"


@pytest.fixture
def boss(db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss", password="a long password"))
    return browser


def upload(client: APIClient, path: Path, *, at_once: int = 10_000, **names: str) -> str:
    row = made(client.post(f"{API}/imports", {**(names or NAMES), "file_name": path.name}))
    content = path.read_bytes()
    for offset in range(0, len(content), at_once):
        chunk = {"offset": offset, "content": base64.b64encode(content[offset : offset + at_once]).decode()}
        row = made(client.post(f"{API}/imports/{row['id']}/chunks", chunk))
    assert row["size"] == len(content) and row["state"] == "uploading"
    return str(row["id"])


def order(client: APIClient, import_id: str, verb: str, *, attempts: int = 1) -> Any:
    made(client.post(f"{API}/imports/{import_id}/orders", {"verb": verb}), 202)
    job = Job.objects.filter(kind=uploads.KIND, key=import_id).latest("created_at")
    assert made(client.get(f"{API}/imports/{import_id}"))["state"] == uploads.RUNNING_STATES[verb]
    for _ in range(attempts):
        Job.objects.filter(pk=job.pk).update(due_at=job.created_at)
        run(Offer(UUID(str(job.pk)), uploads.KIND), worker=uuid4())
    return made(client.get(f"{API}/imports/{import_id}"))


def test_an_uploaded_file_goes_with_its_user(client: APIClient, tmp_path: Path) -> None:
    upload(client, write_export("mem0", tmp_path, count=2))
    kept = upload(client, write_export("mem0", tmp_path, count=2), agent_id="kana", user_id="aoi")
    made(client.delete(f"{API}/actors?agent_id=kana&user_id=hiroki"))
    assert {str(each) for each in UploadedPiece.objects.values_list("import_id", flat=True)} == {kept}


def test_an_import_is_previewed_taken_in_and_undone(client: APIClient, tmp_path: Path, folder: Path) -> None:
    import_id = upload(client, write_export("chatgpt", tmp_path, count=6))
    previewed = order(client, import_id, "preview")
    assert (previewed["state"], previewed["format"]) == ("previewed", "chatgpt")
    assert previewed["report"]["made"]["messages"] == 36
    assert not Session.objects.exists() and not ImportedRow.objects.exists()
    done = order(client, import_id, "run")
    assert done["state"] == "imported" and done["report"]["made"] == previewed["report"]["made"]
    assert 0 < done["progress"]["done"] <= done["progress"]["total"]
    assert (Session.objects.count(), Message.objects.count()) == (6, 36)
    assert not list(folder.glob("*")) and not UploadedPiece.objects.exists(), "the file is kept no longer"
    assert [each["id"] for each in made(client.get(f"{API}/imports", NAMES))["results"]] == [import_id]
    undone = order(client, import_id, "undo")
    assert (undone["state"], undone["report"]["kept"]) == ("undone", 0)
    assert not Session.objects.exists() and not Memory.objects.exists()
    for verb in ("undo", "run", "preview"):
        answer = client.post(f"{API}/imports/{import_id}/orders", {"verb": verb})
        assert (answer.status_code, answer.json()["code"]) == (409, "wrong_import_state")


def test_what_is_left_out_is_counted_in_preview_run_and_page(client: APIClient, tmp_path: Path, boss: Client) -> None:
    import_id = upload(client, write_export("chatgpt", tmp_path, count=6))
    dropped = order(client, import_id, "preview")["report"]["dropped"]
    done = order(client, import_id, "run")["report"]
    assert done["dropped"] == dropped
    assert dropped[BRANCHES]["count"] == 6 and len(dropped[BRANCHES]["examples"]) == 3
    assert dropped[UNUSED_FILES] == {"count": 2, "examples": ["chat.html", "user.json"]}
    page = boss.get(reverse("import_page", args=[import_id])).content.decode()
    for reason, each in dropped.items():
        assert f"{each['count']} × {reason}" in page and each["examples"][0] in page


def test_a_job_that_stops_goes_on_where_it_was(
    client: APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_id = upload(client, write_export("chatgpt", tmp_path, count=6))
    monkeypatch.setattr(imports, "BATCH_WEIGHT", 10)
    monkeypatch.setattr(uploads, "SECONDS_PER_BATCH", 10**9)
    first = order(client, import_id, "run")
    assert first["state"] == "importing" and 0 < Session.objects.count() < 6
    monkeypatch.setattr(uploads, "SECONDS_PER_BATCH", 0)
    job = Job.objects.get(kind=uploads.KIND)
    Job.objects.filter(pk=job.pk).update(due_at=job.created_at)
    run(Offer(job.pk, uploads.KIND), worker=uuid4())
    done = made(client.get(f"{API}/imports/{import_id}"))
    assert (done["state"], done["report"]["made"]["sessions"], done["report"]["known"]) == ("imported", 6, {})
    assert done["report"]["dropped"][BRANCHES]["count"] == 6
    assert Message.objects.count() == 36


def test_chunks_follow_each_other_and_may_be_repeated(client: APIClient) -> None:
    row = made(client.post(f"{API}/imports", {**NAMES, "file_name": "../../mem0.json"}))
    assert row["file_name"] == "mem0.json"
    address, data = f"{API}/imports/{row['id']}/chunks", base64.b64encode(b'[{"memory": ').decode()
    for _ in range(2):
        assert made(client.post(address, {"offset": 0, "content": data}))["size"] == 12
    answer = client.post(address, {"offset": 99, "content": data})
    assert (answer.status_code, answer.json()["code"], answer.json()["size"]) == (409, "wrong_offset", 12)
    assert client.post(address, {"offset": 12, "content": "no base64!"}).status_code == 400
    made(client.post(address, {"offset": 12, "content": base64.b64encode(b'"likes tea"}]').decode()}))
    assert order(client, row["id"], "run")["report"]["made"] == {"memories": 1}


def test_a_file_is_read_in_its_order_whatever_its_pieces(
    client: APIClient, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "PIECE_BYTES", 7)
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(range(256)) * 3)
    import_id = upload(client, path, at_once=100)
    folder.mkdir(exist_ok=True)
    (left := folder / "left by a killed worker").touch()
    os.utime(left, (0, 0))
    with uploads.uploaded_file(Import.objects.get(pk=import_id)) as copied:
        assert copied.read_bytes() == path.read_bytes() and copied.suffix == ""
    assert not list(folder.iterdir())


def test_jobs_that_read_files_at_once_do_not_hinder_each_other(client: APIClient, tmp_path: Path, folder: Path) -> None:
    """One lists the folder while another deletes its copy."""
    row = Import.objects.get(pk=upload(client, write_export("mem0", tmp_path, count=2)))
    failed: list[BaseException] = []

    def come_and_go() -> None:
        for number in range(3_000):
            path = folder / f"copy-{number}"
            path.touch()
            path.unlink()

    folder.mkdir(exist_ok=True)
    other = threading.Thread(target=come_and_go)
    other.start()
    while other.is_alive():
        try:
            with uploads.uploaded_file(row) as copied:
                assert copied.stat().st_size == row.size
        except OSError as error:
            failed.append(error)
    other.join()
    assert not failed


def test_a_file_with_a_missing_piece_is_said_to_be_gone(client: APIClient, tmp_path: Path) -> None:
    import_id = upload(client, write_export("mem0", tmp_path, count=2))
    UploadedPiece.objects.filter(import_id=import_id).delete()
    row = order(client, import_id, "run")
    assert row["state"] == "failed" and "is gone" in row["report"]["problem"]


def test_a_file_under_another_secret_key_says_so(client: APIClient, tmp_path: Path, settings: Settings) -> None:
    import_id = upload(client, write_export("mem0", tmp_path, count=2))
    stored = b"".join(bytes(data) for data in UploadedPiece.objects.values_list("data", flat=True))
    assert b"memory" not in stored, "encrypted"
    settings.SECRET_KEY = "another"
    assert "another SECRET_KEY" in order(client, import_id, "run")["report"]["problem"]


def test_files_that_were_not_imported_for_a_week_are_deleted(client: APIClient, tmp_path: Path) -> None:
    old, kept = (upload(client, write_export("mem0", tmp_path, count=2)) for _ in range(2))
    Import.objects.filter(pk=old).update(created_at=timezone.now() - uploads.RETENTION - timedelta(hours=1))
    uploads.old_pieces(timezone.now()).delete()
    assert {str(each) for each in UploadedPiece.objects.values_list("import_id", flat=True)} == {kept}


@pytest.mark.parametrize(
    ("content", "names", "why"),
    [
        (b"hello", NAMES, "The format of this file is not recognised"),
        (b'[{"mapping": {}, "id": "1"}]', {"agent_id": "kana"}, "names no owner"),
        (b"PK\x03\x04 and no zip", NAMES, "archive cannot be read (File is not a zip file): is the download"),
    ],
    ids=["unknown", "nobody's", "no zip"],
)
def test_a_file_that_cannot_be_taken_says_why(
    client: APIClient, tmp_path: Path, content: bytes, names: dict[str, str], why: str
) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    row = order(client, upload(client, path, **names), "run")
    assert row["state"] == "failed" and why in row["report"]["problem"]
    assert client.post(f"{API}/imports/{row['id']}/orders", {"verb": "undo"}).status_code == 409


def test_a_key_of_one_user_imports_for_that_user_alone(client: APIClient, tmp_path: Path) -> None:
    made(client.post(f"{API}/agents", {"agent_id": "kana"}))
    bound = client_with_key(name="bound", user_id="hiroki")
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps([{"memory": "tea", "user_id": "aoi"}]))
    row = order(bound, upload(bound, path, agent_id="kana"), "run")
    assert row["report"]["made"] == {"memories": 1}
    assert set(Memory.objects.values_list("actor__user_id", flat=True)) == {"hiroki"}
    assert client.get(f"{API}/imports", {"agent_id": "kana", "user_id": "aoi"}).json()["results"] == []


def test_a_format_is_corrected(client: APIClient, tmp_path: Path, boss: Client) -> None:
    path = tmp_path / "notes.json"
    path.write_text(json.dumps([{"text": "Likes tea"}]))
    import_id = upload(client, path)
    assert order(client, import_id, "preview")["format"] == "mem0"
    made(client.post(f"{API}/imports/{import_id}/orders", {"verb": "run", "format": "table"}), 202)
    job = Job.objects.filter(kind=uploads.KIND, key=import_id).latest("created_at")
    run(Offer(UUID(str(job.pk)), uploads.KIND), worker=uuid4())
    done = made(client.get(f"{API}/imports/{import_id}"))
    assert (done["format"], done["report"]["made"]) == ("table", {"memories": 1})
    page = boss.get(reverse("import_page", args=[import_id])).content.decode()
    assert "named columns, or a first line" in page


def test_columns_of_a_table_are_named_over_rest(client: APIClient, tmp_path: Path) -> None:
    path = tmp_path / "notes.tsv"
    path.write_text("what\twhen\nLikes tea\t2025-02-03\n")
    import_id = upload(client, path, **NAMES, columns="content=what,created_at=when")
    done = order(client, import_id, "run")
    assert (done["format"], done["report"]["made"]) == ("table", {"memories": 1})
    answer = client.post(f"{API}/imports", {**NAMES, "file_name": "a.csv", "columns": "content"})
    assert answer.status_code == 400 and "meaning=column" in answer.json()["errors"][0]["detail"]


def test_an_untrusted_key_lets_all_wait(client: APIClient, tmp_path: Path) -> None:
    untrusted = client_with_key(name="untrusted", is_trusted=False)
    order(
        untrusted, upload(untrusted, write_export("markdown", tmp_path, count=1).joinpath("旅行", "note 0.md")), "run"
    )
    assert set(Memory.objects.values_list("status", "trust")) == {("pending", "untrusted")}
    assert Import.objects.get().report["refused"]["documents"] == 1
