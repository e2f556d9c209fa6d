"""Estimate what a text costs in tokens of a given model, never silently too low.

Pure but for the shipped vocabulary: no network, no clock. A text's raw counts are cached, factors are
applied afterwards, so that new factors (calibration) need no recount.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from memoryhub.tokens.factors import Factors, factors_for
from memoryhub.tokens.scripts import SCRIPTS, Script, split_by_script
from memoryhub.tokens.vocabulary import o200k_base

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
        """Tokens to add for each message (role and delimiters)."""
        return self.factors.per_message

    @property
    def request_overhead(self) -> int:
        """Tokens to add once for each request."""
        return self.factors.per_request


def counter_for(model: str | None) -> TokenCounter:
    """Return the counter for a model name; None when no model is configured (then conservative)."""
    return TokenCounter(factors_for(model))
