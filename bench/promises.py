#!/usr/bin/env python
"""Run what holds the promises of bench/promises.toml, measure them, and write docs/promises.md from the result.

.venv/bin/python bench/promises.py                 all: the tests, and the drills in which machines die (an hour)
.venv/bin/python bench/promises.py --only 1 7 8     these alone
.venv/bin/python bench/promises.py --write          only write the page again
.venv/bin/python bench/promises.py --reports A B    the tests' results from JUnit reports of `make test` and of
                                                    `make test-slow` (PYTEST_ADDOPTS=--junitxml=A); no drills
"""

import json
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import harness

TABLE = harness.ROOT / "bench" / "promises.toml"
RESULTS = harness.ROOT / "bench" / "promises_measured.json"
PAGE = harness.ROOT / "docs" / "promises.md"
STORM_MINUTES = 30
HEAD = """\
# Promises

What memoryhub promises, the tests that hold it, the figure that was measured last, and what it does not cover.
`bench/promises.py` writes this page when it has run the tests and drills; change `bench/promises.toml`, not the page.
"""


@dataclass(frozen=True)
class Promise:
    """A promise with the tests that hold it; `figure` is a template of what `measure` and the tests found."""

    number: int
    to: str
    text: str
    tests: tuple[str, ...]
    figure: str
    lacks: str
    measure: str = ""


def promises() -> list[Promise]:
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["promise"]
    return [Promise(**{**row, "tests": tuple(row["tests"])}) for row in rows]


# Measures: each returns the values that figures name; `failed` says what did not hold.


def database_kills() -> dict[str, Any]:
    from tests.slow.chaos import drills, hub

    writes, times = 1_000, 20
    with hub.running() as (installation, jobs):
        outcome = drills.postgres_kills(installation, jobs, times, writes)
    first = [words for words in outcome.wrong if words.startswith("the first request")]
    return {
        "acknowledged": writes, "rounds": outcome.rounds, "first_failed": len(first),
        "wrong": len(outcome.wrong) - len(first), "failed": outcome.wrong,
    }  # fmt: skip


def idle_workers() -> dict[str, Any]:
    from tests.slow.chaos import drills, hub

    with hub.running() as started:
        outcomes = [drills.idle_worker(*started, 12), drills.stopped_workers(*started, 8)]
    seconds = [each for outcome in outcomes for each in outcome.seconds]
    return {
        "tried": 20, "rounds": len(seconds), "longest_seconds": round(max(seconds)),
        "failed": [words for outcome in outcomes for words in outcome.wrong],
    }  # fmt: skip


def stops() -> dict[str, Any]:
    from tests.slow.chaos import drills

    outcome = drills.stops(20)
    longest = round(max(outcome.seconds, default=0))
    return {
        "rounds": outcome.rounds,
        "longest_seconds": longest,
        "wrong": len(outcome.wrong),
        "failed": outcome.wrong,
    }


def storm() -> dict[str, Any]:
    found = _program("chaos.py", "--minutes", str(STORM_MINUTES))["storm"]
    return storm_values(found, STORM_MINUTES)


def storm_values(found: Mapping[str, Any], minutes: int) -> dict[str, Any]:
    failed = [*found["wrong"], *(["lost or doubled"] if found["lost"] or found["doubled"] else [])]
    faults = found["faults"]
    return {
        **found, "minutes": minutes, "database_kills": faults.get("PostgreSQL killed", 0),
        "all_faults": sum(faults.values()), "failed": failed,
    }  # fmt: skip


def retries() -> dict[str, Any]:
    from tests.slow.chaos import hub

    keys, threads = 1_000, 8
    with hub.running() as (installation, _):
        session = str(uuid4())
        installation.post("sessions", {"agent_id": "bench", "session_id": session})
        start = threading.Barrier(threads)

        def send_all(_: int) -> None:
            client = harness.Client(installation.port, installation.key)
            start.wait()
            for number in range(keys):
                body = {"messages": [{"role": "user", "content": f"message {number}"}]}
                own = {"Idempotency-Key": f"key-{number}"}
                while client.ask("POST", f"/api/v1/sessions/{session}/messages", body, **own)[0] not in (
                    200,
                    201,
                ):
                    pass

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(send_all, range(threads)))
        rows = installation.rows("SELECT count(*) FROM conversations_message")[0][0]
    return {"keys": keys, "threads": threads, "rows": rows, "failed": [] if rows == keys else ["rows"]}


def order() -> dict[str, Any]:
    from tests.slow.chaos import hub

    messages, writers, at_once = 10_000, 8, 25
    with hub.running() as (installation, _):
        session = str(uuid4())
        installation.post("sessions", {"agent_id": "bench", "session_id": session})
        batch = {"messages": [{"role": "user", "content": "a message"}] * at_once}

        def write(_: int) -> None:
            for _ in range(messages // writers // at_once):
                while installation.post(f"sessions/{session}/messages", batch, timeout=60)[0] != 201:
                    pass

        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(write, range(writers)))
        numbers = [seq for (seq,) in installation.rows("SELECT seq FROM conversations_message ORDER BY seq")]
    gaps = len(set(range(1, messages + 1)) ^ set(numbers)) + len(numbers) - len(set(numbers))
    return {"messages": len(numbers), "writers": writers, "gaps": gaps, "failed": ["gaps"] if gaps else []}


