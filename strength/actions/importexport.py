"""Import of other programs' memories, and exports for spreadsheets and of selected memories (SPEC M12, W1).

An import writes like any client, so that tombstones, trust and policies hold.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid5

from django.db import transaction
from django.db.models import QuerySet

from conversations.actions.messages import add_messages
from conversations.actions.sessions import SessionTaken, open_session
from memoryhub.auth.domain import Forbidden
from memoryhub.auth.tenancy import UnknownRow, actor_for_writing
from memoryhub.importexport.exporter import Selection, snapshot
from memoryhub.importexport.fields import ACTORS, AGENTS, Table, exported_tables
from memoryhub.importexport.formats import CannotImport, Element, ImportFormat, Order
from memoryhub.importexport.jsonl import Digest, Part, Report, header
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.namespaces import expand_namespace
from strength.actions.memories import NewMemory, write_memory
from strength.actions.tombstones import BlockedByTombstone
from strength.domain.imports import (
    CHANNEL,
    ImportedConversation,
    ImportedMemory,
    Unreadable,
    is_chatgpt,
    is_mem0,
    read_conversation,
    read_mem0,
)
from strength.domain.memories import Kind, MemoryRefused, Source, Status, content_digest, default_namespace
from strength.models import (
    Memory,
    MemoryNumbers,
    MemoryRevision,
    MemorySource,
    PerspectiveStrength,
    StrengthPoint,
)

MEMORIES, SESSIONS, MESSAGES = "memories", "sessions", "messages"
MESSAGES_AT_ONCE = 200
SAME = "a memory with the same words is here already."
WAITS = "waits for a curator."


def import_mem0(elements: Iterable[Element], *, order: Order, report: Report) -> None:
    """Import mem0's memories, each for the user that it names, or all for the one that the order names.

    Raises CannotImport without an agent, and where memories of several users would be merged into one.
    """
    actors = _Actors(order)
    users: set[str] = set()
    for element in elements:
        with _refusing(element, MEMORIES, report):
            memory = read_mem0(_value(element), now=order.now)
            users.add(memory.user_id)
            if order.names.user_id is not None and len(users) > 1:
                raise CannotImport(
                    "The file holds memories of several users; without --user each gets their own."
                )
            _write_memory(actors.of(memory.user_id), memory, element.line, order=order, report=report)
        order.progress(1)


def import_chatgpt(elements: Iterable[Element], *, order: Order, report: Report) -> None:
    """Import ChatGPT's conversations as sessions of the channel `chatgpt`, and its memories as memories.

    Raises CannotImport without an agent or a user.
    """
    if order.names.user_id is None:
        raise CannotImport("ChatGPT's export does not say whose it is: name --agent and --user.")
    actor = _Actors(order).of(order.names.user_id)
    for element in elements:
        with _refusing(element, SESSIONS, report):
            conversation = read_conversation(_value(element))
            for reason in conversation.unread:
                report.refuse(element.line, MESSAGES, reason)
            _write_conversation(actor, conversation, element.line, order=order, report=report)
        order.progress(1)


@contextmanager
def _refusing(element: Element, name: str, report: Report) -> Iterator[None]:
    try:
        yield
    except Unreadable as error:
        report.refuse(element.line, name, str(error))


def _value(element: Element) -> Any:
    if element.problem:
        raise Unreadable(element.problem)
    return element.value


class _Actors:
    """The actors that an import writes to, created on first use."""

    def __init__(self, order: Order) -> None:
        if order.names.agent_id is None:
            raise CannotImport("The file does not say which agent remembers: name --agent.")
        self._agent_id, self._order = order.names.agent_id, order
        self._known: dict[str, Actor] = {}

    def of(self, user_id: str) -> Actor:
        named = self._order.names.user_id
        user = user_id if named is None else named
        if user not in self._known:
            self._known[user] = actor_for_writing(self._order.by, self._agent_id, user, now=self._order.now)
        return self._known[user]


def _write_conversation(
    actor: Actor, conversation: ImportedConversation, line: int, *, order: Order, report: Report
) -> None:
    key = uuid5(actor.id, f"{CHANNEL} {conversation.id}")
    times = (each.created_at for each in conversation.messages if each.created_at is not None)
    started_at = conversation.started_at or next(times, order.now)
    try:
        with transaction.atomic():
            session, is_new = open_session(
                actor=actor, session_id=key, channel=CHANNEL, title=conversation.title,
                metadata={"conversation_id": conversation.id}, by=order.by, now=started_at,
            )  # fmt: skip
            new = 0
            for start in range(0, len(conversation.messages), MESSAGES_AT_ONCE):
                batch = [
                    each if each.created_at else replace(each, created_at=started_at)
                    for each in conversation.messages[start : start + MESSAGES_AT_ONCE]
                ]
                new += add_messages(session=session, batch=batch, by=order.by, now=order.now).new_count
    except (SessionTaken, Forbidden, UnknownRow) as error:
        report.refuse(line, SESSIONS, type(error).__name__)
        return
    (report.made if is_new else report.known)[SESSIONS] += 1
    report.made[MESSAGES] += new
    report.known[MESSAGES] += len(conversation.messages) - new
    for memory in conversation.memories:
        _write_memory(actor, memory, line, order=order, report=report, channel=CHANNEL)


def _write_memory(
    actor: Actor, memory: ImportedMemory, line: int, *, order: Order, report: Report, channel: str = ""
) -> None:
    """Write a memory unless its text exists: an import does not reinforce an existing memory."""
    namespace = expand_namespace(default_namespace(Kind.FACT), agent_id=actor.agent_id, user_id=actor.user_id)
    rows = Memory.objects.filter(
        actor_id=actor.id, namespace=namespace, content_digest=content_digest(memory.text)
    )
    if same := rows.values_list("pk", flat=True).first():
        report.know(line, MEMORIES, f"{SAME} ({same})")
        return
    new = NewMemory(
        content=memory.text, kind=Kind.FACT, tags=memory.tags, source=Source.IMPORT, channel=channel,
        valid_from=memory.since,
    )  # fmt: skip
    try:
        written, is_new = write_memory(actor=actor, new=new, by=order.by, now=order.now)
    except (MemoryRefused, BlockedByTombstone, UnknownRow) as error:
        report.refuse(line, MEMORIES, str(error))
        return
    (report.made if is_new else report.known)[MEMORIES] += 1
    if written.status == Status.PENDING:
        report.note(line, MEMORIES, WAITS)


MEM0 = ImportFormat(recognises=is_mem0, take=import_mem0)
CHATGPT = ImportFormat(recognises=is_chatgpt, take=import_chatgpt)

COLUMNS = {
    "agent_id": "actor__agent_id", "user_id": "actor__user_id", "id": "id", "kind": "kind", "namespace": "namespace",
    "content": "content", "tags": "tags", "status": "status", "pinned": "pinned", "trust": "trust",
    "source": "source", "channel": "channel", "confidence": "confidence", "scope_level": "scope_level",
    "scope_domain": "scope_domain", "scope_project": "scope_project", "strength": "numbers__strength",
    "access_count": "numbers__access_count", "last_accessed_at": "numbers__last_accessed_at",
    "consolidation_level": "numbers__consolidation_level", "valid_from": "valid_from", "valid_to": "valid_to",
    "superseded_by": "superseded_by_id", "created_at": "created_at", "updated_at": "updated_at",
}  # fmt: skip
CSV_CHUNK_ROWS = 500
# Spreadsheets run a cell that begins so as a formula, which may send data elsewhere.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
MARK = "\ufeff"
"""Byte order mark; without it spreadsheets decode Japanese wrongly. Python reads it as `utf-8-sig`."""


def memories_as_csv(whose: Selection) -> Iterator[bytes]:
    yield from rows_as_csv(Memory.objects.filter(actor__in=whose.actors()))


def rows_as_csv(memories: QuerySet[Memory]) -> Iterator[bytes]:
    """Yield memories as CSV with a header; formulas are escaped by a `'`."""
    yield (MARK + _line(list(COLUMNS))).encode()
    rows = memories.order_by("actor__agent_id", "actor__user_id", "id")
    with snapshot():
        for values in rows.values_list(*COLUMNS.values()).iterator(chunk_size=CSV_CHUNK_ROWS):
            yield _line(list(map(_cell, values))).encode()


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    text = ", ".join(value) if isinstance(value, list) else value
    return f"'{text}" if isinstance(text, str) and text.startswith(FORMULA) else text


def _line(cells: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


BELONGING: Final = (MemoryNumbers, PerspectiveStrength, MemorySource, MemoryRevision, StrengthPoint)
"""Rows that belong to a memory."""

CHUNK_ROWS: Final = 200


def some_as_lines(keys: Sequence[UUID]) -> Iterator[bytes]:
    """Yield these memories with their agents, actors and rows, as one snapshot that `import` reads.

    References to superseding memories that are not among them are left out, so that none leads outside the file.
    """
    wanted, digest = list(keys), Digest()
    memories = Table(Memory)
    belonging = [table for table in exported_tables() if table.model in BELONGING]
    with snapshot():
        rows = memories.rows.filter(pk__in=wanted)
        actors = Actor.objects.filter(pk__in=rows.values("actor_id"))
        agents = Agent.objects.filter(pk__in=actors.values("agent_id"))
        counts = {AGENTS.name: agents.count(), ACTORS.name: actors.count(), memories.name: rows.count()}
        yield digest.line(Part.HEADER, header(counts))
        among = {str(key) for key in wanted}
        for agent in _read(AGENTS, agents):
            yield digest.line(Part.AGENT, agent)
            for actor in _read(ACTORS, actors.filter(agent_id=agent["agent_id"])):
                yield digest.line(Part.ACTOR, actor)
                for row in _read(memories, rows.filter(actor_id=actor["id"])):
                    if row["superseded_by_id"] not in among:
                        row["superseded_by_id"] = None
                    yield digest.line(Part.ROW, row, table=memories.name)
                for table in belonging:
                    of_these = table.rows.filter(actor_id=actor["id"], memory_id__in=wanted)
                    for row in _read(table, of_these):
                        yield digest.line(Part.ROW, row, table=table.name)
    yield digest.end()


def _read(table: Table, rows: Any) -> Iterator[dict[str, Any]]:
    values = rows.order_by(*table.key_order).values_list(*table.codecs)
    return (table.written(each) for each in values.iterator(chunk_size=CHUNK_ROWS))
