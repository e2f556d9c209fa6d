"""Checks of docker-compose.yml and the Dockerfile against this checkout; the two halves run apart.

No daemon here builds the image; the commands in it run for real, on one database, in data folders of their own.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.env import CHECKOUT, read_environment
from memoryhub.importexport.foreign.uploads import uploads_folder
from memoryhub.llm.config import LLMConfig
from memoryhub.runtime.postgres import EmbeddedCluster
from memoryhub.runtime.postgres.binaries import NEWEST, account_for, binaries_for
from memoryhub.runtime.postgres.server import HOST, Server
from memoryhub.runtime.supervisor import PROGRAMS, Supervisor, SupervisorError, programs_named
from tests.slow.chaos.hub import Hub, Jobs, done, eventually, folder

COMPOSE: dict[str, Any] = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
DOCKERFILE = (CHECKOUT / "Dockerfile").read_text()
OURS = ("setup", "first-run", "web", "worker")


def test_every_file_of_the_image_is_there_and_let_in() -> None:
    copied = [word for line in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE) for word in line.split()]
    let_in = {line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert set(copied) == let_in
    assert all((CHECKOUT / name).exists() for name in copied)
    for app in ("memoryhub", "conversations", "strength", "summaries", "templates", "manage.py"):
        assert app in copied


def test_a_worker_reads_uploaded_files_on_a_disk() -> None:
    home = re.search(r"^ +MEMORYHUB_DATA_DIR=(\S+)", DOCKERFILE, re.MULTILINE)
    assert home is not None
    target = f"{home[1]}/{uploads_folder().name}"
    assert COMPOSE["services"]["worker"]["volumes"] == [f"imports:{target}"]
    assert "volumes" not in COMPOSE["services"]["web"]
    assert "imports" in COMPOSE["volumes"] and f"memoryhub -m 0700 {target}" in DOCKERFILE


def test_the_image_runs_as_nobody_special() -> None:
    commands = re.findall(r"^(USER|ENTRYPOINT|CMD) (.+)$", DOCKERFILE, re.MULTILINE)

    assert [name for name, _ in commands] == ["USER", "ENTRYPOINT", "CMD"]
    assert commands[0][1] == "memoryhub"
    for name in OURS:
        assert COMPOSE["services"][name]["read_only"] is True
        assert COMPOSE["services"][name]["cap_drop"] == ["ALL"]
    for service in COMPOSE["services"].values():
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["mem_limit"] and service["pids_limit"]


def test_no_secret_has_a_default() -> None:
    values = {**COMPOSE["services"]["web"]["environment"], **COMPOSE["services"]["db"]["environment"]}

    assert "${POSTGRES_PASSWORD:?" in values["DATABASE_URL"]
    assert values["SECRET_KEY"].startswith("${SECRET_KEY:?")
    assert values["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")


def test_every_service_runs_a_program_that_is_there() -> None:
    for name in ("web", "worker"):
        assert COMPOSE["services"][name]["command"] == ["serve", "--only", name]
        assert [program.name for program in programs_named([name])] == [name]
    assert COMPOSE["services"]["setup"]["command"][0] == "migrate"
    command, *_options = COMPOSE["services"]["first-run"]["command"]
    assert (CHECKOUT / f"memoryhub/management/commands/{command}.py").exists()


def test_no_log_holds_the_first_login_and_key() -> None:
    """`docker compose up` starts what has no profile, and keeps what it prints."""
    started = [each["command"] for each in COMPOSE["services"].values() if "command" in each and "profiles" not in each]

    assert started and not any("first_run" in word for command in started for word in command)
    assert COMPOSE["services"]["first-run"]["profiles"] == ["first-run"]


def test_every_variable_is_a_documented_setting() -> None:
    page = (CHECKOUT / "docs/reference/settings.md").read_text()

    assert [name for name in COMPOSE["services"]["web"]["environment"] if f"`{name}`" not in page] == []


def test_settings_of_models_are_handed_on() -> None:
    page = (CHECKOUT / "docs/reference/settings.md").read_text()
    named = set(re.findall(r"`((?:MEMORYHUB_(?:LLM|EMBEDDING)|AZURE_OPENAI|OPENAI|ANTHROPIC)_[A-Z_]+)`", page))

    assert len(named) > 20 and named <= set(COMPOSE["services"]["web"]["environment"])


def test_settings_that_are_empty_are_none() -> None:
    names = [name for name, value in COMPOSE["services"]["web"]["environment"].items() if value.endswith(":-}")]
    empty = dict.fromkeys(names, "")

    assert EmbeddingConfig.from_env(empty) == EmbeddingConfig.from_env({})
    assert LLMConfig.from_env(empty) == LLMConfig.from_env({})


def test_programs_are_known_by_name() -> None:
    assert programs_named([]) == PROGRAMS
    with pytest.raises(SupervisorError, match=r"no program mail; there are: web, worker\."):
        programs_named(["mail"])


def test_workers_by_themselves_need_a_database_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(SupervisorError, match="need DATABASE_URL"):
        environment = read_environment({"MEMORYHUB_DATA_DIR": str(tmp_path)})
        Supervisor(environment, say=print, programs=programs_named(["worker"]))


def test_workers_by_themselves_name_misspelt_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORYHUB_WORKER", "4")
    values = {"MEMORYHUB_DATA_DIR": str(tmp_path), "DATABASE_URL": "postgresql://memoryhub@127.0.0.1:1/memoryhub"}
    said: list[str] = []
    monkeypatch.setenv("DATABASE_URL", values["DATABASE_URL"])
    supervisor = Supervisor(read_environment(values), say=said.append, programs=programs_named(["worker"]))
    with pytest.raises(SupervisorError, match="migrate --wait"), supervisor.wakeups:  # there is no such database
        supervisor._prepare()
    assert "MEMORYHUB_WORKER is no setting and has no effect. Is MEMORYHUB_WORKERS meant?" in said


def test_only_the_web_server_keeps_metrics_in_a_folder(tmp_path: Path) -> None:
    """Workers by themselves have no such folder, and do not start where they are to have one."""
    environment = read_environment({"MEMORYHUB_DATA_DIR": str(tmp_path), "MEMORYHUB_WEB_PROCESSES": "2"})
    programs = Supervisor(environment, say=print).children

    assert [each.program.name for each in programs if "PROMETHEUS_MULTIPROC_DIR" in each.environment] == ["web"]


@pytest.mark.slow
def test_the_applications_role_is_no_superuser_and_nobody_else_logs_in() -> None:
    """What the image's entry point does in an empty volume: the file, as `postgres`, which then has no password."""
    (mounted,) = [each for each in COMPOSE["services"]["db"]["volumes"] if "docker-entrypoint-initdb.d" in each]
    script = CHECKOUT / mounted.partition(":")[0]
    with folder() as path:
        account = account_for(path / "data")
        server = Server(path / "data", binaries_for(account, NEWEST), account, fsync=False, connections=20)
        server.initialise("first")
        port = server.start(None)
        try:
            command = [server.binaries.program("psql"), "-v", "ON_ERROR_STOP=1", "--no-psqlrc", "--quiet"]
            environment = {**os.environ, "PGPASSWORD": "first", "APPLICATION_PASSWORD": "it's secret"}
            address = ["--host", HOST, "--port", str(port), "--username", "postgres"]
            subprocess.run([*command, *address, "--file", str(script)], env=environment, check=True)
            login = {"host": HOST, "port": port, "dbname": "memoryhub"}
            with psycopg.connect(**login, user="memoryhub", password="it's secret") as connection:
                rights = "SELECT rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = current_user"
                assert connection.execute(rights).fetchone() == (False, False, False)
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
                connection.execute("CREATE TABLE kept (one vector(3))")
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(**login, user="postgres", password="first")
        finally:
            server.stop()


