"""Read and validate the environment, once.

Everything that an operator may set is read here and nowhere else; `docs/reference/settings.md`
documents each name, and a test holds the two together. This module knows nothing of Django's
settings, so that the supervisor can use it before a database exists.
"""

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import environ
from psycopg.pq import Conninfo

from memoryhub.llm.usage.domain import PriceList
from memoryhub.runtime.postgres import EmbeddedCluster
from memoryhub.zones import is_zone

CHECKOUT = Path(__file__).resolve().parent.parent
TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off", ""})
POOL_WAIT_SECONDS = 10.0  # the pool serves whoever waits longest; more than this, and clients have given up
POOL_OF_A_PROCESS = 5  # with two, one slow reader of an export and one import leave nothing for others
OPTIONS_OF_DJANGO = frozenset({"assume_role", "isolation_level", "prepare_threshold", "server_side_binding"})


class EnvironmentProblem(ValueError):
    """A variable of the environment has a value that cannot be used."""


@dataclass(frozen=True)
class Environment:
    """The validated environment; secrets never show in its repr."""

    host: str
    port: int
    data_dir: Path
    adopt_data: bool
    database_url: str | None
    debug: bool
    demo: bool
    process: str
    allowed_hosts: tuple[str, ...]
    trusted_origins: tuple[str, ...]
    tls_proxies: tuple[str, ...]
    pool_min: int
    pool_max: int
    workers: int
    max_body_bytes: int
    min_free_mb: int
    throttle_per_minute: int
    receipt_days: int
    log_format: str
    time_zone: str
    prices: PriceList
    web_processes: int
    cluster_tables: bool

    @property
    def is_web(self) -> bool:
        return self.process == "web"

    @property
    def connections(self) -> int:
        """Connections the database must accept: the pool's, three per worker, and a reserve for commands and people."""
        return self.pool_share * self.web_processes + 3 * self.workers + 12

    @property
    def pool_share(self) -> int:
        """Connections that each process of the web server may open."""
        return max(1, self.pool_min, self.pool_max // self.web_processes)

    @property
    def shared_folder(self) -> Path | None:
        """The folder in which processes of the web server share caches and metrics; None where there is but one."""
        return self.web_folder if self.web_processes > 1 else None

    @property
    def web_folder(self) -> Path:
        return self.data_dir / "web"


def read_environment(variables: Mapping[str, str] | None = None) -> Environment:
    """Return the environment as values; raises `EnvironmentProblem` naming the variable that is wrong."""
    source = os.environ if variables is None else variables
    pool_min = _integer(source, "MEMORYHUB_DB_POOL_MIN", 1, low=0, high=1000)
    web_processes = _integer(source, "MEMORYHUB_WEB_PROCESSES", min(4, _cores()), low=1, high=64)
    log_format = source.get("MEMORYHUB_LOG_FORMAT") or "json"
    if log_format not in ("json", "plain"):
        raise EnvironmentProblem(f"MEMORYHUB_LOG_FORMAT must be one of json, plain, not {log_format!r}.")
    time_zone = source.get("MEMORYHUB_TIME_ZONE") or "UTC"
    if not is_zone(time_zone):
        raise EnvironmentProblem(
            f"MEMORYHUB_TIME_ZONE must be the name of a time zone, such as Asia/Tokyo, not {time_zone!r}."
        )
    return Environment(
        host=source.get("HOST") or "127.0.0.1",
        port=_integer(source, "PORT", 8000, low=1, high=65535),
        data_dir=_data_dir(source),
        adopt_data=read_switch(source, "MEMORYHUB_ADOPT_DATA", False),
        database_url=source.get("DATABASE_URL") or None,
        debug=read_switch(source, "DEBUG", False),
        demo=read_switch(source, "DEMO", True),
        process=source.get("MEMORYHUB_PROCESS") or "command",
        allowed_hosts=read_words(source, "ALLOWED_HOSTS") or ("localhost", "127.0.0.1", "[::1]"),
        trusted_origins=read_words(source, "CSRF_TRUSTED_ORIGINS"),
        tls_proxies=_addresses(source, "MEMORYHUB_TLS_PROXY"),
        pool_min=pool_min,
        pool_max=_integer(
            source,
            "MEMORYHUB_DB_POOL_MAX",
            max(10, pool_min, POOL_OF_A_PROCESS * web_processes),
            low=max(1, pool_min),
            high=1000,
        ),
        workers=_integer(source, "MEMORYHUB_WORKERS", 2, low=1, high=256),
        max_body_bytes=_integer(
            source, "MEMORYHUB_MAX_BODY_BYTES", 10_000_000, low=10_000, high=1_000_000_000
        ),
        min_free_mb=_integer(source, "MEMORYHUB_MIN_FREE_MB", 200, low=0, high=10_000_000),
        throttle_per_minute=_integer(source, "MEMORYHUB_THROTTLE_PER_MINUTE", 6000, low=1, high=10_000_000),
        receipt_days=_integer(source, "MEMORYHUB_RECEIPT_DAYS", 400, low=0, high=36_500),
        log_format=log_format,
        time_zone=time_zone,
        prices=_prices(source),
        web_processes=web_processes,
        cluster_tables=read_switch(source, "MEMORYHUB_CLUSTER_TABLES", True),
    )


def _cores() -> int:
    """Return how many cores this process may use; 1 on macOS, whose libraries may crash in a forked process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _data_dir(source: Mapping[str, str]) -> Path:
    try:
        return Path(source.get("MEMORYHUB_DATA_DIR") or CHECKOUT / ".data").expanduser().absolute()
    except RuntimeError as error:
        raise EnvironmentProblem(f"MEMORYHUB_DATA_DIR cannot be used: {error}") from None


def secret_key(variables: Mapping[str, str], data_dir: Path) -> str:
    """Return `SECRET_KEY`, else the key kept in the data folder, made (0600) on first use."""
    if variables.get("SECRET_KEY"):
        return variables["SECRET_KEY"]
    path = data_dir / "secret_key"
    try:
        return path.read_text(encoding="ascii") if path.exists() else _create_secret(path)
    except OSError as error:
        raise EnvironmentProblem(
            f"MEMORYHUB_DATA_DIR {data_dir} cannot be written: {error.strerror or error}."
        ) from None


def _create_secret(path: Path) -> str:
    """Write a new key unless another process was quicker; either way return the one on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(50))
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text(encoding="ascii")


