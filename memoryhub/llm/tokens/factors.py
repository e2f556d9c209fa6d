"""Script classes of a text, and how many tokens a model counts in each for one token of o200k_base. Pure.

Vendors' token counts differ by script, not by text. The rule that divides a text is a heuristic in two steps:

1. Lines. A line is code when it lies in a fenced block (``` or ~~~, the fences included), or when it has at
   least 8 visible characters, of which at least 12 % are of the kind that programs and data are full of
   (braces, brackets, operators, underscores, slashes …) and none is Japanese.
   Prose seldom passes 5 %.
2. Characters. Everywhere else a run of Chinese, Japanese or Korean characters and full-width punctuation is
   `japanese`; a run of letters of any other non-Latin script, or of emoji, is `other`; the rest (Latin
   letters with and without accents, digits, ASCII punctuation) is `latin`. Blanks stay with what precedes.

Wrong guesses shift a share of the text from one factor to a neighbouring one; no character is ever lost:
the pieces joined are the text.

The factors err upwards: a context may hold a little less than it could, never more than it may. Calibration from the
`usage` of real answers replaces them. Reasons and measurements: `docs/adr/0003-token-counting.md`.
"""

import re
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Literal

Script = Literal["latin", "japanese", "code", "other"]
SCRIPTS: tuple[Script, ...] = ("latin", "japanese", "code", "other")

MIN_CODE_LINE_CHARS = 8
MIN_CODE_SYMBOL_SHARE = 0.12

# Hangul jamo, CJK radicals … kana … unified ideographs, Hangul syllables, compatibility ideographs,
# vertical and full-width forms, and the supplementary ideographic planes (Unicode 16, Blocks.txt).
_CJK = "\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
_CJK += "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
# Up to U+024F, Latin Extended Additional, general punctuation, currency: what Western prose is written with.
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


def split_by_script(text: str) -> list[tuple[Script, str]]:
    return list(_merged(_classified(text)))


def _classified(text: str) -> Iterator[tuple[Script, str]]:
    for is_code, line in _lines(text):
        if is_code:
            yield "code", line
        elif _only_latin.fullmatch(line):
            yield "latin", line
        else:
            yield from _runs(line)


def _lines(text: str) -> Iterator[tuple[bool, str]]:
    closing: str | None = None
    for line in text.splitlines(keepends=True):
        fence = _fence.match(line)
        if fence and closing in (None, fence[1]):
            closing = fence[1] if closing is None else None
            yield True, line
        else:
            yield closing is not None or looks_like_code(line), line


def looks_like_code(line: str) -> bool:
    """Tell whether a single line reads like a program or data; see step 1 of the module's docstring."""
    visible = len(line) - line.count(" ") - line.count("\t")
    if visible < MIN_CODE_LINE_CHARS or _cjk.search(line):
        return False
    return len(_symbol.findall(line)) >= MIN_CODE_SYMBOL_SHARE * visible


def _runs(line: str) -> Iterator[tuple[Script, str]]:
    for match in _run.finditer(line):
        script: Script = "japanese" if match["japanese"] else "other" if match["other"] else "latin"
        yield script, match[0]


def _merged(pieces: Iterator[tuple[Script, str]]) -> Iterator[tuple[Script, str]]:
    current: Script | None = None
    parts: list[str] = []
    for script, piece in pieces:
        if current is not None and script != current:
            yield current, "".join(parts)
            parts = []
        current = script
        parts.append(piece)
    if current is not None:
        yield current, "".join(parts)


@dataclass(frozen=True, slots=True)
class Factors:
    """Tokens of a model per o200k_base token in each script class, and the fixed cost of the chat form."""

    latin: float
    japanese: float
    code: float
    other: float
    per_message: int = 4
    """Tokens that a message costs beside its text (role and delimiters)."""
    per_request: int = 3
    """Tokens that a request costs beside its messages."""

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

UNKNOWN = most_conservative(*FACTORS_BY_PREFIX.values())
"""A model that the table does not know: the highest figure of every column."""

UNCONFIGURED = UNKNOWN
"""No model configured: the context goes to a model we cannot see, so nothing below UNKNOWN is safe."""


def factors_for(model: str | None) -> Factors:
    """Return the factors of a model by the longest prefix that fits its name, case and vendor path ignored.

    `anthropic/claude-x` and `claude-x` are the same; None means that no model is configured.
    """
    if model is None:
        return UNCONFIGURED
    name = model.strip().lower().rsplit("/", 1)[-1]
    prefixes = [prefix for prefix in FACTORS_BY_PREFIX if name.startswith(prefix)]
    return FACTORS_BY_PREFIX[max(prefixes, key=len)] if prefixes else UNKNOWN
