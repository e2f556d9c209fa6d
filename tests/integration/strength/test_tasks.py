"""The task flow, as a Python call and over REST (SPEC S8)."""

from datetime import datetime
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone
from rest_framework.test import APIClient

from memoryhub.auth.access import tenant_for_reading
from memoryhub.jobs.models import Job
from memoryhub.tenancy.models import Actor
from strength.actions.search import FoundMemory
from strength.actions.tasks import Completion, execute_task, found_memories
from strength.domain.strength import Impact
from strength.models import Memory, SleepRun, SleepState, Task
from tests.conftest import run_jobs
from tests.fakes.llm_server import Asked, LLMServer, Reply, plain
from tests.integration.strength.conftest import BY, NOW, Write, numbers

pytestmark = pytest.mark.django_db
API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
COST = "Emergency purchases cost 1.5 times as much."
TIME = "Regular purchases take ten working days."


def clock() -> datetime:
    return NOW


def execute(actor: Actor, run: Any, query: str = "emergency purchases", **more: Any) -> Task:
    tenant = tenant_for_reading(BY, "kana", "hiroki")
    return execute_task(tenant=tenant, actor=actor, query=query, run=run, by=BY, clock=clock, **more)


def test_what_the_result_uses_is_strengthened_and_the_rest_is_not(actor: Actor, write: Write) -> None:
    cost, time = write(COST), write(TIME)
    seen: list[FoundMemory] = []

    def run(memories: list[FoundMemory]) -> str:
        seen.extend(memories)
        return "We should plan for 1.5 times the price."

    outcome = execute(actor, run, query="emergency purchases or regular purchases", perspective="cost")

    assert {each.memory.pk for each in seen} == {cost.pk, time.pk}
    assert [each.memory.pk for each in found_memories(outcome, by=BY)] == [each.memory.pk for each in seen]
    assert (outcome.used_memory_ids, outcome.errors) == ([cost.pk], [])
    assert (numbers(cost).access_count, numbers(time).access_count) == (1, 0)
    assert (numbers(cost).candidate_count, numbers(time).candidate_count) == (1, 1)
    assert cost.perspectives.get().perspective == "cost"
    assert SleepState.objects.get().tasks_completed == 1


def test_use_is_found_in_japanese(actor: Actor, write: Write) -> None:
    cost = write("緊急調達では1.5倍のコストを見込む必要がある")
    write("定期調達の納期は通常10営業日である")
    outcome = execute(actor, lambda _: "コストは通常の1.5倍になると見込んでください。", query="緊急調達と定期調達")
    assert outcome.used_memory_ids == [cost.pk]


def test_a_function_that_raises_reinforces_nothing_and_is_reported(actor: Actor, write: Write) -> None:
    memory = write(COST)

    def run(memories: list[FoundMemory]) -> str:
        raise ZeroDivisionError("no budget")

    outcome = execute(actor, run, completion=Completion(used_memory_ids=[memory.pk]))
    assert outcome.errors == ["The task's function raised ZeroDivisionError: no budget"]
    assert (outcome.result, outcome.used_memory_ids, outcome.recorded_memory_id) == (None, [], None)
    assert numbers(memory).access_count == 0
    assert Task.objects.get().state == "failed"
    assert SleepState.objects.get().tasks_completed == 0


class Price:
    """A result of a sort that nobody knows."""

    def __str__(self) -> str:
        return "1.5 times the price"


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        (Price(), "1.5 times the price"),
        ({"price": Price(), "at": NOW}, f"price 1.5 times the price\nat {NOW}"),
        ("1.5 times \x00 the \ud800 price", "1.5 times \ufffd the \ufffd price"),
        ({"1.5 times the": "price\x00"}, "1.5 times the price\ufffd"),
        ([1.5, float("nan")], "1.5\nnan"),
        (("1.5 times", {"the": "price"}), ["1.5 times", {"the": "price"}]),
    ],
    ids=["object", "inner object", "NUL", "inner NUL", "NaN", "tuple"],
)
def test_a_result_that_no_row_can_keep_is_kept_in_its_words(actor: Actor, write: Write, result: Any, kept: Any) -> None:
    memory = write(COST)
    said = Completion(used_memory_ids=[memory.pk], learning_content="Prices go up.")
    outcome = execute(actor, lambda _: result, completion=said)
    assert (outcome.result, outcome.used_memory_ids, outcome.errors) == (kept, [memory.pk], [])
    assert (Task.objects.get().state, Task.objects.get().result) == ("completed", kept)


