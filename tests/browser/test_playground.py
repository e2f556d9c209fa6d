"""The playground in a browser: from a question to the context, another budget, a pin and its undoing."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from conversations.models import Receipt
from strength.models import Memory
from tests.browser.chromium import expect
from tests.browser.seeing import accessible, scrolls_sideways
from tests.browser.stage import Stage, page_of
from tests.browser.steps import press

MAYA = "maya"
RELEASE = "release-assistant"

QUESTION = "When do we ship the notes server, and what does search do?"


def test_users_and_sessions_are_those_of_the_agent(page: Any, stage: Stage) -> None:
    page.goto(f"/admin/playground/?agent={RELEASE}&user={MAYA}")
    expect(page.locator("#id_session")).to_contain_text("Launch day")
    page.locator("#id_agent").select_option("yuno")
    expect(page.locator("#id_session")).to_contain_text("今日の晩ごはん")
    expect(page.locator("#users option")).to_have_count(1)


def ask(page: Any, button: str = "Show the context") -> None:
    page.goto("/admin/playground/")
    page.locator("#id_agent").select_option(RELEASE)
    page.locator("#id_user").select_option(MAYA)
    page.locator("#id_message").fill(QUESTION)
    press(page, button)


def test_a_budget_a_pin_and_its_undoing(page: Any, stage: Stage) -> None:
    ask(page)
    expect(page.locator("#budget-bar")).to_be_visible()
    expect(page.locator("#candidates")).to_contain_text("included whole")
    accessible(page)
    press(page, "1,000 tokens")
    expect(page.locator("#result")).to_contain_text("Token limit")
    expect(page.locator("#sides")).to_contain_text("of 800 tokens are used")
    page.locator("[data-hub-show=left]").click()
    expect(page.locator("#candidates tr[data-entered=yes]").first).to_be_hidden()
    page.locator("[data-hub-show=all]").click()
    button = page.locator("#candidates button[value=pin]").first
    memory = Memory.objects.get(pk=re.search(r"memory/([0-9a-f-]+)/", button.get_attribute("formaction")).group(1))  # type: ignore[union-attr]
    page.locator("#curate input[name=reason]").fill("It matters")
    button.click()
    page.wait_for_load_state()
    memory.refresh_from_db()
    assert memory.pinned
    expect(page).to_have_url(re.compile(r"/admin/playground/\?run="))
    expect(page.locator("#id_message")).to_have_value(QUESTION)
    expect(page.locator("#comes-back")).to_be_visible()
    accessible(page)
    press(page, "Undo")
    memory.refresh_from_db()
    assert not memory.pinned
    page.goto(page.url)
    press(page, "Show the context")
    expect(page.locator("#result")).to_contain_text("Compared with the run before")
    accessible(page)


@pytest.mark.slow
@pytest.mark.parametrize("has_clipboard", [True, False])
def test_the_prompt_is_copied_also_where_the_page_has_no_clipboard(
    page: Any, stage: Stage, has_clipboard: bool
) -> None:
    if not has_clipboard:  # as over plain http
        page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.add_init_script(
        "document.addEventListener('copy', () => { window.copied = String(window.getSelection()); });"
        "if (navigator.clipboard)"
        " navigator.clipboard.writeText = async (text) => { window.copied = text; };"
    )
    ask(page)
    press(page, "Prompt")
    expect(page.locator("#candidates")).to_be_hidden()
    press(page, "Copy as JSON")
    expect(page.locator("#copy-prompt")).to_contain_text("Copied")
    assert QUESTION in page.evaluate("window.copied")
    accessible(page)


@pytest.mark.slow
def test_a_receipt_is_kept_and_opened_again(page: Any, stage: Stage) -> None:
    ask(page)
    press(page, "Show the context and keep its receipt")
    page.locator("#result a[href*='/receipt/']").click()
    page.wait_for_load_state()
    receipt = Receipt.objects.latest("created_at")
    expect(page).to_have_url(re.compile(str(receipt.pk)))
    accessible(page)
    press(page, "Open in the playground")
    expect(page.locator("#result")).to_contain_text("Compared with the run before")
    expect(page.locator("#id_message")).to_have_value(QUESTION)


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_it_is_used_on_a_phone_in_japanese_and_in_the_dark(
    page_as: Callable[..., Any], stage: Stage, dark: bool
) -> None:
    page = page_as(language="ja", width=360, dark=dark)
    page.goto("/admin/playground/")
    page.locator("#id_agent").select_option(RELEASE)
    page.locator("#id_user").select_option(MAYA)
    page.locator("#id_message").fill(QUESTION)
    page.locator("#playground-form button[type=submit]:not([name])").click()
    page.wait_for_load_state()
    expect(page.locator("#candidates")).to_be_visible()
    accessible(page)
    assert not scrolls_sideways(page)


@pytest.mark.slow
def test_who_may_not_read_messages_does_not_see_it(page_as: Callable[..., Any], stage: Stage) -> None:
    page = page_as("view_receipt")
    assert page.goto("/admin/playground/").status == 403
    page.goto(page_of(Receipt.objects.latest("created_at")))
    expect(page.locator("#candidates")).to_be_visible()
    expect(page.locator("#try-again")).to_have_count(0)
