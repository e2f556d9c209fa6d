"""Rewriting a document shorter: ask without any transaction, check, and write once (SPEC P7).

What was worked out counts only where the document is still the one it was made from: an edit, or another compaction,
that came first stays, and the work is begun anew.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction

from memoryhub.auth import audit
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.domain import Principal, job_principal
from memoryhub.auth.tenancy import UnknownRow, hold
from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.domain import FIRST_PAUSE_SECONDS, Postponed
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.llm.client import ask
from memoryhub.llm.errors import ProviderUnavailable
from memoryhub.llm.none import NOT_CONFIGURED
from memoryhub.llm.prompts import ForgedFence, fenced, prompt
from memoryhub.llm.tokens.counter import count_raw
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation
from memoryhub.tenancy.domain import Trust
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from summaries.actions.documents import COMPACT_KIND, _payload, note_outcome, write_document
from summaries.actions.projects import check_trusted
from summaries.domain.compaction import (
    COMPACTED,
    NEVER_COMPACTED,
    YOUNG,
    Block,
    CannotCompact,
    Outcome,
    Protection,
    Rewritten,
    Section,
    blocks_of,
    checked,
    free_tokens,
    mark_of,
    masked_text,
    pieces_of,
    protected_places,
    rewritten,
    sections_of,
    shares,
)
from summaries.domain.documents import PIN, DocumentKind, line_digest
from summaries.domain.policy import CompactionPolicy
from summaries.domain.projects import EventKind
from summaries.domain.rolling import cleaned_answer, length_limits
from summaries.models import Document, DocumentEntry, Project, ProjectEvent

CALL_SECONDS: Final = 180.0
FENCE_BYTES: Final = 16
CODE_BYTES: Final = 4
DOCUMENT: Final = "document"
SAID: Final = {
    Outcome.NO_MODEL: "No language model is configured, so the document was left as it was.",
    Outcome.TOO_MUCH_PROTECTED: "What is protected alone is longer than the document may be; unpin or shorten it.",
    Outcome.REFUSED: "The rewritten text lost what is protected, or was too long; the document was left as it was.",
}


class CompactionRefused(Exception):
    """The document stays as it is; to try again at once would end the same."""

    permanent = True


def compact(*, job: JobContext, now: datetime) -> Writes | None:
    """Compact the document of a job's payload if that is due; return what writes it.

    Raises ProviderError, CompactionRefused, and Postponed where the document changed meanwhile.
    """
    document = _document(job)
    if document is None:
        return None
    policy = effective_policy(CompactionPolicy, document.project.actor.agent, document.project.actor)
    asked = bool(job.payload.get("asked"))
    if document.token_count <= (policy.target if asked else policy.limit):
        return (lambda: _note(document, Outcome.NOT_NEEDED, now)) if asked else None
    try:
        if settings.LLM.provider == "none":
            raise CannotCompact(Outcome.NO_MODEL)
        text = _shorter(document, policy, now)
    except CannotCompact as error:
        with job.step():
            _note(document, error.outcome, now, missing=error.missing)
        raise CompactionRefused(SAID[error.outcome]) from None
    return lambda: _store(job, document, text, now)


def _document(job: JobContext) -> Document | None:
    assert job.actor_id is not None
    rows = Document.objects.of(job.actor_id).select_related("project__actor__agent")
    return rows.exclude(name=NEVER_COMPACTED).filter(pk=UUID(job.payload["document_id"])).first()


def _note(document: Document, outcome: Outcome, now: datetime, *, missing: int = 0) -> None:
    note_outcome(project=document.project, document=document, outcome=outcome, missing=missing, now=now)


def _store(job: JobContext, document: Document, text: str, now: datetime) -> None:
    by = job_principal(job.kind, job.id)
    try:
        write_document(
            document=document, text=text, kind=DocumentKind.COMPACTION, by=by, now=now,
            expected_version=document.version,
        )  # fmt: skip
    except VersionMismatch:
        raise Postponed(
            "The document changed while it was compacted; it is begun anew.", seconds=FIRST_PAUSE_SECONDS
        ) from None
    except UnknownRow:
        return  # deleted meanwhile


def _shorter(document: Document, policy: CompactionPolicy, now: datetime) -> str:
    """Return a document's text within the target, all that is protected in it. Raises CannotCompact, ProviderError."""
    pieces = pieces_of(document.text, Protection.at(now, _protected_lines(document, now)))
    room = free_tokens(pieces, target=policy.target, count=count_raw)
    sections = sections_of(pieces, count=count_raw)
    asking = _Asking(document.project.actor)
    parts = [
        asking.section(section, share) if section.free.strip() else section.text
        for section, share in zip(sections, shares(sections, room=room, count=count_raw), strict=True)
    ]
    text = "".join(part if part.endswith("\n") else f"{part}\n" for part in parts)
    return checked(pieces, text, target=policy.target, count=count_raw)


