"""Retries of the client, and how long it waits before."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx2
import pytest

from memoryhub_client import AnswerLost, ApiError, NotReached, RetryPolicy, StorageFull
from memoryhub_client.transport import Attempts, Call, ExportLines, Prepared, StreamedAnswer, path, retry_after_seconds

POLICY = RetryPolicy(attempts=3, first_wait_seconds=1.0, longest_wait_seconds=30.0)


def prepared(method: Any = "POST", **values: Any) -> Prepared:
    call: Call[Any] = Call(method, "/api/v1/memories", body={"content": "tea"}, **values)
    return call.prepared(agent_id="kana", user_id=None)


def answer(status: int, body: Any = None, **headers: str) -> httpx2.Response:
    return httpx2.Response(status, json=body, headers={key.replace("_", "-"): text for key, text in headers.items()})


def test_tenant_of_the_client_fills_what_a_call_leaves_out() -> None:
    call: Call[Any] = Call("POST", "/x", body={"user_id": "", "from_": "a"}, tenant="body")
    sent = call.prepared(agent_id="kana", user_id="hiroki")
    assert sent.content == b'{"user_id": "", "from": "a", "agent_id": "kana"}'
    everybody: Call[Any] = Call("POST", "/x", body={"all_users": True}, tenant="body")
    assert everybody.prepared(agent_id="kana", user_id="hiroki").content == b'{"all_users": true, "agent_id": "kana"}'
    listed: Call[Any] = Call("GET", "/x", {"pinned": True, "kind": None}, tenant="query")
    assert listed.prepared(agent_id="kana", user_id=None).params == {"pinned": "true", "agent_id": "kana"}


def test_every_post_has_a_key_of_its_own_that_all_its_attempts_share() -> None:
    first, second = prepared(), prepared()
    assert first.headers["Idempotency-Key"] != second.headers["Idempotency-Key"]
    assert first.arguments() == first.arguments()
    call: Call[Any] = Call("POST", "/x", body={"idempotency_key": "mine"})
    sent = call.prepared(agent_id=None, user_id=None)
    assert (sent.headers["Idempotency-Key"], sent.content) == ("mine", b"{}")


@pytest.mark.parametrize("segment", ["", ".", ".."])
def test_segment_that_names_another_place_is_refused(segment: str) -> None:
    with pytest.raises(ValueError, match="no id or name"):
        path("memories", segment)


def test_segments_are_quoted() -> None:
    assert path("projects", "a/b?c 庭") == "/api/v1/projects/a%2Fb%3Fc%20%E5%BA%AD"


@pytest.mark.parametrize(
    ("status", "body", "headers", "wait"),
    [
        (429, {"code": "throttled"}, {"Retry_After": "7"}, 7.0),
        (503, {"code": "database_unavailable"}, {"Retry_After": "0"}, 0.0),
        (409, {"code": "idempotency_in_progress"}, {"Retry_After": "1"}, 1.0),
        (503, None, {"Retry_After": "2"}, 2.0),
    ],
)
def test_answer_that_asks_to_wait_is_obeyed(status: int, body: Any, headers: Any, wait: float) -> None:
    assert Attempts(prepared(), POLICY).wait_after_answer(answer(status, body, **headers)) == wait


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (429, {"code": "throttled"}, {"Retry_After": "31"}),
        (503, {"code": "llm_unavailable", "retryable": False}, {"Retry_After": "1"}),
        (503, {"code": "llm_unavailable"}, {}),
        (502, {"code": "llm_failed", "retryable": True}, {}),
        (500, {"code": "error"}, {}),
        (409, {"code": "wrong_state"}, {}),
        (404, {"code": "not_found"}, {}),
    ],
)
def test_answer_that_waiting_does_not_change_is_raised(status: int, body: Any, headers: Any) -> None:
    with pytest.raises(ApiError) as error:
        Attempts(prepared(), POLICY).wait_after_answer(answer(status, body, **headers))
    assert (error.value.status, error.value.code) == (status, body["code"])


def test_waits_grow_and_end_with_the_attempts() -> None:
    attempts = Attempts(prepared(), POLICY)
    first = attempts.wait_after_failure(httpx2.ReadError("reset"))
    second = attempts.wait_after_answer(answer(502))
    assert second is not None and 0.5 <= first <= 1.0 <= second <= 2.0
    with pytest.raises(AnswerLost) as lost:
        attempts.wait_after_failure(httpx2.ConnectError("refused"))
    assert lost.value.retryable
    unreached = Attempts(prepared(), RetryPolicy(attempts=1))
    with pytest.raises(NotReached):
        unreached.wait_after_failure(httpx2.ConnectError("refused"))


@pytest.mark.parametrize("condition", ["If-Match", "If-None-Match"])
def test_conditional_change_is_repeated_only_where_the_server_has_not_seen_it(condition: str) -> None:
    call = prepared("PUT", conditions={condition: "*"})
    attempts = Attempts(call, POLICY)
    assert attempts.wait_after_failure(httpx2.ConnectTimeout("")) > 0
    assert attempts.wait_after_answer(answer(429, {"code": "throttled"}, Retry_After="0")) == 0.0
    with pytest.raises(AnswerLost):
        attempts.wait_after_failure(httpx2.ReadTimeout(""))
    with pytest.raises(ApiError):
        Attempts(call, POLICY).wait_after_answer(answer(502))


def test_retry_after_is_seconds_or_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 60 < (retry_after_seconds({"Retry-After": soon}) or 0) <= 90
    assert retry_after_seconds({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    assert retry_after_seconds({"Retry-After": "soon"}) is None
    assert retry_after_seconds({}) is None


def test_repeated_stream_gives_only_what_is_new() -> None:
    stream = StreamedAnswer()
    stream.begin()
    given = [*stream.taken("session", {"session_id": "1"}), *stream.taken("delta", {"text": "Green "})]
    with pytest.raises(httpx2.RemoteProtocolError):
        stream.check_over()
    stream.begin()
    for name, data in [("session", {"session_id": "1"}), ("delta", {"text": "Gre"}), ("delta", {"text": "en tea"})]:
        given += stream.taken(name, data)
    given += stream.taken("done", {"text": "Green tea"})
    texts = [data["text"] for name, data in given if name == "delta"]
    assert ([name for name, _ in given], texts) == (["session", "delta", "delta", "done"], ["Green ", "tea"])
    assert stream.is_over


@pytest.mark.parametrize("events", [[("delta", {"text": "Black"})], [("delta", {"text": "Gr"}), ("done", {})]])
def test_repeated_stream_with_other_words_is_an_error(events: list[tuple[str, Any]]) -> None:
    stream = StreamedAnswer()
    stream.begin()
    stream.taken("delta", {"text": "Green "})
    stream.begin()
    with pytest.raises(AnswerLost):
        for name, data in events:
            stream.taken(name, data)


def test_export_without_its_last_line_broke_off() -> None:
    lines = ExportLines()
    lines.parsed('{"memory": 1}')
    with pytest.raises(AnswerLost):
        lines.check_over()
    lines.parsed('{"end": {}}')
    lines.check_over()


def test_full_disk_is_an_error_of_its_own_that_may_pass_but_is_not_waited_for() -> None:
    full = answer(507, {"status": 507, "code": "disk_full", "detail": "Nearly full."}, Retry_After="30")
    with pytest.raises(StorageFull, match="disk_full: Nearly full") as caught:
        Attempts(prepared(), POLICY).wait_after_answer(full)
    assert (caught.value.retryable, caught.value.retry_after_seconds) == (True, 30.0)
