"""Estimate the tokens of a text for a given model, never silently too low: script classes, factors, vocabulary. Pure.

Vendors' token counts differ by script, not by text. The rule that divides a text is a heuristic in two steps:

1. Lines. A line is code if it is in a fenced block (``` or ~~~, the fences included), or when it has at
   least 8 visible characters, of which at least 12 % are of the kind that programs and data are full of
   (braces, brackets, operators, underscores, slashes …) and none is Japanese.
   Prose seldom passes 5 %.
2. Characters. Everywhere else a run of Chinese, Japanese or Korean characters and full-width punctuation is
   `japanese`; a run of letters of any other non-Latin script, or of emoji, is `other`; the rest (Latin
   letters with and without accents, digits, ASCII punctuation) is `latin`. Blanks stay with what precedes.

A misclassified part is counted with another class's factor; the pieces always concatenate to the text.

The factors overestimate, so that a context never exceeds its limit; calibration from the reported `usage` replaces
them. Reasons and measurements: `docs/adr/0003-token-counting.md`.

tiktoken downloads its vocabularies at run time; an installation of memoryhub must count tokens with no network at all,
so `tiktoken.get_encoding` is never called here. Raw counts of a text are cached and factors applied afterwards, so that
new factors (calibration) need no recount.
"""

import base64
import hashlib
import lzma
import math
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import groupby, islice, pairwise, permutations
from operator import itemgetter
from types import MappingProxyType
from typing import Literal

import tiktoken

Script = Literal["latin", "japanese", "code", "other"]
SCRIPTS: tuple[Script, ...] = ("latin", "japanese", "code", "other")

MIN_CODE_LINE_CHARS = 8
MIN_CODE_SYMBOL_SHARE = 0.12

# Hangul jamo, CJK radicals … kana … unified ideographs, Hangul syllables, compatibility ideographs,
# vertical and full-width forms, and the supplementary ideographic planes (Unicode 16, Blocks.txt).
_CJK = "\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
_CJK += "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
# Up to U+024F, Latin Extended Additional, general punctuation, currency: the characters of Western prose.
_LATIN = "\u0000-\u024f\u1e00-\u1eff\u2000-\u206f\u20a0-\u20cf\u2100-\u214f"

_cjk = re.compile(f"[{_CJK}]")
_only_latin = re.compile(f"[{_LATIN}]*")
_run = re.compile(
    rf"(?P<japanese>[{_CJK}][{_CJK}\s]*)"
    rf"|(?P<other>[^{_LATIN}{_CJK}][^{_LATIN}{_CJK}\u0020]*\s*)"
    rf"|(?P<latin>[{_LATIN}]+)"
)
_fence = re.compile(r"\s{0,3}(```|~~~)")
_symbol = re.compile(r"[{}()\[\]<>=;_/\\|&*$#@%^~`+]")


def split_by_script(text: str) -> Iterator[tuple[Script, str]]:
    is_latin = bool(_only_latin.fullmatch(text))  # once: a text may have 50,000 lines

    def classified() -> Iterator[tuple[Script, str]]:
        for is_code, line in _lines(text):
            if is_code:
                yield "code", line
            elif is_latin or _only_latin.fullmatch(line):
                yield "latin", line
            else:
                for match in _run.finditer(line):
                    yield ("japanese" if match["japanese"] else "other" if match["other"] else "latin", match[0])

    for script, pieces in groupby(classified(), itemgetter(0)):
        yield script, "".join(piece for _, piece in pieces)


