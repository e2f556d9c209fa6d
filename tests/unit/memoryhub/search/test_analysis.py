"""Terms of texts in English, Japanese and everything else that may come."""

import re
import threading
import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.analysis import (
    COMPOUND,
    ENGLISH_STOP_WORDS,
    JAPANESE_STOP_GRAMS,
    MAX_COMPOUND_CHARACTERS,
    MAX_WORD_CHARACTERS,
    analyse,
    fold,
    is_unspaced,
)
from memoryhub.search.bm25 import GRAM_LENGTH, text_length
from tests.unit.timing import time_problem

any_text = st.text(alphabet=st.characters(exclude_categories=()), max_size=300)
mixed_text = st.text(alphabet="第条月日漢字々〆アー々はを1２0 aé-#", max_size=60)


def compounds(text: str) -> Counter[str]:
    """Return the terms of a text that are whole expressions, without their sign."""
    return Counter({term[1:]: count for term, count in analyse(text).items() if term[0] == COMPOUND})


def grams(text: str) -> Counter[str]:
    """Return the other terms: words, characters and pairs."""
    return Counter({term: count for term, count in analyse(text).items() if term[0] != COMPOUND})


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Running runs RUN", {"run": 3}),
        ("She is at the store", {"store": 1}),
        ("I don't, you can't, we'll", {}),
        ("Caroline's adoption agencies", {"carolin": 1, "adopt": 1, "agenc": 1}),
        ("café naïve Zoë", {"cafe": 1, "naiv": 1, "zoe": 1}),
        ("on 2023-05-07 at 1,000,000", {"2023": 1, "5": 1, "7": 1, "1000000": 1}),
        ("on the 19th", {"19th": 1, "19": 1}),
        ("iPhone15 and 5km", {"iphone15": 1, "iphon": 1, "15": 1, "5km": 1, "5": 1, "km": 1}),
        ("getUserById in ArgoCD", {"getuserbyid": 1, "user": 1, "id": 1, "argocd": 1}),
        ("snake_case_name", {"snake": 1, "case": 1, "name": 1}),
        ("ＡＢＣ　１２３", {"abc": 1, "123": 1}),
        ("0 000", {"0": 2}),
        ("", {}),
        ("🎉 … !?", {}),
    ],
)
def test_analyse_stems_latin_words_and_keeps_numbers(text: str, terms: dict[str, int]) -> None:
    assert analyse(text) == terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("東京", {"東": 1, "京": 1, "東京": 1}),
        ("東京の大学", {"東": 1, "京": 1, "東京": 1, "大": 1, "学": 1, "大学": 1}),
        ("猫を買った", {"猫": 1, "買": 1, "買っ": 1}),
        ("渡邊と髙﨑", {"渡": 1, "辺": 1, "渡辺": 1, "高": 1, "崎": 1, "高崎": 1}),
        ("食べ物", {"食": 1, "物": 1, "食べ": 1}),
        ("データ", {"デー": 1, "ータ": 1}),
        ("ﾃﾞｰﾀ", {"デー": 1, "ータ": 1}),
        ("さくら", {"さく": 1, "くら": 1}),
        ("5月7日", {"5": 1, "月": 1, "7": 1, "日": 1}),
        ("５月", {"5": 1, "月": 1}),
        ("Pythonを使う", {"python": 1, "使": 1, "使う": 1}),
        ("人々", {"人": 1, "々": 1, "人々": 1}),
        ("한국어", {"한": 1, "국": 1, "어": 1, "한국": 1, "국어": 1}),
        ("株式会社", {"株": 1, "式": 1, "会": 1, "社": 1, "株式": 1, "式会": 1, "会社": 1}),
    ],
)
def test_analyse_takes_unspaced_text_apart(text: str, terms: dict[str, int]) -> None:
    assert grams(text) == terms


@pytest.mark.parametrize("text", ["です", "ました", "それは、です。", "を", "のに", "は", "という", "a the of", "ー"])
def test_analyse_leaves_nothing_of_stop_words_and_particles(text: str) -> None:
    assert not analyse(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("サーバー", "サーバ"),
        ("コンピューターです", "コンピュータです"),
        ("ガギグ", "ｶﾞｷﾞｸﾞ"),
        ("①", "1"),
        ("㈱", "(株)"),
        ("Straße", "STRASSE"),
        ("cafe\u0301", "café"),
        ("co\u00adoperate", "cooperate"),
        ("zero\u200bwidth", "zerowidth"),
        ("葛\U000e0100城", "葛城"),
        ("don’t panic", "don't panic"),
    ],
)
def test_analyse_makes_spellings_of_one_word_equal(one: str, other: str) -> None:
    assert analyse(one) == analyse(other)


def test_analyse_keeps_the_long_sound_inside_a_word() -> None:
    assert analyse("ビール") != analyse("ビル")
    assert "ーメ" in analyse("ラーメン")


def test_analyse_keeps_vowel_signs_in_the_word() -> None:
    assert analyse("हिन्दी भाषा").total() == 2


def test_analyse_takes_mixed_text_apart_by_script() -> None:
    terms = analyse("GPT-4で東京のweatherを調べる")

    assert {"gpt", "4", "東京", "weather", "調べ"} <= terms.keys()


@given(any_text)
def test_analyse_takes_any_unicode(text: str) -> None:
    terms = analyse(text)

    assert all(count > 0 for count in terms.values())
    assert all(0 < len(term.removeprefix(COMPOUND)) <= MAX_WORD_CHARACTERS + 1 for term in terms)


@given(any_text)
def test_analyse_never_keeps_a_stop_term(text: str) -> None:
    assert not analyse(text).keys() & JAPANESE_STOP_GRAMS


