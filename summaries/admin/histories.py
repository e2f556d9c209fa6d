"""Versions of a text on its page: who made each, when and why; what changed between any two; and the way back."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern
from django.utils.http import content_disposition_header
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.pressing import Done, button_urls, posted, small_number
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.errors import told
from summaries.admin.curated import CuratedAdmin, address
from summaries.admin.passages import differences

ON_A_PAGE = 20


@dataclass(frozen=True)
class Version:
    """One version of a text: what made it, who, when and why."""

    number: int
    verb: Any
    who: str
    who_kind: Any
    at: datetime
    why: str
    is_now: bool
    note: Any = ""
    what_changed: str = ""


class HistoryAdmin(CuratedAdmin):
    """A screen of texts that keep what they were."""

    def versions_of(self, row: Any, before: int, number: int) -> Sequence[Version]:
        """Return so many versions of a row's text, the newest first, all older than `before`."""
        raise NotImplementedError

    def text_at(self, row: Any, number: int) -> str | None:
        """Return what a row's text was at a version; None where that was not kept."""
        raise NotImplementedError

    def file_name_of(self, row: Any, text: str) -> str:
        """Return what a file with a version's text is called; "" where that is the browser's to say."""
        return ""

    def restore(self, request: HttpRequest, row: Any, number: int, reason: str) -> Done:
        """Bring back what a row's text was at a version, through an action."""
        raise NotImplementedError

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses, with those of comparing and restoring."""
        pages = {"compare": self.compare_view, "text": self.text_view, "restore": self.restore_view}
        return [*button_urls(self, pages), *super().get_urls()]

    def compare_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show what changed between two versions."""

        def see(row: Any) -> HttpResponse:
            to = small_number(request, "to") or row.version
            before = small_number(request, "from")
            before = to - 1 if before is None else before
            was, now = self.text_at(row, before), self.text_at(row, to)
            if before == 0:
                was = was or ""
            is_known = was is not None and now is not None
            first = small_number(request, "first") or 0
            changes = differences(was or "", now or "", first=first) if is_known else None
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
                following=changes
                and changes.following is not None
                and self._following(row, before, to, changes),
            )

        return self.seen(request, object_id, see)

    def text_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the whole text of a version as nothing but text."""

        def see(row: Any) -> HttpResponse:
            text = self.text_at(row, small_number(request, "number") or row.version)
            if text is None:
                raise Http404
            answer = HttpResponse(text, content_type="text/plain; charset=utf-8")
            if header := content_disposition_header(False, self.file_name_of(row, text)):
                answer["Content-Disposition"] = header
            return answer

        return self.seen(request, object_id, see)

    @staticmethod
    def _following(row: Any, before: int, to: int, changes: Any) -> str:
        return address("compare", row, **{"from": before, "to": to, "first": changes.following})

    def restore_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Bring back what the text was at a version."""

        def press(row: Any, reason: str) -> Done:
            number = small_number(request, "number")
            if number is None:
                raise UnknownRow(told("There is no such version."))
            return self.restore(request, row, number, reason)

        may = partial(self.has_change_permission, request)
        return posted(self, request, object_id, press, may=may, logged="restore")

    def history_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return what the page tells of versions; `before` in the address begins with older ones."""
        before = small_number(request, "before") or row.version + 1
        rows = self.versions_of(row, before, ON_A_PAGE + 1)
        versions = rows[:ON_A_PAGE]
        return {
            "versions": versions,
            "older": f"?before={versions[-1].number}#versions" if len(rows) > ON_A_PAGE else "",
            "is_older": before <= row.version,
            "compare": address("compare", row),
            "restore": address("restore", row),
        }


def restored(row: Any, number: int, former: int, **values: Any) -> Done:
    """Return that a version of a row was restored, and how to go back to the one before."""
    undo = address("restore", row, number=former, version=row.version, **values)
    words = gettext("Version %(number)d was restored, as version %(now)d.")
    return Done(words % {"number": number, "now": row.version}, undo=undo)