def _protected_lines(document: Document, now: datetime) -> frozenset[bytes]:
    """Return the digests of entries that are young or pinned, and of those that nobody believes.

    The last must stay as they are: rewritten among the others they would be believed (SPEC M10).
    """
    entries = DocumentEntry.objects.filter(actor_id=document.actor_id, document=document)
    young = entries.filter(created_at__gt=now - YOUNG)
    kept = young | entries.filter(pinned=True) | entries.filter(trust=Trust.UNTRUSTED)
    return frozenset(bytes(digest) for digest in kept.values_list("text_digest", flat=True))


@dataclass(frozen=True)
class _Asking:
    """Asks a model for one section after the other."""

    actor: Actor

    def section(self, section: Section, share: int) -> str:
        """Return a section in at most about `share` tokens beside what is kept; asks a second time at most."""
        code = _code(section)
        shown = ChatMessage("user", masked_text(section, code))
        answer = self._answer([shown], share)
        done = rewritten(section, answer, code)
        if done.can_be_kept and _size(section, done) <= share:
            return done.text
        again = ChatMessage("user", self._complaint(section, code, share))
        second = rewritten(
            section, self._answer([shown, ChatMessage("assistant", answer), again], share), code
        )
        if second.can_be_kept:
            return second.text
        if done.can_be_kept:  # too long, but whole: the others may leave room for it
            return done.text
        raise CannotCompact(Outcome.REFUSED, missing=len(second.faults))

    def _answer(self, messages: list[ChatMessage], share: int) -> str:
        fence, texts = _fenced(messages)
        request = CompletionRequest(
            operation=Operation.COMPACT,
            messages=tuple(texts),
            max_output_tokens=3 * share + 1_000,
            deadline_seconds=CALL_SECONDS,
            system=prompt("compact", self.actor.agent.language, fence=fence, **length_limits(share)),
        )
        return cleaned_answer(fence, ask(request, actor=self.actor).text)

    def _complaint(self, section: Section, code: str, share: int) -> str:
        marks = " ".join(mark_of(number, code) for number in range(1, len(section.kept) + 1)) or "–"
        return prompt("compact_again", self.actor.agent.language, marks=marks, **length_limits(share))


def _size(section: Section, done: Rewritten) -> int:
    """Return the tokens of what was rewritten, without what is kept in it."""
    return count_raw(done.text) - sum(count_raw(piece.text) for piece in section.kept)


def _code(section: Section) -> str:
    """Return a code for the marks that the section does not hold."""
    while (code := secrets.token_hex(CODE_BYTES)) in section.text:
        continue
    return code


def _fenced(messages: list[ChatMessage]) -> tuple[str, list[ChatMessage]]:
    """Return the messages with the document in the first behind a new fence."""
    first, *others = messages
    assert isinstance(first.content, str)
    while True:
        fence = secrets.token_hex(FENCE_BYTES)
        try:
            return fence, [ChatMessage("user", fenced({DOCUMENT: first.content}, fence)), *others]
        except ForgedFence:
            continue


class NotCompacted(ValueError):
    """The document that is never rewritten: a person keeps it by hand."""


@transaction.atomic
def enqueue_compaction(*, document: Document, by: Principal, now: datetime) -> UUID:
    """Enqueue a document's compaction, due or not, and return the job's id; the actor of its project is loaded.

    Raises NotCompacted, ProviderUnavailable where there is no language model, Forbidden for an untrusted key,
    UnknownRow where the actor was erased meanwhile.
    """
    check_trusted(by)
    if document.name == NEVER_COMPACTED:
        raise NotCompacted(f"{NEVER_COMPACTED} is never rewritten.")
    if settings.LLM.provider == "none":
        raise ProviderUnavailable(str(NOT_CONFIGURED), code="not_configured", permanent=True)
    hold(document.actor_id)
    actor = document.project.actor
    audit.record(by=by, verb="order", object_kind="compaction", object_id=document.pk, actor=actor, now=now)
    # A key of its own: an automatic job that waits would find the document short enough, and do nothing.
    payload = {**_payload(document), "asked": True}
    return enqueue(COMPACT_KIND, actor_id=document.actor_id, key=f"asked:{document.pk}", payload=payload)


LATEST: Final = 200
"""Compactions of a project that are looked at for each document's last."""


