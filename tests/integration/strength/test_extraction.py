"""Extraction in the background: once, with its sources, and by the agent's switches (SPEC L2–L4)."""

from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from conversations.actions.sessions import end_session
from conversations.models import Message, Session
from memoryhub.auth.access import actor_for_writing
from memoryhub.jobs.models import Job
from memoryhub.llm.client import complete_json
from memoryhub.llm.config import LLMConfig
from memoryhub.llm.errors import ProviderError
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import Trust
from strength.actions import drafts
from strength.actions.extraction import diagnose, rewind, skipped_messages, unread_messages
from strength.actions.memories import NewMemory, write_memory
from strength.actions.reflection import MAX_SOURCES, _extracted_lesson
from strength.admin.panels import memory_panel
from strength.domain.extraction import MAX_ITEMS, Lesson, Strategy
from strength.domain.memories import Kind
from strength.models import Memory, MemorySource, StrategyCursor
from tests.conftest import client_with_key, run_jobs
from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.integration.strength.conftest import BY, NOW
from tests.integration.strength.talking import Model, episode, item, messages_shown, read, sources_of, talk, texts

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)

EPISODE = {
    "situation": "The build broke.",
    "intent": "Repair it.",
    "actions": "Pinned the library.",
    "outcome": "It passed.",
}
EPISODE_JA = {
    "situation": "ビルドが壊れた。",
    "intent": "直したい。",
    "actions": "ライブラリを固定した。",
    "outcome": "通った。",
}


def switch(actor: Actor, **switches: bool) -> None:
    actor.agent.strategies = {**actor.agent.strategies, **switches}
    actor.agent.save()


def due_now() -> None:
    """Let jobs that wait for more of the same begin at once."""
    Job.objects.filter(state="queued", kind__in=["extract", "reflect"]).update(due_at=NOW)


@pytest.mark.parametrize(
    ("language", "said", "fact", "liking", "parts", "told"),
    [
        (
            "en",
            ("I live in Osaka and I love green tea.", ("assistant", "Noted."), "The build is repaired, thanks."),
            "The user lives in Osaka.",
            "The user loves green tea.",
            EPISODE,
            "Situation: The build broke.\nIntent: Repair it.\nActions: Pinned the library.\nOutcome: It passed.",
        ),
        (
            "ja",
            ("大阪に住んでいて、緑茶が大好きです。", ("assistant", "承知しました。"), "ビルドは直りました。"),
            "ユーザーは大阪に住んでいる。",
            "ユーザーは緑茶が大好きだ。",
            EPISODE_JA,
            "状況: ビルドが壊れた。\n意図: 直したい。\n行動: ライブラリを固定した。\n結果: 通った。",
        ),
    ],
)
def test_a_fact_a_liking_and_an_episode_are_drawn(
    actor: Actor, llm: LLMServer, language: str, said: Any, fact: str, liking: str, parts: Any, told: str
) -> None:
    actor.agent.language = language
    actor.agent.save()
    session = talk(actor, *said)
    model = Model(
        llm, {"facts": [item(fact, 1)], "preferences": [item(liking, 1)], "episodes": [episode(3, 2, **parts)]}
    )

    filed = read(actor)

    rows = {memory.kind: memory for memory in Memory.objects.of([actor.id])}
    assert filed["new"] == 3
    assert {kind: (each.content, each.namespace) for kind, each in rows.items()} == {
        "fact": (fact, "/facts/hiroki/"),
        "preference": (liking, "/preferences/hiroki/"),
        "episode": (told, f"/episodes/hiroki/{session.pk}/"),
    }
    assert {(each.source, each.status, each.channel, each.confidence) for each in rows.values()} == {
        ("extraction", "active", "web", 0.95)
    }
    assert sources_of(rows["fact"]) == {said[0]}
    assert len(sources_of(rows["episode"])) == 2
    (asked,) = model.server.asked
    assert len(messages_shown(asked)) == 3
    assert ("あなたは" in asked.system) == (language == "ja")


