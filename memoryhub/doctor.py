"""Checks of `manage.py doctor`: an installation's state, each finding with a remedy."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.http.request import validate_host
from django.utils import timezone

from memoryhub.api.health import CHECKS, run_check
from memoryhub.auth.expiring import expiring_keys
from memoryhub.auth.models import AgentLimit, ApiKey
from memoryhub.auth.roles import roles_out_of_sync
from memoryhub.auth.row_security import remedy
from memoryhub.db import replicas
from memoryhub.db.replication import STREAMING, Standby, replication
from memoryhub.db.schema import schema_problem
from memoryhub.db.server_version import scheduled_minor, server_version
from memoryhub.embeddings.hashing import HashingProvider
from memoryhub.embeddings.registry import embedding_provider
from memoryhub.embeddings.spaces import plan_change, unfinished_spaces
from memoryhub.jobs.hosts import SECRET_KEY, differences
from memoryhub.jobs.models import Job
from memoryhub.jobs.registry import KINDS
from memoryhub.jobs.retries import State
from memoryhub.jobs.status import jobs_status
from memoryhub.llm.client import NOT_CONFIGURED, llm_provider
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.tokens import count_raw
from memoryhub.llm.trials import try_tasks, verdicts
from memoryhub.llm.types import Operation
from memoryhub.llm.usage.caps import OK
from memoryhub.llm.usage.models import LedgerEntry, TokenFactors
from memoryhub.llm.usage.spending import estimate_errors, paused_agents, spent_in, today_start
from memoryhub.runtime.postgres import PostgresError, watched_space
from memoryhub.search.maintenance import count_outdated
from memoryhub.search.models import ACROSS, SPACED, UNSPACED, EmbeddingSpace
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy, policy_classes
from memoryhub.tenancy.policy import PolicyError

MIN_POSTGRESQL_VERSION = 15
MIN_PGVECTOR_VERSION = (0, 8)
MAX_STANDBY_LAG_SECONDS = 30.0
MAX_ESTIMATE_ERROR = 0.10
"""Highest 95th percentile of the relative error of a calibrated model's estimates."""


SUFFICIENT_WINDOW: Final = 8_192
"""Context window in tokens in which instructions, schema and answer leave room for several messages."""

SCRIPT_LABELS: Final = {
    SPACED: "English, as all scripts with spaces between words are read",
    UNSPACED: "Japanese, as all scripts without spaces are read",
    ACROSS: "English beside Japanese",
}


class Level(StrEnum):
    """Severity of a finding."""

    FINE = "ok"
    WARNING = "warning"
    BROKEN = "broken"


@dataclass(frozen=True)
class Finding:
    """Result of one check, with a remedy where something is wrong."""

    level: Level
    subject: str
    detail: str


def server() -> Iterator[Finding]:
    """Check that the database is reachable, recent enough and migrated."""
    for name in ("database", "migrations"):
        is_ok, detail = run_check(CHECKS[name])
        yield Finding(Level.FINE if is_ok else Level.BROKEN, name, detail)
    if problem := schema_problem():
        yield Finding(Level.BROKEN, "migrations", problem)
    _major, pgvector = _versions()
    yield _server_version(datetime.now(UTC).date())
    detail = f"version {pgvector or 'none'}; {'.'.join(map(str, MIN_PGVECTOR_VERSION))} or newer is needed"
    yield Finding(Level.FINE if _is_recent(pgvector) else Level.BROKEN, "pgvector", detail)


def _server_version(today: date) -> Finding:
    """Check the server's version; minor releases with fixes of security are due each quarter."""
    major, minor, text = server_version()
    if major < MIN_POSTGRESQL_VERSION:
        return Finding(Level.BROKEN, "PostgreSQL", f"version {text}; {MIN_POSTGRESQL_VERSION} or newer is needed")
    if (lacking := scheduled_minor(major, today) - minor) <= 0:
        return Finding(Level.FINE, "PostgreSQL", f"version {text}")
    remedy = "update that server"
    if not settings.ENVIRONMENT.database_url:
        remedy = "the embedded server follows its package; for production use docs/howto/external-database.md"
    detail = f"version {text} lacks {lacking} or more of the quarterly releases with fixes; {remedy}"
    return Finding(Level.WARNING, "PostgreSQL", detail)


