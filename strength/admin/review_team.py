"""The review for a team: put off, assigned, commented on; each by a button with its undo (SPEC W16)."""

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.formats import date_format
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import EXCERPT_SOURCE_LENGTH, as_uuid, clock, excerpt, principal
from memoryhub.admin.fields import with_plain_line_ends
from memoryhub.admin.object_actions import Done, submitted_number, submitted_text
from memoryhub.auth.access import UnknownRow
from memoryhub.tenancy.models import Actor
from strength.actions.review import put_off_items
from strength.actions.review_team import (
    active_person_id,
    assign,
    comments_of,
    delete_comment,
    edit_comment,
    may_comment,
    plan_of,
    reviewers,
    snooze,
    snoozed_until,
    write_comment,
)
from strength.actions.second_review import first_approval, needs_second_approval, of_person, users_with_second_reviewer
from strength.admin.review_params import ReviewParams
from strength.domain.memories import APPROVER, Status, WrongState
from strength.domain.review import COUNT, Decision, Item, Sort
from strength.models import Memory, MemoryRevision, Merge, ReviewPlan
from strength.models.plan import MAX_COMMENT_LENGTH

MAX_DAYS: Final = 366
TEAM_LABELS: Final[Mapping[str, Any]] = {
    "snooze": _("Put off"),
    "wake": _("Back in the queue"),
    "assign": _("Assignment changed"),
    "comment": _("Commented"),
}
"""Verbs with an undo; they decide nothing, and are not counted as decisions."""

FORMER, SET = "former", "set"
"""Keys of the undo data: the value before, and the value set."""


def team_context(request: HttpRequest, item: Item, row: Memory | Merge) -> dict[str, Any]:
    """Return the template context of an item's day, person and comments."""
    plan, today = plan_of(item), timezone.localdate(clock())
    person_id = active_person_id(plan)
    return {
        **plan_context(plan, row),
        **approval_context(request, row),
        "assigned_id": person_id,
        "is_mine": person_id == request.user.pk,
        "next_monday": today + timedelta(days=7 - today.weekday()),
        "first_day": today + timedelta(days=1),
        "last_day": today + timedelta(days=MAX_DAYS),
        **comments_context(request, row),
    }


def put_off_until(item: Item) -> str:
    """Return the day to which an item was put off last, in words; "" where it was not."""
    plan = plan_of(item)
    return date_format(timezone.localtime(plan.snoozed_until)) if plan and plan.snoozed_until else ""


def assigned_text(item: Item) -> str:
    """Return to whom an item is assigned now, in words."""
    plan = plan_of(item)
    if plan is None or plan.assigned_to is None:
        return gettext("Assigned to no one")
    return gettext("Assigned to %(assigned_name)s") % {"assigned_name": plan.assigned_to.get_username()}


def plan_context(plan: ReviewPlan | None, row: Memory | Merge) -> dict[str, Any]:
    until, person = snoozed_until(plan, row, clock()), plan and plan.assigned_to
    return {
        "snoozed_until": date_format(timezone.localtime(until)) if until else "",
        "assigned_name": person.get_username() if person and person.is_active else "",
    }


def approval_context(request: HttpRequest, row: Memory | Merge) -> dict[str, Any]:
    """Return the sentence about two approvals, whether the person has given one, and whether theirs leaves one open."""
    first = first_approval(row) if isinstance(row, Memory) else None
    if not isinstance(row, Memory) or row.status != Status.PENDING or not needs_second_approval(row):
        return {"first_approval": "", "has_approved": False, "needs_another": False}
    if first is None:
        return {"first_approval": gettext("Two people must approve it."), "has_approved": False, "needs_another": True}
    has_approved = first.beside.get(APPROVER) == of_person(request.user.pk)
    text = first_approval_text(first, has_approved)
    return {"first_approval": text, "has_approved": has_approved, "needs_another": has_approved}


def first_approval_text(first: MemoryRevision, is_own: bool) -> str:
    if is_own:
        return gettext("You have approved it; it needs the approval of another person.")
    return gettext("Approved by %(name)s; a second approval is needed.") % {"name": first.who_name}


def second_reviewer_note(actors: QuerySet[Actor]) -> str:
    """Return whether the policy of a second reviewer has an effect; "" where it is off."""
    if not users_with_second_reviewer(actors).exists():
        return ""
    count = len(reviewers())
    if count < 2:
        return gettext("Fewer than two people may review, so no second approval is asked for.")
    return gettext("%(count)d people may review; where the policy asks for it, two must approve.") % {"count": count}


def comments_context(request: HttpRequest, row: Memory | Merge) -> dict[str, Any]:
    person: Any = request.user
    return {
        "comments": [(each, each.author_id == person.pk) for each in comments_of(row)],
        "may_comment": may_comment(person, row),
        "longest_comment": MAX_COMMENT_LENGTH,
    }


MAX_PUT_OFF: Final = 100


