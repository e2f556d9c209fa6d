"""Days are the speaker's: of the message's own offset, else of the user's, the agent's or the installation's zone."""

import re
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from conversations.models import Message, MessageIndex, Session
from memoryhub.jobs.queue import enqueue
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.llm.usage.spending import daily_budget, paused_agents
from memoryhub.search.analysis import analyse
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.policies import effective_values, zone_of
from strength.jobs import _sleeps
from strength.models import Memory
from tests.examples import examples
from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.integration.conversations.test_sessions_and_messages import context, opened, say
from tests.integration.strength.talking import Model, item, messages_shown, read
from tests.integration.summaries.conftest import ran
from tests.unit.memoryhub.zone_names import ZONES

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
MORNING = "2026-11-23T08:00:00+09:00"  # still the 22nd in UTC
WORDS = re.compile(r"\bm\d{4}[a-z]{8}\b")
SHIFTS = [datetime(2026, 3, 8), datetime(2026, 3, 29), datetime(2025, 11, 2), datetime(2025, 10, 26)]
"""Days about which clocks change somewhere."""


def set_zone(client: APIClient, zone: str, agent_id: str = "kana") -> None:
    values = {"agent_id": agent_id, "policy": {"time_zone": zone}}
    assert client.post(f"{API}/agents", values).status_code == 201


def actor_of(agent_id: str = "kana", user_id: str = "hiroki") -> Actor:
    return Actor.objects.select_related("agent").get(agent_id=agent_id, user_id=user_id)


def summarize(session: Any) -> None:
    row = Session.objects.get(pk=session["id"])
    ran(enqueue("summarize", actor_id=row.actor_id, payload={"session_id": str(row.pk)}))


def days_of_transcript(asked: Asked) -> dict[str, str]:
    """Return the day of each message by its word, in a prompt for a summary."""
    found, day = {}, ""
    for line in asked.text.splitlines():
        if match := re.match(r"\[(?:(\d{4}-\d{2}-\d{2}) \w{3} )?\d{2}:\d{2}\] ", line):
            day = match[1] or day
            found[WORDS.findall(line)[0]] = day
    return found


def random_messages(random: Random, zone: str, first: int) -> dict[str, tuple[dict[str, Any], date]]:
    """Return twenty messages by a word of theirs, each with its speaker's day; half state no offset."""
    made = {}
    for number in range(first, first + 20):
        near = random.choice(SHIFTS)
        moment = near.replace(tzinfo=UTC) + timedelta(minutes=random.randrange(-3000, 3000))
        word = f"m{number:04}{''.join(random.choices('abcdefghijklmnop', k=8))}"
        states_offset = random.random() < 0.5
        spoken = moment.astimezone(ZoneInfo(random.choice(ZONES) if states_offset else zone))
        written = spoken.isoformat() if states_offset else f"{moment:%Y-%m-%dT%H:%M:%SZ}"
        message = {"role": "user", "content": f"Tomorrow {word} comes.", "created_at": written}
        made[word] = (message, spoken.date())
    return made


def test_days_of_500_random_messages_are_their_speakers(client: APIClient, llm: LLMServer) -> None:
    random, expected = Random(18), dict[str, str]()
    model = Model(
        llm,
        lambda asked: {
            "facts": [
                item(f"{WORDS.findall(line)[0]} comes.", number) for number, line in enumerate(messages_shown(asked), 1)
            ]
        },
    )
    for place in range(examples(25)):
        zone, agent_id = ZONES[place % len(ZONES)], f"agent{place}"
        set_zone(client, zone, agent_id)
        made = random_messages(random, zone, 20 * place)
        expected |= {word: day.isoformat() for word, (_, day) in made.items()}
        session = opened(client, agent_id=agent_id)
        say(client, session, *(message for message, _ in made.values()))
        summarize(session)
        read(actor_of(agent_id), now=timezone.now())

    asked = [line for each in model.asked_for("facts") for line in messages_shown(each)]
    assert {WORDS.findall(line)[0]: line.split()[1] for line in asked} == expected
    summaries = [days_of_transcript(each) for each in llm.asked if each.schema is None]
    assert {word: day for days in summaries for word, day in days.items()} == expected
    facts = Memory.objects.filter(kind="fact").values_list("content", "said_on")
    assert {content.split()[0]: said_on.isoformat() for content, said_on in facts} == expected