def overload() -> dict[str, Any]:
    found = _program("overload.py")
    mixed = found["mixed"]
    is_refused = any(not name.endswith(" 200") for kind in CROWDS for name in found[kind]["statuses"])
    failed = [name for name in ("lost", "doubled") if mixed[name]]
    failed += ["refused beside a crowd"] if is_refused else []
    failed += ["more than 1 % were 503"] if mixed["share_of_503"] > 0.01 else []
    healths = {f"{kind}_ms": round(found[kind]["health_ms"]["p95"]) for kind in CROWDS}
    return {**mixed, **healths, "share_of_503": f"{mixed['share_of_503']:.1%}", "failed": failed}


CROWDS = ("idle", "slow_header", "slow_body")


def full_disk() -> dict[str, Any]:
    found = _program("full_disk.py")
    kept, without = found["with_watermark"], found["without"]
    return {
        "wrong": len(kept["wrong"]), "restarts": kept["restarts_of_postgresql"],
        "back": kept["back_after_seconds"], "wrong_without": len(without["wrong"]),
        "back_without": without["back_after_seconds"], "failed": kept["wrong"] + without["wrong"],
    }  # fmt: skip


def _program(name: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, f"bench/{name}", *arguments, "--json"]
    done = subprocess.run(command, cwd=harness.ROOT, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


MEASURES: dict[str, Callable[[], dict[str, Any]]] = {
    each.__name__: each
    for each in (database_kills, idle_workers, stops, storm, retries, order, overload, full_disk)
}


# Tests


def run_tests(names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Run tests by name; return for each how many of its cases passed, failed and were skipped."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        subprocess.run([*command, *dict.fromkeys(names)], cwd=harness.ROOT, stdout=sys.stderr)
        return outcomes([report], names)


def outcomes(reports: Sequence[Path], names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return for each test how many of its cases passed, failed and were skipped, by JUnit's reports of runs."""
    counts: dict[str, Counter[str]] = {}
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname')}::{str(case.get('name')).partition('[')[0]}"
            outcome = next((_OUTCOMES[part.tag] for part in case if part.tag in _OUTCOMES), "passed")
            counts.setdefault(name, Counter())[outcome] += 1
    return {name: dict(counts.get(_junit_name(name), {})) for name in names}


_OUTCOMES = {"failure": "failed", "error": "failed", "skipped": "skipped"}


def _junit_name(name: str) -> str:
    file, _, test = name.partition(".py::")
    *classes, function = test.split("::")
    return f"{'.'.join([file.replace('/', '.'), *classes])}::{function}"


# The page


def page_of(rows: Sequence[Promise], results: Mapping[str, Any]) -> str:
    lines = [HEAD]
    for to in ("users", "operators", "curators"):
        lines += [
            f"## To {to}",
            "",
            "| | promise | held by | measured | does not cover |",
            "|---|---|---|---|---|",
        ]
        lines += [_row(each, results) for each in rows if each.to == to] + [""]
    return "\n".join(lines)


def _row(promise: Promise, results: Mapping[str, Any]) -> str:
    tests = "<br>".join(
        f"`{name.rpartition('::')[2]}` ({Path(name.partition('::')[0]).name})" for name in promise.tests
    )
    return (
        f"| {promise.number} | {promise.text} | {tests} | {figure_of(promise, results)} | {promise.lacks} |"
    )


def figure_of(promise: Promise, results: Mapping[str, Any]) -> str:
    """Fill the figure's template; say so where something failed, or was not measured."""
    found = [results["tests"].get(name, {}) for name in promise.tests]
    values = results["measures"].get(promise.measure) if promise.measure else {}
    if values is None or not all(each.get("passed") or each.get("failed") for each in found):
        return "not measured yet"
    counts = Counter[str]()
    for each in found:
        counts.update({name: number for name, number in each.items() if name != "at"})
    cases = f"{counts['passed']} case{'' if counts['passed'] == 1 else 's'} passed"
    cases += "".join(f", {counts[name]} {name}" for name in ("failed", "skipped") if counts[name])
    held = not counts["failed"] and counts["passed"] and not values.get("failed")
    days = [each["at"] for each in found]
    # The day of the figure: of the drill, else of the test that was run longest ago; what is broken, since the latest.
    at = (
        max([*days, *([values["at"]] if values else [])])
        if not held
        else values["at"]
        if values
        else min(days)
    )
    return f"{'' if held else '**broken**: '}{promise.figure.format(**values, cases=cases)} ({at})"


def main() -> int:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--only", type=int, nargs="+", default=[], help="the numbers of the promises to run")
    parser.add_argument(
        "--write", action="store_true", help="run nothing, write the page from the last results"
    )
    parser.add_argument("--reports", type=Path, nargs="+", help="JUnit reports of runs of the tests")
    options = parser.parse_args()
    chosen = [each for each in promises() if not options.only or each.number in options.only]
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"measures": {}, "tests": {}}
    if not options.write:
        at = {"at": datetime.now(UTC).date().isoformat()}
        names = [name for each in chosen for name in each.tests]
        tests = outcomes(options.reports, names) if options.reports else run_tests(names)
        results["tests"] |= {name: {**counts, **at} for name, counts in tests.items() if counts}
        drills = [each.measure for each in chosen if each.measure and not options.reports]
        for name in dict.fromkeys(drills):
            results["measures"][name] = {**MEASURES[name](), **at}
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page_of(promises(), results), encoding="utf-8")
    figures = {each.number: figure_of(each, results) for each in chosen}
    for each in chosen:
        print(f"{each.number:2} {each.text}\n   {figures[each.number]}")
    return int(any(figure.startswith(("**", "not ")) for figure in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
