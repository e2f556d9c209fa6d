"""`manage.py` as a program: its streams, signals and exit codes."""

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def start(*arguments: str, data_dir: Path, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "manage.py", *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "MEMORYHUB_DATA_DIR": str(data_dir), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_output_is_utf8_in_any_locale(tmp_path: Path) -> None:
    """A message names the folder, which a locale of another encoding cannot write."""
    folder = tmp_path / "東京 のデータ"
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    process = start("import", str(folder / "none.jsonl"), data_dir=tmp_path, **locale)
    _out, err = process.communicate(timeout=120)
    assert (process.returncode, "東京" in err.decode()) == (1, True), err


def test_closed_pipe_ends_without_a_traceback(tmp_path: Path) -> None:
    process = start("help", data_dir=tmp_path)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=120) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_interrupt_ends_without_a_traceback(tmp_path: Path) -> None:
    # Programs that a shell starts in the background, as these tests may be, ignore the signal.
    code = "import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler); os.kill(os.getpid(), 2)"
    process = start("shell", "-c", code, data_dir=tmp_path)
    _out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, b"Stopped.\n")


def test_a_worker_program_has_at_least_one_worker(tmp_path: Path) -> None:
    process = start("run_worker", "--workers", "0", data_dir=tmp_path)
    _out, err = process.communicate(timeout=120)
    assert (process.returncode, b"--workers: must be 1 or more, not 0" in err) == (2, True), err
