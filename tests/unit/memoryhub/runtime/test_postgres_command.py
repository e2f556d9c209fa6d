"""`python -m memoryhub.runtime.postgres`: whose database it is about. Servers are in `tests/slow/test_postgres.py`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from memoryhub.env import CHECKOUT


def test_without_a_setting_it_is_the_database_of_the_checkout(tmp_path: Path) -> None:
    shutil.copytree(CHECKOUT / "memoryhub", tmp_path / "memoryhub", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {name: value for name, value in os.environ.items() if name != "MEMORYHUB_DATA_DIR"}

    asked = subprocess.run(
        [sys.executable, "-m", "memoryhub.runtime.postgres", "url"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )

    assert f"There is no database in {tmp_path}/.data yet" in asked.stderr
