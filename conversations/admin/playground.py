"""Playground (SPEC W3): the exact context of a call now, with every candidate and why it was included or not.

A run changes no memory. The message may be private: it is posted, and a run is kept for some minutes in a shared cache
only, so that a button at a memory can return to it; it is neither logged nor in a backup. Returning fills in the form:
only a POST assembles a context.
"""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from django import forms
from django.core.cache import caches
from django.core.exceptions import PermissionDenied
from django.db.models import Case, F, UUIDField, Value, When
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from conversations.actions.context import (
    EMBEDDER,
    ROUTING,
    AssembledContext,
    ContextRequest,
    assemble_context,
    receipt_metadata,
)
from conversations.actions.receipts import store_preview_receipt
from conversations.admin.context_breakdown import (
    LAYER_LABELS,
    RunOutcome,
    candidate_groups,
    count_nonce_tokens,
    project_label,
    prompt_as_json,
    prompt_preview,
    reason_label,
    removed_candidates,
    run_outcome,
    side_by_side,
    token_budget,
)
from conversations.admin.playground_form import (
    AGENT_ITSELF,
    NO_PROJECT,
    PlaygroundForm,
    receipt_settings,
    session_label,
)
from conversations.domain.assembly import InvalidContext
from conversations.domain.budget import ContextTooLarge
from conversations.domain.layers import PROJECT, SESSION_SUMMARY, WORKING
from conversations.domain.policy import CALL_OPTIONS
from conversations.domain.routing import AUTO, UNNAMED
from conversations.models import Receipt, Session
from memoryhub.admin.base import as_uuid, clock, excerpt, format_count, principal, render_page
from memoryhub.admin.object_actions import submitted_text
from memoryhub.auth.access import Tenant, tenant_for_reading
from memoryhub.errors import DomainError
from memoryhub.llm.client import counter_in_use
from memoryhub.llm.errors import ProviderError
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import PolicyError
from memoryhub.unfold import Page, needs_of

TEMPLATE: Final = "admin/conversations/playground/page.html"
MAX_SUGGESTIONS: Final = 50
NO_SESSION: Final = Value(None, output_field=UUIDField())
SUGGESTED_MAX_TOKENS: Final = (1_000, 2_000, 4_000, 8_000, 16_000)
SUGGESTED_EXCLUSIONS: Final = ("include_semantic_memory", "include_recall", "include_project", "include_profile")
SAVE_PERMISSION: Final = "conversations.add_receipt"

PERMISSIONS: Final = (
    "conversations.view_receipt",
    "conversations.view_session",
    "conversations.view_message",
    "strength.view_memory",
    "summaries.view_project",
    "summaries.view_document",
    "summaries.view_summary",
    "memoryhub.view_agent",
    "memoryhub.view_actor",
)
"""A context holds data of each; models above this app are known by name only."""

DEGRADED_LABELS: Final = {
    EMBEDDER: _("The embedder is unavailable, so memories and messages were found by their words alone."),
    SESSION_SUMMARY: _("The session has no summary yet."),
    PROJECT: _("There is no such project, or it has no content."),
    ROUTING: _("No project was found by the message."),
}
CACHE: Final = "playground"
CACHE_SECONDS: Final = 900
TOKEN_BYTES: Final = 16


@dataclass(frozen=True)
class Run:
    """The settings and the outcome of a run, which the next is compared with."""

    settings: dict[str, str] = field(repr=False)
    outcome: RunOutcome
    actor_id: UUID | None = None
    receipt_id: UUID | None = None
    """Its receipt, if kept."""


def _cache_key(request: HttpRequest, token: str) -> str:
    return f"playground:{request.user.pk}:{token}"


def cache_run(request: HttpRequest, run: Run, token: str = "") -> str:
    token = token or secrets.token_urlsafe(TOKEN_BYTES)
    ids = {"actor_id": run.actor_id and str(run.actor_id), "receipt_id": run.receipt_id and str(run.receipt_id)}
    caches[CACHE].set(_cache_key(request, token), {**asdict(run), **ids}, CACHE_SECONDS)
    return token


def _run_of(cached: Mapping[str, Any]) -> Run:
    outcome = cached["outcome"]
    items = {identity: tuple(item) for identity, item in outcome["items"].items()}
    ids = {name: cached[name] and UUID(cached[name]) for name in ("actor_id", "receipt_id")}
    return Run(cached["settings"], RunOutcome(**{**outcome, "items": items}), **ids)


def forget_runs(actor_id: UUID) -> None:
    """Forget all runs, as their keys do not contain the owner."""
    caches[CACHE].clear()