def test_a_message_keeps_its_offset(client: APIClient) -> None:
    session = opened(client)
    stated, unstated = say(
        client,
        session,
        {"role": "user", "content": "a", "created_at": MORNING},
        {"role": "user", "content": "b", "created_at": None},
    )

    assert (stated["created_at"], stated["utc_offset_minutes"]) == ("2026-11-22T23:00:00Z", 540)
    assert unstated["utc_offset_minutes"] is None


@pytest.mark.parametrize("offset", ["+16:00", "-23:59"])
def test_a_message_with_an_offset_that_no_clock_has_is_summarised(client: APIClient, offset: str) -> None:
    session = opened(client)
    said = {"role": "user", "content": "Tea at noon.", "created_at": f"2026-01-01T12:00:00{offset}"}
    stored, _answer = say(client, session, said, {**said, "role": "assistant", "content": "Noted."})
    assert client.post(f"{API}/sessions/{session['id']}/end").status_code == 200

    summarize(session)

    answer = client.get(f"{API}/sessions/{session['id']}/summary")
    assert answer.status_code == 200 and answer.json()["start_time"] == stored["created_at"], answer.json()


def test_a_question_names_the_speakers_day(client: APIClient) -> None:
    set_zone(client, "America/New_York")
    say(
        client,
        opened(client),
        {"role": "user", "content": "The dentist.", "created_at": MORNING},
        {"role": "user", "content": "The baker.", "created_at": "2026-11-23T04:59:59Z"},
    )

    words = [MessageIndex.indexed_text(each) for each in Message.objects.order_by("seq")]
    assert words == ["The dentist. 23 November 2026", "The baker. 22 November 2026"]
    assert all(analyse(each) for each in words)


def test_user_goes_before_agent_before_installation(client: APIClient, settings: Settings) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    opened(client)
    opened(client, user_id="mika")
    assert effective_values(None, None)["time_zone"] == "Asia/Kolkata"
    Agent.objects.update(policy={"time_zone": "Europe/Berlin"})
    assert (
        client.patch(f"{API}/actors?agent_id=kana&user_id=mika", {"policy": {"time_zone": "Asia/Tokyo"}}).json()[
            "effective_policy"
        ]["time_zone"]
        == "Asia/Tokyo"
    )

    names = [str(zone_of(each.agent, each)) for each in (actor_of(), actor_of(user_id="mika"))]
    assert names == ["Europe/Berlin", "Asia/Tokyo"]


def test_an_unknown_zone_is_refused(client: APIClient) -> None:
    answer = client.post(f"{API}/agents", {"agent_id": "kana", "policy": {"time_zone": "Tokyo"}})

    assert answer.status_code == 400
    assert "time zone" in answer.content.decode()


def test_recalled_messages_have_the_speakers_day(client: APIClient) -> None:
    say(client, opened(client), {"role": "user", "content": "The basil is ready.", "created_at": MORNING})
    assembled = context(
        client, "basil", options={"working_memory_limit": 1, "recall_limit": 3}, session_id=opened(client)["id"]
    )

    assert "2026-11-22" not in str(assembled["messages"])


def test_a_cap_ends_with_the_agents_day(client: APIClient) -> None:
    set_zone(client, "Asia/Tokyo")
    agent = Agent.objects.get()
    agent.policy = {**agent.policy, "daily_token_cap": 50}
    agent.save()
    LedgerEntry.objects.create(
        agent_id="kana", operation="extract", provider="anthropic", model="x", latency_ms=1, input_tokens=60,
        output_tokens=0, estimated_tokens=60, outcome="ok", created_at=datetime(2026, 11, 22, 14, 0, tzinfo=UTC),
    )  # fmt: skip
    late, early = datetime(2026, 11, 22, 14, 59, tzinfo=UTC), datetime(2026, 11, 22, 15, 0, tzinfo=UTC)

    assert [each.agent_id for each in paused_agents(now=late)] == ["kana"]
    assert paused_agents(now=early) == []
    budget = daily_budget("kana", agent, now=late)
    assert budget.ends_at == early
    assert "paused until 2026-11-23 00:00 JST" in budget.detail


