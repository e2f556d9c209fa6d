"""Liveness, readiness and Prometheus metrics (SPEC O4). The endpoints take no key and show no texts."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import DatabaseError, Error, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone, translation
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import GaugeMetricFamily
from rest_framework.exceptions import AuthenticationFailed

from memoryhub.api.problems import plain_problem
from memoryhub.auth.authentication import ApiKeyAuthentication
from memoryhub.auth.principals import Scope
from memoryhub.db.pool import own_connection
from memoryhub.db.replication import replication
from memoryhub.db.schema import schema_problem, waiting_migrations
from memoryhub.db.server_version import scheduled_minor, server_version
from memoryhub.embeddings.registry import embedding_provider
from memoryhub.jobs.models import Worker
from memoryhub.jobs.status import DatabaseCollector, is_alive, jobs_status
from memoryhub.llm.errors import ProviderError
from memoryhub.runtime.postgres import watched_space

CheckResult = tuple[bool, str]


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Report readiness of each component; 503 while a required one is missing.

    An unreachable embedder does not count: searches answer from words. Without workers, jobs are delayed. On a full
    disk, and where the database takes no writes, reads go on. With `?full` a key of the scope `admin` gets versions,
    workers and migrations as well.
    """
    with own_connection(), translation.override("en"):
        more: dict[str, Any] = {}
        if "full" in request.GET:
            with suppress(Error):  # without the database there is no more to report than the checks do
                if refusal := _refusal(request):
                    return refusal
                more = full_report(timezone.now())
        results = {name: run_check(check) for name, check in CHECKS.items()}
    is_ready = all(is_ok for name, (is_ok, _) in results.items() if name not in OPTIONAL_CHECKS)
    body = {
        "status": "ready" if is_ready else "not ready",
        "checks": {name: {"ok": is_ok, "detail": detail} for name, (is_ok, detail) in results.items()},
        **more,
    }
    return JsonResponse(body, status=200 if is_ready else 503)


def _refusal(request: HttpRequest) -> HttpResponse | None:
    """Return the answer to a caller that may not know versions and hosts: strangers may look for known faults."""
    try:
        found = ApiKeyAuthentication().authenticate(request)
    except AuthenticationFailed as error:
        return plain_problem(401, "authentication_failed", str(error.detail))
    if found is None:
        return plain_problem(401, "not_authenticated", "`?full` needs a key: `Authorization: Bearer <key>`.")
    if Scope.ADMIN not in found[0].scopes:
        return plain_problem(403, "permission_denied", "`?full` needs a key with the scope `admin`.")
    return None


def full_report(now: datetime) -> dict[str, Any]:
    """Return the server's version and age, the workers, and the state of the migrations."""
    major, minor, text = server_version()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_postmaster_start_time(), (SELECT extversion FROM pg_extension WHERE extname = 'vector')"
        )
        started_at, pgvector = cursor.fetchone()
    return {
        "server": {
            "version": text,
            "missing_releases": max(0, scheduled_minor(major, now.date()) - minor),
            "started_at": started_at,
            "pgvector": pgvector,
        },
        "migrations": {"waiting": waiting_migrations(), "problem": schema_problem()},
        "workers": list(Worker.objects.filter(is_alive()).values("host", "pid", "started_at", "seen_at")),
    }


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    with own_connection():
        return HttpResponse(generate_latest(DatabaseCollector.registry()), content_type=CONTENT_TYPE_LATEST)


def _standbys(now: datetime | None) -> Iterator[GaugeMetricFamily]:
    seconds = GaugeMetricFamily(
        "memoryhub_standby_lag_seconds", "How far a standby's replay is behind.", labels=["standby"]
    )
    size = GaugeMetricFamily(
        "memoryhub_standby_lag_bytes", "Log of the database that a standby has not replayed.", labels=["standby"]
    )
    for standby in replication().standbys if now else ():
        if standby.state is not None:
            seconds.add_metric([standby.name], standby.lag_seconds)
            size.add_metric([standby.name], standby.lag_bytes)
    yield from (seconds, size)


STANDBYS: Final = DatabaseCollector(_standbys)


def run_check(check: Callable[[], CheckResult]) -> CheckResult:
    try:
        return check()
    except DatabaseError as error:
        return False, f"The database does not answer ({type(error).__name__})."


def _database() -> CheckResult:
    with connection.cursor() as cursor:
        cursor.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        row = cursor.fetchone()
    return (True, f"pgvector {row[0]}") if row else (False, "The extension `vector` is not installed.")


def _migrations() -> CheckResult:
    waiting = waiting_migrations()
    detail = f"{len(waiting)} migrations are waiting; run `manage.py migrate`."
    return not waiting, detail if waiting else "up to date"


def _embedder() -> CheckResult:
    try:
        provider = embedding_provider()
    except ProviderError as error:
        return False, str(error)
    if not provider.is_local:
        # Remote providers are not probed here: a call every few seconds would cost money.
        return True, f"{provider.name} with {provider.model}; `manage.py doctor` asks it."
    return provider.probe()


def _workers() -> CheckResult:
    state = jobs_status(timezone.now())
    return bool(state.workers), f"{state.sentence} {state.advice}".rstrip()


def _disk() -> CheckResult:
    space = watched_space(settings.ENVIRONMENT)
    return not space.is_full, space.detail


def _writes() -> CheckResult:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('transaction_read_only')::bool")
        is_read_only: bool = cursor.fetchone()[0]
    return not is_read_only, "the database takes no writes; reads go on" if is_read_only else "accepted"


def _serving() -> CheckResult:
    is_stopping = settings.ENVIRONMENT.stopping_mark.exists()
    return not is_stopping, "this host is about to stop" if is_stopping else "requests are accepted"


CHECKS: dict[str, Callable[[], CheckResult]] = {
    "serving": _serving,
    "database": _database,
    "writes": _writes,
    "migrations": _migrations,
    "embedder": _embedder,
    "workers": _workers,
    "disk": _disk,
}
OPTIONAL_CHECKS = frozenset({"writes", "embedder", "workers", "disk"})
