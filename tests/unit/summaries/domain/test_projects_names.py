"""Names of projects and documents, and the list of all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.llm.tokens import count_raw
from summaries.domain.documents import (
    BadDocumentName,
    check_document_name,
    described,
    description_in,
    document_order,
    with_description,
)
from summaries.domain.projects import (
    MAX_NAME_LENGTH,
    BadProjectName,
    CatalogEntry,
    catalog,
    check_name,
    free_name,
    is_generated_name,
    is_name,
    one_line,
    propose_name,
)


@pytest.mark.parametrize(
    ("name", "stands_in"),
    [
        (propose_name("予算"), True),
        (f"detail-{propose_name('予算')}.md", True),
        ("detail-project-0a1b2c3d-2", True),
        (propose_name("うどん"), False),
        ("project-plan", False),
        ("MEMORY.md", False),
    ],
)
def test_a_digest_is_known_to_stand_for_words(name: str, stands_in: bool) -> None:
    assert is_generated_name(name) is stands_in


@pytest.mark.parametrize("name", ["a", "tea-shop", "v2", "a" * MAX_NAME_LENGTH, "con-sole", "2026"])
def test_kebab_names_are_names(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "Tea", "tea_shop", "tea shop", "-tea", "tea-", "a--b", "a.b", "../x", "a/b", "a\\b", "a\n", "お茶", "é", "con", "nul", "com1", "lpt9",
        "auto", "catalog", "events", "route", "routes", "a" * (MAX_NAME_LENGTH + 1), "\x00", "٣",
    ],
)  # fmt: skip
def test_other_names_are_refused_with_one_that_can_be_used(name: str) -> None:
    with pytest.raises(BadProjectName) as refused:
        check_name(name)
    check_name(refused.value.proposal)


@pytest.mark.parametrize(
    ("text", "proposed"),
    [
        ("Tea Shop (Uji)", "tea-shop-uji"),
        ("サーバー移行", "saba"),
        ("ウェブサイト リニューアル", "webusaito-rinyuaru"),
        ("がっこう", "gakkou"),
        ("マッチング", "matchingu"),
        ("Kyoto 引っ越し", "kyoto"),
        ("引っ越し計画", "project-5ab0674a"),
        ("Ünïcode", "unicode"),
        ("ＦＵＬＬ　ｗｉｄｔｈ", "full-width"),
        ("CON", "con-project"),
        ("routes", "routes-project"),
        ("words " * 30, "-".join(["words"] * 10)),
    ],
)
def test_proposals(text: str, proposed: str) -> None:
    assert propose_name(text) == proposed


@given(st.text(max_size=300))
def test_every_text_has_a_proposal_that_can_be_used(text: str) -> None:
    assert is_name(propose_name(text))
    assert propose_name(text) == propose_name(text)


@given(st.text(alphabet="abc-", min_size=1, max_size=70), st.integers(0, 12))
def test_free_name_is_free_and_a_name(text: str, number: int) -> None:
    name = propose_name(text)
    taken = {name, *(f"{name}-{each}" for each in range(2, number))}
    assert free_name(name, taken) not in taken
    assert is_name(free_name(name, taken))


def test_free_name_of_the_longest_still_is_a_name() -> None:
    name = "a" * MAX_NAME_LENGTH
    assert free_name(name, [name]) == "a" * (MAX_NAME_LENGTH - 2) + "-2"


@pytest.mark.parametrize("name", ["MEMORY.md", "pinned.md", "decisions.md", "timeline.md", "detail-a-b2.md"])
def test_documents_of_the_house(name: str) -> None:
    check_document_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "memory.md",
        "MEMORY.md.bak",
        "detail-.md",
        "detail-A.md",
        f"detail-{'a' * 65}.md",
        "../pinned.md",
        "detail-x.md\n",
    ],
)
def test_other_documents_are_refused(name: str) -> None:
    with pytest.raises(BadDocumentName):
        check_document_name(name)


def test_documents_have_an_order() -> None:
    names = ["detail-b.md", "timeline.md", "detail-a.md", "pinned.md", "MEMORY.md"]
    assert sorted(names, key=document_order) == ["MEMORY.md", "pinned.md", "timeline.md", "detail-a.md", "detail-b.md"]


@pytest.mark.parametrize(
    ("memory", "description"),
    [
        ("# Tea\n\n> Green\n> tea.\n\n> Another.", "Green tea."),
        ("  > Indented", "Indented"),
        ("No quote", ""),
        ("", ""),
        ("> " + "x" * 400, "x" * 300),
    ],
)
def test_description_is_the_first_block_quote(memory: str, description: str) -> None:
    assert description_in(memory) == description


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("", "# tea\n\n> New.\n"),
        ("# tea\n\n> Old\n> words.\n\nRest.", "# tea\n\n> New.\n\nRest."),
        ("# tea\n\nRest.", "# tea\n\n> New.\n\nRest."),
        ("# tea", "# tea\n\n> New.\n\n"),
        ("Rest.", "> New.\n\nRest."),
        ("# tea\nRest.", "# tea\n\n> New.\n\nRest."),
    ],
)
def test_description_is_put_into_the_block_quote(memory: str, expected: str) -> None:
    assert with_description(memory, "tea", "New.") == expected
    assert description_in(expected) == "New."


def test_description_can_be_taken_away() -> None:
    assert with_description(described("tea", "Old."), "tea", " ") == "# tea\n\n"
    assert described("tea", "") == "# tea\n\n"


def test_one_line_has_no_breaks_and_no_control_characters() -> None:
    assert one_line(" a\n\tb\x07\u2028c  ") == "a b c"


def test_catalog_is_numbered() -> None:
    listed = [CatalogEntry("tea", "Green\ntea."), CatalogEntry("empty", "")]
    assert catalog(listed, count_raw) == "1. **tea** - Green tea.\n2. **empty**"


@pytest.mark.parametrize("description", ["word " * 60, "お茶の店の説明。" * 37])
def test_long_descriptions_are_cut(description: str) -> None:
    listed = [CatalogEntry("a-rather-long-name-of-a-project", description)]
    assert catalog(listed, count_raw) == f"1. **{listed[0].name}** - {description.strip()}"
    lines = catalog(listed * 150, count_raw).splitlines()
    assert all(line.endswith("…") and 25 <= count_raw(line) <= 30 for line in lines)
    lines = catalog(listed * 50, count_raw).splitlines()
    assert all(50 <= count_raw(line) <= 60 for line in lines)


def test_name_that_fills_its_line_keeps_one_character() -> None:
    name = "-".join(["xqzjvk"] * 9)
    listed = [CatalogEntry(name, "Description of it, which is long. " * 5)]
    assert catalog(listed * 150, count_raw).endswith(" - D…")
