"""How many tokens a model counts for one token of o200k_base, by script class.

The figures are a start that errs upwards: a context may hold a little less than it could, never more than
it may. Calibration from the `usage` of real answers replaces a `Factors` value; nothing here needs to change
for that. Reasons and measurements: `docs/adr/0003-token-counting.md`.
"""

from dataclasses import astuple, dataclass

from memoryhub.tokens.scripts import Script


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
        """Return the factor of one script class."""
        return float(getattr(self, script))

    @property
    def smallest(self) -> float:
        return min(self.latin, self.japanese, self.code, self.other)

    @property
    def is_uniform(self) -> bool:
        """True when the script class of a text does not matter, so it need not be found out."""
        return self.latin == self.japanese == self.code == self.other


def most_conservative(*candidates: Factors) -> Factors:
    """Return the field-by-field maximum."""
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
