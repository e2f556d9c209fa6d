"""Django's settings of the database, embedded or external (SPEC O2). Without Django, as the supervisor uses it too."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import environ
from psycopg.pq import Conninfo

from memoryhub.env import Environment, EnvironmentProblem
from memoryhub.runtime.postgres import EmbeddedCluster

POOL_WAIT_SECONDS = 10.0  # the pool serves in order of waiting; after this time, clients have given up
OPTIONS_OF_DJANGO = frozenset({"assume_role", "isolation_level", "prepare_threshold", "server_side_binding"})


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
        }
        options["options"] = f"-c statement_timeout=30000 {options.get('options', '')}".rstrip()
        if environment.read_only:  # as on a standby, so that every write is refused by the database itself
            options["options"] = f"-c default_transaction_read_only=on {options['options']}"
    return {
        **base,
        "ENGINE": "django.db.backends.postgresql",
        # Django refuses persistent connections with a pool.
        "CONN_MAX_AGE": 0 if environment.is_web else 600,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }


def _external(url: str) -> dict[str, Any]:
    # Errors never quote the URL: in a malformed one, any part may be the password.
    try:
        parts = urlsplit(url)
        is_usable = parts.port != 0 and parts.scheme in {"postgres", "postgresql"}
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
    options = config.get("OPTIONS", {})
    if str(options.get("prepare_threshold", "")).lower() == "none":
        options["prepare_threshold"] = None
    return config


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
