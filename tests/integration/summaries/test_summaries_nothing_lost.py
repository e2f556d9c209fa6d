"""Messages that one answer, order or failure leaves out come with the next: nothing is lost (SPEC U1–U5)."""

import sys
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.domain.content import one_line
from conversations.models import Message, Session
from memoryhub.jobs.backfill import Scope
from memoryhub.jobs.models import Job
from summaries.actions.summaries import SUMMARIES
from summaries.actions.triggers import backfill_pieces, due_sessions
from summaries.domain.summaries import VISIBLE_CHARACTER
from summaries.models import Summary, SummaryVersion
from tests.conftest import client_with_key
from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.integration.summaries.conftest import BY, NOW, Talk, open_talk, ran, seqs_in

pytestmark = pytest.mark.django_db

CUT = Reply("They spoke about the har", stop="max_tokens")


def order(client: APIClient, talk: Talk, **window: str) -> Job:
    """Order a summary over HTTP, and run the job."""
    return ran(client.post(f"/api/v1/sessions/{talk.session.pk}/summary", window).data["job_id"])


def words_of(asked: Asked) -> int:
    """Return how many words a prompt allows."""
    return int(asked.system.split("at most ")[1].split()[0])


def test_a_cut_answer_is_asked_for_again_in_fewer_words(talk: Talk, llm: LLMServer) -> None:
    talk.say_many(30)
    llm.then(CUT, Reply("They spoke."))
    assert talk.summarize().state == "done"
    assert talk.summary is not None and (talk.summary.text, talk.summary.message_count) == ("They spoke.", 30)
    assert [words_of(asked) for asked in llm.asked] == [250, 125]
    assert [len(seqs_in([asked.text])) for asked in llm.asked] == [30, 30]
    assert {asked.max_tokens for asked in llm.asked} == {500}


@pytest.mark.parametrize("failure", [CUT, Reply(failure="huge")])
def test_where_fewer_words_do_not_help_fewer_messages_do(talk: Talk, llm: LLMServer, failure: Reply) -> None:
    talk.say_many(24)
    llm.answer(lambda asked: failure if len(seqs_in([asked.text])) > 12 else Reply(f"Part {len(llm.asked)}."))
    job = talk.summarize()
    assert job.state == "done", job.error
    assert [seqs_in([asked.text]) for asked in llm.asked[2:]] == [list(range(1, 13)), list(range(13, 25))]
    assert "Part 3." in llm.asked[3].text, "the second half goes on from the first"
    assert talk.summary is not None and (talk.summary.text, talk.summary.message_count) == ("Part 4.", 24)


def test_a_model_that_never_ends_is_asked_four_times_a_day_and_no_more(talk: Talk, llm: LLMServer) -> None:
    llm.answer(CUT)
    talk.say_many(30)
    talk.end()
    Job.objects.all().delete()
    job = talk.summarize()
    assert (job.state, len(llm.asked), talk.summary) == ("failed", 4, None)
    # As the jobs that follow a turn or an end have it: one of a session.
    Job.objects.filter(pk=job.pk).update(key=str(talk.session.pk))

    now = timezone.now()
    assert not due_sessions(now + timedelta(hours=3)).exists(), "it has just failed"
    assert list(due_sessions(now + timedelta(hours=25))) == [talk.session], "an end is not the last word"
    assert not due_sessions(now + timedelta(days=8)).exists(), "until a person looks, or a backfill"

    llm.answer(Reply("They spoke."))
    assert talk.summarize().state == "done"
    assert not due_sessions(now + timedelta(hours=25)).exists()


def test_an_ended_session_is_due_an_interval_after_its_end() -> None:
    talk = open_talk("I moved to Otaru.", "It is by the sea.", at=timezone.now() - timedelta(hours=5))
    talk.end()
    now = timezone.now()
    assert not due_sessions(now + timedelta(minutes=59)).exists(), "its own job does it"
    assert list(due_sessions(now + timedelta(minutes=61))) == [talk.session]


def test_a_summary_of_a_time_is_followed_by_one_of_everything(client: APIClient, talk: Talk, llm: LLMServer) -> None:
    llm.answer(lambda asked: Reply(f"Summary {len(llm.asked)}."))
    talk.say_many(25)
    talk.summarize()
    talk.say(*(f"Message m{seq:04}x" for seq in range(26, 36)), at=NOW + timedelta(days=1))
    order(client, talk, start_time=(NOW + timedelta(hours=5)).isoformat())
    assert seqs_in([llm.asked[-1].text]) == list(range(26, 36))
    assert SummaryVersion.objects.get(number=2).reason == "window"

    talk.say("Message m0036x")
    talk.end()
    talk.summarize()

    assert seqs_in([llm.asked[-1].text]) == list(range(1, 37))
    assert "<previous-summary" not in llm.asked[-1].text
    assert talk.summary is not None and talk.summary.version == 3


