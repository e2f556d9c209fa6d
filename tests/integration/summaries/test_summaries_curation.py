"""Curation of summaries: read, order, put right, lock, restore, delete, digest (SPEC U1, U7, U9)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.actions.context import ContextRequest, assemble_context
from conversations.models import Receipt, Session
from memoryhub.api.idempotency import IdempotencyRecord
from memoryhub.auth.access import tenant_for_reading
from memoryhub.auth.models import AuditEntry
from memoryhub.jobs.models import Job
from summaries.models import Summary, SummaryVersion
from tests.conftest import client_with_key
from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.integration.summaries.conftest import BY, NOW, Talk, open_talk, ran, seqs_in

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
LIST = f"{API}/summaries?agent_id=kana&user_id=hiroki"
TALK = ("I moved to Otaru in spring because of the harbour.", "How do you like the canal in Otaru?")


def address(talk: Talk, rest: str = "") -> str:
    return f"{API}/sessions/{talk.session.pk}/summary{rest}"


@pytest.fixture
def told(client: APIClient) -> Talk:
    """Return a session that has a summary."""
    talk = open_talk(*TALK)
    assert ran(client.post(address(talk)).data["job_id"]).state == "done"
    return talk


def test_ordered_in_the_background_and_read_as_documented(client: APIClient) -> None:
    talk = open_talk(*TALK)
    assert client.get(address(talk)).status_code == 404

    ordered = client.post(address(talk))

    assert ordered.status_code == 202 and set(ordered.data) == {"job_id"}
    job = client.get(f"{API}/jobs/{ordered.data['job_id']}").json()
    assert (job["kind"], job["state"]) == ("summarize", "queued")
    ran(ordered.data["job_id"])
    answer = client.get(address(talk))
    body = answer.json()
    assert answer["ETag"] == '"1"'
    assert body["summary"].startswith("User: I moved to Otaru in spring")
    assert {key: body[key] for key in ("session_id", "message_count", "model", "generator", "trust", "locked")} == {
        "session_id": str(talk.session.pk),
        "message_count": 2,
        "model": "",
        "generator": "extractive",
        "trust": "trusted",
        "locked": False,
    }
    assert (body["agent_id"], body["user_id"], body["start_time"]) == ("kana", "hiroki", "2026-03-01T12:00:00Z")
    assert set(body) >= {"id", "end_time", "created_at", "updated_at"}
    stats = client.get(f"{API}/sessions/{talk.session.pk}/stats").json()
    assert stats["has_summary"] is True and stats["last_summary_time"] == body["updated_at"]


def test_without_messages_there_is_nothing_to_order(client: APIClient, talk: Talk) -> None:
    for body in ({}, {"start_time": "2020-01-01T00:00:00Z"}):
        refused = client.post(address(talk), body)
        assert (refused.status_code, refused.json()["code"]) == (409, "no_messages")
    talk.say(*TALK)
    assert client.post(address(talk), {"end_time": "2020-01-01T00:00:00Z"}).status_code == 409
    wrong = {"start_time": "2026-03-02T00:00:00Z", "end_time": "2026-03-01T00:00:00Z"}
    assert client.post(address(talk), wrong).status_code == 400


def test_asked_for_eight_times_it_is_written_once(client: APIClient) -> None:
    talk = open_talk(*TALK)
    jobs = {client.post(address(talk)).data["job_id"] for _ in range(4)}
    assert len(jobs) == 1
    ran(jobs.pop())
    # Four more that had asked before it was written.
    payload = Job.objects.filter(kind="summarize", key__startswith="asked").first().payload
    for _ in range(4):
        assert talk.summarize(**{key: payload[key] for key in payload if key != "session_id"}).state == "done"
    assert SummaryVersion.objects.count() == 1


def test_asked_for_again_it_rolls_on_and_with_nothing_new_it_is_written_anew(client: APIClient, llm: LLMServer) -> None:
    talk = open_talk()
    talk.say_many(3)
    ran(client.post(address(talk)).data["job_id"])
    talk.say_many(2, first=4)
    ran(client.post(address(talk)).data["job_id"])
    ran(client.post(address(talk)).data["job_id"])
    assert [seqs_in([asked.text]) for asked in llm.asked] == [[1, 2, 3], [4, 5], [1, 2, 3, 4, 5]]
    assert talk.summary is not None and talk.summary.version == 3


def test_of_a_time_only_what_was_said_then(client: APIClient, llm: LLMServer) -> None:
    talk = open_talk()
    for hour in range(3):
        talk.say(f"Message m{hour:04}x", at=NOW + timedelta(hours=hour))
    window = {"start_time": NOW.isoformat(), "end_time": (NOW + timedelta(hours=1)).isoformat()}
    ran(client.post(address(talk), window).data["job_id"])
    assert seqs_in([llm.asked[0].text]) == [0, 1]
    body = client.get(address(talk)).json()
    assert (body["message_count"], body["end_time"]) == (2, "2026-03-01T13:00:00Z")
    talk.end()
    talk.summarize()
    assert seqs_in([llm.asked[1].text]) == [0, 1, 2], "the next one is made of all that was said"
    assert "<previous-summary" not in llm.asked[1].text


def test_an_edit_is_a_version_and_locks(client: APIClient, told: Talk) -> None:
    edited = client.patch(
        address(told), {"summary": "They live in Otaru.", "reason": "shorter"}, headers={"If-Match": '"1"'}
    )
    assert (edited.status_code, edited["ETag"]) == (200, '"2"')
    assert (edited.data["summary"], edited.data["locked"]) == ("They live in Otaru.", True)
    assert client.patch(address(told), {"summary": "x"}, headers={"If-Match": '"1"'}).status_code == 412
    refused = client.post(address(told))
    assert (refused.status_code, refused.json()["code"]) == (409, "summary_locked")
    same = client.patch(address(told), {"summary": "They live in Otaru.", "locked": True})
    assert same["ETag"] == '"2"', "what changes nothing is no version"
    assert client.patch(address(told), {"locked": False}).data["locked"] is False
    open_edit = client.patch(address(told), {"summary": "Otaru.", "locked": False})
    assert open_edit.data["locked"] is False
    for wrong in ({"summary": " "}, {"summary": "x" * 20_001}, {"locked": "perhaps"}, {"model": "x"}):
        assert client.patch(address(told), wrong).status_code == 400

    versions = client.get(address(told, "/versions")).json()["results"]
    assert [(each["number"], each["verb"]) for each in versions] == [
        (4, "edit"),
        (3, "unlock"),
        (2, "edit"),
        (1, "write"),
    ]
    assert versions[2]["reason"] == "shorter" and versions[2]["by"]["kind"] == "key"
    assert set(AuditEntry.objects.filter(object_kind="summary").values_list("verb", flat=True)) == {
        "order",
        "write",
        "edit",
        "unlock",
    }


def test_a_version_comes_back_with_what_it_covers(client: APIClient, told: Talk) -> None:
    first = client.get(address(told)).json()
    told.say("The festival at the canal in Otaru is on Friday.")
    ran(client.post(address(told)).data["job_id"])
    assert client.get(address(told)).json()["message_count"] == 3

    restored = client.post(address(told, "/restore"), {"number": 1, "reason": "better"})

    assert restored.status_code == 200 and restored["ETag"] == '"3"'
    assert {key: restored.json()[key] for key in ("summary", "message_count", "locked")} == {
        "summary": first["summary"],
        "message_count": 2,
        "locked": True,
    }
    assert client.post(address(told, "/restore"), {"number": 9}).status_code == 404
    client.patch(address(told), {"locked": False})
    ran(client.post(address(told)).data["job_id"])
    assert client.get(address(told)).json()["message_count"] == 3, "what was said since has joined again"


def test_a_deleted_summary_leaves_no_text_and_may_be_written_anew(client: APIClient, told: Talk) -> None:
    client.patch(address(told), {"summary": "SECRETWORD of the harbour", "locked": False})
    tenant = tenant_for_reading(BY, "kana", "hiroki")
    session = Session.objects.get(pk=told.session.pk)
    assemble_context(tenant=tenant, request=ContextRequest(message="hi", session=session, options={}), by=BY, now=NOW)
    client.post(f"{API}/summaries/digest", WHO, headers={"Idempotency-Key": "d"})
    client.post(address(told, "/restore"), {"number": 2}, headers={"Idempotency-Key": "r"})
    assert "SECRETWORD" in str(Receipt.objects.get().items) and IdempotencyRecord.objects.count() == 2

    assert client.delete(address(told), headers={"If-Match": '"1"'}).status_code == 412
    assert client.delete(address(told)).status_code == 204

    assert not Summary.objects.exists() and not SummaryVersion.objects.exists()
    assert "SECRETWORD" not in str(Receipt.objects.get().items) and not IdempotencyRecord.objects.exists()
    assert client.get(address(told)).status_code == 404
    ran(client.post(address(told)).data["job_id"])
    assert client.get(address(told)).json()["version"] == 1


def test_an_untrusted_key_touches_nothing_that_is_believed(client: APIClient, told: Talk) -> None:
    stranger = client_with_key(is_trusted=False)
    for call in (
        lambda: stranger.patch(address(told), {"summary": "x"}),
        lambda: stranger.delete(address(told)),
        lambda: stranger.post(address(told, "/restore"), {"number": 1}),
    ):
        assert call().status_code == 403
    Summary.objects.update(trust="untrusted")
    assert stranger.patch(address(told), {"summary": "x", "locked": False}).data["trust"] == "untrusted"
    assert stranger.post(address(told, "/restore"), {"number": 1}).json()["trust"] == "untrusted"
    assert client.patch(address(told), {"summary": "y"}).data["trust"] == "untrusted", "a client does not vouch"


def test_the_list_begins_with_the_latest_conversation(client: APIClient) -> None:
    talks = []
    for hour in (1, 3, 2):
        talk = open_talk()
        talk.say(f"The train of hour {hour} goes to Otaru harbour.", at=NOW + timedelta(hours=hour))
        ran(client.post(address(talk)).data["job_id"])
        talks.append(str(talk.session.pk))
    other = open_talk("Somebody else spoke of Sapporo.", user_id="aoi")
    ran(client.post(address(other)).data["job_id"])

    listed = client.get(LIST).json()["results"]
    assert [each["session_id"] for each in listed] == [talks[1], talks[2], talks[0]]
    latest = client.get(f"{LIST}&limit=1").json()
    assert [each["session_id"] for each in latest["results"]] == [talks[1]] and latest["next"]


def context(session: Session | None, **options: Any) -> tuple[str, dict[str, Any]]:
    tenant = tenant_for_reading(BY, "kana", "hiroki")
    request = ContextRequest(message="How far did we get?", session=session, options=options)
    assembled = assemble_context(tenant=tenant, request=request, by=BY, now=NOW)
    return str(assembled.assembly.messages), assembled.metadata


def test_a_context_holds_the_sessions_own_else_the_one_before(client: APIClient, told: Talk) -> None:
    text, metadata = context(told.session)
    assert "## Session summary" in text and "> User: I moved to Otaru" in text
    assert "Sentences taken from the conversation as they were said" in text
    assert metadata["has_session_summary"] and metadata["degraded"] == []

    later = open_talk(at=timezone.now())
    text, metadata = context(later.session)
    assert "Of the conversation before, of 2026-03-01" in text and metadata["has_session_summary"]
    assert "Of the conversation before" in context(None)[0]
    assert not context(later.session, include_session_summary=False)[1]["has_session_summary"]

    earlier = open_talk(at=timezone.now() - timedelta(days=1))
    text, metadata = context(earlier.session)
    assert not metadata["has_session_summary"] and metadata["degraded"] == ["session_summary"]

    Summary.objects.update(trust="untrusted")
    assert not context(later.session)[1]["has_session_summary"], "untrusted: for its own session alone"
    assert context(told.session)[1]["has_session_summary"]
    Summary.objects.update(locked=True)
    assert "Sentences taken" not in context(told.session)[0], "a person's words are no excerpts"


def test_a_japanese_context_has_japanese_words(db: None) -> None:
    talk = open_talk("来月、大阪から京都へ引っ越すことになりました。", "出町柳の部屋にします。", language="ja")
    talk.end()
    talk.summarize()
    text, _ = context(talk.session)
    assert "## セッション要約" in text and "会話から抜き出した発言" in text and "ユーザー: 来月" in text


@pytest.fixture
def three_sessions(client: APIClient) -> list[Talk]:
    """Return three summarised sessions, a day apart; the second is of a project."""
    talks = []
    for day, topic in enumerate(["the offsite in Lisbon", "the importer of Tidepool", "the release on Friday"]):
        talk = open_talk(metadata={"project": "tidepool"} if day == 1 else {})
        talk.say(f"We decided how to plan {topic} with the design team.", at=NOW + timedelta(days=day))
        ran(client.post(address(talk)).data["job_id"])
        talks.append(talk)
    return talks


def test_a_digest_of_several_sessions(client: APIClient, three_sessions: list[Talk]) -> None:
    answer = client.post(f"{API}/summaries/digest", WHO)
    assert answer.status_code == 200
    body = answer.json()
    assert [part in body["digest"] for part in ("Lisbon", "importer", "release")] == [True] * 3
    assert (body["generator"], body["model"], body["left_out"]) == ("extractive", "", 0)
    assert body["session_ids"] == [str(talk.session.pk) for talk in three_sessions]
    assert (body["start_time"], body["end_time"]) == ("2026-03-01T12:00:00Z", "2026-03-03T12:00:00Z")

    def ids(**narrowed: Any) -> list[str]:
        found: list[str] = client.post(f"{API}/summaries/digest", {**WHO, **narrowed}).json()["session_ids"]
        return found

    keys = [str(talk.session.pk) for talk in three_sessions]
    assert ids(**{"from": (NOW + timedelta(hours=1)).isoformat()}) == keys[1:]
    assert ids(to=(NOW + timedelta(days=1)).isoformat()) == keys[:2]
    assert ids(project="tidepool") == [keys[1]]
    Summary.objects.filter(session=three_sessions[0].session).update(trust="untrusted")
    assert ids() == keys[1:]


def test_a_digest_of_nothing_is_a_conflict_and_makes_nobody(client: APIClient, three_sessions: list[Talk]) -> None:
    for body in ({**WHO, "project": "none"}, {"agent_id": "nobody"}):
        refused = client.post(f"{API}/summaries/digest", body)
        assert (refused.status_code, refused.json()["code"]) == (409, "no_summaries")
    wrong = {**WHO, "from": "2026-03-02T00:00:00Z", "to": "2026-03-01T00:00:00Z"}
    assert client.post(f"{API}/summaries/digest", wrong).status_code == 400


def test_a_digest_by_a_model_is_fenced_and_its_failure_is_told(
    client: APIClient, three_sessions: list[Talk], llm: LLMServer
) -> None:
    llm.answer(Reply("Three talks about plans."))
    body = client.post(f"{API}/summaries/digest", WHO).json()
    assert (body["digest"], body["generator"]) == ("Three talks about plans.", "llm")
    (asked,) = llm.asked
    assert "digest" in asked.system and asked.text.startswith("<conversation ")
    assert "[2026-03-01] User: We decided how to plan the offsite in Lisbon" in asked.text

    llm.answer(Reply(failure="401"))
    failed = client.post(f"{API}/summaries/digest", WHO)
    assert failed.status_code == 502
    assert failed.json()["code"] == "llm_failed" and failed.json()["retryable"] is False


def test_a_digest_of_many_sessions_is_rolled_and_asked_for_in_fewer_words_where_it_is_cut(
    client: APIClient, llm: LLMServer
) -> None:
    talk = open_talk()
    talk.set_policy(summary_max_tokens=1_100)
    talks = [talk, *(open_talk() for _ in range(11))]
    for number, each in enumerate(talks):
        each.say(f"Message m{number:04}x", at=NOW + timedelta(days=number))
        llm.answer(Reply(f"Message m{number:04}x is what they spoke about. " + "It was about the harbour. " * 20))
        ran(client.post(address(each)).data["job_id"])
    llm.asked.clear()
    llm.then(Reply("Cut", stop="max_tokens"))
    llm.answer(lambda asked: Reply(f"Digest {len(llm.asked)}."))

    body = client.post(f"{API}/summaries/digest", WHO).json()

    assert body["left_out"] == 0 and len(body["session_ids"]) == 12
    first, *others = llm.asked
    assert seqs_in([asked.text for asked in others]) == list(range(12)) and len(others) > 2
    assert seqs_in([first.text]) == seqs_in([others[0].text]), "the cut one, in fewer words"
    for number, asked in enumerate(others[1:], start=2):
        assert f"Digest {number}." in asked.text
    assert body["digest"] == f"Digest {len(llm.asked)}."


def test_a_digest_that_would_take_too_long_is_given_up(
    client: APIClient, three_sessions: list[Talk], llm: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("summaries.actions.summarizers.DEADLINE_SECONDS", 4.0)
    late = client.post(f"{API}/summaries/digest", WHO)
    assert (late.status_code, late.json()["reason"], late.json()["retryable"]) == (502, "timeout", True)
    assert not llm.asked


def test_a_digest_past_the_cap_says_when_to_come_again(
    client: APIClient, three_sessions: list[Talk], llm: LLMServer
) -> None:
    three_sessions[0].set_policy(daily_token_cap=0)
    refused = client.post(f"{API}/summaries/digest", WHO)
    assert (refused.status_code, refused.json()["code"]) == (503, "llm_unavailable")
    assert refused.json()["reason"] == "spend_cap" and refused.json()["retryable"] is True
    assert 0 < int(refused["Retry-After"]) <= 86_400 and not llm.asked


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("key", [None, "once"])
def test_a_digest_keeps_no_connection_from_others(
    client: APIClient, three_sessions: list[Talk], llm: LLMServer, key: str | None
) -> None:
    mine, held = connections["default"], []

    def answer(asked: Asked) -> Reply:
        held.append(mine.connection is not None)
        return Reply("Three talks about plans.")

    llm.answer(answer)
    headers = {"Idempotency-Key": key} if key else {}
    assert client.post(f"{API}/summaries/digest", WHO, headers=headers).status_code == 200
    assert held == [False]


def test_metrics_tell_what_was_written_and_what_failed(client: APIClient, llm: LLMServer) -> None:
    def figures() -> dict[str, float]:
        lines = client.get("/metrics").content.decode().splitlines()
        return {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("session_summ")}

    assert figures() == {"session_summaries_written": 0, "session_summaries_failed": 0}
    for failure in (None, None, None, "401"):
        talk = open_talk(*TALK)
        llm.answer(Reply("Done.", failure=failure))
        ran(client.post(address(talk)).data["job_id"])
    told = figures()
    assert (told["session_summaries_written"], told["session_summaries_failed"]) == (3, 1)
    assert told["session_summary_success_ratio"] == 0.75 and told["session_summary_latency_seconds"] > 0
