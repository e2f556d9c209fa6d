"""Export conversations as chats of other programs, which their imports and ours read (SPEC M12)."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from conversations.models import Message, Session
from memoryhub.importexport.foreign.formats import chatgpt, openwebui
from memoryhub.importexport.foreign.records import ImportedMessage, ImportedSession, Role
from memoryhub.importexport.native.exporter import Selection, snapshot

CHUNK_SESSIONS: Final = 50
FORMS: Final[Mapping[str, Callable[[ImportedSession], dict[str, Any]]]] = {
    "openwebui": openwebui.chat_of,
    "chatgpt": chatgpt.conversation_of,
}


def chats_as(form: str, selection: Selection) -> Iterator[bytes]:
    """Yield the conversations of a selection as a list of chats, the oldest first.

    Questions and answers are exported as text; calls of tools, attached files and abandoned branches are not. An import
    of the list into an empty installation exports the same bytes.
    """
    before = b"[\n"
    with snapshot():
        for session in _sessions(selection, channel=f"import:{form}"):
            chat = FORMS[form](session)
            yield before + json.dumps(chat, ensure_ascii=False, separators=(",", ":")).encode()
            before = b",\n"
    yield b"[]\n" if before == b"[\n" else b"\n]\n"


def _sessions(selection: Selection, *, channel: str) -> Iterator[ImportedSession]:
    sessions = {
        row.pk: ImportedSession(_name(row, channel), row.title, row.started_at, user_id=row.actor.user_id)
        for row in Session.objects.filter(actor__in=selection.actors()).select_related("actor").iterator()
    }
    # By the second, as some forms have no fraction of it.
    ordered = sorted(sessions, key=lambda pk: (_second(sessions[pk]), sessions[pk].id))
    for start in range(0, len(ordered), CHUNK_SESSIONS):
        keys = ordered[start : start + CHUNK_SESSIONS]
        messages = _messages(selection, keys)
        yield from (replace(sessions[pk], messages=messages[pk]) for pk in keys if pk in messages)


def _second(session: ImportedSession) -> int:
    return int(session.started_at.timestamp()) if session.started_at else 0


def _name(session: Session, channel: str) -> str:
    """Return the id of the other program for what came from it, else the id by which an import knows it here."""
    name = session.metadata.get("conversation_id") if session.channel == channel else None
    return name if isinstance(name, str) and name else str(session.public_id)


def _messages(selection: Selection, keys: Sequence[UUID]) -> dict[UUID, list[ImportedMessage]]:
    rows = Message.objects.spoken().filter(actor__in=selection.actors(), session__in=keys).exclude(content="")
    found: dict[UUID, list[ImportedMessage]] = {}
    for row in rows.order_by("session", "seq").defer("blocks").iterator():
        role: Role = "user" if row.role == "user" else "assistant"
        message = ImportedMessage(role, row.content, row.client_message_id or str(row.pk), row.created_at)
        found.setdefault(row.session_id, []).append(message)
    return found
