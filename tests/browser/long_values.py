"""Long texts and ids in rows of every screen, and the check that lists show them without cutting them for good."""

from typing import Any, Final

from django.contrib import admin
from django.db import IntegrityError, models, transaction

from memoryhub.tenancy.models import Actor
from tests.browser.seeing import scrolls_sideways

WIDTHS: Final = (390, 1280, 1440)
LONG_ID: Final = "u" * 250
LONG_TEXT: Final = 20 * "Sentences about the weather, the boats and the long way home, "
ID_FIELDS: Final = ("user_id", "author", "who_name")
DECIDES: Final = ("kind", "language", "operation", "outcome", "password", "state", "status", "verb")
"""Fields without choices that decide by their value what a page shows."""


def plant_long_values() -> None:
    """Write the longest text into each text field of the newest row of each screen, and give two users long ids."""
    for model in admin.site._registry:
        row = model._default_manager.order_by("-pk").first()
        for field in model._meta.fields:
            is_text = isinstance(field, models.CharField | models.TextField) and not field.choices
            if row is None or not is_text or field.primary_key or field.unique or field.name in DECIDES:
                continue
            value = (LONG_ID if field.name in ID_FIELDS else LONG_TEXT)[: field.max_length].strip()
            try:
                with transaction.atomic():
                    model._default_manager.filter(pk=row.pk).update(**{field.name: value})
            except IntegrityError:  # a value that a constraint of the table forbids
                continue
    for number, key in enumerate(Actor.objects.exclude(user_id="").order_by("pk").values_list("pk", flat=True)[:2]):
        Actor.objects.filter(pk=key).update(user_id=f"{number}{LONG_ID[1:]}")


CUT_TEXTS: Final = """() => [...document.querySelectorAll(":is(#result_list, .hub-table) :is(td, tbody th)")]
    .filter(cell => cell.checkVisibility() && cell.innerText.trim())
    .flatMap(cell => [cell, ...cell.querySelectorAll("*")].map(each => [cell, each]))
    .filter(([cell, each]) => {
        if (!(each instanceof HTMLElement) || each.matches("input, select, option, textarea") || !each.clientWidth) {
            return false;
        }
        const hides = ["hidden", "clip"].includes(getComputedStyle(each).overflowX);
        const isCut = hides && (each.scrollWidth > each.clientWidth + 1 || each.scrollHeight > each.clientHeight + 1);
        const isShortened = each.matches("bdi") && each.textContent.endsWith("…");
        const hint = each.closest("[title]");
        const hasHint = (hint && cell.contains(hint)) || each.querySelector("[title]:not(time)");
        return (isCut || isShortened) && !hasHint;
    })
    .map(([cell, each]) => `${cell.className.split(" ")[0]}: ${each.outerHTML.slice(0, 160)}`)"""
"""Texts in cells that are cut, by style or with “…”, where no tooltip holds the whole."""


def shows_every_text(page: Any) -> None:
    """Fail where a cell cuts a text without a tooltip, or the page is too wide, at each of WIDTHS."""
    size = page.viewport_size
    for width in WIDTHS:
        page.set_viewport_size({**size, "width": width})
        cut = page.evaluate(CUT_TEXTS)
        assert not cut, f"{page.url} at {width} pixels cuts:\n" + "\n".join(cut)
        assert not scrolls_sideways(page), f"{page.url} is wider than {width} pixels"
    page.set_viewport_size(size)
