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
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from conversations.actions.context import (
    AUTO,
    EMBEDDER,
    ROUTING,
    UNNAMED,
    AssembledContext,
    ContextRequest,
    assemble_context,
    keep_preview_receipt,
)
from conversations.admin.context_breakdown import (
    LAYERS,
    RunOutcome,
    candidate_groups,
    count_nonce_tokens,
    project_in_words,
    prompt_as_json,
    prompt_preview,
    removed_candidates,
    run_outcome,
    token_budget,
)
from conversations.domain.assembly import InvalidContext
from conversations.domain.budget import ContextTooLarge
from conversations.domain.layers import PROJECT, SESSION_SUMMARY
from conversations.domain.policy import AUTO_PLACEMENT, BEFORE_HISTORY, LARGEST_MAX_TOKENS, WITH_USER_MESSAGE
from conversations.models import Receipt, Session
from memoryhub.admin.base import Page, as_uuid, clock, excerpt, grouped, principal, render_page
from memoryhub.admin.fields import ProseField
from memoryhub.admin.object_actions import submitted_text
from memoryhub.auth.tenancy import Tenant, tenant_for_reading
from memoryhub.errors import DomainError
from memoryhub.llm.client import counter_in_use
from memoryhub.llm.errors import ProviderError
from memoryhub.tenancy.domain import PolicyError
from memoryhub.tenancy.models import Actor, Agent

NO_PROJECT: Final = "-"
LONGEST_MESSAGE: Final = 100_000

SWITCHES: Final = {
    "include_pinned": _("Pinned memories"),
    "include_profile": _("About the user"),
    "include_semantic_memory": _("Related memories"),
    "include_recall": _("Earlier messages"),
    "include_project": _("Project memory"),
    "include_session_summary": _("Session summary"),
    "include_clock": _("Date and time"),
    "include_relevance": _("Relevance"),
    "include_tools": _("Tool use"),
    "cache": _("Caching"),
}
RANGES: Final = {
    "working_memory_limit": (1, 50), "semantic_memory_limit": (1, 20), "profile_max_tokens": (0, 4_000),
    "recall_limit": (0, 100),
}  # fmt: skip
OPTIONS: Final = ("max_tokens", "token_safety_margin", "memory_placement", *RANGES, *SWITCHES)
FURTHER: Final = ("token_safety_margin", "memory_placement", "perspective", *RANGES, *SWITCHES)

_AS_SET = ("", _("as in the policy"))
_SWITCH = [_AS_SET, ("true", _("on")), ("false", _("off"))]


def _text(label: Any, help_text: Any = "", *, longest: int = 255, suggestions: str = "") -> forms.CharField:
    attrs = {"dir": "auto", "autocomplete": "off", **({"list": suggestions} if suggestions else {})}
    return forms.CharField(
        required=False,
        max_length=longest,
        label=label,
        help_text=help_text,
        widget=UnfoldAdminTextInputWidget(attrs=attrs),
    )


def _choice(label: Any, choices: Any) -> forms.ChoiceField:
    return forms.ChoiceField(
        required=False, label=label, choices=choices, widget=UnfoldAdminSelectWidget(choices=choices)
    )


def _whole(label: Any, low: int, high: int, help_text: Any = "") -> forms.IntegerField:
    return forms.IntegerField(
        required=False,
        label=label,
        min_value=low,
        max_value=high,
        help_text=help_text,
        widget=UnfoldAdminIntegerFieldWidget(),
    )


