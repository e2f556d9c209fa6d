"""Translated names of models, fields and choices, and the labels of the audit trail.

Models name their fields in English, as the API does; where a page shows such a name it is looked up in the catalogue.
"""

from collections.abc import Mapping
from typing import Any, Final

from django.apps import apps
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.utils import translation
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import excerpt
from memoryhub.auth.domain import PrincipalKind

OURS = ("memoryhub", "conversations", "summaries", "strength")


def label_models() -> None:
    """Make the names that pages show of our models look themselves up; called once, when all models are loaded.

    Migrations are made from what a field was declared with (`Field.deconstruct` reads `_verbose_name`; options are read
    from `original_attrs`; a lazy choice equals its English text), so none follows from this.
    """
    with translation.override(None):  # Django makes plurals of what a model was declared with, lazily
        for config in map(apps.get_app_config, OURS):
            config.verbose_name = _looked_up(config.verbose_name)
            for model in config.get_models():
                _label(model._meta)


def _label(options: Any) -> None:
    options.verbose_name = _looked_up(options.verbose_name)
    options.verbose_name_plural = _looked_up(options.verbose_name_plural)
    for field in options.local_fields:
        field.verbose_name = _looked_up(field.verbose_name)
        field.help_text = _looked_up(field.help_text)
        if field.choices:
            field.choices = [(value, _looked_up(label)) for value, label in field.flatchoices]


def _looked_up(text: Any) -> Any:
    return _(str(text)) if text else text


PRINCIPAL_KINDS: Final[Mapping[str, Any]] = {
    PrincipalKind.KEY: _("API key"),
    PrincipalKind.CURATOR: _("person"),
    PrincipalKind.JOB: _("job"),
    PrincipalKind.COMMAND: _("command"),
}
"""What kind of hand it was; every screen says it with these words."""

VERBS: Final[Mapping[str, Any]] = {
    "accept": _("accepted"),
    "append": _("added to"),
    "approve": _("approved"),
    "archive": _("archived"),
    "believe": _("trusted"),
    "cancel": _("taken out of the queue"),
    "compaction": _("compacted"),
    "confirm": _("confirmed"),
    "correct": _("corrected"),
    "create": _("created"),
    "delete": _("deleted"),
    "dismiss": _("dismissed"),
    "doubt": _("marked as untrusted"),
    "edit": _("edited"),
    "end": _("ended"),
    "erase": _("erased"),
    "export": _("exported"),
    "impact": _("impact recorded"),
    "import": _("imported"),
    "issue": _("issued"),
    "keep": _("stored"),
    "lift": _("lifted"),
    "lock": _("locked"),
    "merge": _("merged"),
    "move": _("moved"),
    "open": _("opened"),
    "order": _("ordered"),
    "pin": _("pinned"),
    "preview": _("previewed"),
    "reactivate": _("reactivated"),
    "reject": _("rejected"),
    "reopen": _("reopened"),
    "restore": _("restored"),
    "retry": _("retried"),
    "return": _("returned"),
    "revoke": _("revoked"),
    "sleep": _("sleep run started"),
    "supersede": _("superseded"),
    "sync": _("taken from a file"),
    "uncorrect": _("correction undone"),
    "undo": _("undone"),
    "unlock": _("unlocked"),
    "unmerge": _("unmerged"),
    "unpin": _("unpinned"),
    "update": _("changed"),
    "use": _("used"),
    "write": _("written"),
}

WITHOUT_PAGE: Final[Mapping[str, Any]] = {
    "reviewinstructions": _("instructions for reviewers"),
    "savedview": _("saved view"),
}
"""Kinds of rows that have no page of their own."""

# The kinds whose name is not that of the model behind them.
MODELS: Final[Mapping[str, str]] = {"person": "user", "routing": "routingdecision", "compaction": "document"}


def principal_label(name: str, kind: str) -> str:
    """Return who acted, with the kind of principal: the name alone is user data."""
    return format_html("{} ({})", excerpt(name, 60), PRINCIPAL_KINDS.get(kind, kind))


def verb_label(verb: str) -> Any:
    return VERBS.get(verb, verb.replace("_", " "))


def model_of(kind: str) -> type[Model] | None:
    name = MODELS.get(kind, kind.replace("_", ""))
    return next((model for model in admin.site._registry if model._meta.model_name == name), None)


def key_in(model: type[Model], text: object) -> Any:
    """Return the key of a model's row that an audit entry names; None where it names none: many rows, or no row."""
    try:
        return model._meta.pk.to_python(text)
    except ValidationError:
        return None


def kind_label(kind: str) -> str:
    model = model_of(kind)
    if model is not None:
        return str(model._meta.verbose_name)
    return str(WITHOUT_PAGE.get(kind, kind.replace("_", " ")))


def audit_title(verb: str, kind: str) -> str:
    return capfirst(gettext("%(thing)s %(done)s") % {"thing": kind_label(kind), "done": verb_label(verb)})
