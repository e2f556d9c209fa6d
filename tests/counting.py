"""Counts of work that do not depend on the machine."""

import sys
from collections.abc import Callable
from typing import Any


def work(task: Callable[[], Any]) -> int:
    """Return how many calls a task makes: difflib makes two for each line or word it looks at."""
    calls, before = 0, sys.getprofile()

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        task()
    finally:
        sys.setprofile(before)
    return calls
