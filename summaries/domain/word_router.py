"""Routing by words, for use without a model, and the blocks of a question to one (SPEC P3). Pure.

A word is weighted by how few projects have it. The words that a message shares with a project are its evidence; the
confidence depends on the amount of evidence and on the lead over the next project. The thresholds were measured
(`tests/factories/routing_sets.py`); one common word alone never gives high confidence.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from math import fsum  # independent of order, and so equal in every process
from typing import Final
from uuid import UUID

from memoryhub.llm.tokens import is_common_word
from memoryhub.search.analysis import COMPOUND, HAN, HIRAGANA, KATAKANA, analyse, fold, is_unspaced
from summaries.domain.projects import CATALOG_TOKENS, CatalogEntry, catalog, free_name, one_line, propose_name
from summaries.domain.routing import (
    BEGINS,
    LIKE_CORRECTED,
    SAME_CORRECTED,
    SESSION_OF,
    SOME_WORDS_OF,
    SPEAKS_OF,
    WORDS_OF,
    WORDS_OF_NONE,
    WORDS_OF_TWO,
    Confidence,
    Prediction,
)

NAME_WEIGHT: Final = 1.5
DESCRIPTION_WEIGHT: Final = 1.0
TEXT_WEIGHT: Final = 0.8
EXAMPLE_WEIGHT: Final = 0.8
"""Weights of a shared word in a project's name, description, documents, and in messages corrected to it."""

SHARING_EXPONENT: Final = 1.0
"""Exponent of the number of projects that have a word, by which its weight is divided."""

HIGH_EVIDENCE: Final = 2.2
"""Evidence for high confidence: more than two words that no other project has, in any place.

"system design" shares both words with a project called design-system, and may be about something else."""

MEDIUM_EVIDENCE: Final = 0.7
"""Evidence for medium confidence: about one such word."""

SECOND_WORD_SIZE: Final = 0.4
"""Size of shared terms, besides the longest, that counts as a second shared word."""

TELLING_EXPRESSION_LENGTH: Final = 3
"""Length from which a Japanese expression is specific: 貸切風呂 is, 地図 is not."""

HIGH_LEAD: Final = 0.5
MEDIUM_LEAD: Final = 0.25
"""Lead of the best project over the next, as a share of its evidence, for high and medium confidence."""

MEDIUM_SIMILARITY: Final = 0.45
HIGH_SIMILARITY: Final = 0.7
"""Similarity to a corrected message for medium and high confidence."""

COMPARED_LENGTH: Final = 1_000
"""Characters of each message that similarity compares."""

MAX_DOCUMENT_SHARE: Final = 6_000
MIN_DOCUMENT_SHARE: Final = 375
MAX_TOTAL_LENGTH: Final = 240_000
"""Characters of one document, at most and at least, and of all: to analyse them takes a second or so, once."""

MAX_DOCUMENTS: Final = MAX_TOTAL_LENGTH // MIN_DOCUMENT_SHARE
MAX_QUOTED_PROJECTS: Final = 5
MAX_QUOTED_LINES: Final = 3
MAX_QUOTED_LENGTH: Final = 200
"""Projects with documents that a model is shown lines of, lines of each, and characters of a line."""

MAX_EXAMPLE_LENGTH: Final = 300
"""Characters of a corrected message that a model is shown."""

MAX_PROPOSED_WORDS: Final = 4

MAX_CANDIDATES: Final = 3
"""Projects that the user is offered where none was found."""

MAX_CATALOG_PROJECTS: Final = 300
"""Projects that a model is shown; more would cost more to read than they help."""

_WORDS: Final = re.compile(r"\w+")
_CHARACTER: Final = 0.1
_PAIR: Final = 0.25
_EXPRESSION: Final = 0.5  # in addition to its pairs
_IS_KANA: Final = re.compile(f"[{HIRAGANA}]{{2}}")


@dataclass(frozen=True)
class Profile:
    """Terms of a project with the weight of the best place that each occurs in."""

    name: str
    terms: Mapping[str, float]


@dataclass(frozen=True)
class Example:
    message: str
    project: str
    decision_id: UUID | None = None


def profile_of(name: str, *, description: str, texts: Sequence[str], examples: Sequence[str] = ()) -> Profile:
    terms: dict[str, float] = {}
    places = [
        (NAME_WEIGHT, [name.replace("-", " "), name]),
        (DESCRIPTION_WEIGHT, [description]),
        (TEXT_WEIGHT, texts),
        (EXAMPLE_WEIGHT, examples),
    ]
    for weight, written in places:
        for text in written:
            for term in _terms(text):
                terms.setdefault(term, weight)
    return Profile(name, terms)


