"""Buttons of the screens: each is a POST of its own that calls one action; what the action refuses is told.

Many rows behind the screens have no form: nobody types what a sleep did, or that two memories are one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext, ngettext

from memoryhub.admin.base import ReadOnlyAdmin
from memoryhub.admin.fields import LONGEST_REASON
from memoryhub.errors import DomainError, words_of

UNDO = "undo:"
NEXT = "next"


@dataclass(frozen=True)
class Done:
    """What a button did, in words; where to go on (the row's own page); and what a POST to takes it back."""

    told: Any
    to: str | None = None
    undo: str | None = None


Act = Callable[[Any, str], Done]


class ButtonsAdmin(ReadOnlyAdmin):
    """Screens of rows that are changed by buttons alone: whoever may change the model may press them."""

    def has_decide_permission(self, request: HttpRequest) -> bool:
        """Return whether this person may press the buttons."""
        return bool(request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}"))

    def posted(self, request: HttpRequest, object_id: str, act: Act, *, logged: str) -> HttpResponse:
        """Do what a button posts and say so."""
        return posted(
            self, request, object_id, act, may=lambda row: self.has_decide_permission(request), logged=logged
        )


def button_urls(screen: Any, views: Mapping[str, Callable[..., HttpResponse]]) -> list[URLPattern]:
    """Return the addresses of a row's buttons and pages, by their names: they stand before the screen's own."""
    view, model = screen.admin_site.admin_view, f"{screen.opts.app_label}_{screen.opts.model_name}"
    return [
        path(f"<path:object_id>/{name}/", view(each), name=f"{model}_{name}") for name, each in views.items()
    ]


def posted(
    screen: Any, request: HttpRequest, object_id: str, act: Act, *, may: Callable[[Any], bool], logged: str
) -> HttpResponse:
    """Do what a button posts, say what came of it, and go on: to `next` where the page names one of ours.

    A GET changes nothing.
    """
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    row = screen.get_object(request, object_id)
    if not may(row):
        raise PermissionDenied
    if row is None:
        missing: HttpResponse = screen._get_obj_does_not_exist_redirect(request, screen.opts, object_id)
        return missing
    to = page_of(row)
    try:
        done = act(row, reason_of(request))
    except DomainError as error:
        screen.message_user(request, in_words(error), messages.ERROR)
    else:
        screen.log_change(request, row, logged)
        tell(request, done.told, undo=_back_here(request, done.undo))
        to = done.to or to
    return HttpResponseRedirect(next_of(request) or to)


def _back_here(request: HttpRequest, undo: str | None) -> str | None:
    """Let what takes a press back lead to where it was pressed, unless it leads somewhere already."""
    back = next_of(request)
    if undo is None or back is None or f"{NEXT}=" in undo:
        return undo
    return f"{undo}{'&' if '?' in undo else '?'}{urlencode({NEXT: back})}"


def tell(request: HttpRequest, told: Any, *, undo: str | None = None) -> None:
    """Say on the next page what was done, beside a button that posts to `undo` where that takes it back.

    The button is made where the message is shown (templates/unfold/helpers/messages.html), so no token is stored.
    """
    messages.success(request, told, extra_tags=f"{UNDO}{undo}" if undo else "")


def in_words(error: Exception) -> str:
    """Return what an action has against it, in the reader's language."""
    return words_of(error, gettext)


def each_of(
    screen: Any, request: HttpRequest, rows: Iterable[Any], act: Callable[[Any], object], *, logged: str
) -> int:
    """Do something to each row; tell why not to those that were refused, and return how many it was done to."""
    refusals: Counter[str] = Counter()
    done = 0
    for row in rows:
        try:
            act(row)
        except DomainError as error:
            refusals[in_words(error)] += 1
        else:
            screen.log_change(request, row, logged)
            done += 1
    tell_left(screen, request, refusals)
    return done


def tell_left(screen: Any, request: HttpRequest, refusals: Mapping[str, int]) -> None:
    """Tell how many rows were left as they were, for each reason."""
    for problem, count in refusals.items():
        words = ngettext(
            "%(count)d left as it was: %(problem)s", "%(count)d left as they were: %(problem)s", count
        )
        screen.message_user(request, words % {"count": count, "problem": problem}, messages.WARNING)


def reason_of(request: HttpRequest) -> str:
    """Return the reason that a person typed, as far as it can be kept."""
    return typed(request, "reason")[:LONGEST_REASON]


def typed(request: HttpRequest, name: str) -> str:
    """Return a text that a form posted, or that its address carries, without what no database stores."""
    text = request.POST.get(name, request.GET.get(name, ""))
    return str(text).replace("\x00", "").strip()


def small_number(request: HttpRequest, name: str) -> int | None:
    """Return a small number that a page posted, or None."""
    text = typed(request, name)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def next_of(request: HttpRequest) -> str | None:
    """Return the page to go on to, where the form names one of this server's."""
    address = typed(request, NEXT)
    is_ours = url_has_allowed_host_and_scheme(address, {request.get_host()}, request.is_secure())
    return address if address and is_ours else None


def page_of(row: Any) -> str:
    """Return the address of a row's page."""
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
