"""Buttons of the screens: each is a POST of its own that calls one action; what the action refuses is told.

The rows behind these screens have no form: nobody types what a sleep did, or that two memories are one.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from memoryhub.access.actions import VersionMismatch
from memoryhub.access.domain import Forbidden
from memoryhub.access.tenancy import UnknownRow
from memoryhub.admin.base import READ_FOR_EXCERPT, ReadOnlyAdmin, excerpt, link_to
from memoryhub.admin.fields import LONGEST_REASON
from memoryhub.tenants.namespaces import NamespaceError
from strength.actions.curate import DuplicateMemory, LockedByPerson, WrongState
from strength.actions.rounds import TooMany
from strength.actions.use import NotUsable
from strength.domain.memories import MemoryRefused
from strength.models import Memory

REFUSALS = (
    WrongState,
    DuplicateMemory,
    Forbidden,
    LockedByPerson,
    MemoryRefused,
    NamespaceError,
    NotUsable,
    TooMany,
    UnknownRow,
    VersionMismatch,
)
"""What an action may have against what a button asks for."""


@dataclass(frozen=True)
class Done:
    """What a button did, in words, and where to go on; by default to the row's own page."""

    told: Any
    to: str | None = None


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


def posted(
    screen: Any, request: HttpRequest, object_id: str, act: Act, *, may: Callable[[Any], bool], logged: str
) -> HttpResponse:
    """Do what a button posts, say what came of it, and go on; a GET changes nothing."""
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
    except REFUSALS as error:
        screen.message_user(request, str(error), messages.ERROR)
    else:
        screen.log_change(request, row, logged)
        screen.message_user(request, done.told, messages.SUCCESS)
        to = done.to or to
    return HttpResponseRedirect(to)


def each_of(
    screen: Any, request: HttpRequest, rows: Iterable[Any], act: Callable[[Any], object], *, logged: str
) -> int:
    """Do something to each row; tell why not to those that were refused, and return how many it was done to."""
    refusals: Counter[str] = Counter()
    done = 0
    for row in rows:
        try:
            act(row)
        except REFUSALS as error:
            refusals[str(error)] += 1
        else:
            screen.log_change(request, row, logged)
            done += 1
    for problem, times in refusals.items():
        told = gettext("%(count)d left as they were: %(problem)s") % {"count": times, "problem": problem}
        screen.message_user(request, told, messages.WARNING)
    return done


def reason_of(request: HttpRequest) -> str:
    """Return the reason that a person typed, as far as it can be kept."""
    return typed(request, "reason")[:LONGEST_REASON]


def typed(request: HttpRequest, name: str) -> str:
    """Return a posted text without what no database stores."""
    return request.POST.get(name, "").replace("\x00", "").strip()


def page_of(row: Any) -> str:
    """Return the address of a row's page."""
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


def may_read_memories(request: HttpRequest) -> bool:
    """Return whether a person may see the texts of memories, whatever other screen they stand on."""
    user: Any = request.user
    return bool(user.has_perm("strength.view_memory") or user.has_perm("strength.change_memory"))


def shown_memories(request: HttpRequest, actor_id: UUID, keys: Iterable[Any]) -> dict[str, SafeString]:
    """Return the beginnings of an actor's memories, linked to their pages, by id; one query for all of them.

    Who may not read memories gets their ids.
    """
    wanted = list({str(key) for key in keys if key})
    if not may_read_memories(request):
        return {key: SafeString(excerpt(key)) for key in wanted}
    rows = Memory.objects.of([actor_id]).filter(pk__in=wanted)
    found = {str(pk): text for pk, text in rows.values_list("pk", Left("content", READ_FOR_EXCERPT))}
    gone = gettext("a memory that is not there any more")
    return {
        key: link_to("admin:strength_memory_change", key, excerpt(found[key]))
        if key in found
        else SafeString(excerpt(gone))
        for key in wanted
    }
