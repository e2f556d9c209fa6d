"""A row's own page shows its texts whole, with their line breaks; lists show the beginning (SPEC W13)."""

from html import unescape

import pytest
from django.db.models import Model
from django.test import Client

from conversations.models import ChatTurn, Message, Receipt, TurnState
from strength.models import Expectation, ExpectationState, Task
from summaries.models import RoutingDecision
from tests.integration.admin.conftest import NOW, Hub, page_of

LONG = "\n".join(f"{number}. The tea house on the hill opens at nine." for number in range(600))


def chat_turn(hub: Hub) -> ChatTurn:
    question, answer = hub.messages
    return ChatTurn.objects.create(
        actor=hub.actor, session=hub.session, question=question, answer=answer, receipt=hub.receipt, body_digest="x",
        state=TurnState.ANSWERED, until=NOW, created_at=NOW,
    )  # fmt: skip


def decision(hub: Hub) -> RoutingDecision:
    return RoutingDecision.objects.create(
        actor=hub.actor, message=LONG, channel="slack", confidence="low", action="ask", reason=LONG, created_at=NOW
    )


def expectation(hub: Hub) -> Expectation:
    return Expectation.objects.create(
        actor=hub.actor, receipt=hub.receipt, memory_id=hub.memory.pk, is_wanted=True, created_at=NOW,
        state=ExpectationState.KEPT, checked_at=NOW,
    )  # fmt: skip


ROWS = {
    "message": (lambda hub: hub.messages[0], 1),
    "receipt": (lambda hub: hub.receipt, 1),
    "chat turn": (chat_turn, 2),
    "routing": (decision, 2),
    "expectation": (expectation, 1),
    "task": (lambda hub: Task.objects.create(actor=hub.actor, query=LONG, created_at=NOW), 1),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_rows_page_shows_its_texts_whole(boss: Client, hub: Hub, name: str) -> None:
    make, times = ROWS[name]
    Message.objects.filter(session=hub.session).update(content=LONG)
    Receipt.objects.filter(pk=hub.receipt.pk).update(query=LONG)
    row: Model = make(hub)
    page = unescape(boss.get(page_of(row)).content.decode())
    assert page.count(f">{LONG}<") >= times, "with its last line, and its line breaks"
