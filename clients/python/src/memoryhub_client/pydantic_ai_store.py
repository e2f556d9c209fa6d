"""Conversation store of pydantic-ai on sessions; needs the extra `[pydantic-ai]`.

A conversation is a session: each entry is a message, so that what was said is summarised and remembered like other
talk, and keeps the entry as JSON. A record follows its entries as a message of the role `tool`, which enters no
context. It names in its `client_message_id` the revision that it replaces, which the server takes once: of two
writers one wins, and the other leaves nothing.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid4, uuid5

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart

from memoryhub_client import types as t
from memoryhub_client.client import Memoryhub
from memoryhub_client.errors import Conflict, NotFound

MARK: Final = "pydantic_ai"
BATCH: Final = 500
AT_ONCE: Final = 8
MOST_LOGS: Final = 64
RECORDS: Final = TypeAdapter(ConversationRecord)
ENTRIES: Final = TypeAdapter(ConversationEntry)


@dataclass
class Log:
    """Entries of a session, which never change, and the newest record; None where it was deleted."""

    record: ConversationRecord | None = None
    revision: str = ""
    entries: dict[str, ConversationEntry] = field(default_factory=dict)


class MemoryhubConversationStore(ConversationStore):
    """Conversations of the client's user. The client is synchronous, and used in threads.

    Deleting a conversation deletes its record; what was said stays remembered until the user is erased.
    """

    def __init__(self, hub: Memoryhub, *, channel: str = "pydantic-ai") -> None:
        self._hub = hub
        self._channel = channel
        self._logs: OrderedDict[str, Log] = OrderedDict()

    def headers(self, conversation_id: str) -> dict[str, str]:
        """Return the header by which the endpoints for chat programs store in a conversation's session."""
        return {"X-Session-Id": self._session_id(conversation_id)}

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return a conversation's record; its entries, and those it shares with what it was forked from, are kept."""
        return await asyncio.to_thread(lambda: self._read_log(self._session_id(conversation_id)).record)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records, newest first. It reads every session of the channel."""
        records = [each.record for each in await asyncio.to_thread(self._every_log) if each.record is not None]
        found = [each for each in records if scope is None or each.scope == scope]
        return sorted(found, key=lambda each: each.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Append the entries and the record. Raises ConversationConflict."""
        await asyncio.to_thread(self._write, record, new_entries, expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Append a mark that the record is deleted. Raises ConversationConflict."""

        def delete() -> None:
            session_id = self._session_id(conversation_id)
            if self._read_log(session_id).revision != expected_revision:
                raise ConversationConflict(conversation_id)
            mark = {"deleted": str(uuid4())}
            try:
                self._append(session_id, [], mark, after=expected_revision)
            except Conflict:
                raise ConversationConflict(conversation_id) from None

        await asyncio.to_thread(delete)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        return (await self.read_history(entry_id, limit=1))[-1]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to one, oldest first. Raises LookupError."""

        def read() -> list[ConversationEntry]:
            found: list[ConversationEntry] = []
            entry_id = head_id
            while entry_id is not None and (limit is None or len(found) < limit):
                found.append(self._entry(entry_id))
                entry_id = found[-1].parent_id
            return found[::-1]

        return await asyncio.to_thread(read)

    def _session_id(self, conversation_id: str) -> str:
        return str(uuid5(NAMESPACE_URL, json.dumps([MARK, self._hub.agent_id, self._hub.user_id, conversation_id])))

    def _read_log(self, session_id: str) -> Log:
        log = Log()
        try:
            for message in self._hub.messages_list(session_id, limit=BATCH):
                take(log, (message.get("metadata") or {}).get(MARK, {}))
        except NotFound:
            return log
        self._keep(session_id, log)
        if log.record is not None and log.record.forked_from is not None:
            source = self._session_id(log.record.forked_from)
            if source not in self._logs:
                self._read_log(source)
        return log

    def _keep(self, session_id: str, log: Log) -> None:
        self._logs[session_id] = log
        self._logs.move_to_end(session_id)
        while len(self._logs) > MOST_LOGS:
            self._logs.popitem(last=False)

    def _entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry from a session that was read lately, else from whichever has it."""
        for log in [*reversed(list(self._logs.values()))]:
            if entry_id in log.entries:
                return log.entries[entry_id]
        for log in self._every_log():
            if entry_id in log.entries:
                return log.entries[entry_id]
        raise LookupError(entry_id)

    def _every_log(self) -> list[Log]:
        sessions = [each["id"] for each in self._hub.sessions_list(limit=BATCH) if each["channel"] == self._channel]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return list(threads.map(self._read_log, sessions))

    def _write(
        self, record: ConversationRecord, new_entries: Sequence[ConversationEntry], expected: str | None
    ) -> None:
        session_id = self._session_id(record.conversation_id)
        log = self._read_log(session_id)
        if (log.record.revision if log.record is not None else None) != expected:
            raise ConversationConflict(record.conversation_id)
        if record.head_id is not None and record.head_id not in {each.id for each in new_entries}:
            try:
                self._entry(record.head_id)
            except LookupError:
                raise ConversationConflict(record.conversation_id) from None
        self._hub.sessions_create(session_id=session_id, channel=self._channel, title=record.conversation_id[:255])
        messages = [as_message(each) for each in new_entries]
        mark = {"record": RECORDS.dump_json(record).decode()}
        try:
            self._append(session_id, messages, mark, after=log.revision)
        except Conflict:
            raise ConversationConflict(record.conversation_id) from None

    def _append(self, session_id: str, messages: Sequence[t.MessageIn], mark: dict[str, str], *, after: str) -> None:
        """Append messages and a mark, in one transaction where they fit. Raises Conflict where another was faster.

        The mark's text differs from any other's, so that the server refuses a second one after the same revision.
        """
        (text,) = mark.values()
        digest = sha256(text.encode()).hexdigest()[:16]
        last: t.MessageIn = {
            "role": "tool",
            "content": f"(record {digest})",
            "metadata": {MARK: mark},
            "client_message_id": f"after {after}",
        }
        left = iter([*messages, last])
        while batch := list(islice(left, BATCH)):
            self._hub.messages_create(session_id, messages=batch)


def take(log: Log, mark: dict[str, Any]) -> None:
    """Add what a message holds to a log."""
    if "entry" in mark:
        entry = ENTRIES.validate_json(mark["entry"])
        log.entries[entry.id] = entry
    elif "record" in mark:
        log.record = RECORDS.validate_json(mark["record"])
        log.revision = log.record.revision
    elif "deleted" in mark:
        log.record, log.revision = None, mark["deleted"]


def as_message(entry: ConversationEntry) -> t.MessageIn:
    """Return an entry as a message: its text, if somebody said it, and the whole of it as JSON."""
    text = said(entry.message).encode("utf-8", "replace").decode().replace("\0", "")
    is_answer = isinstance(entry.message, ModelResponse)
    role: Any = ("assistant" if is_answer else "user") if text.strip() else "tool"
    return {
        "role": role,
        "content": text if text.strip() else entry.message.kind,
        "metadata": {MARK: {"entry": ENTRIES.dump_json(entry).decode()}},
        "merge": bool(text.strip()),
    }


def said(message: ModelMessage) -> str:
    """Return the text of a user's prompt or a model's answer."""
    texts = []
    for part in message.parts:
        if isinstance(part, TextPart):
            texts.append(part.content)
        elif isinstance(part, UserPromptPart):
            content = [part.content] if isinstance(part.content, str) else part.content
            texts += [each for each in content if isinstance(each, str)]
    return "\n".join(texts)
