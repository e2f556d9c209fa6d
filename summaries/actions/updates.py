"""Extract entries for projects' documents from sessions, in the background (SPEC P6).

A session's cursor moves in the transaction that writes the entries found up to there, so an interrupted attempt has
written nothing and is repeated from the same message. The model is asked before, outside any transaction.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import dropwhile, takewhile
from typing import Any, Final
from uuid import UUID

from django.db.models import Q

from conversations.actions.forgetting import is_unchanged
from conversations.actions.writing import writing_for
from conversations.domain.content import MAX_LABEL_LENGTH, label
from conversations.domain.messages import Role, TurnState
from conversations.domain.statements.grounding import Evidence
from conversations.domain.statements.kinds import Spoken
from conversations.models import ChatTurn, Message, Session
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Principal
from memoryhub.jobs.queue import enqueue
from memoryhub.llm.client import complete_json, counter_in_use, material_limit, may_retry
from memoryhub.llm.errors import BadAnswer, ProviderRejected
from memoryhub.llm.types import Operation
from memoryhub.look_alikes import tell_apart
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import zone_of
from memoryhub.tenancy.policy import Trust
from summaries.actions.documents import DocumentTooLong, append_entry
from summaries.actions.entries import trusted_texts
from summaries.actions.projects import ProjectArchived, active_project, check_active, documents_of, locked_project
from summaries.domain.entries import (
    KNOWN_TOKENS,
    LISTS,
    MAX_ENTRIES,
    PASSAGE_TOKENS,
    Passage,
    ProjectMessage,
    answer_schema,
    known_lines,
    next_passage,
    parse_entries,
    prompt_blocks,
)
from summaries.models import Document, DocumentEntry, Project, ProjectCursor, RoutingDecision

UPDATE_KIND: Final = "update_project"
CALL_SECONDS: Final = 60.0
ANSWER_TOKENS: Final = 3_000
MAX_MESSAGES: Final = 200
"""Messages that one passage is chosen from; tokens nearly always end it sooner."""

Step = Callable[[], AbstractContextManager[None]]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UpdateContext:
    """Actor, principal and time of an update, and the number of earlier attempts that ended in bad answers."""

    actor: Actor
    by: Principal
    now: datetime
    bad_attempts: int = 0


def update_projects(*, updating: UpdateContext, session_id: UUID, step: Step, may_go_on: Callable[[], bool]) -> int:
    """Extract entries from the unread messages of a session; return how many were found.

    Where `may_go_on` returns False, a job is enqueued for the rest. Network. Raises ProviderError.
    """
    actor, added = updating.actor, 0
    if not Project.objects.of(actor.id).active().exists():
        return added
    sessions = Session.objects.filter(actor_id=actor.id, pk=session_id)
    rows = ProjectCursor.objects.filter(actor_id=actor.id, session_id=session_id)
    # Read again for each passage: messages may have been deleted since.
    while (session := sessions.first()) is not None:
        read_until = rows.values_list("read_until", flat=True).first() or 0
        if read_until >= session.message_count:
            return added
        if not may_go_on():
            payload = {"session_id": str(session_id)}
            with step():
                enqueue(UPDATE_KIND, actor_id=actor.id, key=str(session_id), payload=payload)
            return added
        passage = _next_passage(session, read_until, updating)
        if passage is None:
            return added
        # None: deleted, archived, renamed or never existing.
        project = active_project(actor_id=actor.id, name=passage.project)
        data = _extract(updating, session, project, passage) if project and passage.messages else None
        with step():
            if _move_cursor(session, read_until, passage.until) and project and data is not None:
                added += _add_entries(updating, session, project, passage, data)
    return added


def _next_passage(session: Session, read_until: int, updating: UpdateContext) -> Passage | None:
    """Return the next passage; None at the end, or at an answer in progress, whose project is not known yet."""
    spoken = Message.objects.of([session.actor_id]).spoken().filter(session_id=session.pk)
    unread = spoken.filter(seq__gt=read_until, seq__lte=session.message_count).order_by("seq")
    rows = list(unread[:MAX_MESSAGES])
    projects = _MessageProjects(session, [row.pk for row in rows], updating.now, updating.actor.agent.current_project)
    zone = zone_of(updating.actor.agent, updating.actor)
    names = tell_apart([label(row.author) for row in rows], most=MAX_LABEL_LENGTH)
    ready: list[ProjectMessage] = []
    for row in rows:
        if projects.is_open(row):
            break
        message = ProjectMessage(
            id=row.pk,
            seq=row.seq,
            project=projects.project_of(row),
            is_users=row.role == Role.USER,
            author=names[label(row.author)],
            text=row.content,
            is_trusted=row.trust == Trust.TRUSTED,
            said_at=row.local_time(zone),
        )
        ready.append(message)
    most = material_limit(Operation.EXTRACT, PASSAGE_TOKENS)
    return next_passage(ready, count=counter_in_use(Operation.EXTRACT).count, most=most) if ready else None


@dataclass(frozen=True)
class _MessageProjects:
    """Assigns messages of a session to projects: by their turn, else by the last decision before them."""

    session: Session
    messages: Sequence[UUID]
    now: datetime
    current: str
    """The agent's current project, which contexts use where nothing else names one."""

    @cached_property
    def turns(self) -> dict[UUID, ChatTurn]:
        rows = ChatTurn.objects.filter(actor_id=self.session.actor_id, session_id=self.session.pk)
        rows = rows.filter(Q(question__in=self.messages) | Q(answer__in=self.messages))
        turns: dict[UUID, ChatTurn] = {}
        for turn in rows.order_by("created_at", "id"):
            turns |= {message: turn for message in (turn.question_id, turn.answer_id) if message}
        return turns

    @cached_property
    def decisions(self) -> list[RoutingDecision]:
        rows = RoutingDecision.objects.filter(actor_id=self.session.actor_id, session_id=self.session.pk)
        decided = rows.filter(Q(project__isnull=False) | Q(corrected_project__isnull=False))
        decided = decided.defer("message", "reason").select_related("project", "corrected_project")
        return list(decided.order_by("created_at", "id"))

    @cached_property
    def trusted_decisions(self) -> list[RoutingDecision]:
        return [
            decision for decision in self.decisions if decision.trust == Trust.TRUSTED or decision.corrected_project
        ]

    def is_open(self, message: Message) -> bool:
        turn = self.turns.get(message.pk)
        return turn is not None and turn.state == TurnState.ANSWERING and turn.until > self.now

    def decision_of(self, message: Message) -> RoutingDecision | None:
        """Return the last decision before a message, or before the end of its turn."""
        turn = self.turns.get(message.pk)
        decisions = self.trusted_decisions if message.trust == Trust.TRUSTED else self.decisions
        at = (turn.finished_at or turn.created_at) if turn else message.created_at
        index = bisect_right(decisions, at, key=lambda decision: decision.created_at)
        return decisions[index - 1] if index else None

    def project_of(self, message: Message) -> str:
        turn, decided = self.turns.get(message.pk), self.decision_of(message)
        if turn is None:
            return _name_of(decided) if decided else self._default or self.current
        named = _text((turn.context_metadata or {}).get("project"))
        if decided and decided.corrected_project and decided.project and decided.project.name == named:
            return decided.corrected_project.name
        return named or self._default

    @property
    def _default(self) -> str:
        metadata = self.session.metadata
        return _text(metadata.get("project")) if isinstance(metadata, Mapping) else ""


