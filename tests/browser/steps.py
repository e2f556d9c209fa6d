"""Steps that people take on a page again and again."""

from typing import Any

from tests.browser.chromium import expect


def press(page: Any, name: str) -> None:
    """Press the first button of this name."""
    page.get_by_role("button", name=name, exact=True).first.click()
    page.wait_for_load_state()


def choose(page: Any, field: str, words: str) -> None:
    """Type into a field that finds rows while one types, and take the first that it finds."""
    page.locator(f"select[name={field}] + .select2-container").click()
    page.locator(".select2-search__field").last.press_sequentially(words)
    found = page.locator(".select2-results__option", has_text=words).first
    expect(found).to_be_visible()
    found.click()


def look_for(page: Any, words: str) -> None:
    """Search a list."""
    page.locator("#searchbar").fill(words)
    page.locator("#searchbar").press("Enter")
    page.wait_for_load_state()


def confirm(page: Any, reason: str) -> None:
    """Say why, on the page that asks whether one is sure, and go on."""
    page.locator("#confirm-form #reason").fill(reason)
    page.locator("#confirm-form button[type=submit]").first.click()
    page.wait_for_load_state()
