"""Base classes of all admin screens: bounded lists, forms that call actions, list filters, pages without a model.

An action's validation error is shown at its field, and the form keeps what was typed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import unfold.fields
from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db.models import DateTimeField, F, Model, Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils import timezone, translation
from django.utils.formats import date_format, number_format
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminSplitDateTimeWidget

from memoryhub.admin.columns import column, list_column, list_filter, owner_chips, text_cell
from memoryhub.admin.fields import DayTimeField
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.principals import Principal, curator
from memoryhub.db import reach
from memoryhub.errors import DomainError
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import PolicyError
from memoryhub.unfold import PAGES, SCREENS, Page

EXCERPT_LENGTH = 120
EXCERPT_SOURCE_LENGTH = 400
MAX_LISTED = 1_000_000
MAX_SELECTED = 1000


def principal(request: HttpRequest) -> Principal:
    return curator(request.user.pk, request.user.get_username(), reach.agents())


def clock() -> datetime:
    """Return the current time; actions take it as an argument."""
    return timezone.now()


def form_errors(error: DomainError | PolicyError) -> list[tuple[str, Any]]:
    """Return an action's error as pairs of form field and message."""
    if isinstance(error, VersionMismatch):
        # The form keeps the typed values; saving again replaces the other person's change.
        problem = _(
            "This was changed while you edited it. Your text is still here, but not saved: reload the page to see the "
            "other change, or save again to replace it."
        )
        return [("", problem)]
    if isinstance(error, DomainError):
        return [(error.field, str(error))]
    if "agent_id" in error.errors:
        return [("agent_id", str(error))]
    return [("policy", f"{key}: {problem}") for key, problem in error.errors.items()]


class ActionForm(forms.ModelForm):
    """A form that passes its values to an action and shows the action's validation errors."""

    action_error: DomainError | PolicyError | None = None
    # The user who submits the form; an anonymous one has no permissions.
    person: Any = AnonymousUser()
    # Fields without model validation, because the form represents them differently; None: all (the action validates).
    unvalidated_fields: frozenset[str] | None = None

    def __init__(self, data: Any = None, *args: Any, **kwargs: Any) -> None:
        if data is not None and isinstance(self.action_error, VersionMismatch):
            data = data.copy()
            data["expected_version"] = self.action_error.current
        super().__init__(data, *args, **kwargs)

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        for field, problem in form_errors(self.action_error) if self.action_error else ():
            self.add_error(field if field in self.fields else None, problem)
        return values

    def _get_validation_exclusions(self) -> set[str]:
        excluded: set[str] = super()._get_validation_exclusions()  # type: ignore[misc]
        all_fields = {field.name for field in self.instance._meta.fields}
        return excluded | (all_fields if self.unvalidated_fields is None else self.unvalidated_fields)

    def changed_values(self, names: frozenset[str]) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in self.changed_data if name in names}


def untranslated() -> AbstractContextManager[None]:
    """Deactivate translation; stored texts must not depend on the user's language."""
    return translation.override(None)


def indented_json(data: Any, encoder: Any) -> SafeString:
    """Return JSON as preformatted text; unfold's highlighting uses inline styles, which the CSP blocks."""
    text = json.dumps(data, sort_keys=True, indent=4, cls=encoder, ensure_ascii=False)
    return format_html('<pre class="hub-text">{}</pre>', text)


unfold.fields.prettify_json = indented_json


class CappedPaginator(Paginator):
    """Counts at most MAX_LISTED rows; filters find the others."""

    @cached_property
    def count(self) -> int:
        rows = self.object_list
        if isinstance(rows, QuerySet):
            return int(rows.order_by()[:MAX_LISTED].count())
        return min(len(rows), MAX_LISTED)


