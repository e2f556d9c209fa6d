"""A job acts with the rights of the caller that ordered it; callers that may order none, and revoked ones (SPEC A10)."""

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from rest_framework.test import APIClient

from memoryhub.auth.models import ApiKey
from memoryhub.auth.orders import OrderLapsed, caller_of, order_of
from memoryhub.auth.principals import Principal, PrincipalKind, command, curator
from memoryhub.importexport.foreign import uploads
from memoryhub.jobs.context import JobContext
from memoryhub.jobs.executor import claim, run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Offer, OrderRefused, enqueue
from memoryhub.jobs.registry import KINDS, job_kind
from strength.models import Memory
from tests.conftest import client_with_key
from tests.factories.planting import API, made

pytestmark = pytest.mark.django_db
NAMES = {"agent_id": "kana", "user_id": "hiroki"}

# Every job, and who may order it. "server": only events, schedules and other changes cause it, whatever the caller; it
# reads rows that have a trust of their own. A new job is added here with a reason to be found in its docstring.
ORDERED_BY = {
    "check_expectations": "server",
    "calibrate_tokens": "server", "clear_excerpts": "server", "cluster_tables": "server", "compact": "trusted", "count_terms": "server",
    "apply_retention": "server", "curate_memories": "trusted", "embed": "server", "embed_missing": "server", "end_idle_sessions": "server",
    "extract": "server", "forget_old_calls": "server", "forget_old_jobs": "server", "forget_old_receipts": "server",
    "forget_old_sessions": "server", "forget_session": "trusted", "forget_old_uploads": "server", "forget_old_uses": "server",
    "hold_forgotten": "server", "import_file": "anyone", "note_use": "server", "purge_projects": "server", "reflect": "server",
    "remember_summary": "server", "sleep": "server", "sleep_due": "server", "summarize": "anyone",
    "summarize_due": "server", "update_project": "server", "vacuum": "server", "write_profile": "trusted",
    "write_profiles_due": "server", "deliver_webhook": "server", "deliver_slow_webhook": "server", "forget_old_deliveries": "server",
    "send_webhook": "trusted", "write_cues": "server", "write_cues_due": "server",
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(uploads, "uploads_folder", lambda: tmp_path / "imports")


def caller(**values: Any) -> Principal:
    return Principal(**{"kind": PrincipalKind.COMMAND, "id": "x", "name": "x", **values})


def test_every_job_says_who_may_order_it() -> None:
    assert {name: kind.ordered_by for name, kind in KINDS.items()} == ORDERED_BY


@pytest.mark.parametrize("kind", ORDERED_BY)
@pytest.mark.parametrize("is_trusted", [True, False])
def test_only_callers_of_the_table_order_a_job(kind: str, is_trusted: bool) -> None:
    order = order_of(caller(is_trusted=is_trusted))
    if ORDERED_BY[kind] == "anyone" or (ORDERED_BY[kind] == "trusted" and is_trusted):
        assert Job.objects.get(pk=enqueue(kind, order=order)).order == order
    else:
        with pytest.raises(OrderRefused):
            enqueue(kind, order=order)


PERMISSIONS = {
    "compact": {"": "summaries.change_document"},
    "curate_memories": {"delete": "strength.delete_memory", "": "strength.change_memory"},
    "forget_session": {"": "conversations.delete_message"},
    "import_file": {"": "memoryhub.add_import"},
    "send_webhook": {"": "webhooks.change_endpoint"},
    "summarize": {"": "summaries.change_summary"},
    "write_profile": {"": "strength.change_profile"},
}
"""What an account needs to order a job, by the verb of its payload: the same as the button that orders it."""


def ordered(order: dict[str, Any], kind: str = "summarize", verb: str = "") -> JobContext:
    """Return a job that a worker has claimed."""
    job_id = enqueue(kind, order=order, key=str(uuid4()), payload={"verb": verb})
    job = claim(Offer(job_id, kind), job_kind(kind), worker=uuid4())
    assert job is not None
    return job


def test_every_job_that_a_person_orders_names_a_permission() -> None:
    assert {name: kind.permissions for name, kind in KINDS.items() if kind.ordered_by != "server"} == PERMISSIONS
    for permission in {each for by_verb in PERMISSIONS.values() for each in by_verb.values()}:
        app, codename = permission.split(".")
        assert Permission.objects.filter(content_type__app_label=app, codename=codename).exists(), permission


@pytest.mark.parametrize(("kind", "verb"), [(kind, verb) for kind in PERMISSIONS for verb in PERMISSIONS[kind]])
def test_an_order_of_an_account_lapses_with_its_permission_or_its_access(kind: str, verb: str) -> None:
    account = get_user_model().objects.create_user("ann")
    app, codename = PERMISSIONS[kind][verb].split(".")
    account.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    job = ordered(order_of(curator(account.pk, "ann")), kind, verb)
    by = caller_of(job)
    assert by is not None and (by.kind, by.id) == (PrincipalKind.CURATOR, str(account.pk))
    account.user_permissions.clear()
    with pytest.raises(OrderLapsed, match="account"):
        caller_of(job)
    account.is_superuser = True
    account.save()
    caller_of(job)
    account.is_active = False
    account.save()
    with pytest.raises(OrderLapsed, match="account"):
        caller_of(job)


@pytest.mark.parametrize("kind", PERMISSIONS)
def test_no_job_begins_whose_caller_may_not_order_it_any_more(kind: str) -> None:
    """Whichever way its function begins: it would fail here with another error, as its payload names nothing."""
    account = get_user_model().objects.create_user("ann")
    job_id = enqueue(kind, order=order_of(curator(account.pk, "ann")), key="asked")
    run(Offer(job_id, kind), worker=uuid4())
    job = Job.objects.get(pk=job_id)
    assert job.state == "failed" and "no longer has access" in job.error


def test_an_order_is_read_with_the_callers_present_rights() -> None:
    client_with_key(agent_ids=["kana"], user_id="hiroki")
    key = ApiKey.objects.get()
    job = ordered(order_of(key.principal()))
    assert caller_of(job) == key.principal()
    ApiKey.objects.update(is_trusted=False, scopes=["read"])
    now = caller_of(job)
    assert now is not None and (now.is_trusted, now.scopes, now.agent_ids) == (False, {"read"}, {"kana"})
    ApiKey.objects.update(is_trusted=True)
    doubted = caller_of(ordered(order_of(now)))
    assert doubted is not None and not doubted.is_trusted, "an order given with doubt keeps it"
    ApiKey.objects.update(revoked_at=datetime.now(UTC))
    with pytest.raises(OrderLapsed, match="revoked"):
        caller_of(job)


def test_a_command_has_no_account() -> None:
    by = caller_of(ordered(order_of(command("import"))))
    assert by is not None and by.is_trusted


def begun(client: APIClient, texts: list[str]) -> str:
    row = made(client.post(f"{API}/imports", {**NAMES, "file_name": "memories.json", "format": "mem0"}))
    file = json.dumps([{"id": str(uuid4()), "memory": text, "user_id": "hiroki"} for text in texts])
    append(client, row["id"], file, 0)
    return str(row["id"])


def append(client: APIClient, import_id: str, text: str, offset: int) -> Any:
    chunk = {"offset": offset, "content": base64.b64encode(text.encode()).decode()}
    return client.post(f"{API}/imports/{import_id}/chunks", chunk)


def carry_out(client: APIClient, import_id: str, verb: str) -> Job:
    made(client.post(f"{API}/imports/{import_id}/orders", {"verb": verb}), 202)
    job = Job.objects.filter(kind=uploads.KIND, key=import_id).latest("created_at")
    Job.objects.filter(pk=job.pk).update(due_at=job.created_at)
    run(Offer(UUID(str(job.pk)), uploads.KIND), worker=uuid4())
    job.refresh_from_db()
    return job


def test_an_untrusted_key_changes_no_trusted_import(client: APIClient) -> None:
    stranger = client_with_key(is_trusted=False)
    import_id = begun(client, ["Likes tea"])
    before = uploads.Import.objects.get(pk=import_id).size
    assert append(stranger, import_id, ", planted", before).status_code == 403
    for verb in ("preview", "run", "undo"):
        assert stranger.post(f"{API}/imports/{import_id}/orders", {"verb": verb}).status_code == 403
    assert not Job.objects.exists() and uploads.Import.objects.get(pk=import_id).size == before
    carry_out(client, import_id, "run")
    assert list(Memory.objects.values_list("content", "status")) == [("Likes tea", "active")]
    assert stranger.post(f"{API}/imports/{import_id}/orders", {"verb": "undo"}).status_code == 403
    assert Memory.objects.count() == 1


@pytest.mark.parametrize("is_begun_by_stranger", [True, False])
def test_an_import_is_as_trusted_as_the_less_trusted_of_who_began_and_who_ordered_it(
    client: APIClient, is_begun_by_stranger: bool
) -> None:
    stranger = client_with_key(is_trusted=False)
    import_id = begun(stranger if is_begun_by_stranger else client, ["Likes tea"])
    carry_out(client, import_id, "run")
    expected = ("pending", "untrusted") if is_begun_by_stranger else ("active", "trusted")
    assert Memory.objects.values_list("status", "trust").get() == expected


def test_an_order_of_a_key_that_is_revoked_before_it_runs_does_nothing(client: APIClient) -> None:
    import_id = begun(client, ["Likes tea"])
    other = client_with_key()
    made(other.post(f"{API}/imports/{import_id}/orders", {"verb": "run"}), 202)
    ApiKey.objects.order_by("created_at").last().delete()  # type: ignore[union-attr]
    job = Job.objects.get(key=import_id)
    Job.objects.update(due_at=job.created_at)
    run(Offer(UUID(str(job.pk)), uploads.KIND), worker=uuid4())
    job.refresh_from_db()
    assert (job.state, "revoked" in job.error) == ("failed", True) and not Memory.objects.exists()
