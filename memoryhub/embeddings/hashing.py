"""The default provider: words and character n-grams, hashed. No key, no download, no network.

A text becomes a bag of features: its words, and character n-grams. Each feature is hashed to one of
`dimension` places and a sign (Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", 2009);
how often it occurs counts sublinearly (1 + ln tf); the vector is scaled to length 1. Japanese, which writes
no blanks between words, lives off uni- and bigrams; English off words and the n-grams that inflected forms
share.

What it is not: it knows no meaning. It finds texts that share words or parts of words, as the word search
does, so its `vector_weight` is low. Hashes are integer arithmetic on code points, so that every process and
machine makes the same vector (Python's own `hash` would not). What a figure below does, and how it was
chosen, is in `docs/reference/providers.md`.
"""

import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from memoryhub.embeddings.base import EmbeddingProvider, Vectors
from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.llm.errors import ProviderMisconfigured
from memoryhub.search.analysis import limit_combining_marks
from memoryhub.search.fusion import SpaceBounds

Hashes = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Weights = NDArray[np.float64]
Positions = NDArray[np.int64]
Item = TypeVar("Item", bound=np.generic)

DEFAULT_DIMENSION = 384
MIN_DIMENSION = 64
"""Below this so many features share a place that vectors tell little."""
MAX_CHARS_PER_TEXT = 100_000
"""A longer text is represented by its beginning."""
MAX_CHARS_PER_PASS = 200_000
MAX_TEXTS_PER_PASS = 4096
"""These two bound the memory of one pass to roughly 150 MB at the default dimension."""

WORD_WEIGHT = 1.0
NGRAM_WEIGHTS = {3: 0.5, 4: 0.5}
"""Within a word and the blank on either side of it."""
CJK_NGRAM_WEIGHTS = {1: 0.3, 2: 1.0}
"""Within a run of Chinese, Japanese or Korean characters."""
HIRAGANA_FACTOR = 0.5
"""For an n-gram of hiragana only, which is mostly grammar; one half hiragana gets its square root."""
STOP_WORD_FACTOR = 0.2
_STOP_WORDS_TEXT = """
    a about after all also am an and any are as at be because been before being but by can could did do
    does doing don down for from further get go going got had has have having he her here hers him his how
    i if in into is it its itself just know let like ll m me more most my no nor not now of off oh on once
    one only or other our out over own re really s same she should so some such t than that the their them
    then there these they this those through to too under until up us ve very was we well were what when
    where which while who whom why will with would yeah yes you your yours
"""
STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())

# Character classes. Anything that is not a letter, mark, number or symbol is a separator.
SEPARATOR, WORD, CJK, HIRAGANA = range(4)
_CLASSIFIED = 0x32400
"""No letter is assigned above the third ideographic plane's blocks (Unicode 16)."""

# Odd multiplier of the polynomial hash (2^64 / golden ratio), and a salt per kind of feature.
_BASE = np.uint64(0x9E3779B97F4A7C15)
_WORD_SALT, _NGRAM_SALT, _CJK_SALT = 1, 1_000, 2_000
_BOUNDARY = np.uint64(7)
_OWNER_SHIFT = np.uint64(44)
_HASH_BITS = np.uint64((1 << 44) - 1)


class HashingProvider(EmbeddingProvider):
    name: ClassVar[str] = "hashing"
    is_local: ClassVar[bool] = True
    # Measured on English dialogue and Japanese articles: see docs/reference/providers.md.
    bounds = SpaceBounds(cosine_low=0.3, cosine_high=0.8, vector_weight=0.2)

    def __init__(self, dimension: int = DEFAULT_DIMENSION) -> None:
        if dimension < MIN_DIMENSION:
            raise ProviderMisconfigured(
                f"MEMORYHUB_EMBEDDING_DIMENSION is {dimension}; 'hashing' needs at least {MIN_DIMENSION}.",
                code="wrong_dimension",
            )
        self.model = "ngrams-1"  # increment on any change of a text's vector
        self._dimension = dimension

    @classmethod
    def from_config(cls, config: EmbeddingConfig) -> Self:
        return cls(config.dimension or DEFAULT_DIMENSION)

    @property
    def dimension(self) -> int:
        return self._dimension

    def _embed(self, texts: Sequence[str]) -> Vectors:
        return np.vstack([_vectors(batch, self._dimension) for batch in _passes(texts)])