def test_words_of_an_exception_that_no_row_can_keep_are_told_all_the_same(actor: Actor) -> None:
    def run(memories: list[FoundMemory]) -> str:
        raise ValueError("bad \x00 text")

    outcome = execute(actor, run)
    assert outcome.errors == ["The task's function raised ValueError: bad \ufffd text"]
    assert (Task.objects.get().state, Task.objects.get().errors) == ("failed", outcome.errors)


def test_stated_ids_win_and_impacts_and_learnings_are_recorded(actor: Actor, write: Write) -> None:
    cost, time = write(COST), write(TIME)
    said = Completion(
        used_memory_ids=[time.pk],
        impact=Impact.TASK_SUCCESS,
        learning_content="Emergency purchases need a second offer.",
        learning_text="The first offer was too dear.",
    )
    outcome = execute(actor, lambda _: "1.5 times", completion=said, perspective="cost")
    assert outcome.used_memory_ids == [time.pk]
    assert numbers(time).strength == pytest.approx(1.0 + 0.1 + 1.5 * 0.2)
    assert numbers(cost).strength == 1.0
    learnt = Memory.objects.get(pk=outcome.recorded_memory_id)
    assert (learnt.kind, learnt.source, learnt.learnings) == (
        "learning",
        "task",
        {"cost": "The first offer was too dear."},
    )


def test_without_a_model_the_rest_is_done_and_the_errors_say_so(actor: Actor, write: Write) -> None:
    memory = write(COST)
    actor.agent.policy = {"use_detection": "llm"}
    actor.agent.save()
    outcome = execute(actor, lambda _: "It costs 1.5 times as much.", completion=Completion(extract_learning=True))
    assert outcome.used_memory_ids == [memory.pk]
    assert [error.split(":")[0] for error in outcome.errors] == [
        "Use was found by words, for llm could not be asked",
        "No learning was drawn from the result",
    ]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("key", [None, "once"])
def test_completion_keeps_no_connection_from_others_while_a_model_is_asked(
    client: APIClient, actor: Actor, write: Write, llm: LLMServer, key: str | None
) -> None:
    write(COST)
    actor.agent.policy = {"use_detection": "llm", "daily_token_cap": 1_000_000}
    actor.agent.save()
    mine, held = connections["default"], []

    def answer(asked: Asked) -> Reply:
        held.append(mine.connection is not None)
        return plain(asked)

    llm.answer(answer)
    address = f"{API}/tasks/{begun(client)['task_id']}/complete"
    headers = {"Idempotency-Key": key} if key else {}
    done = client.post(address, {"result": "1.5 times", "extract_learning": True}, headers=headers)
    assert (done.status_code, done.json()["errors"]) == (200, [])
    assert held == [False, False]


def test_use_by_vectors(actor: Actor, write: Write) -> None:
    cost, time = write(COST), write(TIME)
    actor.agent.policy = {"use_detection": "embedding"}
    actor.agent.save()
    outcome = execute(actor, lambda _: COST, query="purchases")
    assert cost.pk in outcome.used_memory_ids and time.pk not in outcome.used_memory_ids


# Over REST


def begun(client: APIClient, **more: Any) -> dict[str, Any]:
    answer = client.post(f"{API}/tasks", {**WHO, "query": "emergency purchases", **more})
    assert answer.status_code == 201, answer.content
    return answer.json()


def test_begin_and_complete(client: APIClient, write: Write) -> None:
    memory = write(COST)
    task = begun(client, perspective="cost")
    assert [each["memory"]["id"] for each in task["memories"]] == [str(memory.pk)]
    address = f"{API}/tasks/{task['task_id']}/complete"

    outcome = client.post(address, {"result": {"answer": "1.5 times as much"}, "learning_content": "Ask twice."})

    body = outcome.json()
    assert outcome.status_code == 200, body
    assert set(body) >= {
        "task_result",
        "searched_memories",
        "used_memory_ids",
        "recorded_memory_id",
        "executed_at",
        "errors",
    }
    assert body["task_result"] == {"answer": "1.5 times as much"}
    assert body["used_memory_ids"] == [str(memory.pk)]
    assert body["searched_memories"][0]["memory"]["strength"] == pytest.approx(1.1)

    again = client.post(address, {"result": "another result", "used_memory_ids": []})
    assert again.status_code == 200 and again.json() == body
    assert numbers(memory).access_count == 1
    assert client.get(f"{API}/tasks/{task['task_id']}").json() == body


