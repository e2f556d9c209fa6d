"""Case tables as data: a JSON file beside the test, with the test's name and one case a line."""

import json
from pathlib import Path
from typing import Any


def tables_of(test: str) -> Any:
    """Return the tables of a test file, by their names; `test` is its `__file__`."""
    return json.loads(Path(test).with_suffix(".json").read_text(encoding="utf-8"))
