"""Features of a message's letters: whether it asks, whom it names, by which words it is found."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.domain.messages import is_question, named_authors, searchable_text, without_names
from tests.tables import tables_of
from tests.unit.timing import time_problem

TABLES = tables_of(__file__)
MONTHS = "January February March April May June July August September October November December"
SAID_AT = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
names = st.lists(st.text(alphabet="aZé花 .+*?([\\|$^-", min_size=1, max_size=8), max_size=4)


# Questions


@pytest.mark.parametrize("content", TABLES["questions"])
def test_message_that_ends_as_a_question_asks(content: str) -> None:
    assert is_question(content)


@pytest.mark.parametrize("content", TABLES["no questions"])
def test_message_that_ends_otherwise_does_not(content: str) -> None:
    assert not is_question(content)


def test_only_the_end_of_a_message_decides() -> None:
    assert is_question("x" * 1_000_000 + "?" + "!" * 49)
    assert not is_question("?" + "!" * 50)


@pytest.mark.parametrize("content", ["?" * 1_000_000 + "a", "か" + " " * 1_000_000, "か" * 1_000_000 + "x"])
def test_asking_takes_no_time_for_a_hostile_message(content: str) -> None:
    assert not time_problem(lambda: is_question(content), seconds=0.1)


# Words


@pytest.mark.parametrize(("content", "author", "words"), TABLES["searchable texts"])
def test_message_is_found_by_its_author_and_its_day(content: str, author: str, words: str) -> None:
    assert searchable_text(content, author=author, said_at=SAID_AT) == words


@pytest.mark.parametrize(("month", "name"), list(enumerate(MONTHS.split(), 1)))
def test_every_month_has_its_name(month: int, name: str) -> None:
    said_at = datetime(2024, month, 29, tzinfo=UTC)

    assert searchable_text("x", author="", said_at=said_at) == f"x 29 {name} 2024"
    assert searchable_text("猫", author="", said_at=said_at) == f"猫 2024年{month}月29日"


# Names


@pytest.mark.parametrize(("text", "author"), TABLES["named"])
def test_author_whom_a_text_names_is_found(text: str, author: str) -> None:
    assert named_authors(text, [author, "Somebody Else"]) == {author}


@pytest.mark.parametrize("text", TABLES["named Kai"])
def test_author_in_latin_letters_is_found_in_japanese(text: str) -> None:
    """No space says where the name ends; the next letter is of another script."""
    assert named_authors(text, ["Kai"]) == {"Kai"}


@pytest.mark.parametrize(("text", "author"), TABLES["not named"])
def test_author_whom_a_text_does_not_name_is_not_found(text: str, author: str) -> None:
    assert named_authors(text, [author]) == frozenset()


@pytest.mark.parametrize(("text", "author"), TABLES["common words"])
def test_name_of_words_that_everybody_uses_names_nobody(text: str, author: str) -> None:
    assert named_authors(text, [author]) == frozenset()


def test_part_that_means_something_names_its_author_beside_words_that_everybody_uses() -> None:
    assert named_authors("Will Smith come?", ["Will Smith"]) == {"Will Smith"}
    assert named_authors("Will she come?", ["Will Smith"]) == frozenset()
    assert without_names("Will Smith will come", ["Will Smith"]) == "will come"


@pytest.mark.parametrize("count", [1_000, 5_000])
@pytest.mark.parametrize("text", ["What does First77 like?", "First77, 花子77, tea " * 500, "F" * 20_000])
def test_thousands_of_authors_are_told_apart_at_once(text: str, count: int) -> None:
    """A pattern for each of them took 13 s for 1,000."""
    authors = [f"First{number} Last{number}" for number in range(count)]
    authors += [f"花子{number}" for number in range(count)]

    found = named_authors(text, authors)
    bare = without_names(text, found)

    assert not time_problem(lambda: without_names(text, named_authors(text, authors)), seconds=3)
    assert found == {name for name in ("First77 Last77", "花子77") if name.split()[0] in text}
    assert "First77" not in bare


def test_text_of_a_thousand_names_is_read_at_once() -> None:
    authors = [f"First{number} Last{number}" for number in range(1_000)]
    text = "What do these like? " + ", ".join(authors)

    found = named_authors(text, authors)
    bare = without_names(text, found)

    assert not time_problem(lambda: without_names(text, named_authors(text, authors)), seconds=3)
    assert found == set(authors)
    assert bare.split() == ["What", "do", "these", "like?", *[","] * 999]


def test_all_whom_a_text_names_are_found() -> None:
    authors = ["Ann Lee", "Bob", "花子", "Carl"]

    assert named_authors("Did Ann meet Bob and 花子さん?", authors) == {"Ann Lee", "Bob", "花子"}
    assert named_authors("Did Ann meet Bob?", []) == frozenset()


def test_name_part_that_is_a_role_or_one_letter_names_nobody() -> None:
    assert named_authors("the user J", ["user J Smith"]) == frozenset()
    assert named_authors("Mr. Smith", ["user J Smith"]) == {"user J Smith"}


@pytest.mark.parametrize(("text", "authors", "bare"), TABLES["without names"])
def test_names_are_taken_out_of_a_text(text: str, authors: list[str], bare: str) -> None:
    assert without_names(text, authors) == bare


@pytest.mark.parametrize(("text", "bare"), TABLES["without Kai"])
def test_latin_names_are_taken_out_of_japanese_with_their_honorific(text: str, bare: str) -> None:
    assert without_names(text, ["Kai"]) == bare


@pytest.mark.parametrize("text", TABLES["names alone"])
def test_text_that_is_names_alone_is_kept(text: str) -> None:
    assert without_names(text, ["Kai", "花子"]) == text


@pytest.mark.parametrize("author", TABLES["pattern characters"])
def test_names_are_no_patterns(author: str) -> None:
    assert named_authors(f"I asked {author} today", [author]) == {author}
    assert named_authors("I asked 55 aab xx C today", [author]) == frozenset()
    assert without_names(f"I asked {author} today", [author]) == "I asked today"


@given(st.text(alphabet="aZé花さん's .+*?([\\|$^-", max_size=30), names)
def test_any_name_may_come_in_any_text(text: str, authors: list[str]) -> None:
    found = named_authors(text, authors)
    bare = without_names(text, found)

    assert found <= set(authors)
    assert bare == text or any(map(str.isalnum, bare))
    assert len(bare) <= len(text)
    if not found:
        assert bare.split() == text.split()
