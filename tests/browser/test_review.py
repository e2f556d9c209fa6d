"""The review queue by keys alone and by buttons alone: decided, told, taken back."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db.models import F

from memoryhub.auth.principals import Principal, PrincipalKind
from strength.actions.memories import NewMemory, write_memory
from strength.models import Memory, Merge
from tests.browser.chromium import expect
from tests.browser.seeing import accessible, scrolls_sideways
from tests.browser.stage import Stage
from tests.browser.steps import press

STRANGER = Principal(kind=PrincipalKind.KEY, id="k", name="inbox", is_trusted=False)


def waiting(stage: Stage, *texts: str) -> list[Memory]:
    """Write memories of Maya's that wait."""
    return [stage.remember(text, confidence=0.1) for text in texts]


def mine(stage: Stage) -> str:
    return f"/admin/review/?agent={stage.maya.agent_id}&user={stage.maya.user_id}&sort="


MARK_AS_FORMER = "() => { document.querySelector('#review > div').dataset.former = '1'; }"
IS_NEW = "() => document.querySelector('#review > div:not([data-former])') && document.readyState === 'complete'"


def hit(page: Any, key: str) -> None:
    """Press a key and wait for what it leads to."""
    page.evaluate(MARK_AS_FORMER)
    page.keyboard.press(key)
    page.wait_for_function(IS_NEW)


def click(page: Any, name: str) -> None:
    """Press a button and wait for what it leads to."""
    page.evaluate(MARK_AS_FORMER)
    page.get_by_role("button", name=name).first.click()
    page.wait_for_function(IS_NEW)


COMPOSED_ESCAPE = """document.activeElement.dispatchEvent(
    new KeyboardEvent("keydown", {key: "Escape", isComposing: true, bubbles: true}))"""


def click_in_dialog(page: Any, words: str) -> None:
    page.locator("#unsaved").get_by_role("button", name=words).click()


def states(memories: list[Memory]) -> list[str]:
    found = dict(Memory.objects.filter(pk__in=[each.pk for each in memories]).values_list("pk", "status"))
    return [found[each.pk] for each in memories]


@pytest.fixture
def clean(stage: Stage) -> None:
    """Leave nothing of Maya's that waits from other tests."""
    Memory.objects.filter(actor=stage.maya, status="pending").delete()


def test_memories_are_decided_and_undone_by_keys(page: Any, stage: Stage, clean: None) -> None:
    memories = waiting(stage, "Maya owns a canoe.", "Maya plays the cello.", "Maya collects stamps.")
    page.goto(mine(stage) + "memory")
    expect(page.locator("#item-text")).to_have_text("Maya owns a canoe.")
    expect(page.locator("#place")).to_have_text("1 of 3")
    accessible(page)
    hit(page, "a")
    expect(page.locator(".review-done")).to_contain_text("Approved")
    expect(page.locator("#item-text")).to_have_text("Maya plays the cello.")
    expect(page.locator("#item-title")).to_be_focused()
    hit(page, "s")
    expect(page.locator("#item-text")).to_have_text("Maya collects stamps.")
    hit(page, "r")
    assert states(memories) == ["active", "pending", "rejected"]
    expect(page.locator("#place")).to_contain_text("skipped before")
    hit(page, "u")
    expect(page.locator("#item-text")).to_have_text("Maya collects stamps.")
    hit(page, "u")
    assert states(memories) == ["pending", "pending", "pending"]


def test_all_alike_are_decided_and_undone_by_keys(page: Any, stage: Stage, clean: None) -> None:
    memories = waiting(stage, "Version 1 is out.", "Version 2 is out.", "Maya owns a canoe.")
    page.goto(mine(stage) + "memory")
    page.keyboard.press("l")
    expect(page.get_by_role("heading", name="2 memories are pending with this wording")).to_be_visible()
    page.keyboard.press("a")
    expect(page.locator(".review-done")).to_contain_text("Approved (2)")
    expect(page.locator("#place")).to_have_text("3 of 3")
    assert states(memories) == ["active", "active", "pending"]
    hit(page, "u")
    expect(page.locator("#item-text")).to_have_text("Version 1 is out.")
    assert states(memories) == ["pending", "pending", "pending"]