@lru_cache(maxsize=600)
def _terms(text: str) -> Set[str]:
    # Cached, as documents and examples rarely change between messages.
    return frozenset(analyse(text))


def characters_per_document(documents: int) -> int:
    share = MAX_DOCUMENT_SHARE
    while share > MIN_DOCUMENT_SHARE and share * documents > MAX_TOTAL_LENGTH:
        share //= 2
    return share


def shortlist(message: str, profiles: Sequence[Profile], *, first: Sequence[str]) -> list[str]:
    """Return the names of at most MAX_CATALOG_PROJECTS projects, in order: `first`, then the most similar."""
    names = [each.name for each in profiles]
    if len(names) <= MAX_CATALOG_PROJECTS:
        return names
    found = evidence(analyse(message), profiles)
    ranked = sorted(names, key=lambda name: (name not in first, -found[name]))
    kept = set(ranked[:MAX_CATALOG_PROJECTS])
    return [name for name in names if name in kept]


def candidates_of(message: str, profiles: Sequence[Profile]) -> tuple[str, ...]:
    """Return at most MAX_CANDIDATES projects that a message may be about, the likeliest first, then in the given order.

    None for a message with too little content to belong anywhere, such as thanks.
    """
    terms = frozenset(analyse(message))
    if _topic_size(terms) < MIN_TOPIC_SIZE:
        return ()
    found = evidence(terms, profiles)
    return tuple(sorted(found, key=lambda name: -found[name])[:MAX_CANDIDATES])


def shared_lines(message: str, profiles: Sequence[Profile], texts: Mapping[str, Sequence[str]]) -> list[str]:
    """Return lines of documents that share words with a message, as "project: line", for a model to read.

    Of the MAX_QUOTED_PROJECTS projects with most evidence, the MAX_QUOTED_LINES lines with the rarest shared words;
    `texts` are the documents by project.
    """
    terms = frozenset(analyse(message))
    found = evidence(terms, profiles)
    having = {term: sum(term in each.terms for each in profiles) or 1 for term in terms}
    quoted: list[str] = []
    for name in sorted((each for each in found if found[each]), key=lambda each: -found[each])[:MAX_QUOTED_PROJECTS]:
        lines = {one_line(line) for text in texts.get(name, ()) for line in text.splitlines()}
        scores = {
            line: fsum(_size(term) / having[term] for term in terms & frozenset(analyse(line)))
            for line in sorted(lines)
            if line and not line.startswith(("#", ">"))
        }
        best = sorted((line for line in scores if scores[line]), key=lambda line: -scores[line])
        quoted += [f"{name}: {line[:MAX_QUOTED_LENGTH]}" for line in best[:MAX_QUOTED_LINES]]
    return quoted


def question_blocks(
    message: str,
    channel: str,
    projects: Sequence[CatalogEntry],
    profiles: Sequence[Profile],
    texts: Mapping[str, Sequence[str]],
    examples: Sequence[Example],
    *,
    current: str | None,
    count: Callable[[str], int],
    most: int = CATALOG_TOKENS,
) -> dict[str, str]:
    """Return the blocks of a question to a model: the catalog, lines of documents, corrections, session, message."""
    first = [*(each.project for each in examples), *([current] if current else [])]
    names = set(shortlist(message, profiles, first=first))
    blocks = {"projects": catalog((each for each in projects if each.name in names), count, most=most)}
    if lines := shared_lines(message, profiles, texts):
        blocks["lines-of-documents"] = "\n".join(lines)
    if examples:
        by_hand = (f"{one_line(each.message)[:MAX_EXAMPLE_LENGTH]} → {each.project}" for each in examples)
        blocks["routed-by-hand"] = "\n".join(by_hand)
    if current:
        blocks["session"] = current
    return {**blocks, "message": f"({channel})\n{message}"}


def exact_correction(
    message: str, examples: Sequence[Example], names: Sequence[str], *, current: str | None = None
) -> Prediction | None:
    """Return the project to which the same message was corrected before; None where it never was.

    `examples` come latest first. A message that says little ("Thanks, it works") belongs to `current`, its session's
    project. Of a long message only the beginning is stored, which others may share.
    """
    if len(message) >= COMPARED_LENGTH or (current in names and _topic_size(analyse(message)) < MIN_TOPIC_SIZE):
        return None
    folded = fold(message).split()
    for each in examples:
        if len(each.message) < COMPARED_LENGTH and each.project in names and fold(each.message).split() == folded:
            return Prediction(each.project, None, Confidence.HIGH, SAME_CORRECTED)
    return None