def test_wrong_ids_are_told_and_the_rest_is_done(client: APIClient, write: Write) -> None:
    memory, waiting = write(COST), write("perhaps", confidence=0.1)
    task = begun(client)
    unknown = "0198d1a2-0000-7000-8000-000000000000"
    stated = [unknown, str(waiting.pk), str(memory.pk)]
    body = client.post(f"{API}/tasks/{task['task_id']}/complete", {"result": "x", "used_memory_ids": stated}).json()
    assert body["used_memory_ids"] == [str(memory.pk)]
    assert [unknown in body["errors"][0], "pending" in body["errors"][1]] == [True, True]


def test_a_task_may_end_with_a_sleep(client: APIClient, write: Write) -> None:
    write(COST)
    task = begun(client)
    client.post(f"{API}/tasks/{task['task_id']}/complete", {"result": "x", "run_sleep_phase": True})
    assert Job.objects.filter(kind="sleep").count() == 1
    run_jobs()
    assert SleepRun.objects.values_list("trigger", "state").get() == ("task", "done")


def test_reports_of_use_count_once_for_a_task(client: APIClient, write: Write) -> None:
    one, other = write(COST), write(TIME)
    for _ in range(2):
        answer = client.post(f"{API}/memories/{one.pk}/used", {"task_id": "t-1", "perspective": "cost"})
        assert answer.status_code == 200
    assert (answer.json()["access_count"], answer.json()["strength"]) == (1, pytest.approx(1.1))
    assert answer.json()["strength_by_perspective"] == {"cost": pytest.approx(0.15)}
    stranger = "0198d1a2-0000-7000-8000-000000000000"
    many = client.post(f"{API}/memories/used", {"ids": [str(one.pk), str(other.pk), stranger], "task_id": "t-1"})
    assert many.json() == {"reinforced": 1, "unknown": [stranger]}
    assert client.post(f"{API}/memories/used", {"ids": [stranger]}).status_code == 404


def test_impacts_strengths_candidates_and_archive_over_rest(client: APIClient, write: Write) -> None:
    one, other = write(COST), write(TIME)
    impact = client.post(f"{API}/memories/{one.pk}/impact", {"impact_type": "user_positive"}).json()
    assert (impact["impact_score"], impact["strength"]) == (2.0, pytest.approx(1.4))
    wrong = client.post(f"{API}/memories/{one.pk}/impact", {"impact_type": "luck"})
    assert wrong.status_code == 400 and "task_success" in wrong.content.decode()
    both = [str(one.pk), str(other.pk)]
    assert client.post(f"{API}/memories/candidates", {"ids": both}).json()["updated"] == 2
    updates = [{"id": both[0], "strength": 0.7}, {"id": both[1], "strength": 2}]
    assert client.post(f"{API}/memories/strengths", {"updates": updates}).json()["updated"] == 2
    assert [numbers(one).strength, numbers(other).strength] == [0.7, 2.0]
    assert client.post(f"{API}/memories/archive", {"ids": both, "reason": "tidy"}).json()["updated"] == 2
    assert client.post(f"{API}/memories/archive", {"ids": both}).json()["updated"] == 0
    revived = client.post(f"{API}/memories/{one.pk}/reactivate", {}).json()
    assert (revived["status"], revived["strength"]) == ("active", 0.7)
    assert client.post(f"{API}/memories/{one.pk}/reactivate", {}).status_code == 409
    history = client.get(f"{API}/memories/{one.pk}/strength").json()["results"]
    assert [point["kind"] for point in history] == ["created", "impact", "set", "now"]


