"""The documentation tells the truth: its calls run, its links lead somewhere, its tables match the code."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django.live_server_helper import LiveServer

from memoryhub.auth.actions import issue_key
from memoryhub.auth.config import SignInConfig
from memoryhub.auth.principals import Scope, command
from memoryhub.embeddings.config import EMBEDDING_PROVIDERS, EmbeddingConfig
from memoryhub.embeddings.local import INSTALL
from memoryhub.env import CHECKOUT, KNOWN_SETTINGS, EnvironmentProblem, read_environment, secret_key, unknown_settings
from memoryhub.jobs.registry import KINDS
from memoryhub.llm.config import LLM_PROVIDERS, LLMConfig
from memoryhub.tenancy.policies import policy_classes
from memoryhub.unfold import SCREENS

README = CHECKOUT / "README.md"
DOCS = CHECKOUT / "docs"
REFERENCE = DOCS / "reference"
README_JA = CHECKOUT / "README.ja.md"
PAGES = [README, README_JA, CHECKOUT / "CHANGELOG.md", CHECKOUT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NOT_OPERATORS = {"MEMORYHUB_PROCESS"}


# The walk


def _walk() -> list[str]:
    section = README.read_text().split("## Five minutes")[1].split("\n## ")[0]
    return [block for block in BLOCK.findall(section) if "curl" in block]


def _paste(block: str, environment: Mapping[str, str]) -> tuple[list[Any], str]:
    """Run a block as a person would paste it; return the JSON documents it prints, and what went to stderr."""
    done = subprocess.run(
        ["sh", "-eu", "-c", block], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    documents, rest = [], done.stdout.strip()
    while rest:
        document, end = json.JSONDecoder().raw_decode(rest)
        documents.append(document)
        rest = rest[end:].strip()
    return documents, done.stderr


def test_both_readmes_name_the_same_commands_and_integrations() -> None:
    english, japanese = README.read_text(), README_JA.read_text()
    assert BLOCK.findall(english) == BLOCK.findall(japanese)
    integrations = [
        link for link in LINK.findall(english.split("## Integrations")[1].split("\n## ")[0]) if "#" not in link
    ]
    assert integrations and set(integrations) <= set(LINK.findall(japanese))
    assert "(README.ja.md)" in english and "(README.md)" in japanese


@pytest.mark.django_db(transaction=True)
def test_the_readmes_walk_runs_as_printed(live_server: LiveServer) -> None:
    assert shutil.which("curl"), "The README's walk needs curl: install it (Debian: apt install curl)."
    _, key = issue_key(name="walk", scopes=list(Scope), by=command("test"), now=datetime.now(UTC))
    environment = {"PATH": os.environ["PATH"], "BASE": f"{live_server.url}/api/v1", "KEY": key.text}
    blocks = _walk()
    assert len(blocks) == 5
    (session,), _ = _paste(blocks[0], environment)
    assert session["channel"] == "slack"
    (messages,), _ = _paste(blocks[1], environment)
    assert [each["seq"] for each in messages["results"]] == [1, 2, 3]
    (memory,), _ = _paste(blocks[2], environment)
    assert (memory["namespace"], memory["status"], memory["strength"]) == ("/preferences/hiroki/", "active", 1.0)
    (found,), _ = _paste(blocks[3], environment)
    assert found["results"][0]["memory"]["id"] == memory["id"]
    assert any("message" in each for each in found["results"])
    (context, receipt), _ = _paste(blocks[4], environment)
    _check_context(context, receipt, memory)


def _check_context(context: dict[str, Any], receipt: dict[str, Any], memory: dict[str, Any]) -> None:
    assert context["receipt_id"] == receipt["id"]
    assert context["metadata"]["semantic_memory_count"] == 1
    assert context["metadata"]["working_memory_count"] == 3
    assert context["metadata"]["token_limit"] == 80_000
    remembered = context["messages"][0]["content"][0]["text"]
    assert "## ユーザーの希望\n1. 抹茶アイスが好き (" in remembered  # in the language of the message
    assert context["messages"][-1]["content"][-1]["text"].endswith("京都でアイスを食べたい")
    (item,) = [each for each in receipt["items"] if each["source_id"] == memory["id"]]
    assert (item["layer"], item["included"], item["reason"]) == ("semantic", True, "included")


# Links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{target} leads nowhere"
        assert not anchor or anchor in _anchors(found), f"{target} has no such heading"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_screen_is_documented_by_the_sidebars_name() -> None:
    named = set(re.findall(r"\*\*([^*]+)\*\*", _table_heads(DOCS / "screens.md", "| **")))
    assert named == {"Home", *(str(title) for title, _icon in SCREENS.values())}


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text() + (DOCS / "adr" / "README.md").read_text()
    names = [page.name for page in sorted(DOCS.rglob("*.md")) if page.name != "README.md"]
    assert [name for name in names if f"{name})" not in index] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_no_page_installs_what_a_stranger_calls_memoryhub(page: Path) -> None:
    assert not re.search(r"pip install[^\n`]*\bmemoryhub\b(?!/)", page.read_text())


def test_the_command_that_installs_a_local_library_is_documented() -> None:
    assert f"\n{INSTALL} fastembed\n" in (REFERENCE / "providers.md").read_text()


# Identifiers

# A name of Python, SQL, a setting or a field: with an underscore or a dot, or in capitals.
IDENTIFIER = re.compile(r"(?=\w*[_.]|[A-Z]{3})[A-Za-z_]\w*(?:\.\w+)*(?=\(|$)")
SOURCES = re.compile(r"(?!docs/).*\.(?:py|sql|conf|html|m?js|ts|toml|ya?ml|jsonl?|sh|txt)|Makefile|Dockerfile")
# What Django, Prometheus and the client add to a name.
AFFIXES = re.compile(r"^(?:view|add|change|delete)_|_(?:total|bucket)$")
OF_OTHERS = {
    "actions_detail", "create_permissions", "pg_snapshot_xmin", "pg_trgm", "preload_app",  # rejected options
    "api_base", "set_default_openai_client", "claude_desktop_config.json",  # settings of other programs
    "pg_read_all_data",  # a role of PostgreSQL
    "bpe_ranks", "semantic_memory_limt",  # a field of a vendor's file, a misspelling
    "OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME",  # read by OpenTelemetry's SDK
}  # fmt: skip
"""Identifiers of the documentation that no code has, by intention."""


def _identifiers(page: Path) -> set[str]:
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = (IDENTIFIER.match(span.rstrip("…")) for span in re.findall(r"`([^`\n]+)`", text))
    return {match[0] for match in found if match}


def _is_in(source: str, name: str) -> bool:
    """Return whether a name occurs, at least each of its parts: `Model.objects`, `metadata.project`."""
    return all(AFFIXES.sub("", part) in source for part in name.split("."))


@pytest.fixture(scope="module")
def source() -> str:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    files = filter(SOURCES.fullmatch, listed.split("\0"))
    paths = [path for path in map(CHECKOUT.joinpath, files) if path.is_file() and path.name != Path(__file__).name]
    return "\n".join([listed, *(path.read_text() for path in paths)])


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_identifier_exists_in_the_code(page: Path, source: str) -> None:
    assert sorted(name for name in _identifiers(page) - OF_OTHERS if not _is_in(source, name)) == []


def test_every_exception_is_needed(source: str) -> None:
    documented = {name for page in DOCS.rglob("*.md") for name in _identifiers(page)}
    assert sorted(name for name in OF_OTHERS if name not in documented or _is_in(source, name)) == []


def test_what_the_first_designs_name_exists_here() -> None:
    page = (DOCS / "reference" / "seeds.md").read_text()
    rows = re.findall(r"^\|.*\| `([\w/]+\.py)` `(\w+)` \|$", page, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| (?!name there)", page, re.MULTILINE))
    defined = r"^(?:async )?(?:def|class) {}\b"
    assert [row for row in rows if not re.search(defined.format(row[1]), (CHECKOUT / row[0]).read_text(), re.M)] == []
    calls = {re.sub(r"{\w+}", "{}", call) for call in re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) [\w/{}-]+)", page)}
    known = re.sub(r"{\w+}", "{}", (DOCS / "reference" / "api.md").read_text())
    assert sorted(call for call in calls if f"`{call}`" not in known and call != "GET /readyz") == []


# Settings


class Noted(dict[str, str]):
    """An environment that notes which variables are asked for."""

    asked: set[str]

    def __init__(self, **values: str) -> None:
        super().__init__(**values)
        self.asked = set()

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, noting its name."""
        self.asked.add(key)
        return super().get(key, default)