def test_a_persons_words_on_a_summary_of_a_time_are_gone_on_from(client: APIClient, talk: Talk, llm: LLMServer) -> None:
    talk.say_many(10)
    order(client, talk, start_time=NOW.isoformat())
    assert talk.summary is not None
    values = {"text": "As I say.", "locked": False}
    SUMMARIES.edit(talk.summary, values=values, expected_version=None, by=BY, now=NOW)
    talk.say_many(1, first=11)
    talk.end()
    talk.summarize()
    assert "As I say." in llm.asked[-1].text and seqs_in([llm.asked[-1].text]) == [11]


def test_an_untrusted_key_does_not_choose_what_is_told_of_a_trusted_session(
    client: APIClient, talk: Talk, llm: LLMServer
) -> None:
    stranger = client_with_key(is_trusted=False)
    talk.say_many(20)
    window = {"start_time": NOW.isoformat()}
    early = stranger.post(f"/api/v1/sessions/{talk.session.pk}/summary", window).data["job_id"]
    talk.summarize()
    assert talk.summary is not None and talk.summary.trust == "trusted"

    assert ran(early).state == "done" and talk.summary.version == 1, "what it ordered before is not done either"
    for body in ({}, window):
        assert stranger.post(f"/api/v1/sessions/{talk.session.pk}/summary", body).status_code == 403

    other = open_talk(user_id="aoi")
    other.say_many(3)
    order(stranger, other, **window)
    assert other.summary is not None and other.summary.trust == "untrusted"
    other.say_many(1, first=4)
    other.end()
    other.summarize()
    assert other.summary.trust == "trusted", "made of everything, it is worth what the messages are"


def test_a_summary_ordered_anew_is_written_whatever_came_between(talk: Talk, llm: LLMServer) -> None:
    talk.say_many(20)
    talk.summarize()
    anew = {"written": 1, "anew": True, "start_time": None, "end_time": None}
    talk.say_many(20, first=21)
    talk.summarize()
    assert talk.summary is not None and talk.summary.version == 2

    assert talk.summarize(**anew).state == "done"

    assert talk.summary.version == 3 and seqs_in([llm.asked[-1].text]) == list(range(1, 41))
    assert SummaryVersion.objects.get(number=3).reason == "anew"
    talk.summarize(**anew)
    assert talk.summary.version == 3, "once"


def test_blank_messages_make_no_version_and_nobody_looks_at_them(client: APIClient, talk: Talk, llm: LLMServer) -> None:
    talk.say("  ", "\u3000\u200b")
    refused = client.post(f"/api/v1/sessions/{talk.session.pk}/summary")
    assert (refused.status_code, refused.json()["code"]) == (409, "no_messages")
    talk.say_many(20)
    talk.summarize()
    talk.say("   ", "\n\u00a0")
    talk.end()
    talk.summarize()
    assert len(llm.asked) == 1 and SummaryVersion.objects.count() == 1
    assert not due_sessions(timezone.now() + timedelta(hours=2)).exists() and not list(backfill_pieces(Scope()))


@pytest.mark.slow
def test_the_database_calls_blank_what_python_does() -> None:
    letters = [chr(code) for code in range(1, sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    blank = {letter for letter in letters if not one_line(letter)}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT letter FROM unnest(%s::text[]) AS letter WHERE NOT letter ~ %s", [letters, VISIBLE_CHARACTER]
        )
        assert {row[0] for row in cursor.fetchall()} == blank
    assert Message.objects.filter(content__regex=VISIBLE_CHARACTER).count() == 0


def test_a_backfill_leaves_those_alone_who_want_no_summaries(talk: Talk) -> None:
    other = open_talk("I like the canal.", user_id="aoi")
    talk.say_many(30)
    talk.set_policy(summarizes=False)
    other.actor.policy = {"summarizes": True}
    other.actor.save()
    assert [piece.order.payload["session_id"] for piece in backfill_pieces(Scope())] == [str(other.session.pk)]


def test_all_that_a_person_wrote_is_read_before_messages_join(talk: Talk, llm: LLMServer) -> None:
    talk.set_policy(summary_max_tokens=1_000)
    talk.say_many(20)
    talk.summarize()
    assert talk.summary is not None
    text = " ".join(f"Fact p{number:04}q of the harbour." for number in range(300))
    SUMMARIES.edit(talk.summary, values={"text": text, "locked": False}, expected_version=None, by=BY, now=NOW)
    talk.say_many(20, first=21)
    llm.asked.clear()
    llm.answer(lambda asked: Reply(f"Summary {len(llm.asked)}."))

    assert talk.summarize().state == "done"

    told = " ".join(asked.text for asked in llm.asked)
    assert [word for word in told.split() if word[0] == "p" and word[-1] == "q"] == [
        f"p{number:04}q" for number in range(300)
    ]
    assert seqs_in([told]) == list(range(21, 41)) and "[…]" not in told
    assert all(f"Summary {number}." in asked.text for number, asked in enumerate(llm.asked[1:], start=1))
    assert talk.summary.message_count == 40 and talk.summary.text == f"Summary {len(llm.asked)}."
    assert Summary.objects.count() == Session.objects.count() == 1