def _versions() -> tuple[int, str | None]:
    """Return PostgreSQL's major version, and pgvector's in this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version_num')::int / 10000, "
            "(SELECT extversion FROM pg_extension WHERE extname = 'vector')"
        )
        major, pgvector = cursor.fetchone()
    return major, pgvector


def _is_recent(pgvector: str | None) -> bool:
    return tuple(int(part) for part in (pgvector or "0").split(".")[:2]) >= MIN_PGVECTOR_VERSION


def require_database(**kwargs: Any) -> None:
    """Receiver of `pre_migrate`: install pgvector where it is missing.

    Raises PostgresError where the server is too old, or pgvector is too old or cannot be installed.
    """
    major, pgvector = _versions()
    if major < MIN_POSTGRESQL_VERSION:
        raise PostgresError(f"the database is PostgreSQL {major}; {MIN_POSTGRESQL_VERSION} or newer is needed.")
    if pgvector is None:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except DatabaseError as error:
            raise PostgresError(
                f"pgvector cannot be installed in the database ({str(error).splitlines()[0]}). Install its package on "
                "that server, and run CREATE EXTENSION vector in this database as a superuser "
                "(docs/howto/external-database.md)."
            ) from error
        _major, pgvector = _versions()
    if not _is_recent(pgvector):
        needed = ".".join(map(str, MIN_PGVECTOR_VERSION))
        raise PostgresError(
            f"the database has pgvector {pgvector}; {needed} or newer is needed: update its package on that server, "
            "then run ALTER EXTENSION vector UPDATE."
        )


def environment() -> Iterator[Finding]:
    """List variables that are set and have no effect."""
    for sentence in settings.INEFFECTIVE_SETTINGS:
        yield Finding(Level.WARNING, "settings", sentence)


def disk() -> Iterator[Finding]:
    """Check that the database and the data folder have room to grow."""
    space = watched_space(settings.ENVIRONMENT)
    level = Level.BROKEN if space.is_full else Level.WARNING if space.is_low else Level.FINE
    yield Finding(level, "disk", f"{space.path}: {space.detail}")


def workers() -> Iterator[Finding]:
    """Check that workers are alive, and count dead jobs."""
    state = jobs_status(datetime.now(UTC))
    detail = f"{state.sentence} {state.advice}".rstrip()
    yield Finding(Level.FINE if state.is_healthy else Level.WARNING, "workers", detail)
    unknown = Job.objects.filter(state=State.QUEUED).exclude(kind__in=KINDS).count()
    if unknown:
        detail = f"{unknown} jobs are of kinds that this release does not know; they wait for a worker that does"
        yield Finding(Level.WARNING, "jobs", detail)
    ended_badly = Job.objects.ended_badly().count()
    if ended_badly:
        detail = f"{ended_badly} jobs failed or are dead; `manage.py jobs list` says why, `jobs retry` sends them back"
        yield Finding(Level.WARNING, "jobs", detail)


def hosts() -> Iterator[Finding]:
    """Compare the settings that all hosts must have alike with those of living workers."""
    for name, detail in differences():
        yield Finding(Level.BROKEN if name == SECRET_KEY else Level.WARNING, "hosts", detail)


def embeddings() -> Iterator[Finding]:
    """Probe the embedder, and check that searches read the configured space."""
    try:
        is_available, detail = embedding_provider().probe()
        yield Finding(Level.FINE if is_available else Level.WARNING, "embedder", detail)
        plan, unfinished = plan_change(), list(unfinished_spaces())
    except ProviderError as error:
        yield Finding(Level.WARNING, "embedder", f"{error} Until then searches use words alone.")
        return
    level = Level.WARNING
    if str(plan.source) != plan.target:
        detail = f"searches read {plan.source}, configured is {plan.target}; run `manage.py reembed` to change"
    elif plan.waiting:
        detail = f"{plan.waiting} texts wait for a vector and are found by words; run `manage.py reembed`"
    else:
        level, detail = Level.FINE, f"{plan.source}, every text has its vector"
    yield Finding(level, "embedding space", detail)
    yield from calibration(plan.source)
    for space in unfinished:
        detail = f"{space} was begun to be filled, and is not configured any more; `manage.py reembed` removes it"
        yield Finding(Level.WARNING, "embedding space", detail)


def calibration(space: EmbeddingSpace) -> Iterator[Finding]:
    """Report how the cosines of a space are calibrated, and which languages its model does not know."""
    measures = space.calibration
    if space.provider == HashingProvider.name:
        detail = "cosines are read as tuned for it; it compares words and parts of words, in every language"
        yield Finding(Level.FINE, "calibration", detail)
        return
    if SPACED not in measures:
        detail = f"the cosines of {space} were not measured yet; `manage.py reembed` does, and the hourly job"
        yield Finding(Level.WARNING, "calibration", detail)
        return
    for script, languages in SCRIPT_LABELS.items():
        measure = measures[script]
        detail = f"{languages}: {measure['found']:.0%} of paraphrases stand out from unrelated sentences"
        level, weight = Level.FINE, measure.get("vector_weight")
        if script != ACROSS and not weight:
            level = Level.WARNING
            detail += "; the model does not tell them apart, so queries are answered by words alone"
        elif script != ACROSS:
            low, high = measure["cosine_low"], measure["cosine_high"]
            detail += f"; a cosine up to {low} says nothing, one of {high} most (weight {weight})"
        yield Finding(level, "calibration", detail)


def language_model() -> Iterator[Finding]:
    """Probe the language model's provider at no cost, and list the models in use."""
    if settings.LLM.provider == "none":
        detail = "none is configured; nothing is written by a model, and summaries are extracts"
        yield Finding(Level.FINE, "language model", detail)
        return
    try:
        models = sorted({llm_provider().model_for(operation) for operation in Operation})
        llm_provider().probe()
        windows = {operation: llm_provider().context_window(operation) for operation in Operation}
    except ProviderError as error:
        yield Finding(Level.WARNING, "language model", f"{error} Until then chat answers with an error.")
        return
    yield Finding(Level.FINE, "language model", f"{settings.LLM.provider} answers; {', '.join(models)}")
    if settings.LLM.base_url:
        yield _context_window(windows)