def _variables(tmp_path: Path) -> set[str]:
    plain = Noted()
    read_environment(plain)
    secret_key(plain, tmp_path)
    SignInConfig.from_env(plain)
    asked = set(plain.asked)
    for providers, name, read in (
        (EMBEDDING_PROVIDERS, "MEMORYHUB_EMBEDDING_PROVIDER", EmbeddingConfig.from_env),
        ((*LLM_PROVIDERS, "none"), "MEMORYHUB_LLM_PROVIDER", LLMConfig.from_env),
    ):
        for values in ({}, *({name: provider} for provider in providers)):
            variables = Noted(**values)
            with suppress(EnvironmentProblem):  # what is missing was asked for all the same
                read(variables)
            asked |= variables.asked
    return asked


def test_every_setting_is_documented_and_only_those(tmp_path: Path) -> None:
    documented = set(re.findall(r"`([A-Za-z][A-Za-z0-9_]+)`", _table_heads(REFERENCE / "settings.md")))
    read = _variables(tmp_path) - NOT_OPERATORS
    assert read - documented == set()
    assert {name for name in documented - read if name.startswith("MEMORYHUB_EMBEDDING")} == set()
    assert {name for name in documented - read if name.startswith("MEMORYHUB_LLM")} == set()


def test_a_misspelt_setting_is_told_from_those_of_the_page() -> None:
    page = set(re.findall(r"MEMORYHUB_[A-Z_]+[A-Z]", (REFERENCE / "settings.md").read_text()))
    assert page == KNOWN_SETTINGS - {"MEMORYHUB_HEARTBEAT", "MEMORYHUB_PROCESS"}
    told = unknown_settings(
        {"MEMORYHUB_THROTTLE_PER_MINUT": "5", "MEMORYHUB_XYZ": "", "MEMORYHUB_WORKERS": "1", "HOME": "/"}
    )
    assert told == [
        "MEMORYHUB_THROTTLE_PER_MINUT is no setting and has no effect. Is MEMORYHUB_THROTTLE_PER_MINUTE meant?",
        "MEMORYHUB_XYZ is no setting and has no effect.",
    ]


