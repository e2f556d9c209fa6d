"""Measure the memory of an idle installation: the PSS of its processes and PostgreSQL's (`python -m bench.memory`)."""

import sys
import time
from collections import Counter
from pathlib import Path

from bench.drills import folder
from bench.hub import Hub
from memoryhub.runtime.processes import working_in

SETTLE_SECONDS = 20


def pss_mb(pid: int) -> float:
    """Return a process's proportional set size in MB; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


def main() -> None:
    """Start an installation with two workers and the product's settings, let it settle, and print MB by program."""
    with folder() as path:
        hub = Hub(path)
        hub.environment["DJANGO_SETTINGS_MODULE"] = "memoryhub.settings"
        try:
            hub.start()
            time.sleep(SETTLE_SECONDS)
            programs = {pid: _program(command) for pid, command in hub.processes().items()}
            programs |= dict.fromkeys(working_in(hub.cluster.data), "postgres")
            memory: Counter[str] = Counter()
            for pid, program in programs.items():
                memory[program] += pss_mb(pid)
            for program, megabytes in memory.most_common():
                many = list(programs.values()).count(program)
                print(f"{program:<12}{many:>4} processes {megabytes:>8.1f} MB")
            print(f"{'all':<12}{len(programs):>4} processes {sum(memory.values()):>8.1f} MB")
        finally:
            hub.destroy()


def _program(command: str) -> str:
    words = command.split()
    return next((word for word in ("uvicorn", "serve", "work", "run_worker") if word in words), words[-1])


if __name__ == "__main__":
    sys.exit(main())
