"""Decide all like this: pending memories with the same wording, source, reasons and values, as one batch (SPEC W12)."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.actions import create_agent
from memoryhub.auth.models import AuditEntry
from memoryhub.tenancy.models import Actor
from strength.actions import review_alike
from strength.actions.curation import delete_memory, edit_memory
from strength.actions.memories import NewMemory, write_memory
from strength.actions.review_alike import alike_memories
from strength.domain.memories import Kind, ScopeLevel, Status
from strength.domain.review import masked_wording
from strength.models import Memory, MemoryRevision
from tests.integration.admin.conftest import BY, NOW, Hub
from tests.integration.admin.test_review import STRANGER, decisions, everything, fresh, queue, told, undo

WORDING = "Version {} of the library is out."


def written(actor: Actor, content: str, **options: Any) -> Memory:
    """Write a memory that waits, as an untrusted key."""
    return write_memory(actor=actor, new=NewMemory(content=content, **options), by=STRANGER, now=NOW)[0]


def versions(actor: Actor, *numbers: int, **options: Any) -> list[Memory]:
    return [written(actor, WORDING.format(number), **options) for number in numbers]


def page_for(browser: Client, memory: Memory) -> Any:
    response = browser.get(reverse("review_alike", args=[memory.pk]))
    assert response.status_code == 200
    return response


def decide(browser: Client, shown: Any, verb: str, **values: Any) -> Any:
    """Press a button of the page as it was shown, and follow the redirect."""
    rows = re.findall(r'name="row" value="([^"]+)"', shown.content.decode())
    return browser.post(shown.request["PATH_INFO"], {"row": rows, "verb": verb, **values}, follow=True)


def states(memories: list[Memory]) -> list[str]:
    return [fresh(memory).status for memory in memories]


def test_the_review_leads_to_the_memories_alike(boss: Client, hub: Hub) -> None:
    first, *_ = versions(hub.actor, 1, 2, 3)
    text = queue(boss, agent="kana").content.decode()
    assert f'{reverse("review_alike", args=[first.pk])}?agent=kana" aria-keyshortcuts="l"' in text


@pytest.mark.parametrize(("verb", "status"), [("approve", Status.ACTIVE), ("reject", Status.REJECTED)])
def test_one_decision_takes_all_alike_and_one_undo_reverts_it(
    boss: Client, hub: Hub, verb: str, status: Status
) -> None:
    alike, other = versions(hub.actor, 1, 2, 3), written(hub.actor, "Another library is out.")
    before, blocked = [everything(memory) for memory in alike], decisions(hub)
    page = page_for(boss, alike[1])
    assert (
        page.context["memories"] == [alike[1], alike[0], alike[2]]
        and "3 memories are pending with this wording" in page.content.decode()
    )
    answer = decide(boss, page, verb, reason="All of them.")
    assert states(alike) == [status] * 3 and fresh(other).status == Status.PENDING
    assert answer.context["memory"] == other and "(3)" in answer.context["done"]["words"]
    revisions = MemoryRevision.objects.filter(memory__in=alike, verb=verb)
    assert len({revision.batch for revision in revisions}) == 1 and {each.reason for each in revisions} == {
        "All of them."
    }
    assert AuditEntry.objects.filter(verb=verb, object_kind="memory").count() == 3
    assert LogEntry.objects.filter(change_message=verb).count() == 3
    undone = undo(boss, answer)
    assert states(alike) == [Status.PENDING] * 3 and "3 memories are pending again" in told(undone)
    assert [everything(memory) for memory in alike] == before and decisions(hub) == blocked
    assert undone.context["count"] == 0, "the round counts none of them"


def test_a_round_counts_each_memory(boss: Client, hub: Hub) -> None:
    alike = versions(hub.actor, 1, 2)
    answer = decide(boss, page_for(boss, alike[0]), "approve")
    assert answer.context["count"] == 2 and list(answer.context["tally"]) == [("approved", 2)]


def test_other_users_and_agents_are_left(boss: Client, hub: Hub) -> None:
    create_agent(agent_id="other", values={}, by=BY, now=NOW)
    here = versions(hub.actor, 1, 2)
    there = [
        written(actor_for_writing(BY, agent, user, now=NOW), WORDING.format(1))
        for agent, user in (("kana", "second"), ("kana", ""), ("other", hub.actor.user_id))
    ]
    page = page_for(boss, here[0])
    assert page.context["memories"] == here
    rows = [f"{memory.pk}:{memory.version}" for memory in (*here, *there)]
    boss.post(page.request["PATH_INFO"], {"row": rows, "verb": "approve"})
    assert states(here) == [Status.ACTIVE] * 2 and states(there) == [Status.PENDING] * 3, "nor if they are posted"


@pytest.mark.parametrize(
    "options",
    [
        {"tags": ["trusted"]},
        {"kind": Kind.PREFERENCE},
        {"namespace": "/elsewhere/"},
        {"scope_level": ScopeLevel.PROJECT, "scope_project": "launch"},
        {"valid_from": NOW - timedelta(days=1)},
        {"valid_to": NOW + timedelta(days=400)},
        {"channel": "mail"},
        {"metadata": {"shown": "no"}},
        {"learnings": {"planner": "Update at once."}},
        {"strength": 2.0},
        {"confidence": 0.1},
    ],
    ids=lambda options: "-".join(options),
)
def test_another_value_is_not_alike(hub: Hub, options: dict[str, Any]) -> None:
    """An untrusted writer cannot have more approved by repeating a wording: other values are decided alone."""
    plain, second, other = *versions(hub.actor, 1, 2), *versions(hub.actor, 3, **options)
    assert alike_memories(plain) == [plain, second] and alike_memories(other) == [other]


def test_another_source_is_not_alike(hub: Hub) -> None:
    plain, *_ = versions(hub.actor, 1, 2)
    quoted = versions(hub.actor, 3, source_message_ids=[hub.messages[0].pk])[0]
    assert alike_memories(quoted) == [quoted] and len(alike_memories(plain)) == 2


def test_a_former_decision_is_not_reverted_with_others(hub: Hub) -> None:
    forbidden = hub.remember(WORDING.format(7))
    delete_memory(memory=forbidden, expected_version=None, by=BY, reason="", now=NOW)
    plain, second = versions(hub.actor, 1, 2)
    again = written(hub.actor, WORDING.format(7))
    assert again.status == Status.PENDING
    assert alike_memories(plain) == [plain, second] and alike_memories(again) == [again]


@pytest.mark.parametrize("content", [WORDING.format(99), "Another wording."])
def test_a_text_that_changed_since_it_was_shown_is_left(boss: Client, hub: Hub, content: str) -> None:
    alike = versions(hub.actor, 1, 2, 3)
    page = page_for(boss, alike[0])
    edit_memory(memory=alike[1], values={"content": content}, expected_version=None, by=BY, reason="", now=NOW)
    late = versions(hub.actor, 4)[0]
    answer = decide(boss, page, "approve")
    assert states([*alike, late]) == [Status.ACTIVE, Status.PENDING, Status.ACTIVE, Status.PENDING]
    assert "1 left unchanged" in told(answer)


def test_an_item_that_was_decided_leads_back(boss: Client, hub: Hub) -> None:
    [memory] = versions(hub.actor, 1)
    page = page_for(boss, memory)
    decide(boss, page, "reject")
    assert "This item is no longer pending." in told(decide(boss, page, "approve"))
    assert fresh(memory).status == Status.REJECTED


def test_an_unknown_verb_decides_nothing(boss: Client, hub: Hub) -> None:
    [memory] = versions(hub.actor, 1)
    decide(boss, page_for(boss, memory), "delete")
    assert fresh(memory).status == Status.PENDING


def test_only_curators_decide(hub: Hub, staff: Callable[..., Client]) -> None:
    [memory] = versions(hub.actor, 1)
    browser = staff("view_memory", "change_memory")
    assert browser.get(reverse("review_alike", args=[memory.pk])).status_code == 403
    assert browser.post(reverse("review_alike", args=[memory.pk]), {"verb": "approve"}).status_code == 403


def test_no_more_than_the_limit_are_decided_at_once(boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_alike, "MAX_ALIKE", 2)
    monkeypatch.setattr("strength.admin.review_alike.MAX_ALIKE", 2)
    alike = versions(hub.actor, 1, 2, 3, 4)
    page = page_for(boss, alike[3])
    assert "There are more" in page.content.decode() and page.context["count"] == 2
    decide(boss, page, "approve")
    assert states(alike) == [Status.ACTIVE, Status.PENDING, Status.PENDING, Status.ACTIVE]


def test_a_page_of_many_asks_a_few_statements_for_each(boss: Client, hub: Hub) -> None:
    counts = []
    for numbers in (range(2), range(2, 12)):
        *_, memory = versions(hub.actor, *numbers)
        with CaptureQueriesContext(connection) as statements:
            page_for(boss, memory)
        counts.append(len(statements))
    assert counts[1] - counts[0] <= 10 * 4


@pytest.mark.parametrize(
    ("text", "is_alike"),
    [
        ("version  12 of THE library is out.", True),
        ("Ｖｅｒｓｉｏｎ １２ of the library is out.", True),
        ("Version 1.2 of the library is out.", False),
        ("Version 12 of the library is not out.", False),
        ("Version\u200b 12 of the library is out.", False),
    ],
)
def test_wordings_differ_by_more_than_numbers_case_width_and_spaces(text: str, is_alike: bool) -> None:
    assert (masked_wording(text) == masked_wording(WORDING.format(3))) is is_alike
