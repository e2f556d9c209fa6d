"""A session's timeline: messages in order, what came of them, a page at a time however long the session is."""

import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.translation import override

from conversations.actions.messages import abandon, add_messages
from conversations.actions.sessions import open_session
from conversations.admin import timeline as pages
from conversations.domain.messages import NewMessage, Role
from conversations.models import ChatTurn, Message, Receipt, Session
from memoryhub.api.middleware import TIME_ZONE_COOKIE
from memoryhub.auth.models import AuditEntry
from memoryhub.jobs.models import Job
from memoryhub.tenancy.models import Actor
from strength.admin.panels import USED_ENTRIES
from strength.models import Memory, UseReport
from summaries.actions.routing import route_message
from summaries.actions.summaries import SUMMARIES
from summaries.models import Summary
from tests.database import prepared
from tests.integration.admin.conftest import BY, NOW, SCRIPT, Hub, list_of, page_of

MOST_BYTES = 400_000
MOST_QUERIES = 25
RTL = "\u202e\u05e9\u05dc\u05d5\u05dd"


def timeline(browser: Client, session: Session, **values: Any) -> Any:
    return browser.get(reverse("admin:conversations_session_timeline", args=[session.pk]), values)


def numbers(response: Any) -> list[int]:
    return [each["message"].seq for each in response.context["page"]["messages"]]


def events(response: Any) -> dict[str, list[tuple[int, Any]]]:
    """Return the events by their titles: after which message, and the event."""
    page = response.context["page"]
    told = [(0, event) for event in page["first"]]
    told += [(each["message"].seq, event) for each in page["messages"] for event in each["entries"]]
    found: dict[str, list[tuple[int, Any]]] = {}
    for seq, event in told:
        found.setdefault(str(event.title), []).append((seq, event))
    return found


@pytest.fixture
def long(hub: Hub) -> Session:
    """Return a session of 5,000 messages over many days, each of quotation marks."""
    return prepared("5,000 messages", lambda: write_many(hub.actor))


def write_many(actor: Actor) -> Session:
    session = Session.objects.create(actor=actor, channel="api", started_at=NOW, message_count=5_000)
    Message.objects.bulk_create(
        Message(
            actor=actor,
            session=session,
            seq=number,
            role="user" if number % 2 else "assistant",
            content=f"number-{number}. " + '"<' * 1_000,
            token_count=9,
            created_at=NOW + timedelta(hours=number),
        )
        for number in range(1, 5_001)
    )
    return session


def test_messages_stand_in_order_with_what_came_of_them(boss: Client, hub: Hub) -> None:
    route_message(actor=hub.actor, message="Where?", channel="slack", session=hub.session, by=BY, now=NOW)
    response = timeline(boss, hub.session)
    text, told = response.content.decode(), events(response)
    assert numbers(response) == [1, 2, 3]
    assert all(f'id="message-{message.pk}"' in text for message in hub.messages)
    ((seq, born),) = told["A memory was created"]
    assert seq == 2 and born.text == "Likes matcha ice cream" and born.page == page_of(hub.memory)
    ((seq, asked),) = told["Model call"]
    assert seq == 3 and str(asked.state) == "being answered"
    ((_, context),) = told["Context assembled for"]
    assert context.page == page_of(hub.receipt) and context.text == hub.receipt.query
    ((seq, summary),) = told["The summary was written"]
    assert seq == 2 and summary.page == page_of(hub.summary)
    assert "A new project was proposed" in told or "No project was found for the message" in told


def test_a_message_of_an_abandoned_branch_says_so(boss: Client, hub: Hub) -> None:
    assert "continued from an earlier message" not in timeline(boss, hub.session).content.decode()
    abandon(hub.messages[1], NOW)
    text = timeline(boss, hub.session).content.decode()
    assert text.count("continued from an earlier message") == 1
    assert text.index(f'id="message-{hub.messages[1].pk}"') < text.index("continued from an earlier message")


def test_a_session_is_called_by_its_first_current_message(boss: Client, hub: Hub) -> None:
    Session.objects.filter(pk=hub.session.pk).update(title="")
    first, second = hub.messages[:2]
    assert first.content in timeline(boss, hub.session).context["title"]
    abandon(first, NOW)
    title = timeline(boss, hub.session).context["title"]
    assert second.content in title and first.content not in title
    overview = boss.get(list_of(Session)).content.decode()
    assert second.content in overview and first.content not in overview
    assert "Abandoned at" in boss.get(page_of(first)).content.decode()


def test_the_sessions_page_is_its_timeline(boss: Client, hub: Hub) -> None:
    text = boss.get(page_of(hub.session)).content.decode()
    assert f'id="message-{hub.messages[0].pk}"' in text and "data-hub-timeline" in text
    assert boss.get(f"/admin/conversations/session/{hub.memory.pk}/timeline/").status_code == 302


