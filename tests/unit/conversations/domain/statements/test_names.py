"""Names in statements: what may be one, and what is not."""

import pytest

from conversations.domain.statements.names import bare, is_inflected, loanwords, names, squashed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The user lives in Osaka with Tama.", ["Osaka", "Tama"]),
        ("Tamara is the user's wife.", ["Tamara"]),
        ("Anna's dog is old.", ["Anna"]),
        ("Prefers short answers.", []),
        ("Coffee is what the user drinks on Mondays in May.", []),
        ("The user has an iPhone and likes AI.", ["iPhone"]),
        ("Work is hard. Seven cats.", []),
        ("The user reads “norwegian wood”.", ["norwegian wood"]),
        ("ユーザーはObsidianを使う。", ["Obsidian"]),
        ("ユーザーは札幌で佐藤さんと働く。", ["札幌", "佐藤"]),
        ("ユーザーは八王子店で働く。", ["八王子", "八王子店"]),
        ("ユーザーは休日に阿佐ヶ谷の店へ行き、木曜日に一文の値をつける。", ["阿佐ヶ谷"]),
        ("ユーザーは犬のポチを飼う。", ["ポチ"]),
        ("ユーザーはキプロスへ旅行する。", ["キプロス"]),
        ("猫の名前はトラである。", ["トラ"]),
        ("娘は「美咲」という名前だ。", ["美咲"]),
        ("ユーザーはお母さんの実家に住む。", []),
        ("Der Nutzer hat eine Allergie und einen Hund namens Bello.", ["Bello"]),
        ("Die Krankenkarte des Benutzers liegt in der kleinen Schublade.", []),
        ("Die Nutzerin wohnt seit dem 3. März in Köln.", ["Köln"]),
        ("Der Nutzer kommt am Montag mit der Tochter Zoë.", ["Zoë"]),
        ("Der Nutzer arbeitet bei der ReLog.", ["ReLog"]),
    ],
)
def test_names_of_a_statement(text: str, found: list[str]) -> None:
    assert list(names(text)) == found


def test_words_in_katakana() -> None:
    assert list(loanwords("ユーザーはピアノとゲームとメールとオブシディアンを使う")) == ["ピアノ", "オブシディアン"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("italy", "italian", True), ("japan", "japanese", True), ("spain", "spanish", True), ("osaka", "osaka", True),
        ("marie", "mario", False), ("takashi", "takeshi", False), ("ann", "anna", False),
    ],
)  # fmt: skip
def test_inflected_names(one: str, other: str, same: bool) -> None:
    assert is_inflected(one, other) is same


def test_forms_of_a_name() -> None:
    assert [bare(word) for word in ("anna's", "satos", "boss", "cats’")] == ["anna", "sato", "boss", "cats"]
    assert squashed("はな Ｃafé-1") == "ハナcafe1"
