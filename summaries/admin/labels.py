"""Screen labels and colours of the domain's values."""

from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from memoryhub.tenancy.domain import Trust
from summaries.actions.compaction import ProtectionReason
from summaries.domain.compaction import Outcome
from summaries.domain.documents import DocumentKind
from summaries.domain.projects import EventKind
from summaries.domain.routing import Action, Confidence
from summaries.domain.summaries import Generator, Verb

Words = Mapping[Any, Any]

TRUSTS: Final[Words] = {Trust.TRUSTED: _("trusted"), Trust.UNTRUSTED: _("not trusted")}
DOCUMENT_KINDS: Final[Words] = {
    DocumentKind.CREATE: _("created"),
    DocumentKind.EDIT: _("edited"),
    DocumentKind.APPEND: _("an entry was added"),
    DocumentKind.COMPACTION: _("compacted"),
    DocumentKind.RESTORE: _("restored"),
    DocumentKind.SYNC: _("taken from a file"),
}
SUMMARY_VERBS: Final[Words] = {
    Verb.WRITE: _("written"),
    Verb.EDIT: _("edited"),
    Verb.LOCK: _("locked"),
    Verb.UNLOCK: _("unlocked"),
    Verb.RESTORE: _("restored"),
}
GENERATORS: Final[Words] = {Generator.LLM: _("model"), Generator.EXTRACTIVE: _("extracted sentences")}
EVENTS: Final[Words] = {
    EventKind.READ: _("read"),
    EventKind.ROUTE: _("routed"),
    EventKind.CORRECT: _("corrected"),
    EventKind.UPDATE: _("updated"),
    EventKind.COMPACT: _("compaction"),
    EventKind.RESTORE: _("restored"),
    EventKind.SYNC: _("read from files"),
    EventKind.EXPORT: _("exported"),
    EventKind.CREATE: _("created"),
    EventKind.DELETE: _("deleted"),
}
OUTCOMES: Final[Words] = {
    DocumentKind.COMPACTION: _("rewritten shorter"),
    Outcome.DONE: _("rewritten shorter"),
    Outcome.NOT_NEEDED: _("not needed: it was short enough"),
    Outcome.NO_MODEL: _("waits: no language model is configured"),
    Outcome.TOO_MUCH_PROTECTED: _("refused: what is protected alone is too long; unpin or shorten it"),
    Outcome.REFUSED: _(
        "refused: the rewritten text lost what is protected, or was too long; nothing was changed"
    ),
}
EVENT_OUTCOMES: Final[Words] = {
    **DOCUMENT_KINDS,
    **OUTCOMES,
    Action.ROUTE: _("without asking"),
    Action.DISCLOSE: _("as a guess"),
    Action.ASK: _("to no project: the user was asked"),
    Action.PROPOSE: _("to no project: a new project was proposed"),
    "read": _("by a client"),
    "context": _("into a context"),
    "confirmed": _("confirmed by a person"),
    "corrected": _("by a person"),
    "taken_back": _("undone"),
    "changed": _("renamed or description changed"),
    "created": "",
    "exported": "",
    "deleted": "",
}
"""What an event's outcome adds to its kind."""

CONFIDENCES: Final[Words] = {
    Confidence.HIGH: _("high"),
    Confidence.MEDIUM: _("medium"),
    Confidence.LOW: _("low"),
}
CONFIDENCE_COLOURS: Final[Mapping[str, str]] = {"high": "success", "medium": "warning", "low": "danger"}
ACTIONS: Final[Words] = {
    Action.ROUTE: _("routed"),
    Action.DISCLOSE: _("routed, as a guess"),
    Action.ASK: _("the user was asked"),
    Action.PROPOSE: _("a new project was proposed"),
}
DISCLOSED: Final = _("routed, and the user was told")
"""Of a guess in a chat: only there the model is instructed to name the project."""
WHYS: Final[Words] = {
    ProtectionReason.WHOLE: _("this document is never rewritten"),
    ProtectionReason.PINNED: _("pinned"),
    ProtectionReason.DOUBTED: _("not trusted yet"),
    ProtectionReason.YOUNG: _("younger than seven days"),
    ProtectionReason.FRAME: _("title, description, or around what is protected"),
}