def test_what_is_put_off_is_listed_and_brought_back(page: Any, stage: Stage, clean: None) -> None:
    waiting(stage, "Maya owns a canoe.", "Maya plays the cello.", "Maya rows.")
    page.goto(mine(stage) + "memory")
    hit(page, "z")
    hit(page, "z")
    page.get_by_role("link", name="Put off: 2").click()
    listed = page.get_by_role("region", name="Put off").get_by_role("listitem")
    expect(listed).to_have_count(2)
    accessible(page)
    listed.filter(has_text="cello").get_by_role("button", name="Back in the queue").click()
    expect(listed).to_have_count(1)
    expect(page.locator(".review-done")).to_contain_text("Back in the queue")
    hit(page, "u")
    expect(listed).to_have_count(2)


def test_items_are_put_off_taken_and_commented_on_by_keys(page: Any, stage: Stage, clean: None) -> None:
    memories = waiting(stage, "Maya owns a canoe.", "Maya plays the cello.")
    page.goto(mine(stage) + "memory")
    hit(page, "z")
    expect(page.locator(".review-done")).to_contain_text("Put off")
    expect(page.locator("#item-text")).to_have_text("Maya plays the cello.")
    expect(page.locator("#place")).to_have_text("1 of 1")
    hit(page, "u")
    expect(page.locator("#item-text")).to_have_text("Maya owns a canoe.")
    hit(page, "t")
    expect(page.locator("#plan")).to_contain_text("Assigned to you")
    page.keyboard.press("c")
    expect(page.locator("#comment-text")).to_be_focused()
    page.keyboard.type("Ask Maya, z and t.")
    click(page, "Add the comment")
    expect(page.locator("#comments")).to_contain_text("Ask Maya, z and t.")
    accessible(page)
    hit(page, "u")
    expect(page.locator("#comments")).not_to_contain_text("Ask Maya")
    hit(page, "t")
    expect(page.locator("#plan")).to_have_count(0)
    assert states(memories) == ["pending", "pending"]


@pytest.mark.slow
def test_a_text_is_put_right_by_keys_and_keys_are_letters_in_a_field(page: Any, stage: Stage, clean: None) -> None:
    [memory] = waiting(stage, "Maya owns a canoo.")
    page.goto(mine(stage) + "memory")
    page.keyboard.press("w")
    page.keyboard.type("rare")
    expect(page.locator("#reject-form input[name=reason]")).to_have_value("rare")
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    field = page.locator("#edit-content")
    expect(field).to_be_focused()
    field.fill("Maya owns a ")
    page.keyboard.press("End")
    page.keyboard.type("kayak, ram")
    click(page, "Save and approve")
    memory.refresh_from_db()
    assert (memory.content, memory.status) == ("Maya owns a kayak, ram", "active")


def test_a_typed_text_is_not_lost_by_keys_and_buttons(page: Any, stage: Stage, clean: None) -> None:
    first, second, third = waiting(stage, "Maya owns a canoo.", "Maya plays the celo.", "Maya collects stamp.")
    page.goto(mine(stage) + "memory")

    def type_in(text: str) -> None:
        page.keyboard.press("e")
        page.locator("#edit-content").fill(text)
        page.keyboard.press("Escape")

    type_in("Maya owns a canoe.")
    hit(page, "a")
    first.refresh_from_db()
    assert (first.content, first.status) == ("Maya owns a canoe.", "active")
    expect(page.locator("#item-text")).to_have_text("Maya plays the celo.")
    type_in("Maya plays the cello.")
    for key in ("s", "r"):
        page.keyboard.press(key)
        expect(page.locator("#unsaved")).to_be_visible()
        click_in_dialog(page, "Back to the text")
        expect(page.locator("#edit-content")).to_have_value("Maya plays the cello.")
    page.locator("#edit-content").focus()
    page.evaluate(COMPOSED_ESCAPE)
    expect(page.locator("#edit-content")).to_be_focused()
    page.evaluate(MARK_AS_FORMER)
    page.keyboard.press("Control+Enter")
    page.wait_for_function(IS_NEW)
    second.refresh_from_db()
    assert (second.content, second.status) == ("Maya plays the cello.", "active")
    type_in("Maya collects coins.")
    page.keyboard.press("s")
    page.evaluate(MARK_AS_FORMER)
    click_in_dialog(page, "Discard it and continue")
    page.wait_for_function(IS_NEW)
    third.refresh_from_db()
    assert (third.content, third.status) == ("Maya collects stamp.", "pending")


