"""Entries of documents on the screens: what each says, whence it came, and whether anybody believes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from memoryhub.admin.base import as_uuid
from memoryhub.tenancy.domain import Trust
from summaries.domain.documents import line_digest
from summaries.models import Document, DocumentEntry

MOST_WAITING = 50
LONGEST_LINE = 2_000


@dataclass(frozen=True)
class Waiting:
    """An entry that nobody believes yet; `text` is "" where a person rewrote its line since."""

    id: UUID
    document: Document
    text: str
    is_cut: bool
    channel: str
    created_at: datetime


def entries_of(documents: Sequence[Document]) -> dict[str, Any]:
    """Return the latest entries of an actor's documents that nobody believes yet, and how many there are."""
    by_id = {each.pk: each for each in documents}
    actor_ids = {each.actor_id for each in documents}
    rows = DocumentEntry.objects.filter(actor_id__in=actor_ids, document_id__in=by_id, trust=Trust.UNTRUSTED)
    latest = list(rows[: MOST_WAITING + 1])
    texts = _texts(actor_ids, {each.document_id for each in latest})
    waiting = [_waiting(each, by_id[each.document_id], texts) for each in latest[:MOST_WAITING]]
    return {
        "waiting": waiting,
        "more": max(0, rows.count() - MOST_WAITING) if len(latest) > MOST_WAITING else 0,
        "groups": _grouped(waiting),
    }


def _texts(actor_ids: set[UUID], wanted: set[Any]) -> dict[tuple[Any, bytes], str]:
    """Return the lines of the documents with entries that wait, by document and digest."""
    rows = Document.objects.filter(actor_id__in=actor_ids, pk__in=wanted).values_list("pk", "text")
    return {
        (pk, line_digest(line)): line.strip()
        for pk, text in rows
        for line in text.splitlines()
        if line.strip()
    }


def _waiting(entry: DocumentEntry, document: Document, texts: dict[tuple[Any, bytes], str]) -> Waiting:
    text = texts.get((document.pk, bytes(entry.text_digest)), "")
    channel = entry.source.get("channel") if isinstance(entry.source, dict) else ""
    return Waiting(
        entry.pk,
        document,
        text[:LONGEST_LINE],
        len(text) > LONGEST_LINE,
        str(channel or ""),
        entry.created_at,
    )


def _grouped(waiting: Sequence[Waiting]) -> list[dict[str, Any]]:
    """Return the entries by document, with the ids that a button for all of a document posts."""
    groups: dict[Any, list[Waiting]] = {}
    for each in waiting:
        groups.setdefault(each.document.pk, []).append(each)
    return [
        {
            "document": entries[0].document,
            "entries": entries,
            "ids": ",".join(str(each.id) for each in entries),
        }
        for entries in groups.values()
    ]


def ids_of(text: str) -> list[UUID]:
    """Return the ids that a page posted, joined by commas; what is none is passed over."""
    return [key for part in text.split(",")[: 2 * MOST_WAITING] if (key := as_uuid(part)) is not None]
