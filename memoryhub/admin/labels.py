"""Translated labels of models, fields, choices, jobs, operations, outcomes, and audit entries.

Models name their fields in English, as the API does; pages translate these names.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from django.apps import apps
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.utils import translation
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.columns import id_chip
from memoryhub.auth.principals import PrincipalKind
from memoryhub.llm.usage.caps import OK
from memoryhub.unfold import in_brackets

APP_LABELS = ("memoryhub", "conversations", "summaries", "strength", "webhooks")


def label_models() -> None:
    """Replace names and choices of our models by lazy translations; called once, when all models are loaded.

    Migrations are made from what a field was declared with (`Field.deconstruct` reads `_verbose_name`; options are read
    from `original_attrs`; a lazy choice equals its English text), so none follows from this.
    """
    with translation.override(None):  # Django derives the lazy plural from the declared name
        for config in map(apps.get_app_config, APP_LABELS):
            config.verbose_name = _translated(config.verbose_name)
            for model in config.get_models():
                _label(model._meta)


def _label(options: Any) -> None:
    options.verbose_name = _translated(options.verbose_name)
    options.verbose_name_plural = _translated(options.verbose_name_plural)
    for field in options.local_fields:
        field.verbose_name = _translated(field.verbose_name)
        field.help_text = _translated(field.help_text)
        if field.choices:
            field.choices = [(value, _translated(label)) for value, label in field.flatchoices]


def _translated(text: Any) -> Any:
    return _(str(text)) if text else text


PRINCIPAL_KINDS: Final[Mapping[str, Any]] = {
    PrincipalKind.KEY: _("API key"),
    PrincipalKind.CURATOR: _("person"),
    PrincipalKind.JOB: _("job"),
    PrincipalKind.COMMAND: _("command"),
}

VERBS: Final[Mapping[str, Any]] = {
    "accept": pgettext_lazy("done", "accepted"),
    "append": pgettext_lazy("done", "added to"),
    "approve": pgettext_lazy("done", "approved"),
    "approve_first": pgettext_lazy("done", "approved by the first of two"),
    "ask_to_forget": pgettext_lazy("done", "to be forgotten, as the user asked"),
    "archive": pgettext_lazy("done", "archived"),
    "assign": pgettext_lazy("done", "assigned"),
    "believe": pgettext_lazy("done", "trusted"),
    "cancel": pgettext_lazy("done", "taken out of the queue"),
    "compaction": pgettext_lazy("done", "compacted"),
    "confirm": pgettext_lazy("done", "confirmed"),
    "correct": pgettext_lazy("done", "corrected"),
    "create": pgettext_lazy("done", "created"),
    "delete": pgettext_lazy("done", "deleted"),
    "dismiss": pgettext_lazy("done", "dismissed"),
    "doubt": pgettext_lazy("done", "marked as untrusted"),
    "edit": pgettext_lazy("done", "edited"),
    "end": pgettext_lazy("done", "ended"),
    "erase": pgettext_lazy("done", "erased"),
    "export": pgettext_lazy("done", "exported"),
    "impact": pgettext_lazy("done", "impact recorded"),
    "import": pgettext_lazy("done", "imported"),
    "issue": pgettext_lazy("done", "issued"),
    "keep": pgettext_lazy("done", "stored"),
    "leave": pgettext_lazy("done", "left to the next sleep run"),
    "lift": pgettext_lazy("done", "lifted"),
    "lock": pgettext_lazy("done", "locked"),
    "lose_source": pgettext_lazy("done", "lost a source"),
    "mail": pgettext_lazy("done", "mailed"),
    "merge": pgettext_lazy("done", "merged"),
    "move": pgettext_lazy("done", "moved"),
    "open": pgettext_lazy("done", "opened"),
    "order": pgettext_lazy("done", "ordered"),
    "pause": pgettext_lazy("done", "paused"),
    "pin": pgettext_lazy("done", "pinned"),
    "preview": pgettext_lazy("done", "previewed"),
    "reactivate": pgettext_lazy("done", "reactivated"),
    "redact": pgettext_lazy("done", "secrets removed from"),
    "reject": pgettext_lazy("done", "rejected"),
    "relabel": pgettext_lazy("done", "tags, kind or namespace changed"),
    "reopen": pgettext_lazy("done", "reopened"),
    "restore": pgettext_lazy("done", "restored"),
    "resume": pgettext_lazy("done", "resumed"),
    "retry": pgettext_lazy("done", "retried"),
    "return": pgettext_lazy("done", "returned"),
    "revoke": pgettext_lazy("done", "revoked"),
    "rotate": pgettext_lazy("done", "secret renewed"),
    "sleep": pgettext_lazy("done", "started"),
    "snooze": pgettext_lazy("done", "put off"),
    "supersede": pgettext_lazy("done", "superseded"),
    "sync": pgettext_lazy("done", "taken from a file"),
    "uncorrect": pgettext_lazy("done", "correction undone"),
    "undo": pgettext_lazy("done", "undone"),
    "unlock": pgettext_lazy("done", "unlocked"),
    "unmerge": pgettext_lazy("done", "unmerged"),
    "unpin": pgettext_lazy("done", "unpinned"),
    "update": pgettext_lazy("done", "changed"),
    "use": pgettext_lazy("done", "used"),
    "write": pgettext_lazy("done", "written"),
}

KINDS_WITHOUT_PAGE: Final[Mapping[str, Any]] = {
    "reviewcomment": _("comment"),
    "reviewinstructions": _("instructions for reviewers"),
    "savedview": _("saved view"),
    "memories": _("memories"),
    "projects": _("projects"),
}
"""Kinds of rows that have no page of their own."""

# Kinds that are not named after their model.
MODEL_NAMES: Final[Mapping[str, str]] = {"person": "user", "routing": "routingdecision", "compaction": "document"}


def principal_name(name: str, kind: str) -> str:
    """Return a principal's name; jobs are named by their label."""
    return str(JOBS.get(name, name)) if kind == PrincipalKind.JOB else name


