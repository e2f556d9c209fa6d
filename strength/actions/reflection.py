"""Drawing lessons across episodes (SPEC L2): after a session has ended, or when enough episodes have gathered."""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from conversations.models import Message, Session
from memoryhub.auth.domain import Principal
from memoryhub.jobs.domain import FIRST_PAUSE_SECONDS, Postponed, State
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.llm.client import is_patient
from memoryhub.llm.errors import BadAnswer, ProviderRejected
from memoryhub.llm.types import Operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.namespaces import expand_namespace
from memoryhub.tenancy.policies import effective_policy
from strength.actions.contradictions import Extracted, Filed, ask_about, file_extracted, must_fail, rulings
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
    """Enqueue a job that draws lessons, where it is time: inside the caller's transaction."""
    if _is_time(actor):
        enqueue(REFLECT_KIND, actor_id=actor.id, key=REFLECT_KEY)


def _is_time(actor: Actor) -> bool:
    """Say whether enough episodes have gathered, or one of them is of a session that has ended."""
    enough = effective_policy(ExtractionPolicy, actor.agent, actor).reflection_after_episodes
    waiting = list(episodes_waiting(actor).values_list("pk", flat=True)[:enough])
    if not waiting:
        return False
    sessions = MemorySource.objects.filter(actor_id=actor.id, memory__in=waiting).values("session_id")
    ended = Session.objects.filter(actor_id=actor.id, pk__in=sessions, ended_at__isnull=False)
    return len(waiting) >= enough or ended.exists()


def episodes_waiting(actor: Actor) -> MemoryQuerySet:
    """Return the believed episodes that no lesson was drawn from, in the order in which they last changed."""
    rows = Memory.objects.of([actor.id]).active().filter(kind=Kind.EPISODE, source=Source.EXTRACTION)
    seen = ReflectionCursor.objects.filter(actor_id=actor.id).first()
    if seen is not None:
        later = Q(updated_at__gt=seen.until)
        rows = rows.filter(later | Q(updated_at=seen.until, id__gt=seen.after) if seen.after else later)
    return rows.order_by("updated_at", "id")


def pass_episodes_over(*, actor: Actor, now: datetime) -> None:
    """Go along while the strategy is off: turned on later, it begins with what happens then."""
    if episodes_waiting(actor).exists():
        _note(actor, until=now, after=None, has_passed=True)


def reflect(
    *, actor: Actor, by: Principal, now: datetime, spoilt: int = 0, step: Step = transaction.atomic
) -> Filed:
    """Draw lessons from the episodes that wait, and write them; a further job follows where more wait.

    `spoilt` is how many attempts before brought answers that could not be used. Network. Raises ProviderError, or
    Postponed while an extraction runs, and nothing is written.
    """
    if not is_on(actor.agent.strategies, Strategy.REFLECTION):
        return Filed()
    _wait_for_extraction(actor)
    episodes = list(episodes_waiting(actor)[:MOST_EPISODES])
    if not episodes:
        return Filed()
    lessons, episodes, is_passed = _lessons_in_halves(actor, episodes, spoilt)
    drawn = [_extracted(actor, lesson, now) for lesson in lessons]
    ruled = rulings(actor=actor, extracted=drawn, now=now, is_patient=is_patient(spoilt))
    with step():
        _note(actor, until=episodes[-1].updated_at, after=episodes[-1].pk, has_passed=is_passed)
        filed = file_extracted(actor=actor, extracted=drawn, rulings=ruled, channel="", by=by, now=now)
        enqueue_reflection(actor=actor)
    return filed


def _wait_for_extraction(actor: Actor) -> None:
    """Let an extraction end first: its episodes bear the time at which it began, which our place must not pass."""
    if Job.objects.filter(actor_id=actor.id, kind=EXTRACT_KIND, state=State.RUNNING).exists():
        raise Postponed("Messages are being read; lessons are drawn afterwards.", seconds=FIRST_PAUSE_SECONDS)


def _lessons_in_halves(
    actor: Actor, episodes: list[Memory], spoilt: int
) -> tuple[list[Lesson], list[Memory], bool]:
    """Return the lessons of these episodes, or of the first half where a model cannot deal with all of them.

    One that no model will read is passed by, so that those behind it have their turn.
    """
    while True:
        try:
            return _lessons(actor, episodes), episodes, False
        except (ProviderRejected, BadAnswer) as error:
            is_one = len(episodes) == 1
            if must_fail(error, spoilt=spoilt, is_one=is_one):
                raise
            if is_one:
                about = {"memory": str(episodes[0].pk), "code": error.code}
                log.warning("an episode was passed by, no model would read it", extra=about)
                return [], episodes, True
            episodes = episodes[: len(episodes) // 2]


def _lessons(actor: Actor, episodes: Sequence[Memory]) -> list[Lesson]:
    told = lesson_blocks(
        [each.content for each in episodes], _known_lessons(actor), language=actor.agent.language
    )
    data = ask_about(actor, Operation.EXTRACT, "reflect", told, LESSONS_SCHEMA, most=MOST_LESSONS)
    return lessons_of(data, [each.pk for each in episodes])


def _known_lessons(actor: Actor) -> list[str]:
    """Return the newest lessons, so that they are not drawn again."""
    namespace = expand_namespace(
        namespace_of(Strategy.REFLECTION), agent_id=actor.agent_id, user_id=actor.user_id
    )
    rows = Memory.objects.of([actor.id]).active().filter(namespace=namespace)
    return list(rows.order_by("-created_at").values_list("content", flat=True)[:MOST_KNOWN_LESSONS])


def _extracted(actor: Actor, lesson: Lesson, now: datetime) -> Extracted:
    """Return a lesson with the messages that its episodes were drawn from: it is no more trusted than they."""
    messages = _messages_of(actor, lesson.episode_ids)
    said_at = max(message.created_at for message in messages) if messages else _told_at(actor, lesson)
    return Extracted(
        content=lesson.text,
        kind=Kind.REFLECTION,
        namespace=namespace_of(Strategy.REFLECTION),
        confidence=lesson.confidence,
        message_ids=tuple(message.pk for message in messages),
        said_at=min(said_at, now),
        is_believed=all(message.trust == "trusted" for message in messages),
    )


def _messages_of(actor: Actor, episode_ids: Sequence[UUID]) -> list[Message]:
    sources = MemorySource.objects.filter(actor_id=actor.id, memory__in=episode_ids)
    keys = list(sources.values_list("message_id", flat=True)[:MOST_SOURCES])
    return list(Message.objects.of([actor.id]).filter(pk__in=keys))


def _told_at(actor: Actor, lesson: Lesson) -> datetime:
    times = (
        Memory.objects.of([actor.id]).filter(pk__in=lesson.episode_ids).values_list("updated_at", flat=True)
    )
    return max(times)


def _note(actor: Actor, *, until: datetime, after: UUID | None, has_passed: bool = False) -> None:
    passed = {"has_passed": True} if has_passed else {}
    ReflectionCursor.objects.update_or_create(
        actor_id=actor.id, defaults={"until": until, "after": after, **passed}
    )
