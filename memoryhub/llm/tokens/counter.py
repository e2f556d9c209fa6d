"""Estimate the tokens of a text for a given model, never silently too low; the o200k_base vocabulary is shipped.

tiktoken downloads its vocabularies at run time; an installation of memoryhub must count tokens with no network at all,
so `tiktoken.get_encoding` is never called here. How the data file was made is written down in
`docs/adr/0003-token-counting.md`. Raw counts of a text are cached and factors applied afterwards, so that new factors
(calibration) need no recount.
"""

import base64
import hashlib
import lzma
import math
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType

import tiktoken

from memoryhub.llm.tokens.factors import SCRIPTS, Factors, Script, factors_for, split_by_script

DATA_FILE = "data/o200k_base.tiktoken.xz"

# `expected_hash`, `pat_str` and `special_tokens` below are those of `o200k_base()` in
# `tiktoken_ext/openai_public.py`. They are written out because reading them there means calling a function
# that downloads; a test compares them with the installed package.
VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)
SPECIAL_TOKENS = {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}

_lock = threading.Lock()


class VocabularyCorrupt(Exception):
    """The shipped vocabulary file cannot be used; the installation is damaged."""


def o200k_base() -> tiktoken.Encoding:
    """Return the o200k_base encoding, built once per process (about 0.2 s) and shared by all threads.

    Raises VocabularyCorrupt when the file is missing, unreadable, or not the one tiktoken would download.
    """
    with _lock:  # `cache` alone would let two threads build it at the same time
        return _build()


@cache
def _build() -> tiktoken.Encoding:
    return tiktoken.Encoding(
        "o200k_base",
        pat_str=PATTERN,
        mergeable_ranks=parse_ranks(verified(read_compressed())),
        special_tokens=SPECIAL_TOKENS,
    )


def read_compressed() -> bytes:
    """Return the data file as it lies on disk. Raises VocabularyCorrupt when it cannot be read."""
    try:
        return files("memoryhub.llm.tokens").joinpath(DATA_FILE).read_bytes()
    except OSError as error:
        raise VocabularyCorrupt(
            f"The token vocabulary memoryhub/llm/tokens/{DATA_FILE} cannot be read. Install memoryhub again."
        ) from error


def verified(compressed: bytes) -> bytes:
    """Return the decompressed vocabulary. Raises VocabularyCorrupt unless its SHA-256 is tiktoken's own."""
    try:
        content = lzma.decompress(compressed)
    except lzma.LZMAError as error:
        message = f"memoryhub/llm/tokens/{DATA_FILE} is damaged. Install memoryhub again."
        raise VocabularyCorrupt(message) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != VOCABULARY_SHA256:
        raise VocabularyCorrupt(
            f"memoryhub/llm/tokens/{DATA_FILE} has SHA-256 {digest}, expected {VOCABULARY_SHA256}. "
            "Token counts would be wrong. Install memoryhub again."
        )
    return content


def parse_ranks(content: bytes) -> dict[bytes, int]:
    """Read lines of `base64(token) rank` into a mapping of token bytes to merge rank."""
    pairs = (line.split() for line in content.splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


# tiktoken's pattern holds one look-ahead, `\s+(?!\S)`, which its regex engine runs on a stack of a million
# steps: a run of 1,000,000 blanks panics (tiktoken 0.14: `PanicException: StackOverflow`, not an
# `Exception`). No other run of a million characters is slow or fails.
MAX_BLANK_RUN_CHARS = 8192
_long_blank_run = re.compile(rf"\s{{{MAX_BLANK_RUN_CHARS}}}")

# The cache holds at most 4,096 texts of 2,048 characters: 8 MB of ASCII, 33 MB at the very worst.
MAX_CACHED_TEXTS = 4096
MAX_CACHED_CHARS = 2048


def count_raw(text: str) -> int:
    """Return the number of o200k_base tokens of a text.

    Text that spells a special token (`<|endoftext|>`) counts as the ordinary text it is. A run of more than
    8,192 blanks is counted in parts, with one token more for each cut, so never too low.
    """
    return _count_cached(text) if len(text) <= MAX_CACHED_CHARS else _count(text)


def _count(text: str) -> int:
    encoding = o200k_base()
    pieces = list(_within_stack(text))
    return sum(len(encoding.encode_ordinary(piece)) for piece in pieces) + len(pieces) - 1


_count_cached = lru_cache(MAX_CACHED_TEXTS)(_count)


def _within_stack(text: str) -> Iterator[str]:
    start = 0
    for run in _long_blank_run.finditer(text):
        yield text[start : run.end()]
        start = run.end()
    yield text[start:]


@dataclass(frozen=True, slots=True)
class RawCounts:
    """o200k_base tokens of one text: as a whole, and of its pieces summed by script class."""

    whole: int
    by_script: Mapping[Script, int]


def raw_counts(text: str) -> RawCounts:
    """Count a text by script class; cached like `count_raw`."""
    return _raw_counts_cached(text) if len(text) <= MAX_CACHED_CHARS else _raw_counts(text)


def _raw_counts(text: str) -> RawCounts:
    pieces = split_by_script(text)
    by_script: dict[Script, int] = dict.fromkeys(SCRIPTS, 0)
    for script, piece in pieces:
        by_script[script] += _count(piece)
    whole = sum(by_script.values()) if len(pieces) <= 1 else _count(text)
    return RawCounts(whole, MappingProxyType(by_script))


_raw_counts_cached = lru_cache(MAX_CACHED_TEXTS)(_raw_counts)


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts tokens as one model is expected to."""

    factors: Factors

    def count(self, text: str) -> int:
        """Return the estimated tokens of a text: Σ over script classes of raw count × factor, rounded up.

        Cutting at script borders may merge fewer or, rarely, more bytes than the whole text would; the
        estimate therefore never falls below the whole text's count times the smallest factor.
        """
        if self.factors.is_uniform:
            return math.ceil(count_raw(text) * self.factors.smallest)
        return self.scaled(raw_counts(text))

    def scaled(self, raw: RawCounts) -> int:
        """Return the estimated tokens of a text that was counted already."""
        if self.factors.is_uniform:
            return math.ceil(raw.whole * self.factors.smallest)
        by_script = sum(count * self.factors.of(script) for script, count in raw.by_script.items())
        return math.ceil(max(by_script, raw.whole * self.factors.smallest))

    @property
    def message_overhead(self) -> int:
        return self.factors.per_message

    @property
    def request_overhead(self) -> int:
        return self.factors.per_request


def counter_for(model: str | None) -> TokenCounter:
    """Return the counter for a model name; None when no model is configured (then conservative)."""
    return TokenCounter(factors_for(model))
