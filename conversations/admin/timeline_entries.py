"""Entries of a session's timeline besides its messages; each app contributes its kinds (`ENTRY_KINDS`)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models.functions import Left
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from conversations.domain.messages import TurnState
from conversations.models import ChatTurn, Receipt, Session
from memoryhub.admin.base import grouped

MAX_ENTRIES_PER_KIND = 60
"""Entries of one kind on a page; the page says which kinds have more."""


@dataclass(frozen=True, kw_only=True)
class TimelineWindow:
    """The part of a session that a page shows: some messages, and the time from the first to the next page's.

    `since` and `until` are None at the session's ends. With `is_search` the messages are search results, so only
    entries that belong to one of them are wanted.
    """

    session: Session
    actor_id: UUID
    message_ids: frozenset[UUID]
    first_seq: int
    last_seq: int
    since: datetime | None
    until: datetime | None
    is_search: bool = False

    def times(self, name: str) -> dict[str, datetime]:
        """Return the window as conditions on a datetime column."""
        bounds = {f"{name}__gte": self.since, f"{name}__lt": self.until}
        return {condition: bound for condition, bound in bounds.items() if bound is not None}


@dataclass(frozen=True, kw_only=True)
class TimelineEntry:
    """Something that happened in a session; placed after a message, after a message's number, or by its time.

    `text` is user content, escaped where it is shown.
    """

    title: Any
    at: datetime
    text: str = field(default="", repr=False)
    page: str | None = None
    message_id: UUID | None = None
    after_seq: int | None = None
    state: Any = ""
    colour: str = ""
    details: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EntryKind:
    """A kind of entries: its label, the permissions to see it, and the function that yields them."""

    name: str
    label: Any
    needs: tuple[str, ...]
    events: Callable[[TimelineWindow], Iterable[TimelineEntry]]


ENTRY_KINDS: Final[list[EntryKind]] = []
"""The kinds of entries of all apps, in order; apps register theirs when they are ready."""


EXCERPT: Final = 200
STATES: Final = {
    TurnState.ANSWERING: (_("being answered"), "info"),
    TurnState.ANSWERED: (_("answered"), "success"),
    TurnState.FAILED: (_("failed"), "danger"),
}


def _questions(window: TimelineWindow) -> Iterator[TimelineEntry]:
    rows = ChatTurn.objects.filter(
        actor_id=window.actor_id, session_id=window.session.pk, question_id__in=window.message_ids
    )
    for turn in rows.defer("context_metadata", "usage", "routing").order_by("id")[: MAX_ENTRIES_PER_KIND + 1]:
        state, colour = STATES.get(TurnState(turn.state), (turn.state, ""))
        took = (turn.finished_at - turn.created_at).total_seconds() if turn.finished_at else None
        yield TimelineEntry(
            title=_("Model call"),
            at=turn.created_at,
            message_id=turn.question_id,
            state=state,
            colour=colour,
            page=reverse("admin:conversations_chatturn_change", args=[turn.pk]),
            details=tuple(filter(None, (turn.model, turn.error, "" if took is None else f"{took:.1f} s"))),
        )


def _contexts(window: TimelineWindow) -> Iterator[TimelineEntry]:
    rows = Receipt.objects.filter(actor_id=window.actor_id, session_id=window.session.pk)
    if window.is_search:
        return
    rows = rows.filter(**window.times("created_at")).defer("items", "query", "source_ids")
    for receipt in rows.annotate(opening=Left("query", EXCERPT)).order_by("id")[: MAX_ENTRIES_PER_KIND + 1]:
        yield TimelineEntry(
            title=_("Context assembled for"),
            text=receipt.opening,
            at=receipt.created_at,
            page=reverse("admin:conversations_receipt_change", args=[receipt.pk]),
            details=(_tokens(receipt),),
        )


def _tokens(receipt: Receipt) -> str:
    figures = {"total": grouped(receipt.total_tokens), "limit": grouped(receipt.token_limit)}
    return str(_("%(total)s of %(limit)s tokens")) % figures


QUESTIONS = EntryKind(
    name="question", label=_("Questions"), needs=("conversations.view_chatturn",), events=_questions
)
CONTEXTS = EntryKind(
    name="context", label=_("Contexts"), needs=("conversations.view_receipt",), events=_contexts
)
