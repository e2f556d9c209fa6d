"""Pages of Honcho's API v3 (`manage.py import --url`): sessions with messages, and conclusions. Pure.

A peer that Honcho does not observe, that the download names, or that is called "assistant", is the assistant; the
others are users. A session belongs to its first user; others in it are named in their messages. Conclusions are worded
by a model, and wait for review.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from django.utils.translation import gettext_noop

from memoryhub.importexport.foreign.archives import Archive, first_values, json_files, records_of
from memoryhub.importexport.foreign.records import (
    MAX_MEMORY_LENGTH,
    MEMORIES,
    SAVED_MEMORY,
    SESSIONS,
    ImportedMemory,
    ImportedMessage,
    ImportedSession,
    LocatedRecord,
    Omission,
    Record,
    Refusal,
    UnreadableElement,
    checked_id,
    checked_text,
    checked_user,
    mapping,
    new_message,
    objects,
    parse_time,
    session_records,
    usable_tags,
)
from memoryhub.importexport.native.jsonl import MAX_LINE_BYTES

SERVICE: Final = "honcho"
SIGN: Final = "pages of `peers`, `sessions` and `messages`"
ASSISTANTS: Final = "assistants"
"""Path of the page with the names of the peers that are assistants, as the person who downloads names them."""

ASSISTANT_NAMES: Final = frozenset({"agent", "ai", "assistant", "bot"})
OF_ASSISTANTS: Final = gettext_noop("conclusions about an assistant.")


def recognises(archive: Archive) -> bool:
    return any(is_page(value, SERVICE) for value in first_values(archive, json_files(archive)))


def is_page(value: Any, service: str) -> bool:
    """Return whether a value is a page that was downloaded from a service."""
    return mapping(value).get("service") == service and isinstance(value.get("items"), list)


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    files, read_page = json_files(archive), _Reader(now).read_page
    yield from records_of(archive, files, read_page, record_name=SESSIONS, max_bytes=MAX_LINE_BYTES)


class _Reader:
    def __init__(self, now: datetime) -> None:
        self._now = now
        self._assistants: set[str] = set()
        self._owners: dict[str, str] = {}

    def read_page(self, page: Any) -> Iterator[Record]:
        """Yield the records of a page. Raises UnreadableElement."""
        if not is_page(page, SERVICE):
            raise UnreadableElement("it is no page of Honcho's.")
        path, items = str(page.get("path")), objects(page["items"])
        if path == ASSISTANTS:
            self._assistants.update(name for name in page["items"] if isinstance(name, str))
        elif path.endswith("/peers/list"):
            self._assistants.update(str(peer.get("id")) for peer in items if _is_assistant(peer))
        elif path.endswith("/conclusions/list"):
            yield from self._conclusions(items)
        elif path.endswith("/messages/list"):
            yield from self._session(path, items)

    def _conclusions(self, items: list[Mapping[str, Any]]) -> Iterator[Record]:
        others = [item for item in items if str(item.get("observed_id")) not in self._assistants]
        for item in others:
            try:
                yield self._conclusion(item)
            except UnreadableElement as error:
                yield Refusal(MEMORIES, str(error))
        if left_out := len(items) - len(others):
            yield Omission(OF_ASSISTANTS, left_out)

    def _conclusion(self, item: Mapping[str, Any]) -> ImportedMemory:
        since = parse_time(item.get("created_at"))
        return ImportedMemory(
            checked_text(str(item.get("content") or ""), MAX_MEMORY_LENGTH),
            user_id=checked_user(item.get("observed_id")),
            tags=usable_tags([item.get("level")]),
            since=since if since is None or since <= self._now else None,
            needs_review=True,
            metadata={"origin": SAVED_MEMORY},
        )

    def _session(self, path: str, items: list[Mapping[str, Any]]) -> Iterator[Record]:
        if not items:
            return
        peers = (item.get("peer_id") for item in items)
        users = (peer for peer in peers if isinstance(peer, str) and peer not in self._assistants)
        owner = self._owners.setdefault(path, checked_user(next(users, None)))
        session = ImportedSession(checked_id(items[0].get("session_id"), "session_id"), user_id=owner)
        yield from session_records(session, items, lambda item: self._message(item, owner))

    def _message(self, item: Mapping[str, Any], owner: str) -> ImportedMessage:
        peer, text = item.get("peer_id"), item.get("content")
        text = text if isinstance(text, str) else ""
        is_user = str(peer) not in self._assistants
        if is_user and peer != owner and text.strip():
            text = f"{peer}: {text}"
        return new_message(
            "user" if is_user else "assistant", text, id=item.get("id"), created_at=item.get("created_at")
        )


def _is_assistant(peer: Mapping[str, Any]) -> bool:
    is_unobserved = mapping(peer.get("configuration")).get("observe_me") is False
    return is_unobserved or str(peer.get("id")).lower() in ASSISTANT_NAMES
