"""A refusal reads as English text to programs, and in the reader's language to people."""

from memoryhub.errors import DomainError, told, words_of

JAPANESE = {
    "A memory that is %(status)s cannot be pinned.": "状態が%(status)sの記憶は固定できません。",
    "Nothing to do, 100 % done.": "することはありません。",
}


class Beside(DomainError):
    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


def test_a_told_text_is_its_english_words() -> None:
    assert (
        told("A memory that is %(status)s cannot be pinned.", status="pending")
        == "A memory that is pending cannot be pinned."
    )
    assert told("Nothing to do, 100 % done.") == "Nothing to do, 100 % done."


def test_what_was_told_from_a_template_is_translated() -> None:
    error = Beside("pinned", told("A memory that is %(status)s cannot be pinned.", status="pending"))
    assert str(error) == "A memory that is pending cannot be pinned."
    assert words_of(error, JAPANESE.__getitem__) == "状態がpendingの記憶は固定できません。"
    assert (
        words_of(DomainError(told("Nothing to do, 100 % done.")), JAPANESE.__getitem__)
        == "することはありません。"
    )


def test_a_word_told_within_a_text_is_translated_too() -> None:
    text = told("A memory that is %(status)s cannot be pinned.", status=told("pending"))
    words = {**JAPANESE, "pending": "承認待ち"}
    assert text == "A memory that is pending cannot be pinned."
    assert text.translated(words.__getitem__) == "状態が承認待ちの記憶は固定できません。"


def test_a_plain_text_stays_as_it_is() -> None:
    assert words_of(DomainError("Not from a template."), JAPANESE.__getitem__) == "Not from a template."