class PlaygroundForm(forms.Form):
    """Agent, user, message and options of a context; an empty option takes the policy's value."""

    agent = forms.ChoiceField(label=_("Agent"), widget=UnfoldAdminSelectWidget())
    user = _text(_("User"), _("Empty: the agent itself."), suggestions="users")
    session = _text(_("Session"), _("A session id; optional."), longest=36, suggestions="sessions")
    project = _text(
        _("Project"),
        _("A name; empty: as in the policy; auto: found by the message, which may call a model; -: none."),
        suggestions="projects",
    )
    message = ProseField(rows=3, max_length=LONGEST_MESSAGE, label=_("The user’s message"))
    max_tokens = _whole(
        _("Token budget"), 1000, LARGEST_MAX_TOKENS, _("The safety margin is subtracted from it.")
    )
    format = _choice(_("Form"), [("anthropic", "Anthropic"), ("openai", "OpenAI")])
    token_safety_margin = forms.FloatField(
        required=False,
        min_value=0.5,
        max_value=0.95,
        label=_("Safety margin"),
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "0.01"}),
    )
    memory_placement = _choice(
        _("Position of memories"),
        [
            _AS_SET,
            (AUTO_PLACEMENT, _("with the user’s message where caching is on")),
            (BEFORE_HISTORY, _("before the last messages")),
            (WITH_USER_MESSAGE, _("with the user’s message")),
        ],
    )
    perspective = _text(_("Perspective"), longest=100)
    working_memory_limit = _whole(_("Last messages, at most"), *RANGES["working_memory_limit"])
    semantic_memory_limit = _whole(_("Related memories, at most"), *RANGES["semantic_memory_limit"])
    profile_max_tokens = _whole(_("Tokens about the user, at most"), *RANGES["profile_max_tokens"])
    recall_limit = _whole(_("Earlier messages, at most"), *RANGES["recall_limit"])
    include_pinned = _choice(SWITCHES["include_pinned"], _SWITCH)
    include_profile = _choice(SWITCHES["include_profile"], _SWITCH)
    include_semantic_memory = _choice(SWITCHES["include_semantic_memory"], _SWITCH)
    include_recall = _choice(SWITCHES["include_recall"], _SWITCH)
    include_project = _choice(SWITCHES["include_project"], _SWITCH)
    include_session_summary = _choice(SWITCHES["include_session_summary"], _SWITCH)
    include_clock = _choice(SWITCHES["include_clock"], _SWITCH)
    include_relevance = _choice(SWITCHES["include_relevance"], _SWITCH)
    include_tools = _choice(SWITCHES["include_tools"], _SWITCH)
    cache = _choice(SWITCHES["cache"], _SWITCH)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        agents: Any = self.fields["agent"]
        agents.choices = [(pk, pk) for pk in Agent.objects.order_by("pk").values_list("pk", flat=True)]

    def clean_session(self) -> UUID | None:
        # Whether it is of this user is checked where the user is resolved.
        text = self.cleaned_data["session"].strip()
        key = as_uuid(text)
        if text and key is None:
            raise forms.ValidationError(_("This is not a session id."))
        return key

    def clean_format(self) -> str:
        return self.cleaned_data["format"] or "anthropic"

    def clean_project(self) -> str | None:
        name = self.cleaned_data["project"].strip()
        return None if name == NO_PROJECT else name or UNNAMED

    def options(self) -> dict[str, Any]:
        values = {name: self.cleaned_data[name] for name in OPTIONS}
        switched = {name: values[name] == "true" for name in SWITCHES if values[name]}
        others = {name: values[name] for name in OPTIONS if name not in SWITCHES}
        return {**{name: value for name, value in others.items() if value not in (None, "")}, **switched}

    @property
    def main(self) -> list[Any]:
        return [self[name] for name in self.fields if name not in FURTHER and name != "message"]

    @property
    def further(self) -> list[Any]:
        return [self[name] for name in FURTHER]

    @property
    def is_open(self) -> bool:
        return any(self[name].value() or self[name].errors for name in FURTHER)


def receipt_settings(receipt: Receipt) -> dict[str, str]:
    request = receipt.metadata.get("asked", {})
    project = request.get("project", UNNAMED)
    options = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in request.get("options", {}).items()
        if name in OPTIONS
    }
    return {
        "agent": receipt.actor.agent_id,
        "user": receipt.actor.user_id,
        "session": str(receipt.session_id or ""),
        "message": receipt.query,
        "project": NO_PROJECT if project is None else project,
        "perspective": request.get("perspective") or "",
        "format": request.get("format", "anthropic"),
        **options,
    }


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
"""A context holds data of each; models above this app are known by name only."""