def principal_label(name: str, kind: str) -> str:
    """Return a principal's name and kind; the name alone may be any text."""
    return format_html("{}{}", id_chip(principal_name(name, kind)), in_brackets(PRINCIPAL_KINDS.get(kind, kind)))


def verb_label(verb: str) -> Any:
    return VERBS.get(verb, verb.replace("_", " "))


def model_of(kind: str) -> type[Model] | None:
    name = MODEL_NAMES.get(kind, kind.replace("_", ""))
    models = filter(admin.site.is_registered, apps.get_models())
    return next((model for model in models if model._meta.model_name == name), None)


def row_labels(request: Any, objects: Iterable[tuple[type[Model], object]]) -> dict[tuple[type[Model], str], str]:
    """Return the labels of rows by model and key, read by one statement for each model that the user may see.

    Missing rows are left out.
    """
    keys_by_model: dict[type[Model], set[Any]] = {}
    for model, key in objects:
        with suppress(ValidationError):  # an audit entry's object id need not be a primary key
            keys_by_model.setdefault(model, set()).add(model._meta.pk.to_python(key))
    labels: dict[tuple[type[Model], str], str] = {}
    for model, keys in keys_by_model.items():
        screen: Any = admin.site.get_model_admin(model)
        keys -= {None}
        if keys and screen.has_view_permission(request):
            labels |= {
                (model, str(row.pk)): screen.label_of(row) for row in screen.get_queryset(request).filter(pk__in=keys)
            }
    return labels


def kind_label(kind: str) -> str:
    model = model_of(kind)
    if model is not None:
        return str(model._meta.verbose_name)
    return str(KINDS_WITHOUT_PAGE.get(kind, kind.replace("_", " ")))


def audit_title(verb: str, kind: str, details: Mapping[str, Any] | None = None) -> str:
    """Return what was done, as a title; of a session of which messages alone were deleted, that it still is there."""
    if (kind, verb) == ("session", "delete") and details and details.get("whole") is False:
        return gettext("Messages of a session deleted")
    return capfirst(gettext("%(thing)s %(done)s") % {"thing": kind_label(kind), "done": verb_label(verb)})


