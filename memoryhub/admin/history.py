"""Base of the screens of edited texts: pages about a row, version history, comparison, restore."""

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import content_disposition_header
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import render_page
from memoryhub.admin.curated import CuratedAdmin
from memoryhub.admin.diff import differences
from memoryhub.admin.object_actions import (
    Done,
    change_url,
    object_action,
    row_page,
    submitted_number,
)
from memoryhub.auth.tenancy import UnknownRow


class EditorAdmin(CuratedAdmin):
    """Screens of texts that are edited; pages about a row can be loaded into its own page."""

    delete_confirmation_template = "admin/memoryhub/delete.html"
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
            f"admin/{template}.html" if is_part else "admin/memoryhub/subpage.html",
            title=title,
            heading=title,
            part=f"admin/{template}.html",
            opts=self.opts,
            original=row,
            back=change_url(row),
            **context,
        )


def address(name: str, row: Any, /, **values: Any) -> str:
    page = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{name}", args=[row.pk])
    return f"{page}?{urlencode(values)}" if values else page


def wide(text: str) -> str:
    return format_html('<div class="pro-column">{}</div>', text)


ON_A_PAGE = 20


class HistoryAdmin(EditorAdmin):
    """Screens of texts with numbered versions, which are compared and restored."""

    def versions_of(self, row: Any, before: int, number: int) -> list[dict[str, Any]]:
        raise NotImplementedError

    def text_at(self, row: Any, number: int) -> str | None:
        """Return a row's text at a version; None where it was not kept."""
        raise NotImplementedError

    def file_name_of(self, row: Any, text: str) -> str:
        return ""

    def restore(self, request: HttpRequest, row: Any, number: int, reason: str) -> Done:
        raise NotImplementedError

    @row_page
    def compare_view(self, request: HttpRequest, row: Any) -> HttpResponse:
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
            following = address("compare", row, **{"from": before, "to": to, "first": changes.following})
        title = _("What changed from version %(one)d to version %(other)d") % {"one": before, "other": to}
        texts = [{"number": each, "at": address("text", row, number=each)} for each in (before, to) if each]
        return self.subpage(
            request, row, "memoryhub/history/differences", title=title, changes=changes, texts=texts,
            following=following,
        )  # fmt: skip

    @row_page
    def text_view(self, request: HttpRequest, row: Any) -> HttpResponse:
        text = self.text_at(row, submitted_number(request, "number") or row.version)
        if text is None:
            raise Http404
        answer = HttpResponse(text, content_type="text/plain; charset=utf-8")
        if header := content_disposition_header(False, self.file_name_of(row, text)):
            answer["Content-Disposition"] = header
        return answer

    @object_action()
    def restore_view(self, request: HttpRequest, row: Any, reason: str) -> Done:
        number = submitted_number(request, "number")
        if number is None:
            raise UnknownRow(_("There is no such version."))
        return self.restore(request, row, number, reason)

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
