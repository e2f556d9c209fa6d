"""Screens of webhooks, for administrators: secrets that are shown once, tests, deliveries to send again."""

from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from memoryhub.admin.base import ActionAdmin, ActionForm, as_uuid, clock, excerpt, principal, render_page
from memoryhub.admin.columns import choice_displays, column
from memoryhub.admin.object_actions import (
    Change,
    Confirmation,
    Done,
    confirmation_page,
    object_action,
    row_view,
    selected_ids,
    submitted_change,
    submitted_text,
)
from memoryhub.admin.waiting import Waiting
from memoryhub.webhooks.actions.endpoints import (
    OLD_SECRET_FOR,
    create_endpoint,
    delete_endpoint,
    enable_endpoint,
    order_again,
    order_test,
    rotate_secret,
)
from memoryhub.webhooks.domain.events import TEST, EventKind
from memoryhub.webhooks.models import ACTIVE, DISABLED, Delivery, Endpoint

MAX_DELIVERIES: Final = 50
STATE_LABELS: Final = {ACTIVE: _("active"), DISABLED: _("disabled after failures")}
KIND_LABELS: Final[dict[str, Any]] = {
    EventKind.MEMORY_CREATED: _("A memory was written"),
    EventKind.MEMORY_CHANGED: _("A memory was changed"),
    EventKind.MEMORY_ENDED: _("A memory was superseded or archived"),
    EventKind.MEMORY_WAITING: _("A memory is pending"),
    EventKind.MEMORY_DECIDED: _("A pending memory was decided"),
    EventKind.MEMORY_FORGOTTEN: _("A memory was deleted"),
    EventKind.SESSION_ENDED: _("A session ended"),
    EventKind.SESSION_SUMMARISED: _("A session was summarised"),
    EventKind.PROJECT_ROUTED_LOW: _("A message was routed with low confidence"),
    EventKind.DOCUMENT_COMPACTED: _("A document was shortened"),
    EventKind.SLEEP_FINISHED: _("A sleep was finished"),
    EventKind.IMPORT_FINISHED: _("An import was finished"),
    EventKind.EXPECTATION_BROKEN: _("A check found an expectation broken"),
    EventKind.CAP_REACHED: _("A daily cap was reached"),
    TEST: _("Test"),
}
ERROR_LABELS: Final[dict[str, Any]] = {
    "timeout": _("no answer in time"),
    "not reached": _("not reached"),
    "address refused": _("address not allowed"),
    "no HTTP answer": _("not an HTTP answer"),
    "secret unreadable": _("secret unreadable: make a new one"),
}
DELETED_FOR_GOOD: Final = ngettext_lazy(
    "%(count)d webhook is deleted, with the record of its deliveries.",
    "%(count)d webhooks are deleted, with the records of their deliveries.",
    "count",
)

WAITING_KIND: Final = Waiting(
    title=_("Webhooks"),
    note=_("disabled after failures; enable or delete them"),
    model=Endpoint,
    rows=lambda now: Endpoint.objects.filter(state=DISABLED),
    states={"state": [DISABLED]},
    query="?state__exact=disabled",
)


def kinds_label(kinds: Sequence[str]) -> str:
    return ", ".join(str(KIND_LABELS.get(kind, kind)) for kind in kinds) or gettext("all")


class EndpointForm(ActionForm):
    """A new endpoint."""

    kinds = forms.MultipleChoiceField(
        choices=[(kind.value, KIND_LABELS[kind]) for kind in EventKind],
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget(),
        label=_("Events"),
        help_text=_("The events to send; none chosen: all."),
    )

    class Meta:
        model = Endpoint
        fields = ("url", "agent", "kinds", "with_texts")


