"""What the buttons of our pages share: a POST each, one call to an action, and back to the page."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse

from memoryhub.access.actions import VersionMismatch
from memoryhub.access.domain import Forbidden
from memoryhub.access.tenancy import UnknownRow
from memoryhub.admin.fields import LONGEST_REASON
from summaries.actions.ordering import NothingToSummarize, SummaryLocked

Press = Callable[[Any, str], Any]
REFUSALS = (Forbidden, NothingToSummarize, SummaryLocked, UnknownRow, VersionMismatch)
"""What an action may have against what a button asks for."""


def posted(screen: Any, request: HttpRequest, object_id: str, press: Press, *, logged: str) -> HttpResponse:
    """Do what a button posts, say what came of it, and go back to the page; a GET changes nothing."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    row = screen.get_object(request, object_id)
    if not screen.has_change_permission(request, row):
        raise PermissionDenied
    if row is None:
        missing: HttpResponse = screen._get_obj_does_not_exist_redirect(request, screen.opts, object_id)
        return missing
    try:
        told = press(row, request.POST.get("reason", "").replace("\x00", "").strip()[:LONGEST_REASON])
    except REFUSALS as error:
        screen.message_user(request, str(error), messages.ERROR)
    else:
        screen.log_change(request, row, logged)
        screen.message_user(request, told, messages.SUCCESS)
    page = f"admin:{screen.opts.app_label}_{screen.opts.model_name}_change"
    return HttpResponseRedirect(reverse(page, args=[row.pk]))


def small_number(request: HttpRequest, name: str) -> int | None:
    """Return a small number that a page posted, or None."""
    text = request.POST.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