def _table_heads(page: Path, beginning: str = "| `") -> str:
    lines = page.read_text().splitlines()
    return "\n".join(line.split("|")[1] for line in lines if line.startswith(beginning))


@pytest.mark.parametrize("policy", policy_classes(), ids=lambda policy: policy.__name__)
def test_every_policy_value_is_documented_as_the_form_says_it(policy: Any) -> None:
    page = (REFERENCE / "policies.md").read_text()
    defaults = policy().values()
    for key, check in policy.CHECKS.items():
        assert f"\n| `{key}` | `{json.dumps(defaults[key])}` | {check.allowed} | {check.meaning}" in page, key


def test_only_policy_values_are_documented() -> None:
    known = {key for policy in policy_classes() for key in policy.CHECKS}
    assert set(re.findall(r"^\| `(\w+)` \|", (REFERENCE / "policies.md").read_text(), re.MULTILINE)) == known


# Routes


def _routes(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        address = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern.url_patterns, address)
        elif isinstance(pattern, URLPattern):
            yield address, pattern.callback


def _calls() -> set[tuple[str, str]]:
    """Return every call under the prefix with the scope it needs."""
    calls = set()
    for address, callback in _routes(get_resolver().url_patterns):
        if not address.startswith("api/v1/"):
            continue
        view = getattr(callback, "cls", None) or callback.view_class
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", address.removeprefix("api/v1/"))
        scopes = getattr(view, "scopes", {"GET": "none"})
        calls |= {(f"{method} {path}", str(scope)) for method, scope in scopes.items()}
    return calls


def test_every_route_is_documented_with_its_scope_and_no_other() -> None:
    page = (REFERENCE / "api.md").read_text()
    documented = re.findall(r"^\| `([A-Z]+ [^`]+)` \| (\w+) \|", page, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert set(documented) == _calls()


def test_every_kind_of_job_is_documented_and_only_those() -> None:
    page = (DOCS / "howto" / "background-work.md").read_text(encoding="utf-8")
    section = page.partition("\n## What there is\n")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(told) == sorted(KINDS)


def test_help_of_make_starts_nothing(tmp_path: Path) -> None:
    """A backtick in its text would: the shell ran the whole test suite."""
    make, started = shutil.which("make"), tmp_path / "started"
    assert make
    (tmp_path / "make").write_text(f"#!/bin/sh\ntouch {started}\n")
    (tmp_path / "make").chmod(0o755)
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    answer = subprocess.run([make, "help"], cwd=CHECKOUT, env=variables, capture_output=True, text=True, timeout=60)
    assert "make test-slow" in answer.stdout
    assert (answer.returncode, answer.stderr, started.exists()) == (0, "", False)