def test_only_what_is_new_is_read(actor: Actor, llm: LLMServer) -> None:
    model = Model(llm, {})
    session = talk(actor, "One.", ("assistant", "Two."))
    read(actor)
    read(actor)
    talk(actor, "Three.", session=session)
    read(actor)
    shown = [messages_shown(asked) for asked in model.server.asked]
    assert [len(each) for each in shown] == [2, 1]
    assert shown[1] == ["[1] 2026-03-01 Sun user: Three."]
    assert "- 2026-03-01 Sun user: One." in model.server.asked[1].text
    assert unread_messages(actor=actor) == {}


def test_every_message_is_read_once_in_slices(actor: Actor, llm: LLMServer) -> None:
    actor.agent.policy = {"extraction_max_tokens": 500}
    actor.agent.save()
    said = [f"Message {number}: {'word ' * (number % 40)}" for number in range(120)]
    session = talk(actor, *said)
    model = Model(llm, {})
    read(actor)
    shown = [line.partition("user: ")[2] for asked in model.server.asked for line in messages_shown(asked)]
    assert shown == [each.strip() for each in said]
    assert len(model.server.asked) > 4
    assert {each.read_until for each in StrategyCursor.objects.filter(session_id=session.pk)} == {120}


def test_a_message_that_is_too_long_by_itself_is_shortened(actor: Actor, llm: LLMServer) -> None:
    actor.agent.policy = {"extraction_max_tokens": 500}
    actor.agent.save()
    talk(actor, "今日は" * 20_000 + "さようなら")
    model = Model(llm, {})
    read(actor)
    (line,) = messages_shown(model.server.asked[0])
    assert "…" in line and len(line) < 1_000


def test_what_memory_said_is_not_drawn_again(actor: Actor, llm: LLMServer) -> None:
    nonce = "0123456789abcdef" * 2
    block = f"<remembered-{nonce}>\n## Related memories\n1. Loves red wine (relevance: 0.87)\n</remembered-{nonce}>"
    talk(actor, ("assistant", "You live in Osaka."), f"{block}\nWhat is the weather?", "1. 茶が好き (関連度: 0.41)")
    model = Model(llm, {"facts": [item("The user lives in Osaka.", 1)]})
    filed = read(actor)
    (asked,) = model.server.asked
    assert messages_shown(asked) == [
        "[1] 2026-03-01 Sun assistant: You live in Osaka.",
        "[2] 2026-03-01 Sun user: What is the weather?",
    ]
    assert (filed["new"], texts(actor)) == (0, []), "an assistant's words alone are no fact"


def test_an_assistant_alone_is_not_asked_about(actor: Actor, llm: LLMServer) -> None:
    talk(actor, ("assistant", "Shall I go on?"), ("tool", "{}"), ("system", "Be kind."))
    read(actor)
    assert llm.asked == []
    assert unread_messages(actor=actor) == {}


def test_bad_items_are_left_out_and_the_others_stay(actor: Actor, llm: LLMServer) -> None:
    talk(actor, "I have a dog.")
    bad = [
        item("", 1),
        item("   ", 1),
        item("x" * 1_001, 1),
        item("No source.", 7),
        item("Beyond.", 0),
        item("Unsure.", 1, confidence=2.0),
        {**item("None."), "sources": []},
    ]
    Model(
        llm, {"facts": [*bad, item("The user has a dog.", 1)], "episodes": [episode(1, **dict.fromkeys(EPISODE, ""))]}
    )
    read(actor)
    assert texts(actor) == ["The user has a dog."]


@pytest.mark.slow
def test_a_flood_of_items_is_cut(actor: Actor, llm: LLMServer) -> None:
    talk(actor, "Here is my library.")
    Model(llm, {"facts": [item(f"The user owns book number {n} of {n * 7}.", 1) for n in range(60)]})
    assert read(actor)["new"] == MAX_ITEMS


def test_what_is_doubtful_waits(actor: Actor, llm: LLMServer) -> None:
    talk(actor, "I might get a cat.")
    Model(llm, {"facts": [item("The user plans to get a cat.", 1, confidence=0.3)]})
    read(actor)
    assert texts(actor) == []
    assert Memory.objects.get().status == "pending"


