"""Read and validate the environment, once.

Everything that an operator may set is read here and nowhere else; `docs/reference/settings.md`
documents each name, and a test holds the two together. This module knows nothing of Django's
settings, so that the supervisor can use it before a database exists.
"""

import os
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from memoryhub.prices import PriceList
from memoryhub.zones import is_zone

CHECKOUT = Path(__file__).resolve().parent.parent
TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off", ""})
POOL_OF_A_PROCESS = 5  # with two, a slow export and an import would occupy all


PREFIX: Final = "MEMORYHUB_"
_NAMES: Final = (
    "ADOPT_DATA", "CLUSTER_TABLES", "DATA_DIR", "DB_POOL_MAX", "DB_POOL_MIN", "DRAIN_SECONDS", "EMAIL_FROM",
    "EMAIL_URL", "EMBEDDING_API_KEY", "EMBEDDING_BASE_URL", "EMBEDDING_DIMENSION", "EMBEDDING_MODEL",
    "EMBEDDING_PROVIDER", "HEARTBEAT", "IMPORT_TOKEN", "LLM_API_KEY", "LLM_BASE_URL", "LLM_CONTEXT_WINDOW",
    "LLM_CONTEXT_WINDOW_CHAT",
    "LLM_CONTEXT_WINDOW_COMPACT", "LLM_CONTEXT_WINDOW_EXTRACT", "LLM_CONTEXT_WINDOW_JUDGE",
    "LLM_CONTEXT_WINDOW_ROUTE", "LLM_CONTEXT_WINDOW_SUMMARIZE", "LLM_MODEL", "LLM_MODEL_CHAT", "LLM_MODEL_COMPACT",
    "LLM_MODEL_EXTRACT", "LLM_MODEL_JUDGE", "LLM_MODEL_ROUTE", "LLM_MODEL_SUMMARIZE", "LLM_PARALLEL", "LLM_PRICES",
    "LLM_PROVIDER", "LLM_SECONDS", "LLM_SECONDS_COMPACT", "LLM_SECONDS_EXTRACT", "LLM_SECONDS_JUDGE",
    "LLM_SECONDS_SUMMARIZE", "LOG_FORMAT", "MAX_BODY_BYTES", "MEMORY_MS", "MIN_FREE_MB", "OAUTH_URL", "OIDC_AGENTS",
    "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET", "OIDC_GROUPS_CLAIM", "OIDC_ISSUER", "OIDC_NAME", "OIDC_ROLES",
    "OIDC_SCOPES", "POSTGRES_VERSION", "PROCESS", "READ_ONLY", "RECEIPT_DAYS", "REPLICA_URLS", "REQUESTS_PER_KEY",
    "REQUIRE_SECOND_FACTOR",
    "THROTTLE_PER_MINUTE", "TIME_ZONE", "TLS_PROXY", "WEBHOOK_NETWORKS", "WEB_PROCESSES", "WORKERS",
)  # fmt: skip
KNOWN_SETTINGS: Final = frozenset(PREFIX + name for name in _NAMES)
"""All variables that begin so, as the reference has them, and two of the supervisor's own."""


class EnvironmentProblem(ValueError):
    """A variable of the environment has a value that cannot be used."""


@dataclass(frozen=True)
class Environment:
    """The validated environment; secrets never show in its repr."""

    host: str
    port: int
    data_dir: Path
    adopt_data: bool
    database_url: str | None = field(repr=False)
    replica_urls: tuple[str, ...] = field(repr=False)
    debug: bool
    demo: bool
    process: str
    allowed_hosts: tuple[str, ...]
    trusted_origins: tuple[str, ...]
    tls_proxies: tuple[str, ...]
    webhook_networks: tuple[str, ...]
    oauth_url: str
    pool_min: int
    pool_max: int
    workers: int
    max_body_bytes: int
    min_free_mb: int
    throttle_per_minute: int
    requests_per_key: int
    memory_ms: int
    receipt_days: int
    log_format: str
    time_zone: str
    prices: PriceList
    web_processes: int
    cluster_tables: bool
    drain_seconds: int
    traces: bool
    read_only: bool
    import_token: str = field(repr=False)

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
        return _pool_share(self.pool_min, self.pool_max, self.web_processes)

    @property
    def shared_folder(self) -> Path | None:
        """The folder in which processes of the web server share caches and metrics; None where there is but one."""
        return self.web_folder if self.web_processes > 1 else None

    @property
    def web_folder(self) -> Path:
        return self.data_dir / "web"

    @property
    def stopping_mark(self) -> Path:
        """The file that exists while this host's web server is about to stop."""
        return self.web_folder / "stopping"


