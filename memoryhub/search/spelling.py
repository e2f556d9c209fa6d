"""Replace words of a query by similar words of texts. Pure: no Django, no database.

For searches that find nothing: typing errors, and names written together or apart.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import chain, islice, pairwise
from typing import Final

from memoryhub.search.analysis import ENGLISH_STOP_WORDS, KATAKANA, MAX_WORD_CHARACTERS, UNSPACED, fold
from memoryhub.search.function_words import function_words

LETTERS_PER_ERROR: Final = 5
MAX_ERRORS: Final = 2
"""One error in a word of 5 to 9 letters, two in a longer one; fewer letters resemble too many words."""

MIN_SIMILARITY: Final = 0.7
"""Share of letters in common (`difflib`), for choosing among the words and for leaving most of them out fast."""

MAX_QUERY_WORDS: Final = 20
MAX_COMPARED: Final = 5
MAX_NEAR_WORDS: Final = 20_000
"""Words that are compared for a query, the newest texts' first: texts may be made of nothing else."""

MIN_COMPOUND_LETTERS: Final = 6
"""Letters of a word that is searched at the end of longer ones."""

RESPELT_SHARE: Final = 0.7
"""Weight of a replaced word relative to an exact one."""

_Near = Mapping[tuple[str, int], list[str]]
"""Words by first letter and length, in the order of the texts."""

_WORD: Final = re.compile(f"[{KATAKANA}]{{3,}}|[^\\W\\d_{UNSPACED}]+")


def respelt(query: str, texts: Iterable[str]) -> str:
    """Return the query's words as the texts write them, without those that resemble none; "" without any."""
    words = _words(query)
    left_out = ENGLISH_STOP_WORDS | function_words(words)
    asked = [word for word in words if word not in left_out][:MAX_QUERY_WORDS]
    if not asked:
        return ""
    known = [_words(text) for text in texts]
    vocabulary = dict.fromkeys(chain.from_iterable(known))
    joined = [first + second for first, second in pairwise(asked) if first + second in vocabulary]
    wanted = set(asked)
    apart = {"".join(pair): " ".join(pair) for words in known for pair in pairwise(words) if "".join(pair) in wanted}
    near: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for word in vocabulary:
        near[word[0], len(word)].append(word)
    limit = MAX_NEAR_WORDS // len(asked)
    ends = list(islice(vocabulary, limit))
    similar = [apart.get(word) or _similar(word, near, limit) or _compound(word, ends) for word in asked]
    return " ".join(dict.fromkeys(filter(None, [*joined, *similar])))


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(fold(text)) if len(word) <= MAX_WORD_CHARACTERS]


def _similar(word: str, near: _Near, limit: int) -> str:
    """Return the most similar word with the same first letter: few errors are in the first one."""
    allowed = min(MAX_ERRORS, len(word) // LETTERS_PER_ERROR)
    lengths = sorted(range(len(word) - allowed, len(word) + allowed + 1), key=lambda length: abs(length - len(word)))
    others = islice(chain.from_iterable(near.get((word[0], length), ()) for length in lengths), limit)
    best = get_close_matches(word, sorted(others), n=MAX_COMPARED, cutoff=MIN_SIMILARITY)
    return next((other for other in best if errors(word, other) <= allowed), "")


def _compound(word: str, known: Iterable[str]) -> str:
    """Return a word that ends with this one: German writes both words of "health card" as one."""
    if len(word) < MIN_COMPOUND_LETTERS:
        return ""
    return next((other for other in known if other.endswith(word)), "")


def errors(word: str, other: str) -> int:
    """Return the number of letters missing, added, replaced or exchanged with the next (optimal string alignment)."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, letter in enumerate(word, 1):
        line = [row]
        for column, other_letter in enumerate(other, 1):
            cost = min(above[column] + 1, line[-1] + 1, above[column - 1] + (letter != other_letter))
            if row > 1 and column > 1 and (letter, word[row - 2]) == (other[column - 2], other_letter):
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        before, above = above, line
    return above[-1]
