"""Route messages to projects, store every decision, and learn from people's corrections (SPEC P3, P4).

A language model is asked once for each message; without one, or where it fails, the message's words decide.
"""

import logging
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Final
from uuid import UUID

from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.db.models import Case, F, Q, TextField, When, Window
from django.db.models.functions import Coalesce, Left, Right, RowNumber

from conversations.domain.routing import Routing
from conversations.models import Session
from memoryhub.auth.access import Tenant, ensure_actor, lock_actor
from memoryhub.auth.principals import Principal, Scope
from memoryhub.auth.screening import Screening
from memoryhub.llm.client import complete, material_limit
from memoryhub.llm.errors import ProviderError, ProviderTimeout
from memoryhub.llm.prompts import fenced, prompt
from memoryhub.llm.tokens import count_raw
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation
from memoryhub.search.analysis import analyse
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import Trust, TrustPolicy
from summaries.actions.entries import untrusted_digests
from summaries.actions.projects import ProjectExists, create_project, note_event, project_named
from summaries.domain.documents import without_lines
from summaries.domain.policy import AUTO, ProjectPolicy
from summaries.domain.projects import CATALOG_TOKENS, CatalogEntry, EventKind
from summaries.domain.routing import (
    MODEL_AWAY,
    Action,
    Confidence,
    PastDecision,
    Prediction,
    action_of,
    answer_schema,
    parse_prediction,
    session_project,
    usable_prediction,
)
from summaries.domain.word_router import (
    COMPARED_LENGTH,
    MAX_DOCUMENTS,
    Example,
    Profile,
    candidates_of,
    characters_per_document,
    evidence,
    exact_correction,
    most_similar,
    profile_of,
    question_blocks,
    route_by_words,
)
from summaries.models import Document, DocumentEntry, Project, RoutingDecision

MAX_CORRECTIONS: Final = 200
"""Corrections among which the examples for a model are chosen."""

MAX_MESSAGE_LENGTH: Final = 6_000
"""Characters of a message that are read by a model or by words."""

MAX_SESSION_DECISIONS: Final = 20
"""Earlier decisions of a session that determine its current project."""

MAX_SUGGESTED_PROJECTS: Final = 40
MAX_SUGGESTION_LENGTH: Final = 1_000
"""Latest projects of an actor, and characters of a message, that are compared for suggestions."""

MODEL_PAUSED: Final = "routing.model_too_slow:{agent_id}"
MODEL_PAUSE_SECONDS: Final = 60
"""Cache key and seconds of the pause after a timeout of the model; per agent, so that none pauses another's model."""

OUTPUT_TOKENS: Final = 400
FENCE_BYTES: Final = 8

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RoutingRequest:
    """Message to be routed, with the actor's projects, earlier corrections, and its session's project."""

    actor: Actor
    text: str
    channel: str
    projects: Sequence[Project]
    examples: Sequence[Example]
    current: str | None

    @property
    def names(self) -> list[str]:
        return [project.name for project in self.projects]

    @cached_property
    def texts(self) -> Mapping[str, Sequence[str]]:
        """Trusted texts of the documents by project's name."""
        by_id = _trusted_excerpts(self.actor)
        return {project.name: by_id[project.pk] for project in self.projects}

    @cached_property
    def profiles(self) -> Sequence[Profile]:
        return [
            profile_of(
                project.name,
                description=project.description,
                texts=self.texts[project.name],
                examples=[example.message for example in self.examples if example.project == project.name],
            )
            for project in self.projects
        ]


def route(
    *,
    tenant: Tenant,
    message: str,
    channel: str,
    session: Session | None,
    is_requested: bool,
    dry_run: bool = False,
    by: Principal,
    now: datetime,
) -> Routing | None:
    """Route a message for a context or a chat; None where neither the request nor the policy wants it.

    Also None for an agent without any data, and in a dry run for a new user.
    """
    if tenant.agent is None or (dry_run and tenant.actor is None):
        return None
    policy = effective_policy(ProjectPolicy, tenant.agent, tenant.actor)
    if not is_requested and policy.project_routing != AUTO:
        return None
    actor = tenant.actor or ensure_actor(tenant.agent, tenant.user_id)
    decision, prediction, degraded = _decide(actor, message, channel, session, by, now, is_trial=dry_run)
    return Routing(
        id=decision.pk,
        project=decision.project.name if decision.project else None,
        confidence=decision.confidence,
        action=decision.action,
        proposed_name=decision.proposed_name or None,
        discloses=decision.action == Action.DISCLOSE,
        candidates=prediction.candidates,
        degraded=degraded,
    )


def route_message(
    *, actor: Actor, message: str, channel: str, session: Session | None = None, by: Principal, now: datetime
) -> RoutingDecision:
    """Find a message's project, and return the stored decision; the actor's agent is loaded. Network."""
    return _decide(actor, message, channel, session, by, now)[0]


