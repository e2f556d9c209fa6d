"""Compact documents: ask a model outside any transaction, check the answer, and write once (SPEC P7).

The result counts only if the document is still the one that was read: an edit, or another compaction, that came first
stays, and the job begins anew.
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet, TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow, lock_actor
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.orders import job_principal, order_of
from memoryhub.auth.principals import Principal
from memoryhub.errors import DomainError, gettext_noop
from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.jobs.retries import FIRST_PAUSE_SECONDS, Postponed
from memoryhub.llm.client import NOT_CONFIGURED, call_seconds, complete, material_limit
from memoryhub.llm.errors import ProviderUnavailable
from memoryhub.llm.prompts import fenced, prompt
from memoryhub.llm.tokens import count_raw
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy, zone_of
from memoryhub.tenancy.policy import Trust
from summaries.actions.documents import COMPACT_KIND, note_outcome, write_document
from summaries.actions.projects import check_trusted
from summaries.domain.compaction import (
    COMPACTED,
    NEVER_COMPACTED,
    PROTECTED_AGE,
    REFUSED_OUTCOMES,
    SECTION_TOKENS,
    Block,
    CannotCompact,
    Outcome,
    Protection,
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
from summaries.domain.projects import EventKind, ProjectStatus
from summaries.domain.summaries import cleaned_answer, length_limits
from summaries.models import Document, Project, ProjectEvent

CALL_SECONDS: Final = 180.0
FENCE_BYTES: Final = 16
CODE_BYTES: Final = 4

MAX_EVENTS: Final = 200
"""Latest compactions of a project, among which each document's last is searched."""

REFUSALS: Final = {
    Outcome.NO_MODEL: gettext_noop("No language model is configured, so the document was left as it was."),
    Outcome.TOO_MUCH_PROTECTED: gettext_noop(
        "What is protected alone is longer than the document may be; unpin or shorten it."
    ),
    Outcome.REFUSED: gettext_noop(
        "The rewritten text lost what is protected, or was too long; the document was left as it was."
    ),
}


class NotCompacted(DomainError, ValueError):
    """The document is never rewritten; people maintain it by hand."""

    code = "not_compacted"


class CompactionRefused(Exception):
    """The document stays as it is; an immediate retry would end the same."""

    permanent = True


@transaction.atomic
def enqueue_compaction(*, document: Document, by: Principal, now: datetime) -> UUID:
    """Enqueue a document's compaction, due or not, and return the job's id; the actor of its project is loaded.

    Raises NotCompacted, ProviderUnavailable where there is no language model, Forbidden for an untrusted key,
    UnknownRow where the actor was erased concurrently.
    """
    check_trusted(by)
    if document.name == NEVER_COMPACTED:
        raise NotCompacted(f"{NEVER_COMPACTED} is never rewritten.")
    if settings.LLM.provider == "none":
        raise ProviderUnavailable(str(NOT_CONFIGURED), code="not_configured", permanent=True)
    lock_actor(document.actor_id)
    actor = document.project.actor
    audit.record_each(by=by, verb="order", object_kind="compaction", object_ids=[document.pk], actor=actor, now=now)
    # A separate key: a queued automatic job would skip a document that is short enough.
    payload = {"document_id": str(document.pk), "asked": True}
    return enqueue(
        COMPACT_KIND,
        actor_id=document.actor_id,
        key=f"asked:{by.id}:{document.pk}",
        payload=payload,
        order=order_of(by),
    )


def compact(*, job: JobContext, now: datetime) -> Writes | None:
    """Compact the document of a job's payload if that is due; return the function that writes it.

    Raises ProviderError, CompactionRefused, and Postponed where the document changed concurrently.
    """
    assert job.actor_id is not None
    rows = Document.objects.of(job.actor_id).not_deleted().select_related("project__actor__agent")
    document = rows.exclude(name=NEVER_COMPACTED).filter(pk=UUID(job.payload["document_id"])).first()
    if document is None or document.project.status is not ProjectStatus.ACTIVE:
        return None
    actor = document.project.actor
    policy = effective_policy(CompactionPolicy, actor.agent, actor)
    is_requested = bool(job.payload.get("asked"))
    if document.token_count <= (policy.target if is_requested else policy.limit):
        if not is_requested:
            return None
        return lambda: note_outcome(document=document, outcome=Outcome.NOT_NEEDED, now=now)
    try:
        if settings.LLM.provider == "none":
            raise CannotCompact(Outcome.NO_MODEL)
        text = _compacted_text(document, policy, now)
    except CannotCompact as error:
        with job.step():
            note_outcome(document=document, outcome=error.outcome, missing=error.missing, now=now)
        raise CompactionRefused(REFUSALS[error.outcome]) from None
    return lambda: _write_result(job, document, text, now)


