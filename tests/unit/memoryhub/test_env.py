"""The environment, read once and loudly."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memoryhub.env import CHECKOUT, SECRETS, EnvironmentProblem, read_environment, read_secret_files, secret_key
from memoryhub.runtime.database import database_settings, databases
from memoryhub.runtime.supervisor import Supervisor, SupervisorError, programs_named


def test_defaults_are_as_documented() -> None:
    environment = read_environment({})
    assert (environment.host, environment.port, environment.debug, environment.demo) == ("127.0.0.1", 8000, False, True)
    assert (environment.pool_min, environment.workers) == (1, 2)
    assert environment.data_dir.name == ".data"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "abc"),
        ("PORT", "0"),
        ("PORT", "70000"),
        ("DEBUG", "maybe"),
        ("MEMORYHUB_WORKERS", "-1"),
        ("MEMORYHUB_WEB_PROCESSES", "0"),
        ("MEMORYHUB_LOG_FORMAT", "xml"),
        ("MEMORYHUB_DB_POOL_MAX", "0"),
        ("ALLOWED_HOSTS", "memory.example.org,https://memory.example.org"),
        ("ALLOWED_HOSTS", "memory.example.org:8000"),
        ("CSRF_TRUSTED_ORIGINS", "memory.example.org"),
        ("MEMORYHUB_OAUTH_URL", "memory.example.org"),
        ("MEMORYHUB_OAUTH_URL", "http://memory.example.org"),
        ("MEMORYHUB_OAUTH_URL", "http://localhost.example.org"),
        ("MEMORYHUB_OAUTH_URL", "https://memory.example.org/hub"),
        ("MEMORYHUB_OAUTH_URL", "https://memory.example.org?x=1"),
        ("MEMORYHUB_OAUTH_URL", "https://me@memory.example.org"),
        ("CSRF_TRUSTED_ORIGINS", "https://memory.example.org/"),
    ],
)
def test_wrong_value_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(EnvironmentProblem, match=name):
        read_environment({name: value})


def test_hosts_and_origins_may_be_patterns_and_addresses() -> None:
    hosts, origins = "*,.example.org,[::1],10.0.0.7", "https://*.example.org,http://[::1]:8000"
    environment = read_environment({"ALLOWED_HOSTS": hosts, "CSRF_TRUSTED_ORIGINS": origins})
    assert environment.allowed_hosts == ("*", ".example.org", "[::1]", "10.0.0.7")
    assert environment.trusted_origins == ("https://*.example.org", "http://[::1]:8000")


@pytest.mark.parametrize("url", ["https://memory.example.org", "https://memory.example.org:8443", "http://[::1]:8000"])
def test_oauth_takes_an_origin_with_tls_or_on_loopback(url: str) -> None:
    assert read_environment({"MEMORYHUB_OAUTH_URL": url}).oauth_url == url
    assert read_environment({"MEMORYHUB_OAUTH_URL": f"{url}/"}).oauth_url == url


def test_the_pool_holds_its_minimum_where_only_that_is_set() -> None:
    environment = read_environment({"MEMORYHUB_DB_POOL_MIN": "20"})
    assert (environment.pool_min, environment.pool_max) == (20, 20)


@pytest.mark.parametrize(("processes", "most", "share"), [(1, 10, 10), (2, 10, 5), (4, 20, 5), (64, 320, 5)])
def test_each_process_of_the_web_server_has_some_connections(processes: int, most: int, share: int) -> None:
    environment = read_environment({"MEMORYHUB_WEB_PROCESSES": str(processes), "MEMORYHUB_DB_POOL_MAX": ""})
    assert (environment.pool_max, environment.pool_share) == (most, share)


def test_processes_of_the_web_server_divide_the_pool() -> None:
    environment = read_environment({"MEMORYHUB_DB_POOL_MAX": "20", "MEMORYHUB_WEB_PROCESSES": "3"})
    assert environment.pool_share == 6
    assert environment.connections == 3 * 6 + 3 * environment.workers + 12
    assert environment.shared_folder == environment.data_dir / "web"
    alone = read_environment({"MEMORYHUB_WEB_PROCESSES": "1"})
    assert (alone.pool_share, alone.shared_folder) == (alone.pool_max, None)
    few = {"MEMORYHUB_WEB_PROCESSES": "64", "MEMORYHUB_DB_POOL_MAX": "10"}
    assert read_environment(few).pool_share == 1
    assert read_environment({}).web_processes == min(4, len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(("word", "meant"), [("1", True), ("Yes", True), ("0", False), ("off", False), ("", False)])
def test_switches_take_the_usual_words(word: str, meant: bool) -> None:
    assert read_environment({"DEBUG": word}).debug is meant


def test_secret_key_is_made_once_and_closed(tmp_path: Path) -> None:
    first = secret_key({}, tmp_path / "data")
    assert secret_key({}, tmp_path / "data") == first
    assert len(first) > 50
    assert (tmp_path / "data" / "secret_key").stat().st_mode & 0o777 == 0o600
    assert secret_key({"SECRET_KEY": "given"}, tmp_path) == "given"


def test_web_process_pools_its_connections(tmp_path: Path) -> None:
    variables = {"DATABASE_URL": "postgresql://u:p%40ss@db.example:5433/hub?sslmode=require"}
    web = database_settings(read_environment({**variables, "MEMORYHUB_PROCESS": "web"}))
    assert (web["HOST"], web["PORT"], web["PASSWORD"], web["CONN_MAX_AGE"]) == ("db.example", 5433, "p@ss", 0)
    assert web["OPTIONS"]["pool"]["timeout"] == 10.0
    assert web["OPTIONS"]["sslmode"] == "require"
    other = database_settings(read_environment(variables))
    assert "pool" not in other["OPTIONS"]
    assert other["CONN_MAX_AGE"] == 600


def test_several_hosts_are_tried_in_turn_for_the_primary() -> None:
    url = "postgresql://u:p,%40@db1.example,[::1]:5433,db3.example:5434/hub"
    several = database_settings(read_environment({"DATABASE_URL": url}))
    assert (several["HOST"], several["PORT"]) == ("db1.example,::1,db3.example", "5432,5433,5434")
    assert (several["PASSWORD"], several["NAME"]) == ("p,@", "hub")
    assert several["OPTIONS"]["target_session_attrs"] == "primary"
    asked = database_settings(read_environment({"DATABASE_URL": f"{url}?target_session_attrs=read-write"}))
    assert asked["OPTIONS"]["target_session_attrs"] == "read-write"
    one = database_settings(read_environment({"DATABASE_URL": "postgresql://u:p@h/hub"}))
    assert "target_session_attrs" not in one["OPTIONS"]


def test_replicas_are_databases_beside_the_primary_that_routes_to_them() -> None:
    url = "postgresql://u:p@db1.example/hub"
    assert databases(read_environment({"DATABASE_URL": url})) == {
        "default": database_settings(read_environment({"DATABASE_URL": url}))
    }
    replicas = "postgresql://u:p@db2.example/hub, postgresql://u:p@db3.example:5433/hub"
    variables = {"DATABASE_URL": url, "MEMORYHUB_REPLICA_URLS": replicas, "MEMORYHUB_PROCESS": "web"}
    found = databases(read_environment(variables))
    assert [each["HOST"] for each in found.values()] == ["db1.example", "db2.example", "db3.example"]
    assert [each["ENGINE"].rpartition(".")[2] for each in found.values()] == ["replicated", "limited", "limited"]
    assert found["replica1"]["OPTIONS"]["pool"]["min_size"] == 0
    with pytest.raises(EnvironmentProblem, match="MEMORYHUB_REPLICA_URLS must look like"):
        databases(read_environment({**variables, "MEMORYHUB_REPLICA_URLS": "db2.example"}))


def test_what_a_url_says_of_the_session_holds_in_every_process() -> None:
    url = "postgresql://u:p@db.example/hub?options=-c%20search_path%3Dmh%20-c%20statement_timeout%3D5000"
    command = database_settings(read_environment({"DATABASE_URL": url}))
    web = database_settings(read_environment({"DATABASE_URL": url, "MEMORYHUB_PROCESS": "web"}))
    said = "-c search_path=mh -c statement_timeout=5000"
    assert command["OPTIONS"]["options"] == said
    assert web["OPTIONS"]["options"] == f"-c statement_timeout=30000 {said}", "the last one counts"


@pytest.mark.parametrize("url", ["mysql://u@h/db", "sqlite:///x", "postgresql://u@h", "nonsense", "postgresql://u@h//"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(EnvironmentProblem, match="DATABASE_URL"):
        database_settings(read_environment({"DATABASE_URL": url}))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:sec/ret@h:5432/name",
        "postgresql://u:12/secret@h:5432/name",
        "postgresql://u:s@h:abc/name",
        "postgresql://u:secret@h:99999/name",
        "postgresql://u:secret@h,h2:0/name",
        "postgresql://u:secret@[::1/name",
        "postgresql://u:s#ecret@h/name",
        "postgresql://u:12?secret@h/name",
        "postgresql://u:12/x?secret=1@h/name",
    ],
)
def test_a_malformed_url_is_refused_and_never_quoted(url: str) -> None:
    with pytest.raises(EnvironmentProblem, match="DATABASE_URL") as refused:
        database_settings(read_environment({"DATABASE_URL": url}))
    assert "secret" not in str(refused.value)
    assert "ret@" not in str(refused.value)


def test_an_unknown_option_is_refused_and_the_one_that_was_meant_is_named() -> None:
    url = "postgresql://u:p@h/name"
    for known in ("sslmode=require", "connect_timeout=3", "prepare_threshold=0", "CONN_MAX_AGE=5"):
        database_settings(read_environment({"DATABASE_URL": f"{url}?{known}"}))
    with pytest.raises(EnvironmentProblem, match=r"DATABASE_URL has an option.* sslmode is one"):
        database_settings(read_environment({"DATABASE_URL": f"{url}?sslmod=require"}))


def test_a_folder_that_cannot_be_used_is_named() -> None:
    with pytest.raises(EnvironmentProblem, match="MEMORYHUB_DATA_DIR /dev/null/x cannot be written: Not a dir"):
        secret_key({}, Path("/dev/null/x"))
    with pytest.raises(EnvironmentProblem, match="MEMORYHUB_DATA_DIR cannot be used"):
        read_environment({"MEMORYHUB_DATA_DIR": "~nobody_x/foo"})


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"MEMORYHUB_POSTGRES_VERSION": "abc"}, "MEMORYHUB_POSTGRES_VERSION is 'abc'"),
        ({"MEMORYHUB_DATA_DIR": "/dev/null/x"}, "MEMORYHUB_DATA_DIR /dev/null/x cannot be written"),
        ({"MEMORYHUB_DATA_DIR": "/dev/null/x", "SECRET_KEY": "given"}, "cannot be written"),
    ],
)
def test_a_wrong_setting_is_one_line_and_no_traceback(variables: dict[str, str], words: str, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "MEMORYHUB_DATA_DIR": str(tmp_path), **variables}
    said = subprocess.run(
        [sys.executable, CHECKOUT / "manage.py", "serve"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert said.returncode == 1
    assert words in said.stderr
    assert "Traceback" not in said.stderr


def test_before_the_first_start_there_is_a_closed_port(tmp_path: Path) -> None:
    settings = database_settings(read_environment({"MEMORYHUB_DATA_DIR": str(tmp_path)}))
    assert settings["PORT"] == "1"


def test_secrets_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a secret\n")
    environ = {f"{name}_FILE": str(tmp_path / "key") for name in SECRETS} | {"PORT": "8000"}
    read_secret_files(environ)
    assert environ == dict.fromkeys(SECRETS, "a secret") | {"PORT": "8000"}
    read_secret_files(environ)  # of a child process, which inherits them
    assert environ["SECRET_KEY"] == "a secret"


@pytest.mark.parametrize(
    ("content", "other", "problem"),
    [
        (None, "", "cannot be read: No such file or directory"),
        (b"", "", "must hold the secret alone"),
        (b"one\ntwo\n", "", "must hold the secret alone"),
        (b"\xff", "", "cannot be read: it is not UTF-8"),
        (b"one", "another", "are both set"),
    ],
)
def test_secret_files_that_cannot_be_used(tmp_path: Path, content: bytes | None, other: str, problem: str) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EnvironmentProblem, match=problem):
        read_secret_files({"SECRET_KEY_FILE": str(path), "SECRET_KEY": other})


def test_every_secret_of_the_reference_can_be_a_file() -> None:
    page = (CHECKOUT / "docs" / "reference" / "settings.md").read_text()
    named = set(re.findall(r"^\| `(\w*(?:API_KEY|SECRET|TOKEN|SECRET_KEY|DATABASE_URL|PASSWORD))`", page, re.M))
    assert named <= set(SECRETS)


def test_read_only_is_a_setting_of_web_connections_alone() -> None:
    values = {"MEMORYHUB_READ_ONLY": "1", "DATABASE_URL": "postgresql://a:b@db.example.org/x?options=-c%20jit%3Doff"}
    web = database_settings(read_environment({**values, "MEMORYHUB_PROCESS": "web"}))
    assert web["OPTIONS"]["options"] == "-c default_transaction_read_only=on -c statement_timeout=30000 -c jit=off"  # type: ignore[index]
    other = database_settings(read_environment(values))
    assert other["OPTIONS"]["options"] == "-c jit=off"  # type: ignore[index]
    with pytest.raises(SupervisorError, match="no workers run"):
        Supervisor(read_environment(values), say=print, programs=programs_named(["worker"]))
