"""The news in a browser: a line is decided by a key and stays in its place, and reading is undone."""

from collections.abc import Callable
from typing import Any

from memoryhub.auth.principals import Principal, PrincipalKind
from strength.actions.memories import NewMemory, write_memory
from strength.domain.memories import Status
from tests.browser.chromium import expect
from tests.browser.seeing import accessible
from tests.browser.stage import Stage
from tests.browser.steps import press
from tests.browser.test_memories import curate

NEWS = "/admin/news/?since=1&user=maya&agent=release-assistant"
STRANGER = Principal(kind=PrincipalKind.KEY, id="k", name="inbox", is_trusted=False)


def test_lines_are_decided_by_the_keys_of_the_review(page_as: Callable[..., Any], stage: Stage) -> None:
    waiting = [
        write_memory(actor=stage.maya, new=NewMemory(content=f"Maya saw whale {n}."), by=STRANGER, now=stage.now)[0]
        for n in range(3)
    ]
    page = page_as(width=1440)
    page.goto(NEWS)
    accessible(page)
    for _line in range(2):
        page.keyboard.press("j")
    expect(page.locator(".list-current")).to_contain_text("whale 1")
    for key, status in (("a", Status.ACTIVE), ("v", Status.ARCHIVED)):
        curate(page, key)
        expect(page.locator(".list-current")).to_contain_text("whale 1")
        waiting[1].refresh_from_db()
        assert waiting[1].status == status
    curate(page, "u")
    waiting[1].refresh_from_db()
    assert waiting[1].status == Status.ACTIVE
    for _line in range(3):
        page.keyboard.press("j")
    curate(page, "r")
    expect(page.locator(".list-current")).to_contain_text("whale 0")
    waiting[0].refresh_from_db()
    assert waiting[0].status == Status.REJECTED


def test_all_is_read_by_one_press_and_unread_by_another(page: Any, stage: Stage) -> None:
    stage.remember("Maya saw a narwhal.")
    page.goto("/admin/news/")
    lines = page.locator(".news-row").count()
    assert lines
    page.locator("#read-form button").click()
    page.wait_for_load_state()
    expect(page.locator(".news-row")).to_have_count(0)
    press(page, "Undo")
    expect(page.locator(".news-row")).to_have_count(lines)