def load_run(request: HttpRequest, token: str) -> Run | None:
    """Return a cached run of this person; None where it expired or its actor was erased."""
    is_token = 0 < len(token) <= 64 and token.replace("-", "").replace("_", "").isalnum() and token.isascii()
    cached: dict[str, Any] | None = caches[CACHE].get(_cache_key(request, token)) if is_token else None
    run = None if cached is None else _run_of(cached)
    if run is None or run.actor_id is None or Actor.objects.filter(pk=run.actor_id).exists():
        return run
    caches[CACHE].delete(_cache_key(request, token))
    return None


@dataclass
class Result:
    tenant: Tenant
    request: ContextRequest
    context: AssembledContext
    notices: list[str] = field(default_factory=list)

    @property
    def items(self) -> list[dict[str, Any]]:
        return [item.as_json() for item in self.context.assembly.items]

    @cached_property
    def nonce_tokens(self) -> int:
        return count_nonce_tokens(self.context.assembly, counter_in_use().count)

    @property
    def outcome(self) -> RunOutcome:
        metadata = self.context.assembly.metadata
        return run_outcome(
            self.items, total=metadata.total_tokens, limit=metadata.token_limit, nonce_tokens=self.nonce_tokens
        )


def playground(request: HttpRequest) -> HttpResponse:
    """Show the form, filled in from a receipt, a cached run or a session; a POST assembles the context."""
    may_save = request.user.has_perm(SAVE_PERMISSION)
    saves_receipt = request.method == "POST" and bool(submitted_text(request, "keep"))
    if saves_receipt and not may_save:
        raise PermissionDenied
    previous, settings = _settings_of_request(request)
    form = PlaygroundForm(settings if request.method == "POST" else None, initial=settings)
    result = _result(request, form) if form.is_bound and form.is_valid() else None
    if result is not None and submitted_text(request, "as") == "json":
        answer = HttpResponse(prompt_as_json(result.context.assembly), content_type="application/json")
        answer["Content-Disposition"] = 'attachment; filename="context.json"'
        answer["Cache-Control"] = "no-store"
        return answer
    if request.method == "GET" and request.headers.get("accept") == "application/json":
        return JsonResponse({**_suggested(form), "sessions": form.sessions, "own": str(AGENT_ITSELF)})
    memory = as_uuid(submitted_text(request, "memory"))
    context: dict[str, Any] = {"form": form, "suggested": _suggested(form), "may_keep": may_save, "memory": memory}
    context["may_instruct"] = request.user.has_perms(needs_of("instructions"))
    if result is not None and result.request.session is None:
        result.notices.extend(_sessions_continued(result))
    if result is not None and memory is not None:
        result.notices.insert(0, _memory_outcome(result, str(memory)))
    if not form.is_bound and submitted_text(request, "run"):
        context |= (
            {"run": submitted_text(request, "run"), "shows_previous_settings": True}
            if previous
            else {"is_forgotten": True}
        )
    if result is None and form.is_bound and previous is not None:
        # The next run is compared with the last one that succeeded.
        context["run"] = cache_run(request, previous)
    if result is not None:
        kept = _save_receipt(request, result) if saves_receipt else None
        context |= {"kept": kept, **_result_context(request, form, result, previous, kept)}
    return render_page(request, TEMPLATE, title=_("Playground"), **context)


def _settings_of_request(request: HttpRequest) -> tuple[Run | None, dict[str, str]]:
    previous = load_run(request, submitted_text(request, "run"))
    key = as_uuid(request.POST.get("receipt", ""))
    receipt = Receipt.objects.select_related("actor").filter(pk=key).first() if key else None
    if receipt is not None:
        outcome = run_outcome(receipt.items, total=receipt.total_tokens, limit=receipt.token_limit)
        settings = receipt_settings(receipt)
        return Run(settings, outcome, receipt.actor_id), settings
    if request.method == "POST":
        settings = {name: request.POST.get(name, "") for name in (*PlaygroundForm.base_fields, *CALL_OPTIONS)}
        name, _sep, value = submitted_text(request, "instead").partition("=")
        return previous, {**settings, name: value} if name in CALL_OPTIONS else settings
    if previous:
        return previous, previous.settings
    key = as_uuid(request.GET.get("session", ""))
    if key is None:
        return None, {name: request.GET[name] for name in ("agent", "user") if name in request.GET}
    session = Session.objects.select_related("actor").filter(pk=key).first()
    if session is None:
        return None, {}
    return None, {"agent": session.actor.agent_id, "user": session.actor.user_id, "session": str(session.pk)}


