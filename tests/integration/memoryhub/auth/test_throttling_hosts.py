"""A key's calls are counted over all hosts, by their sums in the database (ADR 61)."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.utils import timezone
from rest_framework.test import APIClient

from memoryhub.auth.models import CallSum
from memoryhub.auth.throttling import CallCounter, Quota, this_host
from memoryhub.jobs.queue import enqueue
from tests.conftest import client_with_key, run_jobs

pytestmark = pytest.mark.django_db


def call(counter: CallCounter, host: str, *, now: float, limit: int = 10) -> Quota:
    """Count a call as the throttle does, with the exchange after its answer."""
    quota = counter.count("key:one", now=now, limit=limit)
    if quota.is_exchange_due:
        counter.exchange("key:one", host=host)
    return quota


@pytest.mark.parametrize("is_shared", [True, False])
def test_two_hosts_share_a_limit(tmp_path: Path, is_shared: bool) -> None:
    first, second = (CallCounter(tmp_path / name if is_shared else None) for name in ("first", "second"))
    let_in = 0
    for step in range(20):
        let_in += not call(first, "first", now=100.0 + step).is_exceeded
        let_in += not call(second, "second", now=100.0 + step).is_exceeded
    assert 10 <= let_in <= 11, "what a host receives within a second is not known to the other"
    assert call(first, "first", now=120.0).state.startswith('"key";r=0;')


def test_hosts_that_are_gone_count_for_a_minute() -> None:
    counter = CallCounter(None)
    CallSum.objects.create(caller="key:one", host="gone", calls=9, at=timezone.now() - timedelta(seconds=50))
    call(counter, "here", now=100.0)
    assert call(counter, "here", now=101.0).is_exceeded
    CallSum.objects.filter(host="gone").update(at=timezone.now() - timedelta(seconds=61))
    call(counter, "here", now=102.0)
    assert not call(counter, "here", now=103.0).is_exceeded


def test_without_the_database_a_host_counts_alone() -> None:
    counter = CallCounter(None)
    CallSum.objects.create(caller="key:one", host="other", calls=9, at=timezone.now())
    with connection.execute_wrapper(_away):
        assert [call(counter, "here", now=100.0 + step).is_exceeded for step in range(3)] == [False] * 3


def _away(execute: object, sql: str, params: object, many: bool, context: object) -> None:
    raise OperationalError("away")


def test_web_servers_exchange_their_sums_once_a_second(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client_with_key(name="other").get("/api/v1/agents")
    assert not CallSum.objects.exists(), "this is no web server"
    monkeypatch.setattr(type(settings.ENVIRONMENT), "is_web", True)
    for _call in range(5):
        client.get("/api/v1/agents")
    [row] = CallSum.objects.all()
    assert (row.host, 0 < row.calls <= 6) == (this_host(), True)


def test_sums_of_hosts_that_are_gone_are_deleted() -> None:
    for host, age in [("old", timedelta(hours=2)), ("new", timedelta(0))]:
        CallSum.objects.create(caller="key:one", host=host, calls=1, at=timezone.now() - age)
    enqueue("forget_old_calls", key="")
    run_jobs()
    assert list(CallSum.objects.values_list("host", flat=True)) == ["new"]
