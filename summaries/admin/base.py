"""Base classes of the summaries' screens: versioned forms, version history, comparison, restore; and their labels."""

import unicodedata
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, reverse
from django.utils.html import format_html
from django.utils.http import content_disposition_header
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import render_page, truncated
from memoryhub.admin.curated import CuratedAdmin
from memoryhub.admin.diff import differences
from memoryhub.admin.object_actions import (
    Done,
    change_url,
    object_action_urls,
    run_object_action,
    submitted_number,
)
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.tenancy.domain import Trust
from summaries.actions.compaction import ProtectionReason
from summaries.domain.compaction import Outcome
from summaries.domain.documents import DocumentKind
from summaries.domain.projects import EventKind, ProjectStatus, is_stand_in
from summaries.domain.routing import Action, Confidence
from summaries.domain.summaries import Generator, Verb
from summaries.models import Project


class SummariesAdmin(CuratedAdmin):
    delete_confirmation_template = "admin/summaries/delete.html"
    allows = frozenset({"change", "delete"})

    class Media:
        js = ("memoryhub/editor.js",)

    def subpage(
        self, request: HttpRequest, row: Any, template: str, *, title: Any, **context: Any
    ) -> HttpResponse:
        """Return a page about a row; only its fragment where a script loads it into another page."""
        is_part = request.headers.get("X-Requested-With") == "fetch"
        return render_page(
            request,
            f"admin/summaries/{template}.html" if is_part else "admin/summaries/subpage.html",
            title=title,
            heading=title,
            part=f"admin/summaries/{template}.html",
            opts=self.opts,
            original=row,
            back=change_url(row),
            **context,
        )


def person_may(request: HttpRequest, codename: str) -> bool:
    user: Any = request.user
    return bool(user.has_perm(f"summaries.{codename}"))


def address(name: str, row: Any, /, **values: Any) -> str:
    page = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{name}", args=[row.pk])
    return f"{page}?{urlencode(values)}" if values else page


def wide(text: str) -> str:
    return format_html('<div class="pro-column">{}</div>', text)


ON_A_PAGE = 20


class HistoryAdmin(SummariesAdmin):
    def versions_of(self, row: Any, before: int, number: int) -> list[dict[str, Any]]:
        raise NotImplementedError

    def text_at(self, row: Any, number: int) -> str | None:
        """Return a row's text at a version; None where it was not kept."""
        raise NotImplementedError

    def file_name_of(self, row: Any, text: str) -> str:
        return ""

    def restore(self, request: HttpRequest, row: Any, number: int, reason: str) -> Done:
        raise NotImplementedError

    def get_urls(self) -> list[URLPattern]:
        pages = {"compare": self.compare_view, "text": self.text_view, "restore": self.restore_view}
        return [*object_action_urls(self, pages), *super().get_urls()]

    def compare_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def see(row: Any) -> HttpResponse:
            to = submitted_number(request, "to") or row.version
            before = submitted_number(request, "from")
            before = to - 1 if before is None else before
            was, now = self.text_at(row, before), self.text_at(row, to)
            if before == 0:
                was = was or ""
            is_known = was is not None and now is not None
            first = submitted_number(request, "first") or 0
            changes = differences(was or "", now or "", first=first) if is_known else None
            following = ""
            if changes is not None and changes.following is not None:
                values = {"from": before, "to": to, "first": changes.following}
                following = address("compare", row, **values)
            return self.subpage(
                request,
                row,
                "history/differences",
                title=_("What changed from version %(one)d to version %(other)d")
                % {"one": before, "other": to},
                changes=changes,
                texts=[
                    {"number": each, "at": address("text", row, number=each)} for each in (before, to) if each
                ],
                following=following,
            )

        return self.view_row(request, object_id, see)

    def text_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def see(row: Any) -> HttpResponse:
            text = self.text_at(row, submitted_number(request, "number") or row.version)
            if text is None:
                raise Http404
            answer = HttpResponse(text, content_type="text/plain; charset=utf-8")
            if header := content_disposition_header(False, self.file_name_of(row, text)):
                answer["Content-Disposition"] = header
            return answer

        return self.view_row(request, object_id, see)

    def restore_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def press(row: Any, reason: str) -> Done:
            number = submitted_number(request, "number")
            if number is None:
                raise UnknownRow(_("There is no such version."))
            return self.restore(request, row, number, reason)

        return run_object_action(self, request, object_id, press, logged="restore")

    def history_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return a page of versions; `before` in the address begins with older ones."""
        before = submitted_number(request, "before") or row.version + 1
        rows = self.versions_of(row, before, ON_A_PAGE + 1)
        versions = rows[:ON_A_PAGE]
        return {
            "versions": versions,
            "older": f"?before={versions[-1]['number']}#versions" if len(rows) > ON_A_PAGE else "",
            "is_older": before <= row.version,
            "compare": address("compare", row),
            "restore": address("restore", row),
        }


def restored_version(row: Any, number: int, former: int, **values: Any) -> Done:
    undo = address("restore", row, number=former, version=row.version, **values)
    words = gettext("Version %(number)d was restored, as version %(now)d.")
    return Done(words % {"number": number, "now": row.version}, undo=undo)


UNUSABLE = frozenset('/\\:*?"<>|')
"""What some system has no room for in a file's name."""


def shown_name(project: Project) -> str:
    """Return a project's name, with the beginning of its description where the name only stands in for a title."""
    title = truncated(project.description)
    return f"{project.name} ({title})" if title and is_stand_in(project.name) else project.name


def file_name(name: str, topic: str) -> str:
    stem, dot, ending = name.rpartition(".")
    usable = (
        " " if each in UNUSABLE or unicodedata.category(each).startswith("C") else each for each in topic
    )
    words = truncated("".join(usable))
    return f"{stem} {words}{dot}{ending}" if words and is_stand_in(stem) else name


Words = Mapping[Any, Any]

TRUSTS: Final[Words] = {Trust.TRUSTED: _("trusted"), Trust.UNTRUSTED: _("not trusted")}
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
SUMMARY_VERBS: Final[Words] = {
    Verb.WRITE: _("written"),
    Verb.EDIT: _("edited"),
    Verb.LOCK: _("locked"),
    Verb.UNLOCK: _("unlocked"),
    Verb.RESTORE: _("restored"),
}
GENERATORS: Final[Words] = {
    Generator.LLM: _("model"),
    Generator.EXTRACTIVE: _("extracted sentences"),
    Generator.PERSON: _("a person"),
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
    Outcome.TOO_MUCH_PROTECTED: _("refused: what is protected alone is too long; unpin or shorten it"),
    Outcome.REFUSED: _(
        "refused: the rewritten text lost what is protected, or was too long; nothing was changed"
    ),
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
