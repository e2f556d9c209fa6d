"""Queues for a team (SPEC W16): put an item off until a day, assign it to a person, comment on it.

None of it decides: a memory that is put off stays pending. Each change is in the audit trail, without texts.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Forbidden, Principal
from memoryhub.auth.screening import Screening
from strength.actions.review import open_merges
from strength.actions.second_review import NEEDS, reviewing
from strength.domain.memories import MemoryRefused, Status, WrongState
from strength.domain.review import Item
from strength.models import Memory, Merge, ReviewComment, ReviewPlan
from strength.models.plan import MAX_COMMENT_LENGTH

MAX_REVIEWERS: Final = 200
MAX_COMMENTS: Final = 100
"""Comments of one memory or pair."""


def reviewers() -> list[User]:
    """Return the people with open accounts who may review, by name."""
    return list(reviewing()[:MAX_REVIEWERS])


def plan_of(item: Item) -> ReviewPlan | None:
    column = "merge_id" if item.is_merge else "memory_id"
    return ReviewPlan.objects.select_related("assigned_to").filter(**{column: item.key}).first()


def plans_of(memories: Sequence[Memory]) -> dict[UUID | None, ReviewPlan]:
    """Return the plans of memories by the memory's id."""
    owners, keys = {memory.actor_id for memory in memories}, [memory.pk for memory in memories]
    plans = ReviewPlan.objects.select_related("assigned_to").filter(actor_id__in=owners, memory_id__in=keys)
    return {plan.memory_id: plan for plan in plans}


def snoozed_until(plan: ReviewPlan | None, row: Memory | Merge, now: datetime) -> datetime | None:
    """Return the time until which a row is put off; None if it waits."""
    if plan is None or plan.snoozed_until is None or plan.snoozed_until <= now:
        return None
    is_changed = isinstance(row, Memory) and plan.version != row.version
    return None if is_changed else plan.snoozed_until


@transaction.atomic
def snooze(*, item: Item, until: datetime | None, by: Principal, now: datetime) -> datetime | None:
    """Put a waiting item off until a time, or take it back with None; return the former time.

    Raises WrongState where it no longer waits, or where the time is not in the future.
    """
    if until is not None and until <= now:
        raise WrongState(_("Choose a day after today."))
    row, plan = _locked(item, by, now)
    former = snoozed_until(plan, row, now)
    plan.snoozed_until, plan.version = until, row.version if isinstance(row, Memory) else None
    plan.save(update_fields=["snoozed_until", "version"])
    details = {"until": until.isoformat() if until else None}
    audit.record(by=by, verb="snooze", row=row, details=details, now=now)
    return former


@transaction.atomic
def assign(*, item: Item, person_id: int | None, expected_id: int | None, by: Principal, now: datetime) -> int | None:
    """Assign a waiting item to a person who may review, or to no one; return the former person.

    `expected_id` is the person that the page showed: of two people who take an item at once, the first has it.
    Raises WrongState where another has it, or where it no longer waits; Forbidden for a person who may not review.
    """
    row, plan = _locked(item, by, now)
    former = active_person_id(plan)
    if former != expected_id:
        raise WrongState(_("Another person has assigned it since. This is how it is now."))
    person = User.objects.filter(pk=person_id, is_active=True).first() if person_id is not None else None
    if person_id is not None and (person is None or not person.has_perms(NEEDS)):
        raise Forbidden(_("This person may not review."))
    plan.assigned_to = person
    plan.save(update_fields=["assigned_to"])
    audit.record(by=by, verb="assign", row=row, details={"person": person_id}, now=now)
    return former


def active_person_id(plan: ReviewPlan | None) -> int | None:
    """Return the person that an item is assigned to; the items of a closed account are of no one."""
    person = plan.assigned_to if plan is not None else None
    return person.pk if person is not None and person.is_active else None


