"""The plugin of coding agents as a whole: its hooks, and the MCP server that it names."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from memoryhub.auth.models import AuditEntry
from memoryhub.jobs.models import Job
from memoryhub_client import Memoryhub
from strength.models import Memory
from tests.conftest import run_jobs
from tests.fakes.llm_server import LLMServer
from tests.integration.clients.test_connect import CHECKOUT, PAGE, blocks
from tests.integration.clients.test_hooks import FOLDER, Hook, hook, hub, line, repository, told, written
from tests.integration.mcp.conftest import MODES, Calls, connected
from tests.integration.mcp.test_story import left_behind
from tests.integration.strength.conftest import NOW
from tests.integration.strength.talking import Model, item
from tests.serving import Web

__all__ = ["hook", "hub", "repository"]

MOMO, MIMI = "The user's cat is called Momo.", "The user's cat is called Mimi."
CAT = "What is my cat called, by the way?"


def expanded(text: str, values: dict[str, str]) -> str:
    """Return a text of `.mcp.json` with variables in their places, as Claude Code puts them there."""
    return re.sub(r"\$\{(\w+)(?::-(.*?))?\}", lambda found: values.get(found[1]) or found[2], text)


def over_plugins_mcp(web: Web, key: str, mode: str, act: Callable[[Calls], Awaitable[Any]]) -> Any:
    """Do something over the MCP server that the plugin names."""
    server = json.loads((FOLDER / ".mcp.json").read_text())["mcpServers"]["memoryhub"]
    values = {"MEMORYHUB_URL": web.url, "MEMORYHUB_USER": "hiroki", "MEMORYHUB_KEY": key}
    bearer = expanded(server["headers"]["Authorization"], values).removeprefix("Bearer ")

    async def run() -> Any:
        async with connected(expanded(server["url"], values), bearer, mode) as call:
            return await act(call)

    return asyncio.run(run())


@pytest.mark.parametrize("mode", MODES)
def test_story_is_told_recalled_corrected_forgotten_and_erased(
    mode: str, hook: Hook, hub: Memoryhub, llm: LLMServer, web: Web, key: str, tmp_path: Path
) -> None:
    Model(llm, {"facts": [item(MOMO, 1)]})

    def recalled() -> str:
        """Return what a new session is told about the cat."""
        asked = {"hook_event_name": "UserPromptSubmit", "session_id": str(uuid4()), "prompt": CAT}
        answer = hook(asked)
        return told(answer) if answer else ""

    path = written(tmp_path / "t.jsonl", line(1, "user", "I must feed Momo, my cat."))
    hook({"hook_event_name": "SessionStart"})
    hook({"hook_event_name": "Stop", "transcript_path": path})
    Job.objects.filter(state="queued").update(due_at=NOW)
    run_jobs()
    assert MOMO in recalled()

    async def correct(call: Calls) -> str:
        [found] = (await call("recall", query="cat"))["memories"]
        assert found["content"] == MOMO
        await call("correct", memory_id=found["id"], content=MIMI)
        return str(found["id"])

    memory_id = over_plugins_mcp(web, key, mode, correct)
    assert MIMI in recalled() and MOMO not in recalled()
    over_plugins_mcp(web, key, mode, lambda call: call("forget", memory_id=memory_id))
    assert MIMI not in recalled() and MOMO not in recalled()
    assert Memory.objects.get().status == "archived"

    hub.actor_erase(user_id="hiroki")
    assert left_behind() == {}
    assert not AuditEntry.objects.filter(user_id="hiroki").exclude(verb="erase").exists()
    assert recalled() == ""
    state = [each.read_text() for each in (tmp_path / ".local").rglob("*") if each.is_file()]
    assert all(each.isdigit() for each in state), "only how far the transcript was sent"


STAND_IN = """
import json, os, subprocess, sys
from pathlib import Path

place = Path(sys.argv[sys.argv.index("--plugin-dir") + 1]).resolve()
hooks = json.loads((place / "hooks" / "hooks.json").read_text())["hooks"]
prompt, transcript = os.environ["PROMPT"], Path(os.environ["HOME"]) / f"{os.getpid()}.jsonl"
records = [{"role": "user", "content": prompt}, {"role": "assistant", "content": "Noted."}]
lines = [{"type": each["role"], "uuid": f"{os.getpid()}-{n}", "message": each} for n, each in enumerate(records)]
transcript.write_text("".join(json.dumps(each) + chr(10) for each in lines))
about = {"session_id": f"session {os.getpid()}", "cwd": os.getcwd(), "prompt": prompt, "transcript_path": str(transcript)}
for name in ("SessionStart", "UserPromptSubmit", "Stop"):
    event = json.dumps({**about, "hook_event_name": name})
    for each in (hook for group in hooks[name] for hook in group["hooks"]):
        environment = {**os.environ, "CLAUDE_PLUGIN_ROOT": str(place)}
        done = subprocess.run(each["command"], shell=True, input=event, env=environment, text=True, capture_output=True)
        print(done.stdout, end="")
"""
"""Runs a plugin's hooks as Claude Code does, for one prompt; tests/verification/claude_code.py has the real one."""


def pasted(web: Web, key: str, home: Path, **environment: str) -> str:
    """Paste the recipe of the page into a shell, after that of its beginning, and `claude` from a folder of its own."""
    [recipe] = [each for each in blocks(PAGE, "Claude Code", "sh") if "--plugin-dir" in each]
    values = {
        **environment,
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "MEMORYHUB_URL": web.url,
        "MEMORYHUB_KEY": key,
        "MEMORYHUB_HOOK_SECONDS": "30",
    }
    done = subprocess.run(
        ["sh", "-ec", recipe],
        env=values,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_recipe_recalls_after_at_most_five_commands(web: Web, key: str, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{STAND_IN}")
    program.chmod(0o700)
    assert pasted(web, key, tmp_path, PROMPT="My cat is called Momo, please remember it.") == ""
    answer = pasted(web, key, tmp_path, PROMPT="What is the name of my cat?")
    assert "called Momo" in told(json.loads(answer))
    commands = ["make run", *blocks(PAGE, "What you need", "sh")[0].splitlines()]
    commands += blocks(PAGE, "Claude Code", "sh")[0].splitlines()
    assert len(commands) + 1 <= 5, "and `claude` once more, for another session"
