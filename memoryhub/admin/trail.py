"""The audit trail in words: what a verb and a kind of row are called, and which screen shows the row."""

from collections.abc import Mapping
from typing import Any, Final

from django.contrib import admin
from django.db.models import Model
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import excerpt
from memoryhub.auth.domain import PrincipalKind

WHO: Final[Mapping[str, Any]] = {
    PrincipalKind.KEY: _("API key"),
    PrincipalKind.CURATOR: _("person"),
    PrincipalKind.JOB: _("job"),
    PrincipalKind.COMMAND: _("command"),
}
"""What kind of hand it was; every screen says it with these words."""

VERBS: Final[Mapping[str, Any]] = {
    "append": _("added to"),
    "approve": _("approved"),
    "archive": _("archived"),
    "believe": _("believed"),
    "cancel": _("taken out of the queue"),
    "compaction": _("compacted"),
    "confirm": _("confirmed"),
    "correct": _("put right"),
    "create": _("made"),
    "delete": _("deleted"),
    "dismiss": _("dismissed"),
    "doubt": _("doubted"),
    "edit": _("edited"),
    "end": _("ended"),
    "erase": _("erased"),
    "export": _("exported"),
    "impact": _("given an impact"),
    "import": _("imported"),
    "issue": _("issued"),
    "keep": _("stored"),
    "lift": _("lifted"),
    "lock": _("locked"),
    "merge": _("merged"),
    "open": _("opened"),
    "order": _("ordered"),
    "pin": _("pinned"),
    "reactivate": _("reactivated"),
    "reject": _("rejected"),
    "reopen": _("reopened"),
    "restore": _("restored"),
    "retry": _("sent back"),
    "return": _("returned"),
    "revoke": _("revoked"),
    "sleep": _("put to sleep"),
    "supersede": _("superseded"),
    "sync": _("taken from a file"),
    "uncorrect": _("correction taken back"),
    "undo": _("undone"),
    "unlock": _("unlocked"),
    "unmerge": _("parted again"),
    "unpin": _("unpinned"),
    "update": _("changed"),
    "use": _("used"),
    "write": _("written"),
}

# The kinds whose name is not that of the model behind them.
MODELS: Final[Mapping[str, str]] = {"person": "user", "routing": "routingdecision", "compaction": "document"}


def who_did_it(name: str, kind: str) -> str:
    """Return who did it, with what kind of hand that was; the name alone is somebody's data."""
    return format_html("{} ({})", excerpt(name, 60), WHO.get(kind, kind))


def verb_in_words(verb: str) -> Any:
    """Return what was done, in words; the verb itself where it has none."""
    return VERBS.get(verb, verb.replace("_", " "))


def model_of(kind: str) -> type[Model] | None:
    """Return the model that a kind of row stands for, where it has a screen."""
    name = MODELS.get(kind, kind.replace("_", ""))
    return next((model for model in admin.site._registry if model._meta.model_name == name), None)


def kind_in_words(kind: str) -> str:
    """Return what a kind of row is called."""
    model = model_of(kind)
    return str(model._meta.verbose_name) if model is not None else kind.replace("_", " ")


def deed(verb: str, kind: str) -> str:
    """Return what was done to what, in a few words."""
    return capfirst(
        gettext("%(thing)s %(done)s") % {"thing": kind_in_words(kind), "done": verb_in_words(verb)}
    )
