"""A test compares processor time with that of a fixed computation only; benchmarks measure seconds."""

import ast

from memoryhub.env import CHECKOUT
from tests.sources import nodes
from tests.unit.timing import time_problem

CLOCKS = {"process_time", "thread_time", "perf_counter"}
MEASURE = {
    "tests/unit/timing.py",
    "tests/slow/chaos/client.py",
    "tests/slow/test_batch_speed.py",
    "tests/slow/test_deletions_under_load.py",
    "tests/slow/test_killed_sleep.py",
}
"""Files that compare by `is_over`, or choose by the clock when to kill."""


def test_no_other_test_reads_a_clock() -> None:
    """A limit in seconds failed on a machine three times as slow as the one it was measured on."""
    found = {
        str(file.relative_to(CHECKOUT))
        for file in (CHECKOUT / "tests").rglob("*.py")
        if any(_name(node) in CLOCKS for node in nodes(file))
    }
    assert found == MEASURE


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def test_a_call_that_takes_longer_is_found() -> None:
    assert time_problem(lambda: sum(range(2_000_000)), seconds=0.0001)
    assert time_problem(lambda: None, seconds=1) is None