def put_off_list(params: ReviewParams) -> list[dict[str, Any]]:
    """Return the items that are put off, those first that come back first, for the template."""
    items = put_off_items(params.queue_filter, now=clock(), limit=MAX_PUT_OFF)
    keys = [key for _item, _until, key in items]
    texts = dict(Memory.objects.filter(pk__in=keys).values_list("pk", Left("content", EXCERPT_SOURCE_LENGTH)))
    return [
        {
            "item": item,
            "address": params.address(item),
            "words": excerpt(texts.get(key, "")),
            "is_merge": item.is_merge,
            "until": date_format(timezone.localtime(until)),
        }
        for item, until, key in items
    ]


def memory_team_context(request: HttpRequest, memory: Memory) -> dict[str, Any]:
    """Return the template context of the section of a memory's page."""
    plan = plan_of(Item(Sort.MEMORY, memory.pk))
    return {**plan_context(plan, memory), **approval_context(request, memory), **comments_context(request, memory)}


def _snooze(request: HttpRequest, item: Item) -> dict[str, Any]:
    day = _submitted_day(request)
    until = timezone.make_aware(datetime.combine(day, time.min))
    former = snooze(item=item, until=until, by=principal(request), now=clock())
    return {COUNT: 0, FORMER: former and former.isoformat(), SET: until.isoformat()}


def _submitted_day(request: HttpRequest) -> date:
    try:
        day = parse_date(submitted_text(request, "day"))
    except ValueError:
        day = None
    today = timezone.localdate(clock())
    if day is None or not today < day <= today + timedelta(days=MAX_DAYS):
        raise WrongState(_("Choose a day after today, within a year."))
    return day


def _wake(request: HttpRequest, item: Item) -> dict[str, Any]:
    former = snooze(item=item, until=None, by=principal(request), now=clock())
    return {COUNT: 0, FORMER: former and former.isoformat(), SET: None}


def _assign(request: HttpRequest, item: Item) -> dict[str, Any]:
    person_id, expected_id = submitted_number(request, "person"), submitted_number(request, "assigned")
    former = assign(item=item, person_id=person_id, expected_id=expected_id, by=principal(request), now=clock())
    return {COUNT: 0, FORMER: former, SET: person_id}


def _comment(request: HttpRequest, item: Item) -> dict[str, Any]:
    comment_id = comment_as_submitted(request, _row(item))
    return {COUNT: 0, SET: str(comment_id)}


def _change_comment(request: HttpRequest, item: Item) -> None:
    comment_as_submitted(request, _row(item))


def _row(item: Item) -> Memory | Merge:
    rows: Any = Merge.objects if item.is_merge else Memory.objects
    row: Memory | Merge | None = rows.select_related("actor__agent").filter(pk=item.key).first()
    if row is None:
        raise UnknownRow(_("It no longer exists."))
    return row


def comment_as_submitted(request: HttpRequest, row: Memory | Merge) -> UUID | None:
    """Write, edit or delete a comment by the button that was pressed; return the id of a new one."""
    author: Any = request.user
    by, now, verb = principal(request), clock(), submitted_text(request, "verb")
    text, key = with_plain_line_ends(submitted_text(request, "comment")), as_uuid(submitted_text(request, "key"))
    if verb == "comment":
        return write_comment(row=row, text=text, author=author, by=by, now=now).pk
    if key is None:
        raise UnknownRow(_("There is no such comment of yours."))
    if verb == "delete-comment":
        delete_comment(row=row, key=key, author=author, by=by, now=now)
    else:
        edit_comment(row=row, key=key, text=text, author=author, by=by, now=now)
    return None


def commented(request: HttpRequest, row: Memory | Merge) -> Done:
    """Carry out the button of a comment on the page of a memory or a pair."""
    is_deleted = submitted_text(request, "verb") == "delete-comment"
    comment_as_submitted(request, row)
    return Done(gettext("The comment was deleted.") if is_deleted else gettext("The comment was saved."))


TEAM_VERBS: Final[Mapping[str, Callable[[HttpRequest, Item], dict[str, Any] | None]]] = {
    "snooze": _snooze,
    "wake": _wake,
    "assign": _assign,
    "comment": _comment,
    "edit-comment": _change_comment,
    "delete-comment": _change_comment,
}


def undo_team(request: HttpRequest, decision: Decision) -> None:
    """Undo a verb of TEAM_LABELS. Raises WrongState where another person has changed it since."""
    item, former, was_set = decision.item, decision.undo_data.get(FORMER), decision.undo_data.get(SET)
    author: Any = request.user
    by, now = principal(request), clock()
    if decision.verb == "comment":
        delete_comment(row=_row(item), key=UUID(was_set), author=author, by=by, now=now)
    elif decision.verb == "assign":
        assign(item=item, person_id=former, expected_id=was_set, by=by, now=now)
    else:
        plan = plan_of(item)
        current = plan and plan.snoozed_until and plan.snoozed_until.isoformat()
        if current != was_set:
            raise WrongState(_("Another person has changed the day since."))
        until = datetime.fromisoformat(former) if former else None
        snooze(item=item, until=until if until and until > now else None, by=by, now=now)
