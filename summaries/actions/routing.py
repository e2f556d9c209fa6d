"""Finding the project that a message belongs to, keeping every decision, and learning from what people put right.

A language model is asked once for each message (SPEC P3); without one, or where it cannot be asked, words decide.
"""

import logging
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Case, F, Q, QuerySet, TextField, When, Window
from django.db.models.functions import Left, Right, RowNumber
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.actions.project_routing import Routing
from conversations.models import Session
from memoryhub.auth import audit
from memoryhub.auth.domain import Principal, Scope
from memoryhub.auth.tenancy import Tenant, UnknownRow, ensure_actor, hold
from memoryhub.errors import DomainError
from memoryhub.llm.client import ask
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.prompts import ForgedFence, fenced, prompt
from memoryhub.llm.tokens.counter import count_raw
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation
from memoryhub.search.analysis import analyse
from memoryhub.tenancy.domain import Trust, TrustPolicy
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from summaries.actions.projects import (
    ProjectExists,
    check_trusted,
    create_project,
    delete_project,
    locked_project,
    note_event,
    project_named,
)
from summaries.domain.documents import without_lines
from summaries.domain.policy import AUTO, ProjectPolicy
from summaries.domain.projects import EventKind, Listed, catalog, free_name, is_name, one_line, propose_name
from summaries.domain.routing import (
    COMPARED,
    MOST_DOCUMENTS,
    Action,
    Confidence,
    Example,
    PastDecision,
    Prediction,
    Profile,
    action_of,
    answer_schema,
    characters_per_document,
    evidence,
    exact_correction,
    most_similar,
    parse_prediction,
    profile_of,
    route_by_words,
    session_project,
    shortlist,
    usable_prediction,
)
from summaries.models import Document, DocumentEntry, Project, RoutingDecision

NEWEST_CORRECTIONS: Final = 200
"""What people put right lately; of these the most alike are shown to a model."""

LONGEST_MESSAGE: Final = 6_000
"""Characters of a message that are looked at, by a model or by words."""

LONGEST_EXAMPLE: Final = 300
"""Characters of a message put right that a model is shown."""

EARLIER_DECISIONS: Final = 20
"""How far back in a session it is looked for the project that it is about."""

OUTPUT_TOKENS: Final = 400
FENCE_BYTES: Final = 8

BELIEVED: Final = Q(trust=Trust.TRUSTED) | Q(corrected_project__isnull=False)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RoutingRequest:
    """A message whose project is wanted, where it comes from, and whether that is believed.

    A trial's decision is not kept, and makes no project.
    """

    actor: Actor
    message: str
    channel: str
    session: Session | None
    trust: Trust
    is_trial: bool = False

    @property
    def looked_at(self) -> str:
        """Return as much of the message as it is routed by."""
        return self.message[:LONGEST_MESSAGE]


@dataclass(frozen=True)
class RouterResult:
    """A verdict, what asking for it cost, and whether a model should have given it and could not be asked."""

    verdict: Prediction
    tokens: int = 0
    degraded: bool = False


def route(
    *,
    tenant: Tenant,
    message: str,
    channel: str,
    session: Session | None,
    is_asked: bool,
    is_trial: bool = False,
    by: Principal,
    now: datetime,
) -> Routing | None:
    """Route a message for a context or a chat; None where nobody asked for it and the policy says no.

    For an agent that nobody ever wrote to there is nothing to route among; nor, in a trial, for a new user.
    """
    if tenant.agent is None or (is_trial and tenant.actor is None):
        return None
    policy = effective_policy(ProjectPolicy, tenant.agent, tenant.actor)
    if not is_asked and policy.project_routing != AUTO:
        return None
    actor = tenant.actor or ensure_actor(tenant.agent, tenant.user_id)
    decision, degraded = _decided(actor, message, channel, session, by, now, is_trial=is_trial)
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
    actor: Actor,
    message: str,
    channel: str,
    session: Session | None,
    by: Principal,
    now: datetime,
    is_trial: bool = False,
) -> tuple[RoutingDecision, bool]:
    policy = effective_policy(ProjectPolicy, actor.agent, actor)
    trust = effective_policy(TrustPolicy, actor.agent, actor).trust(
        channel=channel, source_is_trusted=by.is_trusted
    )
    asked = RoutingRequest(actor, message, channel, session, trust, is_trial)
    projects = list(Project.objects.of(actor.pk).order_by("name"))
    told = _told(asked, projects, policy)
    verdict, project = told.verdict, None
    action = action_of(verdict)
    if verdict.project is not None:
        project = next(each for each in projects if each.name == verdict.project)
    elif action is Action.PROPOSE and policy.project_auto_create and _may_make(asked, by):
        project = _made(actor, str(verdict.proposed_name), by, now)
        verdict, action = replace(verdict, confidence=Confidence.MEDIUM), Action.DISCLOSE
    decision = _decision(asked, project, verdict, action, now)
    if not asked.is_trial:
        decision = _kept(asked, project, verdict, action, told.tokens, now)
    return decision, told.degraded