def database_settings(environment: Environment) -> dict[str, object]:
    """Return Django's settings for the one database: `DATABASE_URL`, else the embedded server.

    Before the embedded server was ever started there is nothing to connect to; the settings then
    name a closed port, and `memoryhub.tenancy.policies` and `/readyz` say what to do.
    """
    base = (
        _external(environment.database_url) if environment.database_url else _embedded(environment.data_dir)
    )
    # A server that went away without a word must keep nobody waiting; what a URL says goes before.
    options: dict[str, object] = {
        "application_name": f"memoryhub-{environment.process}", "connect_timeout": 5, "keepalives_idle": 10,
        "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000,
    }  # fmt: skip
    options.update(base.pop("OPTIONS", {}))
    if environment.is_web:
        options["pool"] = {
            "min_size": environment.pool_min, "max_size": environment.pool_share, "timeout": POOL_WAIT_SECONDS
        }  # fmt: skip
        options["options"] = f"-c statement_timeout=30000 {options.get('options', '')}".rstrip()
    return {
        **base,
        "ENGINE": "django.db.backends.postgresql",
        # A pool keeps connections itself; Django refuses both at once.
        "CONN_MAX_AGE": 0 if environment.is_web else 600,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }


def _external(url: str) -> dict[str, Any]:
    # Never quoted: it holds a password, of which a wrong URL may have any part anywhere.
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
        meant = get_close_matches(unknown, known, n=1)
        raise EnvironmentProblem(
            "DATABASE_URL has an option behind its ? that PostgreSQL does not know"
            + (f"; {meant[0]} is one." if meant else ". In a password, a ? is %3F.")
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


def _integer(source: Mapping[str, str], name: str, default: int, *, low: int, high: int) -> int:
    raw = source.get(name, "").strip()
    with suppress(ValueError):
        value = int(raw) if raw else default
        if low <= value <= high:
            return value
    raise EnvironmentProblem(f"{name} must be a whole number from {low} to {high}, not {raw!r}.")


def read_switch(source: Mapping[str, str], name: str, default: bool) -> bool:
    raw = source.get(name)
    if raw is None:
        return default
    if raw.strip().lower() in TRUE_WORDS | FALSE_WORDS:
        return raw.strip().lower() in TRUE_WORDS
    raise EnvironmentProblem(f"{name} must be 1 or 0, not {raw!r}.")


def _prices(source: Mapping[str, str]) -> PriceList:
    raw = source.get("MEMORYHUB_LLM_PRICES", "").strip()
    try:
        return PriceList.from_json(raw) if raw else PriceList()
    except ValueError as error:
        raise EnvironmentProblem(
            f'MEMORYHUB_LLM_PRICES cannot be used: {error}. Write it as {{"model": {{"input": 3, "output": 15}}}}, in '
            "US dollars for a million tokens."
        ) from None


def _addresses(source: Mapping[str, str], name: str) -> tuple[str, ...]:
    words = read_words(source, name)
    for word in words:
        try:
            ip_network(word)
        except ValueError:
            raise EnvironmentProblem(
                f"{name} must hold addresses or networks, such as 127.0.0.1 or 172.16.0.0/12, not {word!r}."
            ) from None
    return words


def read_words(source: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in source.get(name, "").split(",") if word.strip())
