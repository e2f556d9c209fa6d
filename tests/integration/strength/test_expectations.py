"""A person says that a memory must, or must not, be in a context; a change that breaks it is found (SPEC X14)."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.actions.retention import expired
from conversations.models import Receipt
from memoryhub.auth.actions import update_agent
from memoryhub.auth.principals import Scope
from memoryhub.jobs.queue import enqueue
from memoryhub.tenancy.models import Actor, Agent
from strength.actions.expectations import UNCHANGED_FOR, changes_before, due
from strength.models import Expectation
from tests.conftest import client_with_key, run_jobs
from tests.integration.strength.conftest import BY
from tests.integration.strength.test_what_if import API, NAMES, ask, remember

pytestmark = pytest.mark.django_db

PLATFORM = "The train to Kyoto leaves from platform 4."
QUESTION = "Which platform does the train to Kyoto leave from?"


def keep(client: APIClient, receipt: str, memory: str, **values: Any) -> Any:
    answer = client.post(f"{API}/expectations", {"receipt_id": receipt, "memory_id": memory, **values})
    assert answer.status_code == 201, answer.content
    return answer.json()


def checked(client: APIClient) -> Any:
    answer = client.post(f"{API}/expectations/check", NAMES)
    assert answer.status_code == 200, answer.content
    return answer.json()


def settle() -> None:
    """Write the feed of changes, as a commit would."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")


def test_an_archived_memory_breaks_what_expects_it_and_its_return_mends_it(client: APIClient) -> None:
    memory = remember(client, PLATFORM)
    kept = keep(client, ask(client, QUESTION), memory)
    assert (kept["state"], kept["broken_at"], kept["query"]) == ("kept", None, QUESTION)
    client.post(f"{API}/memories/{memory}/archive")
    [broken] = checked(client)["broken"]
    assert (broken["id"], broken["state"]) == (kept["id"], "broken")
    since = checked(client)["broken"][0]["broken_at"]
    assert since == broken["broken_at"], "since the check that found it"
    [change] = changes_before(Expectation.objects.get())
    assert (change.verb, change.object_id) == ("archive", memory)
    client.post(f"{API}/memories/{memory}/reactivate")
    assert checked(client) == {"kept": 1, "broken": []}
    assert Expectation.objects.get().broken_at is None


def test_a_memory_that_must_not_be_there_breaks_it_once_it_is(client: APIClient) -> None:
    memory = remember(client, PLATFORM)
    client.post(f"{API}/memories/{memory}/archive")
    kept = keep(client, ask(client, QUESTION), memory, wanted=False)
    assert (kept["wanted"], kept["state"]) == (False, "kept")
    client.post(f"{API}/memories/{memory}/reactivate")
    assert [row["id"] for row in checked(client)["broken"]] == [kept["id"]]


def test_the_same_receipt_and_memory_have_one_expectation(client: APIClient) -> None:
    memory = remember(client, PLATFORM)
    receipt = ask(client, QUESTION)
    first, second = keep(client, receipt, memory), keep(client, receipt, memory, wanted=False)
    assert first["id"] == second["id"] and second["state"] == "broken"
    listed = client.get(f"{API}/expectations", {**NAMES, "state": "broken"}).json()["results"]
    assert [row["id"] for row in listed] == [first["id"]]
    assert client.get(f"{API}/expectations", {**NAMES, "state": "kept"}).json()["results"] == []


def test_a_memory_of_the_agent_may_be_expected_and_a_deleted_one_is_missing(client: APIClient) -> None:
    shared = client.post(f"{API}/memories", {"agent_id": "kana", "user_id": "", "content": PLATFORM}).json()["id"]
    client.post(f"{API}/sessions", NAMES)
    keep(client, ask(client, QUESTION), shared)
    assert checked(client)["kept"] == 1
    assert client.delete(f"{API}/memories/{shared}").status_code in (200, 204)
    assert [row["memory_id"] for row in checked(client)["broken"]] == [shared]


def test_what_is_not_ones_own_is_unknown(client: APIClient) -> None:
    memory, receipt = remember(client, PLATFORM), ask(client, QUESTION)
    others = client.post(f"{API}/memories", {"agent_id": "other", "user_id": "mallory", "content": PLATFORM}).json()
    body = {"receipt_id": receipt, "memory_id": others["id"]}
    assert client.post(f"{API}/expectations", body).status_code == 404
    mallory = client_with_key(agent_ids=["other"])
    assert mallory.post(f"{API}/expectations", {"receipt_id": receipt, "memory_id": memory}).status_code == 404
    kept = keep(client, receipt, memory)
    assert mallory.delete(f"{API}/expectations/{kept['id']}").status_code == 404
    reader = client_with_key(scopes=[Scope.READ])
    assert reader.post(f"{API}/expectations", {"receipt_id": receipt, "memory_id": memory}).status_code == 403
    assert Expectation.objects.count() == 1


