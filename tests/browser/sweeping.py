"""Every page of the admin, from its URLconf: a screen that is added is swept without a line here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.urls import reverse
from django.utils import timezone
from django.utils.timezone import localdate

from conversations.models import Session
from memoryhub.admin import base
from memoryhub.auth.principals import command
from memoryhub.importexport.foreign.imports import new_import
from memoryhub.importexport.foreign.models import Import
from memoryhub.tenancy.models import Actor
from strength.actions.bulk_jobs import enqueue_curation
from strength.actions.review import pending_memories
from strength.domain.sleep import RunState
from strength.models import Memory, SleepRun
from summaries.models import Document, Project, Summary
from tests.browser.long_values import shows_every_text
from tests.browser.seeing import accessible, fits_fingers, scrolls_sideways

ROWS: dict[str, Callable[[], Any]] = {
    "summaries_summary_change": lambda: Summary.objects.latest("end_time"),
    "summaries_project_change": lambda: Project.objects.get(name="tidepool"),
    "summaries_document_change": lambda: project_memory(),
    "summaries_document_compact": lambda: project_memory(),
    "summaries_session_summarise": lambda: Session.objects.latest("id"),
    "review_alike": lambda: pending_memories().earliest("created_at"),
    "learnt": lambda: Session.objects.latest("id"),
    "strength_memory_batch": lambda: ordered_selection(),
    "import_page": lambda: begun_import(),
    "sleep_undo": lambda: SimpleNamespace(pk=localdate(latest_sleep().now).isoformat()),
    "strength_sleeprun_undo": lambda: latest_sleep(),
}
"""Which row a page is opened for, where the first of its model will not do; pages of no model need a line."""


def project_memory() -> Document:
    """Return the stage's long document."""
    return Document.objects.get(project__name="tidepool", name="MEMORY.md")


def begun_import() -> Import:
    """Return an import whose file has not come yet."""
    actor = Actor.objects.exclude(user_id="").order_by("pk")[0]
    return new_import(
        actor=actor, file_name="mem0.json", format="mem0", names_users=False, by=command("stage"), now=timezone.now()
    )


def latest_sleep() -> SleepRun:
    return SleepRun.objects.filter(state=RunState.DONE, dry_run=False).latest("now")


def ordered_selection() -> Any:
    """Return the batch of a large selection whose job waits."""
    now, keys = timezone.now(), [Memory.objects.order_by("pk").values_list("pk", flat=True)[0]]
    batch = enqueue_curation(memory_ids=keys, verb="pin", by=command("stage"), reason="", seen_at=now, now=now)
    return SimpleNamespace(pk=batch)


NOT_SWEPT = {
    "autocomplete": "what a field asks for while somebody types, not a page",
    "jsi18n": "a script",
    "search": "unfold's own palette, which ours replaces",
    "palette": "what the command palette loads, not a page",
    "import_chunk": "takes a piece of a file",
    "login": "in test_people.py, by somebody who is not logged in",
    "logout": "a button",
    "view_on_site": "no model has a page outside of the admin",
    "spending_totals": "a file",
    "app_list": "nothing leads there: the sidebar has the lists themselves",
}
"""Addresses that are left out, and why."""

# Django's page of a row's log entries (the screens show revisions instead), and whole texts, as text.
NOT_LINKED = ("_history", "_text")
OF_EVERY_MODEL = ("_changelist", "_add", "_change", "_delete")
BUTTON = 405
LISTS = ("_changelist", "importer", "spending")


@dataclass(frozen=True)
class Place:
    """A page by its name in the URLconf, and the model whose row it takes."""

    name: str
    model: type[Model] | None = None
    takes_row: bool = False

    def address(self) -> str:
        """Return where it is, for a row that is there."""
        if not self.takes_row:
            return reverse(self.name)
        find = ROWS.get(self.name.removeprefix("admin:"))
        assert find or self.model, f"Say in ROWS which row {self.name} is opened for."
        row = find() if find else self.model._default_manager.order_by("pk").first()  # type: ignore[union-attr]
        assert row is not None, f"The stage has no {self.model}: see tests/browser/stage.py."
        return reverse(self.name, args=[row.pk])


def places() -> list[Place]:
    """Return every page of the admin that people reach."""
    return sorted({*_of_site(), *_of_models(), *_of_apps()}, key=lambda place: place.name)


def _of_site() -> Iterator[Place]:
    for pattern in admin.site.get_urls():
        name = getattr(pattern, "name", None)
        if name and name not in NOT_SWEPT:
            yield Place(f"admin:{name}")


def _of_models() -> Iterator[Place]:
    for model, screen in admin.site._registry.items():
        for pattern in screen.urls:
            if pattern.name and not pattern.name.endswith(NOT_LINKED):
                yield Place(f"admin:{pattern.name}", model, bool(pattern.pattern.converters))


def _of_apps() -> Iterator[Place]:
    for pattern in base.page_urls():
        if pattern.name not in NOT_SWEPT:
            yield Place(pattern.name, None, bool(pattern.pattern.converters))


@dataclass(frozen=True)
class Sweep:
    """As what the pages are looked at; `width` in pixels."""

    language: str
    width: int
    dark: bool


def sweep(page: Any, place: Place, as_seen: Sweep) -> None:
    """Open a page and check its language, its colours, its width and what axe-core finds on it."""
    if not opened(page, place):
        return
    assert page.evaluate("document.documentElement.lang") == as_seen.language
    assert page.evaluate("document.documentElement.classList.contains('dark')") is as_seen.dark
    assert not scrolls_sideways(page), f"wider than {as_seen.width} pixels"
    if as_seen.width < PHONE_PX:
        fits_fingers(page)
    accessible(page)
    if place.name.endswith(LISTS):
        shows_every_text(page)


PHONE_PX = 768


def opened(page: Any, place: Place) -> bool:
    """Open a page; return whether there is one: a button answers 405, and what nobody may do answers 403."""
    address = place.address()
    if not place.name.endswith(OF_EVERY_MODEL) and page.request.get(address).status == BUTTON:
        return False
    status = page.goto(address).status
    if place.name.endswith(("_add", "_delete")) and status == 403:
        return False
    assert status == 200, f"{place.name} answers {status}"
    return True
