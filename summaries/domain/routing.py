"""What follows from a router's verdict, and a router of words for where there is no model (SPEC P3, P4). Pure.

A word tells much where few projects have it, and nothing where all do. What a message shares with a project is its
evidence; how sure the verdict is depends on how much evidence there is, and on how far the next project is behind.
The bounds were measured (`bench/routing.py`); a routing by words is never sure on one common word alone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from memoryhub.search.analysis import COMPOUND, analyse, fold, is_unspaced
from summaries.domain.projects import free_name, is_name, propose_name


class Confidence(StrEnum):
    """How sure a router is."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Action(StrEnum):
    """What is done about a message."""

    ROUTE = "route"
    DISCLOSE = "route_and_disclose"
    ASK = "ask"
    PROPOSE = "propose_new"


CONSEQUENCES: Final[Mapping[Confidence, Action]] = {
    Confidence.HIGH: Action.ROUTE,
    Confidence.MEDIUM: Action.DISCLOSE,
}
"""What follows where a project was found. Where none was, or at low confidence, the user decides."""

LONGEST_REASON: Final = 500
MOST_PROPOSED_WORDS: Final = 4


@dataclass(frozen=True)
class Prediction:
    """What a router found: a project's name or None, what a new one could be called, how sure, and why."""

    project: str | None
    proposed_name: str | None
    confidence: Confidence
    reason: str = field(default="", repr=False)


def action_of(verdict: Prediction) -> Action:
    """Return what follows from a verdict (SPEC P3)."""
    if verdict.project is not None and verdict.confidence in CONSEQUENCES:
        return CONSEQUENCES[verdict.confidence]
    return Action.PROPOSE if verdict.proposed_name else Action.ASK


@dataclass(frozen=True)
class PastDecision:
    """What was decided of an earlier message of a session, and what a person made of it."""

    project: str | None
    confidence: Confidence
    action: Action
    corrected: str | None = None


def session_project(decided: Iterable[PastDecision]) -> str | None:
    """Return the project that a session is about, by its decisions, latest first; None where that is open.

    What a person put right counts, or what a router was sure of, unless another project was guessed or a new one
    proposed since.
    """
    guessed: set[str] = set()
    for each in decided:
        sure = each.corrected or (each.project if each.confidence is Confidence.HIGH else None)
        if sure:
            return sure if guessed <= {sure} else None
        if each.action is Action.PROPOSE:
            return None
        if each.project:
            guessed.add(each.project)
    return None


def usable_prediction(
    verdict: Prediction, projects: Sequence[str], *, so_far: str | None = None
) -> Prediction:
    """Return a model's verdict with names that can be used: an unknown project is none, a proposal is free.

    At low confidence there is no project: nobody is routed by a guess, but for the project that the session is about
    already, `so_far`.
    """
    known = verdict.project if verdict.project in projects else None
    if known is not None and known == so_far and verdict.confidence is Confidence.LOW:
        return Prediction(known, None, Confidence.MEDIUM, verdict.reason[:LONGEST_REASON])
    if known is not None and verdict.confidence is not Confidence.LOW:
        return Prediction(known, None, verdict.confidence, verdict.reason[:LONGEST_REASON])
    wanted = verdict.proposed_name or (verdict.project if known is None else None)
    proposed = None
    if wanted and wanted not in projects:
        proposed = free_name(wanted if is_name(wanted) else propose_name(wanted), projects)
    confidence = (
        verdict.confidence if proposed and known is None and verdict.project is None else Confidence.LOW
    )
    return Prediction(None, proposed, confidence, verdict.reason[:LONGEST_REASON])


def answer_schema() -> dict[str, Any]:
    """Return the form of a model's answer."""
    text_or_null = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    return {
        "type": "object",
        "properties": {
            "project": text_or_null,
            "proposed_name": text_or_null,
            "confidence": {"type": "string", "enum": [each.value for each in Confidence]},
            "reason": {"type": "string"},
        },
        "required": ["project", "proposed_name", "confidence", "reason"],
        "additionalProperties": False,
    }


def parse_prediction(data: Mapping[str, Any]) -> Prediction:
    """Return the verdict that an answer under `answer_schema` holds."""
    return Prediction(
        data["project"] or None, data["proposed_name"] or None, Confidence(data["confidence"]), data["reason"]
    )


NAME_WEIGHT: Final = 1.5
DESCRIPTION_WEIGHT: Final = 1.0
TEXT_WEIGHT: Final = 0.8
EXAMPLE_WEIGHT: Final = 0.8
"""What a shared word counts for by where the project has it: in its name, its description, its documents, or in what
people put right."""

