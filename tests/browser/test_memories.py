"""A curator's day with memories: find, open, put right, pin, put aside, bring back."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from strength.domain.memories import Status
from strength.models import Memory, MemoryRevision
from tests.browser.chromium import expect
from tests.browser.seeing import accessible
from tests.browser.stage import Stage, page_of
from tests.browser.steps import choose, look_for, press

MAYA = "maya"
RELEASE = "release-assistant"

LIST = "/admin/strength/memory/"


def test_a_memory_is_found_by_its_words_and_opened(page: Any, stage: Stage) -> None:
    memory = stage.remember("The harbour of Otaru freezes in January.")
    page.goto(LIST)
    look_for(page, "harbour Otaru")
    rows = page.locator("#result_list a", has_text="The harbour of Otaru")
    expect(rows).to_have_count(1)
    rows.click()
    expect(page).to_have_url(re.compile(re.escape(page_of(memory))))


@pytest.mark.slow
def test_a_list_is_narrowed_by_a_filter(page: Any, stage: Stage) -> None:
    waiting = Memory.objects.filter(status=Status.PENDING).count()
    page.goto(LIST)
    page.get_by_role("button", name="Filters").first.press("Enter")
    page.locator("select[name=status__exact]").first.select_option(str(Status.PENDING))
    page.get_by_role("button", name="Apply Filters").first.click()
    page.wait_for_load_state()
    expect(page.locator("#result_list .action-select")).to_have_count(waiting)


def curate(page: Any, key: str) -> None:
    """Press a key and wait for the page that it leads to."""
    page.evaluate("() => { window.isTheFormer = true; }")
    page.keyboard.press(key)
    page.wait_for_function("() => !window.isTheFormer && document.readyState === 'complete'")


def visible_rows(page: Any) -> int:
    """Return how many rows stand whole between the list's head and the bar below it."""
    return int(
        page.evaluate(
            """() => {
            const bar = document.querySelector("[class*=scrollable-top]").getBoundingClientRect().top;
            return [...document.querySelectorAll("#result_list tr.data-row")]
                .filter((row) => row.getBoundingClientRect().bottom <= bar).length;
        }"""
        )
    )


def test_a_screen_shows_many_memories_and_one_press_decides(page_as: Callable[..., Any], stage: Stage) -> None:
    first, second, third = (stage.remember(f"Maya saw seal {number}.") for number in range(3))
    page = page_as(width=1440)
    page.goto(LIST)
    assert visible_rows(page) >= 18
    accessible(page)
    for key in "jjj":
        page.keyboard.press(key)
    page.keyboard.press("k")
    expect(page.locator("tr.list-current")).to_contain_text("seal 1")
    page.keyboard.press("x")
    expect(page.locator("tr.list-current input.action-select")).to_be_checked()
    for key, row, state in (("p", second, ("active", True)), ("v", second, ("archived", False))):
        curate(page, key)
        expect(page.locator("tr.list-current")).to_contain_text("seal 1")
        row.refresh_from_db()
        assert (row.status, row.pinned) == state
    page.locator("tr.list-current").get_by_role("button", name=re.compile("Reactivate")).click()
    page.wait_for_load_state()
    second.refresh_from_db()
    assert second.status == Status.ACTIVE
    page.goto(f"{LIST}?status__exact=active")
    page.locator("tr.data-row", has_text="seal 2").get_by_role("button", name=re.compile("Archive")).click()
    expect(page.locator("tr.data-row", has_text="seal 2")).to_have_count(0)
    press(page, "Undo")
    third.refresh_from_db()
    assert third.status == Status.ACTIVE and first.status == Status.ACTIVE


def test_a_search_by_meaning_is_one_click(page: Any, stage: Stage) -> None:
    page.goto(f"{LIST}?q=which+licence+do+we+use&actor__agent__agent_id__exact={RELEASE}")
    page.get_by_label("meaning").check()
    expect(page.locator("#searched-by-meaning")).to_contain_text(f"Memories of {RELEASE}")
    expect(page.locator("#result_list")).to_contain_text(re.compile("licen[cs]e", re.IGNORECASE))