class _Scripts(dict[int, str]):
    """The script of each character as a table of `str.translate`: "l", "j", "o", and " " for Western blanks."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        is_latin = _only_latin.fullmatch(letter)
        script = "j" if _cjk.match(letter) else "o" if not is_latin else " " if letter.isspace() else "l"
        return self.setdefault(code, script)


_scripts = _Scripts()


def script_sizes(text: str) -> tuple[dict[Script, int], int]:
    """Return the characters of each script, and how many pieces `split_by_script` makes of the text, give or take few.

    For texts of very many pieces, which are never made here: it takes passes over the text instead.
    """
    lines = [(is_code, "".join(line for _, line in group)) for is_code, group in groupby(_lines(text), itemgetter(0))]
    letters = "".join(line for is_code, line in lines if not is_code).translate(_scripts)
    blanks = {script: sum(map(len, re.findall(f"(?<={script}) +", letters))) for script in "jo"}
    sizes: dict[Script, int] = {
        "latin": letters.count("l") + letters.count(" ") - sum(blanks.values()),
        "japanese": letters.count("j") + blanks["j"],
        "code": len(text) - len(letters),
        "other": letters.count("o") + blanks["o"],
    }
    visible = (letters[:1].replace(" ", "l") + letters[1:]).replace(" ", "")
    return sizes, len(lines) + sum(visible.count(a + b) for a, b in permutations("ljo", 2))


def _lines(text: str) -> Iterator[tuple[bool, str]]:
    has_fences = "```" in text or "~~~" in text
    closing: str | None = None
    for line in _joined_blank_lines(text):
        fence = _fence.match(line) if has_fences else None
        if fence and closing in (None, fence[1]):
            closing = fence[1] if closing is None else None
            yield True, line
        else:
            yield closing is not None or looks_like_code(line), line


def _joined_blank_lines(text: str) -> Iterator[str]:
    """Yield lines, and a run of blank ones as one: a text may have 100,000 of them."""
    for is_blank, lines in groupby(text.splitlines(keepends=True), str.isspace):
        if is_blank:
            yield "".join(lines)
        else:
            yield from lines


def looks_like_code(line: str) -> bool:
    """Return whether a single line reads like a program or data; see step 1 of the module's docstring."""
    if len(line) < MIN_CODE_LINE_CHARS:
        return False
    visible = len(line) - line.count(" ") - line.count("\t")
    if visible < MIN_CODE_LINE_CHARS or _cjk.search(line):
        return False
    return len(_symbol.findall(line)) >= MIN_CODE_SYMBOL_SHARE * visible


@dataclass(frozen=True, slots=True)
class Factors:
    """Tokens of a model per o200k_base token in each script class, and the fixed cost of the chat form."""

    latin: float
    japanese: float
    code: float
    other: float
    per_message: int = 4
    """Tokens of a message in addition to its text (role and delimiters)."""
    per_request: int = 3
    """Tokens of a request in addition to its messages."""

    def __post_init__(self) -> None:
        for script in ("latin", "japanese", "code", "other"):
            if not 0 < getattr(self, script) < 10:
                raise ValueError(f"The factor for {script} must lie between 0 and 10.")

    def of(self, script: Script) -> float:
        return float(getattr(self, script))

    @property
    def smallest(self) -> float:
        return min(self.latin, self.japanese, self.code, self.other)

    @property
    def is_uniform(self) -> bool:
        """True when the script class of a text does not matter, so it need not be found out."""
        return self.latin == self.japanese == self.code == self.other


def most_conservative(*candidates: Factors) -> Factors:
    return Factors(*(max(column) for column in zip(*map(astuple, candidates), strict=True)))


# OpenAI's models since gpt-4o use o200k_base itself, so text is exact; the message overhead is 3 and 3 in
# OpenAI's cookbook ("How to count tokens with tiktoken"), with one to spare for a name.
O200K = Factors(latin=1.0, japanese=1.0, code=1.0, other=1.0, per_message=4, per_request=3)

# gpt-4 and gpt-3.5 use cl100k_base: 1.03, 1.39, 1.00 and 2.15 × o200k_base over our tests' texts; rounded up.
CL100K = Factors(latin=1.1, japanese=1.5, code=1.1, other=2.4, per_message=5, per_request=3)

# Claude counts 1.0–1.5 × o200k_base for English, 1.35–1.4 × for Japanese, 1.1–1.4 × for code, depending on
# the model's generation. Taken at the high end. Code starts as high as Latin, because where one ends and the
# other begins is a guess; other scripts are unmeasured and start higher still.
CLAUDE = Factors(latin=1.5, japanese=1.4, code=1.5, other=2.0, per_message=5, per_request=8)

