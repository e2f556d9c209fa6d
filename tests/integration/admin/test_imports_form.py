"""The form that takes a file to import."""

import json
import re
import zipfile
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from memoryhub.importexport.foreign import uploads
from memoryhub.importexport.foreign.models import Import
from tests.conftest import run_jobs


def test_every_field_of_the_form_is_styled(boss: Client) -> None:
    page = boss.get(reverse("importer")).content.decode()
    form = page[page.index('id="upload-form"') :].partition("</form>")[0]
    fields = [tag for tag in re.findall(r"<(?:input|select)\b[^>]*>", form, re.DOTALL) if "hidden" not in tag]
    assert len(fields) == 7
    assert all(re.search(r'class="[^"]+"', tag) for tag in fields)


def test_several_files_of_the_form_are_one_import(
    boss: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "uploads_folder", lambda: tmp_path)
    files = [SimpleUploadedFile("a.json", json.dumps([number]).encode()) for number in range(2)]
    values = {"agent_id": "kana", "user_id": "hiroki", "new_user": "on", "columns": "", "file": files}
    answer = boss.post(reverse("importer"), values)

    row = Import.objects.get()
    assert answer.status_code == 302 and row.file_name == "files.zip" and row.size > 0
    with uploads.uploaded_file(row) as path, zipfile.ZipFile(path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"0/a.json": b"[0]", "1/a.json": b"[1]"}


def test_columns_are_checked(boss: Client) -> None:
    values = {"agent_id": "kana", "user_id": "", "columns": "content", "file": SimpleUploadedFile("a.csv", b"a\nb\n")}
    assert "meaning=column" in boss.post(reverse("importer"), values).content.decode()
    assert not Import.objects.exists()


def test_reasons_are_in_the_readers_language(boss: Client) -> None:
    rows = [
        {"memory": "Drinks tea"},
        {"memory": ""},
        {"text": "none"},
        {"memory": "Old", "expiration_date": "2020-01-01"},
    ]
    file = SimpleUploadedFile("mem0.json", json.dumps(rows).encode())
    values = {"agent_id": "kana", "user_id": "hiroki", "new_user": "on", "columns": "", "format": "mem0", "file": file}
    shown = boss.post(reverse("importer"), values).url
    run_jobs()
    english = boss.get(shown).content.decode()
    assert "its text is empty." in english
    japanese = boss.get(shown, headers={"Accept-Language": "ja"}).content.decode()
    assert "本文が空です。" in japanese and "its text is empty." not in japanese
