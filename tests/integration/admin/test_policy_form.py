"""Policies as forms: every value has a field, and an edit changes what a person changed and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub.auth.actions import set_actor_policy, update_agent
from memoryhub.auth.models import AuditEntry
from memoryhub.tenancy.models import Agent
from memoryhub.tenancy.policies import effective_values, policy_classes
from tests.integration.admin.conftest import BY, NOW, Hub, form_of, list_of, page_of

pytestmark = pytest.mark.django_db(transaction=False)

CHECKS = {key: check for policy in policy_classes() for key, check in policy.CHECKS.items()}


def save(browser: Client, row: Any, **changes: Any) -> Any:
    return browser.post(page_of(row), {**form_of(browser.get(page_of(row))), **changes})


def rows_of(browser: Client, row: Any) -> dict[str, dict[str, Any]]:
    form = browser.get(page_of(row)).context["adminform"].form
    return {each["key"]: each for group in form.groups for each in group["rows"]}


def overrides_of(row: Any) -> Any:
    row.refresh_from_db()
    return row.policy


def with_policy(hub: Hub, policy: dict[str, Any]) -> None:
    update_agent(agent_id="kana", values={"policy": policy}, expected_version=None, by=BY, now=NOW)


def test_every_value_has_a_title_and_a_sentence() -> None:
    assert [key for key, check in CHECKS.items() if not (check.title and check.meaning)] == []
    assert [policy.__name__ for policy in policy_classes() if not policy.TITLE] == []


def test_every_value_has_a_field_where_it_counts(boss: Client, hub: Hub) -> None:
    assert set(rows_of(boss, hub.agent)) == set(CHECKS)
    assert set(CHECKS) - set(rows_of(boss, hub.actor)) == {"daily_spend_cap", "daily_token_cap"}
    page = boss.get(page_of(hub.agent)).content.decode()
    assert all(f'name="policy_{key}' in page and f'aria-describedby="about_{key}"' in page for key in CHECKS)


def test_a_new_agent_has_the_fields_too(boss: Client) -> None:
    values = {**form_of(boss.get(list_of(Agent, "add"))), "agent_id": "yuno", "policy_recall_limit": "7"}
    assert boss.post(list_of(Agent, "add"), values).status_code == 302
    assert Agent.objects.get(pk="yuno").policy == {"recall_limit": 7}


@pytest.mark.parametrize(
    ("typed", "policy"),
    [
        ({"policy_recall_limit": "7"}, {"recall_limit": 7}),
        ({"policy_confidence_floor": "0.25"}, {"confidence_floor": 0.25}),
        ({"policy_include_recall": "false"}, {"include_recall": False}),
        ({"policy_cache": "true"}, {"cache": True}),
        ({"policy_decay_clock": "task"}, {"decay_clock": "task"}),
        ({"policy_time_zone": "Asia/Tokyo"}, {"time_zone": "Asia/Tokyo"}),
        ({"policy_untrusted_channels": "github\r\nslack, all"}, {"untrusted_channels": ["github", "slack, all"]}),
        ({"policy_system_prompt": "One\r\ntwo "}, {"system_prompt": "One\ntwo "}),
        ({"policy_daily_spend_cap": "2.5"}, {"daily_spend_cap": 2.5}),
        (
            {
                "policy_score_weights_similarity": "0.6",
                "policy_score_weights_strength": "0.2",
                "policy_score_weights_recency": "0.2",
            },
            {"score_weights": {"similarity": 0.6, "strength": 0.2, "recency": 0.2}},
        ),
        (
            {f"policy_consolidation_thresholds_{level}": str(level * 2) for level in range(6)},
            {"consolidation_thresholds": [0, 2, 4, 6, 8, 10]},
        ),
        ({"policy_layer_budgets_pinned": "0.3"}, {"layer_budgets": {"pinned": 0.3}}),
    ],
)
def test_what_is_changed_becomes_an_override(
    boss: Client, hub: Hub, typed: dict[str, str], policy: dict[str, Any]
) -> None:
    response = save(boss, hub.agent, **typed)
    assert response.status_code == 302, response.context["adminform"].form.errors
    assert overrides_of(hub.agent) == policy
    assert AuditEntry.objects.get(object_kind="agent", verb="update").details == {"fields": ["policy"]}


def test_a_form_that_is_saved_as_it_came_changes_nothing(boss: Client, hub: Hub) -> None:
    stored = effective_values(None, None)
    with_policy(hub, stored)
    assert save(boss, hub.agent).status_code == 302
    assert (overrides_of(hub.agent), hub.agent.version) == (stored, 2)


@pytest.mark.parametrize(
    "typed", [{"policy_recall_limit": "100"}, {"policy_recall_limit": ""}, {"reset_recall_limit": "on"}]
)
def test_a_value_set_back_is_no_override_any_more(boss: Client, hub: Hub, typed: dict[str, str]) -> None:
    with_policy(hub, {"recall_limit": 7, "cache": True})
    assert save(boss, hub.agent, **typed).status_code == 302
    assert overrides_of(hub.agent) == {"cache": True}


def test_a_cap_is_taken_off(boss: Client, hub: Hub) -> None:
    with_policy(hub, {"daily_spend_cap": 2.5})
    assert save(boss, hub.agent, policy_daily_spend_cap="").status_code == 302
    assert overrides_of(hub.agent) == {}


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("recall_limit", "201"),
        ("recall_limit", "many"),
        ("confidence_floor", "1.5"),
        ("confidence_floor", "nan"),
        ("time_zone", "Tokyo"),
        ("decay_clock", "sun"),
        ("cache", "perhaps"),
        ("untrusted_channels", "x" * 256),
    ],
)
def test_a_wrong_value_is_refused_beside_its_field(boss: Client, hub: Hub, name: str, typed: str) -> None:
    response = save(boss, hub.agent, **{f"policy_{name}": typed, "name": "Mine"})
    form = response.context["adminform"].form
    assert list(form.errors) == [f"policy_{name}"]
    assert (form[f"policy_{name}"].value(), form["name"].value()) == (typed, "Mine")
    assert [group["wrong"] for group in form.groups].count(True) == 1
    assert overrides_of(hub.agent) == {}


@pytest.mark.parametrize("typed", ["", "0.9", "x"])
def test_wrong_parts_are_refused_and_stay(boss: Client, hub: Hub, typed: str) -> None:
    rest = {"policy_score_weights_strength": "0.3", "policy_score_weights_recency": "0.2"}
    response = save(boss, hub.agent, policy_score_weights_similarity=typed, **rest)
    assert list(response.context["adminform"].form.errors) == ["policy_score_weights"]
    assert 'value="0.3"' in response.content.decode() and overrides_of(hub.agent) == {}


def test_fields_and_json_are_taken_together_and_fields_go_before(boss: Client, hub: Hub) -> None:
    json = '{"recall_limit": 7, "working_memory_limit": 3}'
    assert save(boss, hub.agent, policy=json, policy_recall_limit="9").status_code == 302
    assert overrides_of(hub.agent) == {"recall_limit": 9, "working_memory_limit": 3}


def test_a_users_value_goes_before_the_agents(boss: Client, hub: Hub) -> None:
    with_policy(hub, {"recall_limit": 7})
    row = rows_of(boss, hub.actor)["recall_limit"]
    assert (row["field"].value(), row["default"], row["of_agent"], row["is_changed"]) == (7, "100", "7", False)
    assert save(boss, hub.actor, policy_recall_limit="200").status_code == 302
    assert overrides_of(hub.actor) == {"recall_limit": 200}
    assert rows_of(boss, hub.actor)["recall_limit"]["is_changed"]
    assert save(boss, hub.actor, reset_recall_limit="on").status_code == 302
    assert overrides_of(hub.actor) == {}


def test_a_users_policy_changed_meanwhile_is_not_overwritten_unasked(boss: Client, hub: Hub) -> None:
    values = {**form_of(boss.get(page_of(hub.actor))), "policy_recall_limit": "9"}
    set_actor_policy(actor=hub.actor, policy={"cache": True}, by=BY, now=NOW)
    response = boss.post(page_of(hub.actor), values)
    assert "changed while you edited" in response.content.decode()
    assert overrides_of(hub.actor) == {"cache": True}
    assert boss.post(page_of(hub.actor), form_of(response)).status_code == 302
    assert overrides_of(hub.actor)["recall_limit"] == 9


def test_who_may_only_look_sees_the_values(staff: Callable[..., Client], hub: Hub) -> None:
    with_policy(hub, {"recall_limit": 7})
    page = staff("view_agent", "view_actor").get(page_of(hub.agent)).content.decode()
    assert "<strong>7</strong>" in page and 'name="policy' not in page and 'name="reset' not in page


def test_help_names_choices_as_the_field_does(boss: Client, hub: Hub) -> None:
    meaning = str(rows_of(boss, hub.agent)["second_reviewer"]["meaning"])
    assert meaning.startswith("“two people”: a memory") and "<code>" not in meaning
    japanese = {"accept-language": "ja"}
    assert "「2人」：" in boss.get(page_of(hub.agent), headers=japanese).content.decode()