def _result(request: HttpRequest, form: PlaygroundForm) -> Result | None:
    values, by, now = form.cleaned_data, principal(request), clock()
    tenant = tenant_for_reading(by, values["agent"], values["user"])
    session = _session(form, tenant)
    if form.errors:
        return None
    context_request = ContextRequest(
        message=values["message"],
        session=session,
        project=values["project"],
        perspective=values["perspective"] or None,
        format=values["format"],
        options=form.options(),
    )
    try:
        context = assemble_context(tenant=tenant, request=context_request, by=by, now=now, dry_run=True)
        return Result(tenant, context_request, context, _notices(form, tenant, context))
    except ContextTooLarge as error:
        figures = {"required": format_count(error.required_tokens), "limit": format_count(error.token_limit)}
        problem = _("System prompt and message alone need %(required)s tokens; the limit is %(limit)s.")
        form.add_error("max_tokens", forms.ValidationError(problem, params=figures))
    except PolicyError as error:
        for name, text in error.errors.items():
            form.add_error(name if name in form.fields else None, str(text))
    except InvalidContext as error:
        form.add_error("message", str(error))
    except ProviderError:
        form.add_error(None, _("No context can be assembled: a provider is unavailable."))
    return None


def _session(form: PlaygroundForm, tenant: Tenant) -> Session | None:
    key = form.cleaned_data["session"]
    if key is None:
        return None
    session = Session.objects.filter(pk=key, actor_id=tenant.actor_id).first()
    if session is None:
        form.add_error("session", _("This agent and user have no such session."))
    return session


def _notices(form: PlaygroundForm, tenant: Tenant, context: AssembledContext) -> list[str]:
    notices: list[str] = []
    if tenant.user_id != form.cleaned_data["user"]:
        notices.append(gettext("This agent stores everything for one fixed user; the context is that user’s."))
    if tenant.actor is None:
        notices.append(gettext("This user does not exist yet: this is what a new user would get."))
    for name in context.metadata["degraded"]:
        unavailable = gettext("A layer is unavailable: %(layer)s.") % {"layer": LAYER_LABELS.get(name, name)}
        notices.append(str(DEGRADED_LABELS.get(name, unavailable)))
    routing = context.routing
    if routing is not None and routing.project:
        words = gettext("The message was routed to the project “%(project)s” (%(confidence)s).")
        notices.append(words % {"project": routing.project, "confidence": gettext(routing.confidence)})
    elif routing is not None and routing.proposed_name:
        words = gettext("The message belongs to no known project; “%(project)s” would be proposed.")
        notices.append(words % {"project": routing.proposed_name})
    elif routing is not None:
        notices.append(gettext("The project of the message is unclear; the user would be asked."))
    return notices


def _sessions_continued(result: Result) -> Iterator[str]:
    """Yield a notice that names the sessions that a context without a session continues."""
    message_ids = [item["source_id"] for item in result.items if item["layer"] == WORKING and item["included"]]
    sessions = Session.objects.filter(actor_id=result.tenant.actor_id, messages__pk__in=message_ids).distinct()
    names = [session_label(session.title or session.channel, session.started_at) for session in sessions if message_ids]
    if names:
        text = gettext("No session was chosen: the last messages are those of %(sessions)s.")
        yield text % {"sessions": " / ".join(f"“{name}”" for name in names)}


def _memory_outcome(result: Result, memory: str) -> str:
    """Return a notice whether the memory that the user came from entered the context, and why."""
    item = next(
        (
            candidate
            for candidate in result.items
            if memory in (candidate["source_id"], *candidate.get("memory_ids", ()))
        ),
        None,
    )
    if item is None:
        return gettext("The memory that you came from was no candidate for this message.")
    if item["included"]:
        words = gettext("The memory that you came from was included, in: %(layer)s.")
        return words % {"layer": LAYER_LABELS.get(item["layer"], item["layer"])}
    words = gettext("The memory that you came from was left out: %(why)s.")
    return words % {"why": reason_label(item)}


def _save_receipt(request: HttpRequest, result: Result) -> Receipt | None:
    try:
        return _stored(request, result)
    except DomainError as error:
        result.notices.append(str(error))
        return None


def _stored(request: HttpRequest, result: Result) -> Receipt:
    return store_preview_receipt(
        tenant=result.tenant,
        session=result.request.session,
        message=result.request.message,
        assembly=result.context.assembly,
        metadata=receipt_metadata(result.request, result.context),
        by=principal(request),
        now=clock(),
    )


