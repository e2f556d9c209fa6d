"""Ordering a compaction where a document has grown too long, or where somebody asks for it (SPEC P7)."""

from datetime import datetime
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import hold
from memoryhub.jobs.queue import enqueue
from memoryhub.llm.none import NOT_CONFIGURED
from memoryhub.providers.errors import ProviderUnavailable
from memoryhub.tenancy.policies import effective_policy
from summaries.actions.projects import check_trusted, note_event
from summaries.domain.compaction import COMPACTED, FOLLOW_UP, NEVER_COMPACTED, Outcome
from summaries.domain.compaction_policy import CompactionPolicy
from summaries.domain.projects import EventKind
from summaries.models import Document, Project, ProjectEvent

COMPACT_KIND: Final = "compact"


class NotCompacted(ValueError):
    """The document that is never rewritten: a person keeps it by hand."""


def order_if_too_long(*, project: Project, document: Document, now: datetime) -> None:
    """Enqueue the compaction of a document that has passed its limit, in the transaction that let it grow.

    Without a language model that is noted once. After a refusal the document is left alone for a day.
    """
    if document.name not in COMPACTED:
        return
    limit = effective_policy(CompactionPolicy, project.actor.agent, project.actor).limit
    if document.token_count <= limit:
        return
    last = _last_outcome(document)
    if settings.LLM.provider == "none":
        if last is None or last.outcome != Outcome.NO_MODEL:
            note_outcome(project=project, document=document, outcome=Outcome.NO_MODEL, now=now)
    elif not (last and last.outcome in _REFUSALS and last.created_at > now - FOLLOW_UP):
        enqueue(COMPACT_KIND, actor_id=document.actor_id, key=str(document.pk), payload=_payload(document))


_REFUSALS: Final = frozenset({Outcome.REFUSED, Outcome.TOO_MUCH_PROTECTED})


@transaction.atomic
def order_compaction(*, document: Document, by: Principal, now: datetime) -> UUID:
    """Enqueue a document's compaction, due or not, and return the job's id; the actor of its project is loaded.

    Raises NotCompacted, ProviderUnavailable where there is no language model, Forbidden for an untrusted key,
    UnknownRow where the actor was erased meanwhile.
    """
    check_trusted(by)
    if document.name == NEVER_COMPACTED:
        raise NotCompacted(f"{NEVER_COMPACTED} is never rewritten.")
    if settings.LLM.provider == "none":
        raise ProviderUnavailable(NOT_CONFIGURED, code="not_configured", permanent=True)
    hold(document.actor_id)
    actor = document.project.actor
    audit.record(by=by, verb="order", object_kind="compaction", object_id=document.pk, actor=actor, now=now)
    # A key of its own: an automatic job that waits would find the document short enough, and do nothing.
    payload = {**_payload(document), "asked": True}
    return enqueue(COMPACT_KIND, actor_id=document.actor_id, key=f"asked:{document.pk}", payload=payload)


def note_outcome(
    *, project: Project, document: Document, outcome: Outcome, missing: int = 0, now: datetime
) -> None:
    """Write down what became of a compaction that changed nothing; one that did is noted as any new text is."""
    details = {"document_id": str(document.pk), "version": document.version, "missing": missing}
    note_event(
        actor=project.actor, project=project, kind=EventKind.COMPACT, tokens=document.token_count, outcome=outcome,
        details=details, now=now,
    )  # fmt: skip


def _payload(document: Document) -> dict[str, str]:
    return {"document_id": str(document.pk)}


def _last_outcome(document: Document) -> ProjectEvent | None:
    rows = ProjectEvent.objects.filter(
        actor_id=document.actor_id, project_id=document.project_id, kind=EventKind.COMPACT
    )
    return rows.filter(details__document_id=str(document.pk)).order_by("-created_at", "-id").first()
