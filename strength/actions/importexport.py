"""Import of other programs' memories, and exports for spreadsheets and of selected memories (SPEC M12, W1).

An import writes like any client, so that tombstones, trust and policies hold.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any, Final
from uuid import UUID, uuid5

from django.db import transaction
from django.db.models import QuerySet

from conversations.actions.messages import add_messages
from conversations.actions.sessions import SessionTaken, open_session
from memoryhub.auth.domain import Forbidden
from memoryhub.auth.tenancy import UnknownRow, actor_for_writing
from memoryhub.importexport.exporter import Selection, read_rows, snapshot
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
from strength.models.memory import STRENGTH_OF_MEMORY

MEMORIES, SESSIONS, MESSAGES = "memories", "sessions", "messages"
MESSAGES_AT_ONCE = 200
SAME = "a memory with the same words is here already."
WAITS = "waits for a curator."


def import_mem0(elements: Iterable[Element], *, order: Order, report: Report) -> None:
    """Import mem0's memories. Raises CannotImport without an agent, and where users would be merged into one."""
    actor_of, named = _actors(order), order.names.user_id
    users: set[str] = set()
    for element in elements:
        with _refusing(element, MEMORIES, report):
            memory = read_mem0(_value(element), now=order.now)
            users.add(memory.user_id)
            if named is not None and len(users) > 1:
                raise CannotImport(
                    "The file holds memories of several users; without --user each gets their own."
                )
            _write_memory(
                actor_of(memory.user_id if named is None else named),
                memory,
                element.line,
                order=order,
                report=report,
            )
        order.progress(1)


def import_chatgpt(elements: Iterable[Element], *, order: Order, report: Report) -> None:
    """Import ChatGPT's conversations as sessions, and its memories. Raises CannotImport without agent or user."""
    if order.names.user_id is None:
        raise CannotImport("ChatGPT's export does not say whose it is: name --agent and --user.")
    actor = _actors(order)(order.names.user_id)
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


def _actors(order: Order) -> Callable[[str], Actor]:
    """Return a function from a user's id to the actor to write to, created on first use."""
    agent_id = order.names.agent_id
    if agent_id is None:
        raise CannotImport("The file does not say which agent remembers: name --agent.")
    return cache(lambda user_id: actor_for_writing(order.by, agent_id, user_id, now=order.now))


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
    "scope_domain": "scope_domain", "scope_project": "scope_project", "strength": "strength_now",
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
    rows = memories.annotate(strength_now=STRENGTH_OF_MEMORY).order_by(
        "actor__agent_id", "actor__user_id", "id"
    )
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


def some_as_lines(keys: Sequence[UUID]) -> Iterator[bytes]:
    """Yield memories with their agents, actors and rows for `import`; no reference leads outside the file."""
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
        for agent in read_rows(AGENTS, agents):
            yield digest.line(Part.AGENT, agent)
            for actor in read_rows(ACTORS, actors.filter(agent_id=agent["agent_id"])):
                yield digest.line(Part.ACTOR, actor)
                for row in read_rows(memories, rows.filter(actor_id=actor["id"])):
                    if row["superseded_by_id"] not in among:
                        row["superseded_by_id"] = None
                    yield digest.line(Part.ROW, row, table=memories.name)
                for table in belonging:
                    of_these = table.rows.filter(actor_id=actor["id"], memory_id__in=wanted)
                    for row in read_rows(table, of_these):
                        yield digest.line(Part.ROW, row, table=table.name)
    yield digest.end()