def _decide(
    actor: Actor,
    message: str,
    channel: str,
    session: Session | None,
    by: Principal,
    now: datetime,
    is_trial: bool = False,
) -> tuple[RoutingDecision, Prediction, bool]:
    policy = effective_policy(ProjectPolicy, actor.agent, actor)
    trust = effective_policy(TrustPolicy, actor.agent, actor).trust(channel=channel, source_is_trusted=by.is_trusted)
    projects = list(Project.objects.of(actor.pk).active().order_by("name"))
    names = {row.name for row in projects}
    examples = [correction for correction in corrections_of(actor, trust) if correction.project in names]
    current = _current_project(session, trust) if session is not None else None
    current = current if current in names else None
    request = RoutingRequest(actor, message[:MAX_MESSAGE_LENGTH], channel, projects, examples, current)
    prediction, tokens, degraded = _predict(request, policy)
    action, project = action_of(prediction), None
    may_create = trust is Trust.TRUSTED and Scope.WRITE in by.scopes and not is_trial
    if prediction.project is not None:
        project = next(row for row in projects if row.name == prediction.project)
    elif action is Action.PROPOSE and policy.project_auto_create and may_create:
        name = str(prediction.proposed_name)
        try:  # the message is the description until a better one is written, so that the project can be found
            project = create_project(actor=actor, name=name, description=message, by=by, now=now)
        except ProjectExists:
            project = project_named(actor_id=actor.pk, name=name)
        prediction, action = replace(prediction, confidence=Confidence.MEDIUM), Action.DISCLOSE
    screening = Screening(actor)
    decision = RoutingDecision(
        actor=actor, message=screening.text(message), channel=channel, session=session, trust=trust, project=project,
        proposed_name=prediction.proposed_name or "", confidence=prediction.confidence, action=action,
        reason=screening.text(prediction.reason), created_at=now,
    )  # fmt: skip
    if not is_trial:
        _store(decision, tokens=tokens, now=now)
    return decision, prediction, degraded


@transaction.atomic
def _store(decision: RoutingDecision, *, tokens: int, now: datetime) -> None:
    actor, project = decision.actor, decision.project
    lock_actor(actor.pk)
    if project is not None:  # it may have been deleted or archived while the model was asked
        rows = Project.objects.of(actor.pk).active()
        project = rows.select_for_update(no_key=True).filter(pk=project.pk).first()
        if project is None:
            decision.project, decision.confidence, decision.action = None, Confidence.LOW, Action.ASK
    decision.save(force_insert=True)
    note_event(
        actor=actor,
        project=project,
        kind=EventKind.ROUTE,
        tokens=tokens,
        outcome=decision.action,
        details={"decision_id": str(decision.pk)},
        now=now,
    )


def _current_name(project: str) -> Coalesce:
    return Coalesce(f"{project}__merged_into__name", f"{project}__name")


def corrections_of(actor: Actor, trust: Trust) -> list[Example]:
    """Return the latest corrections, newest first; a merged project is replaced by the one it is part of.

    For a trusted message those of trusted ones: a correction approves a project, not the words of a message.
    """
    rows = RoutingDecision.objects.filter(
        actor_id=actor.pk, corrected_project__isnull=False, corrected_project__deleted_at=None
    )
    if trust is Trust.TRUSTED:
        rows = rows.filter(trust=Trust.TRUSTED)
    rows = rows.annotate(beginning=Left("message", COMPARED_LENGTH)).order_by("-corrected_at", "-id")
    latest = rows.values_list("beginning", _current_name("corrected_project"), "pk")
    return [Example(*row) for row in latest[:MAX_CORRECTIONS]]


def _current_project(session: Session, trust: Trust) -> str | None:
    """Return the project that a session is about.

    Decisions about untrusted messages do not influence trusted ones, unless a person corrected them.
    """
    rows = RoutingDecision.objects.filter(actor_id=session.actor_id, session_id=session.pk)
    if trust is Trust.TRUSTED:
        rows = rows.filter(Q(trust=Trust.TRUSTED) | Q(corrected_project__isnull=False))
    latest = rows.order_by("-created_at", "-id").values_list(
        _current_name("project"), "confidence", "action", _current_name("corrected_project")
    )
    return session_project(
        PastDecision(project, Confidence(confidence), Action(action), corrected)
        for project, confidence, action, corrected in latest[:MAX_SESSION_DECISIONS]
    )


def _predict(request: RoutingRequest, policy: ProjectPolicy) -> tuple[Prediction, int, bool]:
    """Return a prediction, its cost in tokens, and whether words replaced a failed model."""
    correction = exact_correction(request.text, request.examples, request.names, current=request.current)
    if correction:
        return correction, 0, False
    prediction, tokens, degraded = _predict_by_model_or_words(request, policy)
    if prediction.project is None:
        candidates = candidates_of(request.text, request.profiles)
        prediction = replace(prediction, candidates=candidates)
    return prediction, tokens, degraded


