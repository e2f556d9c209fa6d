"""Chat: the question is kept whatever happens, the answer only when it is whole (SPEC B1–B4)."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import httpx2
import pytest
from django.db import connections
from rest_framework.test import APIClient

from conversations.actions import chat as chat_action
from conversations.actions import turn_leases
from conversations.models import ChatTurn, Message, Receipt, Session
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from tests.conftest import client_with_key, run_jobs
from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.serving import Web

API = "/api/v1"
NAMES = {"agent_id": "kana", "user_id": "hiroki"}
CHAT = f"{API}/chat"


def ask(client: APIClient, message: str = "What tea do I like?", *, headers: Any = None, **values: Any) -> Any:
    return client.post(CHAT, {**NAMES, "message": message, **values}, headers=headers)


def told(response: Any) -> Any:
    assert response.status_code == 200, response.content
    return response.json()


def spoken(session_id: str) -> list[tuple[str, str]]:
    return list(Message.objects.filter(session_id=session_id).order_by("seq").values_list("role", "content"))


def test_chat_stores_both_and_answers_with_its_context(client: APIClient, llm: LLMServer) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana", "system_prompt": "You are Kana."})
    client.post(f"{API}/memories", {**NAMES, "content": "likes green tea", "kind": "preference"})
    llm.answer(Reply("Green tea.", input_tokens=120, output_tokens=4))
    answer = told(ask(client))
    assert (answer["status"], answer["text"]) == ("ok", "Green tea.")
    assert answer["usage"] == {"input_tokens": 120, "output_tokens": 4}
    assert answer["context_metadata"]["profile_count"] == 1
    assert spoken(answer["session_id"]) == [("user", "What tea do I like?"), ("assistant", "Green tea.")]
    asked = llm.asked[0]
    assert "You are Kana." in asked.system
    assert "likes green tea" in asked.text
    assert asked.text.count("What tea do I like?") == 1, "the stored question must not stand beside itself"
    receipt = client.get(f"{API}/receipts/{answer['receipt_id']}").json()
    assert receipt["query"] == "What tea do I like?"
    turn = ChatTurn.objects.get()
    assert (turn.state, str(turn.question_id), str(turn.answer_id)) == (
        "answered",
        answer["message_id"],
        answer["answer_id"],
    )


def test_chat_goes_on_in_its_session(client: APIClient, llm: LLMServer) -> None:
    llm.then(Reply("Hello Hiroki."), Reply("You said you were Hiroki."))
    first = told(ask(client, "I am Hiroki."))
    told(ask(client, "Who am I?", session_id=first["session_id"]))
    turns = [each["role"] for each in llm.asked[1].messages]
    assert turns == ["user", "assistant", "user"]
    assert "I am Hiroki." in llm.asked[1].text


def test_chat_without_memory_sends_the_message_alone(client: APIClient, llm: LLMServer) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana", "system_prompt": "You are Kana."})
    client.post(f"{API}/memories", {**NAMES, "content": "likes green tea"})
    answer = told(ask(client, memory=False))
    assert llm.asked[0].system == "You are Kana."
    assert llm.asked[0].messages == [{"role": "user", "content": "What tea do I like?"}]
    assert (answer["context_metadata"], answer["receipt_id"]) == (None, None)
    client.patch(f"{API}/agents/kana", {"policy": {"chat_memory": False}})
    assert told(ask(client))["context_metadata"] is None


def test_chat_says_that_no_model_is_configured_and_keeps_the_question(client: APIClient) -> None:
    response = ask(client)
    problem = response.json()
    assert (response.status_code, problem["code"], problem["reason"]) == (503, "llm_unavailable", "not_configured")
    assert problem["retryable"] is False
    assert "ANTHROPIC_API_KEY" in problem["detail"]
    assert spoken(problem["session_id"]) == [("user", "What tea do I like?")]
    assert str(Message.objects.get().pk) == problem["message_id"]


@pytest.mark.parametrize(
    ("failure", "reason", "retryable"),
    [
        ("529", "overloaded", True),
        ("retry_after_3600", "rate_limited", True),
        ("401", "unauthorized", False),
        ("refusal", "refused", False),
        ("html", None, True),
        ("max_tokens", "truncated", False),
        ("dropped", None, True),
    ],
)
def test_chat_says_why_the_model_failed_and_keeps_the_question(
    failure: str, reason: str | None, retryable: bool, client: APIClient, llm: LLMServer
) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana", "policy": {"chat_deadline_seconds": 60}})
    llm.answer(Reply("Half an answer", failure=failure))
    response = ask(client)
    problem = response.json()
    assert (response.status_code, problem["code"], problem["retryable"]) == (502, "llm_failed", retryable)
    assert reason is None or problem["reason"] == reason
    assert spoken(problem["session_id"]) == [("user", "What tea do I like?")]
    assert ChatTurn.objects.get().state == "failed"
    assert "SECRET" not in response.content.decode()
    if failure == "retry_after_3600":
        assert response["Retry-After"] == "3600"


def test_a_message_too_large_for_any_context_is_kept_and_said_so(client: APIClient, llm: LLMServer) -> None:
    response = ask(client, "word " * 5000, options={"max_tokens": 1000})
    assert (response.status_code, response.json()["code"]) == (422, "context_too_large")
    assert Message.objects.count() == 1
    assert (ChatTurn.objects.get().state, ChatTurn.objects.get().error) == ("failed", "no_context")


def test_a_call_that_stores_nothing_is_answered_with_memory(client: APIClient, llm: LLMServer) -> None:
    llm.answer(Reply("Green tea."))
    session = told(ask(client, "My sister is called Lena."))["session_id"]
    client.post(f"{API}/memories", {**NAMES, "content": "likes green tea", "kind": "preference"})
    counts = [model.objects.count() for model in (Message, ChatTurn, Receipt, Job)]
    answer = told(ask(client, session_id=session, store=False))
    assert (answer["text"], answer["session_id"], answer["answer_id"]) == ("Green tea.", None, None)
    assert "likes green tea" in llm.asked[-1].text and "Lena" in llm.asked[-1].text
    llm.answer(Reply(failure="401"))
    assert ask(client, store=False).json()["code"] == "llm_failed"
    assert [model.objects.count() for model in (Message, ChatTurn, Receipt, Job)] == counts


def test_wrong_options_store_nothing(client: APIClient, llm: LLMServer) -> None:
    response = ask(client, options={"recall_limit": 1000})
    assert response.status_code == 400
    assert "recall_limit" in response.json()["detail"]
    assert not Message.objects.exists()


def test_a_repeat_gets_the_first_answer(client: APIClient, llm: LLMServer) -> None:
    llm.then(Reply("Green tea."), Reply("Coffee."))
    key = {"Idempotency-Key": "one"}
    first, second = told(ask(client, headers=key)), ask(client, headers=key)
    assert told(second) == first
    assert second["Idempotent-Replay"] == "true"
    assert len(llm.asked) == 1
    assert Message.objects.count() == 2
    other = ask(client, "Something else?", headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


def test_a_repeat_after_a_failure_asks_again_and_keeps_one_question(client: APIClient, llm: LLMServer) -> None:
    llm.then(Reply(failure="401"), Reply("Green tea."))
    key = {"Idempotency-Key": "one"}
    failed = ask(client, headers=key)
    assert failed.status_code == 502
    answer = told(ask(client, headers=key))
    assert answer["message_id"] == failed.json()["message_id"]
    assert spoken(answer["session_id"]) == [("user", "What tea do I like?"), ("assistant", "Green tea.")]


def test_keys_of_two_clients_are_two_keys(client: APIClient, llm: LLMServer) -> None:
    key = {"Idempotency-Key": "one"}
    told(ask(client, headers=key))
    told(ask(client_with_key(), headers=key))
    assert len(llm.asked) == 2


def test_a_context_is_counted_exactly_where_that_is_asked_for(client: APIClient, llm: LLMServer) -> None:
    def tokens(**values: Any) -> Any:
        body = {**NAMES, "message": "What tea?", **values}
        return client.post(f"{API}/context", body).json()["metadata"].get("exact_tokens", "not told")

    assert tokens() == "not told"
    llm.count = lambda text: 7
    assert tokens(exact_tokens=True) % 7 == 0
    assert tokens(exact_tokens=True, format="openai") is None, "the provider takes another form"
    assert not llm.asked, "counting is no question"


@pytest.mark.django_db(transaction=True)
def test_counting_exactly_keeps_no_connection_from_others(client: APIClient, llm: LLMServer) -> None:
    mine, held = connections["default"], []

    def count(text: str) -> int:
        held.append(mine.connection is not None)
        return 7

    llm.count = count
    answer = client.post(f"{API}/context", {**NAMES, "message": "What tea?", "exact_tokens": True})
    assert told(answer)["metadata"]["exact_tokens"] and held and not any(held)


def test_a_session_of_another_user_is_as_a_new_one(client: APIClient, llm: LLMServer) -> None:
    foreign = told(client_with_key().post(CHAT, {"agent_id": "kana", "user_id": "ann", "message": "Hello"}))
    bound = client_with_key(agent_ids=["kana"], user_id="hiroki")
    response = bound.post(CHAT, {"agent_id": "kana", "message": "Hello", "session_id": foreign["session_id"]})
    assert told(response)["session_id"] == foreign["session_id"], "the id that the client chose"
    owners = Message.objects.values_list("actor__user_id", flat=True)
    assert sorted(owners) == ["ann", "ann", "hiroki", "hiroki"]
    keys = Message.objects.filter(actor__user_id="ann").values_list("session_id", flat=True)
    assert set(map(str, keys)) == {foreign["session_id"]}


@pytest.mark.django_db(transaction=True)
def test_eight_repeats_at_once_are_one_question(llm: LLMServer) -> None:
    client = client_with_key()
    llm.answer(Reply("Green tea.", delay_seconds=0.5))

    def repeat(_: int) -> Any:
        with closing(connections["default"]):
            return told(ask(client, headers={"Idempotency-Key": "one"}))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(repeat, range(8)))
    assert len({each["answer_id"] for each in answers}) == 1
    assert (len(llm.asked), Message.objects.count(), Session.objects.count()) == (1, 2, 1)


def test_the_answer_strengthens_what_it_used_once(client: APIClient, llm: LLMServer) -> None:
    tea, coffee = (
        client.post(f"{API}/memories", {**NAMES, "content": content}).json()["id"]
        for content in ("Hiroki likes green tea from Uji.", "Hiroki drinks coffee on Sundays.")
    )
    llm.answer(Reply("You like green tea, the one from Uji."))
    told(ask(client, "Which tea do I like, and when do I drink coffee?"))
    for _ in range(2):
        run_jobs()
        ChatTurn.objects.update(use_noted_at=None)
        enqueue(
            "note_use", actor_id=ChatTurn.objects.get().actor_id, payload={"session_id": str(Session.objects.get().pk)}
        )
    used = {key: client.get(f"{API}/memories/{key}").json()["access_count"] for key in (tea, coffee)}
    assert used == {tea: 1, coffee: 0}


def test_more_answers_than_one_attempt_has_time_for_are_looked_through_in_parts(
    client: APIClient, llm: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strength.jobs.DETECTION_SECONDS", 10_000.0)
    tea = client.post(f"{API}/memories", {**NAMES, "content": "Hiroki likes green tea from Uji."}).json()["id"]
    llm.answer(Reply("You like green tea, the one from Uji."))
    first = told(ask(client, "Which tea do I like?"))
    for _ in range(2):
        told(ask(client, "And which tea is green?", session_id=first["session_id"]))
    for left in (2, 1, 0):
        Job.objects.update(due_at=datetime(2020, 1, 1, tzinfo=UTC))
        run_jobs()
        assert ChatTurn.objects.filter(use_noted_at=None).count() == left
    assert client.get(f"{API}/memories/{tea}").json()["access_count"] == 3
    assert Job.objects.get(kind="note_use").attempts == 3


def test_an_untrusted_question_strengthens_nothing(client: APIClient, llm: LLMServer) -> None:
    tea = client.post(f"{API}/memories", {**NAMES, "content": "Hiroki likes green tea from Uji."}).json()["id"]
    client.patch(f"{API}/agents/kana", {"policy": {"untrusted_channels": ["slack"]}})
    llm.answer(Reply("You like green tea, the one from Uji."))
    told(ask(client, "Which green tea do I like?", channel="slack"))
    run_jobs()
    assert client.get(f"{API}/memories/{tea}").json()["access_count"] == 0
    assert ChatTurn.objects.get().use_noted_at is not None


# As it is written


def key_of(client: APIClient) -> dict[str, str]:
    return {"Authorization": str(client._credentials["HTTP_AUTHORIZATION"])}


def events(response: httpx2.Response) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def stream(web: Web, client: APIClient, message: str = "What tea do I like?", **values: Any) -> list[tuple[str, Any]]:
    body = {**NAMES, "message": message, "stream": True, **values}
    with httpx2.stream("POST", web.url + CHAT, json=body, headers=key_of(client), timeout=60) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["Content-Type"] == "text/event-stream"
        return list(events(response))


def test_a_stream_may_store_nothing(web: Web, llm: LLMServer) -> None:
    llm.answer(Reply("Green tea."))
    heard = stream(web, client_with_key(), store=False)
    assert heard[-1][0] == "done" and (heard[-1][1]["text"], heard[-1][1]["answer_id"]) == ("Green tea.", None)
    assert not Message.objects.exists()


def test_a_streamed_answer_comes_in_pieces_and_is_stored(web: Web, llm: LLMServer) -> None:
    client = client_with_key()
    llm.answer(Reply("Green tea, 緑茶。", pieces=["Green ", "tea, ", "緑茶。"]))
    heard = stream(web, client)
    assert [name for name, _ in heard] == ["session", "delta", "delta", "delta", "done"]
    assert "".join(data["text"] for name, data in heard if name == "delta") == "Green tea, 緑茶。"
    done = heard[-1][1]
    assert done["text"] == "Green tea, 緑茶。"
    assert heard[0][1] == {"session_id": done["session_id"], "message_id": done["message_id"]}
    assert spoken(done["session_id"])[1] == ("assistant", "Green tea, 緑茶。")
    assert set(done) == set(told(ask(client)))


@pytest.mark.parametrize("failure", ["cut_stream", "dropped", "overload_in_stream", "refusal"])
def test_a_broken_stream_ends_in_an_error_and_stores_nothing_partial(failure: str, web: Web, llm: LLMServer) -> None:
    client = client_with_key()
    llm.answer(Reply("Half an answer that is long enough to be cut", failure=failure))
    heard = stream(web, client)
    name, problem = heard[-1]
    assert (name, problem["code"], problem["status"]) == ("error", "llm_failed", 502)
    assert spoken(problem["session_id"]) == [("user", "What tea do I like?")]
    assert ChatTurn.objects.get().state == "failed"


def test_a_cut_stream_that_the_user_has_read_is_kept_and_marked(web: Web, llm: LLMServer) -> None:
    client = client_with_key()
    llm.answer(Reply("Half an answer that is long enough to be cut", failure="max_tokens"))

    name, done = stream(web, client)[-1]

    assert (name, done["status"]) == ("done", "truncated")
    assert "Half an answer".startswith(done["text"][:8]) and done["text"]
    assert spoken(done["session_id"])[1] == ("assistant", done["text"])
    answer = Message.objects.get(role="assistant")
    assert answer.metadata["truncated"] is True
    assert ChatTurn.objects.get().state == "answered"


def test_a_stream_that_is_cut_before_its_first_word_fails(web: Web, llm: LLMServer) -> None:
    client = client_with_key()
    llm.answer(Reply("  ", failure="max_tokens"))

    name, problem = stream(web, client)[-1]
    assert (name, problem["reason"]) == ("error", "truncated")


def test_a_stream_that_cannot_begin_is_a_plain_problem(web: Web) -> None:
    client = client_with_key()
    body = {**NAMES, "message": "word " * 5000, "stream": True, "options": {"max_tokens": 1000}}
    headers = {**key_of(client), "Accept": "text/event-stream"}
    response = httpx2.post(web.url + CHAT, json=body, headers=headers, timeout=60)
    assert (response.status_code, response.json()["code"]) == (422, "context_too_large")
    assert response.headers["Content-Type"] == "application/problem+json"


def test_without_a_model_a_stream_says_so(web: Web) -> None:
    name, problem = stream(web, client_with_key())[-1]
    assert (name, problem["code"]) == ("error", "llm_unavailable")


def test_the_server_answers_a_stream_in_english_whatever_is_asked_for(web: Web) -> None:
    client = client_with_key()
    headers = {**key_of(client), "Accept-Language": "ja"}
    url = web.url + CHAT
    wrong = httpx2.post(url, json={**NAMES, "message": "", "stream": True}, headers=headers, timeout=60)
    assert wrong.status_code == 400 and wrong.content.isascii() and "more than white space" in wrong.text
    body = {**NAMES, "message": "Tea?", "stream": True}
    with httpx2.stream("POST", url, json=body, headers=headers, timeout=60) as told:
        assert told.headers["Content-Language"] == "en" and told.read().isascii()


def test_a_repeated_stream_tells_the_stored_answer(web: Web, llm: LLMServer) -> None:
    client = client_with_key()
    llm.then(Reply("Green tea."), Reply("Coffee."))
    body = {**NAMES, "message": "What tea?", "stream": True}
    headers = {**key_of(client), "Idempotency-Key": "one"}
    answers = []
    for _ in range(2):
        with httpx2.stream("POST", web.url + CHAT, json=body, headers=headers, timeout=60) as response:
            answers.append(list(events(response))[-1])
    assert answers[0] == answers[1]
    assert len(llm.asked) == 1


def test_a_chat_whose_client_goes_away_is_finished_and_stored(web: Web, llm: LLMServer) -> None:
    client = client_with_key()
    llm.answer(Reply("one two three four", pieces=["one ", "two ", "three ", "four"], piece_delay_seconds=0.3))
    body = {**NAMES, "message": "Count.", "stream": True}
    with httpx2.stream("POST", web.url + CHAT, json=body, headers=key_of(client), timeout=60) as response:
        heard = events(response)
        assert [next(heard)[0], next(heard)[0]] == ["session", "delta"]
    wait_until(lambda: ChatTurn.objects.get().state == "answered")
    assert spoken(str(ChatTurn.objects.get().session_id)) == [("user", "Count."), ("assistant", "one two three four")]


def test_twenty_streams_at_once_get_their_own_answers(web: Web, llm: LLMServer) -> None:
    client = client_with_key()

    def echo(asked: Asked) -> Reply:
        last = asked.messages[-1]["content"]
        text = last if isinstance(last, str) else last[-1]["text"]
        return Reply(f"You said: {text}", piece_delay_seconds=0.01)

    llm.answer(echo)

    def one(number: int) -> tuple[str, str]:
        return f"You said: number {number}", stream(web, client, f"number {number}")[-1][1]["text"]

    with ThreadPoolExecutor(20) as pool:
        for wanted, got in pool.map(one, range(20)):
            assert got == wanted


def test_a_client_that_leaves_before_the_first_event_has_asked_all_the_same(
    client: APIClient, llm: LLMServer, transactional_db: None
) -> None:
    llm.answer(Reply("Green tea."))
    response = ask(client, stream=True)
    response.close()  # nobody reads it
    wait_until(lambda: ChatTurn.objects.get().state == "answered")
    assert spoken(str(ChatTurn.objects.get().session_id))[1] == ("assistant", "Green tea.")


def test_streams_hold_no_connection_while_the_model_writes(web: Web, llm: LLMServer) -> None:
    def held() -> int:
        with connections["default"].cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND backend_type = 'client backend'"
            )
            return cursor.fetchone()[0]

    client = client_with_key()
    go_on = Event()
    llm.answer(Reply("one two", pieces=["one ", "two"], go_on=go_on))
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(stream, web, client) for _ in range(4)]
        try:
            wait_until(lambda: len(llm.asked) == 4)
            wait_until(lambda: held() == 0)
            assert not any(each.done() for each in running), "the model has not ended"
        finally:
            go_on.set()
        assert [each.result()[-1][0] for each in running] == ["done"] * 4


def test_an_erased_user_ends_the_stream_with_the_plain_calls_problem(web: Web, llm: LLMServer) -> None:
    client = client_with_key()
    go_on = Event()
    llm.answer(Reply("one two", pieces=["one ", "two"], go_on=go_on))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(stream, web, client)
        try:
            wait_until(lambda: len(llm.asked) == 1)
            assert client.delete(f"{API}/actors?agent_id=kana&user_id=hiroki").status_code == 200
        finally:
            go_on.set()
        name, problem = running.result()[-1]
    assert (name, problem["status"], problem["code"]) == ("error", 404, "not_found")


def test_what_breaks_in_our_own_house_leaves_no_turn_behind(
    client: APIClient, llm: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: Any) -> None:
        raise RuntimeError("secret insides")

    monkeypatch.setattr("conversations.actions.answers.store_answer", broken)
    client.raise_request_exception = False
    assert ask(client, headers={"Idempotency-Key": "one"}).status_code == 500
    assert (ChatTurn.objects.get().state, ChatTurn.objects.get().error) == ("failed", "error")
    monkeypatch.undo()
    told(ask(client, headers={"Idempotency-Key": "one"}))


def test_a_key_stands_for_one_question_of_one_user_on_one_channel(client: APIClient, llm: LLMServer) -> None:
    key = {"Idempotency-Key": "one"}
    told(ask(client, headers=key))
    for other in ({"agent_id": "yuno"}, {"user_id": "aoi"}, {"channel": "slack"}):
        response = ask(client, headers=key, **other)
        assert (response.status_code, response.json()["code"]) == (422, "idempotency_key_reused"), other
    assert len(llm.asked) == 1


def test_a_key_is_free_again_after_a_day_whatever_became_of_its_question(client: APIClient, llm: LLMServer) -> None:
    key = {"Idempotency-Key": "one"}
    told(ask(client, headers=key))
    ChatTurn.objects.update(state="answering", until="2026-01-01T00:00:00Z", created_at="2026-01-01T00:00:00Z")
    told(ask(client, "Something else?", headers=key))
    assert ChatTurn.objects.count() == 2


def wait_until(holds: Any, seconds: float = 60.0) -> None:
    ends_at = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends_at, "it did not come"
        time.sleep(0.05)


def test_a_question_that_was_broken_off_may_be_asked_again(client: APIClient, llm: LLMServer) -> None:
    key = {"Idempotency-Key": "one"}
    told(ask(client, headers=key))
    answer = Message.objects.get(role="assistant")
    ChatTurn.objects.update(state="answering", answer=None, until="2026-01-01T00:00:00Z")
    answer.delete()
    again = told(ask(client, headers=key))
    assert spoken(again["session_id"])[0] == ("user", "What tea do I like?")
    assert (ChatTurn.objects.get().attempt, ChatTurn.objects.get().state) == (2, "answered")


@pytest.mark.django_db(transaction=True)
def test_a_long_answer_keeps_its_turn_and_a_dead_one_loses_it(llm: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    # The answer takes longer than a lease, and a lease longer than a busy machine delays a renewal.
    monkeypatch.setattr(chat_action, "LEASE", timedelta(seconds=2))
    monkeypatch.setattr(turn_leases, "LEASE", timedelta(seconds=2))
    monkeypatch.setattr(turn_leases, "RENEWAL_SECONDS", 0.1)
    client, body = client_with_key(), {"agent_id": "kana", "user_id": "hiroki", "message": "Hello"}
    llm.answer(Reply("Slow.", delay_seconds=4))
    keyed = {"HTTP_IDEMPOTENCY_KEY": "a"}

    def repeat(_: int) -> Any:
        with closing(connections["default"]):
            return client.post(CHAT, body, **keyed)

    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(repeat, range(2)))
    assert {told(each)["text"] for each in answers} == {"Slow."} and len(llm.asked) == 1, "it was renewed"
    # A process that died leaves a turn that nobody renews.
    ChatTurn.objects.update(state="answering", answer=None, until=datetime.now(UTC) + timedelta(seconds=0.5))
    llm.answer(Reply("Again."))
    assert told(client.post(CHAT, body, **keyed))["text"] == "Again."
