"""The client's wheel, built from the checkout without a network."""

import subprocess
import sys
import zipfile
from pathlib import Path

from django.conf import settings


def test_wheel_has_the_package_with_its_types(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=Path(settings.BASE_DIR) / "clients" / "python",
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("memoryhub_client-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("METADATA"))
    assert {"memoryhub_client/__init__.py", "memoryhub_client/py.typed", "memoryhub_client/types.py"} <= names
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    assert [line for line in required if "extra ==" not in line] == [
        "Requires-Dist: anyio>=4.10",
        "Requires-Dist: httpx2<3,>=2.12",
    ]
