"""Keep what curators need for their work: reserved items of the queue, the team's instructions, saved views."""

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.errors import DomainError
from strength.models import ReviewHold, ReviewInstructions, SavedView
from strength.models.workroom import LONGEST_INSTRUCTIONS, LONGEST_NAME, LONGEST_QUERY

HELD_FOR: Final = timedelta(minutes=10)
MOST_VIEWS: Final = 20

# One statement: of two curators at the same moment one gets the item, and the other is told so by no row.
TAKE: Final = """
WITH released AS (DELETE FROM strength_reviewhold WHERE person_id = %(person)s AND key <> %(key)s)
INSERT INTO strength_reviewhold (key, person_id, ends_at) VALUES (%(key)s, %(person)s, %(ends_at)s)
ON CONFLICT (key) DO UPDATE SET person_id = excluded.person_id, ends_at = excluded.ends_at
WHERE strength_reviewhold.person_id = excluded.person_id OR strength_reviewhold.ends_at <= %(now)s
RETURNING key
"""


class UnusableView(DomainError):
    """A view cannot be saved as it was named."""


def held_by_others(*, person_id: int, now: datetime) -> dict[UUID, str]:
    """Return the items that other curators have open, with their names."""
    rows = ReviewHold.objects.filter(ends_at__gt=now).exclude(person_id=person_id)
    return dict(rows.values_list("key", "person__username"))


def hold_item(*, key: UUID, person_id: int, now: datetime) -> bool:
    """Reserve an item and release what the person held before; return False where another curator has it."""
    values: dict[str, Any] = {"key": key, "person": person_id, "ends_at": now + HELD_FOR, "now": now}
    with connection.cursor() as cursor:
        cursor.execute(TAKE, values)
        return cursor.fetchone() is not None


def release_items(*, person_id: int) -> None:
    ReviewHold.objects.filter(person_id=person_id).delete()


def review_instructions() -> str:
    return ReviewInstructions.objects.values_list("text", flat=True).first() or ""


@transaction.atomic
def write_review_instructions(*, text: str, by: Principal, now: datetime) -> None:
    text = text.strip()[:LONGEST_INSTRUCTIONS]
    row, is_new = ReviewInstructions.objects.select_for_update().get_or_create(pk=1)
    if row.text == text and not is_new:
        return
    row.text, row.updated_at = text, now
    row.save()
    audit.record(by=by, verb="update", row=row, now=now)


def save_view(*, person_id: int, name: str, query: str) -> None:
    """Keep a view by its name; one of the same name is replaced. Raises UnusableView."""
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_NAME:
        raise UnusableView(_("A view needs a name of at most 60 characters."))
    if len(query) > LONGEST_QUERY:
        raise UnusableView(_("These filters are too long to be saved."))
    own = SavedView.objects.filter(person_id=person_id)
    if own.exclude(name=name).count() >= MOST_VIEWS:
        raise UnusableView(_("There are 20 saved views; delete one first."))
    SavedView.objects.update_or_create(person_id=person_id, name=name, defaults={"query": query})


def delete_view(*, person_id: int, view_id: UUID) -> None:
    SavedView.objects.filter(person_id=person_id, pk=view_id).delete()
