#!/usr/bin/env python
"""Measure and break the side that talks to models, on installations of its own, with a model on loopback.

.venv/bin/python bench/talking.py                    everything
.venv/bin/python bench/talking.py failures cap       some of it
.venv/bin/python bench/talking.py down --minutes 60  a model that is away for an hour
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console

from bench import talking_drills as drills
from bench import talking_scenarios as scenarios
from bench import talking_speed as speed
from bench.drills import Outcome
from bench.harness import ENDED_BY


@dataclass(frozen=True)
class Size:
    """How much of each; `minutes` is how long the model is away."""

    times: int = 20
    shapes: tuple[str, ...] = drills.SHAPES
    streams: int = 100
    at_a_time: int = 50
    sessions: int = 100
    workers: int = 8
    rounds: int = 300
    minutes: float = 3.0
    before_seconds: float = 60.0


QUICK: Final = Size(
    times=1, shapes=("529", "cut_stream", "wrong_schema"), streams=3, at_a_time=5, sessions=2, workers=2, rounds=10,
    minutes=0.1, before_seconds=5.0,
)  # fmt: skip

BENCHES: Final[dict[str, Callable[[Size], Outcome]]] = {
    "failures": lambda size: drills.failures(size.times, shapes=size.shapes, workers=min(4, size.workers)),
    "streams": lambda size: speed.streams(size.streams, size.at_a_time),
    "triggers": lambda size: drills.triggers(size.sessions, workers=size.workers),
    "turn": lambda size: speed.turn(size.rounds),
    "down": lambda size: drills.down(size.minutes, before_seconds=size.before_seconds),
    "cap": lambda size: drills.cap(),
    "scenarios": lambda size: scenarios.scenarios(),
}


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; return 1 where anything did not hold."""
    options = _options(arguments)
    for number in ENDED_BY:
        signal.signal(number, _end)
    size = _size(options)
    console = Console(stderr=True)
    rows: list[dict[str, Any]] = []
    for name in options.benches or BENCHES:
        console.print(f"{name} …")
        load = round(os.getloadavg()[0], 2)
        rows.append({"bench": name, "load_average": load, **BENCHES[name](size).row()})
        console.print(json.dumps(rows[-1], indent=1, ensure_ascii=False), markup=False, highlight=False)
    if options.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    return 1 if any(row["wrong"] for row in rows) else 0


def _end(number: int, frame: FrameType | None) -> None:
    """Unwind, so that nothing is left running."""
    sys.exit(128 + number)


def _size(options: argparse.Namespace) -> Size:
    size = QUICK if options.quick else Size()
    given = {"times": options.times, "minutes": options.minutes, "sessions": options.sessions}
    given["shapes"] = tuple(options.shapes) if options.shapes else None
    return Size(**{**vars(size), **{name: value for name, value in given.items() if value is not None}})


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "benches", nargs="*", metavar="BENCH", help=f"of {', '.join(BENCHES)}; all unless said"
    )
    parser.add_argument("--times", type=int, help="how often the model fails in each way (20)")
    parser.add_argument("--shapes", nargs="+", choices=drills.SHAPES, help="in which ways it fails (all)")
    parser.add_argument("--sessions", type=int, help="how many sessions are triggered (100)")
    parser.add_argument("--minutes", type=float, help="how long the model is away (3)")
    parser.add_argument("--quick", action="store_true", help="a little of each: whether it holds at all")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, and nothing else")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.benches) - set(BENCHES)):
        parser.error(f"there is no bench {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    for name in ("times", "sessions", "minutes"):
        if (value := getattr(options, name)) is not None and value <= 0:
            parser.error(f"--{name} must be above 0")
    return options


if __name__ == "__main__":
    sys.exit(main())
