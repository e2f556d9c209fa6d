"""A disk that fills up: it is said before, writes are refused early, reads and deletions go on, and all comes back."""

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError
from django.test import Client
from rest_framework.test import APIClient

from memoryhub.api.errors import problem_for
from memoryhub.jobs.queue import enqueue
from memoryhub.jobs.worker import JobBroker
from memoryhub.runtime.postgres import disk_space

API = "/api/v1"
NAMES = {"agent_id": "kana", "user_id": "hiroki"}
EVERYTHING_MB = 10_000_000

Keep = Callable[[int], None]


@pytest.fixture
def keep_free(settings: Any, tmp_path: Path) -> Keep:
    """Let the database seem to lie in a folder of which so many megabytes must stay free."""

    def keep(megabytes: int) -> None:
        settings.ENVIRONMENT = replace(
            settings.ENVIRONMENT, database_url=None, data_dir=tmp_path, min_free_mb=megabytes
        )
        (tmp_path / "postgres").mkdir(exist_ok=True)

    return keep


def free_mb(settings: Any) -> int:
    space = disk_space(settings.ENVIRONMENT)
    assert space is not None
    return space.free_mb


def findings() -> dict[str, Any]:
    out = StringIO()
    try:
        call_command("doctor", "--json", stdout=out)
    except CommandError as error:
        assert "Broken: disk" in str(error)
    return {each["subject"]: each for each in json.loads(out.getvalue())}


def test_writes_are_refused_early_reads_and_deletions_go_on_and_it_comes_back(
    client: APIClient, keep_free: Keep
) -> None:
    memory = client.post(f"{API}/memories", {**NAMES, "content": "likes green tea"}).json()
    keep_free(EVERYTHING_MB)
    refused = client.post(f"{API}/memories", {**NAMES, "content": "likes black tea"})
    assert refused.status_code == 507
    assert refused["Content-Type"] == "application/problem+json"
    assert refused["Retry-After"] == "30"
    assert refused.json()["code"] == "disk_full"
    changed = client.patch(f"{API}/memories/{memory['id']}", {"content": "likes tea"})
    assert changed.status_code == 507
    assert client.post(f"{API}/memories/search", {**NAMES, "query": "tea"}).json()["results"]
    assert client.post(f"{API}/context", {**NAMES, "message": "Which tea?"}).status_code == 200
    assert client.get(f"{API}/memories?agent_id=kana&user_id=hiroki").status_code == 200
    assert client.delete(f"{API}/memories/{memory['id']}").status_code == 204
    keep_free(0)
    assert client.post(f"{API}/memories", {**NAMES, "content": "likes black tea"}).status_code == 201


def test_a_stranger_learns_nothing_of_the_disk(db: None, keep_free: Keep) -> None:
    keep_free(EVERYTHING_MB)
    assert APIClient().post(f"{API}/memories", {**NAMES, "content": "x"}, format="json").status_code == 401


def test_jobs_wait_until_there_is_room(client: APIClient, keep_free: Keep) -> None:
    enqueue("forget_old_jobs", key="now")
    keep_free(EVERYTHING_MB)
    assert JobBroker().dequeue(5) == []
    keep_free(0)
    assert len(JobBroker().dequeue(5)) == 1


def test_readiness_names_the_disk_and_stays_ready(db: None, keep_free: Keep) -> None:
    keep_free(EVERYTHING_MB)
    ready = Client().get("/readyz")
    assert ready.status_code == 200
    assert not ready.json()["checks"]["disk"]["ok"]
    assert "writes and jobs wait" in ready.json()["checks"]["disk"]["detail"]
    keep_free(1)
    assert Client().get("/readyz").json()["checks"]["disk"]["ok"]
    assert "\nmemoryhub_disk_free_bytes " in Client().get("/metrics").content.decode()


def test_doctor_warns_before_and_says_where(db: None, keep_free: Keep, settings: Any, tmp_path: Path) -> None:
    keep_free(1)
    assert findings()["disk"]["level"] == "ok"
    keep_free(free_mb(settings) // 2)
    assert findings()["disk"]["level"] == "warning"
    keep_free(EVERYTHING_MB)
    assert findings()["disk"]["level"] == "broken"
    assert str(tmp_path) in findings()["disk"]["detail"]


def test_an_external_databases_disk_is_not_looked_at_and_its_error_is_told(settings: Any) -> None:
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, database_url="postgresql://u:p@db/hub", min_free_mb=EVERYTHING_MB
    )
    assert disk_space(settings.ENVIRONMENT) is None
    error = OperationalError("could not extend file")
    error.__cause__ = psycopg.errors.DiskFull("could not extend file")
    problem = problem_for(error)
    assert problem is not None
    assert problem.status_code == 507
