"""Tables: whatever is in a file, rows come of it, or reasons."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryhub.importexport.foreign.archives import open_archive
from memoryhub.importexport.foreign.formats import table
from memoryhub.importexport.foreign.records import ImportedMemory, ImportedSession, Omission, Refusal

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text('",\n\ta0é茶\x00', max_size=80).map(str.encode))
@pytest.mark.parametrize("header", [b"content,created_at,role,session,id\n", b"text,date,tags,kind\n"])
def test_any_rows_become_records_or_reasons(tmp_path: Path, header: bytes, content: bytes) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(header + content)
    archive = open_archive(path)
    assert table.recognises(archive)
    for located in table.read(archive, NOW):
        assert isinstance(located.record, ImportedMemory | ImportedSession | Omission | Refusal)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2025-02-03", datetime(2025, 2, 3, tzinfo=UTC)),
        ("2025/2/3 9:05", datetime(2025, 2, 3, 9, 5, tzinfo=UTC)),
        ("2/17/2026 14:36:11 +00:00", datetime(2026, 2, 17, 14, 36, 11, tzinfo=UTC)),
        ("1740000000", datetime(2025, 2, 19, 21, 20, tzinfo=UTC)),
        ("1740000000000", datetime(2025, 2, 19, 21, 20, tzinfo=UTC)),
        ("", None),
    ],
)
def test_times_of_spreadsheets_are_read(tmp_path: Path, text: str, time: datetime | None) -> None:
    path = tmp_path / "table.csv"
    path.write_text(f"memory,date\nLikes tea,{text}\n")
    assert [located.record for located in table.read(open_archive(path), NOW)] == [
        ImportedMemory("Likes tea", since=time)
    ]


@pytest.mark.parametrize("text", ["content", "=text", "content=", "colour=red,content=a", "created_at=date"])
def test_columns_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"content=|meaning=column"):
        table.parse_columns(text)


def test_columns_are_parsed() -> None:
    assert table.parse_columns(" content = body.text , created_at=date") == {
        "content": "body.text",
        "created_at": "date",
    }
    assert table.parse_columns("") == {}