@given(st.lists(st.sampled_from(sorted(ENGLISH_STOP_WORDS | {"には", "です"})), max_size=30))
def test_analyse_finds_nothing_in_stop_words_alone(words: list[str]) -> None:
    assert not analyse(" ".join(words))


@given(any_text)
def test_analyse_does_not_depend_on_normal_form(text: str) -> None:
    assert analyse(unicodedata.normalize("NFC", text)) == analyse(unicodedata.normalize("NFD", text))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "漢" * 1_000_000,
        "a" + "\u0301" * 500_000 + "\u0323" * 500_000,
        "ا" + "\u064b" * 300_000 + "\u0655" * 300_000,
        "1," * 500_000,
        "a1" * 500_000,
        "ー" * 1_000_000,
        "\ufdfa" * 300_000,
        "漢1" * 500_000,
        "ア漢" * 500_000,
        "5月" * 500_000,
        " ".join(f"w{number:x}q" for number in range(150_000)),
    ],
    ids=[
        "one word",
        "one run",
        "accents",
        "marks",
        "commas",
        "letters and digits",
        "long sounds",
        "ligatures",
        "kanji and digits",
        "katakana and kanji",
        "months",
        "words",
    ],
)
def test_analyse_takes_hostile_texts_of_a_megabyte(text: str) -> None:
    assert len(analyse(text)) < 50_000


@pytest.mark.parametrize("text", ["1" * 30_000 + " 漢", "漢 " + "1" * 30_000 + "a"], ids=["last", "first"])
def test_analyse_takes_a_long_number_beside_unspaced_text(text: str) -> None:
    """Where each digit is tried as the beginning of a counted thing, 30,000 of them take 5 s, 1 MB hours."""
    assert not time_problem(lambda: analyse(text), seconds=1)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("日本銀行", {"日本銀行": 1}),
        ("東京都と東京都", {"東京都": 2}),
        ("人々の森", {"人々": 1, "森": 1}),
        ("データベースを使う", {"データベース": 1, "使": 1}),
        ("ﾃﾞｰﾀﾍﾞｰｽ", {"データベース": 1}),
        ("サーバーとサーバ", {"サーバ": 2}),
        ("アは一文字", {"一文字": 1}),
        ("28条", {"28条": 1, "条": 1}),
        ("第28条", {"第28": 1, "28条": 1, "第": 1, "条": 1}),
        ("第０２８条", {"第28": 1, "28条": 1, "第": 1, "条": 1}),
        ("5月", {"5月": 1, "月": 1}),
        ("5月8日", {"5月": 1, "月8": 1, "8日": 1, "月": 1, "日": 1}),
        ("3つ", {"3つ": 1}),
        ("1,000円", {"1000円": 1, "円": 1}),
        ("000人", {"0人": 1, "人": 1}),
        ("5 月", {"月": 1}),
        ("さくらはきれい", {}),
        ("한국어", {}),
    ],
)
def test_analyse_keeps_what_is_one_expression_whole(text: str, whole: dict[str, int]) -> None:
    assert compounds(text) == whole


@pytest.mark.parametrize("letter", ["漢", "カ"])
def test_compounds_are_not_longer_than_an_expression(letter: str) -> None:
    longest = letter * MAX_COMPOUND_CHARACTERS

    assert compounds(longest) == {longest: 1}
    assert compounds(longest + letter) == {}


def test_compounds_are_not_the_pairs_of_the_same_letters() -> None:
    assert analyse("東京") == {"東": 1, "京": 1, "東京": 1, "#東京": 1}
    assert "#東京" not in analyse("東京都")


@pytest.mark.parametrize("text", ["28 articles", "#hashtag 5km", "Ünïcode №5", "", "हिन्दी 5"])
def test_text_of_spaced_scripts_has_no_compounds(text: str) -> None:
    assert not compounds(text)
    assert not is_unspaced(text)


@given(st.one_of(any_text, mixed_text))
def test_compounds_are_of_the_text(text: str) -> None:
    found = compounds(text)

    assert not found or is_unspaced(fold(text))
    without_zeros = fold(text).replace("0", "")
    assert all(term.replace("0", "") in without_zeros for term in found if len(term) <= MAX_COMPOUND_CHARACTERS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0.0),
        ("green tea garden", 3.0),
        ("tea tea tea", 3.0),
        ("東京", 0.75),
        ("日本銀行", 7 * 0.25),
        ("データベース", 5 * 0.25),
        ("green 東京", 1.75),
        ("5月", 1.25),
    ],
)
def test_length_counts_grams_as_a_quarter_and_compounds_not_at_all(text: str, words: float) -> None:
    assert GRAM_LENGTH == 0.25
    assert text_length(analyse(text)) == pytest.approx(words)


@given(any_text)
def test_length_is_that_of_the_text_without_its_compounds(text: str) -> None:
    assert text_length(analyse(text)) == pytest.approx(text_length(grams(text)))


def test_fold_bounds_runs_of_marks() -> None:
    assert len(fold("ا" + "\u064b" * 1_000)) <= 31


def test_analyse_is_the_same_in_every_thread() -> None:
    words = [f"{stem}{ending}" for stem in ("relat", "nation", "argu") for ending in ("ing", "ed", "ion", "al")]
    text = " ".join(f"{word}{number}x" for number in range(200) for word in words)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(analyse(text))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(terms == found[0] for terms in found)
    assert len(found) == 8


@given(st.text(st.characters(max_codepoint=127)))
def test_a_text_of_ascii_has_the_terms_that_it_has_beside_other_scripts(text: str) -> None:
    assert analyse(text) == analyse(f"{text} を")


def test_no_combining_mark_is_a_letter_or_a_digit() -> None:
    """By this runs of marks are looked for."""
    marks = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)).startswith("M")]
    assert not re.search(r"\w", "".join(marks))
