"""A whole installation that talks: what people do with it; `bench/talking.py` does more, and much more of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
pytestmark = [pytest.mark.slow, linux_only]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it as a person does."""
    return subprocess.run(
        [sys.executable, "bench/talking.py", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["scenarios"])
def test_a_little_of_each_holds(name: str) -> None:
    done = run(name, "--quick", "--json")

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (row,) = json.loads(done.stdout)
    assert row["bench"] == name
    assert row["rounds"] > 0
    assert row["wrong"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["weather"], "there is no bench weather"), (["down", "--minutes", "0"], "--minutes must be above 0")],
)
def test_wrong_arguments_are_told(arguments: list[str], said: str) -> None:
    done = run(*arguments)

    assert done.returncode == 2
    assert said in done.stderr