@pytest.mark.parametrize(
    ("language", "include", "exclude", "tea", "health"),
    [
        ("en", "travel", "health", "The user loves Kyoto.", "The user takes medicine for their Health."),
        ("ja", "旅行", "健康", "ユーザーは京都が好きだ。", "ユーザーは健康のために薬を飲む。"),
    ],
)
def test_topics_reach_the_prompt_and_filter(
    actor: Actor, llm: LLMServer, language: str, include: str, exclude: str, tea: str, health: str
) -> None:
    agent = actor.agent
    agent.language, agent.topics_include, agent.topics_exclude = language, [include], [exclude]
    agent.save()
    talk(actor, tea, health)
    drawn = [
        item(tea, 1, topic=include),
        item(health, 1, topic=include),
        item("A", 1, topic=""),
        item("B", 1, topic=exclude),
    ]
    model = Model(llm, {"facts": drawn})
    read(actor)
    (asked,) = model.server.asked
    assert include in asked.system and exclude in asked.system
    assert texts(actor) == [tea]


def test_without_topics_the_prompt_names_none(actor: Actor, llm: LLMServer) -> None:
    talk(actor, "Hello.")
    model = Model(llm, {})
    read(actor)
    assert "topic" not in model.server.asked[0].system


# Switches


def test_a_strategy_that_is_off_draws_nothing_and_begins_where_it_is_turned_on(actor: Actor, llm: LLMServer) -> None:
    switch(actor, semantic=False)
    session = talk(actor, "I live in Osaka.")
    model = Model(llm, {"facts": [item("The user lives in Osaka.", 1)]})
    read(actor)
    assert [set(asked.schema["properties"]) for asked in model.server.asked] == [{"preferences", "episodes"}]
    assert skipped_messages(actor=actor) == {Strategy.SEMANTIC: 1}

    switch(actor, semantic=True)
    read(actor)
    assert len(model.server.asked) == 1, "what was said before is left as it is"
    talk(actor, "I have a dog.", session=session)
    model.drawn = {"facts": [item("The user has a dog.", 1)]}
    read(actor)
    assert len(model.server.asked) == 2
    assert texts(actor) == ["The user has a dog."]


def test_a_backfill_goes_back_once(actor: Actor, llm: LLMServer) -> None:
    switch(actor, semantic=False)
    talk(actor, "I live in Osaka.", "I have a dog.")
    model = Model(llm, {"facts": [item("The user lives in Osaka.", 1)]})
    read(actor)
    switch(actor, semantic=True)

    assert rewind(actor=actor, strategies=list(Strategy), since=NOW + timedelta(seconds=30)) == 1
    assert rewind(actor=actor, strategies=list(Strategy)) == 2
    assert rewind(actor=actor, strategies=list(Strategy)) == 2
    read(actor)
    assert rewind(actor=actor, strategies=list(Strategy)) == 0
    read(actor)
    assert [set(asked.schema["properties"]) for asked in model.server.asked[1:]] == [{"facts"}]
    assert texts(actor) == ["The user lives in Osaka."]

    assert rewind(actor=actor, strategies=[Strategy.SEMANTIC], again=True) == 2
    read(actor)
    assert texts(actor) == ["The user lives in Osaka."]


def test_what_is_off_is_not_sent_back(actor: Actor, llm: LLMServer) -> None:
    switch(actor, semantic=False)
    talk(actor, "I live in Osaka.")
    Model(llm, {})
    read(actor)
    assert rewind(actor=actor, strategies=[Strategy.SEMANTIC]) == 0
    assert skipped_messages(actor=actor) == {Strategy.SEMANTIC: 1}


def test_strategies_that_stand_apart_join_again(actor: Actor, llm: LLMServer) -> None:
    switch(actor, semantic=False)
    session = talk(actor, "One.", "Two.")
    model = Model(llm, {})
    read(actor)
    switch(actor, semantic=True)
    rewind(actor=actor, strategies=[Strategy.SEMANTIC])
    talk(actor, "Three.", session=session)
    read(actor)
    read_by = [(len(messages_shown(a)), len(a.schema["properties"])) for a in model.server.asked[1:]]
    assert read_by == [(2, 1), (1, 3)]