@pytest.mark.slow
def test_filters_go_one_by_one_and_a_view_comes_back(page: Any, stage: Stage) -> None:
    page.goto(f"{LIST}?kind__exact=fact&user={MAYA}")
    page.get_by_text("Save this view").click()
    page.get_by_label("Name of the view").fill("Maya's facts")
    press(page, "Save")
    accessible(page)
    page.get_by_label(re.compile("Remove the filter.*user")).click()
    expect(page).to_have_url(re.compile(r"\?kind__exact=fact$"))
    page.goto(LIST)
    page.get_by_role("link", name="Maya's facts").click()
    expect(page).to_have_url(re.compile(r"user=maya"))
    page.get_by_label("Delete the view Maya's facts").click()
    expect(page.get_by_role("link", name="Maya's facts")).to_have_count(0)


TO_THE_END = """(row) => {
    for (let each = row; each; each = each.parentElement) {
        if (getComputedStyle(each).overflowY !== "visible" || each === document.documentElement) { each.scrollTop = 1e6; }
    }
}"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 360])
def test_the_bar_of_a_long_lists_actions_leaves_the_last_row_free(
    page_as: Callable[..., Any], stage: Stage, width: int
) -> None:
    for number in range(30):
        stage.remember(f"Maya counted {number} boats at {width}.")
    page = page_as(width=width)
    page.goto(LIST)
    page.locator("#result_list .action-select").last.check()
    bar, row = page.locator("#changelist-actions"), page.locator("#result_list tr").last
    expect(bar).to_be_visible()
    row.evaluate(TO_THE_END)
    end, beginning = (each.bounding_box() for each in (row, bar))
    assert end["y"] + end["height"] <= beginning["y"]


@pytest.mark.slow
def test_a_memorys_page_is_read_at_one_look(page_as: Callable[..., Any], stage: Stage) -> None:
    memory = stage.remember("The harbour pilot is called Sven, and he answers on channel 16 only.")
    page = page_as(width=1440)
    page.goto(page_of(memory))
    parts = ("#memory-text", "#curate", "#id_reason", "#strength-chart canvas", "#strength-summary", "#contexts")
    for part in parts:
        box = page.locator(part).bounding_box()
        assert box["y"] + box["height"] <= 900, part
    accessible(page)


def test_an_edit_keeps_its_reason_and_is_restored(page: Any, stage: Stage) -> None:
    memory = stage.remember("Maya's cat is called Mog.")
    page.goto(page_of(memory))
    page.keyboard.press("e")
    expect(page.locator("#id_content")).to_be_focused()
    expect(page.locator("#memory-text")).to_be_hidden()
    page.locator("#id_content").fill("Maya's cat is called Mogg.")
    page.locator("#id_reason").fill("two letters g")
    press(page, "Save")
    revision = MemoryRevision.objects.filter(memory=memory).latest("number")
    assert (revision.number, revision.reason) == (2, "two letters g")
    page.goto(page_of(memory))
    expect(page.locator("#revision-2")).to_contain_text("two letters g")
    page.locator("#revision-1").get_by_role("button", name=re.compile("Restore")).click()
    page.wait_for_load_state()
    memory.refresh_from_db()
    assert memory.content == "Maya's cat is called Mog."
    assert MemoryRevision.objects.filter(memory=memory).count() == 3


def test_a_memory_is_pinned_put_aside_and_brought_back(page: Any, stage: Stage) -> None:
    memory = stage.remember("The office closes at eight.")
    page.goto(page_of(memory))
    page.locator("#id_reason").fill("everybody asks")
    page.keyboard.press("Escape")
    curate(page, "p")
    memory.refresh_from_db()
    assert memory.pinned
    assert MemoryRevision.objects.filter(memory=memory).latest("number").reason == "everybody asks"
    for button, status in (("Archive", Status.ARCHIVED), ("Reactivate", Status.ACTIVE)):
        page.goto(page_of(memory))
        if button == "Archive":
            curate(page, "p")
        page.locator("#curate").get_by_role("button", name=re.compile(f"^{button}")).click()
        page.wait_for_load_state()
        memory.refresh_from_db()
        assert memory.status == status


@pytest.mark.slow
def test_enter_in_a_field_decides_nothing(page: Any, stage: Stage) -> None:
    memory = stage.remember("Maya keeps a bicycle in the hall.")
    page.goto(page_of(memory))
    page.locator("#strength > summary").click()
    for field in (page.locator("#id_reason"), page.locator("#use-form input[name=perspective]")):
        field.fill("because")
        field.press("Enter")
    memory.refresh_from_db()
    assert (memory.version, memory.pinned) == (1, False)
    assert memory.numbers.access_count == 0


def test_a_pending_memory_is_approved_on_its_page(page: Any, stage: Stage) -> None:
    memory = stage.remember("Maya may have moved to Otaru.", confidence=0.1)
    assert memory.status == Status.PENDING
    page.goto(page_of(memory))
    curate(page, "a")
    memory.refresh_from_db()
    assert memory.status == Status.ACTIVE


def test_a_memory_is_written(page: Any, stage: Stage) -> None:
    page.goto(f"{LIST}add/")
    choose(page, "agent", RELEASE)
    page.locator("#id_user_id").fill(MAYA)
    page.locator("#id_content").fill("Maya's desk stands by the window.")
    press(page, "Save")
    memory = Memory.objects.get(content="Maya's desk stands by the window.")
    assert (memory.actor_id, memory.status) == (stage.maya.pk, Status.ACTIVE)


@pytest.mark.slow
def test_what_is_typed_survives_a_press_of_another_button(page: Any, stage: Stage) -> None:
    memory = stage.remember("The tide turns at six.")
    page.goto(page_of(memory))
    page.keyboard.press("e")
    page.locator("#id_content").fill("The tide turns at seven.")
    page.locator("#curate").get_by_role("button", name=re.compile("^Pin")).click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("not saved yet")
    accessible(page)
    question.get_by_role("button", name="Back to the text").click()
    expect(page.locator("#id_content")).to_have_value("The tide turns at seven.")
    memory.refresh_from_db()
    assert not memory.pinned, "the press was refused"
    page.locator("#curate").get_by_role("button", name=re.compile("^Pin")).click()
    question.get_by_role("button", name="Save").click()
    page.wait_for_load_state()
    page.locator("#curate").get_by_role("button", name=re.compile("^Pin")).click()
    page.wait_for_load_state()
    memory.refresh_from_db()
    assert (memory.content, memory.pinned) == ("The tide turns at seven.", True)


LEAVES_FREELY = "() => dispatchEvent(new Event('beforeunload', {cancelable: true}))"


@pytest.mark.slow
def test_leaving_a_page_with_unsaved_text_asks_first(page: Any, stage: Stage) -> None:
    memory = stage.remember("The ferry is blue.")
    page.goto(page_of(memory))
    assert page.evaluate(LEAVES_FREELY), "nothing was typed"
    page.locator("#edit > summary").click()
    page.locator("#id_content").fill("The ferry is white.")
    assert not page.evaluate(LEAVES_FREELY)
    page.locator("#id_content").fill("The ferry is blue.")
    assert page.evaluate(LEAVES_FREELY), "it is as it was"


@pytest.mark.slow
def test_a_search_in_vain_says_so_and_leads_back(page: Any, stage: Stage) -> None:
    page.goto(f"{LIST}?q=zebrawurst")
    expect(page.locator("#changelist")).to_contain_text("Nothing found for “zebrawurst”")
    expect(page.locator("#changelist")).not_to_contain_text("Create a new item")
    page.get_by_role("link", name="Show everything").click()
    expect(page.locator("#result_list")).to_be_visible()


def test_escape_empties_the_palette_then_closes_it(page: Any) -> None:
    page.goto(LIST)
    page.keyboard.press("Control+k")
    field = page.locator("#search-input-command")
    field.fill("qqqqqqq")
    expect(page.get_by_text("Nothing contains")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Nothing contains")).to_have_count(0)
    expect(field).to_be_focused()
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()
