"""Screen of expectations: memories that must, or must not, be in the context of a stored call."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext, pgettext
from django.utils.translation import gettext_lazy as _

from conversations.admin.playground import receipt_of_run
from conversations.models import Receipt
from memoryhub.admin.base import OwnedMixin, as_uuid, clock, excerpt, link_to, principal, truncated
from memoryhub.admin.columns import UserFilter, choice_displays, column, whole_text
from memoryhub.admin.labels import principal_label, verb_label
from memoryhub.admin.object_actions import (
    Change,
    DecisionAdmin,
    Done,
    change_url,
    next_url,
    object_action,
    report_done,
    submitted_text,
)
from memoryhub.errors import DomainError
from memoryhub.unfold import Page
from strength.actions.expectations import changes_before, check, expect, withdraw
from strength.admin.memory_detail import memory_links
from strength.models import Expectation, ExpectationState

LIST: Final = "admin:strength_expectation_changelist"
RECEIPT_PAGE: Final = "admin:conversations_receipt_change"
MAX_CHANGES: Final = 10
STATE_LABELS: Final[Mapping[str, Any]] = {ExpectationState.KEPT: _("met"), ExpectationState.BROKEN: _("broken")}
STATE_COLOURS: Final[Mapping[str, str]] = {ExpectationState.KEPT: "success", ExpectationState.BROKEN: "danger"}


@admin.register(Expectation)
class ExpectationAdmin(OwnedMixin, DecisionAdmin):
    empty_hint = _(
        "In the playground or on a receipt’s page, choose “Must be in it” or “Must not be in it” at a memory."
    )
    list_display = ("shown_state", "shown_query", "wanted", "shown_memory", "owner", "checked_at", "broken_at")
    list_filter = ("state", "actor__agent", UserFilter, "created_at")
    list_select_related = ("actor", "receipt")
    search_fields = ("receipt__query",)
    search_help_text = _("Words of the user's message, or the id of an expectation, a receipt or a memory.")
    id_fields = ("pk", "receipt_id", "memory_id")
    fields = (
        ("state_in_words", "owner"),
        "whole_query",
        ("wanted", "shown_memory"),
        ("checked_at", "broken_at", "kept_at"),
        ("of_receipt", "created_at", "id"),
    )
    change_form_outer_after_template = "admin/strength/expectation/actions.html"

    shown_state, state_in_words = choice_displays("state", STATE_LABELS, STATE_COLOURS, description=_("state"))
    shown_query = column(_("user's message"), lambda row: excerpt(row.receipt.query, 80))
    whole_query = column(_("user's message"), lambda row: whole_text(row.receipt.query))
    wanted = column(_("expected"), lambda row: gettext("is in it") if row.is_wanted else gettext("is not in it"))
    shown_memory = column(_("memory"), lambda row: row.memory)
    of_receipt = column(_("receipt"), lambda row: link_to(RECEIPT_PAGE, row.receipt_id, pgettext("link", "open")))

    def title_of(self, row: Expectation) -> str:
        return truncated(row.receipt.query)

    def prepare_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        links = memory_links(request, [row.memory_id for row in rows])
        for row in rows:
            row.memory = links[str(row.memory_id)]

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        is_broken = row.state == ExpectationState.BROKEN
        changes = changes_before(row)[:MAX_CHANGES] if is_broken else ()
        may_see = request.user.has_perm("memoryhub.view_auditentry")
        return {
            "may_decide": self.has_decide_permission(request),
            "is_broken": is_broken,
            "changes": [
                {
                    "at": entry.at,
                    "who": principal_label(entry.who_name, entry.who_kind),
                    "verb": verb_label(entry.verb),
                    "page": reverse("admin:memoryhub_auditentry_change", args=[entry.pk]) if may_see else "",
                }
                for entry in changes
            ],
        }

    @object_action()
    def check_view(self, request: HttpRequest, row: Expectation, change: Change) -> Done:
        [checked] = check([row], by=change["by"], now=change["now"])
        return Done(_said(checked))

    @object_action()
    def withdraw_view(self, request: HttpRequest, row: Expectation, change: Change) -> Done:
        again = f"{reverse('keep_expectation')}?receipt={row.receipt_id}&memory={row.memory_id}"
        undo = again if row.is_wanted else f"{again}&unwanted=1"
        withdraw(expectation=row, **change)
        return Done(gettext("The expectation was deleted."), reverse(LIST), undo=undo)


def _said(row: Expectation) -> str:
    if row.state == ExpectationState.KEPT:
        return gettext("The expectation is met now.")
    return gettext("The expectation is broken now.")


PERMISSIONS: Final = ("strength.add_expectation", "conversations.view_receipt")


def keep_expectation(request: HttpRequest) -> HttpResponse:
    """Keep an expectation about a receipt, or a run of the playground, and a memory, which the form names."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    if not request.user.has_perms(PERMISSIONS):
        raise PermissionDenied
    memory_id, is_wanted = as_uuid(submitted_text(request, "memory")), not submitted_text(request, "unwanted")
    receipt, back = None, next_url(request)
    try:
        receipt = _receipt(request)
        if receipt is None or memory_id is None:
            messages.error(request, gettext("This receipt no longer exists."))
            return HttpResponseRedirect(back or reverse(LIST))
        kept = expect(receipt=receipt, memory_id=memory_id, is_wanted=is_wanted, by=principal(request), now=clock())
    except DomainError as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(back or (reverse(RECEIPT_PAGE, args=[receipt.pk]) if receipt else reverse(LIST)))
    added = format_html("{} {}", gettext("The expectation was added."), _said(kept))
    if back:
        added = format_html('{} <a class="hub-link" href="{}">{}</a>', added, change_url(kept), gettext("Open it"))
    report_done(request, added, undo=reverse("admin:strength_expectation_withdraw", args=[kept.pk]))
    return HttpResponseRedirect(back or change_url(kept))


def _receipt(request: HttpRequest) -> Receipt | None:
    """Return the receipt that the form names; a run of the playground gets one."""
    if token := submitted_text(request, "run"):
        return receipt_of_run(request, token)
    key = as_uuid(submitted_text(request, "receipt"))
    return Receipt.objects.select_related("actor__agent").filter(pk=key).first() if key else None


PAGES = [Page("expectations/keep/", "keep_expectation", keep_expectation, PERMISSIONS)]
