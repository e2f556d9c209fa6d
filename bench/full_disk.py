#!/usr/bin/env python
"""Fill the disk under an installation that is written to, and count what is lost and how soon it is back.

.venv/bin/python bench/full_disk.py                     on a small tmpfs of its own (needs root)
.venv/bin/python bench/full_disk.py --folder /mnt/small  on a file system of your own, of a gigabyte at most

Twice: with the watermark, as installed, and without it, as where another program fills the disk faster than it is seen.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import harness
from tests.slow.chaos.hub import Hub, Writer, eventually

SIZE_MB = 900
WATERMARKS = {"with_watermark": "200", "without": "0"}


@contextmanager
def small_disk() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="memoryhub-disk-"))
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=711", "memoryhub", folder], check=True
    )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        folder.rmdir()


def fill(ballast: Path, left_mb: int) -> None:
    """Write until so many megabytes are left."""
    with ballast.open("ab") as file, suppress(OSError):
        while (found := os.statvfs(ballast.parent)).f_bavail * found.f_frsize >> 20 > left_mb:
            file.write(b"\0" * (1 << 20))
            file.flush()


def ask(hub: Hub, statuses: Counter[str]) -> None:
    """Ask once for what should go on and for what should not."""
    names = {"agent_id": "chaos-0"}
    for name, path, body in (
        ("search", "memories/search", {**names, "query": "message"}),
        ("context", "context", {**names, "message": "message"}),
        ("write", "memories", {**names, "content": f"at {time.monotonic()}"}),
    ):
        status, _ = hub.post(path, body)
        statuses[f"{name} {status}"] += 1


def drill(folder: Path, *, watermark: str, left_mb: int, seconds: float) -> dict[str, Any]:
    hub = Hub(folder / f"hub-{watermark}")
    hub.folder.chmod(0o711)
    hub.environment["MEMORYHUB_MIN_FREE_MB"] = watermark
    ballast, statuses = folder / "ballast", Counter[str]()
    try:
        hub.start()
        writers = [Writer(hub, number, None) for number in range(3)]
        for writer in writers:
            writer.start()
        time.sleep(5)
        before = sum(writer.acknowledged for writer in writers)
        fill(ballast, left_mb)
        named, ends_at = False, time.monotonic() + seconds
        while time.monotonic() < ends_at:
            ask(hub, statuses)
            disk = hub.ready().get("checks", {}).get("disk", {})
            named = named or disk.get("ok") is False
            time.sleep(0.5)
        during = sum(writer.acknowledged for writer in writers) - before
        ballast.unlink()
        back = eventually(
            lambda: hub.post("memories", {"agent_id": "chaos-0", "content": "back"})[0] in (200, 201), 120
        )
        for writer in writers:
            writer.over.set()
            writer.join(timeout=30)
        return {
            "acknowledged_before": before,
            "acknowledged_while_it_filled_and_after": during,
            "statuses_while_full": dict(sorted(statuses.items())),
            "readyz_names_the_disk": named,
            "restarts_of_postgresql": hub.said().count("PostgreSQL ended"),
            "back_after_seconds": back and round(back, 1),
            "wrong": [problem for writer in writers for problem in writer.verify()],
        }
    finally:
        ballast.unlink(missing_ok=True)
        hub.destroy()


def main() -> int:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--folder", type=Path, help="a folder on a small file system, which is filled up")
    parser.add_argument("--left", type=harness.positive, default=12, help="megabytes that are left free")
    parser.add_argument("--seconds", type=harness.positive, default=30, help="for how long it stays full")
    options = parser.parse_args()
    with nullcontext(options.folder) if options.folder else small_disk() as folder:
        figures = {
            name: drill(folder, watermark=watermark, left_mb=options.left, seconds=options.seconds)
            for name, watermark in WATERMARKS.items()
        }
    harness.tell(figures, options)
    return int(any(each["wrong"] or each["back_after_seconds"] is None for each in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
