"""Fuse what the vectors and the words say into one relevance. The SQL of it is in `query.py`.

Pure. Relevance is absolute: each arm is scaled by bounds that do not depend on the other hits, so a
query about nothing that is remembered finds nothing relevant, and a floor on relevance means the
same in every embedding space. The figures behind the constants are in docs/algorithm.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self


@dataclass(frozen=True)
class SpaceBounds:
    """Calibration of cosines in one embedding space.

    `cosine_low` is the cosine of unrelated texts, `cosine_high` that of a text and its paraphrase; `vector_weight` in
    [0, 1] is the relevance of a perfect cosine without words.
    """

    cosine_low: float
    cosine_high: float
    vector_weight: float

    def __post_init__(self) -> None:
        if not -1 <= self.cosine_low < self.cosine_high <= 1:
            raise ValueError(f"Bounds must be -1 <= low < high <= 1, not {self.cosine_low} and {self.cosine_high}.")
        if not 0 <= self.vector_weight <= 1:
            raise ValueError(f"A vector weight lies in [0, 1], unlike {self.vector_weight}.")


@dataclass(frozen=True)
class FusionPolicy:
    """Parameters that turn word scores into relevance, and adjust messages by their place in a conversation.

    A word score of `word_midpoint` is half relevant; `word_steepness` is the exponent of the curve. A message gains
    `neighbour_share` of the relevance next to it, `reply_share` of another's question that it follows, and
    `beyond_share` of what is two away. It keeps `asking_share` of its relevance where it asks instead of tells, and
    `other_author_share` where the query is about somebody else's words.

    All but the last hold for short messages: a long one says by itself what it is about, and states facts also
    where it ends in a question. `self_contained_length`, in words, is where they count by half.

    `message_odds`, and of memories `odds`, bring the result to the scale of a probability, see `calibrated`. A
    conversation says much that shares words with a question and does not answer it; what was chosen to be remembered,
    less. Among more than `few` memories the odds fall with their number to the power of `crowding`, see `odds_among`.

    A message that is no search for memories has others, see `of_message`: the odds fall as well where it says more than
    `brief` rare words, and `need` are its odds to need a memory at all. None: neither counts.
    """

    word_midpoint: float = 0.8
    word_steepness: float = 3.5
    neighbour_share: float = 0.4
    reply_share: float = 0.9
    beyond_share: float = 0.35
    asking_share: float = 0.65
    other_author_share: float = 0.75
    self_contained_length: float = 60.0
    odds: float = 20.0
    few: int = 60
    brief: float | None = None
    crowding: float = 0.75
    message_odds: float = 0.4
    need: float | None = None

    def of_message(self, need: float | None) -> Self:
        """Return the parameters for a message to an assistant, of which nobody has said that it wants memories."""
        return replace(self, odds=60.0, brief=5.0, need=need)


DEFAULT_POLICY: Final = FusionPolicy()


def relevance(
    similarity_raw: float | None, word_raw: float | None, bounds: SpaceBounds, policy: FusionPolicy = DEFAULT_POLICY
) -> float:
    """Return in [0, 1] how relevant a text is: the chance that either arm is right, were they independent.

    Either arm alone can make a text relevant, and neither takes from the other. `similarity_raw` is None
    where a text or the query has no vector: then words decide alone. `word_raw` is None where the query
    is only a vector: then the cosine decides alone, with its full weight.
    """
    weight = 1.0 if word_raw is None else bounds.vector_weight
    by_vector = weight * scaled_similarity(similarity_raw, bounds)
    return 1 - (1 - by_vector) * (1 - scaled_words(word_raw or 0.0, policy))


def scaled_similarity(similarity_raw: float | None, bounds: SpaceBounds) -> float:
    """Return the cosine as a share of the way from the space's low to its high, within [0, 1]."""
    if similarity_raw is None:
        return 0.0
    share = (similarity_raw - bounds.cosine_low) / (bounds.cosine_high - bounds.cosine_low)
    return min(1.0, max(0.0, share))