GAPS: Final = {
    EMBEDDER: _("The embedder is unavailable, so memories and messages were found by their words alone."),
    SESSION_SUMMARY: _("The session has no summary yet."),
    PROJECT: _("There is no such project, or it has no content."),
    ROUTING: _("No project was found by the message."),
}
KEPT_SECONDS: Final = 900
TOKEN_BYTES: Final = 16


@dataclass(frozen=True)
class Run:
    """The settings and the outcome of a run, which the next is compared with."""

    settings: dict[str, str] = field(repr=False)
    outcome: RunOutcome
    actor_id: UUID | None = None


def _cache_key(request: HttpRequest, token: str) -> str:
    return f"playground:{request.user.pk}:{token}"


def keep_run(request: HttpRequest, run: Run) -> str:
    token = secrets.token_urlsafe(TOKEN_BYTES)
    cache.set(_cache_key(request, token), run, KEPT_SECONDS)
    return token


def load_run(request: HttpRequest, token: str) -> Run | None:
    """Return a cached run of this person; None where it expired or its actor was erased."""
    is_token = 0 < len(token) <= 64 and token.replace("-", "").replace("_", "").isalnum() and token.isascii()
    run: Run | None = cache.get(_cache_key(request, token)) if is_token else None
    if run is None or run.actor_id is None or Actor.objects.filter(pk=run.actor_id).exists():
        return run
    cache.delete(_cache_key(request, token))
    return None


@dataclass
class Result:
    tenant: Tenant
    request: ContextRequest
    context: AssembledContext
    notices: list[str] = field(default_factory=list)

    @property
    def items(self) -> list[dict[str, Any]]:
        return [item._asdict() for item in self.context.assembly.items]

    @cached_property
    def nonce_tokens(self) -> int:
        return count_nonce_tokens(self.context.assembly, counter_in_use().count)

    @property
    def outcome(self) -> RunOutcome:
        metadata = self.context.assembly.metadata
        return run_outcome(
            self.items,
            total=metadata.total_tokens,
            limit=metadata.token_limit,
            nonce_tokens=self.nonce_tokens,
        )


def playground(request: HttpRequest) -> HttpResponse:
    """Show the form, filled in from a receipt, a cached run or a session; a POST assembles the context."""
    may_keep = request.user.has_perm(KEEP)
    is_to_keep = request.method == "POST" and bool(submitted_text(request, "keep"))
    if is_to_keep and not may_keep:
        raise PermissionDenied
    before, settings = _settings_of_request(request)
    form = PlaygroundForm(settings if request.method == "POST" else None, initial=settings)
    result = _result(request, form) if form.is_bound and form.is_valid() else None
    if result is not None and submitted_text(request, "as") == "json":
        answer = HttpResponse(prompt_as_json(result.context.assembly), content_type="application/json")
        answer["Content-Disposition"] = 'attachment; filename="context.json"'
        answer["Cache-Control"] = "no-store"
        return answer
    context: dict[str, Any] = {"form": form, "suggested": _suggested(form, result), "may_keep": may_keep}
    if not form.is_bound and submitted_text(request, "run"):
        context |= (
            {"run": submitted_text(request, "run"), "comes_back": True} if before else {"is_forgotten": True}
        )
    if result is None and form.is_bound and before is not None:
        # A failed run is none: the next is compared with the one before it.
        context["run"] = keep_run(request, before)
    if result is not None:
        if is_to_keep:
            context["kept"] = _keep(request, result)
        context |= _result_context(request, form, result, before)
    return render_page(request, TEMPLATE, title=_("Playground"), **context)


