"""Rules that every table row obeys: models, routes, settings, dotted paths (STYLE, Tests)."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.core.checks import run_checks
from django.db import models
from django.test import override_settings
from django.utils.module_loading import import_string
from rest_framework.test import APIClient

from conversations.models import Message
from memoryhub.api.errors import STATUS
from memoryhub.auth.erasure import actor_models
from memoryhub.auth.principals import command
from memoryhub.errors import DomainError
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.tenancy import policies
from memoryhub.tenancy.policies import policy_classes
from memoryhub.webhooks.models import Event
from strength.models import MemoryChange
from summaries.actions.documents import append_entry
from summaries.models import Project, RoutingDecision
from tests.factories.planting import Planted, body_of, plant_first
from tests.factories.routes import NEEDS_NO_KEY, Route, api_routes, closed_routes

# The tenant rule (SPEC A3)

UNIQUE_WITHOUT_ACTOR = {
    # A key's own call; `actor` is whom it was about, and is not known before the answer.
    "idempotency_once": "api_key"
}
"""Unique constraints of actors' tables that do not name `actor`, with the field that keeps actors apart."""

pytestmark = pytest.mark.usefixtures("llm")


def uniques() -> Iterator[tuple[type[models.Model], str, set[str]]]:
    """Yield each uniqueness of every actor's table, apart from the primary key: model, name and fields."""
    for model in actor_models():
        for constraint in model._meta.constraints:
            if isinstance(constraint, models.UniqueConstraint):
                yield model, constraint.name, set(constraint.fields)
        for fields in model._meta.unique_together:
            yield model, f"unique_together {fields}", set(fields)
        for field in model._meta.concrete_fields:
            if field.unique and not field.primary_key:
                yield model, f"{model._meta.label}.{field.name}", {field.name}


def test_actor_tables_are_found() -> None:
    labels = {model._meta.label for model in actor_models()}
    assert {"conversations.Message", "conversations.Receipt", "strength.Memory", "strength.MemoryIndex"} <= labels


def test_unique_constraints_include_the_actor() -> None:
    wrong = [
        (model._meta.label, name)
        for model, name, fields in uniques()
        if "actor" not in fields and UNIQUE_WITHOUT_ACTOR.get(name) not in fields
    ]
    assert not wrong, "two actors could collide here; include `actor`, or explain it in UNIQUE_WITHOUT_ACTOR"


def test_exceptions_to_the_tenant_rule_are_still_needed() -> None:
    needed = {name for _, name, fields in uniques() if "actor" not in fields}
    assert set(UNIQUE_WITHOUT_ACTOR) == needed


def test_tables_that_refer_to_actors_rows_name_the_actor() -> None:
    """A table that hangs on an actor's row carries `actor_id` itself, so that it can be distributed and erased."""
    owned = set(actor_models())
    for model in apps.get_models():
        for field in model._meta.concrete_fields:
            if field.related_model in owned:
                assert model in owned, f"{model._meta.label}.{field.name} refers to an actor's row, and has no actor"


def test_rows_of_actors_go_with_the_actor() -> None:
    """But for the accounts, and the feeds that report the erasure: their rows lose the user."""
    for model in actor_models():
        if model in (LedgerEntry, MemoryChange, Event):
            assert model._meta.get_field("actor").remote_field.on_delete is models.SET_NULL
            continue
        assert model._meta.get_field("actor").remote_field.on_delete is models.CASCADE, model  # type: ignore[union-attr]


# Routes


@pytest.mark.parametrize("route", closed_routes(), ids=lambda route: route.name)
def test_view_has_a_scope_for_each_method_and_no_other(route: Route) -> None:
    scopes = getattr(route.view, "scopes", {})
    assert {method.lower() for method in scopes} == set(route.methods)


def test_open_routes_are_only_the_interfaces_description() -> None:
    opened = [route.name for route in api_routes() if not getattr(route.view, "scopes", None)]
    assert set(opened) == NEEDS_NO_KEY == {"schema", "docs"}


def test_addresses_have_names_and_no_final_slash() -> None:
    names = [route.name for route in api_routes()]
    assert len(names) == len(set(names)) and all(names)
    assert not [route.template for route in api_routes() if route.template.endswith("/")]


UNRECORDED = {"agent-what-if"}
"""Changes nothing, and its answer quotes users whose erasure would not find it."""

SHOWN_ONCE = "secret"
"""A field that a repeat does not have, as no answer with it is recorded."""

POSTS = [route for route in closed_routes() if "post" in route.methods and route.name not in UNRECORDED]
IN_A_STATE = {"memory-approve": "pending_id", "memory-reject": "pending_id", "memory-reactivate": "archived_id"}
"""Verbs that want a memory in another state than `active`."""