class HubAdmin(ModelAdmin):
    """Base of all screens: bounded lists, and a search by id or words."""

    formfield_overrides: Mapping[Any, Any] = {
        DateTimeField: {"form_class": DayTimeField, "widget": UnfoldAdminSplitDateTimeWidget}
    }
    list_per_page = 50
    list_max_show_all = 200
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_filter_submit = True
    list_fullwidth = True
    paginator = CappedPaginator
    id_fields: Sequence[str] = ("pk",)
    long_text: str | None = None
    list_deferred: Sequence[str] = ()
    empty_hint: Any = ""
    """What fills the list, shown where it is empty without a search or filter."""
    empty_query: str = ""
    """Query string that also shows the rows which the list hides by default."""
    allows: frozenset[str] = frozenset({"add", "change", "delete"})
    """Operations that the screen offers; users also need the permission."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return "add" in self.allows and bool(super().has_add_permission(request))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return "change" in self.allows and bool(super().has_change_permission(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return "delete" in self.allows and bool(super().has_delete_permission(request, obj))

    def may_act(self, request: HttpRequest, row: Any) -> bool:
        return self.has_change_permission(request, row)

    def get_urls(self) -> list[URLPattern]:
        """Return the screen's URLs, behind those of the rows' own pages and actions (`object_actions.row_page`)."""
        model, urls = f"{self.opts.app_label}_{self.opts.model_name}", []
        for attribute in dir(type(self)):
            if attribute.endswith("_view") and hasattr(view := getattr(self, attribute), "is_row_view"):
                name = attribute.removesuffix("_view")
                address = f"<path:object_id>/{name.replace('_', '-')}/"
                urls.append(path(address, self.admin_site.admin_view(view), name=f"{model}_{name}"))
        return [*urls, *super().get_urls()]

    def view_row(self, request: HttpRequest, object_id: str, view: Callable[[Any], HttpResponse]) -> HttpResponse:
        """Call a view with a row; 403 without permission to see it, a redirect to the list where it is gone."""
        row = self.get_object(request, object_id)
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        if row is None:
            return cast(HttpResponse, self._get_obj_does_not_exist_redirect(request, self.opts, object_id))
        return view(row)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        match = request.resolver_match
        if self.list_deferred and match is not None and (match.url_name or "").endswith("_changelist"):
            rows = rows.defer(*self.list_deferred)
        if self.long_text is not None:
            rows = rows.defer(self.long_text).annotate(opening=Left(F(self.long_text), EXCERPT_SOURCE_LENGTH))
        return rows

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        return [list_column(self.model, name) for name in super().get_list_display(request)]

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        return [list_filter(self.model, name) for name in super().get_list_filter(request)]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        title, _icon = SCREENS[f"{self.opts.app_label}_{self.opts.model_name}"]
        response = super().changelist_view(request, {"title": title, **(extra_context or {})})
        context = getattr(response, "context_data", None) or {}
        if (changelist := context.get("cl")) is not None:
            changelist.result_list = list(changelist.result_list)
            self.prepare_rows(request, changelist.result_list)
            changelist.shown_count = shown_count(changelist.result_count)
            text = ngettext("%(count)s selected", "All %(count)s selected", changelist.result_count)
            context["selection_note_all"] = text % {"count": changelist.shown_count}
        return response

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search ids by the indexed id fields only, anything else by text."""
        key = as_uuid(search_term)
        if key is None:
            result = super().get_search_results(request, queryset, search_term)
            return cast(tuple[QuerySet[Any], bool], result)
        condition = Q.create([(name, key) for name in self.id_fields], connector=Q.OR)
        return queryset.filter(condition), False

    def response_action(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Run a list action; an invalid id gives a message instead of an error page."""
        try:  # outside the action, so that its errors are not mistaken for these
            queryset.filter(pk__in=request.POST.getlist(helpers.ACTION_CHECKBOX_NAME))
        except (ValidationError, ValueError):
            self.message_user(request, _("One of the selected rows does not exist."), messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
        return cast(HttpResponse | None, super().response_action(request, queryset))

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        with untranslated():
            return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        with untranslated():
            return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        with untranslated():
            return super().log_deletions(request, queryset)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Check permission first; Django would reveal whether the row exists."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return cast(HttpResponse, super().history_view(request, object_id, extra_context))

    def prepare_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Hook: attach related data to the rows of a list or page, read by one statement."""

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {}

    def title_of(self, row: Any) -> Any:
        """Return a row's title as plain text; None: its `__str__`."""
        return None

    def label_of(self, row: Any) -> str:
        """Return a row's label: the beginning of its text, else its title."""
        text = getattr(row, "opening", None) if self.long_text else None
        return truncated(text, EXCERPT_SOURCE_LENGTH) if text else str(self.title_of(row) or row)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            row.page_title = self.title_of(row)
        return row

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if (obj := kwargs.get("obj")) is not None:
            context["subtitle"] = getattr(obj, "page_title", None) or context.get("subtitle")
            self.prepare_rows(request, [obj])
            context.update(self.context_of(request, obj))
        return super().render_change_form(request, context, *args, **kwargs)


class ReadOnlyAdmin(HubAdmin):
    """Base of read-only screens; Django then shows all `fields` as read-only ones."""

    allows = frozenset()


class ActionAdmin(HubAdmin):
    """Screens with forms that call actions, by `act`; the action's errors come back in the form."""

    add_form: type[ActionForm] | None = None

    class Media:
        js = ("memoryhub/unsaved.js",)

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Model:
        raise NotImplementedError

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.pk = self.act(request, obj, form, change).pk
        obj.refresh_from_db()

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> type[forms.ModelForm]:
        if obj is None and self.add_form is not None:
            kwargs["form"] = self.add_form
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.action_error, form.person = getattr(request, "action_error", None), request.user
        return form  # type: ignore[no-any-return]

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except (DomainError, PolicyError) as error:
            request.action_error = error  # type: ignore[attr-defined]
            return super().changeform_view(request, *args, **kwargs)


def excerpt(text: str | None, length: int = EXCERPT_LENGTH) -> str:
    """Return the beginning of a text on one line, with up to EXCERPT_SOURCE_LENGTH characters as tooltip."""
    line = " ".join((text or "")[:EXCERPT_SOURCE_LENGTH].split())
    if not line:
        return gettext("(no text)")
    whole = line if len(text or "") < EXCERPT_SOURCE_LENGTH else f"{line}…"
    return text_cell(line if len(line) <= length else f"{line[:length].rstrip()}…", whole)


def owner_label(actor: Actor) -> str:
    """Return the agent, and the user where there is one, that a row belongs to."""
    return owner_chips(actor.agent_id, actor.user_id)


def link_to(page: str, key: object, text: object) -> SafeString:
    """Return a link to an admin page; the text alone where there is no such page."""
    try:
        address = reverse(page, args=[key])
    except NoReverseMatch:
        return format_html("{}", text)
    return format_html('<a class="text-primary-600 dark:text-primary-500" href="{}">{}</a>', address, text)


class OwnedMixin:
    """Column with the agent and user that a row belongs to."""

    owner = column(_("owner"), lambda row: owner_label(row.actor), ordering="actor")


def as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text.strip())
    except ValueError:
        return None