def _settings_of_request(request: HttpRequest) -> tuple[Run | None, dict[str, str]]:
    before = load_run(request, submitted_text(request, "run"))
    key = as_uuid(request.POST.get("receipt", ""))
    receipt = Receipt.objects.select_related("actor").filter(pk=key).first() if key else None
    if receipt is not None:
        outcome = run_outcome(receipt.items, total=receipt.total_tokens, limit=receipt.token_limit)
        settings = receipt_settings(receipt)
        return Run(settings, outcome, receipt.actor_id), settings
    if request.method == "POST":
        settings = {name: request.POST.get(name, "") for name in PlaygroundForm.base_fields}
        if budget := submitted_text(request, "instead"):
            settings["max_tokens"] = budget
        return before, settings
    if before:
        return before, before.settings
    key = as_uuid(request.GET.get("session", ""))
    session = Session.objects.select_related("actor").filter(pk=key).first() if key else None
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
        figures = {"required": grouped(error.required_tokens), "limit": grouped(error.token_limit)}
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
        notices.append(
            gettext("This agent stores everything for one fixed user; the context is that user’s.")
        )
    if tenant.actor is None:
        notices.append(gettext("This user does not exist yet: this is what a new user would get."))
    for name in context.metadata["degraded"]:
        unavailable = gettext("A layer is unavailable: %(layer)s.") % {"layer": LAYERS.get(name, name)}
        notices.append(str(GAPS.get(name, unavailable)))
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


def _keep(request: HttpRequest, result: Result) -> Receipt | None:
    try:
        return keep_preview_receipt(
            tenant=result.tenant, request=result.request, context=result.context, by=principal(request), now=clock()
        )  # fmt: skip
    except DomainError as error:
        result.notices.append(str(error))
        return None


def _result_context(
    request: HttpRequest, form: PlaygroundForm, result: Result, before: Run | None
) -> dict[str, Any]:
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
            items,
            total=metadata.total_tokens,
            limit=metadata.token_limit,
            before=was,
            nonce_tokens=result.nonce_tokens,
        ),
        "groups": candidate_groups(items, may_curate=may_curate, before=was),
        "gone": removed_candidates(was, items) if was else [],
        "compared": before is not None,
        "changed": _changed(form, before) if before else [],
        "may_curate": may_curate,
        "prompt": prompt_preview(result.context.assembly),
        "latency": result.context.metadata["assembly_latency_ms"],
        "budgets": [each for each in TOKENS_TO_TRY if each != form.cleaned_data["max_tokens"]],
    }


def _changed(form: PlaygroundForm, before: Run) -> list[tuple[Any, str, str]]:
    now = _settings(form)
    changed = []
    for name, bound in form.fields.items():
        was, value = before.settings.get(name, ""), now.get(name, "")
        if was != value:
            changed.append((bound.label, _setting_label(name, was), _setting_label(name, value)))
    return changed


def _setting_label(name: str, value: str) -> str:
    if name == "project":
        return project_in_words(None if value == NO_PROJECT else value or UNNAMED)
    return excerpt(value, 60) if value else "–"


def _settings(form: PlaygroundForm) -> dict[str, str]:
    return {name: form.data.get(name, "") for name in form.fields}


def _suggested(form: PlaygroundForm, result: Result | None) -> Mapping[str, Any]:
    fixed = {"projects": [AUTO, NO_PROJECT]}
    if result is not None and result.tenant.actor is not None:
        rows = Session.objects.filter(actor_id=result.tenant.actor.pk)
        latest = rows.order_by(F("last_message_at").desc(nulls_last=True), "-id")
        return {**fixed, "sessions": list(latest.values_list("pk", "title", "channel")[:MOST_SUGGESTED])}
    actors = Actor.objects.exclude(user_id="").order_by("-created_at", "-id")
    users = actors.values_list("user_id", flat=True)[:MOST_SUGGESTED]
    return {**fixed, "users": list(dict.fromkeys(users))}


PAGES = [Page("playground/", "playground", playground, NEEDS)]
