#!/usr/bin/env python
"""Run what holds the promises of docs/promises.toml, measure them, and write docs/promises.md from the result.

.venv/bin/python docs/promises.py                 all: the tests, and the drills of bench/chaos.py (an hour)
.venv/bin/python docs/promises.py --only 1 7 8     these alone
.venv/bin/python docs/promises.py --write          only write the page again
.venv/bin/python docs/promises.py --reports A B    the tests' results from JUnit reports of `make test` and of
                                                    `make test-slow` (PYTEST_ADDOPTS=--junitxml=A); no drills
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

DOCS: Final = Path(__file__).resolve().parent
TABLE, RESULTS, PAGE = (DOCS / name for name in ("promises.toml", "promises_measured.json", "promises.md"))
HEAD: Final = """\
# Promises

What memoryhub guarantees, the tests, the latest measurement, and what is not covered. `docs/promises.py` generates this
page from `docs/promises.toml` after it has run the tests and drills.
"""
OUTCOMES: Final = {"failure": "failed", "error": "failed", "skipped": "skipped"}


@dataclass(frozen=True)
class Promise:
    """A promise with the tests that hold it; `figure` is a template of what the drill `measure` and the tests found."""

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


def run_tests(names: Sequence[str]) -> dict[str, dict[str, int]]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        subprocess.run([*command, *dict.fromkeys(names)], cwd=DOCS.parent, stdout=sys.stderr)
        return outcomes([report], names)


def outcomes(reports: Sequence[Path], names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return for each test how many of its cases passed, failed and were skipped, by JUnit's reports of runs."""
    counts: dict[str, Counter[str]] = {}
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname')}.{str(case.get('name')).partition('[')[0]}"
            outcome = next((OUTCOMES[part.tag] for part in case if part.tag in OUTCOMES), "passed")
            counts.setdefault(name, Counter())[outcome] += 1
    dotted = {name: name.replace(".py::", ".").replace("/", ".").replace("::", ".") for name in names}
    return {name: dict(counts.get(dotted[name], {})) for name in names}


def run_drill(name: str) -> dict[str, Any]:
    command = [sys.executable, "bench/chaos.py", name, "--json"]
    done = subprocess.run(command, cwd=DOCS.parent, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout)[name])


def page_of(rows: Sequence[Promise], results: Mapping[str, Any]) -> str:
    lines = [HEAD]
    for to in ("users", "operators", "curators"):
        lines += [f"## To {to}", "", "| | promise | tests | measured | not covered |", "|---|---|---|---|---|"]
        for each in rows:
            if each.to == to:
                tests = "<br>".join(f"`{name.rpartition('::')[2]}`" for name in each.tests)
                cells = (each.number, each.text, tests, figure_of(each, results), each.lacks)
                lines.append(f"| {' | '.join(map(str, cells))} |")
        lines.append("")
    return "\n".join(lines)


def figure_of(promise: Promise, results: Mapping[str, Any]) -> str:
    """Fill the figure's template; say so where something failed, or was not measured."""
    found = [results["tests"].get(name, {}) for name in promise.tests]
    values = results["measures"].get(promise.measure) if promise.measure else {}
    if values is None or not all(each.get("passed") or each.get("failed") for each in found):
        return "not measured yet"
    counts = {name: sum(each.get(name, 0) for each in found) for name in ("passed", "failed", "skipped")}
    cases = f"{counts['passed']} case{'' if counts['passed'] == 1 else 's'} passed"
    cases += "".join(f", {counts[name]} {name}" for name in ("failed", "skipped") if counts[name])
    held = not counts["failed"] and counts["passed"] and not values.get("failed")
    days = [each["at"] for each in found]
    # The day of the figure: of the drill, else of the test that was run longest ago; what is broken, since the latest.
    at = values.get("at", min(days)) if held else max([*days, values.get("at", "")])
    return f"{'' if held else '**broken**: '}{promise.figure.format(**values, cases=cases)} ({at})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, nargs="+", default=[], help="the numbers of the promises to run")
    parser.add_argument("--write", action="store_true", help="run nothing, write the page of the last results")
    parser.add_argument("--reports", type=Path, nargs="+", help="JUnit reports of runs of the tests")
    given = parser.parse_args()
    chosen = [each for each in promises() if not given.only or each.number in given.only]
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"measures": {}, "tests": {}}
    if not given.write:
        at = {"at": datetime.now(UTC).date().isoformat()}
        names = [name for each in chosen for name in each.tests]
        tests = outcomes(given.reports, names) if given.reports else run_tests(names)
        results["tests"] |= {name: {**counts, **at} for name, counts in tests.items() if counts}
        for name in dict.fromkeys(each.measure for each in chosen if each.measure and not given.reports):
            results["measures"][name] = run_drill(name) | at
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page_of(promises(), results), encoding="utf-8")
    figures = {each.number: figure_of(each, results) for each in chosen}
    for each in chosen:
        print(f"{each.number:2} {each.text}\n   {figures[each.number]}")
    return int(any(figure.startswith(("**", "not ")) for figure in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
