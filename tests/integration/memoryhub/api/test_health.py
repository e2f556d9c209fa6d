"""Health, metrics, doctor and first run (SPEC O1, O3, O4)."""

import json
import os
from collections.abc import Callable
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from rest_framework.test import APIClient

from conversations.models import Session
from memoryhub import doctor as checks
from memoryhub.api import health
from memoryhub.auth.actions import create_agent
from memoryhub.auth.config import SignInConfig
from memoryhub.auth.models import ApiKey
from memoryhub.auth.principals import Scope, command
from memoryhub.jobs import status
from memoryhub.jobs.models import Worker
from memoryhub.management.commands import first_run as first_run_command
from memoryhub.runtime.postgres import PostgresError
from memoryhub.tenancy.models import Agent
from tests.conftest import NOW
from tests.fakes.oidc_server import CLIENT_ID, CLIENT_SECRET, OidcServer
from tests.integration.test_containers import COMPOSE


def test_healthz_needs_no_database(client: APIClient) -> None:
    assert Client().get("/healthz").json() == {"status": "ok"}


def test_readyz_tells_each_part(db: None) -> None:
    answer = Client().get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["status"] == "ready"
    assert set(answer.json()["checks"]) == {
        "serving",
        "database",
        "writes",
        "migrations",
        "embedder",
        "workers",
        "disk",
    }


def test_readyz_is_english_for_every_browser(db: None) -> None:
    detail = Client().get("/readyz", headers={"Accept-Language": "ja"}).json()["checks"]["workers"]["detail"]

    assert detail.startswith("No worker is running (none was ever seen)") and "manage.py run_worker" in detail


def test_full_readyz_names_versions_workers_and_migrations_to_an_admin(make_client: Callable[..., APIClient]) -> None:
    admin = make_client(scopes=[Scope.ADMIN])
    Worker.objects.create(id=uuid4(), host="alpha", pid=7, settings={"SECRET_KEY": "a digest"})
    Worker.objects.create(id=uuid4(), host="beta", pid=8, seen_at=NOW)
    MigrationRecorder.Migration.objects.create(app="strength", name="9999_of_a_newer_release")
    answer = admin.get("/readyz?full")
    body = answer.json()
    assert answer.status_code == 200 and body["status"] == "ready" and "database" in body["checks"]
    assert body["server"]["version"].split(".")[0].isdecimal() and body["server"]["missing_releases"] >= 0
    assert body["server"]["pgvector"] and datetime.fromisoformat(body["server"]["started_at"])
    assert body["migrations"]["waiting"] == []
    assert "strength.9999_of_a_newer_release" in body["migrations"]["problem"]
    assert [(each["host"], each["pid"]) for each in body["workers"]] == [("alpha", 7)]
    assert "digest" not in answer.content.decode()


def test_full_readyz_is_for_keys_of_an_admin(make_client: Callable[..., APIClient]) -> None:
    refusals = [
        APIClient().get("/readyz?full"),
        APIClient().get("/readyz?full", headers={"Authorization": "Bearer mh_wrong"}),
        make_client(scopes=[Scope.READ, Scope.WRITE, Scope.CURATE]).get("/readyz?full=1"),
    ]
    assert [(each.status_code, each.json()["code"]) for each in refusals] == [
        (401, "not_authenticated"),
        (401, "authentication_failed"),
        (403, "permission_denied"),
    ]
    assert not any("server" in each.json() for each in refusals)


def test_full_readyz_reports_a_database_that_does_not_answer(make_client: Callable[..., APIClient]) -> None:
    def fail(*_statement: Any) -> None:
        raise OperationalError("gone")

    admin = make_client(scopes=[Scope.ADMIN])
    with connection.execute_wrapper(fail):
        answer = admin.get("/readyz?full")
    assert answer.status_code == 503 and not answer.json()["checks"]["database"]["ok"]
    assert "server" not in answer.json()


