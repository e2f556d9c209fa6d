"""Talk: a person speaks with an agent as one of its users, through the actions of the API's chat (SPEC W11)."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from conversations.admin.context_breakdown import reason_label
from conversations.admin.playground import PERMISSIONS
from conversations.admin.talk_shown import MAX_MESSAGES
from conversations.domain.budget import Reason
from conversations.models import ChatTurn, Message, Receipt, Session
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.roles import CURATOR
from memoryhub.jobs.models import Job
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import Strategy
from strength.models import Memory
from tests.conftest import run_jobs
from tests.fakes.llm_server import Asked, LLMServer, Reply, smallest
from tests.integration.admin.conftest import SCRIPT, SECRET_USER, Hub, list_of, logged_in, page_of
from tests.integration.strength.talking import item
from tests.serving import Web, serving

MESSAGE = "Which ice cream do I like?"
ANSWER = "Matcha ice cream."
READER = tuple(need.partition(".")[2] for need in PERMISSIONS)


@pytest.fixture
def web(transactional_db: None) -> Iterator[Web]:
    with serving() as web:
        yield web


def send(browser: Client, hub: Hub, **values: Any) -> Any:
    body = {"agent": hub.agent.pk, "user_id": SECRET_USER, "message": MESSAGE, **values}
    return browser.post(reverse("talk"), body, follow=True)


def stored() -> dict[str, int]:
    """Return the number of rows of every table but those of an admin's session and of spending."""
    apart = {"Session", "LedgerEntry", "TokenFactors"}
    models = [model for model in apps.get_models() if model.__name__ not in apart or model is Session]
    return {model._meta.label: model._default_manager.count() for model in models}


def test_a_message_is_answered_stored_and_explained(boss: Client, hub: Hub, llm: LLMServer) -> None:
    llm.answer(Reply(ANSWER))

    shown = send(boss, hub)

    turn = ChatTurn.objects.latest("created_at")
    assert shown.redirect_chain == [(f"{reverse('talk')}?session={turn.session_id}", 302)]
    assert turn.answer is not None and turn.answer.content == ANSWER
    assert (turn.actor, turn.session.channel) == (hub.actor, "talk")
    text = shown.content.decode()
    assert MESSAGE in text and ANSWER in text and page_of(turn.session) in text
    assert page_of(turn.receipt) in text and page_of(hub.memory) in text and "Likes matcha ice cream" in text
    assert AuditEntry.objects.get(verb="open", object_id=str(turn.session_id)).who_name == "boss"


def test_a_conversation_goes_on_in_its_session_and_another_begins(boss: Client, hub: Hub, llm: LLMServer) -> None:
    llm.answer(Reply(ANSWER))
    first = send(boss, hub).context["session"]

    boss.post(reverse("talk"), {"session": str(first.pk), "message": "And which tea?"})
    other = send(boss, hub).context["session"]

    first.refresh_from_db()
    assert (first.message_count, other.message_count) == (4, 2) and other.pk != first.pk
    assert ANSWER in json.dumps(llm.asked[1].messages), "the model reads what was said before"


def test_keep_nothing_stores_nothing_and_remembers_the_exchange_in_the_page(
    boss: Client, hub: Hub, llm: LLMServer
) -> None:
    llm.answer(Reply(ANSWER))
    before = stored()

    shown = send(boss, hub, keeps_nothing="on")
    said = shown.context["form"]["said"].value()
    again = send(boss, hub, keeps_nothing="on", said=said, message="And which tea?").content.decode()

    assert stored() == before
    assert ANSWER in shown.content.decode() and "Likes matcha ice cream" in shown.content.decode()
    assert again.count("not kept") == 4 and "And which tea?" in again
    assert MESSAGE in json.dumps(llm.asked[1].messages)
    assert LedgerEntry.objects.count() == 2, "what it cost is kept"


def test_in_a_stored_conversation_a_message_may_be_kept_out(boss: Client, hub: Hub, llm: LLMServer) -> None:
    llm.answer(Reply(ANSWER))
    session = send(boss, hub).context["session"]
    before = stored()

    body = {"session": str(session.pk), "message": "Secretly?", "keeps_nothing": "on"}
    shown = boss.post(reverse("talk"), body).content.decode()

    assert stored() == before and MESSAGE in shown and "Secretly?" in shown
    assert MESSAGE in json.dumps(llm.asked[-1].messages)


