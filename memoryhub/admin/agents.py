"""Screens of agents and actors: settings, policies and their overrides; where their rows are, and a user's erasure."""

from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from memoryhub.admin.base import (
    ActionAdmin,
    actor_title,
    clock,
    excerpt,
    format_count,
    owner_label,
    principal,
    render_page,
)
from memoryhub.admin.columns import UserFilter, column
from memoryhub.admin.fields import LinesField, ObjectField, ProseField
from memoryhub.admin.object_actions import change_url, row_page, submitted_text
from memoryhub.admin.policy_form import PolicyForm, policy_json
from memoryhub.api.agents import export_of
from memoryhub.auth.actions import create_agent, set_actor_policy, update_agent
from memoryhub.auth.erasure import erase_user
from memoryhub.errors import DomainError
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.namespaces import NamespaceError, namespace_queries
from memoryhub.tenancy.policy import Strategy
from memoryhub.unfold import SCREENS, address_of, in_brackets, may_open, screens_by_name

MAX_PROMPT_LENGTH = 100_000
MAX_WORDS = 100
EDITABLE = frozenset(
    {"name", "language", "system_prompt", "domain", "related_domains", "current_project", "fixed_user_id",
     "strategies", "topics_include", "topics_exclude", "retrieval_config"}
)  # fmt: skip


def _check_retrieval(value: dict[str, Any]) -> None:
    try:
        if value:
            namespace_queries(value, agent_id="agent", user_id="", field="retrieval_config")
    except NamespaceError as error:
        raise ValidationError(str(error)) from error


STRATEGY_LABELS = {
    Strategy.SEMANTIC: _("facts"),
    Strategy.USER_PREFERENCE: _("preferences"),
    Strategy.SUMMARY: _("session summaries"),
    Strategy.EPISODIC: _("episodes"),
    Strategy.REFLECTION: _("lessons across episodes"),
}


class AgentForm(PolicyForm):
    """Editable settings of an agent."""

    system_prompt = ProseField(required=False, max_length=MAX_PROMPT_LENGTH, label=_("System prompt"))
    related_domains = LinesField(max_lines=MAX_WORDS, max_line_length=255, label=_("Related domains"))
    topics_include = LinesField(max_lines=MAX_WORDS, max_line_length=255, label=_("Topics to include"))
    topics_exclude = LinesField(max_lines=MAX_WORDS, max_line_length=255, label=_("Topics to leave out"))
    policy = policy_json(_("Only the values that differ from the defaults. Values changed above take precedence."))
    strategies = forms.MultipleChoiceField(
        required=False,
        choices=[(name, STRATEGY_LABELS[name]) for name in Strategy],
        widget=UnfoldAdminCheckboxSelectMultipleWidget(),
        label=_("Long-term strategies"),
    )
    retrieval_config = ObjectField(
        check=_check_retrieval,
        label=_("Retrieval configuration"),
        help_text=_("Namespace prefixes with top_k and relevance_score, as JSON; empty: the defaults."),
    )

    class Meta:
        model = Agent
        fields = (
            "agent_id", "name", "language", "system_prompt", "domain", "related_domains", "current_project",
            "fixed_user_id", "policy", "strategies", "topics_include", "topics_exclude", "retrieval_config",
        )  # fmt: skip

    unvalidated_fields = frozenset({"strategies", "policy", "retrieval_config"})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        switches = self.instance.strategies or {}
        self.initial["strategies"] = [name for name in Strategy if switches.get(name, True)]

    def layers(self) -> tuple[Agent | None, Actor | None]:
        return (self.instance if self.instance.pk else None), None

    def values(self) -> dict[str, Any]:
        values = {**self.changed_values(EDITABLE), **self.changed_policy}
        if "strategies" in values:
            values["strategies"] = {name: name in values["strategies"] for name in Strategy}
        if "retrieval_config" in values:
            values["retrieval_config"] = values["retrieval_config"] or None
        return values


