"""Dashboard tiles and session timeline entries of memories and sleep runs."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from django.db.models import Exists, OuterRef, Sum
from django.db.models.functions import Left
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from conversations.admin.timeline import MAX_ENTRIES_PER_KIND, EntryKind, TimelineEntry, TimelineWindow
from conversations.models import ChatTurn
from memoryhub.admin.dashboard import RECENT, Count, Curve, PanelItem, Section, Tile
from memoryhub.admin.waiting import Waiting
from strength.actions.expectations import broken
from strength.actions.extraction import unread_messages
from strength.actions.held_memories import held_runs
from strength.actions.review import MAX_COUNTED, waiting_memories, waiting_merges
from strength.actions.usage import entered_memories, task_digest
from strength.admin.labels import STATUS_COLOURS, STATUS_LABELS
from strength.admin.memory_list import SUMMARIES_FILTER, SUMMARIES_SHOWN
from strength.admin.nights import last_night
from strength.domain.memories import FeedChange, Source, Status
from strength.domain.review import Sort
from strength.domain.sleep import MergeState
from strength.domain.strength import PointKind
from strength.models import (
    Expectation,
    ExpectationState,
    Memory,
    MemoryChange,
    MemorySource,
    Merge,
    SleepRun,
    StrengthPoint,
    UseReport,
)

WITH_SUMMARIES: Final = f"{SUMMARIES_FILTER}={SUMMARIES_SHOWN}"


def memory_panel(now: datetime) -> list[PanelItem]:
    memories = Memory.objects.all()
    # Without those that were undone, or reactivated, since.
    still = Memory.objects.filter(pk=OuterRef("memory_id"), status=Status.ARCHIVED)
    archived = MemoryChange.objects.filter(Exists(still), change=FeedChange.ARCHIVED)
    unread = Count(max(unread_messages().values(), default=0))
    states = [
        (Status.ACTIVE, _("Active"), _("memories may enter contexts")),
        (Status.ARCHIVED, _("Archived"), _("memories that are not used")),
    ]
    return [
        Tile(
            _("Memories"),
            memories,
            _("in all states"),
            Memory,
            f"?{WITH_SUMMARIES}",
            recent=memories.filter(created_at__gte=now - RECENT),
        ),
        *(
            Tile(title, memories.filter(status=state), note, Memory, f"?status__exact={state}&{WITH_SUMMARIES}")
            for state, title, note in states
        ),
        Tile(
            _("Extraction"),
            unread,
            _("messages wait for long-term strategies"),
            Memory,
            f"?source__exact={Source.EXTRACTION}",
            section=Section.BACKGROUND,
        ),
        *last_night(now),
        Curve(_("Written"), memories, "created_at", Memory, query=f"?{WITH_SUMMARIES}"),
        Curve(_("Archived"), archived, "at", Memory, query=f"?status__exact={Status.ARCHIVED}&{WITH_SUMMARIES}"),
        Curve(_("Used"), StrengthPoint.objects.filter(kind=PointKind.USED), "day", Memory, value=Sum("times")),
    ]


WAITING_KINDS: Final = [
    Waiting(
        title=_("Pending"),
        note=_("memories to be reviewed"),
        model=Memory,
        rows=lambda now: waiting_memories(now).filter(supersedes=None),
        states={"status": [Status.PENDING]},
        page="review",
        query=f"?sort={Sort.MEMORY}",
    ),
    Waiting(
        title=_("Replacing memories"),
        note=_("to be reviewed"),
        model=Memory,
        rows=lambda now: waiting_memories(now).exclude(supersedes=None),
        states={"status": [Status.PENDING]},
        page="review",
        query=f"?sort={Sort.CORRECTION}",
    ),
    Waiting(
        title=_("Merge proposals"),
        note=_("to be reviewed"),
        model=Merge,
        rows=waiting_merges,
        states={"state": [MergeState.PROPOSED]},
        page="review",
        query=f"?sort={Sort.MERGE}",
        max_counted=MAX_COUNTED,
    ),
    Waiting(
        title=_("Postponed by a night"),
        note=_("users with more memories due than a night archives"),
        model=SleepRun,
        rows=lambda now: held_runs(),
        states={"held_count": ["1"]},
        query="?held=waiting",
    ),
    Waiting(
        title=_("Broken expectations"),
        note=_("contexts without a memory that must be in them, or with one that must not"),
        model=Expectation,
        rows=lambda now: broken(),
        states={"state": [ExpectationState.BROKEN]},
        query=f"?state__exact={ExpectationState.BROKEN}",
    ),
]

EXCERPT_LENGTH: Final = 200
MEMORY_PAGE: Final = "admin:strength_memory_change"


def _created_entries(window: TimelineWindow) -> Iterator[TimelineEntry]:
    rows = MemorySource.objects.filter(
        actor_id=window.actor_id,
        session_id=window.session.pk,
        message_id__in=window.message_ids,
        memory__actor_id=window.actor_id,
    )
    kinds = dict(Memory._meta.get_field("kind").flatchoices)
    values = rows.annotate(opening=Left("memory__content", EXCERPT_LENGTH)).order_by("created_at", "id")
    columns = ("message_id", "created_at", "memory_id", "opening", "memory__status", "memory__kind")
    for message_id, at, memory_id, opening, status, kind in values.values_list(*columns)[: MAX_ENTRIES_PER_KIND + 1]:
        yield TimelineEntry(
            title=_("A memory was created"),
            text=opening,
            at=at,
            message_id=message_id,
            state=STATUS_LABELS.get(status, status),
            colour=STATUS_COLOURS.get(status, ""),
            page=reverse(MEMORY_PAGE, args=[memory_id]),
            details=(kinds.get(kind, kind),),
        )


def _used_entries(window: TimelineWindow) -> Iterator[TimelineEntry]:
    rows = ChatTurn.objects.filter(
        actor_id=window.actor_id,
        session_id=window.session.pk,
        answer_id__in=window.message_ids,
        receipt__isnull=False,
        use_noted_at__isnull=False,
    ).order_by("id")
    columns = ("answer_id", "use_noted_at", "receipt__items")
    turns = rows.select_related("receipt").only(*columns)[:MAX_ENTRIES_PER_KIND]
    memories_of_turn = {turn: entered_memories(turn.receipt) for turn in turns if turn.receipt is not None}
    tasks = {turn: task_digest(f"chat:{turn.pk}") for turn in memories_of_turn}
    memories = Memory.objects.filter(pk__in={key for keys in memories_of_turn.values() for key in keys})
    openings = {
        row["pk"]: row
        for row in memories.annotate(opening=Left("content", EXCERPT_LENGTH)).values("pk", "actor_id", "opening")
    }
    actor_ids = {row["actor_id"] for row in openings.values()}
    reports = UseReport.objects.filter(actor_id__in=actor_ids, memory_id__in=list(openings), task__in=tasks.values())
    used = set(reports.values_list("memory_id", "task"))
    for turn, keys in memories_of_turn.items():
        for key in keys:
            if turn.use_noted_at is not None and (key, tasks[turn]) in used:
                yield TimelineEntry(
                    title=_("The answer used a memory"),
                    text=openings[key]["opening"],
                    at=turn.use_noted_at,
                    message_id=turn.answer_id,
                    page=reverse(MEMORY_PAGE, args=[key]),
                )


CREATED_ENTRIES = EntryKind(
    name="memory", label=_("Memories created"), needs=("strength.view_memory",), events=_created_entries
)
USED_ENTRIES = EntryKind(name="use", label=_("Memories used"), needs=("strength.view_memory",), events=_used_entries)
