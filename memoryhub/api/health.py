"""Liveness, readiness and Prometheus metrics (SPEC O4); no key needed, no texts shown."""

from collections.abc import Callable

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from memoryhub.embeddings.registry import embedding_provider
from memoryhub.jobs import status as metrics_of_jobs  # noqa: F401  its collector registers itself
from memoryhub.jobs.status import Mood, jobs_status
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.usage import reports as metrics_of_calls  # noqa: F401  so does this one

Verdict = tuple[bool, str]


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Report readiness of each component; 503 while a required one is missing.

    An unreachable embedder does not count: searches answer from words. Without workers, jobs are delayed.
    """
    verdicts = {name: check() for name, check in CHECKS.items()}
    is_ready = all(fine for name, (fine, _) in verdicts.items() if name not in MAY_BE_AWAY)
    body = {
        "status": "ready" if is_ready else "not ready",
        "checks": {name: {"ok": fine, "detail": detail} for name, (fine, detail) in verdicts.items()},
    }
    return JsonResponse(body, status=200 if is_ready else 503)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    return HttpResponse(generate_latest(), content_type=CONTENT_TYPE_LATEST)


def _database() -> Verdict:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
            row = cursor.fetchone()
    except DatabaseError as error:
        return False, f"The database does not answer ({type(error).__name__})."
    return (True, f"pgvector {row[0]}") if row else (False, "The extension `vector` is not installed.")


def _migrations() -> Verdict:
    try:
        executor = MigrationExecutor(connection)
        waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        return False, f"The database does not answer ({type(error).__name__})."
    return (
        not waiting,
        f"{len(waiting)} migrations are waiting; run `manage.py migrate`." if waiting else "up to date",
    )


def _embedder() -> Verdict:
    try:
        provider = embedding_provider()
    except ProviderError as error:
        return False, str(error)
    if not provider.is_local:
        # A remote provider is not asked here: a probe every few seconds would cost money.
        return True, f"{provider.name} with {provider.model}; `manage.py doctor` asks it."
    availability = provider.probe()
    return availability.available, availability.detail


def _workers() -> Verdict:
    try:
        state = jobs_status(timezone.now())
    except DatabaseError as error:
        return False, f"The database does not answer ({type(error).__name__})."
    return state.mood is not Mood.DOWN, state.detail


CHECKS: dict[str, Callable[[], Verdict]] = {
    "database": _database,
    "migrations": _migrations,
    "embedder": _embedder,
    "workers": _workers,
}
MAY_BE_AWAY = frozenset({"embedder", "workers"})
