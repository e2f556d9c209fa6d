"""Screen of routing decisions: the project chosen for a message, corrected with one click (SPEC P4, W6)."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from conversations.admin.sessions import OfSessionMixin
from conversations.domain.messages import TurnState
from conversations.models import ChatTurn
from memoryhub.admin.base import HubAdmin, OwnedMixin, clock, excerpt, link_to, title_with_time
from memoryhub.admin.columns import UserFilter, choice_displays, choice_filter, column, text_cell, whole_text
from memoryhub.admin.curated import address, wide
from memoryhub.admin.object_actions import Change, Done, object_action, submitted_text
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import Trust
from summaries.actions.corrections import (
    correct_routing,
    correct_to_new_project,
    proposed_name,
    uncertain_decisions,
    undo_correction,
)
from summaries.actions.routing import corrections_of, likely_projects, profiles_of
from summaries.admin.base import ACTIONS, CONFIDENCE_COLOURS, CONFIDENCES, DISCLOSED, person_may, shown_name
from summaries.admin.project_lifecycle import may_manage_life, movable_entries, move_selected_entries
from summaries.domain.policy import ProjectPolicy
from summaries.domain.projects import MAX_NAME_LENGTH
from summaries.domain.routing import Action, Confidence, reason_parts
from summaries.domain.word_router import most_similar, similarity
from summaries.models import Project, RoutingDecision

MAX_PROJECTS = 200
LIST_SUGGESTIONS = 3
PAGE_SUGGESTIONS = 6
ADD_PROJECT = "add_project"
NO_PROJECT = _("No project")


_STATE_CONDITIONS = {
    "unsure": Q(corrected_at=None, confidence__in=[Confidence.LOW, Confidence.MEDIUM]),
    "open": Q(corrected_at=None),
    "corrected": Q(corrected_at__isnull=False),
}
_STATE_CHOICES = [
    ("waiting", _("Pending")),
    ("unsure", _("Uncertain and not reviewed")),
    ("open", _("Not reviewed")),
    ("corrected", _("Corrected or confirmed")),
]


def _of_state(rows: QuerySet[RoutingDecision], state: str) -> QuerySet[RoutingDecision]:
    if state == "waiting":
        return rows.filter(pk__in=uncertain_decisions(clock()).values("pk"))
    return rows.filter(_STATE_CONDITIONS.get(state, Q()))


StateFilter = choice_filter(
    _("correction"), "state", lambda: _STATE_CHOICES, lambda rows, state: _of_state(rows, state)
)
ActionFilter = choice_filter(
    _("what followed"), "action", lambda: [(action.value, ACTIONS[action]) for action in Action]
)


@admin.register(RoutingDecision)
class RoutingDecisionAdmin(OfSessionMixin, OwnedMixin, HubAdmin):
    empty_hint = _("Once there are projects, a decision is stored for each routed message.")
    allows = frozenset({"change"})
    list_display = (
        "shown_message",
        "of_project",
        "shown_confidence",
        "shown_reason",
        "belongs_to",
        "channel",
        "owner",
        "created_at",
    )
    list_filter = (StateFilter, "confidence", ActionFilter, "actor__agent", UserFilter, "created_at")
    list_select_related = ("actor", "project", "corrected_project")
    search_fields = ("message", "project__name")
    search_help_text = _("Words of a message, a project's name, or the id of a decision, a session or a project.")
    id_fields = ("pk", "session_id", "project_id")
    ordering = ("-id",)
    long_text = "message"
    fields = (
        "whole_message",
        ("owner", "channel", "created_at"),
        ("of_project", "sure", "shown_action"),
        ("proposed_name", "whole_reason", "of_session"),
        ("put_right", "corrected_by", "corrected_at"),
        "id",
    )
    readonly_fields = (
        "whole_message", "owner", "channel", "created_at", "of_project", "sure", "shown_action",
        "proposed_name", "whole_reason", "of_session", "put_right", "corrected_by", "corrected_at", "id",
    )  # fmt: skip
    list_per_page = 25  # each row has buttons
    list_before_template = "admin/summaries/routingdecision/list.html"
    change_form_outer_before_template = "admin/summaries/routingdecision/correct.html"
    change_form_outer_after_template = "admin/summaries/routingdecision/examples.html"

    def title_of(self, row: Any) -> str:
        return title_with_time(ACTIONS[row.action], row.created_at)

    # Columns and fields

    shown_message = column(_("message"), lambda decision: wide(excerpt(decision.opening)))
    whole_message = column(_("message"), lambda decision: whole_text(decision.message))

    of_project = column(_("project"), lambda decision: _project_link(decision.project), ordering="project__name")
    shown_confidence, sure = choice_displays("confidence", CONFIDENCES, CONFIDENCE_COLOURS, description=_("confidence"))

    shown_reason = column(
        _("reason"), lambda decision: wide(excerpt(translated_reason(decision.reason), 80)) if decision.reason else "–"
    )
    whole_reason = column(
        _("reason"), lambda decision: whole_text(translated_reason(decision.reason)) if decision.reason else "–"
    )

    @admin.display(description=_("what followed"))
    def shown_action(self, decision: RoutingDecision) -> Any:
        # Only chat discloses a guess, in the model's answer.
        if decision.action == Action.DISCLOSE and decision.session_id is not None:
            turns = ChatTurn.objects.filter(actor_id=decision.actor_id, session_id=decision.session_id)
            if turns.filter(state=TurnState.ANSWERED, routing__id=str(decision.pk)).exists():
                return DISCLOSED
        return ACTIONS[decision.action]

    put_right = column(
        _("corrected"),
        lambda decision: (
            NO_PROJECT
            if decision.corrected_at and decision.corrected_project is None
            else _project_link(decision.corrected_project)
        ),
        ordering="corrected_at",
    )

    @admin.display(description=_("belongs to"), ordering="corrected_at")
    def belongs_to(self, decision: Any) -> str:
        offered, project = getattr(decision, "offered", None), decision.corrected_project
        decided: Any = NO_PROJECT if project is None and decision.corrected_at else _project_link(project)
        if decision.corrected_at and offered is not None:
            return _row_of([decided, _button(_undo(decision, project), gettext("Undo"))])
        if offered is None:
            return str(decided)
        current = decision.project.name if decision.project is not None else None
        confirm = gettext("Confirm: %(name)s")
        buttons = [
            _button(address("correct", decision, project=name), confirm % {"name": name} if name == current else name)
            for name in offered
        ]
        if decision.may_make and decision.proposed_name:
            new = address("correct", decision, take="new", new_name=decision.proposed_name)
            buttons.append(_button(new, gettext("New: %(name)s") % {"name": decision.proposed_name}))
        other = format_html(
            '<a class="text-primary-600 dark:text-primary-500" href="{}#correct-form">{}</a>',
            address("change", decision),
            gettext("Another…"),
        )
        none = _button(address("correct", decision, take="none"), gettext("No project"))
        return _row_of([*buttons, none, other])

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        may = self.has_change_permission(request)
        answer: Any = super().changelist_view(request, {**(extra_context or {}), "may_correct": may})
        changes = getattr(answer, "context_data", None) or {}
        if may and "cl" in changes:
            decisions, may_make = changes["cl"].result_list, person_may(request, ADD_PROJECT)
            profiles = profiles_of(decision.actor_id for decision in decisions)
            for decision in decisions:
                decision.offered = _likely(decision, profiles.get(decision.actor_id, ()), LIST_SUGGESTIONS)
                decision.may_make = may_make
        return answer  # type: ignore[no-any-return]

    # Corrections

    @object_action()
    def correct_view(self, request: HttpRequest, decision: RoutingDecision, change: Change) -> Done:
        former = decision.corrected_project
        values: dict[str, Any] = {"former": former.name} if former is not None else {}
        take = submitted_text(request, "take")
        if take == "none":
            correct_routing(decision=decision, project_name=None, **change)
            done = gettext("Decided: the message belongs to no project.")
            return Done(done, undo=address("uncorrect", decision, corrected_to="", **values))
        if take == "new":
            if not person_may(request, ADD_PROJECT):
                raise PermissionDenied
            name, made = submitted_text(request, "new_name") or proposed_name(decision), {"made": 1}
            correct_to_new_project(decision=decision, name=name, **change)
        else:
            field = "chosen" if take == "chosen" else "project"
            name, made = submitted_text(request, field)[:MAX_NAME_LENGTH], {}
            correct_routing(decision=decision, project_name=name, **change)
        words = gettext("Similar messages are routed to %(name)s from now on.") % {"name": name}
        return Done(words, undo=address("uncorrect", decision, corrected_to=name, **values, **made))

    @object_action()
    def uncorrect_view(self, request: HttpRequest, decision: RoutingDecision, change: Change) -> Done:
        """Undo a correction, with the project created for it where the person may delete one."""
        corrected_to, made = submitted_text(request, "corrected_to"), bool(submitted_text(request, "made"))
        project_deleted = undo_correction(
            decision=decision,
            corrected_to=corrected_to,
            former=submitted_text(request, "former"),
            with_project=made and person_may(request, "delete_project"),
            **change,
        )
        words = gettext("The correction was undone.")
        if not corrected_to:
            return Done(words, undo=address("correct", decision, take="none"))
        if made and not project_deleted:
            words = gettext("The correction was undone; the project %(name)s is kept.") % {"name": corrected_to}
        # A deleted project that was created for the message cannot be the target again.
        return Done(words, undo=None if project_deleted else address("correct", decision, project=corrected_to))

    @object_action(may_manage_life)
    def move_entries_view(self, request: HttpRequest, decision: RoutingDecision, change: Change) -> Done:
        """Move what was written into the wrong project before the correction."""
        return move_selected_entries(request, decision, change)

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        projects = Project.objects.of(row.actor_id).active().order_by("name")
        names = list(projects.values_list("name", flat=True)[: MAX_PROJECTS + 1])
        corrected_to = row.corrected_project
        policy = effective_policy(ProjectPolicy, row.actor.agent, row.actor)
        similar = most_similar(row.message, corrections_of(row.actor, Trust(row.trust)), policy.routing_examples)
        return {
            "may_change": self.has_change_permission(request, row),
            "may_make": person_may(request, ADD_PROJECT),
            "likely": _likely(row, profiles_of([row.actor_id]).get(row.actor_id, ()), PAGE_SUGGESTIONS),
            "project_names": names[:MAX_PROJECTS],
            "more_projects": len(names) > MAX_PROJECTS,
            "new_name": proposed_name(row),
            "corrected_to": corrected_to,
            "misplaced_entries": movable_entries(request, row),
            "undo": _undo(row, corrected_to) if row.corrected_at is not None else "",
            "examples": [
                {
                    "message": link_to(
                        "admin:summaries_routingdecision_change", example.decision_id, excerpt(example.message, 80)
                    ),
                    "project": example.project,
                    "percent": round(100 * similarity(row.message, example.message)),
                    "is_this": example.decision_id == row.pk,
                }
                for example in similar
            ],
            "longest_name": MAX_NAME_LENGTH,
            "show_save": False,
            "show_save_and_continue": False,
        }


def _likely(decision: Any, profiles: Sequence[Any], limit: int) -> list[str]:
    message = getattr(decision, "opening", None) or decision.message
    first = decision.project.name if decision.project is not None else None
    return likely_projects(message, profiles, first=first, limit=limit)


def _undo(decision: RoutingDecision, project: Project | None) -> str:
    return address("uncorrect", decision, corrected_to=project.name if project else "")


def _button(to: str, text: str) -> SafeString:
    return format_html(
        '<button type="submit" form="correct-form" formaction="{}" class="hub-button hub-button-name">'
        "<bdi>{}</bdi></button>",
        to,
        text,
    )


def _row_of(parts: Sequence[Any]) -> SafeString:
    joined = format_html_join("", "{}", ((part,) for part in parts))
    return format_html('<div class="flex flex-wrap gap-2 items-center pro-column">{}</div>', joined)


def translated_reason(reason: str) -> str:
    """Return a reason in the reader's language where the router wrote it itself; a model's words stay as they are."""
    parts = reason_parts(reason)
    if parts is None:
        return reason
    sentence, named = parts
    if "reason" in named:  # nested reason of the word router, if no model was available
        named["reason"] = translated_reason(named["reason"])
    return gettext(sentence).format(**named)


def _project_link(project: Project | None) -> str:
    return link_to("admin:summaries_project_change", project.pk, text_cell(shown_name(project))) if project else "–"