def _context_window(windows: Mapping[Operation, int | None]) -> Finding:
    known = {operation: window for operation, window in windows.items() if window}
    if len(known) < len(windows):
        detail = "the server does not report it; set MEMORYHUB_LLM_CONTEXT_WINDOW, so that no prompt is longer"
        return Finding(Level.WARNING, "context window", detail)
    small = [operation.name for operation, window in known.items() if window < SUFFICIENT_WINDOW]
    sizes = ", ".join(sorted({f"{window:,}" for window in known.values()}))
    if small:
        detail = f"{sizes} tokens; {', '.join(small)} need {SUFFICIENT_WINDOW:,}, so give the model a larger window"
        return Finding(Level.WARNING, "context window", detail)
    return Finding(Level.FINE, "context window", f"{sizes} tokens")


def model_trials() -> Iterator[Finding]:
    """Let the model do eight small tasks, and list what it is fit for. Network, at the usual cost."""
    if settings.LLM.provider == "none":
        yield Finding(Level.BROKEN, "language model", str(NOT_CONFIGURED))
        return
    results = []
    for result in try_tasks(time.monotonic):
        results.append(result)
        speed = f"{result.seconds:.1f} s, {result.output_tokens} tokens written"
        level = Level.WARNING if result.fault else Level.FINE
        yield Finding(level, f"task: {result.task}", f"{result.fault or 'done'} ({speed})")
    for use, faults in verdicts(results):
        detail = f"not fit: {faults}; take a larger model or another server" if faults else "fit"
        yield Finding(Level.BROKEN if faults else Level.FINE, use, detail)