@pytest.mark.parametrize("route", POSTS, ids=lambda route: route.name)
def test_every_post_is_idempotent(client: APIClient, route: Route) -> None:
    planted = plant_first()
    address = route.address(place_ids(client, route, planted))
    if "project_name" in route.places:
        address += f"?agent_id={planted.agent_id}&user_id={planted.user_id}"
    body = body_of(route.name, "post", planted)
    first = client.post(address, body, headers={"Idempotency-Key": "once"})
    assert first.status_code in (200, 201, 202), first.content
    assert "Idempotent-Replay" not in first.headers
    before = counts()
    repeat = client.post(address, body, headers={"Idempotency-Key": "once"})
    assert repeat.headers.get("Idempotent-Replay") == "true"
    shown = {name: value for name, value in first.json().items() if name != SHOWN_ONCE}
    assert repeat.status_code == first.status_code
    assert {name: value for name, value in repeat.json().items() if name != SHOWN_ONCE} == shown
    assert repeat.headers.get("ETag") == first.headers.get("ETag")
    assert counts() == before
    reused = client.post(address, {**(body or {}), "reason": "another"}, headers={"Idempotency-Key": "once"})
    assert (reused.status_code, reused.json()["code"]) == (422, "idempotency_key_reused")


def place_ids(client: APIClient, route: Route, planted: Planted) -> dict[str, Any]:
    if IN_A_STATE.get(route.name) == "archived_id":
        client.post(f"/api/v1/memories/{planted.ids['memory_id']}/archive", {})
    if route.name == "merge-undo":
        client.post(f"/api/v1/merges/{planted.ids['merge_id']}/accept", {})
    if route.name == "profile":
        client.patch(f"/api/v1/agents/{planted.agent_id}", {"policy": {"write_profile": True}})
    if route.name == "route-misplaced":
        misplace(client, planted)
    if IN_A_STATE.get(route.name) == "pending_id":
        return {**planted.ids, "memory_id": planted.ids["pending_id"]}
    return dict(planted.ids)


def misplace(client: APIClient, planted: Planted) -> None:
    """Let an entry come from a message after a decision that is then corrected."""
    session_id, decisions = (planted.ids["session_id"], RoutingDecision.objects.filter(pk=planted.ids["route_id"]))
    decisions.update(session=session_id, project=Project.objects.get(name=planted.ids["project_name"]))
    decision, message = decisions.get(), Message.objects.filter(session=session_id).latest("seq")
    Message.objects.filter(pk=message.pk).update(created_at=decision.created_at + timedelta(seconds=1))
    append_entry(
        project=decision.project,
        document_name="decisions.md",
        text="of another project",
        by=command("test"),
        sources={"message_ids": [str(message.pk)], "channel": "slack"},
        now=datetime.now(UTC),
    )
    client.post(f"/api/v1/projects/routes/{decision.pk}/correct", {"project": "tea-garden"})


def counts() -> dict[str, int]:
    return {model._meta.label: model._default_manager.count() for model in apps.get_models()}


def test_each_domain_error_with_a_code_has_a_status() -> None:
    def kinds(error: type[DomainError]) -> Iterator[type[DomainError]]:
        for kind in error.__subclasses__():
            yield kind
            yield from kinds(kind)

    assert {kind.code for kind in kinds(DomainError)} - {""} == STATUS.keys()


# Settings (that each is documented is tested in test_docs)


@pytest.mark.parametrize("table", ["CONTEXT_LAYERS", "POLICIES", "INSTALLED_APPS_OF_OURS"])
def test_dotted_paths_resolve(table: str) -> None:
    paths = getattr(settings, table, None) or [
        app.name
        for app in apps.get_app_configs()
        if Path(app.path).is_relative_to(settings.BASE_DIR / app.name.split(".")[0])
    ]
    assert paths
    for path in paths:
        assert import_string(path) if table != "INSTALLED_APPS_OF_OURS" else __import__(path)


def test_policy_keys_belong_to_one_policy() -> None:
    keys = [key for policy in policy_classes() for key in policy.CHECKS]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("policy", policy_classes(), ids=lambda policy: policy.__name__)
def test_policy_defaults_obey_their_own_rules(policy: Any) -> None:
    values = policy().values()
    assert policy.from_overrides(values).values() == values


class CopyOfTrust(import_string("memoryhub.tenancy.policy.TrustPolicy")):  # type: ignore[misc]
    """A policy whose keys another has already."""


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"CONTEXT_LAYERS": ["conversations.context_layers.nothing"]}, "memoryhub.E001"),
        ({"CONTEXT_LAYERS": ["nowhere.at.all"]}, "memoryhub.E001"),
        ({"POLICIES": [*settings.POLICIES, "strength.domain.policy.NoPolicy"]}, "memoryhub.E001"),
        ({"POLICIES": [*settings.POLICIES, f"{__name__}.CopyOfTrust"]}, "memoryhub.E002"),
        ({"POLICIES": [*settings.POLICIES, "strength.context_layers.semantic"]}, "memoryhub.E003"),
    ],
)
def test_checks_find_bad_settings(changed: dict[str, Any], code: str) -> None:
    with override_settings(**changed):
        found: list[Callable[..., Any] | Any] = [
            *policies.dotted_paths_import(None),
            *policies.policy_keys_are_unique(None),
        ]
        assert code in {message.id for message in found}
        assert code in {message.id for message in run_checks()}, "the check is registered"


def test_checks_are_silent_on_good_settings() -> None:
    assert [*policies.dotted_paths_import(None), *policies.policy_keys_are_unique(None)] == []