FACTORS_BY_PREFIX: dict[str, Factors] = {
    "gpt-4o": O200K,
    "chatgpt-4o": O200K,
    "gpt-4.1": O200K,
    "gpt-4.5": O200K,
    "gpt-5": O200K,
    "gpt-oss": O200K,
    "o1": O200K,
    "o3": O200K,
    "o4": O200K,
    "gpt-4": CL100K,
    "gpt-3.5": CL100K,
    "text-embedding-3": CL100K,
    "text-embedding-ada-002": CL100K,
    "claude": CLAUDE,
}

UNKNOWN_MODEL = most_conservative(*FACTORS_BY_PREFIX.values())
"""A model that the table does not know: the highest figure of every column."""


def factors_for(model: str | None) -> Factors:
    """Return the factors of a model by the longest prefix that fits its name, case and vendor path ignored.

    `anthropic/claude-x` and `claude-x` are the same; None means that no model is configured.
    """
    if model is None:
        return UNKNOWN_MODEL  # the context is sent to a model unknown to us
    name = model.strip().lower().rsplit("/", 1)[-1]
    prefixes = [prefix for prefix in FACTORS_BY_PREFIX if name.startswith(prefix)]
    return FACTORS_BY_PREFIX[max(prefixes, key=len)] if prefixes else UNKNOWN_MODEL


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
    encoding = tiktoken.Encoding(
        "o200k_base",
        pat_str=PATTERN,
        mergeable_ranks=parse_ranks(verified(read_compressed())),
        special_tokens=SPECIAL_TOKENS,
    )
    # tiktoken's core has its own copy; this one (28 MB) is used for pickling only.
    encoding._mergeable_ranks = {}
    return encoding


def read_compressed() -> bytes:
    """Return the data file's bytes. Raises VocabularyCorrupt if it cannot be read."""
    try:
        return files("memoryhub.llm").joinpath(DATA_FILE).read_bytes()
    except OSError as error:
        raise VocabularyCorrupt(
            f"The token vocabulary memoryhub/llm/{DATA_FILE} cannot be read. Install memoryhub again."
        ) from error


def verified(compressed: bytes) -> bytes:
    """Return the decompressed vocabulary. Raises VocabularyCorrupt unless its SHA-256 is tiktoken's own."""
    try:
        content = lzma.decompress(compressed)
    except lzma.LZMAError as error:
        message = f"memoryhub/llm/{DATA_FILE} is damaged. Install memoryhub again."
        raise VocabularyCorrupt(message) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != VOCABULARY_SHA256:
        raise VocabularyCorrupt(
            f"memoryhub/llm/{DATA_FILE} has SHA-256 {digest}, expected {VOCABULARY_SHA256}. "
            "Token counts would be wrong. Install memoryhub again."
        )
    return content