def _write_result(job: JobContext, document: Document, text: str, now: datetime) -> None:
    try:
        write_document(
            document=document,
            text=text,
            kind=DocumentKind.COMPACTION,
            by=job_principal(job),
            now=now,
            expected_version=document.version,
        )
    except VersionMismatch:
        raise Postponed(
            "The document changed while it was compacted; it is begun anew.", seconds=FIRST_PAUSE_SECONDS
        ) from None
    except UnknownRow:
        return  # deleted concurrently


def _compacted_text(document: Document, policy: CompactionPolicy, now: datetime) -> str:
    protection = _protection(document, now, _protected_digests(document, now))
    pieces = pieces_of(document.text, protection)
    room = free_tokens(pieces, target=policy.target, count=count_raw)
    sections = sections_of(pieces, count=count_raw, most=material_limit(Operation.COMPACT, SECTION_TOKENS))
    actor = document.project.actor
    parts = [
        _rewrite(actor, section, share) if section.free.strip() else section.text
        for section, share in zip(sections, shares(sections, room=room, count=count_raw), strict=True)
    ]
    text = "".join(part if part.endswith("\n") else f"{part}\n" for part in parts)
    return checked(pieces, text, target=policy.target, count=count_raw)


def _rewrite(actor: Actor, section: Section, share: int) -> str:
    """Rewrite a section within about `share` tokens, asking at most twice. Raises CannotCompact, ProviderError."""
    while (code := secrets.token_hex(CODE_BYTES)) in section.text:
        continue
    masked = masked_text(section, code)
    answer = _ask(actor, masked, [], share)
    first = rewritten(section, answer, code)
    kept_tokens = sum(count_raw(piece.text) for piece in section.kept)
    if first.can_be_kept and count_raw(first.text) - kept_tokens <= share:
        return first.text
    marks = " ".join(mark_of(number, code) for number in range(1, len(section.kept) + 1)) or "–"
    complaint = prompt("compact_again", actor.agent.language, marks=marks, **length_limits(share))
    history = [ChatMessage("assistant", answer), ChatMessage("user", complaint)]
    second = rewritten(section, _ask(actor, masked, history, share), code)
    if second.can_be_kept:
        return second.text
    if first.can_be_kept:  # too long, but complete; other sections may be shorter
        return first.text
    raise CannotCompact(Outcome.REFUSED, missing=len(second.faults))


def _ask(actor: Actor, masked: str, history: list[ChatMessage], share: int) -> str:
    fence = secrets.token_hex(FENCE_BYTES)
    request = CompletionRequest(
        operation=Operation.COMPACT,
        messages=(ChatMessage("user", fenced({"document": masked}, fence)), *history),
        max_output_tokens=3 * share + 1_000,
        deadline_seconds=call_seconds(Operation.COMPACT, CALL_SECONDS),
        system=prompt("compact", actor.agent.language, **length_limits(share)),
    )
    return cleaned_answer(fence, complete(request, actor=actor).text)


class ProtectionReason(StrEnum):
    WHOLE = "whole"
    PINNED = "pinned"
    DOUBTED = "doubted"
    """It is untrusted: rewritten among the others it would become trusted (SPEC M10)."""
    YOUNG = "young"
    FRAME = "frame"
    """It is the title, the description, or above or below a protected block."""


def protected_blocks(*, document: Document, now: datetime) -> list[tuple[str, ProtectionReason]]:
    blocks = blocks_of(document.text)
    if document.name == NEVER_COMPACTED:
        return [(block.text, ProtectionReason.WHOLE) for block in blocks if block.text.strip()]
    digests = _protected_digests(document, now)
    protection = _protection(document, now, digests)
    protected = [blocks[index] for index in sorted(protected_places(blocks, protection))]
    return [(block.text, _reason(block, digests, protection)) for block in protected]


