"""Translatable texts are found, and problems of the catalog are named."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from babel.messages import Catalog
from django.conf import settings

from scripts.translations import catalog_of, extract_texts, merged, mo_bytes, po_bytes, problems, read


def found(*texts: str, plural: str | None = None) -> Catalog:
    return catalog_of(("a.py", (text, plural, None)) for text in texts)


def catalog(**translations: str) -> Catalog:
    made = Catalog(locale="ja")
    for text, translated in translations.items():
        made.add(text.replace("_", " "), translated)
    return made


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ('_("Pin")', [("Pin", None, None)]),
        ('ngettext("%(n)d row", "%(n)d rows", n)', [("%(n)d row", "%(n)d rows", None)]),
        ('pgettext("a verb", "sleep")', [("sleep", None, "a verb")]),
        ('gettext("two " "parts")', [("two parts", None, None)]),
        ('print("not for people")', []),
    ],
)
def test_texts_of_code(source: str, texts: list[tuple[str, str | None, str | None]]) -> None:
    assert list(extract_texts(source, is_template=False)) == texts


def test_texts_of_templates() -> None:
    source = """{% load i18n %}
        <p title="{% translate "It's" %}">it isn't</p>
      {% blocktranslate count n=rows trimmed %}
          {{ n }} row
        {% plural %}{{ n }} rows{% endblocktranslate %}
    {{ _("Save")|default:"x" }}"""
    texts = [(text, plural) for text, plural, _ in extract_texts(source, is_template=True)]
    assert texts == [("It's", None), ("%(n)s row", "%(n)s rows"), ("Save", None)]


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (catalog(), "not in the catalog: 'Pin it'"),
        (catalog(Pin_it=""), "not translated: 'Pin it'"),
        (catalog(Pin_it="固定", Gone="消えた"), "obsolete: 'Gone'"),
        (catalog(Pin_it="%(name)sを固定"), "unknown placeholders (%(name)s): 'Pin it'"),
    ],
)
def test_problems_are_named(made: Catalog, problem: str) -> None:
    assert list(problems(found("Pin it"), made)) == [problem]


def test_missing_placeholders_and_fuzzy_translations_are_problems() -> None:
    made = Catalog(locale="ja")
    made.add("%(count)d rows", "行", flags=["fuzzy"])
    assert list(problems(found("%(count)d rows"), made)) == [
        "fuzzy: '%(count)d rows'",
        "missing placeholders (%(count)d): '%(count)d rows'",
    ]


def test_nothing_is_wrong_with_a_whole_catalog() -> None:
    assert list(problems(found("Pin it"), catalog(Pin_it="固定する"))) == []


def test_merging_keeps_translations_and_drops_obsolete_texts(tmp_path: object) -> None:
    before = catalog(Pin_it="固定する", Gone="消えた")
    made = merged(found("Pin it", "New"), before)
    assert {message.id: message.string for message in made if message.id} == {"Pin it": "固定する", "New": ""}


def test_a_plural_has_one_japanese_form() -> None:
    before = Catalog(locale="ja")
    before.add(("%(n)d row", "%(n)d rows"), ("%(n)d行",))
    made = merged(found("%(n)d row", plural="%(n)d rows"), before)
    assert list(problems(found("%(n)d row", plural="%(n)d rows"), made)) == []


def test_files_are_the_same_for_the_same_catalog(tmp_path: object) -> None:
    makes = [merged(found("Pin it", "New"), catalog(Pin_it="固定する", New="新しい")) for _ in range(2)]
    assert po_bytes(makes[0]) == po_bytes(makes[1])
    assert mo_bytes(makes[0]) == mo_bytes(makes[1])
    assert str(datetime.now(UTC).year + 1).encode() not in mo_bytes(makes[0])
    assert "固定する".encode() in mo_bytes(makes[0])


ONE_WORD = {
    "睡眠": "スリープ", "文書": "ドキュメント", "承認待ち": "確認待ち", "ピン留め": "固定", "強さ": "強度", "ダッシュボード": "ホーム",
    "キュレーター": "担当者", "フィルタ": "絞り込み", "ブラウザ(?!ー)": "ブラウザー", "取り消(?!し線)": "元に戻す", "省察": "振り返り",
    "書き込み防止": "再登録の防止", "冪等": "二重実行防止の記録", "オーナーモード": "単一ユーザーモード", "アクター": "記憶の持ち主",
    "配信不能": "再試行を終えたジョブ",
}  # fmt: skip
"""Terms that the interface must not use, and the preferred ones."""

A_SPACE_BEFORE_A_PARTICLE = re.compile(
    r"(%\(\w+\)[sd]|\{\w*\}|[ぁ-ヿ㐀-鿿]) (を|が|に|は|の|と|で|も|へ|から|まで|件|回|個)"
)


def test_the_japanese_interface_says_one_word_for_one_thing() -> None:
    wrong = []
    for message in read(Path(settings.LOCALE_PATHS[0]) / "ja/LC_MESSAGES/django.po"):
        texts = message.string if isinstance(message.string, tuple | list) else (message.string,)
        for text in texts if message.id else ():
            wrong += [f"{text}: {term}" for banned, term in ONE_WORD.items() if re.search(banned, text)]
            if A_SPACE_BEFORE_A_PARTICLE.search(text):
                wrong.append(f"{text}: a space before a particle")
    assert not wrong, "\n".join(wrong)