MAX_SECONDS: Final = 3600


SECRETS: Final = (
    "DATABASE_URL", "SECRET_KEY", "MEMORYHUB_LLM_API_KEY", "MEMORYHUB_EMBEDDING_API_KEY", "OPENAI_API_KEY",
    "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MEMORYHUB_OIDC_CLIENT_SECRET", "MEMORYHUB_IMPORT_TOKEN",
    "MEMORYHUB_EMAIL_URL", "MEMORYHUB_REPLICA_URLS",
)  # fmt: skip
"""Settings with secrets; each may be named as a file instead, by `…_FILE`."""


def read_secret_files(environ: MutableMapping[str, str]) -> None:
    """Replace each `…_FILE` of a secret by the secret in that file. Raises EnvironmentProblem."""
    for name in SECRETS:
        path = environ.pop(f"{name}_FILE", "")
        if not path:
            continue
        if environ.get(name):
            raise EnvironmentProblem(f"{name} and {name}_FILE are both set; keep one of them.")
        try:
            text = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise EnvironmentProblem(f"{name}_FILE {path} cannot be read: {reason}.") from None
        if not text or len(text.splitlines()) > 1:
            raise EnvironmentProblem(f"{name}_FILE {path} must hold the secret alone, in one line.")
        environ[name] = text


def read_environment(variables: Mapping[str, str] | None = None) -> Environment:
    """Return the environment as values; raises `EnvironmentProblem` naming the variable that is wrong."""
    source = os.environ if variables is None else variables
    return Environment(
        host=source.get("HOST") or "127.0.0.1",
        port=_integer(source, "PORT", 8000, low=1, high=65535),
        data_dir=read_data_dir(source),
        adopt_data=read_switch(source, "MEMORYHUB_ADOPT_DATA", False),
        database_url=source.get("DATABASE_URL") or None,
        replica_urls=read_words(source, "MEMORYHUB_REPLICA_URLS"),
        debug=read_switch(source, "DEBUG", False),
        demo=read_switch(source, "DEMO", True),
        process=source.get("MEMORYHUB_PROCESS") or "command",
        **_addresses(source),
        oauth_url=_oauth_url(source),
        **_web(source),
        workers=_integer(source, "MEMORYHUB_WORKERS", 2, low=1, high=256),
        max_body_bytes=_integer(source, "MEMORYHUB_MAX_BODY_BYTES", 10_000_000, low=10_000, high=1_000_000_000),
        min_free_mb=_integer(source, "MEMORYHUB_MIN_FREE_MB", 200, low=0, high=10_000_000),
        throttle_per_minute=_integer(source, "MEMORYHUB_THROTTLE_PER_MINUTE", 6000, low=1, high=10_000_000),
        memory_ms=_integer(source, "MEMORYHUB_MEMORY_MS", 1500, low=50, high=600_000),
        receipt_days=_integer(source, "MEMORYHUB_RECEIPT_DAYS", 400, low=0, high=36_500),
        log_format=read_choice(source, "MEMORYHUB_LOG_FORMAT", ("json", "plain"), default="json"),
        time_zone=_time_zone(source),
        prices=_prices(source),
        cluster_tables=read_switch(source, "MEMORYHUB_CLUSTER_TABLES", True),
        drain_seconds=_integer(source, "MEMORYHUB_DRAIN_SECONDS", 0, low=0, high=60),
        traces=sends_traces(source) and has_telemetry(),
        read_only=read_switch(source, "MEMORYHUB_READ_ONLY", False),
        import_token=source.get("MEMORYHUB_IMPORT_TOKEN", "").strip(),
    )