def test_a_context_without_its_message_cannot_be_expected_of(client: APIClient) -> None:
    memory, receipt = remember(client, PLATFORM), ask(client, QUESTION)
    Receipt.objects.update(query="")
    answer = client.post(f"{API}/expectations", {"receipt_id": receipt, "memory_id": memory})
    assert (answer.status_code, answer.json()["code"]) == (409, "not_repeatable")


def test_retention_leaves_the_receipt_until_the_expectation_is_deleted(client: APIClient) -> None:
    memory = remember(client, PLATFORM)
    keep_one, other = ask(client, QUESTION), ask(client, "When does the train leave?")
    kept = keep(client, keep_one, memory)
    update_agent(
        agent_id="kana",
        values={"policy": {"receipt_retention_days": 1}},
        expected_version=None,
        by=BY,
        now=timezone.now(),
    )
    actor, later = Actor.objects.select_related("agent").get(user_id="hiroki"), timezone.now() + timedelta(days=2)
    assert [str(row.pk) for row in expired(actor, later).receipts] == [other]
    assert client.delete(f"{API}/expectations/{kept['id']}").status_code == 204
    assert expired(actor, later).receipts.count() == 2
    assert client.delete(f"{API}/expectations/{kept['id']}").status_code == 404


def test_the_job_checks_after_a_change_and_once_a_day(client: APIClient) -> None:
    memory = remember(client, PLATFORM)
    settle()
    keep(client, ask(client, QUESTION), memory)
    now = timezone.now()
    assert list(due(now)) == []
    assert [len(rows) for rows in due(now + UNCHANGED_FOR + timedelta(minutes=1))] == [1]
    client.post(f"{API}/memories/{memory}/archive")
    settle()
    enqueue("check_expectations")
    run_jobs()
    assert Expectation.objects.get().state == "broken"
    assert list(due(now)) == []
    agent = Agent.objects.get()
    update_agent(agent_id=agent.pk, values={"policy": {"recall_limit": 20}}, expected_version=None, by=BY, now=now)
    assert [len(rows) for rows in due(now)] == [1], "a policy decides too"


def run(*arguments: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("expectations", *arguments, stdout=out)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()


def test_the_command_reports_what_is_broken_and_takes_its_own_lines(client: APIClient, tmp_path: Path) -> None:
    memory = remember(client, PLATFORM)
    lines = tmp_path / "expected.jsonl"
    wanted = {**NAMES, "query": QUESTION, "memory_id": memory}
    lines.write_text(f"{json.dumps(wanted)}\n{json.dumps({**wanted, 'wanted': False, 'query': 'Hello'})}\n")
    code, said = run("--add", str(lines), "--json")
    rows = [json.loads(line) for line in said.splitlines()]
    assert [(row["query"], row["wanted"], row["memory_id"]) for row in rows] == [
        (QUESTION, True, memory),
        ("Hello", False, memory),
    ]
    assert rows[0]["state"] == "kept" and code == (rows[1]["state"] == "broken")
    lines.write_text(said)
    run("--add", str(lines))
    assert Expectation.objects.count() == 2, "known ones are kept once"
    client.post(f"{API}/memories/{memory}/archive")
    code, said = run("--agent", "kana", "--user", "hiroki")
    assert code == 1 and f"memory {memory} is missing: {QUESTION}" in said and "1 kept, 1 broken." in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1]", "is no JSON object"),
        ("{", "no JSON"),
        ('{"agent_id": "kana", "user_id": "hiroki"}', "Line 1 lacks 'query'"),
        ('{"agent_id": "kana", "user_id": "hiroki", "query": "Hello", "memory_id": "x"}', "Line 1: "),
        ('{"agent_id": "kana", "user_id": "nobody", "query": "Hello", "memory_id": "%s"}' % ("0" * 32), "not exist"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_kept_is_named(client: APIClient, tmp_path: Path, line: str, said: str) -> None:
    remember(client, PLATFORM)
    lines = tmp_path / "expected.jsonl"
    lines.write_text(line)
    with pytest.raises(CommandError, match=said):
        run("--add", str(lines))
    with pytest.raises(CommandError, match="Cannot read"):
        run("--add", str(tmp_path / "missing.jsonl"))