def test_memories_that_an_answer_used_are_told_at_the_answer(boss: Client, hub: Hub) -> None:
    answer = add_messages(
        session=hub.session, batch=[NewMessage(role=Role.ASSISTANT, content="Matcha.")], by=BY, now=NOW
    ).messages[0]
    ChatTurn.objects.update(answer=answer, receipt=hub.receipt, state="answered", use_noted_at=NOW, finished_at=NOW)
    assert "The answer used a memory" not in events(timeline(boss, hub.session))
    task = hashlib.sha256(f"chat:{ChatTurn.objects.get().pk}".encode()).hexdigest()
    UseReport.objects.create(actor=hub.actor, memory=hub.memory, task=task)
    ((seq, used),) = events(timeline(boss, hub.session))["The answer used a memory"]
    assert seq == answer.seq and used.page == page_of(hub.memory)
    assert USED_ENTRIES.needs == ("strength.view_memory",)


@pytest.mark.slow
def test_a_long_session_is_read_a_page_at_a_time(boss: Client, long: Session) -> None:
    timeline(boss, long)
    with CaptureQueriesContext(connection) as queries:
        first = timeline(boss, long)
    assert len(queries) <= MOST_QUERIES and len(first.content) <= MOST_BYTES
    assert numbers(first) == list(range(1, 51)) and first.context["earlier"] is None
    second = boss.get(first.context["later"])
    assert numbers(second) == list(range(51, 101))
    assert numbers(boss.get(second.context["earlier"])) == list(range(1, 51))
    last = boss.get(first.context["last"])
    assert numbers(last) == list(range(4_951, 5_001)) and last.context["later"] is None
    assert numbers(boss.get(last.context["first"])) == list(range(1, 51))
    assert numbers(timeline(boss, long, after="999999999")) == list(range(4_951, 5_001))


def test_one_jumps_to_a_day_and_to_a_message(boss: Client, long: Session) -> None:
    day = (NOW + timedelta(days=100)).date()
    found = timeline(boss, long, date=day.isoformat())
    assert found.context["page"]["messages"][0]["message"].created_at.date() == day
    assert found.context["earlier"] and found.context["later"]
    assert numbers(timeline(boss, long, date="2099-01-01"))[-1] == 5_000
    assert numbers(timeline(boss, long, date="2000-01-01"))[0] == 1
    message = Message.objects.get(session=long, seq=3_000)
    page = timeline(boss, long, at=str(message.pk))
    assert 3_000 in numbers(page) and f'id="message-{message.pk}"' in page.content.decode()


def test_one_searches_within_the_session(boss: Client, long: Session) -> None:
    found = timeline(boss, long, q="NUMBER-12")
    assert numbers(found)[:3] == [12, 120, 121] and len(numbers(found)) == 50
    following = boss.get(found.context["later"])
    assert numbers(following)[0] > numbers(found)[-1] and "q=NUMBER-12" in found.context["later"]
    nothing = timeline(boss, long, q="100%_nowhere")
    assert numbers(nothing) == [] and "No message of this session" in nothing.content.decode()