def test_all_off_asks_nobody(actor: Actor, llm: LLMServer) -> None:
    switch(actor, semantic=False, user_preference=False, episodic=False, reflection=False)
    talk(actor, "Hello.")
    read(actor)
    assert llm.asked == []
    assert unread_messages(actor=actor) == {}


# Jobs


def test_a_turn_is_followed_by_extraction(actor: Actor, llm: LLMServer) -> None:
    Model(llm, {"preferences": [item("The user loves green tea.", 1)]})
    one, other = talk(actor, "I love green tea."), talk(actor, "Hello again.")
    (job,) = Job.objects.filter(kind="extract", state="queued")
    assert set(job.payload) == {"session_id"} and job.payload["session_id"] in {str(one.pk), str(other.pk)}
    due_now()
    run_jobs()
    assert texts(actor, kind="preference") == ["The user loves green tea."]
    assert unread_messages() == {}
    assert not Job.objects.filter(kind="extract").exclude(state="done").exists()


def test_without_a_model_messages_wait_visibly(actor: Actor, llm: LLMServer, settings: Any) -> None:
    configured, settings.LLM = settings.LLM, LLMConfig("none")
    session = talk(actor, "I love green tea.")
    assert not Job.objects.filter(kind="extract").exists()
    assert unread_messages(actor=actor) == dict.fromkeys(
        (Strategy.SEMANTIC, Strategy.USER_PREFERENCE, Strategy.EPISODIC), 1
    )
    settings.LLM = configured
    Model(llm, {"preferences": [item("The user loves green tea.", 1)]})
    talk(actor, ("assistant", "Good."), session=session)
    due_now()
    run_jobs()
    assert texts(actor) == ["The user loves green tea."]


def test_doctor_and_dashboard_say_what_waits(actor: Actor, llm: LLMServer, settings: Any) -> None:
    def said() -> tuple[str, str]:
        (finding,) = diagnose()
        return finding.level, finding.detail

    def tile() -> str:
        return next(str(each.figure) for each in memory_panel(NOW) if str(each.title) == "Extraction")

    assert said() == ("ok", "every message was read")
    session = talk(actor, "Hello.", "Hello?")
    assert (said()[0], tile()) == ("ok", "2")
    Session.objects.filter(pk=session.pk).update(message_count=5_000)
    assert said()[0] == "warning" and "5000 for episodic" in said()[1]
    settings.LLM = LLMConfig("none")
    assert "wait for a language model" in said()[1]


def test_a_job_whose_time_is_up_leaves_the_rest_to_another(actor: Actor, llm: LLMServer) -> None:
    Model(llm, {})
    talk(actor, "Hello.")
    Job.objects.all().delete()
    read(actor, may_go_on=lambda: False)
    assert llm.asked == []
    assert Job.objects.filter(kind="extract", state="queued").count() == 1


def test_an_actor_that_is_gone_is_no_error(actor: Actor, llm: LLMServer) -> None:
    talk(actor, "Hello.")
    due_now()
    actor.delete()
    run_jobs()
    assert llm.asked == []


# Failures


@pytest.mark.parametrize("when", ["asking", "judging", "writing"])
def test_what_breaks_off_writes_nothing_and_the_next_attempt_writes_it_once(
    actor: Actor, llm: LLMServer, write: Any, when: str
) -> None:
    write("The user has a cat.", kind="fact")
    talk(actor, "I have a dog.", "And a horse.")
    drawn = {"facts": [item("The user has a dog.", 1), item("The user has a horse.", 2)]}
    model = Model(llm, drawn)

    def reply(asked: Asked) -> Reply:
        name = "pairs" if when == "judging" else "facts"
        return Reply(failure="529") if name in asked.schema["properties"] else Model.reply(model, asked)

    if when == "writing":
        steps = []

        @contextmanager
        def step() -> Any:
            with transaction.atomic():
                yield
                steps.append(1)
                if len(steps) == 2:  # the first lets strategies that are off go along
                    raise RuntimeError("the worker was lost before the commit")

        with pytest.raises(RuntimeError):
            read(actor, step=step)
    else:
        llm.answer(reply)
        with pytest.raises(ProviderError) as caught:
            read(actor)
        assert not caught.value.permanent
    assert texts(actor) == ["The user has a cat."]
    assert not StrategyCursor.objects.exclude(read_until=0).exists()

    llm.answer(model.reply)
    read(actor)
    assert sorted(texts(actor)) == ["The user has a cat.", "The user has a dog.", "The user has a horse."]


