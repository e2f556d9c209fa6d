"""Lines of exported notes are read back as they were; lines of others' notes as basic-memory and Obsidian mean them."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.importexport.foreign.formats.markdown import _OBSERVATION, Line, _continuations, render_note, tag_in_line

KEY = str(UUID(int=7))
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r") | st.sampled_from("#^\\ -[]\n("), min_size=1
).filter(lambda text: bool(text.strip()))


def lines_of(note: str) -> list[Line]:
    """Return the observations of a note, as the reader finds them."""
    lines = note.split("\n")
    found = [(_OBSERVATION.match(line), more) for line, more in zip(lines, _continuations(lines), strict=True)]
    return [Line.parsed(match[1], "\n".join([match[2], *more])) for match, more in found if match]


@given(TEXTS, st.lists(st.text("aé旅-_/", min_size=1, max_size=5), unique=True, max_size=3), TEXTS)
def test_a_line_is_read_back_as_it_was(text: str, tags: list[str], other: str) -> None:
    lines = [Line("fact", each.strip(), tags, id=KEY, version=3) for each in (text, other)]
    assert lines_of(render_note("facts", lines)) == [
        Line("fact", each.text, tuple(tags), id=KEY, version=3) for each in lines
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("- [fact] Likes tea #food #旅", [Line("fact", "Likes tea", ("food", "旅"))]),
        ("- [method] Pour over #brewing (slowly)", [Line("method", "Pour over", ("brewing",), "slowly")]),
        ("- [decision] Buy (not rent)", [Line("decision", "Buy (not rent)")]),
        ("- [fact] C\\# is a language", [Line("fact", "C\\# is a language")]),
        ("- [ ] a task", []),
        ("- [x] done", []),
        ("- [[Target]]", []),
        ("- [a link](https://example.com)", []),
        ("- relates_to [[Target]]", []),
        (f"- [fact] Tea #a ^{KEY}-v12", [Line("fact", "Tea", ("a",), "", KEY, 12)]),
        (f"- [fact] Tea\n  and more ^{KEY}-v1", [Line("fact", "Tea\nand more", (), "", KEY, 1)]),
    ],
)
def test_lines_of_notes(line: str, found: list[Line]) -> None:
    assert lines_of(line) == found


def test_a_tag_of_two_words_is_one_in_a_line() -> None:
    assert tag_in_line("two words #1") == "two-words-1"
