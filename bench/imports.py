"""Measure imports: each foreign form twice by `manage.py import`, in a process of its own, into a fresh installation.

    python bench/imports.py                                          # six forms of 1,000 conversations
    python bench/imports.py --forms chatgpt --conversations 20000    # one large file

Rows a second are messages, or memories where a form has no messages; peak memory is that of the importing process.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import harness

from tests.factories.foreign_exports import WRITERS, write_export

MEASURED = """
import json, os, re, sys, time
os.environ["DJANGO_SETTINGS_MODULE"] = "memoryhub.settings"
from django.core.management import execute_from_command_line
begun = time.perf_counter()
execute_from_command_line(["manage.py", "import", *sys.argv[1:]])
with open("/proc/self/status") as status:  # getrusage counts the pages of the process that started this one
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1]) / 1024
print(json.dumps({"seconds": time.perf_counter() - begun, "cpu": time.process_time(), "peak_mib": peak}))
"""
COUNTS = re.compile(r"^(\w+): (\d+) new, (\d+) here already, (\d+) refused$", re.MULTILINE)


def main() -> None:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--conversations", type=harness.positive, default=1_000)
    parser.add_argument("--turns", type=harness.positive, default=8, help="questions of each conversation")
    parser.add_argument("--forms", default=",".join(WRITERS))
    options = parser.parse_args()
    with harness.installation():
        figures = [each for form in options.forms.split(",") for each in measure(form, options)]
    harness.tell(figures, options)


def measure(form: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = write_export(form, Path(folder), count=options.conversations, turns=options.turns)
        size = sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())
        return [imported(path, form, run, size / 1e6) for run in (1, 2)]


def imported(path: Path, form: str, run: int, megabytes: float) -> dict[str, Any]:
    command = [sys.executable, "-c", MEASURED, str(path), "--agent", "bench", "--user", f"hiroki-{form}"]
    done = subprocess.run(command, cwd=harness.ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    counts = {name: (int(new), int(known), int(bad)) for name, new, known, bad in COUNTS.findall(done.stdout)}
    told = json.loads(done.stdout.splitlines()[-1])
    seen = {name: new + known for name, (new, known, _) in counts.items()}
    rows = seen.get("messages") or seen.get("memories", 0)
    return {
        "form": form, "run": run, "megabytes": round(megabytes, 1),
        "new": {name: new for name, (new, _, _) in counts.items()},
        "refused": sum(bad for _, _, bad in counts.values()), "seconds": round(told["seconds"], 1),
        "rows_a_second": round(rows / told["seconds"]), "cpu_seconds": round(told["cpu"], 1),
        "peak_mib": round(told["peak_mib"]),
    }  # fmt: skip


if __name__ == "__main__":
    main()