@pytest.mark.parametrize(
    "failure",
    ["429", "529", "500", "retry_after_3600", "timeout", "dropped", "html", "truncated_json", "wrong_schema", "401"],
)
def test_no_failure_writes_anything(actor: Actor, llm: LLMServer, failure: str, settings: Any) -> None:
    talk(actor, "I have a dog.")
    llm.answer(Reply(data={"facts": [item("The user has a dog.")], "preferences": [], "episodes": []}, failure=failure))
    due_now()
    crew_jobs = Job.objects.filter(kind="extract")
    if failure == "timeout":
        with pytest.MonkeyPatch.context() as patch:
            hurried = partial(complete_json, deadline_seconds=1.0)
            patch.setattr("strength.actions.extraction.complete_json", hurried)
            run_jobs()
    else:
        run_jobs()
    job = crew_jobs.get()
    assert job.state == ("failed" if failure == "401" else "queued")
    assert "dog" not in job.error
    assert not Memory.objects.exists() and not StrategyCursor.objects.exclude(read_until=0).exists()


def test_one_message_that_no_model_reads_does_not_keep_the_others(
    actor: Actor, llm: LLMServer, caplog: pytest.LogCaptureFixture
) -> None:
    talk(actor, *(f"Message {number}." for number in range(8)), "Poison.", "I have a dog.")

    def reply(asked: Asked) -> Reply:
        shown = messages_shown(asked)
        if any("Poison" in line for line in shown):
            return Reply(failure="refusal")
        dog = [number for number, line in enumerate(shown, 1) if "dog" in line]
        facts = [item("The user has a dog.", *dog)] if dog else []
        return Reply(data={"facts": facts, "preferences": [], "episodes": []})

    llm.answer(reply)
    read(actor)
    assert texts(actor) == ["The user has a dog."]
    assert unread_messages(actor=actor) == {}
    assert "skipped" in caplog.text and "Poison" not in caplog.text


def test_a_slice_moves_only_from_where_it_was_read(actor: Actor, llm: LLMServer) -> None:
    session = talk(actor, "I have a dog.")
    model = Model(llm, {"facts": [item("The user has a dog.")]})
    steps: list[int] = []

    @contextmanager
    def step() -> Any:
        steps.append(1)
        if len(steps) == 2:  # somebody else has read it, while the model was asked
            names = {"actor_id": actor.pk, "session_id": session.pk, "strategy": "semantic"}
            StrategyCursor.objects.create(**names, read_until=1)
        with transaction.atomic():
            yield

    read(actor, step=step)
    assert texts(actor) == []
    assert [set(asked.schema["properties"]) for asked in model.server.asked[1:]] == [{"preferences", "episodes"}]


def test_another_users_messages_are_not_read(actor: Actor, llm: LLMServer) -> None:
    other = actor_for_writing(BY, "kana", "somebody", now=NOW)
    talk(other, "I live in Nara.")
    model = Model(llm, {})
    read(actor)
    assert model.server.asked == []
    assert unread_messages(actor=actor) == {} and unread_messages(actor=other) != {}


# Lessons


def test_lessons_are_drawn_when_a_session_has_ended(actor: Actor, llm: LLMServer) -> None:
    session = talk(actor, "The build is repaired.")
    lesson = {"text": "Pinned libraries keep this user's builds alive.", "episodes": [1], "confidence": 0.8}
    model = Model(llm, {"episodes": [episode(1, **EPISODE)]}, lessons=[lesson, {**lesson, "episodes": [9]}])
    due_now()
    run_jobs()
    assert model.asked_for("lessons") == []

    end_session(session=session, by=BY, now=NOW + HOUR)
    due_now()
    run_jobs()
    (reflection,) = Memory.objects.filter(kind="reflection")
    assert (reflection.content, reflection.namespace) == (lesson["text"], "/reflections/hiroki/")
    assert sources_of(reflection) == {"The build is repaired."}
    due_now()
    run_jobs()
    assert len(model.asked_for("lessons")) == 1, "an episode teaches once"


