"""The playground: the exact context that a call would get now, with every candidate and the reason it entered or not.

A run changes nobody's memory. The message may be private: it is posted, and a run is kept for some minutes in this
process's cache alone, so that a button at a memory can return to it; neither log nor table holds it. Returning fills
in the form: only a POST assembles a context.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from django import forms
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from conversations.actions.context import (
    EMBEDDER,
    ROUTING,
    AssembledContext,
    ContextRequest,
    assemble_context,
    keep_preview_receipt,
)
from conversations.actions.project_routing import AUTO, UNNAMED, Routing
from conversations.admin.context_breakdown import (
    LAYERS,
    RunOutcome,
    candidate_groups,
    nonce_tokens,
    project_in_words,
    prompt_as_json,
    prompt_to_show,
    removed_candidates,
    run_outcome,
    token_budget,
)
from conversations.admin.playground_form import NO_PROJECT, PlaygroundForm, settings_of
from conversations.domain.assembly import InvalidContext
from conversations.domain.budget import ContextTooLarge
from conversations.domain.layers import PROJECT, SESSION_SUMMARY
from conversations.models import Receipt, Session
from memoryhub.admin.base import as_uuid, clock, excerpt, grouped, principal
from memoryhub.admin.object_actions import submitted_text
from memoryhub.admin.pages import Page, render_page
from memoryhub.auth.tenancy import Tenant, tenant_for_reading
from memoryhub.errors import DomainError
from memoryhub.llm.client import counter_in_use
from memoryhub.llm.errors import ProviderError
from memoryhub.tenancy.domain import PolicyError
from memoryhub.tenancy.models import Actor

KEPT_SECONDS: Final = 900
TOKEN_BYTES: Final = 16


@dataclass(frozen=True)
class Run:
    """What a run was asked, and what came of it: what the next is compared with."""

    settings: dict[str, str] = field(repr=False)
    outcome: RunOutcome
    actor_id: UUID | None = None


def _place(request: HttpRequest, token: str) -> str:
    return f"playground:{request.user.pk}:{token}"


def keep_run(request: HttpRequest, run: Run) -> str:
    """Keep a run for this person; return the token that it is known by."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    cache.set(_place(request, token), run, KEPT_SECONDS)
    return token


def load_run(request: HttpRequest, token: str) -> Run | None:
    """Return a run of this person's, as long as it is known; what was erased since is known no more."""
    is_one = 0 < len(token) <= 64 and token.replace("-", "").replace("_", "").isalnum() and token.isascii()
    run: Run | None = cache.get(_place(request, token)) if is_one else None
    if run is None or run.actor_id is None or Actor.objects.filter(pk=run.actor_id).exists():
        return run
    cache.delete(_place(request, token))
    return None


TEMPLATE: Final = "admin/conversations/playground/page.html"
MOST_SUGGESTED: Final = 50
TOKENS_TO_TRY: Final = (1_000, 2_000, 4_000, 8_000, 16_000)
KEEP: Final = "conversations.add_receipt"

