"""Talk in a browser: the answer comes in pieces, beside it what was remembered, and then what was learnt."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import pytest

from conversations.models import ChatTurn, Session
from memoryhub.jobs.models import Job
from strength.models import Memory
from tests.browser.chromium import expect
from tests.browser.seeing import accessible, scrolls_sideways
from tests.browser.stage import Stage
from tests.browser.steps import press
from tests.conftest import run_jobs
from tests.fakes.llm_server import Asked, LLMServer, Reply, smallest
from tests.fakes.plugin import llm, llm_server
from tests.integration.strength.talking import item

__all__ = ["llm", "llm_server"]

PAGE = "/admin/talk/?agent=release-assistant&user=maya"
MESSAGE = "The notes server has forty testers."
LEARNT = "The notes server has forty testers, Maya says."


def scripted(*, go_on: Event | None = None) -> Callable[[Asked], Reply]:
    """Return answers to chats, in two pieces, and the facts that an extraction finds."""

    def answer(asked: Asked) -> Reply:
        if asked.schema is None:
            return Reply(pieces=("Forty testers, ", "that is many."), go_on=go_on)
        document, place = smallest(asked.schema), re.search(rf"^\[(\d+)\].*{MESSAGE}", asked.text, re.MULTILINE)
        if "facts" in document and place:
            form = smallest(asked.schema["properties"]["facts"]["items"])
            document = {**document, "facts": [{**form, **item(LEARNT, int(place[1]), confidence=0.1)}]}
        return Reply(data=document)

    return answer


def say(page: Any, text: str = MESSAGE) -> None:
    page.locator("#id_message").fill(text)
    page.locator("#talk-form button[type=submit]").click()


def test_an_answer_is_streamed_explained_and_learnt_from(page: Any, stage: Stage, llm: LLMServer) -> None:
    go_on = Event()
    llm.answer(scripted(go_on=go_on))
    page.goto(PAGE)
    accessible(page)

    say(page)
    expect(page.locator("[data-answer]")).to_have_text("Forty testers, ")
    expect(page.locator("#talk-remembered")).to_contain_text("included")
    page.locator("#id_message").fill("Typed while it answers.")
    go_on.set()
    expect(page.locator("#talk-messages")).to_contain_text("Forty testers, that is many.")
    expect(page).to_have_url(re.compile("session="))
    expect(page.locator("#talk-status")).to_have_text("The answer is complete.")
    expect(page.locator("#id_message")).to_have_value("Typed while it answers.")
    page.locator("#id_message").fill("")
    expect(page.locator("#learnt")).to_contain_text("A job reads")
    accessible(page)

    Job.objects.filter(kind="extract").update(due_at=datetime.now(UTC) - timedelta(hours=1))
    run_jobs()
    expect(page.locator("#learnt")).to_contain_text(LEARNT)
    page.locator("#learnt button[value=approve]").click()
    page.wait_for_load_state()
    assert Memory.objects.get(content=LEARNT).status == "active"
    expect(page).to_have_url(re.compile("/admin/talk/.*session="))
    expect(page.locator("#talk-messages")).to_contain_text(MESSAGE)
    accessible(page)
    press(page, "Undo")
    assert Memory.objects.get(content=LEARNT).status == "pending"


def test_the_seconds_of_a_slow_answer_are_shown_without_moving_anything(
    page: Any, stage: Stage, llm: LLMServer
) -> None:
    llm.answer(Reply(pieces=("Forty.",), delay_seconds=6.0))
    page.clock.install()
    page.goto(PAGE)
    say(page)
    bubble, elapsed = page.locator(".hub-bubble-assistant[aria-busy]"), page.locator("[data-elapsed]")
    expect(bubble).to_contain_text("waits for the model")
    expect(elapsed).to_have_text("")
    before = bubble.bounding_box()
    page.clock.fast_forward(12_000)
    expect(elapsed).to_have_text(re.compile(r"1\d s"))
    assert bubble.bounding_box() == before
    expect(elapsed).to_have_attribute("aria-hidden", "true")
    expect(page.locator("#talk-status")).to_have_text("The agent is answering.")
    accessible(page)
    expect(page.locator("#talk-messages")).to_contain_text("Forty.")
    expect(page.locator("[data-waits]")).to_have_count(0)


def test_keep_nothing_goes_on_and_stores_nothing(page: Any, stage: Stage, llm: LLMServer) -> None:
    llm.answer(scripted())
    before = (Session.objects.count(), ChatTurn.objects.count())
    page.goto(PAGE)
    page.locator("#id_keeps_nothing").check()
    say(page)
    expect(page.locator("#talk-status")).to_have_text("The answer is complete.")
    expect(page.locator("#id_message")).to_have_value("")
    page.locator("#id_message").fill("And how many servers?")
    page.locator("#id_message").press("Control+Enter")
    expect(page.locator("#talk-messages .hub-bubble")).to_have_count(4)
    expect(page.locator("#talk-status")).to_have_text("The answer is complete.")
    assert (Session.objects.count(), ChatTurn.objects.count()) == before
    accessible(page)


def test_without_a_model_the_page_says_what_to_set(page: Any, stage: Stage) -> None:
    page.goto(PAGE)
    expect(page.locator("#talk")).to_contain_text("ANTHROPIC_API_KEY")
    say(page)
    expect(page.locator("#talk-remembered")).to_contain_text("The context that would be sent")
    expect(page.locator("#id_message")).to_have_value(MESSAGE)
    accessible(page)


def test_a_model_that_fails_leaves_advice(page: Any, stage: Stage, llm: LLMServer) -> None:
    llm.answer(Reply(failure="401"))
    page.goto(PAGE)
    say(page)
    expect(page.locator("#talk-messages")).to_contain_text("refuses the key")
    expect(page.locator("#talk-status")).to_have_text("")
    page.goto("/admin/talk/?agent=release-assistant")
    page.locator("[name=user_id]").fill("maya")
    page.locator("[name=agent]").select_option(index=0)
    page.locator("[name=agent]").dispatch_event("change")
    expect(page.locator("[name=user_id]")).to_have_value("")


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_it_is_used_on_a_phone_in_japanese_and_in_the_dark(
    page_as: Callable[..., Any], stage: Stage, llm: LLMServer, dark: bool
) -> None:
    llm.answer(scripted())
    page = page_as(language="ja", width=390, dark=dark)
    page.goto(PAGE)
    say(page)
    expect(page.locator("#talk-messages")).to_contain_text("that is many.")
    expect(page.locator("#learnt h2")).to_be_visible()
    accessible(page)
    assert not scrolls_sideways(page)