@admin.register(Endpoint)
class EndpointAdmin(ActionAdmin):
    """Webhooks. A secret is in the response to the form that made it, and nowhere else."""

    empty_hint = _("A webhook sends events to another system as they happen. The + button above creates one.")
    form = EndpointForm
    allows = frozenset({"add"})
    list_display = ("shown_url", "shown_agent", "shown_kinds", "state_label", "failures", "retry_at", "created_at")
    list_filter = ("state",)
    search_fields = ("url",)
    actions = ("remove",)
    fields = (
        "url",
        ("shown_agent", "with_texts"),
        "shown_kinds",
        ("state_in_words", "failures"),
        ("failing_since", "retry_at"),
        ("rotating_until", "created_at"),
    )
    add_fieldsets = ((None, {"fields": EndpointForm.Meta.fields}),)
    change_form_outer_before_template = "admin/webhooks/endpoint/buttons.html"
    change_form_outer_after_template = "admin/webhooks/endpoint/deliveries.html"

    shown_url = column(_("address"), lambda row: excerpt(row.url), ordering="url")
    shown_agent = column(_("agent"), lambda row: row.agent_id or _("all agents"), ordering="agent")
    shown_kinds = column(
        _("events"), lambda row: ", ".join(str(KIND_LABELS.get(kind, kind)) for kind in row.kinds) or _("all")
    )
    state_label, state_in_words = choice_displays(
        "state", STATE_LABELS, {ACTIVE: "success", DISABLED: "danger"}, description=_("state")
    )

    def may_act(self, request: HttpRequest, row: Any) -> bool:
        return bool(request.user.has_perm("webhooks.change_endpoint"))

    def has_remove_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("webhooks.delete_endpoint"))

    def title_of(self, row: Endpoint) -> str:
        return row.url

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Endpoint:
        """Create the endpoint; its secret stays on the form's row until the response is written."""
        values = form.cleaned_data
        endpoint, row.issued_secret = create_endpoint(
            agent_id=values["agent"].pk if values["agent"] else None,
            url=values["url"],
            kinds=values["kinds"],
            with_texts=values["with_texts"],
            by=principal(request),
            now=clock(),
        )
        return endpoint

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        return self._issued(request, obj, obj.issued_secret)

    def _issued(self, request: HttpRequest, endpoint: Endpoint, secret: str) -> HttpResponse:
        title, days = _("The secret of the webhook"), OLD_SECRET_FOR.days
        response = render_page(
            request, "admin/webhooks/endpoint/issued.html", title=title, opts=self.opts, original=endpoint,
            secret=secret, days=days, is_rotation=bool(endpoint.old_secret),
        )  # fmt: skip
        response["Cache-Control"] = "no-store"
        return response

    @row_view
    def rotate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show another secret, once."""
        endpoint = self.get_object(request, object_id)
        if not self.may_act(request, endpoint):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if endpoint is None:
            return HttpResponseRedirect(reverse("admin:webhooks_endpoint_changelist"))
        secret = rotate_secret(endpoint=endpoint, by=principal(request), now=clock())
        self.log_change(request, endpoint, "rotate")
        endpoint.refresh_from_db()
        return self._issued(request, endpoint, secret)

    @object_action()
    def test_view(self, request: HttpRequest, endpoint: Endpoint, change: Change) -> Done:
        order_test(endpoint=endpoint, by=change["by"], now=change["now"])
        return Done(_("A test is being sent. Reload the page in a few seconds for its answer."))

    @object_action()
    def enable_view(self, request: HttpRequest, endpoint: Endpoint, change: Change) -> Done:
        enable_endpoint(endpoint=endpoint, by=change["by"], now=change["now"])
        return Done(_("Deliveries continue where they stopped."))

    @object_action()
    def again_view(self, request: HttpRequest, endpoint: Endpoint, change: Change) -> Done:
        key = as_uuid(submitted_text(request, "delivery"))
        if key is None:
            raise Http404
        delivery = Delivery.objects.select_related("endpoint").filter(endpoint=endpoint, pk=key).first()
        if delivery is None:
            raise Http404
        order_again(delivery=delivery, by=change["by"], now=change["now"])
        return Done(_("The event is being sent again. Reload the page in a few seconds for its answer."))

    @admin.action(description=_("Delete the selected webhooks"), permissions=["remove"])
    def remove(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> HttpResponse | None:
        ids = selected_ids(queryset)
        endpoints = list(Endpoint.objects.filter(pk__in=ids))
        question = Confirmation(
            title=_("Delete webhooks"),
            sentences=[DELETED_FOR_GOOD % {"count": len(endpoints)}],
            examples=[excerpt(endpoint.url) for endpoint in endpoints],
            button=_("Delete"),
            is_danger=True,
        )
        if page := confirmation_page(self, request, question, action="remove", keys=ids):
            return page
        change = submitted_change(request)
        for endpoint in endpoints:
            self.log_change(request, endpoint, "remove")
            delete_endpoint(endpoint=endpoint, by=change["by"], now=change["now"])
        count = len(endpoints)
        text = ngettext("%(count)d webhook was deleted.", "%(count)d webhooks were deleted.", count) % {"count": count}
        self.message_user(request, text, messages.SUCCESS)
        return None

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        deliveries = list(row.deliveries.order_by("-at", "-id")[:MAX_DELIVERIES])
        for delivery in deliveries:
            delivery.kind_label = KIND_LABELS.get(delivery.kind, delivery.kind)
            delivery.answer = delivery.status or ERROR_LABELS.get(delivery.error, delivery.error)
        return {
            "may_act": self.may_act(request, row),
            "may_remove": self.has_remove_permission(request),
            "needs_enabling": row.state == DISABLED or row.failures > 0,
            "deliveries": deliveries,
            "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME,
        }

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        context.update(show_save_and_continue=False, show_save_and_add_another=False)
        return super().render_change_form(request, context, *args, **kwargs)
