"""What memories tell in a session's timeline: which were born of a message, and which an answer used."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from django.db.models.functions import Left
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from conversations.admin.stretches import MOST_OF_A_SORT, Event, Sort, Stretch
from conversations.models import ChatTurn
from strength.actions.usage import OF_MEMORIES
from strength.admin.words import STATUS_COLOURS, STATUSES
from strength.models import Memory, MemorySource, UseReport

EXCERPT: Final = 200
PAGE: Final = "admin:strength_memory_change"


def _born(stretch: Stretch) -> Iterator[Event]:
    """Tell of each memory at the message that it comes from."""
    rows = MemorySource.objects.filter(
        actor_id=stretch.actor_id, session_id=stretch.session.pk, message_id__in=stretch.message_ids,
        memory__actor_id=stretch.actor_id,
    )  # fmt: skip
    kinds = dict(Memory._meta.get_field("kind").flatchoices)
    values = rows.annotate(opening=Left("memory__content", EXCERPT)).order_by("created_at", "id")
    columns = ("message_id", "created_at", "memory_id", "opening", "memory__status", "memory__kind")
    for message_id, at, memory_id, opening, status, kind in values.values_list(*columns)[
        : MOST_OF_A_SORT + 1
    ]:
        yield Event(
            title=_("A memory was born"), text=opening, at=at, message_id=message_id,
            state=STATUSES.get(status, status), colour=STATUS_COLOURS.get(status, ""),
            page=reverse(PAGE, args=[memory_id]), details=(kinds.get(kind, kind),),
        )  # fmt: skip


def _used(stretch: Stretch) -> Iterator[Event]:
    """Tell which memories of a question's context its answer used, at the answer."""
    turns = ChatTurn.objects.filter(
        actor_id=stretch.actor_id, session_id=stretch.session.pk, answer_id__in=stretch.message_ids,
        receipt__isnull=False, use_noted_at__isnull=False,
    )  # fmt: skip
    rows = turns.order_by("id").values_list("pk", "answer_id", "use_noted_at", "receipt__items")
    answers = [
        (_task(pk), answer_id, at, _entered(items))
        for pk, answer_id, at, items in rows[:MOST_OF_A_SORT]
        if at is not None
    ]
    memories = _memories({key for *_rest, keys in answers for key in keys})
    reports = _reports([task for task, *_rest in answers], memories)
    for task, answer_id, at, keys in answers:
        for key in keys:
            if (key, task) in reports:
                yield Event(
                    title=_("The answer used a memory"), text=memories[key]["opening"], at=at, message_id=answer_id,
                    page=reverse(PAGE, args=[key]),
                )  # fmt: skip


def _task(turn_id: UUID) -> str:
    """Return what reports of a turn's use are known by (`strength.actions.usage`)."""
    return hashlib.sha256(f"chat:{turn_id}".encode()).hexdigest()


def _entered(items: Any) -> list[UUID]:
    return [
        UUID(item["source_id"])
        for item in items
        if item["included"] and item["layer"] in OF_MEMORIES and item["source_id"]
    ]


def _memories(keys: set[UUID]) -> Mapping[UUID, Any]:
    """Return the memories that entered, some of them perhaps another agent's that all may see."""
    rows = Memory.objects.filter(pk__in=keys).annotate(opening=Left("content", EXCERPT))
    return {row["pk"]: row for row in rows.values("pk", "actor_id", "opening")}


def _reports(tasks: list[str], memories: Mapping[UUID, Any]) -> set[tuple[UUID, str]]:
    whose = {row["actor_id"] for row in memories.values()}
    rows = UseReport.objects.filter(actor_id__in=whose, memory_id__in=list(memories), task__in=tasks)
    return set(rows.values_list("memory_id", "task"))


BORN = Sort(name="memory", label=_("Memories born"), needs=("strength.view_memory",), events=_born)
USED = Sort(name="use", label=_("Memories used"), needs=("strength.view_memory",), events=_used)
