"""Tokenise text into index terms. Pure: no Django, no database, no idf.

Words of scripts with spaces are folded and stemmed; runs of Chinese, Japanese, Korean and South-East Asian text become
unigrams and bigrams, and compounds that the characters alone reveal (a run of kanji, a katakana word, a number with its
counter) become terms too. Measured, bigrams found as much as a morphological analyser in a tenth of the time.

The stop word lists are short: idf gives common terms a low weight anyway.

Time is linear in the length of any text: see `limit_combining_marks` and `MAX_DISTINCT_WORDS`.
"""

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, pairwise
from typing import Final

import snowballstemmer

_ENGLISH: Final = """
a about after again against all also am an and any are aren as at be because been before being
below between both but by can cannot could couldn d did didn do does doesn doing don down during
each even ever few for from further get gets getting go goes going gonna got had hadn has hasn have
haven having he hello her here hers herself hey hi him himself his how i if im in into is isn it its
itself ive just let ll like m make me might more most much must my myself no nor not now of off oh ok
okay on once one only or other our ours ourselves out over own please re really s same shall she
should shouldn so some such t tell than thank thanks that the their theirs them themselves then
there these they this those through to too under until up us ve very want was wasn we well were
weren what when where which while who whom whose why will with won would wouldn yeah yes yet you
your yours yourself yourselves
"""

_JAPANESE: Final = """
です ます でし まし した ませ せん だっ った たら たり って てい いる いた いま ある あっ あり おり
れる られ れた れて せる せた させ する すれ しま して しな しよ しょ ょう よう うに うな うだ うか
とい いう いっ いい うこ こと とが とを とは との とも にも には にお おい いて ての ては ても てき
てく くれ での では でも であ から らの らは らに まで など どの どを どが だけ より りも また まだ
もの もう もし のは のが のを のに ので のだ のよ のか んだ んで んな ない なく なか なっ なる なり
なら なん なに なぜ それ そし その そう そこ この これ ここ こう こん あの あれ どれ どん どう どこ
いつ だれ ため たい たく たち かっ かも かし しか しれ れな かな よね とし にな にし にと とな ほど
ずに くだ ださ さい えて けど れど けれ がら なが ると たと きた きて くる くて てる てた れま りま
きま いで すか すが すよ すね ござ ざい んは さん くん ちゃ ゃん はい いえ ええ うん えー あー
れは れが れを れに れも れと れで こは こが こに こで こも こへ のも とか
"""

_VARIANTS: Final = """
邊辺 邉辺 齋斎 齊斉 澤沢 髙高 﨑崎 嵜崎 濵浜 濱浜 廣広 櫻桜 國国 學学 會会 圓円 龍竜 瀧滝 眞真 惠恵 藝芸
關関 黑黒 嶋島 嶌島 榮栄 壽寿 條条 傳伝 靜静 增増 德徳 淺浅 萬万 與与 豐豊 縣県 鐵鉄 體体 氣気 舊旧 應応
來来 禮礼 彌弥 遙遥 凜凛 亞亜 寶宝 實実 晝昼 醫医 圖図 樂楽 藥薬 聰聡 稻稲 顯顕 曉暁 曾曽 槇槙 莊荘 讓譲
峯峰 渕淵 舘館 桒桑 𠮷吉 栁柳 彥彦 靑青 敎教 緖緒 驛駅 戶戸 步歩 每毎 橫横 淸清 瀨瀬 燒焼 總総 邨村
"""
_VARIANT_KANJI: Final = str.maketrans({pair[0]: pair[1] for pair in _VARIANTS.split()})
"""Older and other forms of kanji, which names have: 渡邊 is 渡辺."""

ENGLISH_STOP_WORDS: Final = frozenset(_ENGLISH.split())
JAPANESE_STOP_GRAMS: Final = frozenset(_JAPANESE.split())
JAPANESE_PARTICLES: Final = frozenset("はがをにのでともへやかねよなだ")

MAX_WORD_CHARACTERS: Final = 64
"""Longer words are keys or encoded bytes; a prefix identifies them."""

ORDINAL_ENDINGS: Final = frozenset({"st", "nd", "rd", "th"})
"""Of numbers such as 19th, which is not "th"."""

COMPOUND: Final = "#"
"""Prefix of compound terms: the compound 「#東京」 differs from the bigram 「東京」."""