def _locked(item: Item, by: Principal, now: datetime) -> tuple[Memory | Merge, ReviewPlan]:
    """Return a waiting row, locked, and its plan. Raises WrongState, Forbidden."""
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not plan a review; a curator can."))
    waiting: Any = open_merges(now) if item.is_merge else Memory.objects.filter(status=Status.PENDING)
    rows = waiting.select_related("actor__agent").select_for_update(of=["self"], no_key=True)
    row = rows.filter(pk=item.key).first()
    if row is None:
        raise WrongState(_("It is no longer pending."))
    owner = {"actor": row.actor, "merge" if item.is_merge else "memory": row}
    return row, ReviewPlan.objects.select_related("assigned_to").get_or_create(**owner)[0]


def comments_of(row: Memory | Merge) -> list[ReviewComment]:
    return list(_comments(row)[:MAX_COMMENTS])


def _comments(row: Memory | Merge) -> QuerySet[ReviewComment]:
    of_row = {"merge_id": row.pk} if isinstance(row, Merge) else {"memory_id": row.pk, "merge_id": None}
    return ReviewComment.objects.filter(actor_id=row.actor_id, **of_row)


def may_comment(person: User, row: Memory | Merge) -> bool:
    return person.has_perm("strength.change_merge" if isinstance(row, Merge) else "strength.change_memory")


@transaction.atomic
def write_comment(*, row: Memory | Merge, text: str, author: User, by: Principal, now: datetime) -> ReviewComment:
    """Keep a person's comment on a memory or a pair. Raises MemoryRefused, WrongState where there are MAX_COMMENTS."""
    if not may_comment(author, row):
        raise Forbidden(_("You may not comment."))
    screening, text = _screened(row, text)
    rows: Any = type(row)._default_manager.filter(actor_id=row.actor_id, pk=row.pk)
    if rows.select_for_update(of=["self"]).first() is None:
        raise UnknownRow(_("It no longer exists."))
    if _comments(row).count() >= MAX_COMMENTS:
        raise WrongState(_("There are 100 comments already; delete one first."))
    on = {"merge": row, "memory_id": row.kept_id} if isinstance(row, Merge) else {"memory": row}
    comment = ReviewComment(
        actor=row.actor, **on, author=author, author_name=author.get_username()[:150], text=text,
        created_at=now,
    )  # fmt: skip
    comment.save(force_insert=True)
    audit.record(by=by, verb="create", row=comment, now=now)
    screening.record(by=by, row=comment, now=now)
    return comment


@transaction.atomic
def edit_comment(*, row: Memory | Merge, key: UUID, text: str, author: User, by: Principal, now: datetime) -> None:
    """Change a comment of one's own. Raises UnknownRow, MemoryRefused."""
    screening, text = _screened(row, text)
    comment = _own_comment(row, key, author)
    if comment.text == text:
        return
    comment.text, comment.edited_at = text, now
    comment.save(update_fields=["text", "edited_at"])
    audit.record(by=by, verb="update", row=comment, now=now)
    screening.record(by=by, row=comment, now=now)


@transaction.atomic
def delete_comment(*, row: Memory | Merge, key: UUID, author: User, by: Principal, now: datetime) -> None:
    """Delete a comment of one's own. Raises UnknownRow."""
    comment = _own_comment(row, key, author)
    audit.record(by=by, verb="delete", row=comment, now=now)
    comment.delete()


def _own_comment(row: Memory | Merge, key: UUID, author: User) -> ReviewComment:
    own = _comments(row).filter(author=author, pk=key)
    comment = own.select_related("actor").select_for_update(of=["self"]).first()
    if comment is None:
        raise UnknownRow(_("There is no such comment of yours."))
    return comment


def _screened(row: Memory | Merge, text: str) -> tuple[Screening, str]:
    text = text.replace("\x00", "").strip()
    if not text:
        raise MemoryRefused("comment", _("Write a comment first."))
    if len(text) > MAX_COMMENT_LENGTH:
        raise MemoryRefused("comment", _("A comment has at most 2,000 characters."))
    screening = Screening(row.actor)
    return screening, screening.columns(ReviewComment, {"text": text})["text"]
