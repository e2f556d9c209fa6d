"""Long documents are rewritten shorter; what is protected is there word for word, or the old text is (SPEC P7)."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from random import Random
from threading import Barrier
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from memoryhub.jobs.models import Job
from memoryhub.llm.config import LLMConfig
from memoryhub.llm.tokens import count_raw
from memoryhub.tenancy.policy import Trust
from summaries.actions.documents import append_entry, backups_of
from summaries.domain.compaction import Outcome, Protection, missing_pieces, pieces_of
from summaries.models import Document, DocumentVersion, ProjectEvent
from tests.conftest import run_jobs
from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.integration.summaries.conftest import ran
from tests.integration.summaries.project_files import BY, LONG_AGO, a_document, a_project, job_of, ran_job, text_of

pytestmark = pytest.mark.django_db

SMALL = {"model_context_window": 4_000, "compaction_trigger": 0.1, "compaction_target": 0.6}
"""A document of more than 400 tokens is compacted to at most 240."""

FENCED = re.compile(r"^<document [0-9a-f]+>\n(.*?)\n</document [0-9a-f]+>", re.DOTALL)
MARK = re.compile(r"\[\[kept-\d+-[0-9a-f]+\]\]")


def shown(asked: Asked) -> list[str]:
    """Return the lines of the document that a model was shown."""
    match = FENCED.match(asked.messages[0]["content"] if isinstance(asked.messages[0]["content"], str) else asked.text)
    assert match is not None, "the document stands fenced"
    return match[1].splitlines()


def short(asked: Asked) -> Reply:
    """Keep all marks, and one line of the rest, below the first."""
    marks = [found[0] for line in shown(asked) if (found := MARK.match(line))]
    return Reply("\n".join([*marks[:1], "- In short.", *marks[1:]]))


def dropping(seed: int, share: float, *, free: float = 0.9) -> Callable[[Asked], Reply]:
    """Return a model that loses lines by chance: few of those with marks, most of the others."""
    draw = Random(seed)

    def answer(asked: Asked) -> Reply:
        kept = [line for line in shown(asked) if draw.random() > (share if MARK.match(line) else free)]
        return Reply("\n".join([*kept[:1], "- In short.", *kept[1:]]))

    return answer


def long_text(entries: int = 60, *, pinned_every: int = 10) -> str:
    lines = [
        f"- {'[PINNED] ' if number % pinned_every == 0 else ''}Entry {number} tells of the harbour."
        for number in range(1, entries + 1)
    ]
    return "# otaru\n\n> A canal town\n\n## Notes\n" + "\n".join(lines) + "\n"


def compacted(document: Document, **payload: Any) -> Job:
    return ran_job("compact", document.project.actor, document_id=str(document.pk), **payload)


def outcomes() -> list[str]:
    return list(ProjectEvent.objects.filter(kind="compact").order_by("id").values_list("outcome", flat=True))


def test_growing_over_the_limit_orders_one_compaction_and_keeps_the_former_text(llm: LLMServer) -> None:
    llm.answer(short)
    document = a_document(a_project(**SMALL), long_text())
    append_entry(project=document.project, document_name="MEMORY.md", text="One more", by=BY, now=LONG_AGO)
    job = Job.objects.get(kind="compact")
    assert job.payload == {"document_id": str(document.pk)} and job.key == str(document.pk)

    assert ran(job.pk).state == "done"

    document.refresh_from_db()
    text = document.text
    assert text.startswith("# otaru\n\n> A canal town\n") and "- In short.\n" in text
    assert [line for line in text.splitlines() if "[PINNED]" in line] == [
        f"- [PINNED] Entry {number} tells of the harbour." for number in (10, 20, 30, 40, 50, 60)
    ]
    assert document.token_count == count_raw(text) <= 240
    backup = backups_of(document)[0]
    assert backup.text == long_text() + "- One more\n" and backup.who_kind == "job"
    assert outcomes() == ["compaction"]
    asked = llm.asked[0]
    assert "[PINNED]" not in asked.text and "Entry 11 " in asked.text, "what is protected is never shown"
    assert len(llm.asked) == 1


def test_short_documents_and_those_of_people_are_left_alone(llm: LLMServer) -> None:
    project = a_project(**SMALL)
    a_document(project, long_text(5))
    for name in ("pinned.md", "decisions.md", "detail-harbour.md"):
        a_document(project, long_text(), name)
    assert not Job.objects.filter(kind="compact").exists()
    document = a_document(project, long_text(), "pinned.md")
    assert compacted(document).state == "done" and llm.asked == []
    a_document(project, long_text(), "timeline.md")
    assert Job.objects.filter(kind="compact", state="queued").count() == 1


def test_young_entries_and_those_that_nobody_believes_are_not_shown(llm: LLMServer) -> None:
    llm.answer(short)
    project, now = a_project(**SMALL), timezone.now()
    a_document(project, long_text(pinned_every=1000))
    append_entry(project=project, document_name="MEMORY.md", text="Young words", by=BY, now=now - timedelta(days=6))
    append_entry(project=project, document_name="MEMORY.md", text="Grown up", by=BY, now=now - timedelta(days=8))
    append_entry(project=project, document_name="MEMORY.md", text="Rumours", trust=Trust.UNTRUSTED, by=BY, now=LONG_AGO)
    run_jobs()
    assert "Grown up" in llm.asked[0].text
    assert "Young words" not in llm.asked[0].text and "Rumours" not in llm.asked[0].text
    assert text_of(project).endswith("- Young words\n- Rumours\n") and "Grown up" not in text_of(project)


def test_a_lost_mark_is_asked_for_once_more_and_then_refused(llm: LLMServer) -> None:
    llm.answer(lambda asked: Reply("- In short."))
    document = a_document(a_project(**SMALL), long_text())

    job = ran(Job.objects.get(kind="compact").pk)

    assert job.state == "failed" and "left as it was" in job.error
    assert len(llm.asked) == 2 and MARK.search(str(llm.asked[1].messages[-1]["content"]))
    assert text_of(document.project) == long_text()
    event = ProjectEvent.objects.get(kind="compact")
    assert (event.outcome, event.details["missing"]) == (Outcome.REFUSED, 7)
    a_document(document.project, long_text(61), now=timezone.now())
    assert not Job.objects.filter(kind="compact", state="queued").exists(), "left alone for a day"


def test_a_second_answer_that_holds_everything_counts(llm: LLMServer) -> None:
    llm.then(Reply("- In short."))
    llm.answer(short)
    document = a_document(a_project(**SMALL), long_text())
    assert compacted(document).state == "done" and len(llm.asked) == 2
    assert "- In short." in text_of(document.project)


def test_an_answer_that_stays_too_long_is_refused(llm: LLMServer) -> None:
    llm.answer(lambda asked: Reply("\n".join(shown(asked))))
    document = a_document(a_project(**SMALL), long_text())
    assert compacted(document).state == "failed"
    assert text_of(document.project) == long_text() and outcomes() == ["refused"]


def test_protected_text_that_is_too_long_by_itself_stops_it(llm: LLMServer) -> None:
    document = a_document(a_project(**SMALL), long_text(pinned_every=1))
    job = compacted(document)
    assert job.state == "failed" and "unpin" in job.error
    assert llm.asked == [] and outcomes() == ["too_much_protected"]


def test_without_a_model_that_is_noted_once_and_nothing_is_rewritten(settings: Settings) -> None:
    settings.LLM = LLMConfig("none")
    project = a_project(**SMALL)
    document = a_document(project, long_text())
    a_document(project, long_text(61))
    assert outcomes() == ["no_model"] and not Job.objects.filter(kind="compact").exists()
    assert compacted(document, asked=True).state == "failed"
    assert text_of(project) == long_text(61)


def test_only_the_last_three_texts_are_backups(llm: LLMServer) -> None:
    llm.answer(short)
    project = a_project(**SMALL)
    for number in range(60, 65):
        document = a_document(project, long_text(number))
        compacted(document)
    assert [backup.text for backup in backups_of(document)] == [long_text(number) for number in (64, 63, 62)]


@pytest.mark.django_db(transaction=True)
def test_an_edit_during_a_compaction_is_never_lost(llm: LLMServer) -> None:
    document = a_document(a_project(**SMALL), long_text())
    edits = [long_text(70)]

    def edited_meanwhile(asked: Asked) -> Reply:
        if edits:
            a_document(document.project, edits.pop())
            connection.close()  # the fake answers in a thread of its own
        return short(asked)

    llm.answer(edited_meanwhile)
    job = ran(Job.objects.get(kind="compact").pk)
    assert job.state == "queued" and text_of(document.project) == long_text(70)

    assert ran(job.pk).state == "done"
    assert "[PINNED] Entry 70 " in text_of(document.project)
    assert DocumentVersion.objects.filter(document=document, text=long_text(70), kind="compaction").exists()


@pytest.mark.parametrize("seed", range(8))
def test_sixty_thousand_tokens_end_short_and_whole_or_as_they_were(llm: LLMServer, seed: int) -> None:
    draw = Random(seed)
    words = ["harbour", "canal", "glass", "snow", "ferry", "market", "lamp", "brewery", "museum", "railway"]
    lines = ["# otaru", "", "> A canal town", ""]
    while count_raw("\n".join(lines)) < 60_000:
        for number in range(400):
            if number % 100 == 0:
                lines.append(f"## Part {len(lines)}")
            pin = "[PINNED] " if draw.random() < 0.02 else ""
            lines.append(f"- {pin}{len(lines)}: {' '.join(draw.choices(words, k=12))}")
    old = "\n".join(lines) + "\n"
    document = a_document(a_project(), old)
    assert document.token_count > 60_000
    llm.answer(dropping(seed, 0.004 * seed))

    job = compacted(document)

    text = text_of(document.project)
    protected = pieces_of(old, Protection(frozenset(), datetime.max.replace(tzinfo=UTC)))
    if job.state == "done":
        assert count_raw(text) <= 12_000 and missing_pieces(protected, text) == 0
    else:
        assert job.state == "failed" and text == old and outcomes() == ["refused"]
    assert seed or job.state == "done", "a model that loses no mark is kept"
    assert all(count_raw(asked.text) < 40_000 for asked in llm.asked)


@pytest.mark.django_db(transaction=True)
def test_two_at_once_write_one_text(llm: LLMServer) -> None:
    llm.answer(short)
    document = a_document(a_project(**SMALL), long_text())
    actor = document.project.actor
    jobs = [job_of("compact", actor, document_id=str(document.pk)) for _ in range(2)]
    barrier = Barrier(2)

    def work(job_id: Any) -> str:
        try:
            barrier.wait()
            return ran(job_id).state
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        states = sorted(pool.map(work, jobs))
    assert states[0] == "done" and states[1] in ("done", "queued")
    assert DocumentVersion.objects.filter(document=document, kind="compaction").count() == 1
    assert text_of(document.project).count("- In short.") == 1


def test_a_crash_leaves_the_old_text_and_the_next_attempt_the_new(llm: LLMServer) -> None:
    document = a_document(a_project(**SMALL), long_text())
    llm.answer(Reply(failure="500"))
    job = ran(Job.objects.get(kind="compact").pk)
    assert job.state == "queued" and text_of(document.project) == long_text()
    llm.answer(short)
    assert ran(job.pk).state == "done" and "- In short." in text_of(document.project)


def test_it_can_be_asked_for_before_it_is_due(client: APIClient, llm: LLMServer) -> None:
    llm.answer(short)
    project = a_project(**SMALL)
    document = a_document(project, long_text(30))
    assert 240 < document.token_count <= 400
    at, whose = "/api/v1/projects/otaru/documents", "?agent_id=kana&user_id=hiroki"
    answer = client.post(f"{at}/MEMORY.md/compact{whose}")
    assert answer.status_code == 202
    assert ran(answer.json()["job_id"]).state == "done" and "- In short." in text_of(project)
    again = client.post(f"{at}/MEMORY.md/compact{whose}")
    ran(again.json()["job_id"])
    assert outcomes() == ["compaction", "not_needed"]
    a_document(project, "kept", "pinned.md")
    assert client.post(f"{at}/pinned.md/compact{whose}").status_code == 409
    a_document(project, "- short\n", "decisions.md")
    assert client.post(f"{at}/decisions.md/compact{whose}").status_code == 202
    assert client.post(f"{at}/timeline.md/compact{whose}").status_code == 404


def test_without_a_model_nothing_is_ordered_and_it_is_told_what_to_set(client: APIClient) -> None:
    a_document(a_project(**SMALL), long_text(30))
    answer = client.post("/api/v1/projects/otaru/documents/MEMORY.md/compact?agent_id=kana&user_id=hiroki")
    assert (answer.status_code, answer.json()["code"]) == (503, "llm_unavailable")
    assert "ANTHROPIC_API_KEY" in answer.json()["detail"] and "Retry-After" in answer
    assert not Job.objects.filter(kind="compact").exists()
