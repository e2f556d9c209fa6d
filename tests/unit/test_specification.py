"""The specification and its citations agree: every cited id is a row, and code or a test cites every row."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "specification.md"
FOLDERS = (
    "bench", "clients", "conversations", "docs", "integrations", "memoryhub", "scripts", "strength", "summaries", "templates",
    "tests",
)  # fmt: skip
CODE = {".py", ".sql", ".html", ".js", ".ts", ".sh", ".toml"}
ID = r"[A-Z]\d+"
ITEM = rf"{ID}(?:[–-]{ID})?"
CITATION = re.compile(rf"SPEC ({ITEM}(?:(?:, and |, | and ){ITEM})*)")


def ids_of(text: str) -> Iterator[str]:
    """Yield the ids of a text's citations, such as `SPEC M1-M3, M8 and M10`, also across the lines of a comment."""
    for citation in CITATION.findall(re.sub(r"\s*\n[ #]*", " ", text)):
        for first, last in re.findall(rf"({ID})(?:[–-]({ID}))?", citation):
            numbers = range(int(first[1:]), int((last or first)[1:]) + 1)
            yield from (f"{first[0]}{number}" for number in numbers)


@cache
def citations() -> dict[str, set[Path]]:
    found: dict[str, set[Path]] = {}
    files = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    for path in files:
        if path.suffix in {*CODE, ".md"} and path not in (PAGE, Path(__file__)) and "node_modules" not in path.parts:
            for each in ids_of(path.read_text(encoding="utf-8")):
                found.setdefault(each, set()).add(path.relative_to(ROOT))
    return found


def rows() -> list[str]:
    return re.findall(r"^\| ([A-Z]\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_cited_id_is_a_row() -> None:
    assert {each: paths for each, paths in citations().items() if each not in rows()} == {}


def test_every_row_is_cited_by_code_or_a_test() -> None:
    by_code = {each for each, paths in citations().items() if any(path.suffix in CODE for path in paths)}
    assert [row for row in rows() if row not in by_code] == []


def test_ids_are_unique_and_numbered_without_gaps() -> None:
    assert len(rows()) == len(set(rows())) > 90
    for section in {row[0] for row in rows()}:
        numbers = [int(row[1:]) for row in rows() if row[0] == section]
        assert numbers == list(range(1, len(numbers) + 1)), section


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("(SPEC X3)", ["X3"]),
        ("SPEC S5-S7.", ["S5", "S6", "S7"]),
        ("SPEC M1–M3, M8 and A2", ["M1", "M2", "M3", "M8", "A2"]),
        ("# SPEC A1,\n    # A3", ["A1", "A3"]),
        ("a SPECIAL A1", []),
    ],
)
def test_citations_are_read_in_every_form(text: str, ids: list[str]) -> None:
    assert list(ids_of(text)) == ids
