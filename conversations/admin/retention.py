"""The note on an agent's or user's page of what its retention policy deletes tonight."""

from collections import Counter

from django.db.models import QuerySet
from django.utils.translation import gettext

from conversations.actions.retention import actors_with_retention, expired
from conversations.admin.forgetting import DELETED_LABELS
from memoryhub.admin.base import clock, format_count
from memoryhub.tenancy.models import Actor

MAX_ACTORS = 200
"""Users that are counted for an agent's page; `manage.py retention` counts all."""


def retention_note(actors: QuerySet[Actor]) -> str:
    """Return what is deleted tonight; "" where no policy deletes anything."""
    counts: Counter[str] = Counter()
    found = list(actors_with_retention().filter(pk__in=actors.values("pk"))[:MAX_ACTORS])
    for actor in found:
        counts.update(expired(actor, clock()).counts())
    if not counts:
        return gettext("Tonight the retention deletes nothing.") if found else ""
    told = ", ".join(f"{DELETED_LABELS[kind]}: {format_count(count)}" for kind, count in counts.items())
    return gettext("Tonight the retention deletes: %(counts)s.") % {"counts": told}
