"""Finding the project that a message belongs to, keeping every decision, and learning from what people put right.

A language model is asked once for each message (SPEC P3); without one, or where it cannot be asked, words decide.
"""

import logging
import secrets
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Left, Right

from conversations.actions.routed import Routing
from conversations.models import Session
from memoryhub.access import audit
from memoryhub.access.domain import Principal
from memoryhub.access.tenancy import Tenant, UnknownRow, ensure_actor, hold
from memoryhub.fences import ForgedFence, fenced
from memoryhub.providers.asking import ask
from memoryhub.providers.errors import ProviderError
from memoryhub.providers.llm.base import ChatMessage, CompletionRequest, Operation
from memoryhub.providers.prompts import prompt
from memoryhub.tenants.domain import Trust
from memoryhub.tenants.models import Actor
from memoryhub.tenants.policies import effective_policy
from memoryhub.tokens.counter import count_raw
from memoryhub.waiting import let_go_of_database
from summaries.actions.projects import (
    ProjectExists,
    check_trusted,
    create_project,
    note_event,
    project_named,
)
from summaries.domain.documents import without_lines
from summaries.domain.project_policy import AUTO, ProjectPolicy
from summaries.domain.projects import EventKind, Listed, catalog, one_line
from summaries.domain.routing import (
    Action,
    Confidence,
    Example,
    Verdict,
    action_of,
    answer_schema,
    most_alike,
    profile_of,
    route_by_words,
    settled,
    verdict_of,
)
from summaries.models import Document, DocumentEntry, Project, RoutingDecision

NEWEST_CORRECTIONS: Final = 200
"""What people put right lately; of these the most alike are shown to a model."""

BEGINNING: Final = 4_000
END: Final = 2_000
"""Characters of a document that are compared: what it is about, and what was appended last."""

LONGEST_MESSAGE: Final = 6_000
LONGEST_EXAMPLE: Final = 300
"""Characters of a message that a model is shown."""

OUTPUT_TOKENS: Final = 400
FENCE_BYTES: Final = 8

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Told:
    """A verdict, what asking for it cost, and whether a model should have given it and could not be asked."""

    verdict: Verdict
    tokens: int = 0
    degraded: bool = False


def route(
    *,
    tenant: Tenant,
    message: str,
    channel: str,
    session: Session | None,
    is_asked: bool,
    by: Principal,
    now: datetime,
) -> Routing | None:
    """Route a message for a context or a chat; None where nobody asked for it and the policy says no.

    For an agent that nobody ever wrote to there is nothing to route among.
    """
    if tenant.agent is None:
        return None
    policy = effective_policy(ProjectPolicy, tenant.agent, tenant.actor)
    if not is_asked and policy.project_routing != AUTO:
        return None
    actor = tenant.actor or ensure_actor(tenant.agent, tenant.user_id)
    decision, degraded = _decided(actor, message, channel, session, by, now)
    return Routing(
        id=decision.pk,
        project=decision.project.name if decision.project else None,
        confidence=decision.confidence,
        action=decision.action,
        proposed_name=decision.proposed_name or None,
        discloses=decision.action == Action.DISCLOSE,
        degraded=degraded,
    )


def route_message(
    *, actor: Actor, message: str, channel: str, session: Session | None = None, by: Principal, now: datetime
) -> RoutingDecision:
    """Find a message's project, keep the decision and return it; the actor's agent is loaded. Network."""
    return _decided(actor, message, channel, session, by, now)[0]


def _decided(
    actor: Actor, message: str, channel: str, session: Session | None, by: Principal, now: datetime
) -> tuple[RoutingDecision, bool]:
    policy = effective_policy(ProjectPolicy, actor.agent, actor)
    projects = list(Project.objects.of(actor.pk).order_by("name"))
    told = _told(actor, message, channel, projects, policy)
    verdict, project = told.verdict, None
    action = action_of(verdict)
    if verdict.project is not None:
        project = next(each for each in projects if each.name == verdict.project)
    elif action is Action.PROPOSE and policy.project_auto_create and by.is_trusted:
        project = _made(actor, str(verdict.proposed_name), by, now)
        verdict, action = replace(verdict, confidence=Confidence.MEDIUM), Action.DISCLOSE
    decision = _kept(actor, message, channel, session, project, verdict, action, told.tokens, now)
    return decision, told.degraded


def _made(actor: Actor, name: str, by: Principal, now: datetime) -> Project:
    """Make the project that was proposed. Its description is left to people: a message is nobody's summary."""
    try:
        return create_project(actor=actor, name=name, description="", by=by, now=now)
    except ProjectExists:
        return project_named(actor_id=actor.pk, name=name)


@transaction.atomic
def _kept(
    actor: Actor, message: str, channel: str, session: Session | None, project: Project | None, verdict: Verdict,
    action: Action, tokens: int, now: datetime,
) -> RoutingDecision:  # fmt: skip
    hold(actor.pk)
    if project is not None:  # it may have been deleted while the model was asked
        project = Project.objects.of(actor.pk).select_for_update(no_key=True).filter(pk=project.pk).first()
        if project is None:
            verdict, action = replace(verdict, confidence=Confidence.LOW), Action.ASK
    decision = RoutingDecision.objects.create(
        actor=actor, message=message, channel=channel, session=session, project=project,
        proposed_name=verdict.proposed_name or "", confidence=verdict.confidence, action=action,
        reason=verdict.reason, created_at=now,
    )  # fmt: skip
    note_event(
        actor=actor, project=project, kind=EventKind.ROUTE, tokens=tokens, outcome=action,
        details={"decision_id": str(decision.pk)}, now=now,
    )  # fmt: skip
    return decision


