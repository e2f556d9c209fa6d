"""Screens of agents and actors: settings, policies and their overrides."""

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from memoryhub.admin.base import ActionAdmin, actor_title, clock, excerpt, principal
from memoryhub.admin.columns import column
from memoryhub.admin.fields import LinesField, ObjectField, ProseField
from memoryhub.admin.policy_form import PolicyForm, policy_json
from memoryhub.auth.actions import create_agent, set_actor_policy, update_agent
from memoryhub.tenancy.domain import STRATEGIES
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.namespaces import NamespaceError, namespace_queries

LONGEST_PROMPT = 100_000
MOST_WORDS = 100
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


_STRATEGIES_IN_WORDS = {
    "semantic": _("facts"),
    "user_preference": _("preferences"),
    "summary": _("session summaries"),
    "episodic": _("episodes"),
    "reflection": _("lessons across episodes"),
}


class AgentForm(PolicyForm):
    """Editable settings of an agent."""

    system_prompt = ProseField(required=False, max_length=LONGEST_PROMPT, label=_("System prompt"))
    related_domains = LinesField(most=MOST_WORDS, longest=255, label=_("Related domains"))
    topics_include = LinesField(most=MOST_WORDS, longest=255, label=_("Topics to include"))
    topics_exclude = LinesField(most=MOST_WORDS, longest=255, label=_("Topics to leave out"))
    policy = policy_json(
        _("Only the values that differ from the defaults. What is changed above goes before.")
    )
    strategies = forms.MultipleChoiceField(
        required=False,
        choices=[(name, _STRATEGIES_IN_WORDS[name]) for name in STRATEGIES],
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

    not_checked_as_stored = frozenset({"strategies", "policy", "retrieval_config"})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        switches = self.instance.strategies or {}
        self.initial["strategies"] = [name for name in STRATEGIES if switches.get(name, True)]

    def layers(self) -> tuple[Agent | None, Actor | None]:
        return (self.instance if self.instance.pk else None), None

    def values(self) -> dict[str, Any]:
        values = {**self.changed_values(EDITABLE), **self.changed_policy}
        if "strategies" in values:
            values["strategies"] = {name: name in values["strategies"] for name in STRATEGIES}
        if "retrieval_config" in values:
            values["retrieval_config"] = values["retrieval_config"] or None
        return values


@admin.register(Agent)
class AgentAdmin(ActionAdmin):
    """Agents; there is no action that deletes one."""

    form = AgentForm
    allows = frozenset({"add", "change"})
    list_display = (
        "agent_id",
        "shown_name",
        "language",
        "domain",
        "current_project",
        "owner_mode",
        "updated_at",
    )
    list_filter = ("language", "domain")
    search_fields = ("agent_id", "name", "domain", "current_project")
    id_fields = ("agent_id",)
    readonly_fields = ("version", "created_at", "updated_at")
    change_form_before_template = "admin/memoryhub/includes/version.html"
    change_form_after_template = "admin/memoryhub/includes/policies.html"
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

    policy = policy_json(
        _("Only the values that differ from the agent's. What is changed above goes before.")
    )

    class Meta:
        model = Actor
        fields = ("policy",)

    def layers(self) -> tuple[Agent | None, Actor | None]:
        return self.instance.agent, self.instance


@admin.register(Actor)
class ActorAdmin(ActionAdmin):
    """Actors: created by the first write, erased through the API; their overrides are edited here."""

    form = ActorForm
    allows = frozenset({"change"})
    list_display = ("whose", "overrides", "created_at")
    list_filter = ("agent",)
    search_fields = ("agent__agent_id", "user_id")
    readonly_fields = ("id", "agent", "user_id", "created_at")
    fields = (("agent", "user_id"), ("created_at", "id"))
    change_form_before_template = "admin/memoryhub/includes/version.html"
    change_form_after_template = "admin/memoryhub/includes/policies.html"
    list_select_related = ("agent",)

    @admin.display(description=_("agent and user"), ordering="agent__agent_id")
    def whose(self, actor: Actor) -> str:
        itself = gettext("the agent itself")
        return actor_title(actor) if actor.user_id else f"{actor.agent_id} ({itself})"

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