def route_by_words(
    message: str, profiles: Sequence[Profile], examples: Sequence[Example], *, current: str | None = None
) -> Prediction:
    """Return the prediction by words: as a similar message was corrected, else by the evidence for each project.

    `examples` come latest first; of equally similar ones the latest counts. A message without evidence stays with
    `current`, its session's project.
    """
    terms = frozenset(analyse(message))
    names = [each.name for each in profiles]
    current = current if current in names else None
    size = _topic_size(terms)
    if known := exact_correction(message, examples, names, current=current):
        return known
    if (current is None or size >= MIN_TOPIC_SIZE) and (known := _similar_correction(message, examples, names)):
        return known
    found = evidence(terms, profiles)
    scored = sorted(((score, name) for name, score in found.items()), key=lambda each: (-each[0], each[1]))
    best, name = scored[0] if scored else (0.0, "")
    second = scored[1][0] if len(scored) > 1 else 0.0
    lead = (best - second) / best if best else 0.0
    if lead >= HIGH_LEAD and evidence(terms, profiles, most=1.0).get(name, 0.0) >= HIGH_EVIDENCE:
        return Prediction(name, None, Confidence.HIGH, WORDS_OF.format(project=name))
    is_weak = best >= MEDIUM_EVIDENCE and _is_weak_evidence(
        message, terms, next(each for each in profiles if each.name == name)
    )
    if best >= MEDIUM_EVIDENCE and lead >= MEDIUM_LEAD and not is_weak:
        return Prediction(name, None, Confidence.MEDIUM, SOME_WORDS_OF.format(project=name))
    if (named := _referenced_project(message, profiles)) and found[named] == best >= MEDIUM_EVIDENCE:
        return Prediction(named, None, Confidence.MEDIUM, SPEAKS_OF.format(project=named))
    if current is not None and _continues_session(message, size, 0.0 if is_weak else best, found[current]):
        return Prediction(current, None, Confidence.MEDIUM, SESSION_OF.format(project=current))
    if best >= MEDIUM_EVIDENCE and not is_weak:
        return Prediction(None, None, Confidence.LOW, WORDS_OF_TWO.format(project=name, other=scored[1][1]))
    return _unknown(message, terms, names)


def _is_weak_evidence(message: str, terms: Set[str], profile: Profile) -> bool:
    """Return whether a message shares one word with a project, which is common or begins something new."""
    shared = {term.removeprefix(COMPOUND) for term in terms if term in profile.terms}
    whole = max(sorted(shared), key=lambda term: (is_unspaced(term) or _size(term), len(term)), default="")
    others = fsum(_size(term) for term in shared if not (term in whole if is_unspaced(term) else term == whole))
    if others >= SECOND_WORD_SIZE:
        return False
    written = {word for word in _WORDS.findall(fold(message)) if whole in analyse(word)} or {whole}
    is_short = is_unspaced(whole) and len(whole) < TELLING_EXPRESSION_LENGTH
    return is_short or any(map(is_common_word, written)) or bool(_NEW_TOPIC.search(fold(message)))


_REFERENCE: Final = re.compile(
    rf"\b(?:the|our)\s+(\w+(?:\s+\w+)?)|^([{KATAKANA}]+|[{HAN}]+)(?=[のはがをにで])", re.IGNORECASE
)
"""References to something known: a noun with a definite article, or the topic of a Japanese sentence."""


def _referenced_project(message: str, profiles: Sequence[Profile]) -> str | None:
    """Return the only project with a short profile that has something which the message refers to as known.

    "Who speaks in the podcast?" asks about the project that was begun with the sentence "Let's set up a podcast",
    however common the word is; a project with documents is found by more.
    """
    if _NEW_TOPIC.search(fold(message)):
        return None
    phrases = [" ".join(filter(None, match)) for match in _REFERENCE.findall(message)]
    terms = {term for phrase in phrases for term in analyse(phrase) if _size(term) >= _PAIR}
    about = {term: [each.name for each in profiles if each.terms.get(term, 0) >= DESCRIPTION_WEIGHT] for term in terms}
    names = {having[0] for having in about.values() if len(having) == 1}
    name = names.pop() if len(names) == 1 else None
    return next(
        (each.name for each in profiles if each.name == name and _topic_size(each.terms) < DETAILED_PROFILE_SIZE), None
    )


def _continues_session(message: str, size: float, best: float, own: float) -> bool:
    """Return whether a message continues its session's project: no other has more evidence, nothing new begins."""
    if best >= MEDIUM_EVIDENCE:
        return best - own < MEDIUM_LEAD * best
    return size < MIN_NEW_TOPIC_SIZE or not _NEW_TOPIC.search(fold(message))