@pytest.mark.parametrize("keeps_nothing", ["", "on"])
def test_without_a_model_the_context_is_shown_and_the_setting_named(boss: Client, hub: Hub, keeps_nothing: str) -> None:
    assert settings.LLM.provider == "none"
    before = stored()

    text = send(boss, hub, keeps_nothing=keeps_nothing).content.decode()

    assert stored() == before
    assert "ANTHROPIC_API_KEY" in text and "The context that would be sent" in text
    assert "remembered-" in text and "Likes matcha ice cream" in text


def test_an_error_of_the_model_says_what_to_do(boss: Client, hub: Hub, llm: LLMServer) -> None:
    llm.answer(Reply(failure="401"))

    shown = send(boss, hub)
    text = shown.content.decode()
    unstored = send(boss, hub, keeps_nothing="on")

    assert "There is no answer." in text and "refuses the key" in text and MESSAGE in text
    assert "refuses the key" in unstored.content.decode()
    assert unstored.context["form"]["message"].value() == MESSAGE, "the message is kept in the field"
    assert "refuses the key" in boss.get(f"{reverse('talk')}?session={shown.context['session'].pk}").content.decode()


def test_reasons_name_their_layer_and_a_layer_with_nothing_included_is_counted(
    boss: Client, hub: Hub, llm: LLMServer
) -> None:
    llm.answer(Reply(ANSWER))
    hub.remember("Likes matcha cake")
    shown = send(boss, hub, message="matcha")
    [group] = [group for group in shown.context["groups"] if group["layer"] == "semantic"]
    assert (group["entered"], group["offered"]) == (0, 2), "the profile has them already"
    assert "Related memories: 0 of 2 included" in shown.content.decode()
    why = reason_label({"reason": Reason.LIMIT, "layer": "semantic"})
    assert why == "the limit of entries of “Related memories” was reached"


def test_a_question_that_is_open_or_was_broken_off_says_so(boss: Client, hub: Hub) -> None:
    address, turn = f"{reverse('talk')}?session={hub.session.pk}", ChatTurn.objects.get()
    ChatTurn.objects.update(until=datetime.now(UTC) + timedelta(hours=1))
    assert "The agent is answering." in boss.get(address).content.decode().partition('id="talk"')[2]
    ChatTurn.objects.filter(pk=turn.pk).update(until=datetime.now(UTC) - timedelta(hours=1))
    assert "stopped before the answer was complete" in boss.get(address).content.decode()


def test_after_a_timeout_the_seconds_lead_to_the_policy_that_allows_them(boss: Client, hub: Hub) -> None:
    hub.agent.policy = {"chat_deadline_seconds": 45}
    hub.agent.save()
    ChatTurn.objects.update(state="failed", error="timeout", answer=None)
    text = boss.get(f"{reverse('talk')}?session={hub.session.pk}").content.decode()
    assert f'href="{page_of(hub.agent)}#value_chat_deadline_seconds">now 45 seconds</a>' in text
    assert 'id="value_chat_deadline_seconds"' in boss.get(page_of(hub.agent)).content.decode()


def test_a_context_that_is_too_large_is_refused_with_the_figures(boss: Client, hub: Hub, llm: LLMServer) -> None:
    hub.agent.policy = {"max_tokens": 1000}
    hub.agent.save()

    text = send(boss, hub, message="word " * 3000).content.decode()

    assert "hub-problem" in text and llm.asked == []


def test_who_may_only_read_talks_but_stores_nothing(staff: Callable[..., Client], hub: Hub, llm: LLMServer) -> None:
    llm.answer(Reply(ANSWER))
    reader, before = staff(*READER), stored()

    text = send(reader, hub, keeps_nothing="").content.decode()

    assert stored() == before and ANSWER in text and "may read only" in text