def test_the_unit_is_hardened() -> None:
    page = (CHECKOUT / "docs/howto/containers.md").read_text()
    for line in ("StateDirectoryMode=0700", "ProtectHome=yes", "PrivateDevices=yes", "NoNewPrivileges=yes", "CapabilityBoundingSet=",
                 "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6", "ProtectSystem=strict", "UMask=0077"):  # fmt: skip
        assert f"\n{line}\n" in page


@pytest.mark.long
@pytest.mark.slow
def test_web_and_workers_run_apart_on_one_database() -> None:
    with folder() as path:
        database = EmbeddedCluster(path / "database", fsync=False, createdb=True)
        web, worker = Hub(path / "web", database=database), Hub(path / "worker", database=database)
        jobs = None
        try:
            web.start("--only", "web")
            assert web.ready()["checks"]["workers"]["ok"] is False
            assert "No worker is running (none was ever seen)" in web.ready()["checks"]["workers"]["detail"]
            assert web.ready()["status"] == "ready"
            jobs = Jobs(web)
            ids = jobs.add("bench_effect", count=3)
            assert jobs.states(ids) == {"queued": 3}
            worker.start("--only", "worker")
            assert done(jobs, ids, 180) is not None
            assert eventually(lambda: "2 workers" in web.ready()["checks"]["workers"]["detail"], 180) is not None
            assert "workers only" in worker.said()
            assert worker.process is not None
            worker.process.terminate()
            assert worker.process.wait(timeout=180) == 0
            assert not worker.processes()
        finally:
            if jobs is not None:
                jobs.close()
            worker.destroy()
            web.destroy()