MAX_COMPOUND_CHARACTERS: Final = 16
"""A longer run of kanji is a Chinese clause, which hardly recurs."""

MAX_DISTINCT_WORDS: Final = 4_000
"""Stemming takes 20 µs a word; a page has some hundreds, and the index keeps 1,000 terms of a document."""

_MARK_CODES = [code for code in range(0x300, 0x1F000) if unicodedata.category(chr(code)).startswith("M")]


def _as_ranges(codes: list[int]) -> str:
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


_MARKS: Final = _as_ranges(_MARK_CODES)
HIRAGANA: Final = "\u3041-\u3096\u309d\u309e"
KATAKANA: Final = "\u30a1-\u30fa\u30fc-\u30fe\u31f0-\u31ff"
HAN: Final = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HANGUL: Final = "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3"
_SOUTH_EAST: Final = "\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3"
UNSPACED: Final = HIRAGANA + KATAKANA + HAN + _HANGUL + _SOUTH_EAST

_LONG_MARK_RUN: Final = re.compile(f"([{_MARKS}]{{30}})[{_MARKS}]+")
_LONG_RUN_OF_NON_WORD: Final = re.compile(r"\W{31}")
"""Necessary condition of a long run of marks, found in a twentieth of the time."""
_ACCENT: Final = re.compile("[\u0300-\u036f]+")
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]+")
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_FINAL_LONG_SOUND: Final = re.compile(f"(?<=[{KATAKANA}]{{2}})ー(?![{KATAKANA}])")
# The look-ahead skips hundreds of ranges of marks for ASCII characters.
_RUN: Final = re.compile(f"([{UNSPACED}]+)|((?:[a-z0-9]++|(?![\\x00-\\x7f])(?:[^\\W_{UNSPACED}]|[{_MARKS}]))+)")
_ASCII_WORD: Final = re.compile("[a-z0-9]+")
_COMPOUND: Final = re.compile(f"[{KATAKANA}]{{2,}}|[{HAN}]+")
_NUMBER_BEFORE_COUNTER: Final = re.compile(f"(?=\\d)(?<!\\d)(\\d++)([{UNSPACED}])")
_NUMBER_AFTER_PREFIX: Final = re.compile(f"([{UNSPACED}])(\\d+)")
_IS_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
_LETTERS_AND_DIGITS: Final = re.compile(r"([^\W\d_]+)(\d+)|(\d+)([^\W\d_]+)")
_MIXED_CASE: Final = re.compile("[a-z][A-Z]")
_LETTERS: Final = re.compile("[A-Za-z]+")
_CASE_PART: Final = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_IS_HIRAGANA: Final = re.compile(f"[{HIRAGANA}]+")
_IS_HANGUL_OR_HAN: Final = re.compile(f"[{HAN}{_HANGUL}]+")

_stemmers = threading.local()


def analyse(text: str, *, as_written: bool = False) -> Counter[str]:
    """Return the terms of a text with their counts, without stop words; `as_written` keeps variants of kanji apart."""
    plain = _plain(text)
    folded, words = _folded(plain), _case_parts(plain)
    if not as_written and not folded.isascii():
        folded = folded.translate(_VARIANT_KANJI)
    if folded.isascii():  # a twentieth of the look-ups
        return _word_terms([*words, *(word[:MAX_WORD_CHARACTERS] for word in _ASCII_WORD.findall(folded))])
    grams: list[str] = []
    for run, word in _RUN.findall(folded):
        if word:
            words.append(word[:MAX_WORD_CHARACTERS])
        else:
            grams += run
            grams += map("".join, pairwise(run))
    terms = _word_terms(words)
    if grams:
        terms.update({gram: count for gram, count in Counter(grams).items() if _is_content_gram(gram)})
        terms.update(_compounds(folded))
    return terms


def _case_parts(text: str) -> list[str]:
    """Return the parts of words of three or more, as getUserById; those of DuckDB and MariaDB are too general."""
    if not _MIXED_CASE.search(text):
        return []
    mixed = (word for word in _LETTERS.findall(text) if len(word) <= MAX_WORD_CHARACTERS and _MIXED_CASE.search(word))
    parts = [_CASE_PART.findall(word) for word in mixed]
    return [part.casefold() for each in parts if len(each) > 2 for part in each if len(part) > 1]