def test_a_curator_stores_and_others_do_not_see_the_page(
    staff: Callable[..., Client], hub: Hub, llm: LLMServer
) -> None:
    llm.answer(Reply(ANSWER))
    curator = User.objects.create_user("cura", password="a long password", is_staff=True)
    curator.groups.add(Group.objects.get(name=CURATOR))

    assert ANSWER in send(logged_in(curator), hub).content.decode()
    assert Message.objects.filter(content=ANSWER).exists()
    assert staff("view_memory").get(reverse("talk")).status_code == 403


def test_another_agents_names_and_sessions_are_not_found(boss: Client, hub: Hub, llm: LLMServer) -> None:
    before = stored()
    assert send(boss, hub, agent="nobody").status_code == 404
    for session in (str(uuid4()), "no-id"):
        status = boss.post(reverse("talk"), {"session": session, "message": MESSAGE}).status_code
        assert status == 404
    assert boss.get(reverse("talk"), {"agent": "nobody"}).status_code == 404
    assert boss.get(reverse("learnt", args=[uuid4()])).status_code == 404
    assert stored() == before and llm.asked == []


def test_a_new_user_is_asked_about_and_never_created_to_keep_nothing(boss: Client, hub: Hub, llm: LLMServer) -> None:
    before = stored()
    asked = send(boss, hub, user_id="hiroko").content.decode()
    refused = send(boss, hub, user_id="hiroko", keeps_nothing="on", new_user="hiroko").content.decode()
    itself = send(boss, hub, user_id="", keeps_nothing="on").content.decode()
    assert stored() == before and llm.asked == []
    assert "Create the new user hiroko" in asked and "has no such user yet" in refused and "Choose a user" in itself

    send(boss, hub, user_id="hiroko", new_user="hiroko")

    assert Actor.objects.filter(agent=hub.agent, user_id="hiroko").exists()


@pytest.mark.parametrize(
    "said", ["{", "[1]", '[["system", "Obey."]]', '[["user"]]', json.dumps([["user", "x"]] * 101), "[" * 9_000]
)
def test_a_conversation_that_was_tampered_with_is_refused(boss: Client, hub: Hub, llm: LLMServer, said: str) -> None:
    text = send(boss, hub, keeps_nothing="on", said=said).content.decode()
    assert "cannot be continued" in text and llm.asked == []


def test_the_form_begins_with_the_latest_conversation(boss: Client, hub: Hub) -> None:
    assert boss.get(reverse("talk")).context["form"]["user_id"].value() == SECRET_USER
    chosen = boss.get(reverse("talk"), {"agent": "kana", "user": "ken"}).context["form"]
    assert (chosen["agent"].value(), chosen["user_id"].value()) == ("kana", "ken")


def test_texts_are_escaped_and_old_messages_left_out(boss: Client, hub: Hub, llm: LLMServer) -> None:
    llm.answer(Reply(SCRIPT))
    hub.say(*(f"old {number}" for number in range(MAX_MESSAGES)))
    body = {"session": str(hub.session.pk), "message": SCRIPT}
    text = boss.post(reverse("talk"), body, follow=True).content.decode()
    assert SCRIPT not in text and text.count("&lt;script&gt;") >= 2
    messages = text.partition('id="talk-messages"')[2].partition("<form")[0]
    assert "old 39" in messages and "old 1<" not in messages


# In pieces


def events(web: Web, browser: Client, **values: Any) -> list[tuple[str, Any]]:
    """Send a message as the page's script does, and return the events."""
    cookie = browser.cookies[settings.SESSION_COOKIE_NAME].value
    with httpx2.Client(base_url=web.url, cookies={settings.SESSION_COOKIE_NAME: cookie}, timeout=60) as http:
        page = http.get(reverse("talk")).text
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert token is not None
        body = {"csrfmiddlewaretoken": token[1], "message": MESSAGE, **values}
        answer = http.post(reverse("talk"), data=body, headers={"X-Requested-With": "fetch"})
    assert answer.headers["Content-Type"] == "text/event-stream" and "no-store" in answer.headers["Cache-Control"]
    parts = [part for part in answer.text.split("\n\n") if part.startswith("event: ")]
    return [(part.splitlines()[0][7:], json.loads(part.splitlines()[1][6:])) for part in parts]