def _web(source: Mapping[str, str]) -> dict[str, Any]:
    """Return the web server's processes, connections and places for one key, of which each follows from the others."""
    pool_min = _integer(source, "MEMORYHUB_DB_POOL_MIN", 1, low=0, high=1000)
    processes = _integer(source, "MEMORYHUB_WEB_PROCESSES", min(4, _cores()), low=1, high=64)
    most = max(10, pool_min, POOL_OF_A_PROCESS * processes)
    pool_max = _integer(source, "MEMORYHUB_DB_POOL_MAX", most, low=max(1, pool_min), high=1000)
    half = max(2, _pool_share(pool_min, pool_max, processes) // 2)
    return {
        "pool_min": pool_min,
        "pool_max": pool_max,
        "web_processes": processes,
        "requests_per_key": _integer(source, "MEMORYHUB_REQUESTS_PER_KEY", half, low=1, high=500),
    }


def _addresses(source: Mapping[str, str]) -> dict[str, Any]:
    return {
        "allowed_hosts": read_words(
            source,
            "ALLOWED_HOSTS",
            _is_host,
            "names or addresses without a scheme and a port, such as memory.example.org",
        )
        or ("localhost", "127.0.0.1", "[::1]"),
        "trusted_origins": read_words(
            source,
            "CSRF_TRUSTED_ORIGINS",
            _is_origin,
            "origins with their scheme and without a path, such as https://memory.example.org",
        ),
        "tls_proxies": read_words(
            source, "MEMORYHUB_TLS_PROXY", _is_network, "addresses or networks, such as 127.0.0.1 or 172.20.0.5"
        ),
        "webhook_networks": read_words(
            source, "MEMORYHUB_WEBHOOK_NETWORKS", _is_network, "networks, such as 10.1.0.0/16 or fd00::/8"
        ),
    }


def _oauth_url(source: Mapping[str, str]) -> str:
    """Return the public origin that OAuth clients use; empty: OAuth is off. Tokens need TLS, except on loopback."""
    url = read_url(source, "MEMORYHUB_OAUTH_URL") or ""
    is_loopback = url.startswith("http://") and urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    if url and not (_is_origin(url) and not set("@?#") & set(url) and (url.startswith("https://") or is_loopback)):
        raise EnvironmentProblem(
            "MEMORYHUB_OAUTH_URL must be this server's public address with https (http on this machine alone) and "
            f"without a path, such as https://memory.example.org, not {url!r}."
        )
    return url.lower()


TRACES_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Standard variables of OpenTelemetry; its SDK reads them and the other `OTEL_…` itself."""


def sends_traces(source: Mapping[str, str]) -> bool:
    """Return whether the environment names a collector of traces, and does not turn them off."""
    is_off = source.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    is_off = is_off or source.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
    return read_url(source, *TRACES_ENDPOINTS) is not None and not is_off


def has_telemetry() -> bool:
    """Return whether the packages of the extra `telemetry` are installed."""
    return all(find_spec(name) for name in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"))


def ineffective_trace_settings(source: Mapping[str, str]) -> list[str]:
    """Return a sentence for each setting of traces that is set and has no effect."""
    if not sends_traces(source):
        return []
    protocol = read_value(source, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    sentences = []
    if not has_telemetry():
        sentences.append(f"{set_names(source, TRACES_ENDPOINTS)[0]} has no effect without the extra `telemetry`.")
    if protocol not in (None, "http/protobuf"):
        sentences.append(f"OTEL_EXPORTER_OTLP_PROTOCOL {protocol} has no effect: traces are sent by http/protobuf.")
    return sentences


def unknown_settings(environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable that begins like a setting and is none, with the one that may be meant."""
    sentences = []
    for name in sorted(name for name in environ if name.startswith(PREFIX) and name not in KNOWN_SETTINGS):
        meant = get_close_matches(name, KNOWN_SETTINGS, n=1, cutoff=0.8)
        sentences.append(f"{name} is no setting and has no effect.{f' Is {meant[0]} meant?' if meant else ''}")
    return sentences


def _pool_share(pool_min: int, pool_max: int, web_processes: int) -> int:
    return max(1, pool_min, pool_max // web_processes)


def _time_zone(source: Mapping[str, str]) -> str:
    name = source.get("MEMORYHUB_TIME_ZONE") or "UTC"
    if not is_zone(name):
        must = "MEMORYHUB_TIME_ZONE must be the name of a time zone, such as Asia/Tokyo"
        raise EnvironmentProblem(f"{must}, not {name!r}.")
    return name


def _cores() -> int:
    """Return how many cores this process may use; 1 on macOS, whose libraries may crash in a forked process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def read_data_dir(source: Mapping[str, str]) -> Path:
    try:
        return Path(source.get("MEMORYHUB_DATA_DIR") or CHECKOUT / ".data").expanduser().absolute()
    except RuntimeError as error:
        raise EnvironmentProblem(f"MEMORYHUB_DATA_DIR cannot be used: {error}") from None


REPLACED = "replaced"
"""File of the web folder with the number of web processes that were replaced since the start."""


def data_folder(path: Path) -> Path:
    """Create the data folder, closed to others whatever the umask; return it.

    Root's is passable, because its PostgreSQL is another user.
    """
    return private_folder(path, mode=0o711 if os.geteuid() == 0 else 0o700)


def private_folder(path: Path, *, mode: int = 0o700) -> Path:
    """Create a folder, or close one of this account's, whatever the umask; return it."""
    is_new = not path.exists()
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    status = path.stat()
    if is_new or (status.st_uid == os.geteuid() and status.st_mode & 0o777 & ~mode):
        path.chmod(mode)
    return path


def secret_key(variables: Mapping[str, str], data_dir: Path) -> str:
    """Return `SECRET_KEY`, else the key stored in the data folder, created (0600) on first use."""
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
    data_folder(path.parent)
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


def _is_network(word: str) -> bool:
    with suppress(ValueError):
        return bool(ip_network(word))
    return False


def _is_host(word: str) -> bool:
    return "/" not in word and (":" not in word or (word.startswith("[") and word.endswith("]")))


def _is_origin(word: str) -> bool:
    """Django compares origins as texts, so that one with a final slash would never match."""
    scheme, _, rest = word.partition("://")
    return scheme in {"http", "https"} and bool(rest) and "/" not in rest


def read_words(
    source: Mapping[str, str], name: str, is_valid: Callable[[str], bool] = bool, expected: str = ""
) -> tuple[str, ...]:
    """Return the words between commas; raises EnvironmentProblem for an invalid one, naming what is expected."""
    words = tuple(word.strip() for word in source.get(name, "").split(",") if word.strip())
    for word in words:
        if not is_valid(word):
            raise EnvironmentProblem(f"{name} must hold {expected}, not {word!r}.")
    return words


def read_value(source: Mapping[str, str], *names: str) -> str | None:
    return next((value for name in names if (value := source.get(name, "").strip())), None)


def set_names(source: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Return those of the names that are set."""
    return [name for name in names if read_value(source, name)]


def _name_of(source: Mapping[str, str], *names: str) -> str:
    return next((name for name in names if source.get(name, "").strip()), names[0])


def read_seconds(source: Mapping[str, str], name: str) -> float | None:
    """Return a number of seconds from 1 to 3600; None where the variable is not set. Raises EnvironmentProblem."""
    value = read_value(source, name)
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= MAX_SECONDS:
        raise EnvironmentProblem(f"{name} must be a number of seconds from 1 to {MAX_SECONDS}, not {value!r}.")
    return seconds


def read_number(source: Mapping[str, str], name: str, *, low: int, high: int) -> int | None:
    """Return a whole number; None where the variable is not set. Raises EnvironmentProblem."""
    return None if read_value(source, name) is None else _integer(source, name, low, low=low, high=high)


def read_choice(source: Mapping[str, str], name: str, choices: Collection[str], *, default: str) -> str:
    value = (read_value(source, name) or default).lower()
    if value not in choices:
        raise EnvironmentProblem(f"{name} is {value!r}; it must be one of {', '.join(choices)}.")
    return value


def read_key(source: Mapping[str, str], *names: str) -> str | None:
    value = read_value(source, *names)
    if value and not (value.isascii() and value.isprintable() and " " not in value):
        name = _name_of(source, *names)
        raise EnvironmentProblem(f"{name} holds blanks or other characters that no key has. Copy it again.")
    return value


def read_url(source: Mapping[str, str], *names: str) -> str | None:
    value = read_value(source, *names)
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that never closes
        is_http = False
    if not is_http or " " in value:
        name = _name_of(source, *names)
        raise EnvironmentProblem(f"{name} is not an address such as http://127.0.0.1:11434/v1.")
    return value.rstrip("/")