def is_unspaced(text: str) -> bool:
    """Return whether the text has characters of a script without spaces."""
    return bool(_IS_UNSPACED.search(text))


def fold(text: str) -> str:
    """Normalise widths, cases, accents, thousands separators and invisible characters.

    Not variants of kanji: searches find one by the other, but a name that is spelt anew is no repetition.
    """
    return _folded(_plain(text))


def _plain(text: str) -> str:
    """Return the text without accents and invisible characters, in normal form."""
    if text.isascii():
        return text
    bare = _INVISIBLE.sub("", _ACCENT.sub("", text))
    decomposed = unicodedata.normalize("NFKD", limit_combining_marks(bare))
    return unicodedata.normalize("NFKC", _ACCENT.sub("", decomposed))


def _folded(plain: str) -> str:
    folded = _without_thousands(plain.casefold())
    return folded if plain.isascii() else _FINAL_LONG_SOUND.sub("", folded)


def _without_thousands(text: str) -> str:
    return _THOUSANDS.sub("", text) if "," in text else text


def limit_combining_marks(text: str) -> str:
    """Limit runs of combining marks to 30, as UAX #15's stream-safe text format.

    Normalisation sorts a run of marks in quadratic time: 80,000 marks in a row take 6 s, 1 MB many minutes.
    """
    return _LONG_MARK_RUN.sub(r"\1", text) if _LONG_RUN_OF_NON_WORD.search(text) else text


def _word_terms(words: list[str]) -> Counter[str]:
    if len(words) > MAX_DISTINCT_WORDS:
        kept = {word for word, _count in Counter(words).most_common(MAX_DISTINCT_WORDS)}
        words = [word for word in words if word in kept]
    return Counter(chain.from_iterable(map(_terms, words)))


@lru_cache(maxsize=20_000)
def _terms(word: str) -> tuple[str, ...]:
    """Return the stem of a word, and those of its letters and digits if it has both; no stop words."""
    return tuple(_term(part) for part in _parts(word) if part not in ENGLISH_STOP_WORDS)


def _parts(word: str) -> Iterator[str]:
    yield word
    if match := _LETTERS_AND_DIGITS.fullmatch(word):
        yield from (part for part in match.groups() if part and part not in ORDINAL_ENDINGS)


def _term(word: str) -> str:
    """Return the word's stem; a number without leading zeros, so that the 05 of a date matches 5."""
    if word.isdecimal():
        return _number(word)
    return str(_stemmer().stemWord(word))


def _stemmer() -> "snowballstemmer.stemmer":
    """Return this thread's stemmer; stemmers are stateful."""
    if not hasattr(_stemmers, "english"):
        _stemmers.english = snowballstemmer.stemmer("english")
    return _stemmers.english


def _compounds(folded: str) -> Counter[str]:
    """Return compounds such as 日本銀行, データベース, 28条 and 第28, with their counts."""
    if not is_unspaced(folded):
        return Counter()
    found = Counter(run for run in _COMPOUND.findall(folded) if len(run) <= MAX_COMPOUND_CHARACTERS)
    found.update(f"{_number(digits)}{counter}" for digits, counter in _NUMBER_BEFORE_COUNTER.findall(folded))
    found.update(f"{before}{_number(digits)}" for before, digits in _NUMBER_AFTER_PREFIX.findall(folded))
    return Counter({f"{COMPOUND}{term}": count for term, count in found.items()})


def _number(digits: str) -> str:
    return digits[:MAX_WORD_CHARACTERS].lstrip("0") or "0"


@lru_cache(maxsize=50_000)
def _is_content_gram(gram: str) -> bool:
    """Return whether a unigram or bigram is an index term.

    Unigrams are if they are roots of words (kanji, hangul), not sounds (kana). Bigrams are unless they consist of
    particles and endings, or cross the edge of a word: 「を買」「人の」.
    """
    if len(gram) == 1:
        return bool(_IS_HANGUL_OR_HAN.fullmatch(gram))
    if gram in JAPANESE_STOP_GRAMS or gram[1] == "を" or gram[0] == "を":
        return False
    first_is_hiragana, second_is_hiragana = map(bool, map(_IS_HIRAGANA.fullmatch, gram))
    if first_is_hiragana and not second_is_hiragana:
        return False
    return first_is_hiragana or not second_is_hiragana or gram[1] not in JAPANESE_PARTICLES
