"""Actions on one row or on many: buttons that post to an action, confirmation pages, undo links in messages."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial, wraps
from itertools import islice
from typing import Any, TypedDict, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.admin import helpers
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from memoryhub.admin.base import MAX_SELECTED, ReadOnlyAdmin, clock, principal, render_page
from memoryhub.admin.fields import MAX_REASON_LENGTH
from memoryhub.auth.principals import Principal
from memoryhub.errors import DomainError

UNDO = "undo:"
REVOKE = "back:"
"""Prefixes of the tag of a message with a button: an undo, or one that takes a rule back."""
NEXT = "next"


@dataclass(frozen=True)
class Done:
    """Result of an object action: message, redirect target (default: the row's page), and URL that undoes it by POST.

    `logged` is the entry in the admin log (default: the action's name).
    """

    message: Any
    to: str | None = None
    undo: str | None = None
    logged: str = ""


class Change(TypedDict):
    """Keyword arguments of an action: its principal, reason and time."""

    by: Principal
    reason: str
    now: datetime


Act = Callable[[Any, Change], Done]
View = Callable[..., HttpResponse]


class DecisionAdmin(ReadOnlyAdmin):
    """Read-only screens with object actions, for those who may change the model."""

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}"))

    def may_act(self, request: HttpRequest, row: Any) -> bool:
        return self.has_decide_permission(request)


def row_view(view: View) -> View:
    """Decorate `name_view(self, request, object_id)` to get a URL below the row's page."""
    view.is_row_view = True  # type: ignore[attr-defined]
    return view


def row_page(view: Callable[[Any, HttpRequest, Any], HttpResponse]) -> View:
    """Decorate `name_view(self, request, row)` as a page below the row's page; requires view permission."""

    @wraps(view)
    def page(screen: Any, request: HttpRequest, object_id: str) -> HttpResponse:
        answer: HttpResponse = screen.view_row(request, object_id, partial(view, screen, request))
        return answer

    return row_view(page)


def object_action(
    may: Callable[[HttpRequest], bool] | None = None, *, confirm: str = ""
) -> Callable[[Callable[[Any, HttpRequest, Any, Change], Done]], View]:
    """Decorate `name_view(self, request, row, change)` as a POST action on a row.

    `may` replaces the screen's `may_act`; `confirm` names a method `(request, row)` that answers a GET with a
    confirmation page.
    """

    def make(act: Callable[[Any, HttpRequest, Any, Change], Done]) -> View:
        @wraps(act)
        def view(screen: Any, request: HttpRequest, object_id: str) -> HttpResponse:
            if confirm and request.method != "POST":
                answer: HttpResponse = screen.view_row(request, object_id, partial(getattr(screen, confirm), request))
                return answer
            return run_object_action(
                screen,
                request,
                object_id,
                partial(act, screen, request),
                logged=act.__name__.removesuffix("_view").replace("_", " "),
                may=may,
            )

        return row_view(view)

    return make


def run_object_action(
    screen: Any,
    request: HttpRequest,
    object_id: str,
    act: Act,
    *,
    logged: str,
    may: Callable[[HttpRequest], bool] | None = None,
) -> HttpResponse:
    """Run the action that a button posts, report it, and redirect to `next` or the row's page."""
    if request.method != "POST":
        if not screen.has_view_permission(request):
            raise PermissionDenied
        return HttpResponseNotAllowed(["POST"])
    row = screen.get_object(request, object_id)
    if not (screen.may_act(request, row) if may is None else may(request)):
        raise PermissionDenied
    if row is None:
        return cast(HttpResponse, screen._get_obj_does_not_exist_redirect(request, screen.opts, object_id))
    target = change_url(row)
    try:
        done = act(row, submitted_change(request))
    except DomainError as error:
        screen.message_user(request, str(error), messages.ERROR)
    else:
        screen.log_change(request, row, done.logged or logged)
        undo, next_page = done.undo, next_url(request)
        if undo is not None and next_page is not None and f"{NEXT}=" not in undo:  # undoing returns there too
            undo = f"{undo}{'&' if '?' in undo else '?'}{urlencode({NEXT: next_page})}"
        report_done(request, done.message, undo=undo)
        target = done.to or target
    return HttpResponseRedirect(next_url(request) or target)


def report_done(request: HttpRequest, text: Any, *, undo: str | None = None, button: str = UNDO) -> None:
    """Report a result with an undo button; the button is rendered with the message, so no token is stored.

    `button` is REVOKE for a rule, as its decision has an undo too.
    """
    messages.success(request, text, extra_tags=f"{button}{undo}" if undo else "")


def has_undo_message(request: HttpRequest) -> bool:
    """Return whether the page will show a message with an undo button."""
    return any((message.extra_tags or "").startswith(UNDO) for message in messages.get_messages(request))


def act_on_each(
    screen: Any, request: HttpRequest, rows: Iterable[Any], act: Callable[[Any], object], *, logged: str
) -> int:
    """Call an action for each row, report errors by reason, and return the number that succeeded."""
    refusals: Counter[str] = Counter()
    done = 0
    for row in rows:
        try:
            act(row)
        except DomainError as error:
            refusals[str(error)] += 1
        else:
            screen.log_change(request, row, logged)
            done += 1
    report_skipped(screen, request, refusals)
    return done


def report_skipped(screen: Any, request: HttpRequest, refusals: Mapping[str, int]) -> None:
    for problem, count in refusals.items():
        words = ngettext("%(count)d left unchanged: %(problem)s", "%(count)d left unchanged: %(problem)s", count)
        screen.message_user(request, words % {"count": count, "problem": problem}, messages.WARNING)


def count_sentences(*texts: tuple[Any, int]) -> list[str]:
    return [text % {"count": count} for text, count in texts if count]


def submitted_reason(request: HttpRequest) -> str:
    return submitted_text(request, "reason")[:MAX_REASON_LENGTH]


def submitted_change(request: HttpRequest) -> Change:
    return Change(by=principal(request), reason=submitted_reason(request), now=clock())


def submitted_text(request: HttpRequest, name: str) -> str:
    """Return a text of the form or query string, without NUL characters."""
    text = request.POST.get(name, request.GET.get(name, ""))
    return str(text).replace("\x00", "").strip()


def submitted_number(request: HttpRequest, name: str) -> int | None:
    text = submitted_text(request, name)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def next_url(request: HttpRequest) -> str | None:
    """Return the `next` address if it is one of this server's."""
    address = submitted_text(request, NEXT)
    is_ours = url_has_allowed_host_and_scheme(address, {request.get_host()}, request.is_secure())
    return address if address and is_ours else None


def change_url(row: Any) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


CONFIRMED = "confirmed"
MAX_EXAMPLES = 5


@dataclass(frozen=True)
class Quotes:
    """A sentence of a confirmation page with the texts that it is about; those after the first few are folded."""

    sentence: str
    texts: Sequence[Any]

    @property
    def first(self) -> Sequence[Any]:
        return self.texts[:MAX_EXAMPLES]

    @property
    def further(self) -> Sequence[Any]:
        return self.texts[MAX_EXAMPLES:]


@dataclass(frozen=True)
class Confirmation:
    """Content of a confirmation page: title, sentences, examples, button; `cancel` leads back, by default to itself.

    A page that a POST to a list shows is at the list's address, so its default is the list.
    """

    title: Any
    sentences: Sequence[Any]
    examples: Sequence[Any]
    button: Any
    can_proceed: bool = True
    is_danger: bool = False
    needs_reason: bool = False
    cancel: str = ""
    quotes: Sequence[Quotes] = ()


def selected_ids(queryset: QuerySet[Any]) -> list[Any]:
    return list(queryset.values_list("pk", flat=True)[:MAX_SELECTED])


def confirmation_page(
    screen: Any, request: HttpRequest, question: Confirmation, *, action: str, keys: Sequence[Any]
) -> HttpResponse | None:
    """Return the confirmation page; None once confirmed, with a reason where one is required.

    It posts the selected keys, not the filters.
    """
    is_confirmed = CONFIRMED in request.POST
    if is_confirmed and (submitted_reason(request) or not question.needs_reason):
        return None
    problem = _("Give a reason: it is kept in the audit trail.") if is_confirmed else None
    return ask_to_confirm(screen, request, question, action=action, keys=keys, problem=problem)


def ask_to_confirm(
    screen: Any, request: HttpRequest, question: Confirmation, *, action: str, keys: Sequence[Any], problem: Any = None
) -> HttpResponse:
    """Return the confirmation page; its form has `CONFIRMED` and comes back to this address."""
    return render_page(
        request,
        "admin/memoryhub/includes/confirm.html",
        title=question.title,
        opts=screen.opts,
        question=question,
        examples=list(islice(question.examples, MAX_EXAMPLES)),
        left_out=max(0, len(question.examples) - MAX_EXAMPLES),
        keys=keys,
        problem=problem,
        action=action,
        action_checkbox_name=helpers.ACTION_CHECKBOX_NAME,
        confirmed_name=CONFIRMED,
        back=request.get_full_path(),
    )
