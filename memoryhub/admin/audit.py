"""Screen of the audit trail."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import ReadOnlyAdmin, as_uuid, excerpt, link_to, title_with_time
from memoryhub.admin.columns import choice_filter, column, id_chip, owner_chips
from memoryhub.admin.labels import VERBS, audit_title, kind_label, model_of, principal_label, row_labels
from memoryhub.admin.stored_texts import translated
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import PrincipalKind

MAX_PEOPLE = 200


PersonFilter = choice_filter(
    _("person"),
    "person",
    lambda: [
        (str(pk), name) for pk, name in User.objects.order_by("username").values_list("pk", "username")[:MAX_PEOPLE]
    ],
    lambda rows, person: rows.filter(who_kind=PrincipalKind.CURATOR, who_id=person) if person else rows,
)

OBJECT_KINDS: Final = (
    "actor", "agent", "api_key", "compaction", "document", "expectation", "group", "import", "invitation", "job",
    "memories", "memory", "merge", "person", "profile", "project", "projects", "receipt", "reviewinstructions",
    "routing", "savedview", "session", "sleep_run", "summary", "task", "tombstone",
)  # fmt: skip
"""Kinds of rows in the audit trail."""


VerbFilter = choice_filter(
    _("verb"), "verb", lambda: sorted(((verb, str(label)) for verb, label in VERBS.items()), key=itemgetter(1))
)
KindFilter = choice_filter(
    _("kind of row"),
    "object_kind",
    lambda: sorted(((kind, kind_label(kind)) for kind in OBJECT_KINDS), key=itemgetter(1)),
)

DETAIL_LABELS: Final[Mapping[str, Any]] = {
    "address": _("address"),
    "anonymised": _("anonymised"),
    "batch": _("selection"),
    "decision_id": _("routing decision"),
    "document_id": _("document"),
    "document_ids": _("documents"),
    "ended": _("ended"),
    "entries": _("entries"),
    "erased": _("erased"),
    "event": _("event"),
    "event_id": _("event"),
    "failures": _("wrong passwords"),
    "fields": _("fields"),
    "form": _("file format"),
    "format": _("file format"),
    "into": _("merged into"),
    "made": _("created"),
    "memories": _("memories"),
    "missing": _("missing"),
    "order": _("selection"),
    "prefix": _("prefix"),
    "projects": _("projects"),
    "tables": _("tables"),
    "verb": _("verb"),
    "version": _("version"),
}
"""Labels of an entry's details; others are shown as stored."""


def details_of(details: Mapping[str, Any]) -> str:
    """Return an entry's details as lines of a name and its value."""
    lines = [
        (DETAIL_LABELS.get(name, name.replace("_", " ")), _detail(value))
        for name, value in sorted(details.items())
        if value not in (None, "", [], {})
    ]
    return format_html_join("", "<div>{}: <code>{}</code></div>", lines) or "-"


def _detail(value: Any) -> Any:
    """Format a detail; counts by table are labelled by the model's name."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        names = {model._meta.db_table: str(model._meta.verbose_name_plural) for model in apps.get_models()}
        counted = sorted((names.get(table, table), count) for table, count in value.items())
        return ", ".join(f"{name} {count}" for name, count in counted)
    return value


@admin.register(AuditEntry)
class AuditAdmin(ReadOnlyAdmin):
    list_display = ("at", "who", "event", "shown_object", "owner", "shown_reason")
    list_filter = (PersonFilter, "at", "who_kind", VerbFilter, KindFilter, "agent_id", "user_id")
    search_fields = ("object_id", "who_name", "verb", "reason")
    search_help_text = _("A name, an action, a kind of row, words of a reason, or the id of a row.")
    id_fields = ("pk", "object_id")
    fields = (
        ("at", "event"),
        ("who", "who_kind", "who_id"),
        ("shown_object", "object_id"),
        ("agent_id", "user_id"),
        "reason",
        "details_in_words",
        ("stored_verb", "stored_kind"),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search verbs and kinds by their labels too."""
        if as_uuid(search_term) is not None:
            return super().get_search_results(request, queryset, search_term)
        for word in search_term.casefold().split():
            condition = Q(verb__in=[verb for verb, label in VERBS.items() if word in str(label).casefold()])
            condition |= Q(object_kind__in=[kind for kind in OBJECT_KINDS if word in kind_label(kind).casefold()])
            for name in self.search_fields:
                condition |= Q((f"{name}__icontains", word))
            queryset = queryset.filter(condition)
        return queryset, False

    def prepare_rows(self, request: HttpRequest, rows: Sequence[AuditEntry]) -> None:
        models = {entry.pk: model_of(entry.object_kind) for entry in rows}
        labels = row_labels(request, ((model, entry.object_id) for entry in rows if (model := models[entry.pk])))
        for entry in rows:
            entry.row_words = labels.get((models[entry.pk], entry.object_id))  # type: ignore[attr-defined, arg-type]

    def title_of(self, row: AuditEntry) -> str:
        return title_with_time(audit_title(row.verb, row.object_kind, row.details), row.at)

    @admin.display(description=_("who"), ordering="who_name")
    def who(self, entry: AuditEntry) -> str:
        if entry.who_kind == PrincipalKind.CURATOR:
            return id_chip(entry.who_name)
        return principal_label(entry.who_name, entry.who_kind)

    event = column(_("what"), lambda entry: audit_title(entry.verb, entry.object_kind, entry.details), ordering="verb")
    stored_verb = column(_("verb"), lambda entry: format_html("<code>{}</code>", entry.verb))
    stored_kind = column(_("object kind"), lambda entry: format_html("<code>{}</code>", entry.object_kind))

    @admin.display(description=_("row"))
    def shown_object(self, entry: AuditEntry) -> Any:
        if not entry.object_id:
            return "-"
        model, words = model_of(entry.object_kind), getattr(entry, "row_words", None)
        text = excerpt(words or entry.object_id, 60 if words else 40)
        if model is None:
            return text
        return link_to(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", entry.object_id, text)

    @admin.display(description=_("agent and user"))
    def owner(self, entry: AuditEntry) -> Any:
        return owner_chips(entry.agent_id, entry.user_id) if entry.agent_id or entry.user_id else "-"

    shown_reason = column(_("reason"), lambda entry: excerpt(translated(entry.reason)) if entry.reason else "-")
    details_in_words = column(_("details"), lambda entry: details_of(entry.details))