def _may_make(asked: RoutingRequest, by: Principal) -> bool:
    """Say whether a message may begin a project: a key that only reads, or a channel nobody believes, makes none."""
    return asked.trust is Trust.TRUSTED and Scope.WRITE in by.scopes and not asked.is_trial


def _made(actor: Actor, name: str, by: Principal, now: datetime) -> Project:
    """Make the project that was proposed. Its description is left to people: a message is nobody's summary."""
    try:
        return create_project(actor=actor, name=name, description="", by=by, now=now)
    except ProjectExists:
        return project_named(actor_id=actor.pk, name=name)


def _decision(
    asked: RoutingRequest, project: Project | None, verdict: Prediction, action: Action, now: datetime
) -> RoutingDecision:
    return RoutingDecision(
        actor=asked.actor, message=asked.message, channel=asked.channel, session=asked.session, trust=asked.trust,
        project=project, proposed_name=verdict.proposed_name or "", confidence=verdict.confidence, action=action,
        reason=verdict.reason, created_at=now,
    )  # fmt: skip


@transaction.atomic
def _kept(
    asked: RoutingRequest,
    project: Project | None,
    verdict: Prediction,
    action: Action,
    tokens: int,
    now: datetime,
) -> RoutingDecision:
    actor = asked.actor
    hold(actor.pk)
    if project is not None:  # it may have been deleted while the model was asked
        project = Project.objects.of(actor.pk).select_for_update(no_key=True).filter(pk=project.pk).first()
        if project is None:
            verdict, action = replace(verdict, confidence=Confidence.LOW), Action.ASK
    decision = _decision(asked, project, verdict, action, now)
    decision.save(force_insert=True)
    note_event(
        actor=actor, project=project, kind=EventKind.ROUTE, tokens=tokens, outcome=action,
        details={"decision_id": str(decision.pk)}, now=now,
    )  # fmt: skip
    return decision


def _told(asked: RoutingRequest, projects: Sequence[Project], policy: ProjectPolicy) -> RouterResult:
    examples, so_far = corrections_of(asked.actor), _so_far(asked)
    if known := exact_correction(asked.looked_at, examples, [each.name for each in projects], so_far=so_far):
        return RouterResult(known)
    if settings.LLM.provider == "none" or not projects:
        return RouterResult(_by_words(asked, projects, examples, so_far))
    shown = most_similar(asked.looked_at, examples, policy.routing_examples)
    try:
        return _by_model(asked, projects, shown, so_far, policy)
    except ProviderError as error:
        log.warning("routed by words", extra={"code": error.code})
        verdict = _by_words(asked, projects, examples, so_far)
        reason = f"The language model could not be asked ({error.code}), so words decided. {verdict.reason}"
        return RouterResult(replace(verdict, reason=reason), degraded=True)


def corrections_of(actor: Actor) -> list[Example]:
    """Return what people put right, latest first; a model is shown those that are most like a message."""
    rows = RoutingDecision.objects.filter(actor_id=actor.pk, corrected_project__isnull=False)
    rows = rows.annotate(beginning=Left("message", COMPARED)).order_by("-corrected_at", "-id")
    latest = rows.values_list("beginning", "corrected_project__name", "pk")
    return [Example(*row) for row in latest[:NEWEST_CORRECTIONS]]


def _so_far(asked: RoutingRequest) -> str | None:
    """Return the project that the message's session is about.

    What nobody believes decides for nobody else: a believed message goes by decisions on believed ones.
    """
    if asked.session is None:
        return None
    rows = decisions_in(asked.session, believed=asked.trust is Trust.TRUSTED)
    latest = rows.order_by("-created_at", "-id").values_list(
        "project__name", "confidence", "action", "corrected_project__name"
    )
    return session_project(
        PastDecision(project, Confidence(confidence), Action(action), corrected)
        for project, confidence, action, corrected in latest[:EARLIER_DECISIONS]
    )


def decisions_in(session: Session, *, believed: bool) -> QuerySet[RoutingDecision]:
    """Return what was decided of a session's messages; `believed`: of those that somebody believes, or put right."""
    rows = RoutingDecision.objects.filter(actor_id=session.actor_id, session_id=session.pk)
    return rows.filter(BELIEVED) if believed else rows


def _by_words(
    asked: RoutingRequest, projects: Sequence[Project], examples: Sequence[Example], so_far: str | None
) -> Prediction:
    texts = _texts(asked.actor)
    profiles = [
        profile_of(
            each.name,
            description=each.description,
            texts=texts[each.pk],
            examples=[example.message for example in examples if example.project == each.name],
        )
        for each in projects
    ]
    return route_by_words(asked.looked_at, profiles, examples, so_far=so_far)