SHARING: Final = 1.0
"""The exponent by which a word that several projects have tells less."""

ENOUGH: Final = 2.2
"""Evidence for a verdict that is sure: more than two words that no other project has, wherever they stand.

"system design" shares both words with a project called design-system, and may be about something else."""

SOME: Final = 0.7
"""Evidence for a best guess: about one such word."""

FAR_AHEAD: Final = 0.5
AHEAD: Final = 0.25
"""How much of its evidence the best project must have over the next, to be sure and to be guessed."""

SIMILAR: Final = 0.45
VERY_SIMILAR: Final = 0.7
"""From which likeness on a message is routed as one that was put right, and when that is sure."""

COMPARED: Final = 1_000
"""Characters of two messages by which it is told whether they are alike."""

WHOLE_SHARE: Final = 6_000
LEAST_SHARE: Final = 375
MOST_TEXT: Final = 240_000
"""Characters of one document, where few have many, and of all: to analyse them takes a second or so, once."""

MOST_DOCUMENTS: Final = MOST_TEXT // LEAST_SHARE
MOST_LISTED: Final = 300
"""Projects that a model is shown: more would cost more to read than they help."""

_CHARACTER: Final = 0.1
_PAIR: Final = 0.25
_EXPRESSION: Final = 0.5  # its pairs count besides


@dataclass(frozen=True)
class Profile:
    """What is known of a project: words by where they stand, the best place first."""

    name: str
    terms: Mapping[str, float]


@dataclass(frozen=True)
class Example:
    """A message that a person put right, the project that it belongs to, and the decision that was put right."""

    message: str
    project: str
    decision_id: UUID | None = None


def profile_of(name: str, *, description: str, texts: Sequence[str], examples: Sequence[str] = ()) -> Profile:
    """Return a project's profile; each word counts by the best place that it stands at."""
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
    """Return the words of a text; documents and examples are much the same from one message to the next."""
    return frozenset(analyse(text))


def characters_per_document(documents: int) -> int:
    """Return how many characters of each document count, where there are so many of them."""
    share = WHOLE_SHARE
    while share > LEAST_SHARE and share * documents > MOST_TEXT:
        share //= 2
    return share


def shortlist(message: str, profiles: Sequence[Profile], *, first: Sequence[str]) -> list[str]:
    """Return the names of at most MOST_LISTED projects, in their order: `first`, then the likest ones."""
    names = [each.name for each in profiles]
    if len(names) <= MOST_LISTED:
        return names
    found = evidence(analyse(message), profiles)
    ranked = sorted(names, key=lambda name: (name not in first, -found[name]))
    kept = set(ranked[:MOST_LISTED])
    return [name for name in names if name in kept]


def exact_correction(
    message: str, examples: Sequence[Example], names: Sequence[str], *, so_far: str | None = None
) -> Prediction | None:
    """Return where people put the very same message, which nothing decides anew; None where they put it nowhere.

    `examples` come latest first. "Thanks, it works" was put right in one session; in another, which is about `so_far`,
    it goes on about that one's project. Of what is long the beginning alone is known, which many a letter shares.
    """
    if len(message) >= COMPARED or (so_far in names and _says(analyse(message)) < SAYS_SOMETHING):
        return None
    folded = fold(message).split()
    for each in examples:
        if len(each.message) < COMPARED and each.project in names and fold(each.message).split() == folded:
            return Prediction(each.project, None, Confidence.HIGH, "The same message was put right before.")
    return None


def route_by_words(
    message: str, profiles: Sequence[Profile], examples: Sequence[Example], *, so_far: str | None = None
) -> Prediction:
    """Return the verdict of words: as a message like it was put right, else by what it shares with each project.

    `examples` come latest first; of equally like ones the latest counts. What names no project stays with `so_far`,
    the one that its session is about.
    """
    terms = frozenset(analyse(message))
    names = [each.name for each in profiles]
    so_far = so_far if so_far in names else None
    says = _says(terms)
    if told := exact_correction(message, examples, names, so_far=so_far):
        return told
    if (so_far is None or says >= SAYS_SOMETHING) and (told := _like_one_put_right(message, examples, names)):
        return told
    found = evidence(terms, profiles)
    scored = sorted(
        ((score, name) for name, score in found.items()),
        key=lambda each: (-each[0], each[1]),
    )
    best, name = scored[0] if scored else (0.0, "")
    second = scored[1][0] if len(scored) > 1 else 0.0
    lead = (best - second) / best if best else 0.0
    if lead >= FAR_AHEAD and evidence(terms, profiles, most=1.0).get(name, 0.0) >= ENOUGH:
        return Prediction(name, None, Confidence.HIGH, f"Its words are those of {name}.")
    if best >= SOME and lead >= AHEAD:
        return Prediction(name, None, Confidence.MEDIUM, f"Some of its words are those of {name}.")
    if so_far is not None and _stays(message, says, best, found[so_far]):
        return Prediction(so_far, None, Confidence.MEDIUM, f"Its session is about {so_far}.")
    if best >= SOME:
        return Prediction(
            None, None, Confidence.LOW, f"Its words are those of {name} and of {scored[1][1]} alike."
        )
    return _unknown(message, terms, names)


