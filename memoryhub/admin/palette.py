"""The command palette: screens by their names, tasks and rows by their words, as far as the person may see them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import EXCERPT_LENGTH, HubAdmin, truncated
from memoryhub.admin.object_actions import submitted_text
from memoryhub.unfold import SCREENS, Page, address_of, may_open, screens_by_name

SEARCHED_SCREENS: Final = (
    "strength_memory",
    "conversations_session",
    "summaries_project",
    "summaries_document",
    "memoryhub_agent",
    "memoryhub_actor",
)
"""Lists whose rows are found, in order; each is searched as its own page searches it."""


@dataclass(frozen=True)
class Task:
    """Something to do, found by its title and by further words; the page where it is done, and what it takes."""

    title: Any
    words: Any
    page: str
    screen: str
    needs: str


TASKS: Final = (
    Task(
        _("Export all data of a user"),
        _("export download copy data protection"),
        "admin:memoryhub_actor_changelist",
        "memoryhub_actor",
        "memoryhub.delete_actor",
    ),
    Task(
        _("Erase a user"),
        _("erase delete remove user data protection"),
        "admin:memoryhub_actor_changelist",
        "memoryhub_actor",
        "memoryhub.delete_actor",
    ),
    Task(
        _("Issue an API key"),
        _("new add create key access token"),
        "admin:memoryhub_apikey_add",
        "memoryhub_apikey",
        "memoryhub.add_apikey",
    ),
    Task(
        _("Allow a blocked text again"),
        _("block unblock lift forbidden rejected"),
        "admin:strength_tombstone_changelist",
        "strength_tombstone",
        "strength.change_tombstone",
    ),
)
"""Found in this order, before the rows."""

MAX_ROWS: Final = 6
MAX_QUERY_LENGTH: Final = 200


def palette(request: HttpRequest) -> HttpResponse:
    """Return links that match the query; called while the user types."""
    words = submitted_text(request, "s").strip()[:MAX_QUERY_LENGTH]
    entries = list(_entries(request, words)) if words else []
    response = render(request, "admin/memoryhub/palette.html", {"found": entries, "words": words})
    response["Cache-Control"] = "no-store"
    return response


def _entries(request: HttpRequest, words: str) -> Iterator[dict[str, Any]]:
    """Yield links with title, description and icon: screens, tasks, then rows."""
    for name, (title, icon) in SCREENS.items():
        if words.casefold() in str(title).casefold() and may_open(name, request):
            yield {"title": str(title), "description": "", "link": address_of(name), "icon": icon}
    for task in TASKS:
        text = f"{task.title} {task.words}".casefold()
        is_named = all(word in text for word in words.casefold().split())
        if is_named and request.user.has_perm(task.needs) and may_open(task.screen, request):
            title, icon = SCREENS[task.screen]
            yield {"title": str(task.title), "description": title, "link": reverse(task.page), "icon": icon}
    screens = screens_by_name()
    for name in SEARCHED_SCREENS:
        screen = cast(HubAdmin, screens[name])
        if not screen.has_view_permission(request):
            continue
        title, icon = SCREENS[name]
        rows, _may_repeat = screen.get_search_results(request, screen.get_queryset(request), words)
        for row in rows.order_by(*screen.get_ordering(request))[:MAX_ROWS]:
            link = reverse(f"admin:{name}_change", args=[row.pk])
            yield {
                "title": truncated(screen.label_of(row), EXCERPT_LENGTH),
                "description": title,
                "link": link,
                "icon": icon,
            }


PAGES = [Page("palette/", "palette", palette, ())]
