"""Actions on one row or on many: buttons that post to an action, confirmation pages, undo links in messages."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.admin import helpers
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import ngettext

from memoryhub.admin.base import MOST_AT_ONCE, ReadOnlyAdmin, render_page
from memoryhub.admin.fields import LONGEST_REASON
from memoryhub.errors import DomainError

UNDO = "undo:"
NEXT = "next"


@dataclass(frozen=True)
class Done:
    """Result of an object action: message, where to go on (default: the row's page), and what a POST to undoes it."""

    message: Any
    to: str | None = None
    undo: str | None = None


Act = Callable[[Any, str], Done]


class DecisionAdmin(ReadOnlyAdmin):
    """Read-only screens with object actions, for those who may change the model."""

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}"))

    def posted(self, request: HttpRequest, object_id: str, act: Act, *, logged: str) -> HttpResponse:
        return run_object_action(
            self, request, object_id, act, may=lambda row: self.has_decide_permission(request), logged=logged
        )


def object_action_urls(screen: Any, views: Mapping[str, Callable[..., HttpResponse]]) -> list[URLPattern]:
    """Return the URLs of a row's actions and pages by their names; they precede the screen's own."""
    view, model = screen.admin_site.admin_view, f"{screen.opts.app_label}_{screen.opts.model_name}"
    return [
        path(f"<path:object_id>/{name}/", view(each), name=f"{model}_{name.replace('-', '_')}")
        for name, each in views.items()
    ]


def run_object_action(
    screen: Any,
    request: HttpRequest,
    object_id: str,
    act: Act,
    *,
    logged: str,
    may: Callable[[Any], bool] | None = None,
) -> HttpResponse:
    """Run the action that a button posts, report it, and redirect to `next` or the row's page."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    row = screen.get_object(request, object_id)
    if not (screen.has_change_permission(request, row) if may is None else may(row)):
        raise PermissionDenied
    if row is None:
        return cast(HttpResponse, screen._get_obj_does_not_exist_redirect(request, screen.opts, object_id))
    to = change_url(row)
    try:
        done = act(row, submitted_reason(request))
    except DomainError as error:
        screen.message_user(request, str(error), messages.ERROR)
    else:
        screen.log_change(request, row, logged)
        undo, back = done.undo, next_url(request)
        if undo is not None and back is not None and f"{NEXT}=" not in undo:  # undoing returns there too
            undo = f"{undo}{'&' if '?' in undo else '?'}{urlencode({NEXT: back})}"
        report_done(request, done.message, undo=undo)
        to = done.to or to
    return HttpResponseRedirect(next_url(request) or to)


def report_done(request: HttpRequest, text: Any, *, undo: str | None = None) -> None:
    """Report a result with an undo button; the button is rendered with the message, so no token is stored."""
    messages.success(request, text, extra_tags=f"{UNDO}{undo}" if undo else "")


def offers_undo(request: HttpRequest) -> bool:
    """Return whether the page will show a message with an undo button."""
    return any((each.extra_tags or "").startswith(UNDO) for each in messages.get_messages(request))


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
        words = ngettext(
            "%(count)d left as it was: %(problem)s", "%(count)d left as they were: %(problem)s", count
        )
        screen.message_user(request, words % {"count": count, "problem": problem}, messages.WARNING)


def counted(*texts: tuple[Any, int]) -> list[str]:
    return [text % {"count": count} for text, count in texts if count]


def submitted_reason(request: HttpRequest) -> str:
    return submitted_text(request, "reason")[:LONGEST_REASON]


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
EXAMPLES = 5


@dataclass(frozen=True)
class Confirmation:
    """Content of a confirmation page: title, sentences, example rows, button."""

    title: Any
    sentences: Sequence[Any]
    examples: Sequence[Any]
    button: Any
    may_go_on: bool = True
    is_danger: bool = False
    needs_reason: bool = False


def is_confirmed(request: HttpRequest) -> bool:
    return CONFIRMED in request.POST


def selected_ids(queryset: QuerySet[Any]) -> list[Any]:
    return list(queryset.values_list("pk", flat=True)[:MOST_AT_ONCE])


def confirmation_page(
    screen: Any,
    request: HttpRequest,
    question: Confirmation,
    *,
    action: str,
    keys: Sequence[Any],
    problem: Any = None,
) -> HttpResponse:
    """Return the confirmation page; it posts the listed keys, whatever the filters find by then."""
    return render_page(
        request,
        "admin/memoryhub/includes/confirm.html",
        title=question.title,
        opts=screen.opts,
        question=question,
        examples=list(islice(question.examples, EXAMPLES)),
        left_out=max(0, len(question.examples) - EXAMPLES),
        keys=keys,
        problem=problem,
        action=action,
        action_checkbox_name=helpers.ACTION_CHECKBOX_NAME,
        confirmed_name=CONFIRMED,
        back=request.get_full_path(),
    )
