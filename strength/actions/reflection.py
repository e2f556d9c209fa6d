"""Draw reflections from an actor's episodes with a language model (SPEC L2)."""

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from conversations.actions.writing import writing_for
from conversations.models import Message, Session
from memoryhub.auth.principals import Principal
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.jobs.retries import FIRST_PAUSE_SECONDS, Postponed, State
from memoryhub.llm.client import complete_in_halves, complete_json, may_retry
from memoryhub.llm.types import Operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.namespaces import expand_namespace
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import Trust
from strength.actions.contradictions import ExtractedMemory, Outcome, Step, resolve_extracted, write_extracted
from strength.domain.extraction import (
    EXTRACT_KIND,
    LESSONS_SCHEMA,
    MAX_EPISODES,
    MAX_KNOWN_LESSONS,
    MAX_LESSONS,
    Lesson,
    Strategy,
    is_enabled,
    lesson_blocks,
    lessons_of,
    namespace_of,
)
from strength.domain.memories import Kind, Source
from strength.domain.policy import ExtractionPolicy
from strength.models import Memory, MemoryQuerySet, MemorySource, ReflectionCursor

REFLECT_KIND: Final = "reflect"
REFLECT_KEY: Final = "actor"
MAX_SOURCES: Final = 100
"""Messages of a lesson's episodes that are noted as its sources."""

log = logging.getLogger(__name__)


def enqueue_reflection(*, actor: Actor) -> None:
    """Enqueue a reflection, in the caller's transaction: for enough unread episodes, or one of an ended session."""
    min_episodes = effective_policy(ExtractionPolicy, actor.agent, actor).reflection_after_episodes
    unread = list(unread_episodes(actor).values_list("pk", flat=True)[:min_episodes])
    sessions = MemorySource.objects.filter(actor_id=actor.id, memory__in=unread).values("session_id")
    ended = Session.objects.filter(actor_id=actor.id, pk__in=sessions, ended_at__isnull=False)
    if unread and (len(unread) >= min_episodes or ended.exists()):
        enqueue(REFLECT_KIND, actor_id=actor.id, key=REFLECT_KEY)


def unread_episodes(actor: Actor) -> MemoryQuerySet:
    """Return the active episodes after the cursor, in the order in which they last changed."""
    rows = Memory.objects.of([actor.id]).active().filter(kind=Kind.EPISODE, source=Source.EXTRACTION)
    cursor = ReflectionCursor.objects.filter(actor_id=actor.id).first()
    if cursor is not None:
        later = Q(updated_at__gt=cursor.until)
        rows = rows.filter(later | Q(updated_at=cursor.until, id__gt=cursor.after) if cursor.after else later)
    return rows.order_by("updated_at", "id")


def reflect(
    *, actor: Actor, by: Principal, now: datetime, bad_attempts: int = 0, step: Step = transaction.atomic
) -> Counter[Outcome]:
    """Draw lessons from unread episodes and write them; enqueue another job where there are more.

    `bad_attempts` counts earlier ones that ended in bad answers. Network. Raises ProviderError, or Postponed while
    an extraction runs.
    """
    if not is_enabled(actor.agent.strategies, Strategy.REFLECTION):
        return Counter()
    # Episodes get the start time of their extraction, so the cursor must not pass a running one.
    if Job.objects.filter(actor_id=actor.id, kind=EXTRACT_KIND, state=State.RUNNING).exists():
        raise Postponed("Messages are being read; lessons are drawn afterwards.", seconds=FIRST_PAUSE_SECONDS)
    episodes = list(unread_episodes(actor)[:MAX_EPISODES])
    if not episodes:
        return Counter()
    read, lessons, error = complete_in_halves(episodes, partial(_lessons, actor), bad_attempts=bad_attempts)
    if error is not None:
        details = {"memory": str(read[0].pk), "code": error.code}
        log.warning("an episode was skipped: no model would read it", extra=details)
    extracted = [_extracted_lesson(actor, lesson, now) for lesson in lessons or []]
    resolved = resolve_extracted(actor=actor, extracted=extracted, now=now, retries_bad_answers=may_retry(bad_attempts))
    with step():
        present = Memory.objects.of([actor.id]).active().filter(pk__in=[episode.pk for episode in read])
        if present.count() < len(read):  # deleted since, or taken out of contexts: the lessons may repeat them
            enqueue_reflection(actor=actor)
            return Counter()
        move_cursor(actor, until=read[-1].updated_at, after=read[-1].pk, has_passed=error is not None)
        result = write_extracted(actor=actor, extracted=extracted, resolutions=resolved, channel="", by=by, now=now)
        enqueue_reflection(actor=actor)
    return result


def _lessons(actor: Actor, episodes: Sequence[Memory]) -> list[Lesson]:
    namespace = expand_namespace(namespace_of(Strategy.REFLECTION), agent_id=actor.agent_id, user_id=actor.user_id)
    rows = Memory.objects.of([actor.id]).active().filter(namespace=namespace).order_by("-created_at")
    known = list(rows.values_list("content", flat=True)[:MAX_KNOWN_LESSONS])
    contents = [episode.content for episode in episodes]
    wanted = writing_for(actor, contents)
    blocks = lesson_blocks(contents, known, language=wanted.prompt)
    data = complete_json(
        actor,
        Operation.EXTRACT,
        "reflect",
        blocks,
        LESSONS_SCHEMA,
        language=wanted.prompt,
        most=MAX_LESSONS,
        written=wanted.phrase,
    )
    return lessons_of(data, [episode.pk for episode in episodes])


def _extracted_lesson(actor: Actor, lesson: Lesson, now: datetime) -> ExtractedMemory:
    """Return a lesson with the source messages of its episodes: it is no more trusted than they are."""
    sources = MemorySource.objects.filter(actor_id=actor.id, memory__in=lesson.episode_ids)
    source_rows = (
        Message.objects.of([actor.id]).filter(pk__in=sources.values("message_id")).order_by("-created_at", "-pk")
    )
    messages = list(source_rows[:MAX_SOURCES])
    episodes = Memory.objects.of([actor.id]).filter(pk__in=lesson.episode_ids)
    times = [message.created_at for message in messages] or episodes.values_list("updated_at", flat=True)
    return ExtractedMemory(
        content=lesson.text,
        kind=Kind.REFLECTION,
        namespace=namespace_of(Strategy.REFLECTION),
        confidence=lesson.confidence,
        message_ids=tuple(message.pk for message in messages),
        said_at=min(max(times, default=now), now),
        is_trusted=not source_rows.exclude(trust=Trust.TRUSTED).exists(),
    )


def move_cursor(actor: Actor, *, until: datetime, after: UUID | None, has_passed: bool = False) -> None:
    flags = {"has_passed": True} if has_passed else {}
    ReflectionCursor.objects.update_or_create(actor_id=actor.id, defaults={"until": until, "after": after, **flags})