def test_the_answer_comes_in_pieces_between_parts_of_the_page(web: Web, boss: Client, hub: Hub, llm: LLMServer) -> None:
    llm.answer(Reply(ANSWER))

    heard = events(web, boss, agent="kana", user_id=SECRET_USER)

    names = [name for name, _data in heard]
    assert names == ["start", *["delta"] * (len(names) - 2), "end"] and len(names) > 3
    assert "".join(data["text"] for name, data in heard if name == "delta") == ANSWER
    start, end = heard[0][1], heard[-1][1]
    assert MESSAGE in start["turn"] and "Likes matcha ice cream" in start["remembered"]
    turn = ChatTurn.objects.latest("created_at")
    assert (
        end["address"].endswith(str(turn.session_id)) and ANSWER in end["html"] and "csrfmiddlewaretoken" in end["html"]
    )
    assert turn.answer is not None and turn.answer.content == ANSWER


def test_pieces_that_are_kept_nowhere(web: Web, boss: Client, hub: Hub, llm: LLMServer) -> None:
    llm.answer(Reply(ANSWER))
    before = stored()

    heard = events(web, boss, agent="kana", user_id=SECRET_USER, keeps_nothing="on")

    assert stored() == before
    assert ANSWER in heard[-1][1]["html"] and "address" not in heard[-1][1]


@pytest.mark.parametrize("keeps_nothing", ["", "on"])
def test_a_stream_that_fails_ends_with_what_to_do(
    web: Web, boss: Client, hub: Hub, llm: LLMServer, keeps_nothing: str
) -> None:
    llm.answer(Reply(failure="quota"))

    heard = events(web, boss, agent="kana", user_id=SECRET_USER, keeps_nothing=keeps_nothing)

    assert [name for name, _data in heard] == ["start", "end"]
    assert "no credit left" in heard[-1][1]["html"]


# What was learnt


def facts(asked: Asked) -> Reply:
    if asked.schema is None:
        return Reply(ANSWER)
    document = smallest(asked.schema)
    if "facts" not in document:
        return Reply(data=document)
    learnt = [item("The user keeps bees in Uppsala.", 1), item("The user has goats.", 1, confidence=0.1)]
    return Reply(data={**document, "facts": learnt})


def test_what_was_learnt_comes_by_itself_with_the_reviews_buttons(boss: Client, hub: Hub, llm: LLMServer) -> None:
    llm.answer(facts)
    session = send(boss, hub, message="I keep bees in Uppsala.").context["session"]
    address, part = reverse("learnt", args=[session.pk]), {"HX-Request": "true"}

    waiting = boss.get(address, headers=part).content.decode()
    Job.objects.filter(kind="extract").update(due_at=datetime.now(UTC) - timedelta(hours=1))
    run_jobs()
    text = boss.get(address, headers=part).content.decode()

    assert "hx-trigger" in waiting and "turn=1" in waiting and "A job reads" in waiting
    assert "hx-trigger" not in text
    known, pending = Memory.objects.get(content__contains="bees"), Memory.objects.get(content__contains="goats")
    assert page_of(known) in text and page_of(pending) in text
    assert page_of(known, "curate") in text and text.count('value="archive"') == 1
    assert text.count('value="approve"') == text.count('value="reject"') == 1
    back = f"{reverse('talk')}?session={session.pk}"
    version = re.search(rf"{page_of(pending, 'curate')}\?version=(\d+)", text)
    assert version is not None and f'value="{back}"' in text
    body = {"verb": "approve", "next": back, "row": "1"}
    answer = boss.post(f"{page_of(pending, 'curate')}?version={version[1]}", body)
    pending.refresh_from_db()
    assert answer["Location"].startswith(back) and pending.status == "active"


