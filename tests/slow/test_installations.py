"""Several installations side by side, as `docs/howto/scale-out.md` describes them: an agent moves, an outage stays where it is."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any, Final

from tests.slow.test_supervisor import Serve, Serving, linux_only, serve
from tests.slow.test_web_processes import call

__all__ = ["serve"]

KANA: Final = {"agent_id": "kana", "user_id": "hiroki"}
OTHER: Final = {"agent_id": "ren", "user_id": "hiroki"}
SESSION: Final = "0198c5b2-6f1e-7d3a-9c41-5a7e2b9d4f10"
MESSAGES: Final = ["I moved from Osaka to Kyoto last spring.", "好きな食べ物は抹茶アイスです。"]


def first_key(serving: Serving) -> str:
    found = re.search(r"mh_[0-9a-f]{10}_[\w-]{40,}", serving.said())
    assert found, serving.said()
    return found[0]


def answer(serving: Serving, path: str, key: str, body: object = None) -> Any:
    status, text = call(serving, f"/api/v1/{path}", key, body)
    assert status < 300, (status, text)
    return json.loads(text)


def found(serving: Serving, key: str) -> list[str]:
    asked = {**KANA, "query": "抹茶アイス", "include_messages": True}
    results = answer(serving, "memories/search", key, asked)["results"]
    return [each.get("memory", each.get("message"))["content"] for each in results]


def run(serving: Serving, *words: str) -> str:
    done = serving.run(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@linux_only
def test_an_agent_moves_with_all_it_knows_and_an_outage_concerns_one_installation(serve: Serve, tmp_path: Path) -> None:
    old, new = serve(), serve()
    keys = {each: first_key(each.wait_until_ready()) for each in (old, new)}
    answer(old, "sessions", keys[old], {**KANA, "session_id": SESSION})
    messages = [{"role": "user", "content": text, "client_message_id": str(at)} for at, text in enumerate(MESSAGES)]
    answer(old, f"sessions/{SESSION}/messages", keys[old], {"messages": messages})
    answer(old, "memories", keys[old], {**KANA, "kind": "preference", "content": "抹茶アイスが好き"})
    answer(old, "memories", keys[old], {**OTHER, "kind": "fact", "content": "Rides a bicycle to work."})
    before = found(old, keys[old])
    assert {"抹茶アイスが好き", MESSAGES[1]} <= set(before)

    key = run(old, "keys", "issue", "the chat of kana", "--agent", "kana").strip()
    run(old, "keys", "revoke", key.split("_")[1], "--reason", "The agent moves.")
    assert call(old, "/api/v1/memories/search", key, {**KANA, "query": "Kyoto"})[0] == 401
    exported, again = tmp_path / "kana.jsonl", tmp_path / "again.jsonl"
    run(old, "export", str(exported), "--agent", "kana")
    run(new, "import", str(exported))
    run(new, "export", str(again), "--agent", "kana")

    assert rows_of(again) == rows_of(exported)
    assert found(new, keys[new]) == before
    agents = answer(new, "agents", keys[new])["results"]
    assert [each["agent_id"] for each in agents] == ["kana"]

    os.killpg(old.process.pid, signal.SIGKILL)
    assert found(new, keys[new]) == before


def rows_of(export: Path) -> list[Any]:
    """Return the lines of an export but the last, whose checksum covers the time of the first."""
    lines = export.read_text().splitlines()
    return [json.loads(line) for line in lines[1:-1]]