NOTES: list[Callable[[QuerySet[Actor]], str]] = []
"""Functions that return a note about an agent's users, or about one, for their page; "" for none."""


def notes_of(actors: QuerySet[Actor]) -> list[str]:
    return [text for note in NOTES if (text := note(actors))]


def owned_lists(request: HttpRequest) -> list[tuple[Any, type[Model], str]]:
    """Return title, model and address of the lists that can be narrowed to a user, of those the person may see."""
    screens = screens_by_name()
    return [
        (title, screens[name].model, address_of(name))
        for name, (title, _icon) in SCREENS.items()
        if name in screens and UserFilter in (screens[name].list_filter or ()) and may_open(name, request)
    ]


def what_if_url(request: HttpRequest, **row: str) -> str:
    """Return the address that shows the effect of a form on contexts; "" for people who may not see these."""
    return f"{reverse('what_if')}?{urlencode(row)}" if may_open("what_if", request) else ""


def row_links(request: HttpRequest, agent_id: str, user_id: str = "") -> list[dict[str, Any]]:
    """Return links to the lists of what belongs to an agent, or to a user of it."""
    query = {"actor__agent__agent_id__exact": agent_id, **({"user": user_id} if user_id else {})}
    return [
        {"title": title, "link": f"{address}?{urlencode(query)}"} for title, _model, address in owned_lists(request)
    ]


@admin.register(Agent)
class AgentAdmin(ActionAdmin):
    """Agents; there is no action that deletes one."""

    form = AgentForm
    allows = frozenset({"add", "change"})
    list_display = ("agent_id", "shown_name", "language", "domain", "current_project", "owner_mode", "updated_at")
    list_filter = ("language", "domain")
    search_fields = ("agent_id", "name", "domain", "current_project")
    id_fields = ("agent_id",)
    readonly_fields = ("version", "created_at", "updated_at")
    change_form_before_template = "admin/memoryhub/includes/version.html"
    change_form_after_template = "admin/memoryhub/includes/policies.html"
    change_form_outer_before_template = "admin/memoryhub/agent/rows.html"
    fieldsets = (
        (None, {"fields": (("agent_id", "name"), ("language", "fixed_user_id"), "system_prompt")}),
        (_("Scope"), {"fields": (("domain", "current_project"), "related_domains")}),
        (_("Long-term memory"), {"fields": ("strategies", ("topics_include", "topics_exclude"))}),
        (_("History"), {"fields": (("version", "created_at", "updated_at"),)}),
    )
    add_fieldsets = fieldsets[:-1]

    shown_name = column(_("name"), lambda agent: excerpt(agent.name, 60), ordering="name")
    owner_mode = column(_("owner mode"), lambda agent: _("on") if agent.fixed_user_id else "-")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return (*self.readonly_fields, *(("agent_id",) if obj else ()))

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        users = f"{address_of('memoryhub_actor')}?{urlencode({'agent__agent_id__exact': row.pk})}"
        links = [{"title": _("Actors"), "link": users}, *row_links(request, row.pk)]
        notes = notes_of(Actor.objects.filter(agent_id=row.pk))
        return {"row_links": links, "notes": notes, "what_if_url": what_if_url(request, agent=row.pk)}

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Agent:
        by, now, values = principal(request), clock(), form.values()
        if not change:
            return create_agent(agent_id=form.cleaned_data["agent_id"], values=values, by=by, now=now)
        if not values:
            return row  # type: ignore[no-any-return]
        version = form.cleaned_data["expected_version"]
        return update_agent(agent_id=row.pk, values=values, expected_version=version, by=by, now=now)


class ActorForm(PolicyForm):
    """Policy overrides of a user."""

    policy = policy_json(_("Only the values that differ from the agent's. Values changed above take precedence."))

    class Meta:
        model = Actor
        fields = ("policy",)

    def layers(self) -> tuple[Agent | None, Actor | None]:
        return self.instance.agent, self.instance