MAX_TITLE_LENGTH = 80


def actor_title(actor: Actor) -> str:
    """Return the agent and user as plain text, isolated for bidirectional text."""
    if not actor.user_id:
        return actor.agent_id
    return f"{actor.agent_id} / \u2068{truncated(actor.user_id, 60)}\u2069"


def title_with_time(label: Any, at: datetime) -> str:
    """Return a title for a row without a name: what it is and when it was created."""
    return capfirst(gettext("%(what)s, %(time)s") % {"what": label, "time": short_time(at)})


def short_time(at: datetime) -> str:
    return date_format(timezone.localtime(at), "SHORT_DATETIME_FORMAT")


def truncated(text: str, length: int = MAX_TITLE_LENGTH) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length].rstrip()}…"


def format_count(number: int) -> str:
    return str(number_format(number, use_l10n=True, force_grouping=True))


def shown_count(count: int) -> str:
    """Return the number of a list's rows; a list counts to MAX_LISTED."""
    return format_count(count) if count < MAX_LISTED else gettext("%(count)s or more") % {"count": format_count(count)}


def page_urls() -> list[URLPattern]:
    """Return the URLs of all pages; people who lack one of a page's permissions get 403."""

    def guarded(page: Page) -> Callable[..., HttpResponseBase]:
        def view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not cast(Any, request.user).has_perms(page.needs):
                raise PermissionDenied
            return page.view(request, *args, **kwargs)

        return view

    return [path(page.address, admin.site.admin_view(guarded(page)), name=page.name) for page in PAGES]


def render_page(request: HttpRequest, template: str, *, title: Any, **context: Any) -> HttpResponse:
    base_context = admin.site.each_context(request)
    return TemplateResponse(request, template, {**base_context, "title": title, **context})
