"""The manifests for Kubernetes name programs, settings and addresses that exist, and are hardened."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from django.core.management import get_commands
from django.urls import resolve

from memoryhub.env import CHECKOUT, SECRETS
from memoryhub.runtime.supervisor import GRACE_SECONDS, PROGRAMS

FOLDER = CHECKOUT / "docs" / "kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
DOCUMENTS: list[dict[str, Any]] = [
    document for name in KUSTOMIZATION["resources"] for document in yaml.safe_load_all((FOLDER / name).read_text())
]
SETTINGS = dict(literal.split("=", 1) for literal in KUSTOMIZATION["configMapGenerator"][0]["literals"])


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for document in DOCUMENTS:
        if document["kind"] in ("Deployment", "Job"):
            yield document["metadata"]["name"], document["spec"]["template"]["spec"]


each_pod = pytest.mark.parametrize(("name", "pod"), list(pods()), ids=[name for name, _pod in pods()])


def test_every_manifest_is_applied() -> None:
    assert {path.name for path in FOLDER.glob("*.yaml")} == {"kustomization.yaml", *KUSTOMIZATION["resources"]}
    assert [name for name, _pod in pods()] == ["memoryhub-migrate", "memoryhub-web", "memoryhub-worker"]


def test_settings_and_secrets_are_documented() -> None:
    page = (CHECKOUT / "docs" / "reference" / "settings.md").read_text()
    assert all(f"`{name}`" in page for name in SETTINGS)
    files = {path.rpartition("/")[2] for path in KUSTOMIZATION["secretGenerator"][0]["files"]}
    for _name, pod in pods():
        named = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
        assert {name.removesuffix("_FILE") for name in named} <= set(SECRETS)
        assert {path.rpartition("/")[2] for path in named.values()} == files


@each_pod
def test_pods_are_hardened(name: str, pod: dict[str, Any]) -> None:
    user = re.search(r"useradd --system --uid (\d+)", (CHECKOUT / "Dockerfile").read_text())
    assert user and pod["securityContext"]["runAsUser"] == int(user[1]) and pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert container["image"] == KUSTOMIZATION["images"][0]["name"] and container["resources"]["limits"]["memory"]


@each_pod
def test_programs_and_probes_exist(name: str, pod: dict[str, Any]) -> None:
    [container] = pod["containers"]
    command, *options = container["args"]
    assert command in get_commands()
    assert command != "serve" or options[1] in {program.name for program in PROGRAMS}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if probe in container:
            asked = container[probe]["httpGet"]
            assert resolve(asked["path"]) and asked["httpHeaders"][0]["value"] in SETTINGS["ALLOWED_HOSTS"]


def test_a_pod_has_the_time_to_drain() -> None:
    for name, pod in pods():
        if name != "memoryhub-migrate":
            needed = int(SETTINGS["MEMORYHUB_DRAIN_SECONDS"].split()[0]) + GRACE_SECONDS
            assert pod["terminationGracePeriodSeconds"] > needed
