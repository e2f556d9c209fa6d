"""Correct decisions about a message's project, undo corrections, and list uncertain decisions."""

from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import QuerySet
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow, lock_actor
from memoryhub.auth.principals import Principal
from memoryhub.errors import DomainError
from summaries.actions.projects import (
    check_active,
    check_trusted,
    create_project,
    delete_project,
    locked_project,
    note_event,
    project_named,
)
from summaries.domain.projects import EventKind, free_name, is_name, propose_name
from summaries.domain.routing import Confidence
from summaries.models import Document, Project, RoutingDecision

REVIEW_PERIOD: Final = timedelta(days=30)


class NotCorrected(DomainError):
    """The decision has no such correction, or another one since."""


@transaction.atomic
def correct_routing(
    *, decision: RoutingDecision, project_name: str | None, by: Principal, reason: str = "", now: datetime
) -> RoutingDecision:
    """Correct a message's project, for similar ones too (SPEC P4); None: it belongs to none, and no longer waits.

    Raises UnknownRow, Forbidden.
    """
    check_trusted(by)
    lock_actor(decision.actor_id)
    project = None
    if project_name is not None:
        project = project_named(actor_id=decision.actor_id, name=project_name)
        check_active(project)
    stored = _locked(decision)
    _write_correction(stored, project, by=by, reason=reason, now=now)
    return stored


def _write_correction(
    decision: RoutingDecision, project: Project | None, *, undo: bool = False, by: Principal, reason: str, now: datetime
) -> None:
    """Set the corrected project of a locked decision, or remove it again, and record that."""
    outcome = "confirmed" if decision.project_id == (project and project.pk) else "corrected"
    if undo:
        decision.corrected_project, decision.corrected_by, decision.corrected_at = None, "", None
    else:
        decision.corrected_project, decision.corrected_by, decision.corrected_at = project, by.name[:150], now
    decision.save(update_fields=["corrected_project", "corrected_by", "corrected_at"])
    audit.record(by=by, verb="uncorrect" if undo else "correct", row=decision, reason=reason, now=now)
    note_event(
        actor=decision.actor,
        project=project,
        kind=EventKind.CORRECT,
        outcome="taken_back" if undo else outcome,
        details={"decision_id": str(decision.pk)},
        now=now,
    )


def uncertain_decisions(now: datetime) -> QuerySet[RoutingDecision]:
    """Return the uncertain decisions that no person has reviewed; older ones are no longer of interest."""
    return RoutingDecision.objects.filter(
        confidence=Confidence.LOW, corrected_at=None, created_at__gte=now - REVIEW_PERIOD
    )


def proposed_name(decision: RoutingDecision) -> str:
    """Return a free name for a new project: the router's proposal, else the message's first words."""
    name = decision.proposed_name or propose_name(" ".join(decision.message[:200].split()[:4]))
    similar = Project.objects.of(decision.actor_id).not_deleted().filter(name__startswith=name[:40])
    return free_name(name, similar.values_list("name", flat=True))


@transaction.atomic
def correct_to_new_project(
    *, decision: RoutingDecision, name: str, by: Principal, reason: str = "", now: datetime
) -> Project:
    """Create a project and correct a decision to it. Raises as `create_project`, `correct_routing`."""
    lock_actor(decision.actor_id)
    project = create_project(actor=decision.actor, name=name, description="", by=by, now=now)
    correct_routing(decision=decision, project_name=name, by=by, reason=reason, now=now)
    return project


@transaction.atomic
def undo_correction(
    *,
    decision: RoutingDecision,
    corrected_to: str,
    former: str = "",
    with_project: bool = False,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> bool:
    """Undo the correction of a decision to the project `corrected_to`, "" for none.

    `former` is the project of the correction before it; `with_project` deletes the project where this correction
    created it and it is unused. Return whether it was deleted. Raises NotCorrected, UnknownRow, Forbidden.
    """
    check_trusted(by)
    lock_actor(decision.actor_id)
    stored = _locked(decision)
    project = stored.corrected_project
    if stored.corrected_at is None or (project.name if project else "") != corrected_to:
        raise NotCorrected(_("This correction was changed or undone at the same time."))
    # Equal times identify a project created by `correct_to_new_project`; no other one is deleted.
    created_with_it = project is not None and project.created_at == stored.corrected_at
    if is_name(former):
        correct_routing(decision=stored, project_name=former, by=by, reason=reason, now=now)
    else:
        _write_correction(stored, project, undo=True, by=by, reason=reason, now=now)
    if project is None or not (with_project and created_with_it and _is_unused(locked_project(project))):
        return False
    delete_project(project=project, by=by, reason=reason, now=now)
    return True


def _locked(decision: RoutingDecision) -> RoutingDecision:
    rows = RoutingDecision.objects.select_for_update(of=["self"], no_key=True)
    rows = rows.select_related("actor__agent", "project", "corrected_project")
    locked = rows.filter(pk=decision.pk, actor_id=decision.actor_id).first()
    if locked is None:
        raise UnknownRow(format_lazy(_("No decision {id}."), id=decision.pk))
    return locked


def _is_unused(project: Project) -> bool:
    documents = Document.objects.of(project.actor_id).filter(project=project)
    routed = RoutingDecision.objects.filter(actor_id=project.actor_id)
    is_used = routed.filter(project=project).exists() or routed.filter(corrected_project=project).exists()
    return list(documents.values_list("version", flat=True)) == [1] and project.version == 1 and not is_used