def _stays(message: str, says: float, best: float, so_far: float) -> bool:
    """Say whether a message goes on about its session's project: others have no better claim, and nothing begins."""
    if best >= SOME:
        return best - so_far < AHEAD * best
    return says < BEGINS_ANEW or not _BEGINS.search(fold(message))


def evidence(
    terms: Iterable[str], profiles: Sequence[Profile], *, most: float = NAME_WEIGHT
) -> dict[str, float]:
    """Return how much each project has in common with a message; 1 is one word of its own, `most` what any counts."""
    terms = set(terms)
    having = {term: sum(term in each.terms for each in profiles) for term in terms}
    return {
        each.name: sum(
            _size(term) * min(most, each.terms[term]) / having[term] ** SHARING
            for term in terms
            if term in each.terms
        )
        for each in profiles
    }


def _size(term: str) -> float:
    """Return how much of a word a term is: expressions of Japanese come as characters and as pairs besides."""
    if not is_unspaced(term):
        return 1.0
    if term.startswith(COMPOUND):
        return _EXPRESSION if len(term) > len(COMPOUND) + 2 else _PAIR
    return _CHARACTER if len(term) == 1 else _PAIR


def _says(terms: Iterable[str]) -> float:
    """Return how many words of content a message has."""
    return sum(_size(term) for term in set(terms))


def weighted_overlap(one: Set[str], other: Set[str]) -> float:
    """Return in [0, 1] how much of what two messages say they both say."""
    union = sum(_size(term) for term in one | other)
    return sum(_size(term) for term in one & other) / union if union else 0.0


def _like_one_put_right(message: str, examples: Sequence[Example], names: Sequence[str]) -> Prediction | None:
    known, terms = set(names), _terms(message[:COMPARED])
    usable = [each for each in examples if each.project in known]
    scored = [
        (weighted_overlap(terms, _terms(each.message[:COMPARED])), -place)
        for place, each in enumerate(usable)
    ]
    like, place = max(scored, default=(0.0, 0))
    if like < SIMILAR:
        return None
    confidence = Confidence.HIGH if like >= VERY_SIMILAR else Confidence.MEDIUM
    return Prediction(usable[-place].project, None, confidence, "A message like it was put right before.")


def _unknown(message: str, terms: Set[str], names: Sequence[str]) -> Prediction:
    """Return that no project is known for a message; one that begins something is proposed a name for it."""
    if _says(terms) < SAYS_SOMETHING or not _BEGINS.search(fold(message)):
        return Prediction(None, None, Confidence.LOW, "Its words are those of no project.")
    proposed = free_name(propose_name(_gist(message, terms)), names)
    return Prediction(None, proposed, Confidence.LOW, "It seems to begin something that no project is about.")


SAYS_SOMETHING: Final = 2.0
"""Words of content that a message needs, for a project to be named after it."""

BEGINS_ANEW: Final = 4.0
"""The same in a session that is about a project: "start with the second one" begins nothing."""

_BEGINS: Final = re.compile(
    r"\b(?:start|begin|build|create|launch|plan|organi[sz]e|prototype|new project|we want|i want)"
    r"|新しい|新規|始め|はじめ|立ち上げ|企画|作りたい|つくりたい|計画を"
)
"""How people speak of what is not there yet."""


def _gist(message: str, terms: Set[str]) -> str:
    """Return the message's first words of content, which a new project can be named after."""
    kept = [word for word in fold(message).split() if any(term in terms for term in analyse(word))]
    return " ".join(kept[:MOST_PROPOSED_WORDS])


def most_similar(message: str, examples: Sequence[Example], number: int) -> list[Example]:
    """Return so many of the examples, most like the message first; of equally like ones the latest."""
    terms = _terms(message[:COMPARED])
    ranked = sorted(examples, key=lambda each: -weighted_overlap(terms, _terms(each.message[:COMPARED])))
    return ranked[:number]  # sorted as they came, where they are equally alike


def similarity(one: str, other: str) -> float:
    """Return in [0, 1] how alike two messages are, by as much of each as is compared."""
    return weighted_overlap(_terms(one[:COMPARED]), _terms(other[:COMPARED]))
