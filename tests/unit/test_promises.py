"""Each promise has tests that exist and are collected, and the page says what was measured."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import chaos
from docs import promises
from memoryhub.env import CHECKOUT

ROWS = promises.promises()


def results() -> dict[str, dict[str, dict[str, object]]]:
    found: dict[str, dict[str, dict[str, object]]] = json.loads(promises.RESULTS.read_text())
    return found


def test_thirty_promises_are_made_each_with_a_test_and_none_is_broken() -> None:
    numbers = [each.number for each in ROWS]
    assert len(numbers) == len(set(numbers))
    assert set(range(1, 31)) <= set(numbers)
    assert [each.number for each in ROWS if not each.tests or not each.lacks] == []
    assert {each.measure for each in ROWS if each.measure} <= set(chaos.DRILLS)
    assert [each.number for each in ROWS if promises.figure_of(each, results()).startswith("**")] == []


NAMES = sorted({name for each in ROWS for name in each.tests})


def functions_in(file: Path) -> set[str]:
    """Return the names of a file's test functions as pytest's node ids have them."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        within = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {f"{within}{each.name}" for each in inner if isinstance(each, ast.FunctionDef)}
    return found


def test_every_test_of_a_promise_exists() -> None:
    split = [name.split("::", 1) for name in NAMES]
    assert [name for file, name in split if name not in functions_in(CHECKOUT / file)] == []


@pytest.mark.slow
def test_every_test_of_a_promise_is_collected() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", *NAMES]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_is_written_from_the_results() -> None:
    written = promises.PAGE.read_text(encoding="utf-8")
    assert written == promises.page_of(ROWS, results()), "run docs/promises.py --write"


def test_a_broken_promise_and_one_that_was_not_measured_are_said() -> None:
    one = promises.Promise(1, "users", "A promise.", ("tests/a.py::test_a",), "{rows} rows: {cases}", "-", "order")
    assert promises.figure_of(one, {"tests": {}, "measures": {}}) == "not measured yet"
    found = {
        "tests": {"tests/a.py::test_a": {"passed": 2, "failed": 1, "at": "2026-01-02"}},
        "measures": {"order": {"rows": 7, "failed": [], "at": "2026-01-01"}},
    }
    assert promises.figure_of(one, found) == "**broken**: 7 rows: 2 cases passed, 1 failed (2026-01-02)"
    found["tests"]["tests/a.py::test_a"] = {"passed": 1, "at": "2026-01-02"}
    assert promises.figure_of(one, found) == "7 rows: 1 case passed (2026-01-01)", "the figure is the drill's"
