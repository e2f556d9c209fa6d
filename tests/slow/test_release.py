"""`make release` builds what it says from a clean checkout, and changes nothing where it refuses."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in
         (("NAME", "Kei"), ("EMAIL", "kei@example.org"))}  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a clone of the project as it is committed."""
    clone = tmp_path / "memoryhub"
    subprocess.run(["git", "clone", "--quiet", "--no-tags", str(ROOT), str(clone)], check=True)
    return clone


def release(checkout: Path, version: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/release.py", version, "--unchecked", "--without-image"]
    env = {**os.environ, **NAMES}
    return subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, timeout=600, check=False)


def git(checkout: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=checkout, env={**os.environ, **NAMES}, check=True, capture_output=True, text=True
    ).stdout


def test_a_release_holds_sources_clients_components_and_sums(checkout: Path) -> None:
    done = release(checkout, "9.8.7")
    assert done.returncode == 0, done.stderr
    files = {file.name: file for file in (checkout / "dist" / "9.8.7").iterdir()}
    for line in files.pop("SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256(files[name].read_bytes()).hexdigest() == digest
    assert {
        "memoryhub-9.8.7.tar.gz", "memoryhub_client-9.8.7.tar.gz", "memoryhub_client-9.8.7-py3-none-any.whl",
        "memoryhub-client-9.8.7.tgz", "memoryhub-9.8.7.cdx.json",
    } <= files.keys()  # fmt: skip

    with tarfile.open(files["memoryhub-9.8.7.tar.gz"]) as sources:
        project = sources.extractfile("memoryhub-9.8.7/pyproject.toml")
        assert project is not None and 'version = "9.8.7"' in project.read().decode()
    with zipfile.ZipFile(files["memoryhub_client-9.8.7-py3-none-any.whl"]) as wheel:
        assert 'USER_AGENT = "memoryhub-client/9.8.7"' in wheel.read("memoryhub_client/transport.py").decode()
    with tarfile.open(files["memoryhub-client-9.8.7.tgz"]) as package:
        assert {"package/package.json", "package/dist/index.js"} <= set(package.getnames())
    components = json.loads(files["memoryhub-9.8.7.cdx.json"].read_text())["components"]
    assert {"django", "psycopg", "pgvector"} <= {each["name"] for each in components}

    assert git(checkout, "describe") == "v9.8.7\n" and git(checkout, "status", "--porcelain") == ""
    assert "## 9.8.7 (20" in (checkout / "CHANGELOG.md").read_text()
    again = release(checkout, "9.8.7")
    assert again.returncode != 0 and "exists already" in again.stderr


@pytest.mark.parametrize(
    ("version", "problem"), [("1.2", "is no version"), ("v1.2.3", "is no version"), ("1.2.3", "not committed")]
)
def test_what_cannot_be_released_changes_nothing(checkout: Path, version: str, problem: str) -> None:
    (checkout / "README.md").write_text("Mine.")
    refused = release(checkout, version)
    assert refused.returncode != 0 and problem in refused.stderr and "Traceback" not in refused.stderr
    assert git(checkout, "status", "--porcelain") == " M README.md\n" and git(checkout, "tag", "--list") == ""


def test_a_build_that_fails_leaves_the_checkout_as_it_was(checkout: Path) -> None:
    (checkout / "clients" / "python" / "pyproject.toml").write_text('version = "0.1.0"\n[build-system\n')
    git(checkout, "commit", "--all", "--quiet", "--message", "break")
    failed = release(checkout, "1.2.3")
    assert failed.returncode != 0 and "failed; the working tree is as it was" in failed.stderr
    assert git(checkout, "status", "--porcelain") == "" and git(checkout, "tag", "--list") == ""
