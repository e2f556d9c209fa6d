"""The skill for agents is valid, and its calls run as printed, with a key of one user."""

import os
import re
import shutil
import subprocess
from datetime import UTC, datetime

import pytest
import yaml
from django.utils.module_loading import autodiscover_modules
from pytest_django.live_server_helper import LiveServer
from rest_framework.test import APIClient

from memoryhub.auth.actions import issue_key
from memoryhub.auth.principals import Scope, command
from memoryhub.env import CHECKOUT
from memoryhub.mcp.calls import TOOLS
from strength.domain.memories import Kind

SKILL = (CHECKOUT / "integrations" / "claude-code" / "skills" / "memoryhub" / "SKILL.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```", SKILL, re.MULTILINE | re.DOTALL)
API = "/api/v1"


def test_name_and_description_are_as_skills_have_them() -> None:
    head = yaml.safe_load(SKILL.split("---\n")[1])
    assert set(head) == {"name", "description"}
    assert re.fullmatch(r"[a-z0-9-]{1,64}", head["name"]) and len(head["description"]) <= 1024


def test_tools_and_kinds_exist() -> None:
    autodiscover_modules("mcp")
    assert set(re.findall(r"^\| `(\w+)` \|", SKILL, re.MULTILINE)) <= {tool.name for tool in TOOLS}
    listed = re.search(r"`kind` is (.+?)\. The same", SKILL)
    assert listed and set(re.findall(r"`(\w+)`", listed[1])) <= set(Kind)


@pytest.mark.django_db(transaction=True)
def test_calls_run_as_printed(live_server: LiveServer, client: APIClient) -> None:
    assert shutil.which("curl"), "The calls need curl: install it (Debian: apt install curl)."
    known = {"agent_id": "kana", "user_id": "hiroki"}
    memory = client.post(f"{API}/memories", {**known, "content": "Hiroki likes tea."}).json()["id"]
    _row, key = issue_key(
        name="skill", scopes=[Scope.READ, Scope.WRITE], agent_ids=["kana"], user_id="hiroki", by=command("test"),
        now=datetime.now(UTC),
    )  # fmt: skip
    environment = {
        "PATH": os.environ["PATH"], "MEMORYHUB_URL": live_server.url, "MEMORYHUB_KEY": key.text, "MEMORYHUB_AGENT": "kana",
    }  # fmt: skip
    define, *calls = BLOCKS
    assert len(calls) == 7
    printed = []
    for call in calls:
        script = f"{define}\n{call}"
        if "supersede" in call:
            environment["MEMORY_ID"] = memory
        done = subprocess.run(["sh", "-eu", "-c", script], env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{call}\n{done.stdout}{done.stderr}"
        printed.append(done.stdout)
    context, found, _written, _superseded, edited, deleted, receipt = printed
    assert "Hiroki likes tea." in context and not context.startswith("{")
    assert memory in found and "with milk" in edited and deleted == ""
    assert '"query":"Which tea should I buy?"' in receipt