def test_a_typed_text_outlives_a_session_that_ended_and_a_conflict(page: Any, stage: Stage, clean: None) -> None:
    [memory] = waiting(stage, "Maya owns a boot.")
    page.goto(mine(stage) + "memory")
    page.keyboard.press("e")
    page.locator("#edit-content").fill("Maya owns a boat.")
    cookies = page.context.cookies()
    page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    page.get_by_role("button", name="Save and approve").first.click()
    page.wait_for_url("**/login/**")
    page.context.add_cookies(cookies)
    page.goto(mine(stage) + "memory")
    expect(page.locator("#edit-content")).to_have_value("Maya owns a boat.")
    Memory.objects.filter(pk=memory.pk).update(content="Maya owns a raft.", version=F("version") + 1)
    click(page, "Save and approve")
    expect(page.locator("#item-text")).to_have_text("Maya owns a raft.")
    expect(page.locator("#edit-content")).to_have_value("Maya owns a boat.")
    hit(page, "a")
    memory.refresh_from_db()
    assert (memory.content, memory.status) == ("Maya owns a boat.", "active")


@pytest.mark.slow
def test_who_puts_a_text_right_goes_on_at_its_end(page: Any, stage: Stage, clean: None) -> None:
    [memory] = waiting(stage, "Maya owns a piano\nand a stool")
    page.goto(mine(stage) + "memory")
    page.keyboard.press("e")
    expect(page.locator("#edit-content")).to_be_focused()
    page.keyboard.type(" of oak.")
    click(page, "Save and approve")
    memory.refresh_from_db()
    assert memory.content == "Maya owns a piano\nand a stool of oak."


@pytest.mark.slow
def test_the_keys_are_shown_and_can_be_switched_off(page: Any, stage: Stage, clean: None) -> None:
    memories = waiting(stage, "Maya owns a tandem.")
    page.goto(mine(stage) + "memory")
    page.keyboard.press("?")
    expect(page.locator("#review-keys")).to_be_visible()
    accessible(page)
    page.keyboard.press("a")
    page.get_by_label("Use these keys in this browser").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("a")
    page.reload()
    page.keyboard.press("a")
    assert states(memories) == ["pending"]


def test_a_pair_is_merged_and_parted_by_keys(page: Any, stage: Stage) -> None:
    proposal = stage.proposal("Maya swims in the lake.", "Maya actually swims in the lake.")
    page.goto(mine(stage) + f"merge&at=merge:{proposal.pk}")
    expect(page.locator(".review-other .review-own")).to_have_text("actually ")
    accessible(page)
    page.keyboard.press("2")
    hit(page, "m")
    stored = Merge.objects.get(pk=proposal.pk)
    assert (stored.state, stored.kept_id) == ("merged", proposal.absorbed_id)
    hit(page, "u")
    assert Merge.objects.get(pk=proposal.pk).state == "proposed"
    hit(page, "k")
    assert Merge.objects.get(pk=proposal.pk).state == "dismissed"


LINES = """(cell) => getComputedStyle(cell.querySelector(".review-own")).textDecorationLine"""


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_a_pair_says_what_will_happen_to_each(page_as: Callable[..., Any], stage: Stage, dark: bool) -> None:
    proposal = stage.proposal(f"Maya skis{' far' * dark}.", f"Maya actually skis{' far' * dark}.")
    page = page_as(dark=dark)
    for address in (mine(stage) + f"merge&at=merge:{proposal.pk}", f"/admin/strength/merge/{proposal.pk}/change/"):
        page.goto(address)
        heads, cell = (page.locator(".review-heads [role=columnheader]"), page.locator(".review-other.review-cell"))
        for chosen, said, line, marked in (
            (0, ["Stays", "Is merged into it"], "line-through", "only in the archived one:"),
            (1, ["Is merged into it", "Stays"], "underline", "only in the kept one:"),
            (0, ["Stays", "Is merged into it"], "line-through", "only in the archived one:"),
        ):
            page.locator("input[name=stays]").nth(chosen).check()
            assert [heads.nth(number).inner_text() for number in range(2)] == said
            table = page.locator("thead th[scope=col]")
            assert [table.nth(number).inner_text().split(" · ")[0] for number in range(2)] == said
            assert cell.evaluate(LINES) == line and marked in cell.inner_text()
            accessible(page)


