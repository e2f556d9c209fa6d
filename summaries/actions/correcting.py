"""More that people say about a routing: that it was about something new, and that a correction was none (SPEC P4)."""

from datetime import datetime

from django.db import transaction

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import UnknownRow, hold
from memoryhub.errors import DomainError, told
from summaries.actions.projects import (
    check_trusted,
    create_project,
    delete_project,
    locked_project,
    note_event,
)
from summaries.actions.routing import correct_routing
from summaries.domain.projects import EventKind, free_name, is_name, propose_name
from summaries.models import Document, Project, RoutingDecision

NAMED_AFTER = 200
"""Characters of a message that a project can be named after."""


class NotCorrected(DomainError):
    """Nobody put the decision right, or somebody else did since."""


def proposed_name(decision: RoutingDecision) -> str:
    """Return what a new project for a message could be called: the router's proposal, else its first words."""
    wanted = decision.proposed_name or propose_name(" ".join(decision.message[:NAMED_AFTER].split()[:4]))
    taken = Project.objects.of(decision.actor_id).filter(name__startswith=wanted[:40])
    return free_name(wanted, taken.values_list("name", flat=True))


@transaction.atomic
def correct_to_new_project(
    *, decision: RoutingDecision, name: str, by: Principal, reason: str = "", now: datetime
) -> Project:
    """Make a project for a message and say that it belongs there. Raises as `create_project`, `correct_routing`."""
    hold(decision.actor_id)
    project = create_project(actor=decision.actor, name=name, description="", by=by, now=now)
    correct_routing(decision=decision, project_name=name, by=by, reason=reason, now=now)
    return project


@transaction.atomic
def take_back_correction(
    *,
    decision: RoutingDecision,
    said: str,
    former: str = "",
    with_project: bool = False,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> bool:
    """Let a message's routing stand as it did before somebody said that it belongs to the project `said`.

    `former` is what a person had said before that; `with_project` deletes the project where this very correction made
    it and nothing has come into it since. Return whether it was deleted. Raises NotCorrected, UnknownRow, Forbidden.
    """
    check_trusted(by)
    hold(decision.actor_id)
    rows = RoutingDecision.objects.select_for_update(of=["self"], no_key=True)
    rows = rows.select_related("actor__agent", "corrected_project")
    locked = rows.filter(pk=decision.pk, actor_id=decision.actor_id).first()
    if locked is None:
        raise UnknownRow(told("No such decision."))
    project = locked.corrected_project
    if project is None or project.name != said:
        raise NotCorrected(told("This was put right otherwise meanwhile, or not at all."))
    # `correct_to_new_project` gives both the same moment, so nobody else's project is taken for its own.
    was_made_for_it = project.created_at == locked.corrected_at
    if is_name(former):
        correct_routing(decision=locked, project_name=former, by=by, reason=reason, now=now)
    else:
        _cleared(locked, project, by, reason, now)
    goes = with_project and was_made_for_it and _is_as_made(locked_project(project))
    if goes:
        delete_project(project=project, by=by, reason=reason, now=now)
    return goes


def _cleared(decision: RoutingDecision, project: Project, by: Principal, reason: str, now: datetime) -> None:
    decision.corrected_project, decision.corrected_by, decision.corrected_at = None, "", None
    decision.save(update_fields=["corrected_project", "corrected_by", "corrected_at"])
    audit.record(
        by=by, verb="uncorrect", object_kind="routing", object_id=decision.pk, actor=decision.actor, reason=reason,
        now=now,
    )  # fmt: skip
    note_event(
        actor=decision.actor, project=project, kind=EventKind.CORRECT, outcome="taken_back",
        details={"decision_id": str(decision.pk)}, now=now,
    )  # fmt: skip


def _is_as_made(project: Project) -> bool:
    """Say whether nobody has done anything with a project but make it."""
    documents = list(
        Document.objects.of(project.actor_id).filter(project=project).values_list("version", flat=True)
    )
    routed = RoutingDecision.objects.filter(actor_id=project.actor_id)
    is_used = routed.filter(project=project).exists() or routed.filter(corrected_project=project).exists()
    return documents == [1] and project.version == 1 and not is_used