def _predict_by_model_or_words(request: RoutingRequest, policy: ProjectPolicy) -> tuple[Prediction, int, bool]:
    if settings.LLM.provider == "none" or not request.projects:
        return _predict_by_words(request), 0, False
    paused = MODEL_PAUSED.format(agent_id=request.actor.agent_id)
    code = cache.get(paused)
    if code is None:
        try:
            prediction, tokens = _predict_by_model(request, policy)
            return prediction, tokens, False
        except ProviderError as error:
            code = error.code
            if isinstance(error, ProviderTimeout):
                cache.set(paused, code, MODEL_PAUSE_SECONDS)
    log.warning("routed by words", extra={"code": code})
    prediction = _predict_by_words(request)
    reason = MODEL_AWAY.format(code=code, reason=prediction.reason)
    return replace(prediction, reason=reason), 0, True


def _predict_by_words(request: RoutingRequest) -> Prediction:
    return route_by_words(request.text, request.profiles, request.examples, current=request.current)


def _trusted_excerpts(actor: Actor) -> dict[UUID, list[str]]:
    """Return the trusted text of the actor's documents by project.

    Long texts are cut to their beginning, which states the topic, and their end, which was appended last. At most
    MAX_DOCUMENTS documents, the latest changed.
    """
    untrusted = untrusted_digests(DocumentEntry.objects.filter(actor_id=actor.pk))
    rows = Document.objects.of(actor.pk).not_deleted()
    share = characters_per_document(rows.count())
    first = share * 2 // 3
    # A line is identified by its whole text, so untrusted lines are removed before the text is cut.
    first_part = Case(When(pk__in=list(untrusted), then="text"), default=Left("text", first), output_field=TextField())
    latest = rows.order_by("-updated_at", "-id").annotate(beginning=first_part, end=Right("text", share - first))
    texts: dict[UUID, list[str]] = defaultdict(list)
    fields = latest.values_list("pk", "project_id", "beginning", "end")
    for pk, project_id, beginning, end in fields[:MAX_DOCUMENTS]:
        if pk in untrusted:
            beginning = without_lines(beginning, untrusted[pk])
            beginning, end = beginning[:first], beginning[first:][-(share - first) :]
        texts[project_id] += [beginning] if len(beginning) < first else [beginning, end]
    return texts


def _predict_by_model(request: RoutingRequest, policy: ProjectPolicy) -> tuple[Prediction, int]:
    blocks = question_blocks(
        request.text,
        request.channel,
        [CatalogEntry(project.name, project.description) for project in request.projects],
        request.profiles,
        request.texts,
        most_similar(request.text, request.examples, policy.routing_examples),
        current=request.current,
        count=count_raw,
        most=material_limit(Operation.ROUTE, CATALOG_TOKENS),
    )
    fence = secrets.token_hex(FENCE_BYTES)
    completion = complete(
        CompletionRequest(
            operation=Operation.ROUTE,
            messages=(ChatMessage("user", fenced(blocks, fence)),),
            max_output_tokens=OUTPUT_TOKENS,
            deadline_seconds=policy.routing_deadline_seconds,
            system=prompt("route", request.actor.agent.language),
            json_schema=answer_schema(),
        ),
        actor=request.actor,
    )
    prediction = usable_prediction(parse_prediction(completion.data), request.names, current=request.current)
    return prediction, completion.input_tokens + completion.output_tokens


def profiles_of(actor_ids: Iterable[UUID]) -> Mapping[UUID, Sequence[Profile]]:
    """Return profiles of each actor's latest projects by names and descriptions.

    Reads no documents, since lists of decisions call it at each view.
    """
    position = Window(RowNumber(), partition_by=F("actor_id"), order_by=[F("updated_at").desc(), F("id").desc()])
    rows = Project.objects.active().filter(actor_id__in=set(actor_ids)).annotate(position=position)
    profiles: dict[UUID, list[Profile]] = defaultdict(list)
    latest = rows.filter(position__lte=MAX_SUGGESTED_PROJECTS).order_by("position")
    for actor_id, name, description in latest.values_list("actor_id", "name", "description"):
        profiles[actor_id].append(profile_of(name, description=description, texts=()))
    return profiles


def likely_projects(message: str, profiles: Sequence[Profile], *, first: str | None = None, limit: int) -> list[str]:
    """Return the names of the projects that share most with a message; `first`, the decided one, comes first."""
    shared = evidence(analyse(message[:MAX_SUGGESTION_LENGTH]), profiles)
    ranked = sorted(shared, key=lambda name: -shared[name])  # stable sort: ties keep the order of last change
    names = [first, *(name for name in ranked if name != first)] if first else ranked
    return names[:limit]
