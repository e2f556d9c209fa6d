"""What is known of vendors' embedding models: native dimensions, and how to read a cosine in their spaces.

A cosine of 0.3 is a clear match in one space and noise in another. Measured were the hashing space and
all-MiniLM (docs/algorithm.md); the other bounds are estimates by analogy with what vendors and users report: low
is where 99 of 100 pairs of unrelated texts lie below, high where a text meets its paraphrase. Beside words a
cosine below its low bound says nothing, so a bound that is too low lets noise in.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Space:
    """Raw cosines that count as unrelated and as a clear match, and the weight of vectors against words."""

    cosine_low: float
    cosine_high: float
    vector_weight: float = 0.3


SPACES_BY_NAME: dict[str, Space] = {
    "text-embedding-3": Space(0.25, 0.70),
    "text-embedding-ada-002": Space(0.76, 0.92),
    "paraphrase-multilingual": Space(0.30, 0.85),
    "all-minilm": Space(0.30, 0.80),
    "all-mpnet": Space(0.30, 0.80),
    "nomic-embed-text": Space(0.55, 0.85),
    "mxbai-embed": Space(0.50, 0.85),
    "bge-m3": Space(0.50, 0.80),
    "bge-": Space(0.55, 0.85),
    "multilingual-e5": Space(0.80, 0.93),
    "e5-": Space(0.77, 0.92),
}
UNKNOWN_SPACE = Space(0.35, 0.80)

NATIVE_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


def space_of(model: str) -> Space:
    """Return what is known of a model's space, by the longest known name in its own, or in the path it lies in."""
    path = model.lower().replace("\\", "/").replace("_", "-")
    names = [name for name in SPACES_BY_NAME if re.search(rf"(?:^|[/-]){re.escape(name)}", path)]
    return SPACES_BY_NAME[max(names, key=len)] if names else UNKNOWN_SPACE


def takes_dimensions(model: str) -> bool:
    """Tell whether the model can be asked for shorter vectors (OpenAI: text-embedding-3 and later)."""
    return model.startswith("text-embedding-3")
