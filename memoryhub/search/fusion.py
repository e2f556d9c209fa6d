"""Fuse cosine and word score into one relevance. Pure; `query.py` has the same as SQL.

Relevance is absolute: each score is scaled by bounds that do not depend on the other hits. So a query on an unknown
topic finds nothing relevant, and a minimum relevance means the same in every embedding space. docs/algorithm.md has the
measurements behind the constants.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

PASSAGE_LENGTH: Final = 60.0
"""Length of a passage in words, see `bm25.text_length`."""


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

    A word score of `word_midpoint` has relevance 0.5; `word_steepness` is the exponent of the curve. A message gains
    `neighbour_share` of the relevance of the messages next to it, `reply_share` of another author's question that it
    follows, and `second_neighbour_share` of messages two away. A question keeps `question_share` of its relevance, and
    a message by another author than the one named by the query `other_author_share`.

    All but the last apply less to long messages, which depend less on context and state facts even if they end in a
    question; half at a length of `self_contained_length` words.

    `odds` of memories and `message_odds` map the result to the scale of a probability, see `calibrated`: messages share
    words with a question without answering it more often than memories, which were selected. With more than
    `base_count` memories the odds fall with their number to the power of `count_exponent`, see `odds_by_count`; with a
    typical length of more than `base_length` words to the power of `length_exponent`, see `odds_by_typical_length`.

    `of_message` has other parameters for messages to an assistant: odds also fall with more than `short_length` rare
    terms, and with the number of passages of a memory to the power of `passage_exponent`, see `odds_by_length`;
    `need_odds` are the odds that the message needs a memory at all. None, or 0, disables each.
    """

    word_midpoint: float = 0.8
    word_steepness: float = 3.5
    neighbour_share: float = 0.4
    reply_share: float = 0.9
    second_neighbour_share: float = 0.35
    question_share: float = 0.65
    other_author_share: float = 0.75
    self_contained_length: float = 60.0
    odds: float = 20.0
    base_count: int = 60
    short_length: float | None = None
    count_exponent: float = 0.75
    base_length: float = 15.0
    length_exponent: float = 1.25
    message_odds: float = 0.4
    need_odds: float | None = None
    passage_exponent: float = 0.0

    def of_message(self, need_odds: float | None) -> Self:
        """Return the parameters for a message to an assistant, which is not necessarily a search for memories."""
        return replace(self, odds=60.0, short_length=5.0, need_odds=need_odds, passage_exponent=0.5)

    def alone(self) -> Self:
        """Return the parameters for messages without their neighbours, calibrated as messages."""
        return replace(
            self,
            odds=self.message_odds,
            count_exponent=0.0,
            length_exponent=0.0,
            short_length=None,
            need_odds=None,
            passage_exponent=0.0,
        )


DEFAULT_POLICY: Final = FusionPolicy()


def relevance(
    similarity_raw: float | None, word_raw: float | None, bounds: SpaceBounds, policy: FusionPolicy = DEFAULT_POLICY
) -> float:
    """Return a text's relevance in [0, 1]: the noisy-or of the scaled cosine and the scaled word score.

    Either alone can make a text relevant. `similarity_raw` is None if the text or the query has no vector, `word_raw`
    if the query is only a vector; the cosine then has its full weight.
    """
    weight = 1.0 if word_raw is None else bounds.vector_weight
    by_vector = weight * scaled_similarity(similarity_raw, bounds)
    return 1 - (1 - by_vector) * (1 - scaled_words(word_raw or 0.0, policy))


def scaled_similarity(similarity_raw: float | None, bounds: SpaceBounds) -> float:
    """Return the cosine scaled linearly from the space's bounds to [0, 1]."""
    if similarity_raw is None:
        return 0.0
    share = (similarity_raw - bounds.cosine_low) / (bounds.cosine_high - bounds.cosine_low)
    return min(1.0, max(0.0, share))


def scaled_words(word_raw: float, policy: FusionPolicy = DEFAULT_POLICY) -> float:
    """Return the word score scaled to [0, 1) by a Hill function: low for one shared word, high for most words.

    Strictly increasing, so that different scores never tie.
    """
    constant = math.pow(policy.word_midpoint, policy.word_steepness)
    return 1 - constant / (math.pow(word_raw, policy.word_steepness) + constant)