def evidence(terms: Iterable[str], profiles: Sequence[Profile], *, most: float = NAME_WEIGHT) -> dict[str, float]:
    """Return the evidence for each project; 1 is one word that no other has, `most` limits each word's weight."""
    terms = set(terms)
    having = {term: sum(term in each.terms for each in profiles) for term in terms}
    return {
        each.name: fsum(
            _size(term) * min(most, each.terms[term]) / having[term] ** SHARING_EXPONENT
            for term in terms
            if term in each.terms
        )
        for each in profiles
    }


def _size(term: str) -> float:
    """Return the weight of a term in words; Japanese expressions also come as characters and as pairs."""
    if not is_unspaced(term):
        return 1.0
    if term.startswith(COMPOUND):
        return _EXPRESSION if len(term) > len(COMPOUND) + 2 else _PAIR
    return _CHARACTER if len(term) == 1 else _PAIR


def _topic_size(terms: Iterable[str]) -> float:
    """Return how many content words there are; of Japanese, the runs of kanji or katakana and some of the kana."""
    found = set(terms)
    compounds = {term for term in found if term.startswith(COMPOUND)}
    in_kana = {term for term in found if is_unspaced(term) and _IS_KANA.fullmatch(term)}
    return len(compounds) + _PAIR * len(in_kana) + sum(1.0 for term in found if not is_unspaced(term))


def weighted_overlap(one: Set[str], other: Set[str]) -> float:
    """Return in [0, 1] the shared part of two sets of terms, weighted by their size."""
    union = fsum(_size(term) for term in one | other)
    return fsum(_size(term) for term in one & other) / union if union else 0.0


def _similar_correction(message: str, examples: Sequence[Example], names: Sequence[str]) -> Prediction | None:
    known, terms = set(names), _terms(message[:COMPARED_LENGTH])
    usable = [each for each in examples if each.project in known]
    scored = [
        (weighted_overlap(terms, _terms(each.message[:COMPARED_LENGTH])), -place) for place, each in enumerate(usable)
    ]
    like, place = max(scored, default=(0.0, 0))
    if like < MEDIUM_SIMILARITY:
        return None
    confidence = Confidence.HIGH if like >= HIGH_SIMILARITY else Confidence.MEDIUM
    return Prediction(usable[-place].project, None, confidence, LIKE_CORRECTED)


def _unknown(message: str, terms: Set[str], names: Sequence[str]) -> Prediction:
    """Return a prediction without a project, with a proposed name if the message begins something new."""
    if _topic_size(terms) < MIN_TOPIC_SIZE or not _NEW_TOPIC.search(fold(message)):
        return Prediction(None, None, Confidence.LOW, WORDS_OF_NONE)
    kept = [word for word in fold(message).split() if any(term in terms for term in analyse(word))]
    proposed = free_name(propose_name(" ".join(kept[:MAX_PROPOSED_WORDS])), names)
    return Prediction(None, proposed, Confidence.LOW, BEGINS)


MIN_TOPIC_SIZE: Final = 2.0
"""Content words that a message needs for a project to be named after it."""

DETAILED_PROFILE_SIZE: Final = 25.0
"""Content words of a project of which more than a sentence is known."""

MIN_NEW_TOPIC_SIZE: Final = 4.0
"""The same in a session that is about a project: "start with the second one" begins nothing."""

_NEW_TOPIC: Final = re.compile(
    r"\b(?:start|begin|build|create|launch|plan|organi[sz]e|prototype|new project|we want|i want|set up|draft|idea"
    r"|propos|let's|i'd like to|we would like to)"
    r"|新しい|新しく|新規|始め|はじめ|立ち上げ|企画|作りたい|つくりたい|計画を|やりたい|開きたい|開くこと|開催|検討したい|構想"
    r"|案を|案が|提案"
)
"""Wording of messages that begin something new."""


def most_similar(message: str, examples: Sequence[Example], number: int) -> list[Example]:
    """Return so many of the examples, the most similar first; of equally similar ones the latest."""
    terms = _terms(message[:COMPARED_LENGTH])
    ranked = sorted(examples, key=lambda each: -weighted_overlap(terms, _terms(each.message[:COMPARED_LENGTH])))
    return ranked[:number]  # stable sort: ties keep the latest first


def similarity(one: str, other: str) -> float:
    return weighted_overlap(_terms(one[:COMPARED_LENGTH]), _terms(other[:COMPARED_LENGTH]))