NEEDS: Final = (
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
"""A context holds something of each; what lives above this app is known by name only."""

GAPS: Final = {
    EMBEDDER: _("The embedder could not be asked, so memories and messages were found by their words alone."),
    SESSION_SUMMARY: _("The session has no summary yet."),
    PROJECT: _("There is no such project, or it says nothing."),
    ROUTING: _("No project was found by the message."),
}


@dataclass
class Result:
    """A context that was tried, and what is to be told about it."""

    tenant: Tenant
    request: ContextRequest
    context: AssembledContext
    notices: list[str] = field(default_factory=list)

    @property
    def items(self) -> list[dict[str, Any]]:
        """Return the candidates, as a receipt would list them."""
        names = ("layer", "source_id", "excerpt", "tokens", "relevance", "final_score", "score_breakdown",
                 "included", "reason")  # fmt: skip
        return [{name: getattr(item, name) for name in names} for item in self.context.assembly.items]

    @cached_property
    def code(self) -> int:
        """Return what the context's random code takes: no run is compared by that."""
        return nonce_tokens(self.context.assembly, counter_in_use().count)

    @property
    def outcome(self) -> RunOutcome:
        """Return what a later run is compared with."""
        metadata = self.context.assembly.metadata
        return run_outcome(
            self.items, total=metadata.total_tokens, limit=metadata.token_limit, code=self.code
        )


def playground(request: HttpRequest) -> HttpResponse:
    """Show the form, filled in with what an address of this page still knows; run what is posted."""
    may_keep = request.user.has_perm(KEEP)
    is_to_keep = request.method == "POST" and bool(submitted_text(request, "keep"))
    if is_to_keep and not may_keep:
        raise PermissionDenied
    before, settings = _asked(request)
    form = PlaygroundForm(settings if request.method == "POST" else None, initial=settings)
    result = _result(request, form) if form.is_bound and form.is_valid() else None
    if result is not None and submitted_text(request, "as") == "json":
        return _file(result)
    context: dict[str, Any] = {"form": form, "suggested": _suggested(form, result), "may_keep": may_keep}
    if not form.is_bound and submitted_text(request, "run"):
        context |= (
            {"run": submitted_text(request, "run"), "comes_back": True} if before else {"is_forgotten": True}
        )
    if result is None and form.is_bound and before is not None:
        # What was refused or could not be asked is no run: the next is compared with the one before it.
        context["run"] = keep_run(request, before)
    if result is not None:
        if is_to_keep:
            context["kept"] = _keep(request, result)
        context |= _shown(request, form, result, before)
    return render_page(request, TEMPLATE, title=_("Playground"), **context)


def _asked(request: HttpRequest) -> tuple[Run | None, dict[str, str]]:
    """Return the run before this one, and the settings: posted, a receipt's, a kept run's, or a session's."""
    before = load_run(request, submitted_text(request, "run"))
    receipt = _receipt(request)
    if receipt is not None:
        outcome = run_outcome(receipt.items, total=receipt.total_tokens, limit=receipt.token_limit)
        settings = settings_of(receipt)
        return Run(settings, outcome, receipt.actor_id), settings
    if request.method == "POST":
        settings = {name: request.POST.get(name, "") for name in PlaygroundForm.base_fields}
        if budget := submitted_text(request, "instead"):
            settings["max_tokens"] = budget
        return before, settings
    return before, before.settings if before else _prefilled(request)


def _receipt(request: HttpRequest) -> Receipt | None:
    """Return the receipt whose page posts here."""
    key = as_uuid(request.POST.get("receipt", ""))
    if key is None:
        return None
    return Receipt.objects.select_related("actor").filter(pk=key).first()


def _prefilled(request: HttpRequest) -> dict[str, str]:
    """Return the settings that an address names: by a session's id, for no address holds a user's."""
    key = as_uuid(request.GET.get("session", ""))
    session = Session.objects.select_related("actor").filter(pk=key).first() if key else None
    if session is None:
        return {}
    return {"agent": session.actor.agent_id, "user": session.actor.user_id, "session": str(session.pk)}


def _result(request: HttpRequest, form: PlaygroundForm) -> Result | None:
    """Return the context, or None where something about the request is wrong: it then stands beside its field."""
    values, by, now = form.cleaned_data, principal(request), clock()
    tenant = tenant_for_reading(by, values["agent"], values["user"])
    session = _session(form, tenant)
    if form.errors:
        return None
    asked = ContextRequest(
        message=values["message"],
        session=session,
        project=values["project"],
        perspective=values["perspective"] or None,
        format=values["format"],
        options=form.options(),
    )
    try:
        context = assemble_context(tenant=tenant, request=asked, by=by, now=now, dry_run=True)
    except (ContextTooLarge, InvalidContext, PolicyError, ProviderError) as error:
        _tell_beside(form, error)
        return None
    return Result(tenant, asked, context, _notices(form, tenant, context))


def _session(form: PlaygroundForm, tenant: Tenant) -> Session | None:
    key = form.cleaned_data["session"]
    if key is None:
        return None
    session = Session.objects.filter(pk=key, actor_id=tenant.actor_id).first()
    if session is None:
        form.add_error("session", _("This agent and user have no such session."))
    return session


def _tell_beside(form: PlaygroundForm, error: Exception) -> None:
    """Put what the assembly had against it beside the field it is about."""
    if isinstance(error, ContextTooLarge):
        figures = {"required": grouped(error.required_tokens), "limit": grouped(error.token_limit)}
        problem = _("System prompt and message alone need %(required)s tokens; the limit is %(limit)s.")
        form.add_error("max_tokens", forms.ValidationError(problem, params=figures))
    elif isinstance(error, PolicyError):
        for name, text in error.errors.items():
            form.add_error(name if name in form.fields else None, str(text))
    elif isinstance(error, InvalidContext):
        form.add_error("message", str(error))
    else:
        form.add_error(None, _("No context can be put together: a provider could not be asked."))


def _notices(form: PlaygroundForm, tenant: Tenant, context: AssembledContext) -> list[str]:
    """Return what is to be known about the result, in words."""
    told: list[str] = []
    if tenant.user_id != form.cleaned_data["user"]:
        told.append(
            gettext("This agent files everything under one user, whoever is named; it is that user’s.")
        )
    if tenant.actor is None:
        told.append(gettext("Nobody of this name is known yet: this is what a new user would get."))
    told += [_gap(name) for name in context.metadata["degraded"]]
    if context.routing is not None:
        told.append(_routed(context.routing))
    return told


def _gap(name: str) -> str:
    if name in GAPS:
        return str(GAPS[name])
    return gettext("A layer could not be asked: %(layer)s.") % {"layer": LAYERS.get(name, name)}


def _routed(routing: Routing) -> str:
    if routing.project:
        told = gettext("The message was taken to be about the project “%(project)s” (%(confidence)s).")
        return told % {"project": routing.project, "confidence": gettext(routing.confidence)}
    if routing.proposed_name:
        told = gettext("The message belongs to no known project; “%(project)s” would be proposed.")
        return told % {"project": routing.proposed_name}
    return gettext("Nobody knows which project the message is about; the user would be asked.")


def _keep(request: HttpRequest, result: Result) -> Receipt | None:
    try:
        return keep_preview_receipt(
            tenant=result.tenant, request=result.request, context=result.context, by=principal(request), now=clock()
        )  # fmt: skip
    except DomainError as error:
        result.notices.append(str(error))
        return None


def _shown(request: HttpRequest, form: PlaygroundForm, result: Result, before: Run | None) -> dict[str, Any]:
    """Return what a result's part of the page shows; and keep the run, so that the next is compared with it."""
    items, metadata = result.items, result.context.assembly.metadata
    was = before.outcome if before else None
    actor = result.tenant.actor
    token = keep_run(request, Run(_settings(form), result.outcome, actor.pk if actor else None))
    may_curate = request.user.has_perm("strength.change_memory")
    return {
        "result": result,
        "run": token,
        "next": f"{reverse('playground')}?run={token}",
        "budget": token_budget(
            items, total=metadata.total_tokens, limit=metadata.token_limit, before=was, code=result.code
        ),
        "groups": candidate_groups(items, may_curate=may_curate, before=was),
        "gone": removed_candidates(was, items) if was else [],
        "compared": before is not None,
        "changed": _changed(form, before) if before else [],
        "may_curate": may_curate,
        "prompt": prompt_to_show(result.context.assembly),
        "latency": result.context.metadata["assembly_latency_ms"],
        "budgets": [each for each in TOKENS_TO_TRY if each != form.cleaned_data["max_tokens"]],
    }


def _changed(form: PlaygroundForm, before: Run) -> list[tuple[Any, str, str]]:
    """Return the settings that are other than in the run before: what, from, to."""
    now = _settings(form)
    changed = []
    for name, bound in form.fields.items():
        was, value = before.settings.get(name, ""), now.get(name, "")
        if was != value:
            changed.append((bound.label, _said(name, was), _said(name, value)))
    return changed


def _said(name: str, value: str) -> str:
    """Return a setting's value as a person reads it."""
    if name == "project":
        return project_in_words(None if value == NO_PROJECT else value or UNNAMED)
    return excerpt(value, 60) if value else "–"


def _settings(form: PlaygroundForm) -> dict[str, str]:
    return {name: form.data.get(name, "") for name in form.fields}


def _suggested(form: PlaygroundForm, result: Result | None) -> Mapping[str, Any]:
    """Return what can be chosen where something is typed: the latest users, then the user's latest sessions."""
    fixed = {"projects": [AUTO, NO_PROJECT]}
    if result is not None and result.tenant.actor is not None:
        rows = Session.objects.filter(actor_id=result.tenant.actor.pk)
        latest = rows.order_by(F("last_message_at").desc(nulls_last=True), "-id")
        return {**fixed, "sessions": list(latest.values_list("pk", "title", "channel")[:MOST_SUGGESTED])}
    actors = Actor.objects.exclude(user_id="").order_by("-created_at", "-id")
    users = actors.values_list("user_id", flat=True)[:MOST_SUGGESTED]
    return {**fixed, "users": list(dict.fromkeys(users))}


def _file(result: Result) -> HttpResponse:
    """Return the whole prompt as a file."""
    answer = HttpResponse(prompt_as_json(result.context.assembly), content_type="application/json")
    answer["Content-Disposition"] = 'attachment; filename="context.json"'
    answer["Cache-Control"] = "no-store"
    return answer


PAGES = [Page("playground/", "playground", playground, NEEDS)]