def _told(
    actor: Actor, message: str, channel: str, projects: Sequence[Project], policy: ProjectPolicy
) -> Told:
    examples = _examples(actor)
    if settings.LLM.provider == "none" or not projects:
        return Told(_by_words(actor, message, projects, examples))
    shown = most_alike(message, examples, policy.routing_examples)
    try:
        return _by_model(actor, message, channel, projects, shown, policy)
    except ProviderError as error:
        log.warning("routed by words", extra={"code": error.code})
        verdict = _by_words(actor, message, projects, examples)
        reason = f"The language model could not be asked ({error.code}), so words decided. {verdict.reason}"
        return Told(replace(verdict, reason=reason), degraded=True)


def _examples(actor: Actor) -> list[Example]:
    """Return what people put right, latest first."""
    rows = RoutingDecision.objects.filter(actor_id=actor.pk, corrected_project__isnull=False)
    latest = rows.order_by("-corrected_at", "-id").values_list("message", "corrected_project__name")
    return [Example(*row) for row in latest[:NEWEST_CORRECTIONS]]


def _by_words(
    actor: Actor, message: str, projects: Sequence[Project], examples: Sequence[Example]
) -> Verdict:
    texts = _texts(actor)
    profiles = [
        profile_of(
            each.name,
            description=each.description,
            texts=texts[each.pk],
            examples=[example.message for example in examples if example.project == each.name],
        )
        for each in projects
    ]
    return route_by_words(message, profiles, examples)


def _texts(actor: Actor) -> dict[Any, list[str]]:
    """Return what the actor's documents say at their beginning and end, by project, but for what nobody believes."""
    doubted: dict[Any, set[bytes]] = defaultdict(set)
    entries = DocumentEntry.objects.filter(actor_id=actor.pk, trust=Trust.UNTRUSTED)
    for document_id, digest in entries.values_list("document_id", "text_digest"):
        doubted[document_id].add(bytes(digest))
    rows = Document.objects.of(actor.pk).annotate(beginning=Left("text", BEGINNING), end=Right("text", END))
    texts: dict[Any, list[str]] = defaultdict(list)
    for pk, project_id, beginning, end in rows.values_list("pk", "project_id", "beginning", "end"):
        pieces = [beginning] if len(beginning) < BEGINNING else [beginning, end]
        texts[project_id] += [without_lines(piece, doubted[pk]) for piece in pieces]
    return texts


def _by_model(
    actor: Actor,
    message: str,
    channel: str,
    projects: Sequence[Project],
    examples: Sequence[Example],
    policy: ProjectPolicy,
) -> Told:
    fence, material = _fenced(message, channel, projects, examples)
    request = CompletionRequest(
        operation=Operation.ROUTE,
        messages=(ChatMessage("user", material),),
        max_output_tokens=OUTPUT_TOKENS,
        deadline_seconds=policy.routing_deadline_seconds,
        system=prompt("route", actor.agent.language, fence=fence),
        json_schema=answer_schema(),
    )
    let_go_of_database()
    completion = ask(request, actor=actor)
    verdict = settled(verdict_of(completion.data), [each.name for each in projects])
    return Told(verdict, completion.input_tokens + completion.output_tokens)


def _fenced(
    message: str, channel: str, projects: Sequence[Project], examples: Sequence[Example]
) -> tuple[str, str]:
    """Return a fence, and the material between lines with it."""
    blocks = {"projects": catalog((Listed(each.name, each.description) for each in projects), count_raw)}
    if examples:
        shown = (f"{one_line(each.message)[:LONGEST_EXAMPLE]} → {each.project}" for each in examples)
        blocks["routed-by-hand"] = "\n".join(shown)
    blocks["message"] = f"({channel})\n{message[:LONGEST_MESSAGE]}"
    while True:
        fence = secrets.token_hex(FENCE_BYTES)
        try:
            return fence, fenced(blocks, fence)
        except ForgedFence:
            continue  # a text that holds this very fence cannot hold the next one as well


@transaction.atomic
def correct_routing(
    *, decision: RoutingDecision, project_name: str, by: Principal, reason: str = "", now: datetime
) -> RoutingDecision:
    """Say which project a message belongs to; messages like it are routed there from now on (SPEC P4).

    Raises UnknownRow where there is no such project, and Forbidden for an untrusted key.
    """
    check_trusted(by)
    hold(decision.actor_id)
    project = project_named(actor_id=decision.actor_id, name=project_name)
    rows = RoutingDecision.objects.select_for_update(of=["self"], no_key=True).select_related(
        "actor__agent", "project"
    )
    locked = rows.filter(pk=decision.pk, actor_id=decision.actor_id).first()
    if locked is None:
        raise UnknownRow(f"No decision {decision.pk}.")
    locked.corrected_project, locked.corrected_by, locked.corrected_at = project, by.name[:150], now
    locked.save(update_fields=["corrected_project", "corrected_by", "corrected_at"])
    audit.record(
        by=by, verb="correct", object_kind="routing", object_id=locked.pk, actor=locked.actor, reason=reason, now=now
    )  # fmt: skip
    is_same = locked.project_id == project.pk
    note_event(
        actor=locked.actor, project=project, kind=EventKind.CORRECT, outcome="confirmed" if is_same else "corrected",
        details={"decision_id": str(locked.pk)}, now=now,
    )  # fmt: skip
    return locked
