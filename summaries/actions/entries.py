"""Trust in the lines of a project's documents: untrusted ones wait for approval (SPEC M10)."""

from collections.abc import Collection
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from memoryhub.auth import audit
from memoryhub.auth.access import lock_actor
from memoryhub.auth.principals import Principal
from memoryhub.tenancy.policies import zone_of
from memoryhub.tenancy.policy import Trust
from memoryhub.zones import local_time
from summaries.actions.projects import check_trusted, note_lines
from summaries.domain.documents import entry_line, line_digest, without_lines
from summaries.models import Document, DocumentEntry

TRUST_VERBS: Final = {Trust.TRUSTED: "believe", Trust.UNTRUSTED: "doubt"}


def trusted_text(document: Document) -> str:
    """Return a document's text without its untrusted entries (SPEC M10)."""
    return trusted_texts([document])[document.pk]


def trusted_texts(documents: list[Document]) -> dict[UUID, str]:
    """Return the texts of documents, by id, without their untrusted entries."""
    entries = DocumentEntry.objects.filter(
        actor_id__in={document.actor_id for document in documents}, document__in=documents
    )
    untrusted = untrusted_digests(entries)
    return {document.pk: without_lines(document.text, untrusted.get(document.pk, set())) for document in documents}


def pending_digests(document: Document) -> set[bytes]:
    """Return the digests of a document's untrusted entries, also of lines that only a former text holds."""
    return untrusted_digests(document.entries.all()).get(document.pk, set())


def untrusted_digests(entries: QuerySet[DocumentEntry]) -> dict[UUID, set[bytes]]:
    """Return the digests of the untrusted ones of these entries by document."""
    digests: dict[UUID, set[bytes]] = {}
    rows = entries.filter(trust=Trust.UNTRUSTED)
    for document_id, digest in rows.values_list("document_id", "text_digest"):
        digests.setdefault(document_id, set()).add(bytes(digest))
    return digests


def is_pending(*, document: Document, text: str, pinned: bool = False, at: datetime) -> bool:
    """Return whether a line appended at that time is untrusted and waits for approval."""
    actor = document.project.actor
    at = local_time(at, zone_of(actor.agent, actor))
    line = entry_line(text, pinned=pinned, document=document.name, at=at)
    return pending_entries(document, line_digest(line)).exists()


def pending_entries(document: Document, digest: bytes) -> QuerySet[DocumentEntry]:
    return document.entries.filter(text_digest=digest, trust=Trust.UNTRUSTED)


def waiting_entries() -> QuerySet[DocumentEntry]:
    """Return the untrusted entries of all documents that are in use, without lines that a document no longer has."""
    return DocumentEntry.objects.filter(
        trust=Trust.UNTRUSTED,
        in_text=True,
        document__deleted_at=None,
        document__project__deleted_at=None,
        document__project__archived_at=None,
    )


def trust_new_lines(document: Document, text: str) -> None:
    """Trust entries whose line a trusted writer adds; else an untrusted key could hide a line before it is written."""
    pending = pending_digests(document)
    if pending:
        former = {line_digest(line) for line in document.text.splitlines()}
        new = pending & {line_digest(line) for line in text.splitlines()} - former
        entries = document.entries.all()
        entries.filter(text_digest__in=new).update(trust=Trust.TRUSTED)


@transaction.atomic
def set_entry_trust(
    *, document: Document, entry_ids: Collection[UUID], trust: Trust, by: Principal, reason: str = "", now: datetime
) -> list[UUID]:
    """Approve entries, or revoke that (SPEC M10); return the ids that changed. Raises Forbidden, UnknownRow."""
    check_trusted(by)
    lock_actor(document.actor_id)
    rows = DocumentEntry.objects.select_for_update().filter(actor_id=document.actor_id, document=document)
    changed = list(rows.filter(pk__in=entry_ids).exclude(trust=trust).values_list("pk", flat=True))
    if changed:
        DocumentEntry.objects.filter(actor_id=document.actor_id, pk__in=changed).update(trust=trust)
        note_lines(Document.objects.get(pk=document.pk, actor_id=document.actor_id))
        audit.record(
            by=by,
            verb=TRUST_VERBS[trust],
            row=document,
            actor=document.project.actor,
            reason=reason,
            details={"entries": len(changed)},
            now=now,
        )
    return changed