def test_readyz_says_503_where_migrations_wait(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'strength'")
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert "migrate" in answer.json()["checks"]["migrations"]["detail"]


def test_readyz_says_503_without_pgvector(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(health.CHECKS, "database", lambda: (False, "away"))
    assert Client().get("/readyz").status_code == 503
    monkeypatch.undo()
    monkeypatch.setitem(health.CHECKS, "embedder", lambda: (False, "away"))
    assert Client().get("/readyz").status_code == 200, "an embedder that is away does not stop the server"


def test_metrics_show_assembled_contexts(client: APIClient) -> None:
    client.post("/api/v1/sessions", {"agent_id": "kana"})
    client.post("/api/v1/context", {"agent_id": "kana", "message": "hello"})
    text = Client().get("/metrics").content.decode()
    for name in ("context_assembly_latency_ms_bucket", "context_token_count_count"):
        assert name in text
    for layer in ("working", "semantic", "recall", "pinned", "profile", "project", "session_summary"):
        assert f'memory_layer_usage_total{{layer="{layer}"}}' in text


def test_metrics_say_whether_the_database_answers(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    there = Client().get("/metrics").content.decode()
    monkeypatch.setattr(status, "jobs_status", Mock(side_effect=OperationalError("gone")))
    away = Client().get("/metrics").content.decode()

    assert "\nmemoryhub_database_up 1.0\n" in there
    assert "\nmemoryhub_workers 0.0\n" in there
    assert "\nmemoryhub_database_up 0.0\n" in away
    assert "\nmemoryhub_workers " not in away


@pytest.mark.parametrize("address", ["/healthz", "/readyz", "/metrics"])
def test_health_is_for_reading(address: str, db: None) -> None:
    assert Client().post(address).status_code == 405


def doctor(*options: str) -> str:
    out = StringIO()
    call_command("doctor", *options, stdout=out)
    return out.getvalue()


def test_doctor_finds_a_fresh_installation_well_but_for_its_missing_key(db: None) -> None:
    findings = {each["subject"]: each for each in json.loads(doctor("--json"))}
    assert findings["PostgreSQL"]["level"] != "broken"  # a warning where the server lacks a quarterly release
    assert findings["embedding space"]["level"] == "ok"
    assert findings["API keys"]["level"] == "warning"
    assert "ok  token counting" in doctor()


def test_doctor_names_what_is_unusual(client: APIClient, settings: Any) -> None:
    settings.DEBUG = True
    policy = {"initial_strength": 9.0}
    client.patch("/api/v1/actors?agent_id=kana&user_id=hiroki", {"policy": policy})
    text = doctor()
    assert "initial_strength is 9; 0.5 to 1.5 is recommended" in text
    assert "hiroki" not in text
    assert "DEBUG" in text


def test_settings_without_effect_are_named_at_start_and_by_the_doctor(db: None, settings: Any) -> None:
    settings.INEFFECTIVE_SETTINGS = ["Nobody reads X."]
    said = StringIO()
    call_command("first_run", stdout=StringIO(), stderr=said)
    assert "Settings   Nobody reads X." in said.getvalue()
    assert "!!  settings: Nobody reads X." in doctor()


def test_doctor_names_overrides_that_this_release_does_not_allow(client: APIClient) -> None:
    """An upgrade may narrow what a value can be; the other policies are looked at all the same."""
    client.patch("/api/v1/actors?agent_id=kana&user_id=hiroki", {"policy": {"initial_strength": 9.0}})
    Agent.objects.update(policy={"confidence_floor": 7})
    with pytest.raises(CommandError, match="Broken: policy of kana/"):
        doctor("--json")
    found = {(each.level.value, each.detail) for each in checks.policies()}
    assert found == {
        ("broken", "confidence_floor must be a number from 0 to 1; change or remove it at the agent or the user"),
        ("warning", "initial_strength is 9; 0.5 to 1.5 is recommended"),
    }


def test_doctor_fails_where_something_is_broken(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MIN_PGVECTOR_VERSION", (99, 0))
    with pytest.raises(CommandError, match="Broken: pgvector"):
        doctor()


def test_doctor_names_a_database_of_a_newer_release(db: None) -> None:
    MigrationRecorder(connection).record_applied("strength", "9999_of_a_newer_release")
    with pytest.raises(CommandError, match="Broken: migrations"):
        doctor()
    found = [each.detail for each in checks.server() if each.level is checks.Level.BROKEN]
    assert ["strength.9999_of_a_newer_release" in each for each in found] == [True]


def test_doctor_reports_an_outage_once(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as outage:
        outage.setattr(connection, "cursor", Mock(side_effect=OperationalError("connection refused")))
        with pytest.raises(CommandError, match=r"^Broken: database\.$"):
            doctor()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("MIN_POSTGRESQL_VERSION", 99, "99 or newer is needed"), ("MIN_PGVECTOR_VERSION", (99, 0), "ALTER EXTENSION")],
)
def test_a_server_that_is_too_old_is_not_migrated(
    db: None, monkeypatch: pytest.MonkeyPatch, name: str, value: Any, said: str
) -> None:
    monkeypatch.setattr(checks, name, value)
    with pytest.raises(PostgresError, match=said):
        call_command("migrate", verbosity=0)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def first_run(settings: Any) -> str:
    out = Terminal()
    call_command("first_run", "--url", "http://127.0.0.1:9", stdout=out)
    return out.getvalue()


def test_first_run_speaks_the_terminals_language(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.delenv("LC_MESSAGES", raising=False)
    monkeypatch.setenv("LANG", "ja_JP.UTF-8")
    said = first_run(settings)
    assert "管理画面   http://127.0.0.1:9/admin/" in said and "ログイン" in said
    assert "Login" not in said
    monkeypatch.setenv("LC_ALL", "C")
    assert "Login" in first_run(settings)


def test_first_run_makes_login_key_and_demo_once(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO", "1")
    first = first_run(settings)
    assert "Login      admin /" in first
    assert "curl -s http://127.0.0.1:9/api/v1/context -H 'Authorization: Bearer mh_" in first
    password = first.split("Login      admin / ")[1].split()[0]
    assert get_user_model().objects.get().check_password(password)
    assert Session.objects.exists(), "the demo was told"
    sessions = Session.objects.count()
    second = first_run(settings)
    assert "as before" in second
    assert "Bearer" not in second
    assert (ApiKey.objects.count(), Session.objects.count()) == (1, sessions)


def test_a_first_run_that_is_cut_short_has_told_login_and_key_and_the_next_tells_the_demo(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO", "1")
    monkeypatch.setattr(first_run_command, "load_demo", Mock(side_effect=KeyboardInterrupt))
    out = Terminal()
    with pytest.raises(KeyboardInterrupt):
        call_command("first_run", stdout=out)
    monkeypatch.undo()

    assert "Login      admin / " in out.getvalue()
    assert "API key    mh_" in out.getvalue()
    monkeypatch.setenv("DEMO", "1")
    assert "as before" in first_run(settings)
    assert Session.objects.exists(), "the demo was told"


def test_a_first_run_without_a_terminal_writes_login_and_key_into_a_file(
    db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO", "0")
    monkeypatch.setenv("MEMORYHUB_DATA_DIR", str(tmp_path / "data"))
    out = StringIO()
    before = os.umask(0)
    try:
        call_command("first_run", stdout=out)
    finally:
        os.umask(before)

    path = tmp_path / "data" / "first-login.txt"
    assert str(path) in out.getvalue() and "mh_" not in out.getvalue() and "admin / " not in out.getvalue()
    assert "Login      admin / " in path.read_text() and "API key    mh_" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600 and not path.parent.stat().st_mode & 0o066


def test_a_container_without_a_terminal_prints_login_and_key(
    db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its data folder ends with it; the command is the one of the compose file."""
    name, *options = COMPOSE["services"]["first-run"]["command"]
    monkeypatch.setenv("DEMO", "0")
    monkeypatch.setenv("MEMORYHUB_DATA_DIR", str(tmp_path))
    out = StringIO()
    call_command(name, *options, stdout=out)
    assert "Login      admin / " in out.getvalue() and "API key    mh_" in out.getvalue()
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_was_left_out_or_deleted_is_not_told_later(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_demo = Mock()
    monkeypatch.setattr(first_run_command, "load_demo", load_demo)
    monkeypatch.setenv("DEMO", "0")
    first_run(settings)
    monkeypatch.setenv("DEMO", "1")
    first_run(settings)
    assert not load_demo.called
    ApiKey.objects.all().delete()
    first_run(settings)
    assert load_demo.call_count == 1
    create_agent(agent_id="kana", values={}, by=command("test"), now=NOW)
    Agent.objects.all().delete()
    first_run(settings)
    assert load_demo.call_count == 1


def test_first_run_without_demo_is_empty(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO", "0")
    first_run(settings)
    assert not Session.objects.exists()


def test_the_doctor_asks_the_openid_provider(db: None, settings: Any) -> None:
    def said() -> list[tuple[str, str]]:
        return [(str(each.level), each.detail) for each in checks.sign_in()]

    assert said() == []
    with OidcServer() as server:
        values = {"ISSUER": server.issuer, "CLIENT_ID": CLIENT_ID, "CLIENT_SECRET": CLIENT_SECRET}
        variables = {f"MEMORYHUB_OIDC_{name}": value for name, value in values.items()}
        settings.SIGN_IN = SignInConfig.from_env(variables)
        assert said()[0][0] == "warning" and "MEMORYHUB_OIDC_ROLES" in said()[0][1]
        variables["MEMORYHUB_OIDC_ROLES"] = '{"team": "curator"}'
        settings.SIGN_IN = SignInConfig.from_env(variables)
        assert said() == [("ok", f"{server.issuer} answers; 1 of its groups give a role")]
        server.spoil(issuer_of_discovery="https://elsewhere.example")
        assert said()[0][0] == "broken" and "elsewhere.example" in said()[0][1]
        server.is_broken = True
        assert said()[0][0] == "broken" and "passwords go on" in said()[0][1]
