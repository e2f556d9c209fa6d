"""Translatable texts are found, and what is wrong with a catalogue is named."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from babel.messages import Catalog
from django.conf import settings

from memoryhub.catalogue import Found, compiled, merged, problems_of, read, source_of, texts_of


def found(*texts: str, plural: str | None = None) -> Found:
    made = Found()
    for text in texts:
        made.add(text, plural=plural, file="a.py")
    return made


def catalogue(**translations: str) -> Catalog:
    made = Catalog(locale="ja")
    for text, said in translations.items():
        made.add(text.replace("_", " "), said)
    return made


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ('_("Pin")', [(None, "Pin", None)]),
        ('ngettext("%(n)d row", "%(n)d rows", n)', [(None, "%(n)d row", "%(n)d rows")]),
        ('pgettext("a verb", "sleep")', [("a verb", "sleep", None)]),
        ('gettext("two " "parts")', [(None, "two parts", None)]),
        ('print("not for people")', []),
    ],
)
def test_texts_of_code(source: str, texts: list[tuple[str | None, str, str | None]]) -> None:
    assert list(texts_of(source, is_template=False)) == texts


def test_texts_of_templates() -> None:
    source = """{% load i18n %}
        <p title="{% translate "It's" %}">it isn't</p>
      {% blocktranslate count n=rows trimmed %}
          {{ n }} row
        {% plural %}{{ n }} rows{% endblocktranslate %}
    {{ _("Save")|default:"x" }}"""
    texts = [(text, plural) for _, text, plural in texts_of(source, is_template=True)]
    assert texts == [("It's", None), ("%(n)s row", "%(n)s rows"), ("Save", None)]


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (catalogue(), "not in the catalogue: 'Pin it'"),
        (catalogue(Pin_it=""), "not translated: 'Pin it'"),
        (catalogue(Pin_it="固定", Gone="消えた"), "said nowhere any more: 'Gone'"),
        (catalogue(Pin_it="%(name)sを固定"), "places that the text has not (%(name)s): 'Pin it'"),
    ],
)
def test_problems_are_named(made: Catalog, problem: str) -> None:
    assert problems_of(found("Pin it"), made) == [problem]


def test_places_that_a_translation_lacks_and_unsure_ones_are_problems() -> None:
    made = Catalog(locale="ja")
    made.add("%(count)d rows", "行", flags=["fuzzy"])
    assert problems_of(found("%(count)d rows"), made) == [
        "unsure (fuzzy): '%(count)d rows'",
        "places that the translation lacks (%(count)d): '%(count)d rows'",
    ]


def test_nothing_is_wrong_with_a_whole_catalogue() -> None:
    assert problems_of(found("Pin it"), catalogue(Pin_it="固定する")) == []


def test_merging_keeps_translations_and_drops_what_nobody_says(tmp_path: object) -> None:
    before = catalogue(Pin_it="固定する", Gone="消えた")
    made = merged(found("Pin it", "New"), before)
    assert {message.id: message.string for message in made if message.id} == {"Pin it": "固定する", "New": ""}


def test_a_plural_has_one_japanese_form() -> None:
    before = Catalog(locale="ja")
    before.add(("%(n)d row", "%(n)d rows"), ("%(n)d行",))
    made = merged(found("%(n)d row", plural="%(n)d rows"), before)
    assert problems_of(found("%(n)d row", plural="%(n)d rows"), made) == []


def test_files_are_the_same_for_the_same_catalogue(tmp_path: object) -> None:
    makes = [merged(found("Pin it", "New"), catalogue(Pin_it="固定する", New="新しい")) for _ in range(2)]
    assert source_of(makes[0]) == source_of(makes[1])
    assert compiled(makes[0]) == compiled(makes[1])
    assert str(datetime.now(UTC).year + 1).encode() not in compiled(makes[0])
    assert "固定する".encode() in compiled(makes[0])


def test_a_catalogue_that_is_not_there_is_empty(tmp_path: object) -> None:
    from pathlib import Path

    assert [message.id for message in read(Path(str(tmp_path)) / "none.po") if message.id] == []


ONE_WORD = {
    "睡眠": "スリープ", "文書": "ドキュメント", "承認待ち": "確認待ち", "ピン留め": "固定", "強さ": "強度", "ダッシュボード": "ホーム",
    "キュレーター": "担当者", "フィルタ": "絞り込み", "ブラウザ(?!ー)": "ブラウザー", "取り消(?!し線)": "元に戻す", "省察": "振り返り",
    "書き込み防止": "再登録の防止", "冪等": "二重実行防止の記録", "オーナーモード": "単一ユーザーモード", "アクター": "記憶の持ち主",
    "配信不能": "再試行を終えたジョブ",
}  # fmt: skip
"""What must not be said, and what the interface says instead."""

A_SPACE_BEFORE_A_PARTICLE = re.compile(
    r"(%\(\w+\)[sd]|\{\w*\}|[ぁ-ヿ㐀-鿿]) (を|が|に|は|の|と|で|も|へ|から|まで|件|回|個)"
)


def test_the_japanese_interface_says_one_word_for_one_thing() -> None:
    wrong = []
    for message in read(Path(settings.LOCALE_PATHS[0]) / "ja/LC_MESSAGES/django.po"):
        texts = message.string if isinstance(message.string, tuple | list) else (message.string,)
        for text in texts if message.id else ():
            wrong += [f"{text}: {said}" for banned, said in ONE_WORD.items() if re.search(banned, text)]
            if A_SPACE_BEFORE_A_PARTICLE.search(text):
                wrong.append(f"{text}: a space before a particle")
    assert not wrong, "\n".join(wrong)