def test_a_search_reads_a_part_of_the_session_at_a_time(
    boss: Client, long: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pages.SEARCH_BATCH_SIZE <= 20_000
    monkeypatch.setattr(pages, "SEARCH_BATCH_SIZE", 2_000)
    found, read = timeline(boss, long, q="NUMBER-4999."), []
    while not numbers(found):
        assert "None of them contains these words." in found.content.decode()
        assert "Search later messages" in found.content.decode()
        read.append(found.context["page"]["searched"])
        found = boss.get(found.context["later"])
    assert read == [(1, 2_000), (2_001, 4_000)] and numbers(found) == [4_999]
    assert found.context["page"]["searched"] == (4_001, 5_000) and found.context["later"] is None
    found, read = timeline(boss, long, q="NUMBER-1.", last="1"), []
    while not numbers(found):
        assert "Search earlier messages" in found.content.decode()
        read.append(found.context["page"]["searched"])
        found = boss.get(found.context["earlier"])
    assert read == [(3_001, 5_000), (1_001, 3_000)] and numbers(found) == [1]
    assert found.context["page"]["searched"] == (1, 1_000) and found.context["earlier"] is None
    assert "Messages 1 to 1000 of 5000 were searched." in found.content.decode().replace(",", "")
    assert numbers(boss.get(found.context["later"])) == []


def test_a_search_meets_every_message_once_in_both_directions(
    boss: Client, long: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SEARCH_BATCH_SIZE", 700)
    wanted = [number for number in range(1, 5_001) if str(number).startswith("12")]
    page, met = timeline(boss, long, q="number-12"), []
    while True:
        met += numbers(page)
        if page.context["later"] is None:
            break
        page = boss.get(page.context["later"])
    assert met == wanted
    page, met = timeline(boss, long, q="number-12", last="1"), []
    while True:
        met = numbers(page) + met
        if page.context["earlier"] is None:
            break
        page = boss.get(page.context["earlier"])
    assert met == wanted


@pytest.mark.parametrize(
    "values", [{"q": "x", "before": "1"}, {"q": "x", "after": "999999999"}, {"q": "x", "date": "2099-01-01"}]
)
def test_a_search_from_beyond_the_ends_opens_all_the_same(boss: Client, hub: Hub, values: Any) -> None:
    assert timeline(boss, hub.session, **values).status_code == 200
    empty = Session.objects.create(actor=hub.actor, channel="api", started_at=NOW)
    assert numbers(timeline(boss, empty, **values)) == []


def test_events_are_told_in_words(boss: Client, hub: Hub) -> None:
    route_message(actor=hub.actor, message="Where?", channel="slack", session=hub.session, by=BY, now=NOW)
    Memory.objects.update(status="pending")
    address = reverse("admin:conversations_session_timeline", args=[hub.session.pk])
    told = [
        event for each in events(boss.get(address, headers={"accept-language": "ja"})).values() for _seq, event in each
    ]
    (born,) = [event for event in told if event.page == page_of(hub.memory)]
    (route,) = [event for event in told if event.page and "routingdecision" in event.page]
    with override("en"):
        assert (str(born.state), born.colour) == ("pending", "warning")
    with override("ja"):
        words = [str(born.state), *map(str, (*born.details, *route.details))]
    raw = {"pending", "preference", "high", "medium", "low"}
    assert not raw & set(words) and all(not word.isascii() for word in words)


@pytest.mark.parametrize(
    "values", [{"after": "x"}, {"before": "0"}, {"at": "x"}, {"date": "2026-13-45"}, {"show": "x"}]
)
def test_addresses_that_cannot_be_read_open_all_the_same(boss: Client, hub: Hub, values: Any) -> None:
    assert timeline(boss, hub.session, **values).status_code == 200


def test_one_chooses_what_is_shown(boss: Client, hub: Hub) -> None:
    messages = timeline(boss, hub.session, show="message")
    assert events(messages) == {} and "I moved to Kyoto" in messages.content.decode()
    memories = timeline(boss, hub.session, show="memory")
    assert list(events(memories)) == ["A memory was created"]
    assert "I moved to Kyoto" not in memories.content.decode()


def test_days_part_the_messages(boss: Client, hub: Hub, long: Session) -> None:
    days = [each["day"] for each in timeline(boss, long).context["page"]["messages"] if each["day"]]
    assert days == [(NOW + timedelta(days=number)).date() for number in range(3)]


def test_hostile_texts_are_texts_and_long_ones_are_cut(boss: Client, hub: Hub) -> None:
    (message,) = hub.say(f"{SCRIPT}{RTL} " + "word " * 20_000 + "THE-END")
    Session.objects.update(title=SCRIPT)
    text = timeline(boss, hub.session).content.decode()
    assert SCRIPT not in text and "THE-END" not in text and page_of(message) in text
    assert "THE-END" in boss.get(page_of(message)).content.decode()


def test_images_are_named_and_their_bytes_stay_away(boss: Client, hub: Hub) -> None:
    data = "QUJD" * 200
    blocks = [
        {"type": "text", "text": "Look at this."},
        {"type": "image", "name": f"cat{SCRIPT}.png", "media_type": "image/png", "data": data},
        {"type": "file"},
    ]
    new = NewMessage(role=Role.USER, content="Look at this.", blocks=blocks)
    add_messages(session=hub.session, batch=[new], by=BY, now=NOW)
    response = timeline(boss, hub.session)
    assert response.context["page"]["messages"][-1]["references"] == [f"image cat{SCRIPT}.png", "file"]
    assert data not in response.content.decode() and SCRIPT not in response.content.decode()


def test_a_session_is_ended_by_its_button(boss: Client, hub: Hub, staff: Callable[..., Client]) -> None:
    address = page_of(hub.session, "end")
    assert address in timeline(boss, hub.session).content.decode()
    assert boss.get(address).status_code == 405
    looker = staff("view_session", "view_message")
    assert looker.post(address).status_code == 403
    assert address not in timeline(looker, hub.session).content.decode()
    back = f"{page_of(hub.session, 'timeline')}?last=1"
    assert boss.post(address, {"next": back})["Location"] == back
    hub.session.refresh_from_db()
    assert hub.session.ended_at is not None and AuditEntry.objects.filter(verb="end").count() == 1
    assert address not in timeline(boss, hub.session).content.decode()


def test_a_summary_is_ordered_by_its_button(boss: Client, hub: Hub, staff: Callable[..., Client]) -> None:
    hub.say("And then we went to Uji.")
    address = reverse("summaries_session_summarise", args=[hub.session.pk])
    assert address in timeline(boss, hub.session).content.decode()
    assert boss.get(address).status_code == 405
    assert staff("view_session", "view_message").post(address).status_code == 403
    before = Job.objects.count()
    answer = boss.post(address, follow=True)
    assert "will be written in the background" in answer.content.decode() and Job.objects.count() == before + 1
    hub.summary.refresh_from_db()
    SUMMARIES.edit(hub.summary, values={"locked": True}, expected_version=None, by=BY, reason="", now=NOW)
    assert "unlock it first" in boss.post(address, follow=True).content.decode()
    missing = reverse("summaries_session_summarise", args=[hub.memory.pk])
    assert boss.post(missing).status_code == 404


def test_people_see_what_they_may(staff: Callable[..., Client], hub: Hub) -> None:
    reader = staff("view_session", "view_message")
    response = timeline(reader, hub.session)
    assert response.status_code == 200 and events(response) == {}
    assert "I moved to Kyoto" in response.content.decode()
    User.objects.get(username="kei").delete()
    assert timeline(staff("view_session"), hub.session).status_code == 403


def test_it_opens_in_japanese_and_without_messages(boss: Client, hub: Hub) -> None:
    address = reverse("admin:conversations_session_timeline", args=[hub.session.pk])
    assert boss.get(address, headers={"accept-language": "ja"}).status_code == 200
    empty = Session.objects.create(actor=hub.actor, channel="api", started_at=NOW)
    assert "There are no messages yet" in timeline(boss, empty).content.decode()


def test_days_and_times_are_the_readers_and_the_speakers_clock_is_the_hint(boss: Client, hub: Hub) -> None:
    boss.cookies[TIME_ZONE_COOKIE] = "Asia/Tokyo"
    hub.agent.policy = {"time_zone": "America/New_York"}
    hub.agent.save()
    session, _ = open_session(actor=hub.actor, session_id=None, channel="web", by=BY, now=NOW)
    at = datetime(2026, 2, 26, 23, 0, tzinfo=UTC)
    batch = [
        NewMessage(role=Role.USER, content="from Tokyo", created_at=at, utc_offset_minutes=540),
        NewMessage(role=Role.USER, content="from home", created_at=at + timedelta(hours=30)),
    ]
    add_messages(session=session, batch=batch, by=BY, now=NOW)

    response = timeline(boss, session)

    assert [str(each["day"]) for each in response.context["page"]["messages"]] == ["2026-02-27", "2026-02-28"]
    shown = response.content.decode()
    assert ">08:00 JST</time>" in shown and ">14:00 JST</time>" in shown and not re.search(r"\bUTC\b", shown)
    assert 'title="by the speaker’s clock: 28 Feb 2026, 00:00 EST">14:00 JST' in shown
    assert numbers(timeline(boss, session, date="2026-02-28")) == [2]


def test_calls_of_tools_and_their_results_stand_with_their_messages(boss: Client, hub: Hub) -> None:
    call = {"type": "tool_use", "id": "a", "name": "search", "input": {"to": "京都", "note": "<script>"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "[1]\n" + "x" * 5_000}
    image = {"type": "image", "name": "plan.png", "data": "aGVsbG8="}
    batch = [
        NewMessage(role=Role.ASSISTANT, content="", blocks=[call, image]),
        NewMessage(role=Role.TOOL, content="", blocks=[result]),
    ]
    added = add_messages(session=hub.session, batch=batch, by=BY, now=NOW)

    page = timeline(boss, hub.session).content.decode()

    assert "search(to: &quot;京都&quot;, note: &quot;&lt;script&gt;&quot;)" in page
    assert f"→ [1] {'x' * 196}…" in page
    assert "image plan.png" in page
    shown = boss.get(reverse("admin:conversations_message_change", args=[added.messages[0].pk])).content.decode()
    assert "tool_use" in shown and "aGVsbG8" not in shown


@pytest.mark.parametrize("model", [Message, Receipt, Summary])
def test_lists_and_pages_call_a_session_by_its_name(
    hub: Hub, boss: Client, staff: Callable[..., Client], model: Any
) -> None:
    row, address = model.objects.first(), page_of(hub.session)
    for page in (list_of(model), page_of(row)):
        assert f'href="{address}"><bdi>Kyoto</bdi></a>' in boss.get(page).content.decode()
    reader = staff(f"view_{model._meta.model_name}").get(list_of(model)).content.decode()
    assert "Kyoto<" not in reader and f">{str(hub.session.pk)[:13]}</bdi></a>" in reader