def parse_ranks(content: bytes) -> dict[bytes, int]:
    pairs = (line.split() for line in content.splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


# tiktoken's pattern holds one look-ahead, `\s+(?!\S)`, which its regex engine runs on a stack of a million
# steps: a run of 1,000,000 blanks panics (tiktoken 0.14: `PanicException: StackOverflow`, not an
# `Exception`). A run of letters is one piece to be merged, which takes 1.5 s for 900,000 of them.
MAX_BLANK_RUN_CHARS = 8192
MAX_LETTER_RUN_CHARS = 400
_long_runs = re.compile(
    rf"(?<!\s)(\s{{{MAX_BLANK_RUN_CHARS + 1},}})|(?<![^\W\d_])[^\W\d_]{{{MAX_LETTER_RUN_CHARS + 1},}}"
)
"""Looked for where a run begins only, so that many runs that are just short enough take no longer."""

_line_start = re.compile(r"\n(?=[^\s/])(?:\d+\.(?= \S))?")
"""Positions that no token crosses: between two lines, and after the number of the second."""

# The cache holds at most 4,096 texts of 2,048 characters: 8 MB of ASCII, 33 MB at the very worst.
MAX_CACHED_TEXTS = 4096
MAX_CACHED_CHARS = 2048
MIN_CACHED_CHARS = 8
"""Mean length of the lines of a long text below which counting it at once is faster than its lines one by one."""

BYTES_OF_LETTER: Mapping[Script, int] = MappingProxyType({"latin": 1, "japanese": 3, "code": 1, "other": 2})
MAX_PIECES = 20_000
"""Pieces of script classes that are counted one by one; more take seconds, so they share the whole text's count."""


def count_raw(text: str) -> int:
    """Return the number of o200k_base tokens of a text.

    Text that spells a special token (`<|endoftext|>`) counts as the ordinary text it is. In a line of more than 8,192
    characters a run of so many blanks or of 400 letters is counted in parts, with a token more for each cut, so never
    too low.
    """
    if len(text) <= MAX_CACHED_CHARS:
        return _count_cached(text)
    if text.count("\n") * MIN_CACHED_CHARS > len(text):
        return _count(text)
    return sum(_count_cached(part) if len(part) <= MAX_CACHED_CHARS else _count(part) for part in _lines_of(text))


def _lines_of(text: str) -> list[str]:
    """Return the parts of a text that are counted one by one: what a context says was in another, by another number."""
    places = [0]
    for match in _line_start.finditer(text):
        places += [match.start() + 1, match.end()]
    return [text[start:end] for start, end in pairwise([*places, len(text)])]


@lru_cache(maxsize=4096)
def is_common_word(word: str) -> bool:
    """Return whether a word is so frequent that the vocabulary has it whole, in Latin letters among its first.

    A byte pair vocabulary is ordered by how often its pairs occurred in the texts that it was trained on.
    """
    spaced = word if _cjk.search(word) else f" {word}"
    tokens = o200k_base().encode_ordinary(spaced)
    return len(tokens) == 1 and (spaced == word or tokens[0] < COMMON_RANKS)


COMMON_RANKS = 2**15


def _count(text: str) -> int:
    encoding = o200k_base()
    if len(text) <= MAX_BLANK_RUN_CHARS:
        return len(encoding.encode_ordinary(text))
    cuts = [0, *_cuts(text), len(text)]
    pieces = [text[start:end] for start, end in pairwise(cuts)]
    return sum(len(encoding.encode_ordinary(piece)) for piece in pieces) + len(pieces) - 1


def _cuts(text: str) -> Iterator[int]:
    for run in _long_runs.finditer(text):
        start, end = run.span()
        max_length = MAX_LETTER_RUN_CHARS if run[1] is None else MAX_BLANK_RUN_CHARS
        yield from range(start + max_length, end, max_length)


_count_cached = lru_cache(MAX_CACHED_TEXTS)(_count)


@dataclass(frozen=True, slots=True)
class RawCounts:
    """o200k_base tokens of one text: as a whole, and of its pieces summed by script class."""

    whole: int
    by_script: Mapping[Script, int]


def raw_counts(text: str) -> RawCounts:
    return _raw_counts_cached(text) if len(text) <= MAX_CACHED_CHARS else _raw_counts(text)


def _raw_counts(text: str) -> RawCounts:
    pieces = list(islice(split_by_script(text), MAX_PIECES + 1))
    whole = count_raw(text) if len(pieces) > 1 else 0
    by_script: dict[Script, int] = dict.fromkeys(SCRIPTS, 0)
    if len(pieces) > MAX_PIECES:
        # Each cut adds about one token, so these shares are an upper bound of counting piece by piece.
        sizes, cuts = script_sizes(text)
        weights = {script: size * BYTES_OF_LETTER[script] for script, size in sizes.items()}
        upper_bound, total = whole + cuts, sum(weights.values())
        shares: dict[Script, int] = {script: -(-upper_bound * own // total) for script, own in weights.items()}
        return RawCounts(whole, MappingProxyType(shares))
    for script, piece in pieces:
        by_script[script] += count_raw(piece)
    return RawCounts(whole or sum(by_script.values()), MappingProxyType(by_script))


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
        if self.factors.is_uniform:
            return math.ceil(raw.whole * self.factors.smallest)
        by_script = sum(count * self.factors.of(script) for script, count in raw.by_script.items() if count)
        return math.ceil(max(by_script, raw.whole * self.factors.smallest))


def counter_for(model: str | None) -> TokenCounter:
    """Return the counter for a model name; None when no model is configured (then conservative)."""
    return TokenCounter(factors_for(model))