def misplaced_entries(decision: RoutingDecision, *, now: datetime) -> list[DocumentEntry]:
    """Return the entries written to the wrong project because of a decision corrected since, oldest first.

    They are extracted from the message, or from later ones of the session that went to the same project, until the
    next decision for another. Lines that a person appended name no messages and are not included.
    """
    wrong, session = decision.project, decision.session
    if wrong is None or session is None or decision.corrected_project_id in (None, wrong.pk):
        return []
    rows = DocumentEntry.objects.filter(actor_id=session.actor_id, document__project=wrong, document__deleted_at=None)
    entries = list(rows.filter(created_at__gte=decision.created_at).select_related("document").order_by("id"))
    ids_of_entry = {entry.pk: set(_message_ids(entry)) for entry in entries}
    messages = Message.objects.of([session.actor_id]).filter(session_id=session.pk)
    source_messages = list(messages.filter(pk__in=set().union(*ids_of_entry.values())))
    projects = _MessageProjects(session, [message.pk for message in source_messages], now, "")
    following = _following(decision, projects.decisions)
    message_ids = {
        message.pk
        for message in source_messages
        if (decided := projects.decision_of(message)) and decided.pk in following
    }
    return [entry for entry in entries if ids_of_entry[entry.pk] and ids_of_entry[entry.pk] <= message_ids]


