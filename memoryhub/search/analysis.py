"""Turn text into the terms that search by words compares. Pure: no Django, no database, no idf.

Words of scripts that are written with spaces are folded and stemmed; runs of Chinese, Japanese, Korean and South-East
Asian text, where no space says where a word ends, become characters and pairs of characters, and expressions that can
be recognised from the letters alone (a run of kanji, a katakana word, a number with its counter) are terms of their
own besides. Compared for the design, pairs found as much as a morphological analyser in a tenth of the time.

The stop word lists are short on purpose: a term that is merely common is already made light by its idf.

The work is linear in the text, whatever the text: see `bounded_marks` and `MAX_DISTINCT_WORDS`.
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

ENGLISH_STOP_WORDS: Final = frozenset(_ENGLISH.split())
JAPANESE_STOP_GRAMS: Final = frozenset(_JAPANESE.split())
JAPANESE_PARTICLES: Final = frozenset("はがをにのでともへやかねよなだ")

MAX_WORD_CHARACTERS: Final = 64
"""Longer words are keys or encoded bytes; their beginning identifies them well enough."""

COMPOUND: Final = "#"
"""What the terms of compounds begin with: 「#東京都」 the expression is not 「東京」 the pair of characters."""

MAX_COMPOUND_CHARACTERS: Final = 16
"""A longer run of kanji is a clause of Chinese, which nobody writes twice."""

MAX_DISTINCT_WORDS: Final = 4_000
"""Stemming costs 20 µs a word; a page has some hundreds, and a document keeps 1,000 terms anyway."""

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
_HIRAGANA: Final = "\u3041-\u3096\u309d\u309e"
KATAKANA: Final = "\u30a1-\u30fa\u30fc-\u30fe\u31f0-\u31ff"
HAN: Final = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HANGUL: Final = "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3"
_SOUTH_EAST: Final = "\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3"
UNSPACED: Final = _HIRAGANA + KATAKANA + HAN + _HANGUL + _SOUTH_EAST

_LONG_MARK_RUN: Final = re.compile(f"([{_MARKS}]{{30}})[{_MARKS}]+")
_LONG_RUN_OF_OTHERS: Final = re.compile(r"\W{31}")
"""Neither letters nor digits, as all marks are; found in a twentieth of the time."""
_ACCENT: Final = re.compile("[\u0300-\u036f]+")
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]+")
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_FINAL_LONG_SOUND: Final = re.compile(f"(?<=[{KATAKANA}]{{2}})ー(?![{KATAKANA}])")
# Where an ASCII character ends a word, hundreds of ranges of marks need not be compared.
_RUN: Final = re.compile(f"([{UNSPACED}]+)|((?:[a-z0-9]++|(?![\\x00-\\x7f])(?:[^\\W_{UNSPACED}]|[{_MARKS}]))+)")
_ASCII_WORD: Final = re.compile("[a-z0-9]+")
_EXPRESSION: Final = re.compile(f"[{KATAKANA}]{{2,}}|[{HAN}]+")
_COUNTED: Final = re.compile(f"(?=\\d)(?<!\\d)(\\d++)([{UNSPACED}])")
_NUMBERED: Final = re.compile(f"([{UNSPACED}])(\\d+)")
_IS_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
_LETTERS_AND_DIGITS: Final = re.compile(r"([^\W\d_]+)(\d+)|(\d+)([^\W\d_]+)")
_IS_HIRAGANA: Final = re.compile(f"[{_HIRAGANA}]+")
_IS_HANGUL_OR_HAN: Final = re.compile(f"[{HAN}{_HANGUL}]+")

_stemmers = threading.local()


def analyse(text: str) -> Counter[str]:
    """Return the terms of a document and how often each occurs; stop words are not among them."""
    folded = fold(text)
    if folded.isascii():  # one look-up a character, where those of all scripts take twenty
        return _stemmed([word[:MAX_WORD_CHARACTERS] for word in _ASCII_WORD.findall(folded)])
    words: list[str] = []
    grams: list[str] = []
    for run, word in _RUN.findall(folded):
        if word:
            words.append(word[:MAX_WORD_CHARACTERS])
        else:
            grams += run
            grams += map("".join, pairwise(run))
    terms = _stemmed(words)
    if grams:
        terms.update(_meaningful(Counter(grams)))
        terms.update(_compounds(folded))
    return terms


