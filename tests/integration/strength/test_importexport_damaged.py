"""Damaged exports of every format: a clear message, or an import of the rest with a report; and never twice."""

import io
import json
import re
import zipfile
from pathlib import Path

import pytest
from django.core.management import CommandError

from conversations.models import Message
from memoryhub.importexport.foreign.formats import FORMATS
from strength.models import Memory
from tests.factories.damage import DAMAGES, damage
from tests.factories.foreign_exports import write_export
from tests.integration.memoryhub.importexport.conftest import everything, run

WHOSE = ("--agent", "kana", "--user", "hiroki")
COUNTS = re.compile(r"(?:Would be|Imported): (\d+) new, (\d+) here already, (\d+) refused\.")


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("format", [name for name in FORMATS if name != "markdown"])
def test_a_damaged_export_is_imported_in_part_with_a_report(db: None, format: str, kind: str, tmp_path: Path) -> None:
    path = write_export(format, tmp_path, count=3, turns=2)
    damage(path, kind)
    whose = WHOSE[:2] if FORMATS[format].names_users else WHOSE  # a damaged name is another user's
    told = run("import", path, *whose, "--format", format)
    counts = COUNTS.search(told)
    assert counts is not None
    new, known, refused = map(int, counts.groups())
    assert new + known + refused > 0 or "Left out: " in told
    assert Message.objects.count() + Memory.objects.count() <= new
    stored = everything()
    assert "Imported: 0 new" in run("import", path, *whose, "--format", format)
    assert everything() == stored


@pytest.mark.parametrize("format", [name for name in FORMATS if name != "markdown"])
def test_half_a_byte_order_or_nothing_is_no_export(db: None, format: str, tmp_path: Path) -> None:
    for content in (b"", b"\xff", b"\xff\xfe", b"\xff\xfe[", b"{", b"[[[[", b'"' * 99):
        path = tmp_path / "conversations.json"
        path.write_bytes(content)
        assert "Imported: 0 new" in run("import", path, *WHOSE, "--format", format)


def test_utf_16_is_read(db: None, tmp_path: Path) -> None:
    path = write_export("openwebui", tmp_path, count=3)
    path.write_text(path.read_text(encoding="utf-8"), encoding="utf-16")
    assert "sessions: 3 new" in run("import", path, *WHOSE)


def zipped(path: Path, files: dict[str, bytes]) -> bytes:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path.read_bytes()


def declared(raw: bytes, size: int) -> bytes:
    """Return a zip whose first member says that it unpacks to `size`."""
    at, header = raw.index(b"PK\x01\x02"), bytearray(raw)
    header[at + 24 : at + 28] = size.to_bytes(4, "little")
    return bytes(header)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda raw: declared(raw, 2**31), "a bomb"),
        (lambda raw: declared(raw, 0), None),
        (lambda raw: raw[:-30], "cannot be read"),
        (
            lambda raw: raw.replace(b"PK\x03\x04\x14\x00\x00", b"PK\x03\x04\x14\x00\x01"),
            "damaged or encrypted|Imported",
        ),
        (lambda raw: raw[:20], "cannot be read"),
    ],
    ids=["declares 2 GB", "declares nothing", "cut", "encrypted", "header alone"],
)
def test_a_damaged_zip_has_a_clear_message(db: None, tmp_path: Path, change: object, why: str | None) -> None:
    assert callable(change)
    path = write_export("deepseek", tmp_path, count=3)
    path.write_bytes(change(path.read_bytes()))
    try:
        told = run("import", path, *WHOSE)
    except CommandError as error:
        told = str(error)
    assert re.search(why or "damaged|Imported|ends in the middle|not recognised", told)


def test_a_zip_in_a_zip_is_to_be_unpacked(db: None, tmp_path: Path) -> None:
    inner = zipped(tmp_path / "inner.zip", {"conversations.json": b"[]"})
    zipped(tmp_path / "outer.zip", {"part-1.zip": inner, "readme.txt": b"Hello"})
    with pytest.raises(
        CommandError, match=r"It holds 2 files, such as part-1\.zip, readme\.txt\. Unpack the archives in it"
    ):
        run("import", tmp_path / "outer.zip", *WHOSE)


def test_a_file_that_is_only_named_zip_is_to_be_downloaded_again(db: None, tmp_path: Path) -> None:
    (tmp_path / "export.zip").write_text("<html>Please log in</html>")
    with pytest.raises(CommandError, match=r"is named \.zip and is none: download it again"):
        run("import", tmp_path / "export.zip", *WHOSE)


def test_gemini_as_html_says_what_to_choose(db: None, tmp_path: Path) -> None:
    zipped(tmp_path / "takeout.zip", {"Takeout/My Activity/Gemini Apps/MyActivity.html": b"<html>"})
    with pytest.raises(CommandError, match="Choose JSON in Google Takeout"):
        run("import", tmp_path / "takeout.zip", *WHOSE)


def test_an_element_that_is_too_large_costs_itself_alone(db: None, tmp_path: Path) -> None:
    path = write_export("chatgpt", tmp_path, count=2)
    with zipfile.ZipFile(path) as archive:
        talks = json.loads(archive.read("conversations-000.json"))
    talks[0]["filler"] = "x" * (17 * 2**20)
    raw = io.BytesIO(json.dumps(talks).encode())
    plain = tmp_path / "conversations.json"
    plain.write_bytes(raw.getvalue())
    told = run("import", plain, *WHOSE)
    assert "sessions: 1 new, 0 here already, 1 refused" in told and "longer than 16777216 bytes" in told
