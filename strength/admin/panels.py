"""Dashboard tiles and session timeline entries of memories and sleep runs."""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models.functions import Left
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from conversations.admin.timeline import MAX_ENTRIES_PER_KIND, EntryKind, TimelineEntry, TimelineWindow
from conversations.models import ChatTurn
from memoryhub.admin.base import actor_title
from memoryhub.admin.dashboard import RECENT, Count, Happening, Section, Tile, count
from strength.actions.extraction import unread_messages
from strength.actions.review import (
    MOST_COUNTED,
    open_merges,
    pending_memories,
)
from strength.actions.usage import OF_MEMORIES
from strength.admin.labels import STATUS_COLOURS, STATUSES
from strength.domain.memories import Source, Status
from strength.models import Memory, MemorySource, Merge, SleepRun, UseReport

LATEST_SLEEPS = 4


def tiles(now: datetime) -> list[Tile | Happening]:
    """Return the dashboard tiles, and recent sleep runs."""
    memories = Memory.objects.all()
    states = [
        (Status.ACTIVE, _("Active"), _("memories may enter contexts")),
        (Status.ARCHIVED, _("Archived"), _("memories that are not used")),
        (Status.REJECTED, _("Rejected"), _("memories were rejected")),
    ]
    return [
        *_to_decide(now),
        Tile(
            _("Memories"), count(memories), _("in all states"), Memory,
            recent=count(memories.filter(created_at__gte=now - RECENT)),
        ),
        *(_of_state(state, title, note) for state, title, note in states),
        _slept_tile(now),
        _waiting_tile(),
        *_sleeps(),
    ]  # fmt: skip


def _of_state(state: Status, title: Any, note: Any) -> Tile:
    return Tile(title, count(Memory.objects.filter(status=state)), note, Memory, f"?status__exact={state}")


def _to_decide(now: datetime) -> list[Tile]:
    pending = pending_memories()
    return [
        Tile(
            _("Pending"), count(pending), _("memories wait for a curator"), Memory,
            f"?status__exact={Status.PENDING}", section=Section.DECIDE, page="review",
        ),
        Tile(
            _("Merge proposals"), _pairs(now), _("wait for a curator"), Merge, section=Section.DECIDE, page="review"
        ),
    ]  # fmt: skip


def _pairs(now: datetime) -> Count:
    """Count open proposals up to the queue's limit: the planner's estimate would be of the wrong order."""
    number = open_merges(now)[: MOST_COUNTED + 1].count()
    return Count(min(number, MOST_COUNTED), is_estimate=number > MOST_COUNTED)


def _slept_tile(now: datetime) -> Tile:
    slept = SleepRun.objects.filter(dry_run=False, now__gte=now - timedelta(hours=24))
    query = "?dry_run__exact=0"
    return Tile(
        _("Sleep runs"), count(slept), _("in the last 24 hours"), SleepRun, query, section=Section.BACKGROUND
    )


def _waiting_tile() -> Tile:
    furthest = max(unread_messages().values(), default=0)
    note, drawn = _("messages wait for long-term strategies"), f"?source__exact={Source.EXTRACTION}"
    return Tile(_("Extraction"), Count(furthest), note, Memory, drawn, section=Section.BACKGROUND)


def _sleeps() -> list[Happening]:
    runs = SleepRun.objects.filter(dry_run=False).select_related("actor").order_by("-pk")[:LATEST_SLEEPS]
    return [Happening(run.started_at, _slept(run), run.who_name, SleepRun, run.pk) for run in runs]


def _slept(run: SleepRun) -> str:
    return gettext("%(actor)s slept: %(archived)d archived, %(merged)d merged, %(proposed)d proposed") % {
        "actor": actor_title(run.actor),
        "archived": run.archived_count,
        "merged": run.merged_count,
        "proposed": run.proposed_count,
    }


EXCERPT: Final = 200
PAGE: Final = "admin:strength_memory_change"


def _born(stretch: TimelineWindow) -> Iterator[TimelineEntry]:
    rows = MemorySource.objects.filter(
        actor_id=stretch.actor_id, session_id=stretch.session.pk, message_id__in=stretch.message_ids,
        memory__actor_id=stretch.actor_id,
    )  # fmt: skip
    kinds = dict(Memory._meta.get_field("kind").flatchoices)
    values = rows.annotate(opening=Left("memory__content", EXCERPT)).order_by("created_at", "id")
    columns = ("message_id", "created_at", "memory_id", "opening", "memory__status", "memory__kind")
    for message_id, at, memory_id, opening, status, kind in values.values_list(*columns)[
        : MAX_ENTRIES_PER_KIND + 1
    ]:
        yield TimelineEntry(
            title=_("A memory was created"), text=opening, at=at, message_id=message_id,
            state=STATUSES.get(status, status), colour=STATUS_COLOURS.get(status, ""),
            page=reverse(PAGE, args=[memory_id]), details=(kinds.get(kind, kind),),
        )  # fmt: skip


def _used(stretch: TimelineWindow) -> Iterator[TimelineEntry]:
    turns = ChatTurn.objects.filter(
        actor_id=stretch.actor_id, session_id=stretch.session.pk, answer_id__in=stretch.message_ids,
        receipt__isnull=False, use_noted_at__isnull=False,
    )  # fmt: skip
    rows = turns.order_by("id").values_list("pk", "answer_id", "use_noted_at", "receipt__items")
    answers = [
        (_task(pk), answer_id, at, _entered(items))
        for pk, answer_id, at, items in rows[:MAX_ENTRIES_PER_KIND]
        if at is not None
    ]
    memories = _memories({key for *_rest, keys in answers for key in keys})
    reports = _reports([task for task, *_rest in answers], memories)
    for task, answer_id, at, keys in answers:
        for key in keys:
            if (key, task) in reports:
                yield TimelineEntry(
                    title=_("The answer used a memory"), text=memories[key]["opening"], at=at, message_id=answer_id,
                    page=reverse(PAGE, args=[key]),
                )  # fmt: skip


def _task(turn_id: UUID) -> str:
    return hashlib.sha256(f"chat:{turn_id}".encode()).hexdigest()


def _entered(items: Any) -> list[UUID]:
    return [
        UUID(item["source_id"])
        for item in items
        if item["included"] and item["layer"] in OF_MEMORIES and item["source_id"]
    ]


def _memories(keys: set[UUID]) -> Mapping[UUID, Any]:
    rows = Memory.objects.filter(pk__in=keys).annotate(opening=Left("content", EXCERPT))
    return {row["pk"]: row for row in rows.values("pk", "actor_id", "opening")}


def _reports(tasks: list[str], memories: Mapping[UUID, Any]) -> set[tuple[UUID, str]]:
    whose = {row["actor_id"] for row in memories.values()}
    rows = UseReport.objects.filter(actor_id__in=whose, memory_id__in=list(memories), task__in=tasks)
    return set(rows.values_list("memory_id", "task"))


BORN = EntryKind(name="memory", label=_("Memories created"), needs=("strength.view_memory",), events=_born)
USED = EntryKind(name="use", label=_("Memories used"), needs=("strength.view_memory",), events=_used)