def is_unspaced(text: str) -> bool:
    """Say whether a script without spaces occurs in the text."""
    return bool(_IS_UNSPACED.search(text))


def fold(text: str) -> str:
    """Return the text with widths, cases, accents and invisible characters made equal."""
    if text.isascii():  # has but cases
        return _without_thousands(text.casefold())
    bare = _INVISIBLE.sub("", _ACCENT.sub("", text))
    decomposed = unicodedata.normalize("NFKD", bounded_marks(bare))
    folded = unicodedata.normalize("NFKC", _ACCENT.sub("", decomposed)).casefold()
    return _FINAL_LONG_SOUND.sub("", _without_thousands(folded))


def _without_thousands(text: str) -> str:
    return _THOUSANDS.sub("", text) if "," in text else text


def bounded_marks(text: str) -> str:
    """Return the text with at most 30 combining marks in a row, as UAX #15's stream-safe format has it.

    Normalisation sorts a run of marks by insertion: 80,000 marks in a row take 6 s, 1 MB many minutes.
    """
    return _LONG_MARK_RUN.sub(r"\1", text) if _LONG_RUN_OF_OTHERS.search(text) else text


def _stemmed(words: list[str]) -> Counter[str]:
    if len(words) > MAX_DISTINCT_WORDS:
        kept = {word for word, _count in Counter(words).most_common(MAX_DISTINCT_WORDS)}
        words = [word for word in words if word in kept]
    return Counter(chain.from_iterable(map(_terms, words)))


@lru_cache(maxsize=20_000)
def _terms(word: str) -> tuple[str, ...]:
    """Return the terms of a word: its stem, and those of its letters and its digits where it has both."""
    return tuple(_term(part) for part in _parts(word) if part not in ENGLISH_STOP_WORDS)


def _parts(word: str) -> Iterator[str]:
    yield word
    if match := _LETTERS_AND_DIGITS.fullmatch(word):
        yield from (part for part in match.groups() if part)


def _term(word: str) -> str:
    """Return the word's stem; a number without leading zeros, so that 05 is the 5 of a date."""
    if word.isdecimal():
        return _number(word)
    return str(_stemmer().stemWord(word))


def _stemmer() -> "snowballstemmer.stemmer":
    """Return this thread's stemmer: a stemmer keeps the word it works on in itself."""
    if not hasattr(_stemmers, "english"):
        _stemmers.english = snowballstemmer.stemmer("english")
    return _stemmers.english


def _compounds(folded: str) -> Counter[str]:
    """Return what is one expression by its letters: 日本銀行, データベース, 28条 and 第28."""
    if not is_unspaced(folded):
        return Counter()
    found = Counter(run for run in _EXPRESSION.findall(folded) if len(run) <= MAX_COMPOUND_CHARACTERS)
    found.update(f"{_number(digits)}{counter}" for digits, counter in _COUNTED.findall(folded))
    found.update(f"{before}{_number(digits)}" for before, digits in _NUMBERED.findall(folded))
    return Counter({f"{COMPOUND}{term}": count for term, count in found.items()})


def _number(digits: str) -> str:
    return digits[:MAX_WORD_CHARACTERS].lstrip("0") or "0"


def _meaningful(grams: Counter[str]) -> Counter[str]:
    return Counter({gram: count for gram, count in grams.items() if _means_something(gram)})


@lru_cache(maxsize=50_000)
def _means_something(gram: str) -> bool:
    """Say whether a character or a pair stands for anything.

    One character does where it is a word's root (kanji, hangul), not where it is a sound (kana). A pair
    does unless it is of particles and endings only, or reaches over the edge of a word: 「を買」「人の」.
    """
    if len(gram) == 1:
        return bool(_IS_HANGUL_OR_HAN.fullmatch(gram))
    if gram in JAPANESE_STOP_GRAMS or gram[1] == "を" or gram[0] == "を":
        return False
    first_is_hiragana, second_is_hiragana = map(bool, map(_IS_HIRAGANA.fullmatch, gram))
    if first_is_hiragana and not second_is_hiragana:
        return False
    return first_is_hiragana or not second_is_hiragana or gram[1] not in JAPANESE_PARTICLES
