"""Keep messages deleted that clients and files send again (SPEC C7)."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from conversations.domain.client_talk import opening_of
from conversations.domain.content import calls_in, results_in
from conversations.domain.messages import NewMessage
from conversations.models import DeletedMessage, Message, Session


def note_deleted(session: Session, messages: Iterable[Message]) -> None:
    """Keep the digests of deleted messages, by their words and by their ids; inside the caller's transaction."""
    digests = {_digest_of(message) for message in messages}
    digests |= {_id_digest(message.client_message_id) for message in messages if message.client_message_id}
    rows = [
        DeletedMessage(actor_id=session.actor_id, session_id=session.public_id, digest=digest) for digest in digests
    ]
    DeletedMessage.objects.bulk_create(rows, ignore_conflicts=True, batch_size=1_000)


def without_deleted(
    actor_id: UUID, session_id: UUID, messages: Sequence[NewMessage], *, by_ids: bool = False
) -> list[NewMessage]:
    """Return screened messages without those that were deleted from a session, by their words or by their ids alone."""
    rows = DeletedMessage.objects.filter(actor_id=actor_id, session_id=session_id)
    deleted = {bytes(digest) for digest in rows.values_list("digest", flat=True)} if messages else set()
    return [
        each for each in messages if (_id_digest(each.client_message_id) if by_ids else _digest_of(each)) not in deleted
    ]


def deleted_ids(actor_id: UUID, ids: Mapping[UUID, Iterable[str]]) -> set[tuple[UUID, str]]:
    """Return the ids of messages that were deleted, with their sessions, of some by session."""
    rows = DeletedMessage.objects.filter(actor_id=actor_id, session_id__in=list(ids))
    deleted = {(key, bytes(digest)) for key, digest in rows.values_list("session_id", "digest")}
    return {(key, each) for key, values in ids.items() for each in values if (key, _id_digest(each)) in deleted}


def _digest_of(message: NewMessage | Message) -> bytes:
    """Return a digest by the start of a text, as answers come back cut; without text by the ids of its calls."""
    blocks = message.blocks or ()
    ids = [call["id"] for call in calls_in(blocks)], [result["tool_use_id"] for result in results_in(blocks)]
    return _hashed("said", str(message.role), opening_of(message.content) or repr(ids))


def _id_digest(client_message_id: str | None) -> bytes:
    return _hashed("id", client_message_id or "") if client_message_id else b""


def _hashed(*parts: str) -> bytes:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()