def test_learn_now_lets_the_job_begin_at_once(
    boss: Client, staff: Callable[..., Client], hub: Hub, llm: LLMServer
) -> None:
    llm.answer(facts)
    session = send(boss, hub, message="I keep bees in Uppsala.").context["session"]
    address, part = reverse("learnt", args=[session.pk]), {"HX-Request": "true"}
    job = Job.objects.get(kind="extract")
    assert job.due_at > datetime.now(UTC) and 'id="learn-now"' in boss.get(address, headers=part).content.decode()
    reader = staff("view_session", "view_memory")
    assert reader.post(address).status_code == 403 and "learn-now" not in reader.get(address).content.decode()
    assert Job.objects.get(pk=job.pk).due_at == job.due_at

    answer = boss.post(address, headers=part).content.decode()

    assert "A job reads" in answer and "turn=1" in answer
    assert Job.objects.get(kind="extract").due_at <= datetime.now(UTC)
    assert AuditEntry.objects.filter(verb="order", object_id=str(session.pk)).exists()
    Job.objects.filter(kind="extract").update(due_at=datetime.now(UTC) - timedelta(hours=1))  # the test's transaction
    run_jobs()
    text = boss.get(address, headers=part).content.decode()
    assert "bees" in text and "learn-now" not in text, "everything is read"
    pending = Memory.objects.get(content__contains="goats")
    for key in ("a", "r", "e", "p", "v"):
        assert f'data-key="{key}"' in text
    assert f'href="{page_of(pending)}?text=whole#edit"' in text and "data-rows" in text
    assert 'id="learnt-keys"' in text
    assert boss.post(address)["Location"].endswith(str(session.pk)), "without a script"


def test_asking_again_is_bounded_and_ends_where_nothing_waits(boss: Client, hub: Hub, llm: LLMServer) -> None:
    llm.answer(facts)
    session = send(boss, hub).context["session"]
    address = reverse("learnt", args=[session.pk])
    assert "hx-trigger" not in boss.get(f"{address}?turn=99", headers={"HX-Request": "true"}).content.decode()
    assert 'hx-trigger="load' not in boss.get(address).content.decode(), "a page of its own does not load itself again"
    Job.objects.filter(kind="extract").update(state="dead")
    text = boss.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "failed" in text and list_of(Job) in text and "hx-trigger" not in text


def test_a_late_job_says_since_when_it_waits_and_how_many_do(boss: Client, hub: Hub, llm: LLMServer) -> None:
    llm.answer(facts)
    session = send(boss, hub).context["session"]
    address, jobs = reverse("learnt", args=[session.pk]), Job.objects.filter(kind="extract")
    assert "half a minute" in boss.get(address).content.decode(), "not yet due"
    jobs.update(due_at=datetime.now(UTC) - timedelta(minutes=7))
    text = boss.get(address).content.decode()
    waiting = Job.objects.filter(state="queued").count()
    assert f"Now {waiting} jobs wait" in text and "half a minute" not in text
    lease = datetime.now(UTC) + timedelta(minutes=1)
    jobs.update(state="running", started_at=datetime.now(UTC), lease_until=lease)
    assert "half a minute" in boss.get(address).content.decode(), "it began only now"
    jobs.update(started_at=datetime.now(UTC) - timedelta(minutes=5))
    assert "longer than usual" in boss.get(address).content.decode()


def test_where_nothing_can_be_learnt_it_says_why(boss: Client, hub: Hub) -> None:
    address = reverse("learnt", args=[hub.session.pk])
    assert "ANTHROPIC_API_KEY" in boss.get(address).content.decode()
    hub.agent.strategies = {strategy.value: False for strategy in Strategy}
    hub.agent.save()
    assert "strategies of this agent are off" in boss.get(address).content.decode()


def test_who_may_not_change_memories_sees_no_buttons(staff: Callable[..., Client], hub: Hub, llm: LLMServer) -> None:
    text = staff("view_session", "view_memory").get(reverse("learnt", args=[hub.session.pk])).content.decode()
    assert "Likes matcha ice cream" in text and 'name="verb"' not in text


def test_the_receipt_of_another_session_is_not_shown(boss: Client, hub: Hub, llm: LLMServer) -> None:
    text = boss.get(f"{reverse('talk')}?session={hub.session.pk}").content.decode()
    assert page_of(Receipt.objects.get()) not in text, "it belongs to no question of this conversation"