JOBS: Final[Mapping[str, Any]] = {
    "apply_retention": _("Delete what is past its retention"),
    "calibrate_tokens": _("Calibrate token counts"),
    "check_expectations": _("Check expectations about contexts"),
    "cluster_tables": _("Store each actor’s texts together"),
    "compact": _("Shorten a document"),
    "count_terms": _("Count each actor’s frequent words"),
    "curate_memories": _("Change a large selection of memories"),
    "deliver_slow_webhook": _("Deliver events to a slow webhook"),
    "deliver_webhook": _("Deliver events to a webhook"),
    "embed": _("Embed an actor’s texts"),
    "embed_missing": _("Find texts without a vector"),
    "end_idle_sessions": _("End idle sessions"),
    "extract": _("Extract memories from a session"),
    "forget_old_calls": _("Delete old calls"),
    "forget_old_deliveries": _("Delete old deliveries of webhooks"),
    "forget_old_jobs": _("Delete old jobs"),
    "forget_old_receipts": _("Delete old receipts"),
    "forget_old_sessions": _("Delete expired logins"),
    "forget_old_uploads": _("Delete uploaded files that were not imported"),
    "forget_old_uses": _("Delete old reports of use"),
    "forget_session": _("Delete a long session"),
    "clear_excerpts": _("Clear deleted texts in receipts once more"),
    "hold_forgotten": _("Let memories wait that a user asked to be forgotten"),
    "import_file": _("Import a file"),
    "note_use": _("Record which memories an answer used"),
    "purge_projects": _("Delete projects permanently after a month"),
    "reflect": _("Extract reflections from episodes"),
    "remember_summary": _("Remember a session’s summary"),
    "send_webhook": _("Send a test, or an event again"),
    "sleep": _("Run an actor’s sleep"),
    "sleep_due": _("Start the nightly sleep"),
    "summarize": _("Summarise a session"),
    "summarize_due": _("Find sessions to summarise"),
    "update_project": _("Update the documents of projects"),
    "write_cues": _("Write the cues of new memories"),
    "write_cues_due": _("Find memories without cues"),
    "write_profile": _("Write the profile of a user"),
    "write_profiles_due": _("Find profiles to write"),
    "vacuum": _("Clean up the database after an erasure"),
}
OPERATIONS: Final[Mapping[str, Any]] = {
    "calibrate": _("Calibration of an embedder"),
    "chat": _("Chat"),
    "compact": _("Shorten a document"),
    "embed": _("Embedding"),
    "embed_query": _("Embedding of a question"),
    "extract": _("Extraction"),
    "judge": _("Comparison of memories"),
    "route": _("Routing"),
    "summarize": _("Summary"),
}
OUTCOMES: Final[Mapping[str, Any]] = {
    OK: _("successful"),
    "connection": _("not reached"),
    "not_configured": _("no model configured"),
    "not_found": _("unknown model or address"),
    "overloaded": _("overloaded"),
    "quota": _("quota of the account exhausted"),
    "rate_limited": _("too many calls"),
    "refused": _("refused by the model"),
    "rejected": _("request refused"),
    "spend_cap": _("cap reached"),
    "timeout": _("answer timed out"),
    "too_large": _("text too long"),
    "truncated": _("answer cut off"),
    "unauthorized": _("key refused"),
}
"""Labels of call outcomes; other codes are shown as they are."""
PROVIDERS: Final[Mapping[str, Any]] = {
    "none": _("none configured"),
    "hashing": _("built in (compares spellings)"),
    "anthropic": "Anthropic",
    "openai": "OpenAI",
    "demo": _("demo data"),
}


SCOPES: Final[Mapping[str, Any]] = {
    "read": pgettext_lazy("scope", "read"),
    "write": pgettext_lazy("scope", "write"),
    "curate": pgettext_lazy("scope", "curate"),
    "admin": pgettext_lazy("scope", "admin"),
}


TRUSTS: Final[Mapping[str, Any]] = {"trusted": _("trusted"), "untrusted": _("not trusted")}
TRUST_COLOURS: Final = {"trusted": "success", "untrusted": "warning"}


def job_label(kind: str) -> Any:
    return JOBS.get(kind, kind)