def followers() -> Iterator[Finding]:
    """Check that a standby follows where hosts know several servers, and how far it is behind."""
    state = replication()
    if state.is_standby:
        yield Finding(Level.WARNING, "replication", "connected to a standby: reads go on, writes fail")
        return
    if state.are_writes_waiting:
        detail = "writes wait: no standby of synchronous_standby_names follows (docs/howto/failover.md)"
        yield Finding(Level.BROKEN, "replication", detail)
    for standby in state.standbys:
        yield _follower(standby)
    if not state.standbys and "," in str(settings.DATABASES["default"].get("HOST", "")):
        detail = "DATABASE_URL has several servers, and no standby follows the primary"
        yield Finding(Level.WARNING, "replication", detail)


def read_replicas() -> Iterator[Finding]:
    """Check that replicas answer, and how much they have to replay."""
    for alias, waiting in replicas.states():
        if waiting is None:
            detail = f"{alias} of MEMORYHUB_REPLICA_URLS does not answer, or is no standby; the primary answers instead"
            yield Finding(Level.WARNING, "replicas", detail)
        else:
            yield Finding(Level.FINE, "replicas", f"{alias} answers, {max(0, waiting):,} bytes of the log to replay")


def _follower(standby: Standby) -> Finding:
    if standby.state is None:
        detail = "a standby follows; to see its lag, GRANT pg_read_all_stats to this role"
        return Finding(Level.WARNING, "replication", detail)
    how = "synchronous" if standby.is_synchronous else "asynchronous"
    detail = f"standby {standby.name}: {standby.state}, {how}, {standby.lag_seconds:.1f} s behind"
    is_well = standby.state == STREAMING and standby.lag_seconds <= MAX_STANDBY_LAG_SECONDS
    return Finding(Level.FINE if is_well else Level.WARNING, "replication", detail)


def words() -> Iterator[Finding]:
    """Check that the word index was built by this release's tokenizer."""
    waiting = count_outdated()
    detail = f"{waiting} texts are indexed as an older release did it; run `manage.py reindex`"
    yield (
        Finding(Level.WARNING, "words", detail)
        if waiting
        else Finding(Level.FINE, "words", "every text is indexed as this release does it")
    )


def tokens() -> Iterator[Finding]:
    """Load the vocabulary, verifying its checksum, and show the calibration factors."""
    count_raw("memoryhub")
    model = settings.LLM.counted_as() or "no model configured: the most careful factors"
    yield Finding(Level.FINE, "token counting", f"o200k_base; {model}")


def spending() -> Iterator[Finding]:
    """Show today's calls, caps, and the error of token estimates."""
    now = datetime.now(UTC)
    today = LedgerEntry.objects.filter(created_at__gte=today_start(now, timezone.get_default_timezone()))
    spent, calls, failures = spent_in(today), today.count(), today.exclude(outcome=OK).count()
    detail = f"{calls} calls today, {failures} failed; {spent.tokens} tokens, {spent.cost:.4f} USD"
    yield Finding(Level.WARNING if failures * 2 > calls else Level.FINE, "spending", detail)
    for budget in paused_agents(now=now):
        yield Finding(Level.WARNING, f"spending of {budget.agent_id}", budget.detail)
    fitted = set(TokenFactors.objects.values_list("provider", "model"))
    for estimate in estimate_errors(since=now - timedelta(days=7)):
        is_fitted = (estimate.provider, estimate.model) in fitted
        is_poor, how = (is_fitted and estimate.p95 > MAX_ESTIMATE_ERROR, "fitted" if is_fitted else "not fitted yet")
        detail = f"{estimate.model}, {how}: off by {estimate.median:.1%} (median), {estimate.p95:.1%} (p95) in a week"
        yield Finding(Level.WARNING if is_poor else Level.FINE, "token estimates", detail)


