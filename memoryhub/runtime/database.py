"""Django's settings of the database, embedded or external (SPEC O2). Without Django, as the supervisor uses it too."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

import environ
from psycopg.pq import Conninfo

from memoryhub.env import Environment, EnvironmentProblem
from memoryhub.runtime.postgres import EmbeddedCluster

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

POOL_WAIT_SECONDS = 10.0  # the pool serves in order of waiting; after this time, clients have given up
REPLICA_WAIT_SECONDS = 1.0
RECONNECT_SECONDS = 1.0  # the pool doubles the pause after each attempt to connect; with its default up to minutes
POSTGRESQL_PORT = 5432
OPTIONS_OF_DJANGO = frozenset({"assume_role", "isolation_level", "prepare_threshold", "server_side_binding"})


def databases(environment: Environment) -> dict[str, dict[str, object]]:
    """Return Django's settings of the primary, and those of replicas (`MEMORYHUB_REPLICA_URLS`)."""
    primary = database_settings(environment)
    if not environment.replica_urls:
        return {"default": primary}
    primary["ENGINE"] = "memoryhub.db.replicated"
    replicas = {
        f"replica{number}": _replica(replace(environment, database_url=url))
        for number, url in enumerate(environment.replica_urls, start=1)
    }
    return {"default": primary, **replicas}


def _replica(environment: Environment) -> dict[str, object]:
    try:
        settings = database_settings(environment)
    except EnvironmentProblem as problem:
        raise EnvironmentProblem(str(problem).replace("DATABASE_URL", "MEMORYHUB_REPLICA_URLS")) from None
    options: Any = settings["OPTIONS"]
    # The primary answers instead of a replica that is away: soon, and without connections that are held for it.
    options["connect_timeout"] = 2
    if environment.is_web:
        options["pool"] |= {"min_size": 0, "timeout": REPLICA_WAIT_SECONDS}
    return settings


def database_settings(environment: Environment) -> dict[str, object]:
    """Return Django's settings for the one database: `DATABASE_URL`, else the embedded server.

    Before the embedded server was ever started there is nothing to connect to; the settings then
    name a closed port, and `memoryhub.tenancy.policies` and `/readyz` say what to do.
    """
    base = _external(environment.database_url) if environment.database_url else _embedded(environment.data_dir)
    # Detect a server that disappeared without closing connections. Options of the URL override these.
    options: dict[str, object] = {
        "application_name": f"memoryhub-{environment.process}",
        "connect_timeout": 5,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
    }
    options.update(base.pop("OPTIONS", {}))
    if environment.is_web:
        options["pool"] = {
            "min_size": environment.pool_min,
            "max_size": environment.pool_share,
            "timeout": POOL_WAIT_SECONDS,
            "reconnect_timeout": RECONNECT_SECONDS,
            "reconnect_failed": _try_again,
        }
        options["options"] = f"-c statement_timeout=30000 {options.get('options', '')}".rstrip()
        if environment.read_only:  # as on a standby, so that every write is refused by the database itself
            options["options"] = f"-c default_transaction_read_only=on {options['options']}"
    return {
        **base,
        "ENGINE": "memoryhub.db.limited",
        # Django refuses persistent connections with a pool.
        "CONN_MAX_AGE": 0 if environment.is_web else 600,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }


def _try_again(pool: "ConnectionPool[Any]") -> None:
    """Connect again for the clients that wait; else the pool does so for the next one to come, and lets these wait."""
    with pool._lock:
        if pool._waiting:
            pool._maybe_grow_pool()


def _external(url: str) -> dict[str, Any]:
    # Errors never quote the URL: in a malformed one, any part may be the password.
    try:
        parts = urlsplit(url)
        login, at, addresses = parts.netloc.rpartition("@")
        first, *others = addresses.split(",")
        hosts = [urlsplit(f"//{address}") for address in (first, *others)]
        is_usable = all(host.port != 0 for host in hosts) and parts.scheme in {"postgres", "postgresql"}
        if others:
            url = parts._replace(netloc=f"{login}{at}{first}").geturl()
        config = dict(environ.Env.db_url_config(url)) if is_usable else {}
    except ValueError:
        config = {}
    name = parts.path.strip("/") if config else ""
    if not unquote(name).strip("/") or "/" in name:
        raise EnvironmentProblem(
            "DATABASE_URL must look like postgresql://user:password@host:5432/name (PostgreSQL is the only database), "
            "special characters in user and password percent-encoded (a / is %2F, an @ is %40)."
        )
    known = {option.keyword.decode() for option in Conninfo.get_defaults()} | OPTIONS_OF_DJANGO
    for unknown in config.get("OPTIONS", {}).keys() - known:
        nearest = get_close_matches(unknown, known, n=1)
        raise EnvironmentProblem(
            "DATABASE_URL has an option behind its ? that PostgreSQL does not know"
            + (f"; {nearest[0]} is one." if nearest else ". In a password, a ? is %3F.")
        )
    options = config.setdefault("OPTIONS", {})
    if others:
        config |= _several(hosts)
        # Else a standby that is named first would be taken. `read-write` would refuse a primary with a full disk, too.
        options.setdefault("target_session_attrs", "primary")
    if str(options.get("prepare_threshold", "")).lower() == "none":
        options["prepare_threshold"] = None
    return config


def _several(hosts: Sequence[SplitResult]) -> dict[str, str]:
    """Return hosts and ports as libpq takes lists of them: it tries one after the other."""
    return {
        "HOST": ",".join(host.hostname or "" for host in hosts),
        "PORT": ",".join(str(host.port or POSTGRESQL_PORT) for host in hosts),
    }


def _embedded(data_dir: Path) -> dict[str, Any]:
    connection = EmbeddedCluster(data_dir).connection()
    if connection is None:
        return {"NAME": "memoryhub", "USER": "memoryhub", "HOST": "127.0.0.1", "PORT": "1"}
    return {
        "NAME": connection.dbname,
        "USER": connection.user,
        "PASSWORD": connection.password,
        "HOST": connection.host,
        "PORT": str(connection.port),
    }