def test_lessons_are_drawn_when_enough_episodes_have_gathered(actor: Actor, llm: LLMServer) -> None:
    actor.agent.policy = {"reflection_after_episodes": 2}
    actor.agent.save()
    model = Model(
        llm,
        lambda asked: {
            "episodes": [episode(1, **{**EPISODE, "situation": messages_shown(asked)[0].partition("user: ")[2]})]
        },
    )
    for said in ("The build is repaired.", "門の鍵を直した。"):
        talk(actor, said)
        due_now()
        run_jobs()
    assert len(model.asked_for("lessons")) == 1
    assert "2. " in model.asked_for("lessons")[0].text


def test_reflection_that_is_off_passes_episodes_over(actor: Actor, llm: LLMServer) -> None:
    switch(actor, reflection=False)
    session = talk(actor, "The build is repaired.")
    end_session(session=session, by=BY, now=NOW + HOUR)
    lesson = {"text": "Pin libraries.", "episodes": [1], "confidence": 0.8}
    model = Model(llm, {"episodes": [episode(1, **EPISODE)]}, lessons=[lesson])
    due_now()
    run_jobs()
    switch(actor, reflection=True)
    read(actor)
    run_jobs()
    assert model.asked_for("lessons") == []

    rewind(actor=actor, strategies=[Strategy.REFLECTION])
    due_now()
    run_jobs()
    assert texts(actor, kind="reflection") == ["Pin libraries."]


def test_extraction_of_a_session_is_ordered_and_its_state_told(actor: Actor, llm: LLMServer) -> None:
    Model(llm, {"facts": [item("The user lives in Osaka.")]})
    session = talk(actor, "I live in Osaka.", ("assistant", "Noted."))
    client = client_with_key()
    address = f"/api/v1/sessions/{session.pk}"
    before = client.get(f"{address}/extraction").json()
    assert (before["is_complete"], before["message_count"]) == (False, 2)
    assert {each["read_until"] for each in before["strategies"]} == {0}
    ordered = client.post(f"{address}/extract", {})
    assert ordered.status_code == 202, ordered.content
    assert client.post(f"{address}/extract", {}).json() == ordered.json()
    due_now()
    run_jobs()
    after = client.get(f"{address}/extraction").json()
    assert (after["is_complete"], after["job_id"], after["job_state"]) == (True, ordered.json()["job_id"], "done")
    assert {each["read_until"] for each in after["strategies"] if each["is_on"]} == {2}
    assert client_with_key(agent_ids=["another"]).get(f"{address}/extraction").status_code == 404


def test_extraction_without_a_model_is_refused(actor: Actor) -> None:
    session = talk(actor, "I live in Osaka.")
    answer = client_with_key().post(f"/api/v1/sessions/{session.pk}/extract", {})
    assert (answer.status_code, answer.json()["code"]) == (503, "llm_unavailable")


def test_a_lesson_is_as_little_trusted_as_any_message_that_it_comes_from(actor: Actor) -> None:
    talk(actor, *(f"Message {number}." for number in range(MAX_SOURCES + 1)))
    messages = Message.objects.order_by("created_at")
    much, _ = write_memory(actor=actor, new=NewMemory(content="Much was said.", kind=Kind.EPISODE), by=BY, now=NOW)
    MemorySource.objects.bulk_create(drafts.sources_of(much, messages.select_related("session"), NOW))
    lesson = Lesson("Say less.", 0.9, (much.pk,))
    assert _extracted_lesson(actor, lesson, NOW).is_trusted

    Message.objects.filter(pk=messages[0].pk).update(trust=Trust.UNTRUSTED)

    extracted = _extracted_lesson(actor, lesson, NOW)
    assert len(extracted.message_ids) == MAX_SOURCES
    assert messages[0].pk not in extracted.message_ids
    assert not extracted.is_trusted
