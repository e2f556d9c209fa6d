"""Dashboard, alert rules and pages name metrics that are exported, and every exported one is documented."""

import json
import re
from typing import Any

import pytest
import yaml
from prometheus_client import REGISTRY, Counter, Histogram
from prometheus_client.parser import text_string_to_metric_families
from pytest_django.asserts import assertContains
from rest_framework.test import APIClient

import conversations.actions.context
from memoryhub.db import replicas
from memoryhub.env import CHECKOUT
from memoryhub.jobs.status import DatabaseCollector
from memoryhub.webhooks.models import DISABLED, Endpoint

METRIC = re.compile(r"\b(?:context|memory|memoryhub|session)_\w+")
MONITORING = CHECKOUT / "docs" / "monitoring"
PAGES = {name: (CHECKOUT / "docs" / name).read_text() for name in ("reference/metrics.md", "howto/monitoring.md")}
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ALERTED = [
    "memoryhub_calls_today{operation!~", "memoryhub_calls_today{operation=~", "memoryhub_job_wait_seconds",
    'memoryhub_jobs{state=~"failed|dead"}', 'memoryhub_webhooks{state="disabled"}', "memoryhub_expectations_broken",
    "memoryhub_workers == 0", "memoryhub_database_up == 0", "memoryhub_disk_free_bytes",
]  # fmt: skip


def own_collectors() -> list[Any]:
    modules = [*vars(conversations.actions.context).values(), replicas.READS]
    return [each for each in modules if isinstance(each, Counter | Histogram)] + DatabaseCollector.instances


def own_metrics() -> set[str]:
    own = {id(collector) for collector in own_collectors()}
    return {name for collector, names in REGISTRY._collector_to_names.items() if id(collector) in own for name in names}


def names_in(expression: str) -> set[str]:
    """Return the metrics of an expression; what is quoted is a value of a label."""
    return set(METRIC.findall(re.sub(r'"[^"]*"', '""', expression)))


def test_every_alert_rule_reads_metrics_that_exist() -> None:
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    assert set().union(*(names_in(rule["expr"]) for rule in RULES)) - recorded <= own_metrics()
    assert any("context_assembly_latency_ms_bucket" in rule["expr"] and "> 100" in rule["expr"] for rule in RULES)


def test_every_alert_has_a_severity_and_a_summary_and_is_documented() -> None:
    alerts = [rule for rule in RULES if "alert" in rule]
    for rule in alerts:
        assert rule["labels"]["severity"] in ("critical", "warning", "info") and rule["annotations"]["summary"]
    documented = re.findall(r"`(Memoryhub\w+)`", PAGES["howto/monitoring.md"].partition("## What is alerted")[2])
    assert sorted(documented) == sorted(rule["alert"] for rule in alerts)


@pytest.mark.parametrize("part", ALERTED)
def test_what_needs_a_person_is_alerted(part: str) -> None:
    assert any(part in rule["expr"] for rule in RULES if "alert" in rule)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_panel_has_queries_of_metrics_that_exist(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        assert names_in(target["expr"]) and names_in(target["expr"]) <= own_metrics()


def test_panels_have_their_own_ids_and_places() -> None:
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _y in cells) < 24
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_every_metric_is_documented_and_in_the_dashboard() -> None:
    names = {metric.name for collector in own_collectors() for metric in collector.describe()}
    assert {name for name in names if f"\n| `{name}` | " not in PAGES["reference/metrics.md"]} == set()
    shown = " ".join(target["expr"] for panel in PANELS for target in panel["targets"])
    assert {name for name in names if name not in shown} == set()


def test_documented_metrics_are_exported() -> None:
    documented = set(re.findall(r"^\| `(\w+)` \| (?:gauge|counter|histogram)", PAGES["reference/metrics.md"], re.M))
    assert documented == {metric.name for collector in own_collectors() for metric in collector.describe()}


@pytest.mark.django_db
def test_webhooks_and_broken_expectations_are_counted(client: APIClient) -> None:
    for state, failures in [("active", 0), ("active", 3), (DISABLED, 20)]:
        Endpoint.objects.create(url="https://hooks.example.org", secret="-", state=state, failures=failures)
    answer = client.get("/metrics")
    assertContains(answer, "memoryhub_expectations_broken 0.0")
    families = {family.name: family for family in text_string_to_metric_families(answer.content.decode())}
    states = {sample.labels["state"]: sample.value for sample in families["memoryhub_webhooks"].samples}
    assert states == {"active": 1, "failing": 1, "disabled": 1}