@pytest.mark.slow
def test_from_the_list_to_a_merged_pair_are_two_clicks(page: Any, stage: Stage) -> None:
    proposal = stage.proposal("The boat is called Otter.", "The boat is actually called Otter.")
    page.goto("/admin/strength/merge/")
    page.locator("#result_list tr", has_text="called Otter").locator("a[href*='/change/']").first.click()
    press(page, "Merge")
    proposal.refresh_from_db()
    assert proposal.state == "merged"
    press(page, "Undo")
    proposal.refresh_from_db()
    assert proposal.state == "proposed"


def test_it_works_by_buttons_on_a_phone_without_scripts(page_as: Callable[..., Any], stage: Stage, clean: None) -> None:
    memories = waiting(stage, "Maya bakes bread " + "every single morning " * 20)
    page = page_as(width=360, dark=True)
    page.route(
        re.compile(r"/(keys|review)\.js"),
        lambda route: route.fulfill(status=200, body="", content_type="text/javascript"),
    )
    page.goto(mine(stage) + "memory")
    assert not scrolls_sideways(page)
    accessible(page)
    page.locator("#approve-form button[value=approve]").click()
    page.wait_for_load_state()
    assert states(memories) == ["active"]
    page.locator("#undo-form button").click()
    page.wait_for_load_state()
    assert states(memories) == ["pending"]


@pytest.mark.slow
def test_it_is_there_in_japanese(page_as: Callable[..., Any], stage: Stage, clean: None) -> None:
    waiting(stage, "マヤは毎朝パンを焼く。")
    page = page_as(language="ja")
    page.goto(mine(stage) + "memory")
    assert page.locator("html").get_attribute("lang") == "ja"
    expect(page.locator("#item-text")).to_have_text("マヤは毎朝パンを焼く。")


@pytest.mark.slow
def test_two_curators_have_different_items_and_see_the_teams_instructions(
    page_as: Callable[..., Any], stage: Stage, clean: None
) -> None:
    memories = waiting(stage, "Maya owns a barge.", "Maya owns a raft.")
    boss, other = page_as(), page_as("curator")
    boss.goto(mine(stage) + "memory")
    boss.locator("#instructions summary").click()
    boss.locator("#instructions-text").fill("Nothing about boats that sink.")
    click(boss, "Save the instructions")
    expect(boss.locator("#item-text")).to_have_text("Maya owns a barge.")
    other.goto(mine(stage) + "memory")
    expect(other.locator("#instructions")).to_contain_text("Nothing about boats that sink.")
    expect(other.locator("#item-text")).to_have_text("Maya owns a raft.")
    hit(other, "a")
    expect(other.locator("#nothing")).to_contain_text("open for boss")
    expect(other.locator("#tally")).to_contain_text("1 approved")
    accessible(other)
    hit(boss, "r")
    expect(boss.locator("#nothing")).to_have_text(re.compile("other items? (is|are) pending"))
    assert states(memories) == ["rejected", "active"]
    accessible(boss)


@pytest.mark.slow
def test_who_may_not_decide_sees_no_queue(page_as: Callable[..., Any], stage: Stage) -> None:
    page = page_as("view_memory", "view_merge")
    assert page.goto("/admin/review/").status == 403
    page.goto("/admin/strength/merge/")
    expect(page.locator("a[href='/admin/review/']")).to_have_count(0)


def test_a_decision_about_all_alike_becomes_a_rule_that_is_taken_back(page: Any, stage: Stage, clean: None) -> None:
    def report(number: int) -> Memory:
        new = NewMemory(content=f"Build {number} of the harbour map is done.", channel="github")
        return write_memory(actor=stage.maya, new=new, by=STRANGER, now=stage.now)[0]

    waiting_ones = [report(1), report(2)]
    page.goto(mine(stage) + "memory")
    page.keyboard.press("l")
    page.get_by_label("Decide new ones like these the same from now on").check()
    accessible(page)
    page.keyboard.press("a")
    page.wait_for_url("**/admin/review/**")
    expect(page.get_by_text("decided the same from now on")).to_be_visible()
    assert states([*waiting_ones, report(3)]) == ["active"] * 3
    page.get_by_role("link", name="The rule").click()
    expect(page.locator("#decided li")).to_have_count(1)
    accessible(page)
    press(page, "Take back")
    expect(page.get_by_text("The rule was taken back")).to_be_visible()
    assert states([report(4)]) == ["pending"]
    press(page, "Undo all that it decided")
    assert states([*waiting_ones]) == ["active"] * 2