def odds_by_count(compared: int, information: float = 0.0, policy: FusionPolicy = DEFAULT_POLICY) -> float:
    """Return the odds of each of `compared` memories for a query with `information`, see `bm25.QueryWords`.

    With more memories and more terms, more memories match by chance, while the useful ones hardly become more; hence
    an exponent below 1.
    """
    chances = max(policy.base_count, compared) / policy.base_count * relative_length(information, policy)
    return policy.odds * math.pow(chances, -policy.count_exponent)


def odds_by_typical_length(lengths: Sequence[float], policy: FusionPolicy = DEFAULT_POLICY) -> float:
    """Return the factor on the odds of memories of these lengths, at most 1; a geometric mean, for few are documents.

    Paragraphs of one subject share its terms, so fewer of those that match answer. All are multiplied alike, so their
    order stays.
    """
    logs = [math.log(min(max(1.0, length), PASSAGE_LENGTH)) for length in lengths]
    typical = math.exp(sum(logs) / len(logs)) if logs else 1.0
    return math.pow(policy.base_length / max(policy.base_length, typical), policy.length_exponent)


def odds_by_length(length: float, policy: FusionPolicy = DEFAULT_POLICY) -> float:
    """Return the factor on the odds of a memory of `length` words, at most 1.

    Each passage is a chance to match: without the factor, few documents are part of every context.
    """
    return math.pow(max(1.0, length / PASSAGE_LENGTH), -policy.passage_exponent)


def relative_length(information: float, policy: FusionPolicy = DEFAULT_POLICY) -> float:
    """Return a message's information relative to that of a short message, at least 1."""
    return 1.0 if policy.short_length is None else max(policy.short_length, information) / policy.short_length


def usefulness(relevance: float, odds: float, policy: FusionPolicy = DEFAULT_POLICY) -> float:
    """Return the probability that a memory is meant and that the message needs any; both grow with the relevance."""
    needed = 1.0 if policy.need_odds is None else calibrated(relevance, policy.need_odds)
    return calibrated(relevance, odds) * needed


def calibrated(relevance: float, odds: float) -> float:
    """Return the relevance with its odds multiplied: about the probability of being useful (docs/algorithm.md).

    Applied last, as neighbours are combined on the scale on which they are independent.
    """
    return odds * relevance / (1 + (odds - 1) * relevance)


@dataclass(frozen=True)
class Turn:
    """A message in its conversation; `relevance` is its own, 0 if it is no candidate."""

    relevance: float
    asks: bool = False
    is_by_other: bool = False
    """The query names one author of this conversation, and this message is by another."""
    continues: bool = False
    """The message before is known to be by the same author, so that this one is no reply."""
    length: int = 0
    """In words, see `bm25.text_length`."""


def contextual_relevances(turns: Sequence[Turn], policy: FusionPolicy = DEFAULT_POLICY) -> list[float]:
    """Return the relevances of a session's messages, in order, adjusted by their neighbours.

    The answer to a query is often next to the matching message, above all as the reply to a question. The question
    itself, or another author's message, rarely is the answer.
    """
    padding = [Turn(0.0)] * 2
    padded = [*padding, *turns, *padding]
    return [_contextual_relevance(padded[at - 2 : at + 3], policy) for at in range(2, len(turns) + 2)]


def _contextual_relevance(window: Sequence[Turn], policy: FusionPolicy) -> float:
    """Return the relevance of the middle one of five turns."""
    before_last, last, own, following, after_next = window
    dependence = _dependence(own, policy)
    is_reply = last.asks and not own.continues
    reply_gain = (policy.reply_share - policy.neighbour_share) * _dependence(last, policy) * is_reply
    next_to = max((policy.neighbour_share + reply_gain) * last.relevance, policy.neighbour_share * following.relevance)
    beyond = policy.second_neighbour_share * max(before_last.relevance, after_next.relevance)
    relevance = 1 - (1 - own.relevance) * (1 - dependence * next_to) * (1 - dependence * beyond)
    relevance *= 1 - (1 - policy.question_share) * dependence * own.asks
    return relevance * (policy.other_author_share if own.is_by_other else 1.0)


def _dependence(turn: Turn, policy: FusionPolicy) -> float:
    """Return a message's dependence on its neighbours in (0, 1]; less for longer ones."""
    return 1 / (1 + (turn.length / policy.self_contained_length) ** 2)