def access() -> Iterator[Finding]:
    """Check API keys and network settings."""
    usable = ApiKey.objects.usable(datetime.now(UTC)).count()
    level = Level.FINE if usable else Level.WARNING
    yield Finding(level, "API keys", f"{usable} usable" if usable else "none; make one in the admin")
    for key in expiring_keys(datetime.now(UTC)):
        detail = f"{key} expires at {key.expires_at:%Y-%m-%d %H:%M} UTC; issue another one before"
        yield Finding(Level.WARNING, "API keys", detail)
    for role in roles_out_of_sync():
        detail = f"the group {role} holds something else than the role; run `manage.py migrate`"
        yield Finding(Level.WARNING, "roles", detail)
    host = urlsplit(settings.OAUTH_URL).hostname
    if host and not validate_host(host, settings.ALLOWED_HOSTS):
        yield Finding(Level.BROKEN, "OAuth", f"the host of {settings.OAUTH_URL} is not in ALLOWED_HOSTS")
    if settings.DEBUG:
        yield Finding(Level.WARNING, "DEBUG", "is on: error pages show settings and data; turn it off")


def policies() -> Iterator[Finding]:
    """List overridden policy values that are invalid, or outside the recommended range (SPEC S1)."""
    noticed = False
    overriding = Actor.objects.select_related("agent").exclude(agent__policy={}, policy={})
    for actor in overriding.iterator():
        for policy in policy_classes():
            level, advice = Level.WARNING, ""
            try:
                details = effective_policy(policy, actor.agent, actor).unusual()
            except PolicyError as error:  # an older release may have allowed a value that is now invalid
                level, advice = Level.BROKEN, "; change or remove it at the agent or the user"
                details = error.errors
            for key, detail in details.items():
                noticed = True
                yield Finding(level, f"policy of {actor}", f"{key} {detail}{advice}")
    if not noticed:
        yield Finding(Level.FINE, "policies", "every value is in its recommended range")


def sign_in() -> Iterator[Finding]:
    """Check that the OpenID provider answers, and that its groups give roles."""
    provider = settings.SIGN_IN.provider
    if provider is None:
        return
    from memoryhub.auth.oidc import SignInFailed, discovery_document, signing_keys

    try:
        signing_keys(discovery_document(provider.issuer, refresh=True)["jwks_uri"], refresh=True)
    except SignInFailed as error:
        detail = f"{provider.issuer}: {error}. Nobody can sign in by it; passwords go on."
        yield Finding(Level.BROKEN, "sign-in", detail)
        return
    detail = f"{provider.issuer} answers; {len(provider.roles)} of its groups give a role"
    if not provider.roles:
        detail += ". Without MEMORYHUB_OIDC_ROLES only who is invited or connected gets in."
    yield Finding(Level.FINE if provider.roles else Level.WARNING, "sign-in", detail)


def agent_limits() -> Iterator[Finding]:
    """Check that the database can limit people to some agents, where any are, or a group may limit them."""
    provider, limited = settings.SIGN_IN.provider, AgentLimit.objects.count()
    if not limited and (provider is None or not provider.agents):
        return
    if problem := remedy():
        detail = f"people who are limited to some agents are refused: {problem}"
        yield Finding(Level.BROKEN, "limited people", detail)
    else:
        yield Finding(
            Level.FINE, "limited people", f"{limited} are limited to some agents, by policies of the database"
        )


Diagnosis = Callable[[], Iterator[Finding]]
DIAGNOSES: Final[list[Diagnosis]] = [
    server, environment, disk, followers, read_replicas, workers, hosts, embeddings, language_model, words, tokens,
    spending, access, sign_in, agent_limits, policies,
]  # fmt: skip
"""Checks of `manage.py doctor`; apps register theirs in `AppConfig.ready`."""
