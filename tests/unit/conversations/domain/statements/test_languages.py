"""Languages of texts, and in which one a model is asked to write."""

import pytest

from conversations.domain.statements.languages import are_other_languages, is_setting, language_of, writing


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("I live in the north of Spain.", "en"), ("ユーザーは京都に住む。", "ja"), ("Ich bin nicht in der Stadt.", "de"),
        ("Je suis dans la ville avec ma sœur.", "fr"), ("나는 서울에 산다", "ko"), ("我住在北京的一个小房子里面", "zh"), ("東京都", ""),
        ("Otaru", ""), ("123", ""), ("The word 猫 is in the book.", "en"), ("สวัสดีครับ", "th"),
    ],
)  # fmt: skip
def test_the_language_of_a_text(text: str, language: str) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize(
    ("text", "other", "is_tag", "differs"),
    [
        ("The user uses hash maps.", "検索が速いのはどっち？", False, True), ("ユーザーは東京に住む。", "I live in the east.", False, True),
        ("The user is in the north.", "I live in the east.", False, False), ("Otaru", "I live in the east.", False, False),
        ("ユーザーは東京に住む。", "ja-JP", True, False), ("The user is in the north.", "ja", True, True), ("東京都", "ja", True, False),
    ],
)  # fmt: skip
def test_other_languages(text: str, other: str, is_tag: bool, differs: bool) -> None:
    assert are_other_languages(text, other, is_tag=is_tag) is differs


@pytest.mark.parametrize(
    ("setting", "texts", "agent", "is_one", "tag", "prompt", "phrase"),
    [
        ("auto", ["京都に住んでいます"], "en", False, "ja", "ja", "日本語の"),
        ("auto", ["京都に住んでいます", "I live in the east."], "en", False, "", "ja", "もとの文と同じ言語の"),
        ("auto", ["京都に住んでいます", "I live in the east."], "en", True, "ja", "ja", "日本語の"),
        ("auto", ["Otaru"], "en", True, "", "en", "in the language of the text that it comes from"),
        ("auto", ["Ich bin nicht in der Stadt."], "ja", True, "de", "en", "in German"),
        ("auto", ["Message about the harbour", "Answer of the harbour"], "ja", True, "en", "en", "in English"),
        ("agent", ["I live in the east."], "ja", True, "ja", "ja", "日本語の"),
        ("fr", ["I live in the east."], "ja", True, "fr", "ja", "フランス語の"),
        ("sv-SE", [], "en", True, "sv-SE", "en", "in “sv-SE”"),
    ],
)
def test_the_language_to_write_in(
    setting: str, texts: list[str], agent: str, is_one: bool, tag: str, prompt: str, phrase: str
) -> None:
    found = writing(setting, texts, agent=agent, is_one=is_one)
    assert (found.tag, found.prompt, found.phrase) == (tag, prompt, phrase)


@pytest.mark.parametrize(
    ("value", "holds"),
    [("auto", True), ("agent", True), ("pt-BR", True), ("EN", False), ("english", False), (1, False)],
)
def test_values_of_the_policy(value: object, holds: bool) -> None:
    assert is_setting(value) is holds
