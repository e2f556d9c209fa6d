"""Instructions for models, tried on a stored session before they are saved (SPEC L7, W3)."""

from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from conversations.actions.messages import add_messages
from conversations.domain.messages import NewMessage, Role
from conversations.models import Message, Session
from memoryhub.jobs.models import Job
from strength.models import Memory
from summaries.models import Summary
from tests.fakes.llm_server import Asked, LLMServer, Reply, smallest
from tests.integration.admin.conftest import BY, NOW, SECRET_USER, Hub
from tests.integration.strength.talking import item

PAGE = "instructions"
FACT = "The user keeps bees in Uppsala."
LIE = "The user has 14 goats."


@pytest.fixture
def session(hub: Hub) -> Session:
    """A session in which something was said."""
    batch = [
        NewMessage(role=Role.USER, content="I keep bees in Uppsala."),
        NewMessage(role=Role.ASSISTANT, content="Nice."),
    ]
    add_messages(session=hub.session, batch=batch, by=BY, now=NOW)
    return hub.session


def answer(asked: Asked) -> Reply:
    if asked.schema is None:
        return Reply("They talked about bees in Uppsala.")
    place = next(line[1] for line in asked.text.splitlines() if "I keep bees" in line)
    facts = [item(text, int(place)) for text in (FACT, LIE)]
    return Reply(data={**smallest(asked.schema), "facts": facts})


def stored() -> list[Any]:
    tables = (Memory, Summary, Job, Message)
    return [*(table.objects.count() for table in tables), list(Session.objects.values_list("message_count", flat=True))]


def test_both_instructions_reach_their_prompts_and_nothing_is_stored(
    boss: Client, session: Session, llm: LLMServer
) -> None:
    llm.answer(answer)
    before = stored()

    body = {"session": str(session.pk), "extraction_instructions": "Only animals.", "summary_instructions": "In rhyme."}
    shown = boss.post(reverse(PAGE), body)

    text = shown.content.decode()
    assert FACT in text and "They talked about bees in Uppsala." in text
    assert LIE in text and "14" in text and "would be pending" in text
    extraction, summary = llm.asked
    assert extraction.system.endswith("Only animals.") and summary.system.endswith("In rhyme.")
    assert stored() == before


def test_the_form_begins_with_what_is_saved(boss: Client, session: Session) -> None:
    session.actor.policy = {"summary_instructions": "Short."}
    session.actor.save()

    text = boss.get(reverse(PAGE), {"session": str(session.pk)}).content.decode()

    assert "Short." in text and f'value="{session.pk}" selected' in text


def test_a_provider_that_fails_is_named_at_each_trial(boss: Client, session: Session, llm: LLMServer) -> None:
    llm.answer(Reply(failure="401"))

    text = boss.post(reverse(PAGE), {"session": str(session.pk)}).content.decode()

    assert text.count("refuses our key") == 2


def test_an_unknown_session_and_too_long_instructions_are_refused(boss: Client, hub: Hub, llm: LLMServer) -> None:
    text = boss.post(reverse(PAGE), {"session": str(uuid4()), "summary_instructions": "x" * 2_001}).content.decode()

    assert "There is no such session." in text and "2" in text
    assert llm.asked == []


def test_sessions_are_offered_with_their_owner(boss: Client, session: Session) -> None:
    assert f"{session.actor.agent_id} / {SECRET_USER}" in boss.get(reverse(PAGE)).content.decode()
