"""The command palette: screens by their names, and rows by their words, as far as the person may see them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from memoryhub.admin.base import HubAdmin
from memoryhub.admin.object_actions import submitted_text
from memoryhub.unfold import SCREENS, Page, address_of, may_open

FOUND_IN: Final = (
    "strength_memory",
    "conversations_session",
    "summaries_project",
    "summaries_document",
    "memoryhub_agent",
    "memoryhub_actor",
)
"""Lists whose rows are found, in order; each is searched as its own page searches it."""

MOST_ROWS: Final = 6
LONGEST_QUERY: Final = 200


@dataclass(frozen=True)
class Finding:
    """A way to a page: its words, what it is, and its icon."""

    title: str
    description: Any
    link: str
    icon: str


def palette(request: HttpRequest) -> HttpResponse:
    """Answer what was typed with a list of links; it is asked again while somebody types."""
    words = submitted_text(request, "s").strip()[:LONGEST_QUERY]
    found = [*_screens(request, words), *_rows(request, words)] if words else []
    answer = render(request, "admin/memoryhub/palette.html", {"found": found, "words": words})
    answer["Cache-Control"] = "no-store"
    return answer


def _screens(request: HttpRequest, words: str) -> Iterator[Finding]:
    for name, (title, icon) in SCREENS.items():
        if words.casefold() in str(title).casefold() and may_open(name, request):
            yield Finding(str(title), "", address_of(name), icon)


def _rows(request: HttpRequest, words: str) -> Iterator[Finding]:
    screens = {
        f"{model._meta.app_label}_{model._meta.model_name}": each
        for model, each in admin.site._registry.items()
    }
    for name in FOUND_IN:
        screen = cast(HubAdmin, screens[name])
        if not screen.has_view_permission(request):
            continue
        title, icon = SCREENS[name]
        rows, _may_repeat = screen.get_search_results(request, screen.get_queryset(request), words)
        for row in rows.order_by(*screen.get_ordering(request))[:MOST_ROWS]:
            yield Finding(screen.words_of(row), title, reverse(f"admin:{name}_change", args=[row.pk]), icon)


PAGES = [Page("palette/", "palette", palette, ())]