def receipt_of_run(request: HttpRequest, token: str) -> Receipt | None:
    """Return the receipt of a run, which is assembled again where it was not kept; None for an expired run.

    Raises as `store_preview_receipt`.
    """
    if not request.user.has_perms((*PERMISSIONS, SAVE_PERMISSION)):
        raise PermissionDenied
    run = load_run(request, token)
    receipts = Receipt.objects.select_related("actor__agent")
    if run is None or (known := receipts.filter(pk=run.receipt_id).first() if run.receipt_id else None):
        return None if run is None else known
    form = PlaygroundForm(run.settings)
    result = _result(request, form) if form.is_valid() else None
    if result is None:
        return None
    receipt = _stored(request, result)
    cache_run(request, replace(run, receipt_id=receipt.pk), token)
    return receipts.get(pk=receipt.pk)


def _result_context(
    request: HttpRequest, form: PlaygroundForm, result: Result, before: Run | None, kept: Receipt | None
) -> dict[str, Any]:
    items, metadata = result.items, result.context.assembly.metadata
    former = before.outcome if before else None
    actor = result.tenant.actor
    ids = [row.pk if row else None for row in (actor, kept)]
    run = Run(_settings(form), result.outcome, *ids)
    token = cache_run(request, run)
    may_curate = request.user.has_perm("strength.change_memory")
    return {
        "result": result,
        "run": token,
        "next": f"{reverse('playground')}?run={token}",
        "budget": token_budget(
            items,
            total=metadata.total_tokens,
            limit=metadata.token_limit,
            before=former,
            nonce_tokens=result.nonce_tokens,
        ),
        "groups": candidate_groups(items, may_curate=may_curate, before=former),
        "gone": removed_candidates(former, items) if former else [],
        "compared": before is not None,
        "changed": _changed(form, before) if before else [],
        "sides": side_by_side(former, result.outcome) if former else None,
        "may_curate": may_curate,
        "may_expect": actor is not None and request.user.has_perms((*needs_of("keep_expectation"), SAVE_PERMISSION)),
        "prompt": prompt_preview(result.context.assembly),
        "latency": result.context.metadata["assembly_latency_ms"],
        "budgets": [suggested for suggested in SUGGESTED_MAX_TOKENS if suggested != form.cleaned_data["max_tokens"]],
        "without": [
            (name, form.fields[name].label) for name in SUGGESTED_EXCLUSIONS if form.cleaned_data[name] != "false"
        ],
    }


def _changed(form: PlaygroundForm, before: Run) -> list[tuple[Any, str, str]]:
    settings = _settings(form)
    changed = []
    for name, bound in form.fields.items():
        former, value = before.settings.get(name, ""), settings.get(name, "")
        if former != value:
            changed.append((bound.label, _setting_label(name, former), _setting_label(name, value)))
    return changed


def _setting_label(name: str, value: str) -> str:
    if name == "project":
        return project_label(None if value == NO_PROJECT else value or UNNAMED)
    return excerpt(value, 60) if value else "–"


def _settings(form: PlaygroundForm) -> dict[str, str]:
    return {name: form.data.get(name, "") for name in form.fields}


def _suggested(form: PlaygroundForm) -> Mapping[str, Any]:
    """Fill in the sessions of the agent and user in the form, and return the users and projects that it may name."""
    agents: Any = form.fields["agent"]
    agent, user = (str(form[name].value() or "").replace("\0", "") for name in ("agent", "user"))
    actors = Actor.objects.filter(agent_id=agent or next((key for key, _label in agents.choices), ""))
    fixed = Case(When(agent__fixed_user_id="", then=Value(user)), default="agent__fixed_user_id")
    sessions = Session.objects.filter(actor__in=actors.filter(user_id=fixed))
    latest = sessions.order_by(F("last_message_at").desc(nulls_last=True), "-id")
    users = actors.exclude(user_id="").order_by("-created_at", "-id").annotate(no_session=NO_SESSION, empty=Value(""))
    rows = latest.values_list("pk", "title", "channel", "started_at")[:MAX_SUGGESTIONS].union(
        users.values_list("no_session", "user_id", "empty", "created_at")[:MAX_SUGGESTIONS], all=True
    )
    suggestions = list(rows)
    form.offer_sessions([row for row in suggestions if row[0] is not None])
    names = [row[1] for row in suggestions if row[0] is None]
    if len(names) < MAX_SUGGESTIONS:  # longer lists are not offered: the name is typed
        form.offer_users(names)
    return {"projects": [AUTO, NO_PROJECT], "users": names, "is_whole": len(names) < MAX_SUGGESTIONS}


PAGES = [Page("playground/", "playground", playground, PERMISSIONS)]