def test_usage_is_reported_by_the_agents_days(client: APIClient) -> None:
    set_zone(client, "Asia/Tokyo")
    LedgerEntry.objects.create(
        agent_id="kana", operation="extract", provider="anthropic", model="x", latency_ms=1, input_tokens=60,
        output_tokens=0, estimated_tokens=60, outcome="ok", created_at=datetime(2026, 11, 22, 23, 0, tzinfo=UTC),
    )  # fmt: skip

    answer = client.get(f"{API}/usage?agent_id=kana&from=2026-11-23&to=2026-11-23").json()
    assert [each["day"] for each in answer["results"]] == ["2026-11-23"]


@pytest.mark.parametrize(
    ("zone", "hour", "sleeps"),
    [("UTC", 3, True), ("UTC", 2, False), ("Asia/Tokyo", 17, False), ("Asia/Tokyo", 18, True)],
)
def test_a_night_begins_by_the_actors_clock(client: APIClient, zone: str, hour: int, sleeps: bool) -> None:
    set_zone(client, zone)
    opened(client)
    actor = actor_of()
    Actor.objects.update(created_at=datetime(2026, 3, 1, 18, tzinfo=UTC) - timedelta(days=1 if sleeps else 0))
    actor.created_at = datetime(2026, 3, 1, 1 if hour < 12 else 16, tzinfo=UTC)

    assert _sleeps(actor, None, None, datetime(2026, 3, 1, hour, tzinfo=UTC)) is sleeps


def test_who_slept_today_sleeps_again_the_next_night_even_if_it_was_undone(client: APIClient) -> None:
    opened(client)
    actor, night = actor_of(), datetime(2026, 3, 2, 2, 30, tzinfo=UTC)
    actor.created_at = night - timedelta(days=3)
    later = [night + timedelta(hours=hours) for hours in (1, 10, 23, 24, 40)]
    for slept_at in (night, None):  # None: it was undone
        assert [_sleeps(actor, slept_at, night, each) for each in later] == [False, False, False, True, True]


def test_as_of_a_day_means_its_end_in_the_users_zone(client: APIClient) -> None:
    set_zone(client, "Asia/Tokyo")
    made = client.post(f"{API}/memories", {**WHO, "content": "Lives in Osaka.", "valid_to": MORNING})
    assert made.status_code == 201, made.content

    def found(as_of: str) -> list[str]:
        body = {**WHO, "query": "Osaka", "filters": {"as_of": as_of}}
        answer = client.post(f"{API}/memories/search", body)
        assert answer.status_code == 200, answer.content
        return [each["memory"]["content"] for each in answer.json()["results"]]

    assert [len(found(day)) for day in ("2026-11-22", "2026-11-23", "2026-11-22T23:30:00Z")] == [1, 0, 0]
    assert (
        client.post(f"{API}/memories/search", {**WHO, "query": "x", "filters": {"as_of": "2026-11-31"}}).status_code
        == 400
    )


@pytest.mark.parametrize(("zone", "created_at"), [("UTC", MORNING), ("Asia/Tokyo", "2026-11-22T23:00:00Z")])
def test_digests_and_notes_of_a_project_have_the_speakers_day(
    client: APIClient, llm: LLMServer, zone: str, created_at: str
) -> None:
    set_zone(client, zone)
    made = client.post(f"{API}/projects", {**WHO, "name": "teeth", "description": "Dentists"})
    assert made.status_code == 201, made.content
    session = opened(client, metadata={"project": "teeth"})
    said = {"role": "user", "content": "明日は歯医者に行きます。", "created_at": created_at}
    say(client, session, said, {**said, "role": "assistant", "content": "お大事に。"})
    assert client.post(f"{API}/sessions/{session['id']}/end").status_code == 200
    llm.answer(Reply("明日、歯医者の予定。"))
    summarize(session)
    llm.answer(Reply("歯医者の話でした。"))
    assert client.post(f"{API}/summaries/digest", WHO).status_code == 200
    entries = [{"text": "A dentist was chosen.", "sources": [1]}]
    llm.answer(Reply(data={"facts": [], "decisions": [], "timeline": entries}))
    ran(enqueue("update_project", actor_id=actor_of().pk, payload={"session_id": session["id"]}))

    summary, digest, notes = (each.text for each in llm.asked)
    assert "[2026-11-23 Mon 08:00] user" in summary
    assert "[2026-11-23] 明日、歯医者の予定。" in digest
    assert "[1] 2026-11-23 Mon user" in notes
    document = client.get(f"{API}/projects/teeth/documents/timeline.md", WHO)
    assert "- 2026-11-23: A dentist was chosen." in str(document.json())