def test_sleep_preview_and_undo_over_rest(client: APIClient, write: Write) -> None:
    now = timezone.now()
    weak, strong = write("weak", at=now, strength=0.1), write("strong", at=now)
    preview = client.post(f"{API}/sleep-runs", {**WHO, "dry_run": True}).json()
    assert (preview["dry_run"], preview["archived_count"]) == (True, 1)
    first = {name: preview["changes"][0][name] for name in ("memory_id", "change", "why")}
    assert first == {"memory_id": str(weak.pk), "change": "archive", "why": "at_or_below_archive_threshold"}
    assert client.get(f"{API}/sleep-runs/{preview['id']}").json() == preview
    assert client.post(f"{API}/sleep-runs/{preview['id']}/undo", {}).status_code == 409

    run = client.post(f"{API}/sleep-runs", WHO).json()
    assert set(run) >= {
        "id", "agent_id", "user_id", "dry_run", "decayed_count", "archived_count", "consolidated_count",
        "merged_count", "proposed_merges", "processed_at", "changes", "errors",
    }  # fmt: skip
    assert (run["decayed_count"], run["archived_count"]) == (2, 1)
    assert client.get(f"{API}/memories/{strong.pk}").json()["last_decay_at"] is not None
    listed = client.get(f"{API}/sleep-runs?agent_id=kana&user_id=hiroki").json()["results"]
    assert [each["id"] for each in listed] == [run["id"]]

    undone = client.post(f"{API}/sleep-runs/{run['id']}/undo", {"reason": "too early"}).json()
    assert (undone["state"], undone["errors"]) == ("undone", [])
    assert client.get(f"{API}/memories/{weak.pk}").json()["status"] == "active"
    assert client.get(f"{API}/memories/{strong.pk}").json()["strength"] == 1.0


def test_a_round_of_all_users_is_one_and_is_undone_as_one(client: APIClient, write: Write) -> None:
    write("hiroki's", strength=0.1)
    for user in ("", "aoi"):
        client.post(f"{API}/memories", {"agent_id": "kana", "user_id": user, "content": "x", "strength": 0.1})
    run = client.post(f"{API}/sleep-runs", {"agent_id": "kana", "all_users": True}).json()
    assert (run["archived_count"], len(run["runs"])) == (3, 3)
    assert client.get(f"{API}/sleep-runs/{run['id']}").json()["archived_count"] == 3
    undone = client.post(f"{API}/sleep-runs/{run['id']}/undo", {}).json()
    assert {each["state"] for each in undone["runs"]} == {"undone"}
    assert Memory.objects.active().count() == 3
    assert client.post(f"{API}/sleep-runs/{run['id']}/undo", {}).status_code == 409


def test_one_user_and_all_of_them_is_no_request(client: APIClient, write: Write) -> None:
    weak = write("x", strength=0.1)
    refused = client.post(f"{API}/sleep-runs", {**WHO, "all_users": True})
    assert refused.status_code == 400
    assert [error["field"] for error in refused.json()["errors"]] == ["user_id"]
    assert client.get(f"{API}/memories/{weak.pk}").json()["status"] == "active", "nobody slept"
    assert client.post(f"{API}/sleep-runs", {**WHO, "all_users": False}).status_code == 201


def test_merges_over_rest(client: APIClient, write: Write) -> None:
    now = timezone.now()
    one = write("The user likes green tea.", at=now)
    other = write("The user actually likes green tea", at=now)
    assert client.post(f"{API}/sleep-runs", WHO).json()["proposed_merges"] == 1
    (proposal,) = client.get(f"{API}/merges?agent_id=kana&user_id=hiroki").json()["results"]
    assert {proposal["kept"]["id"], proposal["absorbed"]["id"]} == {str(one.pk), str(other.pk)}
    merged = client.post(f"{API}/merges/{proposal['id']}/accept", {"reason": "same"}).json()
    assert (merged["state"], merged["absorbed"]["status"]) == ("merged", "archived")
    assert client.post(f"{API}/merges/{proposal['id']}/accept", {}).status_code == 409
    undone = client.post(f"{API}/merges/{proposal['id']}/undo", {}).json()
    assert (undone["state"], undone["absorbed"]["status"]) == ("undone", "active")


def test_a_task_finds_its_project_and_that_projects_memories(client: APIClient) -> None:
    for name, about in (
        ("atlas-maps", "Printing of maps and atlases."),
        ("garden", "Vegetables and herbs in the garden."),
    ):
        made = client.post(f"{API}/projects", {**WHO, "name": name, "description": about})
        assert made.status_code == 201, made.content
        client.post(f"{API}/memories", {**WHO, "content": f"The budget of {name} is tight.", "scope_project": name})
    task = begun(client, query="What is the budget for printing maps and atlases?", project="auto")
    assert task["routing"]["project"] == "atlas-maps"
    assert [each["memory"]["content"] for each in task["memories"]] == ["The budget of atlas-maps is tight."]
    assert begun(client, query="What is the budget?", project="garden")["routing"] is None
    wrong = client.post(f"{API}/tasks", {**WHO, "query": "tea", "project": 5 * ["x"]})
    assert wrong.status_code == 400