def _protection(document: Document, now: datetime, digests: Iterable[bytes]) -> Protection:
    actor = document.project.actor
    return Protection.at(now, frozenset(digests), zone_of(actor.agent, actor))


def _protected_digests(document: Document, now: datetime) -> dict[bytes, ProtectionReason]:
    reasons: dict[bytes, ProtectionReason] = {}
    for digest, pinned, trust, created_at in document.entries.values_list(
        "text_digest", "pinned", "trust", "created_at"
    ):
        if pinned:
            reasons[bytes(digest)] = ProtectionReason.PINNED
        elif trust == Trust.UNTRUSTED:
            reasons[bytes(digest)] = ProtectionReason.DOUBTED
        elif created_at > now - PROTECTED_AGE:
            reasons[bytes(digest)] = ProtectionReason.YOUNG
    return reasons


def _reason(block: Block, digests: dict[bytes, ProtectionReason], protection: Protection) -> ProtectionReason:
    if PIN in block.text:
        return ProtectionReason.PINNED
    for line in block.text.splitlines():
        if line_digest(line) in digests:
            return digests[line_digest(line)]
    return ProtectionReason.YOUNG if protection.covers(block) else ProtectionReason.FRAME


@dataclass(frozen=True)
class CompactionState:
    """Length of a document in tokens, and its last compaction; `limit` is None for one compacted on request only."""

    tokens: int
    limit: int | None
    target: int
    may_be_asked: bool
    is_waiting: bool
    has_model: bool
    outcome: str
    missing: int
    at: datetime | None

    @property
    def percent(self) -> int:
        """Share of the limit that is used, at most 100."""
        return min(100, 100 * self.tokens // max(1, self.limit)) if self.limit is not None else 0

    @property
    def is_too_long(self) -> bool:
        return self.limit is not None and self.tokens > self.limit


def refused_compactions(*, since: datetime) -> QuerySet[ProjectEvent]:
    """Return the refused compactions of documents that are unchanged since."""
    unchanged = Document.objects.not_deleted().filter(
        actor_id=OuterRef("actor_id"), updated_at__lte=OuterRef("created_at")
    )
    unchanged = unchanged.annotate(key=Cast("pk", TextField())).filter(key=OuterRef("document_key"))
    rows = ProjectEvent.objects.filter(kind=EventKind.COMPACT, outcome__in=REFUSED_OUTCOMES, created_at__gte=since)
    return rows.annotate(document_key=KT("details__document_id")).filter(Exists(unchanged))


def compaction_states(*, project: Project, documents: Sequence[Document]) -> dict[UUID, CompactionState]:
    """Return the state of each of a project's documents; the actor of the project is loaded."""
    policy = effective_policy(CompactionPolicy, project.actor.agent, project.actor)
    latest: dict[str, ProjectEvent] = {}
    events = ProjectEvent.objects.filter(actor_id=project.actor_id, project_id=project.pk, kind=EventKind.COMPACT)
    for row in events.order_by("-created_at", "-id")[:MAX_EVENTS]:
        latest.setdefault(str(row.details.get("document_id")), row)
    keys = [str(document.pk) for document in documents]
    jobs = Job.objects.open().filter(actor_id=project.actor_id, kind=COMPACT_KIND, payload__document_id__in=keys)
    queued = set(jobs.values_list("payload__document_id", flat=True))
    states = {}
    for document, key in zip(documents, keys, strict=True):
        event = latest.get(key)
        states[document.pk] = CompactionState(
            tokens=document.token_count,
            limit=policy.limit if document.name in COMPACTED else None,
            target=policy.target,
            may_be_asked=document.name != NEVER_COMPACTED and document.token_count > policy.target,
            is_waiting=key in queued,
            has_model=settings.LLM.provider != "none",
            outcome=event.outcome if event else "",
            missing=int(event.details.get("missing") or 0) if event else 0,
            at=event.created_at if event else None,
        )
    return states
