"""`manage.py jobs`: what a provider refused is listed, and retried once its key is mended."""

import json
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from memoryhub.auth.models import AuditEntry
from memoryhub.jobs.models import Job
from tests.fakes.llm_server import LLMServer, Reply
from tests.integration.summaries.conftest import Talk, open_talk, ran

pytestmark = pytest.mark.django_db


def jobs(*arguments: str) -> str:
    out = StringIO()
    call_command("jobs", *arguments, stdout=out, stderr=out)
    return out.getvalue()


@pytest.fixture
def refused(llm: LLMServer, talk: Talk) -> Job:
    """Return a job that failed as the provider refuses the key, beside one of another user."""
    llm.answer(Reply(failure="401"))
    for each in (talk, open_talk(user_id="mika")):
        each.say_many(20)
        assert each.summarize().state == "failed"
    return Job.objects.get(state="failed", actor=talk.actor)


def test_refused_jobs_are_retried_once_the_key_is_mended(refused: Job, llm: LLMServer) -> None:
    chosen = ("--agent", "kana", "--user", "hiroki", "--kind", "summarize", "--error", "REFUSES OUR KEY")
    assert jobs("retry", "--all", *chosen, "--dry-run") == "Would be retried: 1 jobs (1 summarize).\n"
    assert Job.objects.filter(state="failed").count() == 2
    assert jobs("retry", "--all", *chosen, "--reason", "new key") == "1 jobs are queued again.\n"

    llm.answer(Reply("A summary."))
    assert ran(refused.pk).state == "done"
    entry = AuditEntry.objects.get(verb="retry")
    assert (entry.object_id, entry.who_name, entry.reason) == (str(refused.pk), "jobs", "new key")
    assert list(Job.objects.filter(state="failed").values_list("actor__user_id", flat=True)) == ["mika"]
    assert jobs("retry", "--all") == "1 jobs are queued again.\n"


def test_list_shows_what_failed_and_why(refused: Job) -> None:
    assert len(jobs("list").splitlines()) == 2
    line = jobs("list", "--user", "hiroki", "--agent", "kana")
    assert str(refused.pk) in line and "The provider refuses our key (401)." in line
    rows = [json.loads(each) for each in jobs("list", "--json").splitlines()]
    assert {(row["agent"], row["user"], row["state"], row["kind"]) for row in rows} == {
        ("kana", "hiroki", "failed", "summarize"),
        ("kana", "mika", "failed", "summarize"),
    }
    assert jobs("list", "--kind", "embed") == "No such job failed or is dead.\n"


def test_single_jobs_are_named_by_their_ids(refused: Job) -> None:
    assert jobs("retry", str(refused.pk)) == "1 jobs are queued again.\n"
    assert Job.objects.get(pk=refused.pk).state == "queued"
    for arguments in ([], [str(refused.pk), "--all"]):
        with pytest.raises(CommandError, match="or say --all"):
            jobs("retry", *arguments)
    with pytest.raises(CommandError, match="invalid UUID"):
        jobs("retry", "x")


def test_unknown_ids_are_an_error_and_the_others_are_retried(refused: Job) -> None:
    unknown = str(uuid4())
    for options in (["--dry-run"], []):
        assert Job.objects.get(pk=refused.pk).state == "failed"
        with pytest.raises(CommandError, match=f"no failed or dead jobs of those chosen: {unknown}"):
            jobs("retry", str(refused.pk), unknown, *options)
    assert Job.objects.get(pk=refused.pk).state == "queued"
    with pytest.raises(CommandError, match=unknown):
        jobs("retry", unknown)
