"""What docker-compose.yml and the Dockerfile say is true of this checkout, and the two halves run apart.

No daemon here builds the image; the commands in it run for real, on one database, in data folders of their own.
"""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from memoryhub.env import CHECKOUT, read_environment
from memoryhub.importexport.uploads import uploads_folder
from memoryhub.runtime.postgres import EmbeddedCluster
from memoryhub.runtime.supervisor import PROGRAMS, Supervisor, SupervisorError, programs_named
from tests.slow.chaos.hub import Hub, Jobs, done, eventually, folder

COMPOSE: dict[str, Any] = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
DOCKERFILE = (CHECKOUT / "Dockerfile").read_text()
OURS = ("setup", "web", "worker")


def test_every_file_of_the_image_is_there_and_let_in() -> None:
    copied = [
        word for line in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE) for word in line.split()
    ]
    let_in = {
        line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }

    assert set(copied) == let_in
    assert all((CHECKOUT / name).exists() for name in copied)
    for app in ("memoryhub", "conversations", "strength", "summaries", "templates", "manage.py"):
        assert app in copied


def test_web_and_worker_share_the_uploaded_files() -> None:
    home = re.search(r"^ +MEMORYHUB_DATA_DIR=(\S+)", DOCKERFILE, re.MULTILINE)
    assert home is not None
    target = f"{home[1]}/{uploads_folder().name}"
    mounted = {name: COMPOSE["services"][name]["volumes"] for name in ("web", "worker")}
    assert mounted["web"] == mounted["worker"] == [f"imports:{target}"]
    assert "imports" in COMPOSE["volumes"] and f"memoryhub -m 0700 {target}" in DOCKERFILE


def test_the_image_runs_as_nobody_special() -> None:
    commands = re.findall(r"^(USER|ENTRYPOINT|CMD) (.+)$", DOCKERFILE, re.MULTILINE)

    assert [name for name, _ in commands] == ["USER", "ENTRYPOINT", "CMD"]
    assert commands[0][1] == "memoryhub"
    for name in OURS:
        assert COMPOSE["services"][name]["read_only"] is True
        assert COMPOSE["services"][name]["cap_drop"] == ["ALL"]


def test_no_secret_has_a_default() -> None:
    values = {**COMPOSE["services"]["web"]["environment"], **COMPOSE["services"]["db"]["environment"]}

    assert "${POSTGRES_PASSWORD:?" in values["DATABASE_URL"]
    assert values["SECRET_KEY"].startswith("${SECRET_KEY:?")
    assert values["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")


def test_every_service_runs_a_program_that_is_there() -> None:
    for name in ("web", "worker"):
        assert COMPOSE["services"][name]["command"] == ["serve", "--only", name]
        assert [program.name for program in programs_named([name])] == [name]
    for command in re.findall(
        r"manage\.py ([a-z_]+)", shlex.join(COMPOSE["services"]["setup"]["entrypoint"])
    ):
        assert command == "migrate" or (CHECKOUT / f"memoryhub/management/commands/{command}.py").exists()


def test_every_variable_is_a_documented_setting() -> None:
    page = (CHECKOUT / "docs/reference/settings.md").read_text()

    assert [name for name in COMPOSE["services"]["web"]["environment"] if f"`{name}`" not in page] == []


def test_programs_are_known_by_name() -> None:
    assert programs_named([]) == PROGRAMS
    with pytest.raises(SupervisorError, match=r"no program mail; there are: web, worker\."):
        programs_named(["mail"])


def test_workers_by_themselves_need_a_database_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(SupervisorError, match="need DATABASE_URL"):
        environment = read_environment({"MEMORYHUB_DATA_DIR": str(tmp_path)})
        Supervisor(environment, say=print, programs=programs_named(["worker"]))


@pytest.mark.slow
def test_web_and_workers_run_apart_on_one_database() -> None:
    with folder() as path:
        database = EmbeddedCluster(path / "database", fsync=False, createdb=True)
        web, worker = Hub(path / "web", database=database), Hub(path / "worker", database=database)
        jobs = None
        try:
            web.start("--only", "web")
            assert web.ready()["checks"]["workers"]["ok"] is False
            assert "No worker is there (none was ever seen)" in web.ready()["checks"]["workers"]["detail"]
            assert web.ready()["status"] == "ready"
            jobs = Jobs(web)
            ids = jobs.add("bench_effect", count=3)
            assert jobs.states(ids) == {"queued": 3}
            worker.start("--only", "worker")
            assert done(jobs, ids, 60) is not None
            assert (
                eventually(lambda: "2 workers" in web.ready()["checks"]["workers"]["detail"], 60) is not None
            )
            assert "workers only" in worker.said()
            assert worker.process is not None
            worker.process.terminate()
            assert worker.process.wait(timeout=30) == 0
            assert not worker.processes()
        finally:
            if jobs is not None:
                jobs.close()
            worker.destroy()
            web.destroy()
