"""Stops of an installation, many workers, and everything at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slow.chaos import drills

ROOT = Path(__file__).resolve().parents[3]
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
pytestmark = [pytest.mark.slow, linux_only]


@pytest.mark.long
def test_stops_under_load_leave_no_process_and_lose_no_job() -> None:
    assert drills.stops(3).wrong == []


def test_eight_workers_run_each_job_once() -> None:
    assert drills.many_claims(400).wrong == []


def test_a_short_storm_from_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "bench/chaos.py", "storm", "--minutes", "0.1", "--seed", "7", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    report = json.loads(done.stdout)["storm"]

    assert done.returncode == 0, report
    assert (report["lost"], report["doubled"], report["failed"]) == (0, 0, [])
    assert report["messages_acknowledged"] > 0
    assert report["job_effects"] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rain"], "no such drill"),
        (["storm", "--minutes", "long"], "invalid float value"),
        (["--minutes", "-1"], "give --minutes"),
    ],
)
def test_wrong_arguments_are_told(arguments: list[str], said: str) -> None:
    done = subprocess.run([sys.executable, "bench/chaos.py", *arguments], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 2
    assert said in done.stderr
