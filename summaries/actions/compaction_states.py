"""How long a project's documents are beside what they may be, and what became of their last compaction (SPEC P7)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.conf import settings

from memoryhub.jobs.models import Job
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from summaries.actions.oversize import COMPACT_KIND
from summaries.domain.compaction import COMPACTED, NEVER_COMPACTED
from summaries.domain.compaction_policy import CompactionPolicy
from summaries.domain.projects import EventKind
from summaries.models import Document, Project, ProjectEvent

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
