"""What is stored in English is shown in the reader's language, also where values are in it."""

import pytest
from django.utils import translation

from memoryhub.admin.stored_texts import translated
from memoryhub.errors import stored_text
from memoryhub.importexport.foreign.records import UnreadableElement, checked_id, checked_text
from memoryhub.llm.errors import PromptTooLong
from memoryhub.llm.remote import overloaded


def japanese(text: str) -> str:
    with translation.override("ja"):
        return translated(text)


def test_values_are_kept_in_the_translation() -> None:
    with pytest.raises(UnreadableElement) as error:
        checked_text("x" * 11, 10)
    assert str(error.value) == "its text is longer than 10 characters."
    assert japanese(str(error.value)) == "本文が10文字を超えています。"
    with pytest.raises(UnreadableElement) as error:
        checked_id(None, "chatId")
    assert japanese(str(error.value)) == "使用できる`chatId`がありません。"
    assert japanese(str(overloaded(503))) == "プロバイダーが過負荷か、障害を起こしています（503）。"
    shown = japanese(str(PromptTooLong(size=12_345, window=8_192, setting="MEMORYHUB_LLM_CONTEXT_WINDOW")))
    assert "12,345" in shown and "8,192" in shown and "MEMORYHUB_LLM_CONTEXT_WINDOW" in shown and "leaves" not in shown


@pytest.mark.parametrize("text", ["", "ValueError at strength/jobs.py:12", "A text {of} no template.", "by Maya"])
def test_other_texts_stay(text: str) -> None:
    assert japanese(text) == text


def test_a_text_without_values_is_translated_and_english_stays_english() -> None:
    assert japanese("its text is empty.") != "its text is empty."
    with translation.override("en"):
        assert translated(stored_text("longer than {most} bytes.", most=5)) == "longer than 5 bytes."


def test_a_value_is_text_and_no_template() -> None:
    shown = japanese(stored_text("it has no usable `{name}`.", name="{name.__class__} <b>"))
    assert shown == "使用できる`{name.__class__} <b>`がありません。"


def test_a_long_text_is_matched_in_linear_time() -> None:
    japanese("The provider is overloaded or failing (" * 2_000)
