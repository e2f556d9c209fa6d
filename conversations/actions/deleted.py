"""Keep messages deleted that clients and files send again (SPEC C7)."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from conversations.domain.client_talk import opening_of
from conversations.domain.messages import NewMessage
from conversations.models import DeletedMessage, Session
from memoryhub.auth.screening import Screening


def note_deleted(session: Session, messages: Iterable[tuple[str, str]]) -> None:
    """Keep the digests of deleted messages, by role and text; inside the caller's transaction."""
    digests = {_digest(role, text) for role, text in messages if text.strip()}
    rows = [
        DeletedMessage(actor_id=session.actor_id, session_id=session.public_id, digest=digest) for digest in digests
    ]
    DeletedMessage.objects.bulk_create(rows, ignore_conflicts=True, batch_size=1_000)


def deleted_from(actor_id: UUID, session_ids: Iterable[UUID]) -> Callable[[UUID, str, str], bool]:
    """Return the test whether a message, by session, role and screened text, was deleted."""
    rows = DeletedMessage.objects.filter(actor_id=actor_id, session_id__in=list(session_ids))
    deleted = {(key, bytes(digest)) for key, digest in rows.values_list("session_id", "digest")}
    return lambda session_id, role, text: bool(deleted) and (session_id, _digest(role, text)) in deleted


def without_deleted(session: Session, batch: Sequence[NewMessage]) -> list[NewMessage]:
    """Return messages without those with a `client_message_id` that were deleted from the session."""
    if all(message.client_message_id is None for message in batch):
        return list(batch)
    key, screening = session.public_id, Screening(session.actor)
    is_deleted = deleted_from(session.actor_id, [key])
    return [
        each
        for each in batch
        if each.client_message_id is None or not is_deleted(key, each.role, screening.text(each.content))
    ]


def _digest(role: str, text: str) -> bytes:
    """Return a digest by the start of a text: clients send answers back cut."""
    return hashlib.sha256(f"{role} {opening_of(text)}".encode("utf-8", "surrogatepass")).digest()