@dataclass(frozen=True)
class CompactionState:
    """One document's length in tokens, and how its compaction stands.

    `limit` is from where it is compacted by itself, None for a document that is not; `outcome` is of the last time.
    """

    tokens: int
    limit: int | None
    target: int
    may_be_asked: bool
    is_waiting: bool
    has_model: bool
    outcome: str = ""
    missing: int = 0
    at: datetime | None = None

    @property
    def percent(self) -> int:
        """Return how much of the limit is taken, at most 100."""
        return min(100, 100 * self.tokens // max(1, self.limit)) if self.limit is not None else 0

    @property
    def is_too_long(self) -> bool:
        """Say whether the document has passed its limit."""
        return self.limit is not None and self.tokens > self.limit


def policy_of(actor: Actor) -> CompactionPolicy:
    """Return when an actor's documents are compacted; the actor's agent is loaded."""
    return effective_policy(CompactionPolicy, actor.agent, actor)


def compaction_states(*, project: Project, documents: Sequence[Document]) -> dict[UUID, CompactionState]:
    """Return the state of each of a project's documents; the actor of the project is loaded."""
    policy, last = policy_of(project.actor), _last_events(project)
    waiting = _waiting(project.actor_id, documents)
    return {each.pk: _state(each, policy, last, waiting) for each in documents}


def _state(
    document: Document, policy: CompactionPolicy, last: Mapping[str, ProjectEvent], waiting: set[str]
) -> CompactionState:
    key = str(document.pk)
    event = last.get(key)
    return CompactionState(
        tokens=document.token_count,
        limit=policy.limit if document.name in COMPACTED else None,
        target=policy.target,
        may_be_asked=document.name != NEVER_COMPACTED and document.token_count > policy.target,
        is_waiting=key in waiting,
        has_model=settings.LLM.provider != "none",
        outcome=event.outcome if event else "",
        missing=int(event.details.get("missing") or 0) if event else 0,
        at=event.created_at if event else None,
    )


def _last_events(project: Project) -> dict[str, ProjectEvent]:
    rows = ProjectEvent.objects.filter(
        actor_id=project.actor_id, project_id=project.pk, kind=EventKind.COMPACT
    )
    last: dict[str, ProjectEvent] = {}
    for event in rows.order_by("-created_at", "-id")[:LATEST]:
        last.setdefault(str(event.details.get("document_id")), event)
    return last


def _waiting(actor_id: UUID, documents: Iterable[Document]) -> set[str]:
    keys = [str(each.pk) for each in documents]
    rows = Job.objects.open().filter(actor_id=actor_id, kind=COMPACT_KIND, payload__document_id__in=keys)
    return set(rows.values_list("payload__document_id", flat=True))


class ProtectionReason(StrEnum):
    """Why a block stays as it is."""

    WHOLE = "whole"
    PINNED = "pinned"
    DOUBTED = "doubted"
    YOUNG = "young"
    FRAME = "frame"
    """It is the title, what the project is about, or stands above or below what is protected."""


@dataclass(frozen=True)
class ProtectedBlock:
    """A block that stays word for word."""

    text: str = field(repr=False)
    why: ProtectionReason


def protected_blocks(*, document: Document, now: datetime) -> list[ProtectedBlock]:
    """Return the blocks of a document that no compaction rewrites, in their order."""
    blocks = blocks_of(document.text)
    if document.name == NEVER_COMPACTED:
        return [ProtectedBlock(block.text, ProtectionReason.WHOLE) for block in blocks if block.text.strip()]
    digests = _digests(document, now)
    protection = Protection.at(now, frozenset(digests))
    places = sorted(protected_places(blocks, protection))
    return [ProtectedBlock(blocks[place].text, _why(blocks[place], digests, protection)) for place in places]


def _digests(document: Document, now: datetime) -> dict[bytes, ProtectionReason]:
    """Return the digests of the entries that are kept; of several reasons the strongest counts."""
    rows = DocumentEntry.objects.filter(actor_id=document.actor_id, document=document)
    whys: dict[bytes, ProtectionReason] = {}
    for digest, pinned, trust, created_at in rows.values_list("text_digest", "pinned", "trust", "created_at"):
        if pinned:
            whys[bytes(digest)] = ProtectionReason.PINNED
        elif trust == Trust.UNTRUSTED:
            whys[bytes(digest)] = ProtectionReason.DOUBTED
        elif created_at > now - YOUNG:
            whys[bytes(digest)] = ProtectionReason.YOUNG
    return whys


def _why(block: Block, digests: dict[bytes, ProtectionReason], protection: Protection) -> ProtectionReason:
    if PIN in block.text:
        return ProtectionReason.PINNED
    for line in block.text.splitlines():
        if line_digest(line) in digests:
            return digests[line_digest(line)]
    return ProtectionReason.YOUNG if protection.covers(block) else ProtectionReason.FRAME
