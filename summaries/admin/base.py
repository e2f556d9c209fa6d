"""Labels of the summaries' screens, names of projects and files, and what a person may do."""

import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import truncated
from memoryhub.unfold import in_brackets
from summaries.actions.compaction import ProtectionReason
from summaries.domain.compaction import Outcome
from summaries.domain.documents import DocumentKind
from summaries.domain.projects import EventKind, ProjectStatus, is_generated_name
from summaries.domain.routing import Action, Confidence
from summaries.models import Project


def person_may(request: HttpRequest, codename: str) -> bool:
    user: Any = request.user
    return bool(user.has_perm(f"summaries.{codename}"))


FORBIDDEN_IN_FILE_NAMES = frozenset('/\\:*?"<>|')
"""Characters that some system forbids in file names."""


def shown_name(project: Project) -> str:
    """Return a project's name, with its description where the name is generated."""
    title = truncated(project.description)
    return project.name + in_brackets(title) if title and is_generated_name(project.name) else project.name


def file_name(name: str, topic: str) -> str:
    stem, dot, ending = name.rpartition(".")
    usable = (
        " " if character in FORBIDDEN_IN_FILE_NAMES or unicodedata.category(character).startswith("C") else character
        for character in topic
    )
    words = truncated("".join(usable))
    return f"{stem} {words}{dot}{ending}" if words and is_generated_name(stem) else name


Words = Mapping[Any, Any]

DOCUMENT_KINDS: Final[Words] = {
    DocumentKind.CREATE: _("created"),
    DocumentKind.EDIT: _("edited"),
    DocumentKind.APPEND: _("an entry was added"),
    DocumentKind.COMPACTION: _("compacted"),
    DocumentKind.RESTORE: _("restored"),
    DocumentKind.SYNC: _("taken from a file"),
    DocumentKind.MERGE: _("a project was merged into this one"),
    DocumentKind.MOVE: _("entries were moved"),
}
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
    EventKind.ARCHIVE: _("archived"),
    EventKind.REACTIVATE: _("reactivated"),
    EventKind.MERGE: _("merged"),
    EventKind.MOVE: _("entries moved"),
    EventKind.DELETE: _("deleted"),
    EventKind.UNDO: _("undone"),
}
OUTCOMES: Final[Words] = {
    DocumentKind.COMPACTION: _("rewritten shorter"),
    Outcome.DONE: _("rewritten shorter"),
    Outcome.NOT_NEEDED: _("not needed: it was short enough"),
    Outcome.NO_MODEL: _("waits: no language model is configured"),
    Outcome.TOO_MUCH_PROTECTED: _("refused: the protected parts alone are too long; unpin or shorten some"),
    Outcome.REFUSED: _("refused: the rewritten text lost protected parts, or was too long; nothing was changed"),
}
STATUSES: Final[Words] = {
    ProjectStatus.ACTIVE: _("active"),
    ProjectStatus.ARCHIVED: _("archived"),
    ProjectStatus.DELETED: _("deleted"),
}
STATUS_COLOURS: Final[Mapping[str, str]] = {"active": "success", "archived": "info", "deleted": "danger"}
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
"""Labels of event outcomes."""

CONFIDENCES: Final[Words] = {Confidence.HIGH: _("high"), Confidence.MEDIUM: _("medium"), Confidence.LOW: _("low")}
CONFIDENCE_COLOURS: Final[Mapping[str, str]] = {"high": "success", "medium": "warning", "low": "danger"}
ACTIONS: Final[Words] = {
    Action.ROUTE: _("routed"),
    Action.DISCLOSE: _("routed, as a guess"),
    Action.ASK: _("the user was asked"),
    Action.PROPOSE: _("a new project was proposed"),
}
DISCLOSED: Final = _("routed, and disclosed to the user")
"""Of a guess in a chat: only there the model is instructed to name the project."""
PROTECTION_REASONS: Final[Words] = {
    ProtectionReason.WHOLE: _("this document is never rewritten"),
    ProtectionReason.PINNED: _("pinned"),
    ProtectionReason.DOUBTED: _("not trusted yet"),
    ProtectionReason.YOUNG: _("younger than seven days"),
    ProtectionReason.FRAME: _("title, description, or around what is protected"),
}
