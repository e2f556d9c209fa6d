"""Write `memoryhub/search/common_terms.tsv`: of how many texts out of COMMON_DOCUMENTS each frequent term is part.

    sh memoryhub/bootstrap.sh uv pip install --python .venv/bin/python wordfreq
    python bench/common_terms.py > memoryhub/search/common_terms.tsv

From the word lists of `wordfreq`, which no installation needs. Half of the texts are English, half Japanese, of 14
words each, as memories and chat messages are; words come independently of each other.
"""

import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import COMMON_DOCUMENTS

WORDS: Final = 14
LANGUAGES: Final = ("en", "ja")
LEAST: Final = 1e-6
"""A rarer word is part of no text out of COMMON_DOCUMENTS, whatever terms it shares with others."""

HEADER: Final = f"""\
# Of {COMMON_DOCUMENTS} short texts, half of them English and half Japanese, so many hold the term (search/analysis.py).
# Derived by bench/common_terms.py from the word lists of wordfreq 3.1.1 by Robyn Speer, which are under the Creative
# Commons Attribution-ShareAlike 4.0 licence (https://creativecommons.org/licenses/by-sa/4.0/), and so is this file.
"""


def counts() -> dict[str, int]:
    """Return the number of texts by term, of those that at least one text holds."""
    from wordfreq import get_frequency_dict

    shares: dict[str, float] = defaultdict(float)
    for language in LANGUAGES:
        by_term: dict[str, float] = defaultdict(float)
        for word, share in get_frequency_dict(language, wordlist="large").items():
            # Numbers of several digits stand there as zeros, all together.
            for term in analyse(word) if share >= LEAST and "0" not in word else ():
                by_term[term] += share
        for term, share in by_term.items():
            shares[term] += (1 - (1 - min(share, 1.0)) ** WORDS) / len(LANGUAGES)
    rounded = {term: round(share * COMMON_DOCUMENTS) for term, share in shares.items()}
    return {term: count for term, count in rounded.items() if count}


if __name__ == "__main__":
    sys.stdout.write(HEADER)
    for term, count in sorted(counts().items(), key=lambda item: (-item[1], item[0])):
        sys.stdout.write(f"{term}\t{count}\n")
