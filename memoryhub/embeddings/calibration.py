"""Calibration of an embedding space: how the cosines of its model are to be read, by script.

A cosine of 0.3 is a clear match in one space and noise in another, and a model that never learned a language puts all
its texts close together. So each space embeds the same probes: statements in English and in Japanese, each beside a
paraphrase. Sentences of one row mean the same, those of different rows have nothing in common.

Pure. Measured models and what the bounds gain are in docs/algorithm.md.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memoryhub.embeddings.base import Vectors
from memoryhub.search.fusion import SpaceBounds
from memoryhub.search.models import ACROSS, SPACED, UNSPACED

Cosines = NDArray[np.floating]
Columns = tuple[int, int]
Measures = dict[str, dict[str, float]]
"""By script: bounds, and `found`, the share of paraphrases above what unrelated sentences reach."""

VERSION: Final = 1
"""A new number for any change that gives a space other bounds: all are then measured again."""
PROBES: Final[list[list[str]]] = json.loads(Path(__file__).with_name("probes.json").read_text("utf-8"))
PROBE_TEXTS: Final = [sentence for row in PROBES for sentence in row]
COLUMNS: Final[dict[str, Columns]] = {SPACED: (0, 1), UNSPACED: (2, 3)}

UNMEASURED: Final = SpaceBounds(0.35, 0.8, 0.3)
"""Until the provider could be asked."""
UNRELATED_QUANTILE: Final = 0.99
"""The share of unrelated pairs below a space's low bound."""
MAX_WEIGHT: Final = 0.3
MAX_COSINE_LOW: Final = 0.98
MIN_COSINE_RANGE: Final = 0.01
"""Keeps low below high, whatever a model answers."""
MIN_TEXTS: Final = 50
"""With fewer stored texts the median is unreliable."""


def measure(probes: Vectors, stored: Mapping[str, Vectors] | None = None) -> Measures:
    """Return the bounds of each script from the probes' unit vectors, in the order of PROBE_TEXTS.

    Low is what 99 of 100 unrelated sentences stay under, alone and across scripts; high is halfway
    from the median paraphrase to the text itself. The weight falls with the share of paraphrases that do not
    rise above low, and is 0 where they are half. `stored` are unit vectors of texts by script: a cosine that half
    of all pairs reach is noise as well, though a flood of like texts carries low no further than halfway to high.
    """
    rows = probes.reshape(len(PROBES), -1, probes.shape[1])
    across = _unrelated_cosine(rows, *COLUMNS.values())
    measures = {}
    for script, columns in COLUMNS.items():
        unrelated = max(across, _unrelated_cosine(rows, columns, columns))
        paraphrases = _paraphrases(rows, [columns])
        share = float((paraphrases > unrelated).mean())
        low = min(MAX_COSINE_LOW, unrelated)
        high = max(low + MIN_COSINE_RANGE, (float(np.median(paraphrases)) + 1) / 2)
        noise = min((low + high) / 2, _median_pair((stored or {}).get(script)))
        measures[script] = {
            "cosine_low": round(max(low, noise), 3),
            "cosine_high": round(min(1.0, high), 3),
            "vector_weight": round(MAX_WEIGHT * max(0.0, 2 * share - 1), 3),
            "found": round(share, 3),
        }
    translations = _paraphrases(rows, _pairs(*COLUMNS.values()))
    return {**measures, ACROSS: {"found": round(float((translations > across).mean()), 3)}}


def _pairs(first: Columns, second: Columns) -> list[Columns]:
    return [(one, other) for one in first for other in second]


def _unrelated_cosine(rows: Vectors, first: Columns, second: Columns) -> float:
    """Return the cosine that 99 of 100 pairs of different rows stay under."""
    different = ~np.eye(len(rows), dtype=bool)
    cosines = [(rows[:, one] @ rows[:, other].T)[different] for one, other in _pairs(first, second)]
    return float(np.quantile(np.concatenate(cosines), UNRELATED_QUANTILE))


def _paraphrases(rows: Vectors, pairs: Iterable[Columns]) -> Cosines:
    return np.concatenate([(rows[:, one] * rows[:, other]).sum(axis=1) for one, other in pairs])


def _median_pair(vectors: Vectors | None) -> float:
    """Return the median cosine of all pairs; of too few texts -1, which is below every bound."""
    if vectors is None or len(vectors) < MIN_TEXTS:
        return -1.0
    return float(np.median((vectors @ vectors.T)[~np.eye(len(vectors), dtype=bool)]))
