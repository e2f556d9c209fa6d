"""`memoryhub/bootstrap.sh` decides what to install and when; a stand-in for uv tells what it was asked."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "memoryhub" / "bootstrap.sh"
RUNTIME = "alpha==1.0 \\\n    --hash=sha256:00\nbeta==2.0 ; sys_platform == 'win32' \\\n    --hash=sha256:11\n"
DEV = RUNTIME + "gamma==3.0 \\\n    --hash=sha256:22\n"


class Checkout:
    """A checkout with two locks, whose `uv` writes down what it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "memoryhub").mkdir(parents=True)
        shutil.copy(SCRIPT, folder / "memoryhub")
        self.lock("requirements.lock", RUNTIME)
        self.lock("requirements-dev.lock", DEV)
        self.asked = folder / "asked"
        self.program("uv", f'[ "$1" = --version ] || printf "%s\\n" "$*" >> "{self.asked}"')

    def lock(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def program(self, name: str, body: str) -> Path:
        path = self.folder / "programs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.folder / 'programs'}:{Path(sys.executable).parent}:/usr/bin:/bin"
        return subprocess.run(
            ["sh", str(self.folder / "memoryhub" / "bootstrap.sh"), *arguments],
            cwd="/",
            env={"PATH": path, **variables},
            capture_output=True,
            text=True,
            timeout=300,
        )

    def installations(self) -> list[str]:
        """Return the locks that uv was asked to install, in order."""
        if not self.asked.exists():
            return []
        return [line.split()[-1] for line in self.asked.read_text().splitlines()]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Give a checkout in a folder with a space in its name."""
    return Checkout(tmp_path / "a checkout")


def test_the_second_run_installs_nothing_and_says_nothing(checkout: Checkout) -> None:
    first = checkout.run("runtime")
    second = checkout.run("runtime")

    assert first.returncode == 0, first.stderr
    assert checkout.installations() == ["requirements.lock"]
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert os.access(checkout.folder / ".venv" / "bin" / "python", os.X_OK)


def test_a_changed_lock_is_installed(checkout: Checkout) -> None:
    checkout.run("runtime")
    checkout.lock("requirements.lock", RUNTIME.replace("alpha==1.0", "alpha==1.1"))

    checkout.run("runtime")

    assert checkout.installations() == ["requirements.lock", "requirements.lock"]


def test_run_does_not_undo_what_test_installed(checkout: Checkout) -> None:
    for what in ("runtime", "dev", "runtime", "dev"):
        assert checkout.run(what).returncode == 0

    assert checkout.installations() == ["requirements.lock", "requirements-dev.lock"]


def test_a_dev_lock_with_other_versions_does_not_pass_for_the_runtime(checkout: Checkout) -> None:
    checkout.lock("requirements-dev.lock", DEV.replace("beta==2.0", "beta==2.1"))

    for what in ("dev", "runtime"):
        checkout.run(what)

    assert checkout.installations() == ["requirements-dev.lock", "requirements.lock"]


def test_a_failed_installation_is_tried_again_and_says_what_is_needed(checkout: Checkout) -> None:
    failing = checkout.program("broken-python", f'case "$*" in "-m pip"*) exit 1;; esac; exec {sys.executable} "$@"')
    uv = (checkout.folder / "programs" / "uv").read_text()
    checkout.program("uv", '[ "$1" = --version ]')
    checkout.lock("requirements.lock", "no-such-package-here==1 --hash=sha256:00\n")

    failed = checkout.run("runtime", PYTHON=str(failing), PIP_NO_INDEX="1")
    (checkout.folder / "programs" / "uv").write_text(uv)
    repaired = checkout.run("runtime")

    assert failed.returncode == 1
    assert "could not be installed" in failed.stderr
    assert "python3-pip" in failed.stderr
    assert repaired.returncode == 0, repaired.stderr
    assert checkout.installations() == ["requirements.lock"]


def test_uv_is_tried_again_with_the_systems_certificates(checkout: Checkout) -> None:
    asked = f'printf "%s\\n" "$*" >> "{checkout.asked}"'
    checkout.program("uv", f'[ "$1" = --version ] || {{ [ "$UV_SYSTEM_CERTS" = 1 ] && {asked}; }}')
    done = checkout.run("runtime")
    assert done.returncode == 0, done.stderr
    assert "Without uv" not in done.stderr and checkout.installations() == ["requirements.lock"]


def test_an_old_python_is_refused(checkout: Checkout) -> None:
    old = checkout.program("old-python", '[ "$1" = --version ] && echo "Python 3.9.2" && exit 0; exit 1')

    refused = checkout.run("runtime", PYTHON=str(old))

    assert refused.returncode == 1
    assert "is older than 3.11: Python 3.9.2" in refused.stderr


def test_a_python_that_does_not_exist_is_refused(checkout: Checkout) -> None:
    refused = checkout.run("runtime", PYTHON="python-of-nowhere")

    assert refused.returncode == 1
    assert "PYTHON=python-of-nowhere: there is no such program" in refused.stderr


def test_a_broken_environment_is_made_anew(checkout: Checkout) -> None:
    checkout.run("runtime")
    python = checkout.folder / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python")

    assert checkout.run("runtime").returncode == 0
    assert checkout.installations() == ["requirements.lock", "requirements.lock"]


def test_an_unknown_word_is_refused_with_the_usage(checkout: Checkout) -> None:
    refused = checkout.run("everything")

    assert refused.returncode == 1
    assert "Usage:" in refused.stderr


class Bare:
    """A machine with no program but those that the script itself needs, and those that a test puts there."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout = checkout
        self.path = checkout.folder / "programs"
        for name in ("sh", "dirname", "env"):
            (self.path / name).symlink_to(shutil.which(name) or name)
        self.asked = checkout.folder / "apt"

    def with_apt(self, user: int, package: str = "chromium-headless-shell") -> "Bare":
        """Add apt-get, which has one package of Chromium, and this user's number."""
        program = self.path / package
        make = f"{sys.executable} -c 'import os; os.chmod(r\"{program}\", 0o755)'"
        script = f'#!/bin/sh\necho "$@" >> \'{self.asked}\'\n[ "$1" != update ] || exit 0\n'
        script += f"case \"$*\" in *' {package} '*) echo '#!/bin/sh' > '{program}'; {make} ;; *) exit 100 ;; esac\n"
        (self.path / "apt-get").write_text(script)
        (self.path / "apt-get").chmod(0o755)
        self.checkout.program("id", f"echo {user}")
        return self

    def browser(self, **variables: str) -> subprocess.CompletedProcess[str]:
        """Ask for a browser."""
        return subprocess.run(
            ["sh", str(self.checkout.folder / "memoryhub" / "bootstrap.sh"), "browser"],
            cwd="/",
            env={"PATH": str(self.path), **variables},
            capture_output=True,
            text=True,
            timeout=300,
        )


@pytest.fixture
def bare(checkout: Checkout) -> Bare:
    """Give a machine without a browser."""
    return Bare(checkout)


def test_a_browser_that_is_there_is_taken(bare: Bare) -> None:
    bare.checkout.program("google-chrome", "")

    assert (bare.browser().returncode, bare.browser().stderr) == (0, "")


def test_a_browser_is_installed_once_where_the_user_may(bare: Bare) -> None:
    bare.with_apt(user=0)

    assert bare.browser().returncode == 0
    assert bare.browser().stderr == ""
    update, install = bare.asked.read_text().splitlines()
    assert update.startswith("update")
    assert "chromium-headless-shell" in install and "fonts-noto-cjk" in install


def test_where_there_is_no_shell_of_the_browser_it_comes_whole(bare: Bare) -> None:
    bare.with_apt(user=0, package="chromium")

    assert bare.browser().returncode == 0
    assert [line.split()[-3] for line in bare.asked.read_text().splitlines()[1:]] == [
        "chromium-headless-shell",
        "chromium",
    ]


def test_where_nobody_may_install_one_line_says_what_is_missing(bare: Bare) -> None:
    refused = bare.with_apt(user=1000).browser()

    assert refused.returncode == 1
    assert "apt install chromium" in refused.stderr and "CHROMIUM=" in refused.stderr
    assert not bare.asked.exists()


def test_a_browser_that_is_named_and_missing_is_told(bare: Bare) -> None:
    bare.checkout.program("chromium", "")
    refused = bare.browser(CHROMIUM="/nowhere/chromium")

    assert refused.returncode == 1
    assert refused.stderr == "CHROMIUM=/nowhere/chromium: there is no such program.\n"
