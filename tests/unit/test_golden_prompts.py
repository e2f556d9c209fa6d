"""Prompts, scenario by scenario, as files in `tests/golden` that people read and review.

After a change on purpose: `GOLDEN=write pytest tests/unit/test_golden_prompts.py`, and review the difference.
"""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from memoryhub.llm.tokens import count_raw
from tests.unit.golden_scenarios import BACKGROUND, CONTEXTS, NONCE

FOLDER = Path(__file__).parents[1] / "golden"
DOCS = Path(__file__).parents[2] / "docs" / "prompts.md"
SCENARIOS = sorted([*CONTEXTS, *BACKGROUND])


def written(name: str) -> list[tuple[str, Any]]:
    return CONTEXTS[name].written() if name in CONTEXTS else list(BACKGROUND[name]())


def as_text(messages: list[tuple[str, Any]]) -> str:
    """Return messages as people read them: a line for each role, one for each further block."""
    parts = []
    for role, content in messages:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        shown = "\n--- block ---\n".join(_block(block) for block in blocks)
        parts.append(f"=== {role} ===\n{shown}\n")
    return "\n".join(parts)


def _block(block: dict[str, Any]) -> str:
    mark = "\n[cache mark]" if "cache_control" in block else ""
    if block["type"] == "text":
        return f"{block['text']}{mark}"
    return f"{ ({name: value for name, value in block.items() if name != 'cache_control'}) }{mark}"


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_prompt_is_as_reviewed(name: str) -> None:
    path, text = FOLDER / f"{name}.txt", as_text(written(name))
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")

    assert path.read_text(encoding="utf-8") == text


def test_every_file_is_of_a_scenario() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == SCENARIOS


@pytest.mark.parametrize("name", sorted(CONTEXTS))
def test_what_changes_with_every_call_stands_in_the_last_message_or_the_block(name: str) -> None:
    sent = written(name)
    asked = len(sent) - 3 if "loop" in name else len(sent) - 1  # there a call and its result follow the message
    before, (_, last) = sent[:asked], sent[asked]

    assert "2026-11-23 08:05" in str(last)
    assert "2026-11-23 08:05" not in str(before)
    assert NONCE not in str(before[0])


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_is_in_the_review_and_costs_at_most_a_tenth_more(name: str) -> None:
    row = re.search(rf"^\| `{name}` \|.*\| (\d+|–) \| (\d+) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)

    assert row and tokens(name) == int(row[2])
    assert row[1] == "–" or tokens(name) <= 1.1 * int(row[1])


def tokens(name: str) -> int:
    return sum(
        count_raw(block["text"])
        for _, content in written(name)
        for block in ([{"type": "text", "text": content}] if isinstance(content, str) else content)
        if block["type"] == "text"
    )