def _texts(actor: Actor) -> dict[Any, list[str]]:
    """Return what the actor's documents say, by project, but for what nobody believes.

    Where they are long or many, of each the beginning, which says what it is about, and the end, which was appended
    last; where they are very many, of those that were changed last.
    """
    doubted: dict[Any, set[bytes]] = defaultdict(set)
    entries = DocumentEntry.objects.filter(actor_id=actor.pk, trust=Trust.UNTRUSTED)
    for document_id, digest in entries.values_list("document_id", "text_digest"):
        doubted[document_id].add(bytes(digest))
    rows = Document.objects.of(actor.pk)
    share = characters_per_document(rows.count())
    first = share * 2 // 3
    # A line is known by its whole text: where lines are doubted they go before the text is cut, never after.
    first_part = Case(
        When(pk__in=list(doubted), then="text"), default=Left("text", first), output_field=TextField()
    )
    rows = rows.order_by("-updated_at", "-id").annotate(
        beginning=first_part, end=Right("text", share - first)
    )
    texts: dict[Any, list[str]] = defaultdict(list)
    latest = rows.values_list("pk", "project_id", "beginning", "end")[:MOST_DOCUMENTS]
    for pk, project_id, beginning, end in latest:
        if pk in doubted:
            beginning = without_lines(beginning, doubted[pk])
            beginning, end = beginning[:first], beginning[first:][-(share - first) :]
        texts[project_id] += [beginning] if len(beginning) < first else [beginning, end]
    return texts


def _by_model(
    asked: RoutingRequest,
    projects: Sequence[Project],
    examples: Sequence[Example],
    so_far: str | None,
    policy: ProjectPolicy,
) -> RouterResult:
    fence, material = _fenced(asked, projects, examples, so_far)
    request = CompletionRequest(
        operation=Operation.ROUTE,
        messages=(ChatMessage("user", material),),
        max_output_tokens=OUTPUT_TOKENS,
        deadline_seconds=policy.routing_deadline_seconds,
        system=prompt("route", asked.actor.agent.language, fence=fence),
        json_schema=answer_schema(),
    )
    completion = ask(request, actor=asked.actor)
    verdict = usable_prediction(
        parse_prediction(completion.data), [each.name for each in projects], so_far=so_far
    )
    return RouterResult(verdict, completion.input_tokens + completion.output_tokens)


def _fenced(
    asked: RoutingRequest, projects: Sequence[Project], examples: Sequence[Example], so_far: str | None
) -> tuple[str, str]:
    """Return a fence, and the material between lines with it."""
    profiles = [profile_of(each.name, description=each.description, texts=[]) for each in projects]
    first = [*(each.project for each in examples), *([so_far] if so_far else [])]
    names = set(shortlist(asked.looked_at, profiles, first=first))
    shown = (Listed(each.name, each.description) for each in projects if each.name in names)
    blocks = {"projects": catalog(shown, count_raw)}
    if examples:
        by_hand = (f"{one_line(each.message)[:LONGEST_EXAMPLE]} → {each.project}" for each in examples)
        blocks["routed-by-hand"] = "\n".join(by_hand)
    if so_far:
        blocks["session"] = so_far
    blocks["message"] = f"({asked.channel})\n{asked.looked_at}"
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
        raise UnknownRow(format_lazy(_("No decision {id}."), id=decision.pk))
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
def undo_correction(
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
        raise UnknownRow(_("No such decision."))
    project = locked.corrected_project
    if project is None or project.name != said:
        raise NotCorrected(_("This was put right otherwise meanwhile, or not at all."))
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


MOST_WEIGHED: Final = 40
"""Projects of an actor, those changed last."""

LONGEST_WEIGHED: Final = 1_000
"""Characters of a message."""


def profiles_of(actor_ids: Iterable[UUID]) -> Mapping[UUID, Sequence[Profile]]:
    """Return what the names and descriptions of each actor's latest projects say."""
    place = Window(RowNumber(), partition_by=F("actor_id"), order_by=[F("updated_at").desc(), F("id").desc()])
    rows = Project.objects.filter(actor_id__in=set(actor_ids)).annotate(place=place)
    profiles: dict[UUID, list[Profile]] = defaultdict(list)
    latest = rows.filter(place__lte=MOST_WEIGHED).order_by("place")
    for actor_id, name, description in latest.values_list("actor_id", "name", "description"):
        profiles[actor_id].append(profile_of(name, description=description, texts=()))
    return profiles


def likely_projects(
    message: str, profiles: Sequence[Profile], *, first: str | None = None, most: int
) -> list[str]:
    """Return the names of projects that share most with a message; `first` is what was decided, and comes first."""
    found = evidence(analyse(message[:LONGEST_WEIGHED]), profiles)
    ranked = sorted(found, key=lambda name: -found[name])  # stable: else those changed last
    names = [first, *(name for name in ranked if name != first)] if first else ranked
    return names[:most]
