"""The conversations of an import from which memories were extracted, for the import's page."""

from typing import Final

from django.db.models import Count
from django.urls import reverse

from conversations.actions.imported_sessions import SESSION_KIND
from conversations.models import Session
from memoryhub.admin.imports import ConversationLine
from memoryhub.importexport.foreign.models import Import, ImportedRow
from strength.models import MemorySource

MAX_LISTED: Final = 20


def conversations_of(row: Import) -> list[ConversationLine]:
    """Return the conversations with the most memories."""
    rows = ImportedRow.objects.filter(import_id=row.pk, kind=SESSION_KIND)
    sources = MemorySource.objects.filter(actor__in=rows.values("actor"), session_id__in=rows.values("row_id"))
    counted = sources.values("session_id").annotate(memories=Count("memory", distinct=True))
    counts = dict(counted.order_by("-memories", "session_id").values_list("session_id", "memories")[:MAX_LISTED])
    sessions = Session.objects.in_bulk(list(counts))
    return [
        ConversationLine(
            row_id=key,
            title=sessions[key].title or str(key),
            address=reverse("admin:conversations_session_change", args=[key]),
            messages=sessions[key].message_count,
            memories=memories,
        )
        for key, memories in counts.items()
        if key in sessions
    ]
