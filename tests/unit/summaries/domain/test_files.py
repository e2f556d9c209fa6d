"""Whose text changed since the export, and what follows (SPEC P9)."""

from datetime import UTC, datetime

import pytest

from summaries.domain.files import (
    BadManifest,
    Exported,
    FileStatus,
    Manifest,
    backup_name,
    digest_of,
    export_status,
    manifest_of,
    sync_status,
)


@pytest.mark.parametrize(
    ("base", "file", "stored", "verdict"),
    [
        (None, None, "a", FileStatus.WRITE),
        (None, "a", "a", FileStatus.SAME),
        (None, "b", "a", FileStatus.CONFLICT),
        ("a", "a", "a", FileStatus.SAME),
        ("a", "a", "b", FileStatus.WRITE),
        ("a", None, "b", FileStatus.WRITE),
        ("a", "b", "a", FileStatus.EDITED),
        ("a", "b", "c", FileStatus.CONFLICT),
        ("a", "b", "b", FileStatus.SAME),
    ],
)
def test_an_export_writes_only_what_nobody_changed_there(
    base: str | None, file: str | None, stored: str, verdict: FileStatus
) -> None:
    assert export_status(base=base, file=file, stored=stored) is verdict


@pytest.mark.parametrize(
    ("base", "file", "stored", "verdict"),
    [
        ("a", "a", "a", FileStatus.SAME),
        ("a", "b", "b", FileStatus.SAME),
        ("a", "b", "a", FileStatus.EDITED),
        ("a", "a", "b", FileStatus.NEWER),
        ("a", "b", "c", FileStatus.CONFLICT),
        (None, "b", "c", FileStatus.CONFLICT),
        (None, "b", None, FileStatus.NEW),
        ("a", "b", None, FileStatus.DOCUMENT_GONE),
        ("a", "a", None, FileStatus.DOCUMENT_GONE),
        ("a", None, "a", FileStatus.FILE_GONE),
        ("a", None, "b", FileStatus.FILE_GONE),
        (None, None, "b", FileStatus.NEWER),
        ("a", None, None, FileStatus.SAME),
    ],
)
def test_a_sync_takes_only_what_nobody_changed_here(
    base: str | None, file: str | None, stored: str | None, verdict: FileStatus
) -> None:
    assert sync_status(base=base, file=file, stored=stored) is verdict


def test_a_manifest_is_read_as_it_was_written() -> None:
    manifest = Manifest("kana", "広樹", {("b", "MEMORY.md"): Exported(3, "x"), ("a", "pinned.md"): Exported(1, "y")})
    assert manifest_of(manifest.dumped()) == manifest
    assert (manifest.base("b", "MEMORY.md"), manifest.base("b", "pinned.md")) == ("x", None)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 2}', '{"format": 1, "projects": []}', "[" * 9_000])
def test_a_damaged_manifest_is_refused(text: str) -> None:
    with pytest.raises(BadManifest):
        manifest_of(text)


def test_backups_are_named_by_their_moment() -> None:
    name = backup_name("MEMORY.md", datetime(2026, 3, 1, 9, 30, 5, 120, tzinfo=UTC))
    assert name == "MEMORY.md.bak.20260301T093005000120Z"


def test_digests_tell_texts_apart() -> None:
    assert digest_of("a") != digest_of("a\n") and len(digest_of("\ud800")) == 64