def _passes(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    chars = 0
    for text in map(normalized, texts):
        if batch and (chars + len(text) > MAX_CHARS_PER_PASS or len(batch) == MAX_TEXTS_PER_PASS):
            yield batch
            batch, chars = [], 0
        batch.append(text)
        chars += len(text)
    yield batch


def normalized(text: str) -> str:
    """Return the beginning of a text, full-width and ligature forms resolved (NFKC), case folded."""
    folded = unicodedata.normalize("NFKC", limit_combining_marks(text[:MAX_CHARS_PER_TEXT])).casefold()
    return folded[:MAX_CHARS_PER_TEXT]


def _vectors(texts: list[str], dimension: int) -> Vectors:
    owner, hashes, counts = _count_features(_features(_Characters.of(texts)))
    values = counts * np.where(hashes >> np.uint64(43), 1.0, -1.0)
    places = owner * dimension + (_mix(hashes) % np.uint64(dimension)).astype(np.int64)
    flat = np.bincount(places, weights=values, minlength=len(texts) * dimension)
    vectors = flat.reshape(len(texts), dimension)
    for row in np.flatnonzero(~vectors.any(axis=1)):  # punctuation only, or every feature cancelled out
        vectors[row, zlib.crc32(texts[row].encode("utf-8", "replace")) % dimension] = 1.0
    return vectors.astype(np.float32)


@dataclass(frozen=True, slots=True)
class _Characters:
    """Many texts as one row of characters, with a separator before, between and after them."""

    codes: Hashes
    """Mixed code points, good enough to be coefficients of a polynomial hash."""
    classes: NDArray[np.uint8]
    owner: Positions
    """Index of the text that a character belongs to."""

    @classmethod
    def of(cls, texts: list[str]) -> Self:
        joined = f" {' '.join(texts)} "
        points = np.frombuffer(joined.encode("utf-32-le", "replace"), dtype=np.uint32)
        lengths = [len(text) + 1 for text in texts]
        owner = np.concatenate([np.zeros(1, np.int64), np.repeat(np.arange(len(texts)), lengths)])
        classes = _character_classes()[np.minimum(points, _CLASSIFIED - 1)]
        return cls(_mix(points.astype(np.uint64) + np.uint64(1)), classes, owner)


@dataclass(frozen=True, slots=True)
class _Features:
    owner: Positions
    hashes: Hashes
    weights: Weights


def _features(characters: _Characters) -> _Features:
    words, stopped = _words(characters)
    kinds = [words]
    kinds += [_ngrams(characters, stopped, size, weight) for size, weight in NGRAM_WEIGHTS.items()]
    kinds += [_cjk_ngrams(characters, size, weight) for size, weight in CJK_NGRAM_WEIGHTS.items()]
    return _Features(
        np.concatenate([kind.owner for kind in kinds]),
        np.concatenate([kind.hashes for kind in kinds]),
        np.concatenate([kind.weights for kind in kinds]),
    )


def _count_features(features: _Features) -> tuple[Positions, Hashes, Weights]:
    """Fold repeated features of a text into one: (owner, 44 bits of hash, weight × (1 + ln tf))."""
    keys = (features.owner.astype(np.uint64) << _OWNER_SHIFT) | (features.hashes >> np.uint64(20))
    keys, first, counts = np.unique(keys, return_index=True, return_counts=True)
    values = features.weights[first] * (1.0 + np.log(counts))
    return (keys >> _OWNER_SHIFT).astype(np.int64), keys & _HASH_BITS, values


def _words(characters: _Characters) -> tuple[_Features, Flags]:
    """Return one feature for each word, and which characters belong to stop words."""
    inside = characters.classes == WORD
    edges = np.diff(np.concatenate([[0], inside.astype(np.int8), [0]]))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    hashes = _word_hashes(characters.codes[inside], ends - starts)
    is_stop = np.isin(hashes, _stop_word_hashes())
    stopped = np.zeros(len(inside), dtype=np.bool_)
    stopped[inside] = np.repeat(is_stop, ends - starts)
    weights = WORD_WEIGHT * np.where(is_stop, STOP_WORD_FACTOR, 1.0)
    return _Features(characters.owner[starts], hashes, weights), stopped


def _word_hashes(codes: Hashes, lengths: Positions) -> Hashes:
    """Hash consecutive runs of the given lengths: Σ code × base^position, mixed."""
    if not len(lengths):
        return np.zeros(0, dtype=np.uint64)
    powers = np.cumprod(np.full(int(lengths.max()), _BASE, dtype=np.uint64))
    offsets = np.cumsum(lengths) - lengths
    position = np.arange(len(codes)) - np.repeat(offsets, lengths)
    return _salt(np.add.reduceat(codes * powers[position], offsets), _WORD_SALT)


@cache
def _stop_word_hashes() -> Hashes:
    words = sorted(STOP_WORDS)
    points = np.array([ord(character) for character in "".join(words)], dtype=np.uint64)
    return _word_hashes(_mix(points + np.uint64(1)), np.array([len(word) for word in words]))


def _ngrams(characters: _Characters, stopped: Flags, size: int, weight: float) -> _Features:
    """Return the n-grams of words; the first and the last character may be a word's border."""
    inside = characters.classes == WORD
    codes = np.where(inside, characters.codes, _BOUNDARY)
    starts = np.flatnonzero(np.logical_and.reduce(_windows(inside, size).T[1:-1]))
    hashes = _salt(_polynomial(codes, size)[starts], _NGRAM_SALT + size)
    is_stop = stopped[starts] | stopped[starts + 1]
    return _Features(characters.owner[starts + 1], hashes, weight * np.where(is_stop, STOP_WORD_FACTOR, 1.0))


def _cjk_ngrams(characters: _Characters, size: int, weight: float) -> _Features:
    """Return the n-grams of runs without blanks, those of hiragana weighted down."""
    windows = _windows(characters.classes, size)
    starts = np.flatnonzero(np.logical_and.reduce(_windows(characters.classes >= CJK, size).T))
    hiragana = (windows[starts] == HIRAGANA).mean(axis=1)
    hashes = _salt(_polynomial(characters.codes, size)[starts], _CJK_SALT + size)
    return _Features(characters.owner[starts], hashes, weight * HIRAGANA_FACTOR**hiragana)


def _windows(row: NDArray[Item], size: int) -> NDArray[Item]:
    padded = np.concatenate([row, np.zeros(max(0, size - len(row)), dtype=row.dtype)])
    return np.lib.stride_tricks.sliding_window_view(padded, size)


def _polynomial(codes: Hashes, size: int) -> Hashes:
    hashes = np.zeros(max(1, len(codes) - size + 1), dtype=np.uint64)
    for column in _windows(codes, size).T:
        hashes = hashes * _BASE + column
    return hashes


def _salt(hashes: Hashes, salt: int) -> Hashes:
    return _mix(hashes ^ np.uint64(salt))


def _mix(values: Hashes) -> Hashes:
    """Spread 64 bits over 64 bits: the finalizer of SplitMix64 (Steele, Lea, Flood, 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


@cache
def _character_classes() -> NDArray[np.uint8]:
    """Return the class of every code point that can be a letter (about 50 ms, once per process)."""
    categories = (unicodedata.category(chr(point)) for point in range(_CLASSIFIED))
    classes = np.fromiter((WORD if category[0] in "LMN" else SEPARATOR for category in categories), np.uint8)
    letters = classes == WORD
    for first, last in _CJK_BLOCKS:
        classes[first:last][letters[first:last]] = CJK
    classes[0x3041:0x30A0][letters[0x3041:0x30A0]] = HIRAGANA
    classes[0x2600:0x2800] = classes[0x1F300:0x1FB00] = CJK  # symbols and emoji: each is a separate word
    return classes


# Ideographic marks 々〆〇, katakana with its length mark, ideographs, Hangul, and anything beyond the BMP.
_CJK_BLOCKS = (
    (0x3005, 0x3008),
    (0x30A0, 0x3100),
    (0x3400, 0xA000),
    (0xAC00, 0xD7B0),
    (0xF900, 0xFB00),
    (0x20000, _CLASSIFIED),
)