def scaled_words(word_raw: float, policy: FusionPolicy = DEFAULT_POLICY) -> float:
    """Return the word score on an S-shaped curve (Hill's): one shared word little, most of the words much.

    Unlike a ramp cut off at both ends it is strictly increasing, so that no two scores become a tie.
    """
    constant = math.pow(policy.word_midpoint, policy.word_steepness)
    return 1 - constant / (math.pow(word_raw, policy.word_steepness) + constant)


def odds_among(compared: int, said: float = 0.0, policy: FusionPolicy = DEFAULT_POLICY) -> float:
    """Return the odds of each of so many memories that were compared with a query that says so many rare words.

    Of few memories, one that shares a rare word is likely to be meant. The more memories there are, and the more words,
    the more share some by chance, while those that help stay as few; not all of a larger number is about other things,
    hence an exponent below 1.
    """
    chances = max(policy.few, compared) / policy.few * brevity(said, policy)
    return policy.odds * math.pow(chances, -policy.crowding)


def brevity(said: float, policy: FusionPolicy = DEFAULT_POLICY) -> float:
    """Return how many times as much as a brief message a message says, at least 1."""
    return 1.0 if policy.brief is None else max(policy.brief, said) / policy.brief


def helpful(relevance: float, odds: float, policy: FusionPolicy = DEFAULT_POLICY) -> float:
    """Return the chance that a memory helps: that it is the one meant, and that the message needs any.

    Both grow with the relevance: who asks with the very words of a memory is likely to have meant it.
    """
    needed = 1.0 if policy.need is None else calibrated(relevance, policy.need)
    return calibrated(relevance, odds) * needed


def calibrated(relevance: float, odds: float) -> float:
    """Return the relevance with its odds multiplied: about the share of such texts that do help (docs/algorithm.md).

    Only now, so that neighbours are combined on the scale on which they are independent.
    """
    return odds * relevance / (1 + (odds - 1) * relevance)


@dataclass(frozen=True)
class Turn:
    """A message as its neighbours see it: its own relevance, 0 for one that is no candidate."""

    relevance: float
    asks: bool = False
    is_by_other: bool = False
    """The query names one author of this conversation, and it is not this message's."""
    continues: bool = False
    """The message before it is known to be by the same author: what follows a question of one's own is no reply."""
    length: int = 0
    """In words, as `bm25.text_length` counts."""


def in_conversation(turns: Sequence[Turn], policy: FusionPolicy = DEFAULT_POLICY) -> list[float]:
    """Return the relevances of one session's messages, in order, each as it stands among the others.

    What answers a question often stands beside the words that match it, above all after a question that
    somebody asked then. The question itself, or another person's words, rarely are the answer.
    """
    silent = Turn(0.0)
    padded = [silent, silent, *turns, silent, silent]
    return [_in_place(padded[at - 2 : at + 3], policy) for at in range(2, len(turns) + 2)]


def _in_place(window: Sequence[Turn], policy: FusionPolicy) -> float:
    """Return the relevance of the middle one of five turns."""
    before_last, last, own, following, after_next = window
    dependence = _dependence(own, policy)
    is_reply = last.asks and not own.continues
    reply_gain = (policy.reply_share - policy.neighbour_share) * _dependence(last, policy) * is_reply
    next_to = max((policy.neighbour_share + reply_gain) * last.relevance, policy.neighbour_share * following.relevance)
    beyond = policy.beyond_share * max(before_last.relevance, after_next.relevance)
    relevance = 1 - (1 - own.relevance) * (1 - dependence * next_to) * (1 - dependence * beyond)
    relevance *= 1 - (1 - policy.asking_share) * dependence * own.asks
    return relevance * (policy.other_author_share if own.is_by_other else 1.0)


def _dependence(turn: Turn, policy: FusionPolicy) -> float:
    """Return in (0, 1] how much a message needs its neighbours to be understood."""
    return 1 / (1 + (turn.length / policy.self_contained_length) ** 2)
