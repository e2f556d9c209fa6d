"""Let a language model write the cues of memories that have none (ADR 69)."""

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef

from conversations.actions.writing import writing_for
from memoryhub.auth.screening import Screening
from memoryhub.embeddings.spaces import index_entries, writing_spaces
from memoryhub.llm.client import complete_in_halves, complete_json
from memoryhub.llm.types import Operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import Trust
from strength.actions.contradictions import Step
from strength.actions.revisions import TRUST
from strength.actions.search import index_memory
from strength.domain.cues import CUES_SCHEMA, MAX_MEMORIES, cues_found, text_blocks
from strength.domain.policy import ExtractionPolicy
from strength.models import Memory, MemoryChange, MemoryRevision
from strength.models.locks import lock_shared

CUES_KIND: Final = "write_cues"

log = logging.getLogger(__name__)


def actors_without_cues(*, since: datetime) -> list[UUID]:
    """Return the actors with memories that changed since then and have no cues, where a model is to write these."""
    if settings.LLM.provider == "none":
        return []
    changes = MemoryChange.objects.filter(at__gte=since, actor__isnull=False).order_by()
    ids = list(changes.values_list("actor_id", flat=True).distinct())
    actors = Actor.objects.select_related("agent").filter(pk__in=ids).order_by("pk")
    wanted = [each for each in actors if effective_policy(ExtractionPolicy, each.agent, each).write_cues]
    return [each.pk for each in wanted if without_cues(each, since)]


def without_cues(actor: Actor, since: datetime, after: UUID | None = None) -> list[Memory]:
    """Return the first memories of one call that were written since then, after that one.

    Without those that were ever untrusted: a person approved what such a text says, not what it may ask of a model.
    """
    rows = Memory.objects.of([actor.pk]).active().filter(cues="", created_at__gte=since)
    untrusted = MemoryRevision.objects.filter(
        actor_id=OuterRef("actor_id"), memory=OuterRef("pk"), beside__contains={TRUST: Trust.UNTRUSTED}
    )
    rows = rows.exclude(Exists(untrusted))
    return list((rows.filter(pk__gt=after) if after else rows).order_by("pk")[:MAX_MEMORIES])


def write_cues(*, actor: Actor, since: datetime, bad_attempts: int = 0, step: Step = transaction.atomic) -> int:
    """Ask for the cues of memories written since then, a batch at a time, and store them; return how many. Network.

    A memory without an answer is not asked about again. Raises ProviderError.
    """
    stored, after = 0, None
    while memories := without_cues(actor, since, after):
        asked, cues, error = complete_in_halves(memories, partial(_ask, actor), bad_attempts=bad_attempts)
        if error is not None:
            log.warning("a memory gets no cues", extra={"memory": str(asked[0].pk), "code": error.code})
        with step():
            stored += _store(actor, asked, cues or {})
        after = asked[-1].pk
    return stored


def _ask(actor: Actor, memories: Sequence[Memory]) -> dict[int, str]:
    texts = [memory.content for memory in memories]
    wanted = writing_for(actor, texts)
    blocks = text_blocks(texts, language=wanted.prompt)
    answer = complete_json(actor, Operation.EXTRACT, "cues", blocks, CUES_SCHEMA, language=wanted.prompt)
    return cues_found(answer, texts)


def _store(actor: Actor, asked: Sequence[Memory], cues: dict[int, str]) -> int:
    """Store cues with their index rows; no version, as nothing that anyone reads changed."""
    lock_shared(actor.pk)
    spaces, screening, stored = writing_spaces(), Screening(actor), 0
    locked = Memory.objects.of([actor.pk]).locked([asked[index].pk for index in cues])
    for index, words in cues.items():
        memory = locked.get(asked[index].pk)
        if memory is None or memory.cues or memory.content != asked[index].content:
            continue  # deleted or changed during the call
        memory.cues = screening.text(words)
        memory.save(update_fields=["cues"])
        index_memory(memory, index_entries([memory.content], spaces, cues=[memory.cues])[0], spaces)
        stored += 1
    return stored
