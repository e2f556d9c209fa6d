"""What is known of vendors' embedding models: native dimensions, and how to read a cosine in their spaces.

A cosine of 0.3 is a clear match in one space and noise in another. The bounds here are starting points taken
from what vendors and users report; only those of the hashing space were measured by us. They shift the
relevance that people see and nothing else: within one space the order of results does not depend on them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Space:
    """Raw cosines that count as unrelated and as a clear match, and the weight of vectors against words."""

    cosine_low: float
    cosine_high: float
    vector_weight: float = 0.5


SPACES_BY_PREFIX: dict[str, Space] = {
    "text-embedding-3": Space(0.15, 0.65),
    "text-embedding-ada-002": Space(0.72, 0.90),
    "paraphrase-multilingual": Space(0.15, 0.75),
    "all-minilm": Space(0.10, 0.70),
    "all-mpnet": Space(0.10, 0.70),
    "nomic-embed-text": Space(0.45, 0.80),
    "mxbai-embed": Space(0.40, 0.80),
    "bge-m3": Space(0.40, 0.75),
    "bge-": Space(0.45, 0.80),
    "multilingual-e5": Space(0.75, 0.92),
    "e5-": Space(0.70, 0.90),
}
UNKNOWN_SPACE = Space(0.20, 0.75)

NATIVE_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


def space_of(model: str) -> Space:
    """Return what is known of a model's space, by the longest prefix of its name without path and vendor."""
    name = model.lower().rstrip("/").replace("\\", "/").rsplit("/", 1)[-1]
    prefixes = [prefix for prefix in SPACES_BY_PREFIX if name.startswith(prefix)]
    return SPACES_BY_PREFIX[max(prefixes, key=len)] if prefixes else UNKNOWN_SPACE


def takes_dimensions(model: str) -> bool:
    """Tell whether the model can be asked for shorter vectors (OpenAI: text-embedding-3 and later)."""
    return model.startswith("text-embedding-3")
