"""Messages where a model refuses, or answers what cannot be used: nothing is lost in silence (SPEC L3)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from conversations.actions.sessions import end_session
from memoryhub.ids import new_id
from memoryhub.jobs.backfill import Scope
from memoryhub.jobs.executor import claim
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue, offer_of
from memoryhub.jobs.registry import job_kind as kind_of
from memoryhub.llm.errors import BadAnswer, ProviderRejected, ProviderUnavailable
from memoryhub.tenancy.models import Actor
from strength.actions.extraction import backfill_jobs, rewind, skipped_messages, unread_messages
from strength.domain.extraction import Strategy
from strength.models import Memory, ReflectionCursor, StrategyCursor
from tests.conftest import run_jobs
from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.integration.strength.conftest import BY, NOW, numbers
from tests.integration.strength.talking import (
    Model,
    episode,
    is_judgement,
    item,
    lists_of,
    messages_shown,
    read,
    talk,
    texts,
)

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOTHING: dict[str, list[Any]] = {"facts": [], "preferences": [], "episodes": []}
EPISODE = {"situation": "The build broke.", "intent": "Repair it.", "actions": "Pinned it.", "outcome": "Passed."}


def job_of(kind: str = "extract") -> Job:
    return Job.objects.filter(kind=kind).latest("created_at")


def run_again(kind: str = "extract") -> Job:
    Job.objects.filter(state="queued", kind=kind).update(due_at=NOW)
    run_jobs()
    return job_of(kind)


def spoiling(word: str, failure: Reply) -> Callable[[Asked], Reply]:
    """Return a model that fails where a message holds the word, and draws a dog where one is spoken of."""

    def reply(asked: Asked) -> Reply:
        shown = messages_shown(asked)
        if any(word in line for line in shown):
            return failure
        dogs = [number for number, line in enumerate(shown, 1) if "dog" in line]
        return Reply(data={**NOTHING, "facts": [item("The user has a dog.", *dogs)] if dogs else []})

    return reply


@pytest.mark.parametrize(
    ("failure", "error"), [("billing", ProviderUnavailable), ("400", ProviderRejected), ("413", ProviderRejected)]
)
def test_what_is_not_about_a_message_passes_none_by(
    actor: Actor, llm: LLMServer, failure: str, error: type[Exception]
) -> None:
    talk(actor, "I live in Osaka.", "I have a dog.", "I am allergic to nuts.")
    llm.answer(Reply(failure=failure))
    with pytest.raises(error):
        read(actor)
    assert unread_messages(actor=actor)[Strategy.SEMANTIC] == 3
    assert skipped_messages(actor=actor) == {}


def test_an_empty_account_is_waited_for(actor: Actor, llm: LLMServer) -> None:
    talk(actor, "I have a dog.")
    llm.answer(Reply(failure="billing"))
    job = run_again()
    assert job.state == "queued" and job.due_at is not None
    llm.answer(spoiling("nothing", Reply()))
    assert run_again().state == "done"
    assert texts(actor) == ["The user has a dog."]


def test_one_message_in_a_form_that_is_refused_is_seen_and_not_passed_by(actor: Actor, llm: LLMServer) -> None:
    talk(actor, "I have a dog.", "Hello.", "Poison.")
    llm.answer(spoiling("Poison", Reply(failure="400")))
    assert run_again().state == "failed"
    assert texts(actor) == ["The user has a dog."]
    assert unread_messages(actor=actor)[Strategy.SEMANTIC] == 1


@pytest.mark.parametrize("failure", [Reply(failure="refusal"), Reply(data=NOTHING, stop="max_tokens")])
def test_what_is_passed_by_is_known_and_a_backfill_goes_back_for_it_alone(
    actor: Actor, llm: LLMServer, failure: Reply
) -> None:
    talk(actor, *(f"Message {number}." for number in range(5)), "Poison.", "I have a dog.")
    llm.answer(spoiling("Poison", failure))
    assert run_again().state == "done", "an answer that is cut would be cut again: its slice is halved at once"
    assert (texts(actor), unread_messages(actor=actor)) == (["The user has a dog."], {})
    assert set(skipped_messages(actor=actor).values()) == {1}

    (piece,) = backfill_jobs(Scope())
    assert piece.size == 1
    piece.prepare()
    assert {each.read_until for each in StrategyCursor.objects.all()} == {5}
    Model(llm, {"facts": [item("The user knows poisons.")]})
    read(actor)
    assert sorted(texts(actor)) == ["The user has a dog.", "The user knows poisons."]
    assert skipped_messages(actor=actor) == {} and list(backfill_jobs(Scope())) == []


@pytest.mark.parametrize("failure", ["html", "wrong_schema", "truncated_json"])
def test_a_model_that_answers_nothing_usable_makes_no_message_unreadable(
    actor: Actor, llm: LLMServer, failure: str
) -> None:
    talk(actor, "I have a dog.", "I live in Osaka.")
    llm.answer(Reply(failure=failure))
    for spoilt in range(6):
        with pytest.raises(BadAnswer):
            read(actor, bad_attempts=spoilt)
    assert skipped_messages(actor=actor) == {}
    llm.answer(spoiling("nothing", Reply()))
    read(actor, bad_attempts=6)
    assert texts(actor) == ["The user has a dog."]


def test_answers_that_cannot_be_used_are_counted_and_not_the_claims(actor: Actor, llm: LLMServer) -> None:
    talk(actor, "I have a dog.", "Poison.")
    spoilt = spoiling("Poison", Reply("no JSON at all"))
    for answer in (
        Reply(failure="529"),
        Reply(failure="529"),
        Reply(failure="529"),
        spoilt,
        Reply(failure="529"),
        spoilt,
    ):
        llm.answer(answer)
        assert run_again().state == "queued"
    assert texts(actor) == []
    llm.answer(spoilt)
    assert run_again().state == "done"
    assert texts(actor) == ["The user has a dog."]


def test_a_judge_that_cannot_answer_costs_no_fact(actor: Actor, llm: LLMServer, write: Any) -> None:
    write("The user lives in Osaka.", kind="fact")
    drawn = Reply(data={**NOTHING, "facts": [item("The user owns a red bicycle.")]})
    llm.answer(lambda asked: Reply("no JSON") if is_judgement(asked) else drawn)
    talk(actor, "I own a red bicycle.")
    for spoilt in (0, 1):
        with pytest.raises(BadAnswer):
            read(actor, bad_attempts=spoilt)
    read(actor, bad_attempts=2)
    assert texts(actor) == ["The user lives in Osaka.", "The user owns a red bicycle."]


@pytest.mark.parametrize("failure", [Reply(failure="refusal"), Reply(data={"lessons": []}, stop="max_tokens")])
def test_an_episode_that_no_model_reads_does_not_keep_the_others(actor: Actor, llm: LLMServer, failure: Reply) -> None:
    told = [EPISODE, {**EPISODE, "situation": "毒の話。"}, {**EPISODE, "situation": "The roof leaked."}]
    session = talk(actor, "The build broke.", "毒の話。", "The roof leaked.")
    model = Model(llm, {"episodes": [episode(number, **parts) for number, parts in enumerate(told, 1)]})
    read(actor)
    end_session(session=session, by=BY, now=NOW + HOUR)
    lesson = {"text": "Mend things early.", "episodes": [1], "confidence": 0.9}

    def reply(asked: Asked) -> Reply:
        if lists_of(asked) != {"lessons"}:
            return model.reply(asked)
        return failure if "毒" in asked.text else Reply(data={"lessons": [lesson]})

    llm.answer(reply)
    for kind in ("extract", "reflect", "reflect", "reflect"):
        run_again(kind)
    assert {job.state for job in Job.objects.filter(kind="reflect")} == {"done"}
    (row,) = Memory.objects.filter(kind="reflection")
    assert row.sources.count() == 2
    assert ReflectionCursor.objects.get().has_passed


def test_reflection_waits_for_a_request_that_is_put_right(actor: Actor, llm: LLMServer) -> None:
    session = talk(actor, "The build broke.")
    model = Model(llm, {"episodes": [episode(1, **EPISODE)]})
    read(actor)
    end_session(session=session, by=BY, now=NOW + HOUR)
    llm.answer(lambda a: Reply(failure="400") if lists_of(a) == {"lessons"} else model.reply(a))
    run_again()
    assert run_again("reflect").state == "failed"
    assert not ReflectionCursor.objects.exists()


def test_reflection_passes_by_no_episode_of_an_extraction_that_still_runs(actor: Actor, llm: LLMServer) -> None:
    talk(actor, "The build broke.")
    Model(llm, {"episodes": [episode(1, **EPISODE)]})
    read(actor)
    Job.objects.update(due_at=NOW)
    offered = offer_of(enqueue("extract", actor_id=actor.id, key="actor"))
    running = claim(offered, kind_of("extract"), worker=new_id()) if offered else None
    assert running is not None
    enqueue("reflect", actor_id=actor.id, key="actor")
    reflecting = run_again("reflect")
    assert (reflecting.state, reflecting.excused) == ("queued", 1) and not ReflectionCursor.objects.exists()
    running.finish(None)
    assert run_again("reflect").state == "done" and ReflectionCursor.objects.exists()


# What a backfill finds


def switch(actor: Actor, **switches: bool) -> None:
    actor.agent.strategies = switches
    actor.agent.save()


def test_a_strategy_that_is_still_off_is_not_gone_back_for(actor: Actor, llm: LLMServer) -> None:
    switch(actor, episodic=False)
    Model(llm, {})
    talk(actor, "The build broke.")
    read(actor)
    assert list(backfill_jobs(Scope())) == []
    switch(actor)
    assert [piece.size for piece in backfill_jobs(Scope())] == [1]


def test_what_reflection_passed_over_is_gone_back_for(actor: Actor, llm: LLMServer) -> None:
    switch(actor, reflection=False)
    Model(llm, {"episodes": [episode(1, **EPISODE)]})
    talk(actor, "The build broke.")
    read(actor)
    assert list(backfill_jobs(Scope())) == []
    switch(actor)
    (piece,) = backfill_jobs(Scope())
    piece.prepare()
    assert not ReflectionCursor.objects.exists()


def test_only_what_was_passed_over_is_read_anew(actor: Actor, llm: LLMServer) -> None:
    model = Model(llm, {})
    session = talk(actor, "One.", "Two.")
    read(actor)
    switch(actor, semantic=False)
    talk(actor, "Three.", session=session)
    read(actor)
    talk(actor, "Four.", session=session)
    read(actor)
    switch(actor)
    assert skipped_messages(actor=actor) == {Strategy.SEMANTIC: 2}
    assert rewind(actor=actor, strategies=[Strategy.SEMANTIC]) == 2
    read(actor)
    assert [line[-6:].strip() for line in messages_shown(model.server.asked[-1])] == ["Three.", "Four."]


def test_the_same_message_read_again_strengthens_nothing(actor: Actor, llm: LLMServer) -> None:
    Model(llm, {"facts": [item("The user lives in Osaka.")]})
    talk(actor, "I live in Osaka.")
    read(actor)
    before = numbers(Memory.objects.get())
    rewind(actor=actor, strategies=[Strategy.SEMANTIC], again=True)
    read(actor)
    after = numbers(Memory.objects.get())
    assert (after.strength, after.access_count) == (before.strength, before.access_count)
