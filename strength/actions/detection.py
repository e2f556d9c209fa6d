"""Which of the memories that a task was given its result has used (SPEC S8)."""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from memoryhub.llm.base import ChatMessage, CompletionRequest, Operation
from memoryhub.providers.asking import ask
from memoryhub.providers.errors import ProviderError, ProviderRejected
from memoryhub.providers.spaces import EMBED_QUERY, active_space, embedded
from memoryhub.providers.spending import payer
from memoryhub.search.analysis import analyse
from memoryhub.search.statistics import idf
from memoryhub.search.words import term_ids
from memoryhub.tenancy.models import Actor
from memoryhub.validators import text_problem
from strength.domain.judging import (
    JUDGING_SCHEMA,
    LEARNING_SCHEMA,
    UnreadableJudgement,
    judged,
    judging_prompt,
    learning_prompt,
)
from strength.domain.using import (
    Offered,
    passages,
    used_by_vectors,
    used_by_words,
)
from strength.models import Memory, MemoryIndex

log = logging.getLogger(__name__)

DEADLINE_SECONDS: Final = 30.0
ANSWER_TOKENS: Final = 1_000
FENCE_BYTES: Final = 16
MOST_PASSAGES: Final = 20
MOST_CHARACTERS: Final = 20_000
"""As much of each memory is compared: whoever waits for the answer would feel more."""


@dataclass(frozen=True)
class Detection:
    """The memories that were found to be used, and what went wrong on the way."""

    memory_ids: list[UUID]
    errors: list[str]


def detect_use(
    *, actor: Actor, how: str, result: str, query: str, memories: Sequence[Memory], language: str
) -> Detection:
    """Find the used memories by `keywords`, `embedding` or `llm`; network, so outside any transaction.

    Where a provider is away, words decide, and the errors say so.
    """
    offered = [Offered(memory.pk, memory.content[:MOST_CHARACTERS]) for memory in memories]
    if not offered or not result.strip():
        return Detection([], [])
    try:
        if how == "llm":
            return Detection(_by_model(actor, result, offered, language), [])
        if how == "embedding":
            return Detection(_by_vectors(actor, result, query, memories), [])
    except (ProviderError, UnreadableJudgement) as error:
        log.warning("use detection fell back to words", extra={"how": how, "error": type(error).__name__})
        told = f"Use was found by words, for {how} could not be asked: {error}"
        return Detection(_by_words(result, query, offered), [told])
    return Detection(_by_words(result, query, offered), [])


def draw_learning(*, actor: Actor, query: str, result: str, language: str) -> tuple[str, str]:
    """Return a learning that a model draws from a result: what was learnt, and why. Network; raises ProviderError."""
    system, message = learning_prompt(query, result, language=language, fence=secrets.token_hex(FENCE_BYTES))
    data = _asked(actor, Operation.EXTRACT, system, message, LEARNING_SCHEMA)
    content, learning = str(data.get("content", "")), str(data.get("learning", ""))
    if text_problem(content) or text_problem(learning):
        raise ProviderRejected(
            "The model's learning holds characters that cannot be stored.", code="unusable_answer"
        )
    return content, learning


def _by_words(result: str, query: str, offered: Sequence[Offered[UUID]]) -> list[UUID]:
    terms = {term for each in offered for term in term_ids(analyse(each.text))}
    return used_by_words(result, offered, query=query, idf=idf(terms))


def _by_model(actor: Actor, result: str, offered: Sequence[Offered[UUID]], language: str) -> list[UUID]:
    system, message = judging_prompt(result, offered, language=language, fence=secrets.token_hex(FENCE_BYTES))
    return judged(_asked(actor, Operation.JUDGE, system, message, JUDGING_SCHEMA), offered)


def _asked(actor: Actor, operation: Operation, system: str, message: str, schema: Any) -> Any:
    request = CompletionRequest(
        operation=operation, messages=(ChatMessage("user", message),), max_output_tokens=ANSWER_TOKENS,
        deadline_seconds=DEADLINE_SECONDS, system=system, json_schema=schema,
    )  # fmt: skip
    return ask(request, actor=actor).data


def _by_vectors(actor: Actor, result: str, query: str, memories: Sequence[Memory]) -> list[UUID]:
    """Compare each memory's vector with the passages of the result, and with the query. Raises ProviderError."""
    space = active_space()
    said = [text for text in passages(result) if text.strip()][:MOST_PASSAGES]
    texts = [*said, *([query] if query.strip() else [])]
    embeddings = embedded(space, texts, operation=EMBED_QUERY, payer=payer(actor)).tolist()
    spoken, asked = embeddings[: len(said)], next(iter(embeddings[len(said) :]), None)
    rows = MemoryIndex.objects.filter(
        actor_id__in={memory.actor_id for memory in memories},
        space=space,
        memory__in=memories,
        vector__isnull=False,
    )
    vectors = {memory_id: vector for memory_id, vector in rows.values_list("memory_id", "vector") if vector}

    def scaled(one: Sequence[float], other: Sequence[float]) -> float:
        cosine = sum(a * b for a, b in zip(one, other, strict=True))
        return max(0.0, min(1.0, (cosine - space.cosine_low) / (space.cosine_high - space.cosine_low)))

    to_result = {key: max(scaled(each, vector) for each in spoken) for key, vector in vectors.items()}
    to_query = {key: scaled(asked, vector) if asked else None for key, vector in vectors.items()}
    return used_by_vectors(to_result, to_query)
