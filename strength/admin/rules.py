"""Screen of rules: what is decided without asking, how much and when last; taken back, and undone as a set (ADR 62)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import OwnedMixin, title_with_time, truncated
from memoryhub.admin.columns import UserFilter, choice_displays, column
from memoryhub.admin.object_actions import Change, DecisionAdmin, Done, change_url, object_action
from strength.actions.review_rules import revoke_rule
from strength.admin.memory_detail import memory_links
from strength.admin.review_item import PENDING_REASON_LABELS
from strength.domain.review import PendingReason
from strength.models import MemoryRevision, ReviewRule
from strength.models.rule import MAX_A_DAY, RuleVerb

MAX_SHOWN: Final = 50
VERB_LABELS: Final[Mapping[str, Any]] = {RuleVerb.APPROVE: _("approve"), RuleVerb.REJECT: _("reject")}
VERB_COLOURS: Final[Mapping[str, str]] = {RuleVerb.APPROVE: "success", RuleVerb.REJECT: "warning"}


class InForceFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("in_force", _("in force")), ("ended", _("ended"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        in_force = Q(revoked_at=None, person__is_active=True)
        conditions = {"in_force": in_force, "ended": ~in_force}
        return queryset.filter(conditions[value]) if (value := self.value()) in conditions else queryset


@admin.register(ReviewRule)
class ReviewRuleAdmin(OwnedMixin, DecisionAdmin):
    empty_hint = _("Open “Decide all like this” in the review, and check that new ones are decided too.")
    list_display = (
        "shown_verb",
        "example",
        "owner",
        "channel",
        "decided_count",
        "last_decided_at",
        "who_name",
        "state",
    )
    list_filter = (InForceFilter, "verb", "actor__agent", UserFilter, "created_at")
    list_select_related = ("actor", "person")
    search_fields = ("who_name", "channel")
    search_help_text = _("Who made it, a channel, or the id of a rule or of its example.")
    id_fields = ("pk", "memory_id")
    fields = (
        ("verb_in_words", "state", "owner"),
        "example",
        ("kind", "source", "channel"),
        "shown_reasons",
        ("decided_count", "last_decided_at"),
        ("who_name", "created_at", "id"),
    )
    change_form_outer_after_template = "admin/strength/rule/actions.html"

    shown_verb, verb_in_words = choice_displays("verb", VERB_LABELS, VERB_COLOURS, description=_("from now on"))
    example = column(_("texts like"), lambda rule: rule.example_link)
    state = column(_("state"), lambda rule: _state(rule))
    shown_reasons = column(
        _("that are pending because"),
        lambda rule: format_html_join(
            " ", "{}", ((PENDING_REASON_LABELS[PendingReason(reason)],) for reason in rule.reasons)
        ),
    )

    def title_of(self, row: ReviewRule) -> str:
        return title_with_time(_("Rule"), row.created_at)

    def prepare_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        links = memory_links(request, [row.memory_id for row in rows])
        for row in rows:
            row.example_link = links[str(row.memory_id)]

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        decided = list(
            MemoryRevision.objects.filter(batch=row.pk)
            .order_by("-created_at", "-id")
            .values_list("memory_id", "created_at")[:MAX_SHOWN]
        )
        links = memory_links(request, [key for key, _at in decided])
        query = urlencode({"batch": str(row.pk), "next": change_url(row)})
        return {
            "may_decide": self.has_decide_permission(request),
            "may_undo": request.user.has_perm("strength.change_memory"),
            "decided": [(links[str(key)], at) for key, at in decided],
            "most_a_day": MAX_A_DAY,
            "undo_url": f"{reverse('admin:strength_memory_undo_batch')}?{query}",
        }

    @object_action()
    def revoke_view(self, request: HttpRequest, rule: ReviewRule, change: Change) -> Done:
        revoke_rule(rule=rule, **change)
        return Done(gettext("The rule was taken back: such memories are pending again."))


def _state(rule: ReviewRule) -> str:
    if rule.revoked_at is not None:
        return gettext("taken back by %(who)s") % {"who": truncated(rule.revoked_by, 60)}
    if rule.person is None or not rule.person.is_active:
        return gettext("ended with the account of who made it")
    return gettext("in force")