@admin.register(Actor)
class ActorAdmin(ActionAdmin):
    """Actors: created by the first write; their overrides are edited here, and users are erased with all their rows."""

    form = ActorForm
    allows = frozenset({"change"})
    list_display = ("owner", "overrides", "created_at")
    list_filter = ("agent",)
    search_fields = ("agent__agent_id", "user_id")
    readonly_fields = ("id", "agent", "user_id", "created_at")
    fields = (("agent", "user_id"), ("created_at", "id"))
    change_form_before_template = "admin/memoryhub/includes/version.html"
    change_form_after_template = "admin/memoryhub/includes/policies.html"
    change_form_outer_before_template = "admin/memoryhub/agent/rows.html"
    change_form_outer_after_template = "admin/memoryhub/agent/erase_button.html"
    list_select_related = ("agent",)

    @admin.display(description=_("agent and user"), ordering="agent__agent_id")
    def owner(self, actor: Actor) -> str:
        chips, remark = owner_label(actor), "" if actor.user_id else in_brackets(_("the agent itself"))
        return format_html("{}{}", chips, remark)

    overrides = column(_("overrides"), lambda actor: len(actor.policy))

    def title_of(self, row: Actor) -> str:
        return actor_title(row)

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Actor:
        if not (values := form.changed_policy):
            return row  # type: ignore[no-any-return]
        actor = Actor.objects.select_related("agent").get(pk=row.pk)
        version = form.cleaned_data["expected_version"]
        return set_actor_policy(
            actor=actor, policy=values["policy"], expected_version=version, by=principal(request), now=clock()
        )

    def context_of(self, request: HttpRequest, row: Actor) -> dict[str, Any]:
        return {
            "row_links": row_links(request, row.agent_id, row.user_id) if row.user_id else [],
            "notes": notes_of(Actor.objects.filter(pk=row.pk)),
            "what_if_url": what_if_url(request, actor=str(row.pk)),
            "may_erase": bool(row.user_id) and self._may_erase(request),
        }

    def _may_erase(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("memoryhub.delete_actor"))

    @row_page
    def export_view(self, request: HttpRequest, row: Actor) -> HttpResponse:
        """Send everything of a user, as the API does; who may erase may export."""
        if not self._may_erase(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        sent = export_of(row, by=principal(request), now=clock(), streams=isinstance(request, ASGIRequest))
        return cast(HttpResponse, sent)

    @row_page
    def erase_view(self, request: HttpRequest, row: Actor) -> HttpResponse:
        """Ask for the user's id, then erase the user. The admin's log has no entry of it: it would name the user."""
        if not self._may_erase(request):
            raise PermissionDenied
        problem = None
        if request.method == "POST" and submitted_text(request, "user_id") != row.user_id.strip():
            problem = gettext("This is not the user's id.")
        elif request.method == "POST":
            try:
                erasure = erase_user(
                    agent_id=row.agent_id,
                    user_id=row.user_id,
                    by=principal(request),
                    now=clock(),
                    vacuum=bool(submitted_text(request, "vacuum")),
                )
            except DomainError as error:
                problem = str(error)
            else:
                count = format_count(sum(erasure.erased.values()))
                text = gettext("The user was erased: %(count)s rows, with revisions, search entries and other details.")
                messages.success(request, text % {"count": count})
                return HttpResponseRedirect(reverse("admin:memoryhub_actor_changelist"))
        counts = [
            (title, model._default_manager.filter(actor_id=row.pk).count())
            for title, model, _at in owned_lists(request)
        ]
        return render_page(
            request,
            "admin/memoryhub/agent/erase.html",
            title=_("Erase this user"),
            subtitle=actor_title(row),
            opts=self.opts,
            original=row,
            back=change_url(row),
            problem=problem,
            rows=[(title, format_count(count)) for title, count in counts if count],
        )