def _following(decision: RoutingDecision, decisions: Sequence[RoutingDecision]) -> set[UUID]:
    """Return a decision and those after it that led to the same project, up to the first that did not."""
    later = dropwhile(lambda row: row.pk != decision.pk, decisions)
    following = takewhile(
        lambda row: row.pk == decision.pk or (row.project_id == decision.project_id and not row.corrected_project_id),
        later,
    )
    return {row.pk for row in following}


def _message_ids(entry: DocumentEntry) -> Iterator[UUID]:
    ids = entry.source.get("message_ids") if isinstance(entry.source, dict) else None
    for value in ids if isinstance(ids, list) else ():
        with suppress(ValueError):
            yield UUID(str(value))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _name_of(decision: RoutingDecision) -> str:
    project = decision.corrected_project or decision.project
    return project.name if project else ""


def _move_cursor(session: Session, read_until: int, until: int) -> bool:
    """Move a session's cursor; return False where another job moved it, or messages were deleted since."""
    if not is_unchanged(session):
        return False
    key = {"actor_id": session.actor_id, "session_id": session.pk}
    ProjectCursor.objects.bulk_create([ProjectCursor(**key)], ignore_conflicts=True)
    cursor = ProjectCursor.objects.select_for_update(no_key=True).get(**key)
    if cursor.read_until != read_until:
        return False
    ProjectCursor.objects.filter(actor_id=session.actor_id, pk=cursor.pk).update(read_until=until)
    return True


def _extract(updating: UpdateContext, session: Session, project: Project, passage: Passage) -> Any:
    actor = updating.actor
    known = trusted_texts(_appendable_documents(project)).values() if passage.is_trusted else ()
    count = counter_in_use(Operation.EXTRACT).count
    wanted = writing_for(actor, [message.text for message in passage.messages])
    most = material_limit(Operation.EXTRACT, 2 * KNOWN_TOKENS) // 2
    texts = prompt_blocks(passage, known_lines(known, count=count, most=most), language=wanted.prompt)
    try:
        return complete_json(
            actor,
            Operation.EXTRACT,
            "update_project",
            texts,
            answer_schema(),
            max_output_tokens=ANSWER_TOKENS,
            deadline_seconds=CALL_SECONDS,
            language=wanted.prompt,
            most=MAX_ENTRIES,
            written=wanted.phrase,
        )
    except (ProviderRejected, BadAnswer) as error:
        if isinstance(error, BadAnswer) and may_retry(updating.bad_attempts):
            raise
        details = {"session": str(session.pk), "seq": passage.until, "code": error.code}
        log.warning("messages were skipped, the model refused them", extra=details)
        return None


def _appendable_documents(project: Project) -> list[Document]:
    return [document for document in documents_of(project) if document.name in LISTS.values()]


def _add_entries(updating: UpdateContext, session: Session, project: Project, passage: Passage, data: Any) -> int:
    """Append the new entries with their sources; those of untrusted messages stay out of contexts until approved.

    The documents are read under the project's lock, since another session may just have added the same.
    """
    try:
        project = locked_project(project)
        check_active(project)
    except (UnknownRow, ProjectArchived):  # deleted or archived concurrently
        return 0
    evidence = Evidence(tuple(Spoken(each.text, True, each.said_at, each.author) for each in passage.messages))
    known = {document.name: document.text for document in _appendable_documents(project)}
    entries = parse_entries(data, passage, known)
    for entry in entries:
        doubt = evidence.doubt_details(entry.text)
        trust = Trust.TRUSTED if passage.is_trusted and doubt is None else Trust.UNTRUSTED
        sources = {"message_ids": [str(source.id) for source in entry.sources], "channel": session.channel}
        if doubt is not None:
            sources["doubt"] = [doubt.reason, doubt.detail]
        try:
            append_entry(
                project=project,
                document_name=entry.document,
                text=entry.text,
                trust=trust,
                by=updating.by,
                sources=sources,
                now=updating.now,
                said_at=max(source.said_at for source in entry.sources),
            )
        except DocumentTooLong:
            log.warning("a document is full", extra={"project": str(project.pk)})
    return len(entries)
