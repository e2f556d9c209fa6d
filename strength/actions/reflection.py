"""Reflection: lessons across episodes, after a session has ended or when there are enough episodes (SPEC L2)."""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from conversations.models import Message, Session
from memoryhub.auth.domain import Principal
from memoryhub.jobs.domain import FIRST_PAUSE_SECONDS, Postponed, State
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.llm.client import complete_in_halves, complete_json, may_retry
from memoryhub.llm.types import Operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.namespaces import expand_namespace
from memoryhub.tenancy.policies import effective_policy
from strength.actions.contradictions import ExtractedMemory, ExtractionResult, resolutions, write_extracted
from strength.domain.extraction import (
    EXTRACT_KIND,
    LESSONS_SCHEMA,
    MOST_EPISODES,
    MOST_KNOWN_LESSONS,
    MOST_LESSONS,
    Lesson,
    Strategy,
    is_on,
    lesson_blocks,
    lessons_of,
    namespace_of,
)
from strength.domain.memories import Kind, Source
from strength.domain.policy import ExtractionPolicy
from strength.models import Memory, MemoryQuerySet, MemorySource, ReflectionCursor

REFLECT_KIND: Final = "reflect"
REFLECT_KEY: Final = "actor"
MOST_SOURCES: Final = 100

Step = Callable[[], AbstractContextManager[None]]
log = logging.getLogger(__name__)


def enqueue_reflection(*, actor: Actor) -> None:
    """Enqueue a reflection where it is due; inside the caller's transaction."""
    if _is_time(actor):
        enqueue(REFLECT_KIND, actor_id=actor.id, key=REFLECT_KEY)


def _is_time(actor: Actor) -> bool:
    """Say whether there are enough unread episodes, or one of them belongs to a session that has ended."""
    enough = effective_policy(ExtractionPolicy, actor.agent, actor).reflection_after_episodes
    waiting = list(unread_episodes(actor).values_list("pk", flat=True)[:enough])
    if not waiting:
        return False
    sessions = MemorySource.objects.filter(actor_id=actor.id, memory__in=waiting).values("session_id")
    ended = Session.objects.filter(actor_id=actor.id, pk__in=sessions, ended_at__isnull=False)
    return len(waiting) >= enough or ended.exists()


def unread_episodes(actor: Actor) -> MemoryQuerySet:
    """Return the active episodes after the cursor, in the order in which they last changed."""
    rows = Memory.objects.of([actor.id]).active().filter(kind=Kind.EPISODE, source=Source.EXTRACTION)
    seen = ReflectionCursor.objects.filter(actor_id=actor.id).first()
    if seen is not None:
        later = Q(updated_at__gt=seen.until)
        rows = rows.filter(later | Q(updated_at=seen.until, id__gt=seen.after) if seen.after else later)
    return rows.order_by("updated_at", "id")


def pass_episodes_over(*, actor: Actor, now: datetime) -> None:
    """Move the cursor while the strategy is off: enabled later, it begins with what happens then."""
    if unread_episodes(actor).exists():
        _move_cursor(actor, until=now, after=None, has_passed=True)


def reflect(
    *, actor: Actor, by: Principal, now: datetime, bad_attempts: int = 0, step: Step = transaction.atomic
) -> ExtractionResult:
    """Draw lessons from unread episodes and write them; enqueue another job where there are more.

    `bad_attempts` counts earlier ones that ended in bad answers. Network. Raises ProviderError, or Postponed while
    an extraction runs.
    """
    if not is_on(actor.agent.strategies, Strategy.REFLECTION):
        return ExtractionResult()
    _wait_for_extraction(actor)
    episodes = list(unread_episodes(actor)[:MOST_EPISODES])
    if not episodes:
        return ExtractionResult()
    read, lessons, error = complete_in_halves(episodes, partial(_lessons, actor), bad_attempts=bad_attempts)
    if error is not None:
        about = {"memory": str(read[0].pk), "code": error.code}
        log.warning("an episode was skipped: no model would read it", extra=about)
    extracted = [_extracted(actor, lesson, now) for lesson in lessons or []]
    resolved = resolutions(actor=actor, extracted=extracted, now=now, is_patient=may_retry(bad_attempts))
    with step():
        _move_cursor(actor, until=read[-1].updated_at, after=read[-1].pk, has_passed=error is not None)
        result = write_extracted(
            actor=actor, extracted=extracted, resolutions=resolved, channel="", by=by, now=now
        )
        enqueue_reflection(actor=actor)
    return result


def _wait_for_extraction(actor: Actor) -> None:
    """Let an extraction end first: its episodes have the time at which it began, which the cursor must not pass."""
    if Job.objects.filter(actor_id=actor.id, kind=EXTRACT_KIND, state=State.RUNNING).exists():
        raise Postponed("Messages are being read; lessons are drawn afterwards.", seconds=FIRST_PAUSE_SECONDS)


def _lessons(actor: Actor, episodes: Sequence[Memory]) -> list[Lesson]:
    texts = [each.content for each in episodes]
    blocks = lesson_blocks(texts, _known_lessons(actor), language=actor.agent.language)
    data = complete_json(actor, Operation.EXTRACT, "reflect", blocks, LESSONS_SCHEMA, most=MOST_LESSONS)
    return lessons_of(data, [each.pk for each in episodes])


def _known_lessons(actor: Actor) -> list[str]:
    """Return the newest lessons, which the model is asked not to repeat."""
    namespace = expand_namespace(
        namespace_of(Strategy.REFLECTION), agent_id=actor.agent_id, user_id=actor.user_id
    )
    rows = Memory.objects.of([actor.id]).active().filter(namespace=namespace)
    return list(rows.order_by("-created_at").values_list("content", flat=True)[:MOST_KNOWN_LESSONS])


def _extracted(actor: Actor, lesson: Lesson, now: datetime) -> ExtractedMemory:
    """Return a lesson with the source messages of its episodes: it is no more trusted than they are."""
    messages = _messages_of(actor, lesson.episode_ids)
    said_at = max(each.created_at for each in messages) if messages else _last_changed(actor, lesson)
    return ExtractedMemory(
        content=lesson.text,
        kind=Kind.REFLECTION,
        namespace=namespace_of(Strategy.REFLECTION),
        confidence=lesson.confidence,
        message_ids=tuple(message.pk for message in messages),
        said_at=min(said_at, now),
        is_trusted=all(message.trust == "trusted" for message in messages),
    )


def _messages_of(actor: Actor, episode_ids: Sequence[UUID]) -> list[Message]:
    sources = MemorySource.objects.filter(actor_id=actor.id, memory__in=episode_ids)
    keys = list(sources.values_list("message_id", flat=True)[:MOST_SOURCES])
    return list(Message.objects.of([actor.id]).filter(pk__in=keys))


def _last_changed(actor: Actor, lesson: Lesson) -> datetime:
    times = (
        Memory.objects.of([actor.id]).filter(pk__in=lesson.episode_ids).values_list("updated_at", flat=True)
    )
    return max(times)


def _move_cursor(actor: Actor, *, until: datetime, after: UUID | None, has_passed: bool = False) -> None:
    passed = {"has_passed": True} if has_passed else {}
    ReflectionCursor.objects.update_or_create(
        actor_id=actor.id, defaults={"until": until, "after": after, **passed}
    )
