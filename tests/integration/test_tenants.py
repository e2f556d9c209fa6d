"""Nobody sees another's data: every route of the URLconf, every method, every sort of key (SPEC A3, A10)."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4, uuid5

import pytest
from rest_framework.test import APIClient

from memoryhub.auth.actions import revoke_key
from memoryhub.auth.models import ApiKey
from memoryhub.auth.principals import Forbidden, Scope, command
from memoryhub.tenancy.policy import actor_id
from strength.actions.revisions import undo_revision
from strength.models import Memory
from tests.conftest import client_with_key
from tests.factories.planting import API, BODIES, Planted, body_of, plant, plant_first
from tests.factories.routes import Route, api_routes, closed_routes

CALLS = [(route, method) for route in closed_routes() for method in route.methods]
pytestmark = pytest.mark.usefixtures("llm")

LISTS_OF_AGENTS = ("agents", "openai-models", "anthropic-models", "webhooks")

TELLS_OF_AGENTS = {"agent", "openai-model", "anthropic-count-tokens", *LISTS_OF_AGENTS}
"""Calls about an agent whoever its users are."""

REACHED = {200, 201, 202, 204, 409}
"""The call got to the row; 409: the row is in another state than the verb wants."""

each_call = pytest.mark.parametrize(
    ("route", "method"), CALLS, ids=[f"{method}-{route.name}" for route, method in CALLS]
)


@pytest.fixture
def planted(client: APIClient) -> Planted:
    return plant_first()


def call(client: APIClient, route: Route, method: str, planted: Planted) -> Any:
    """Make one call about the planted rows, with a body that the call accepts."""
    address = route.address(planted.ids)
    is_list = method in ("get", "patch", "delete", "head") and not route.places and route.name not in LISTS_OF_AGENTS
    if is_list or "project_name" in route.places:
        address += f"?agent_id={planted.agent_id}&user_id={planted.user_id}"
    send: Callable[..., Any] = getattr(client, method)
    body = body_of(route.name, method, planted)
    return send(address) if body is None else send(address, body, format="json")


def keyless() -> APIClient:
    return APIClient()


def expired() -> APIClient:
    return client_with_key(expires_at=datetime.now(UTC) - timedelta(seconds=1))


def revoked() -> APIClient:
    client = client_with_key(name="revoked")
    revoke_key(key=ApiKey.objects.get(name="revoked"), by=command("test"), now=datetime.now(UTC))
    return client


def misspelt() -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION="Bearer mh_0123456789_nobody")
    return client


def test_routes_are_all_found() -> None:
    assert {"sessions", "messages", "context", "receipt", "memories", "memory", "agents", "actors"} <= {
        route.name for route in api_routes()
    }
    assert len(CALLS) >= 30


@each_call
def test_scope_is_declared(route: Route, method: str) -> None:
    assert method.upper() in getattr(route.view, "scopes", {}), f"{route.name}: no scope for {method.upper()}"
    assert isinstance(route.view.scopes[method.upper()], Scope)


def test_places_are_all_planted(planted: Planted) -> None:
    missing = {place for route in closed_routes() for place in route.places} - set(planted.ids)
    assert not missing, f"plant() makes no row for {missing}; without one their routes are not tested."


def test_bodies_are_all_used() -> None:
    assert set(BODIES) <= {(route.name, method) for route, method in CALLS}


@pytest.mark.parametrize("make_client", [keyless, expired, revoked, misspelt])
def test_without_a_usable_key_every_call_is_401(planted: Planted, make_client: Callable[[], APIClient]) -> None:
    client = make_client()
    for route, method in [*CALLS, *((route, each) for route in closed_routes() for each in ("head", "options"))]:
        answer = call(client, route, method, planted)
        assert answer.status_code == 401, (route.name, method, answer.status_code)
        assert answer["WWW-Authenticate"].startswith("Bearer")
        if method != "head":
            assert answer.json()["code"] in {"not_authenticated", "authentication_failed"}


@each_call
def test_each_call_needs_its_scope(planted: Planted, route: Route, method: str) -> None:
    needed = route.view.scopes[method.upper()]  # type: ignore[attr-defined]
    without = client_with_key(scopes=[scope for scope in Scope if scope is not needed])
    refused = call(without, route, method, planted)
    assert refused.status_code == 403, refused.content
    assert refused.json()["code"] == "permission_denied"
    assert call(client_with_key(scopes=[needed]), route, method, planted).status_code in REACHED


def test_head_needs_what_get_needs(planted: Planted) -> None:
    writer = client_with_key(scopes=[Scope.WRITE])
    readers = {scope: client_with_key(scopes=[scope]) for scope in (Scope.READ, Scope.ADMIN)}
    for route in (route for route in closed_routes() if "get" in route.methods):
        assert call(writer, route, "head", planted).status_code == 403, route.name
        reader = readers[route.view.scopes["GET"]]  # type: ignore[attr-defined]
        assert call(reader, route, "head", planted).status_code == 200, route.name


def test_read_key_writes_nothing(planted: Planted) -> None:
    client = client_with_key(scopes=[Scope.READ])
    writes = [(route, method) for route, method in CALLS if route.view.scopes[method.upper()] is not Scope.READ]  # type: ignore[attr-defined]
    assert len(writes) >= 15
    before = everything()
    for route, method in writes:
        assert call(client, route, method, planted).status_code == 403, (route.name, method)
    assert everything() == before


def strangers() -> Iterator[tuple[str, Callable[[], APIClient], bool]]:
    """Yield keys that may do everything, but not with the planted user; True where the agent is closed as well."""
    yield "another agent's key", lambda: client_with_key(agent_ids=["other"]), True
    yield ("another agent's and user's key", lambda: client_with_key(agent_ids=["other"], user_id="mallory"), True)
    yield ("another agent's key of the same user", lambda: client_with_key(agent_ids=["other"], user_id="hiroki"), True)
    yield "another user's key", lambda: client_with_key(user_id="mallory"), False
    yield ("another user's key of the agent", lambda: client_with_key(agent_ids=["kana"], user_id="mallory"), False)


TRIED_DAILY = ("another agent's key", "another user's key")


@pytest.mark.parametrize(
    ("make_stranger", "is_closed_to_agent"),
    [
        pytest.param(make, closed, id=name, marks=[] if name in TRIED_DAILY else pytest.mark.slow)
        for name, make, closed in strangers()
    ],
)
def test_strangers_learn_and_change_nothing(
    client: APIClient, planted: Planted, make_stranger: Callable[[], APIClient], is_closed_to_agent: bool
) -> None:
    plant(client, agent_id="other", user_id="mallory")
    stranger = make_stranger()
    before = everything()
    for route, method in CALLS:
        answer = call(stranger, route, method, planted)
        said = answer.getvalue().decode()
        assert planted.user_mark not in said, (route.name, method, said)
        assert not is_closed_to_agent or planted.agent_mark not in said, (route.name, method, said)
        lists_own = route.name in TELLS_OF_AGENTS and (method == "get" or route.name == "anthropic-count-tokens")
        # Of the lists, that of webhooks is closed to keys of one user.
        allowed = {200, 404, 403} if route.name == "webhooks" else {200, 404}
        assert answer.status_code in (allowed if lists_own else {403, 404}), (route.name, method, said)
    assert everything() == before


def test_owner_reaches_every_call(planted: Planted) -> None:
    """The control of the test above: the same calls reach the rows with a key that may."""
    client = client_with_key(agent_ids=["kana"], user_id="hiroki")
    for route, method in CALLS:
        if method == "delete" or route.name == "agents":
            continue
        of_agent = {("agent", "patch"), ("agent-what-if", "post")}
        is_of_agent = (route.name, method) in of_agent or route.name.startswith("webhook")
        expected = {403} if is_of_agent else REACHED
        answer = call(client, route, method, planted)
        assert answer.status_code in expected, (route.name, method, answer.getvalue())
        if method == "get" and route.name in {"session", "messages", "memory", "receipt"}:
            assert planted.user_mark in answer.content.decode()


def test_unknown_and_foreign_ids_look_alike(planted: Planted) -> None:
    stranger = client_with_key(agent_ids=["other"])
    unknown = Planted(**{**planted.__dict__, "ids": {**planted.ids}})
    ids = [place for place in unknown.ids if place.endswith("_id") and place not in ("agent_id", "user_id")]
    for place in ids:
        unknown.ids[place] = "0198d1a2-0000-7000-8000-000000000000"
    tried = 0
    for route, method in CALLS:
        if not set(ids) & set(route.places):
            continue
        foreign, missing = (call(stranger, route, method, each) for each in (planted, unknown))
        assert foreign.status_code == missing.status_code == 404, (route.name, method)
        assert same_but_ids(foreign.json(), planted) == same_but_ids(missing.json(), unknown)
        tried += 1
    assert tried >= 40


OTHERS = {"agent_id": "other", "user_id": "mallory"}
CREATIONS: dict[str, Callable[[APIClient, str], Any]] = {
    "session": lambda client, key: client.post(f"{API}/sessions", {**OTHERS, "session_id": key}),
    "chat": lambda client, key: client.post(f"{API}/chat", {**OTHERS, "session_id": key, "message": "Hello there"}),
    "context": lambda client, key: client.post(f"{API}/context", {**OTHERS, "session_id": key, "message": "Hello"}),
}


@pytest.mark.parametrize("create", CREATIONS.values(), ids=CREATIONS)
def test_creating_with_a_foreign_id_is_as_with_a_free_one(
    client: APIClient, planted: Planted, create: Callable[[APIClient, str], Any]
) -> None:
    client.post(f"{API}/sessions", OTHERS)
    stranger, free, foreign = client_with_key(agent_ids=["other"]), str(uuid4()), planted.ids["session_id"]
    answers = {key: create(stranger, key) for key in (free, foreign)}
    assert len({answer.status_code for answer in answers.values()}) == 1, answers
    shapes = {
        key: sorted((name, value == key) for name, value in answer.json().items()) for key, answer in answers.items()
    }
    assert shapes[free] == shapes[foreign]


def test_a_session_under_a_foreign_id_is_its_owners(client: APIClient, planted: Planted) -> None:
    client.post(f"{API}/sessions", OTHERS)
    stranger, key = client_with_key(agent_ids=["other"]), planted.ids["session_id"]
    before = client.get(f"{API}/sessions/{key}").json()
    for _twice in range(2):
        opened = stranger.post(f"{API}/sessions", {**OTHERS, "session_id": key})
        assert opened.json()["id"] == key
    assert opened.status_code == 200, "the second call found it"
    assert stranger.post(f"{API}/sessions/{key}/messages", {"role": "user", "content": "Mine"}).status_code == 201
    listed = stranger.get(f"{API}/sessions/{key}/messages").json()["results"]
    assert [each["content"] for each in listed] == ["Mine"]
    own = client_with_key(agent_ids=[planted.agent_id], user_id=planted.user_id)
    assert own.get(f"{API}/sessions/{key}").json() == before
    assert "Mine" not in own.get(f"{API}/sessions/{key}/messages").content.decode()


def test_a_named_conversation_cannot_be_occupied(client: APIClient, planted: Planted) -> None:
    """The id that a name leads to is computed from public values."""
    client.post(f"{API}/sessions", OTHERS)
    occupied = uuid5(actor_id(planted.agent_id, planted.user_id), "session:standup")
    stranger = client_with_key(agent_ids=["other"])
    assert stranger.post(f"{API}/sessions", {**OTHERS, "session_id": str(occupied)}).status_code == 201
    own = client_with_key(agent_ids=[planted.agent_id], user_id=planted.user_id)
    body = {"agent_id": planted.agent_id, "user_id": planted.user_id, "session_id": str(occupied)}
    assert own.post(f"{API}/sessions", body).status_code == 201
    assert own.get(f"{API}/sessions/{occupied}").json()["user_id"] == planted.user_id


def same_but_ids(body: dict[str, Any], planted: Planted) -> str:
    text = json.dumps(body)
    for value in planted.ids.values():
        text = text.replace(value, "ID")
    return text


def everything() -> dict[str, list[Any]]:
    """Return the rows of every model but those that reads may touch: a key's last use."""
    from django.apps import apps

    return {
        model._meta.label: list(model._default_manager.order_by("pk").values_list())
        for model in apps.get_models()
        if model is not ApiKey
    }


# Scopes of memories (SPEC M2)

SEARCHES = {
    "search": lambda client, names: found_texts(
        client.post(f"{API}/memories/search", {**names, "query": "umbrella stand", "similarity_threshold": -1})
    ),
    "retrieve": lambda client, names: [
        result["memory"]["content"]
        for group in answered(
            client.post(
                f"{API}/memories/retrieve",
                {**names, "query": "umbrella stand", "config": {"/notes/": {"top_k": 50, "relevance_score": 0}}},
            )
        )["namespaces"].values()
        for result in group
    ],
    "context": lambda client, names: [
        item["excerpt"]
        for item in receipt_items(
            client, answered(client.post(f"{API}/context", {**names, "message": "umbrella stand"}))
        )
        if item["layer"] in {"semantic", "pinned"}
    ],
}
each_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)


def answered(response: Any) -> Any:
    assert response.status_code == 200, response.content
    return response.json()


def found_texts(response: Any) -> list[str]:
    return [result["memory"]["content"] for result in answered(response)["results"]]


def receipt_items(client: APIClient, context: Any) -> list[Any]:
    if context["receipt_id"] is None:
        return []
    return answered(client.get(f"{API}/receipts/{context['receipt_id']}"))["items"]


def remember(client: APIClient, text: str, **values: Any) -> Any:
    response = client.post(f"{API}/memories", {"content": f"{text} umbrella stand", **values})
    assert response.status_code == 201, response.content
    return response.json()


def seen(texts: list[str]) -> set[str]:
    return {text.split()[0] for text in texts}


def test_a_persons_memories_cannot_be_shared(client: APIClient) -> None:
    for level in ("domain", "universal"):
        body = {"agent_id": "kana", "user_id": "hiroki", "content": "x", "scope_level": level, "scope_domain": "tea"}
        refused = client.post(f"{API}/memories", body)
        assert refused.status_code == 400
        assert refused.json()["errors"][0]["field"] == "scope_level"
        kept = remember(client, f"for-{level}", agent_id="kana", user_id="hiroki")
        edited = client.patch(f"{API}/memories/{kept['id']}", {"scope_level": level, "scope_domain": "tea"})
        assert edited.status_code == 400


@each_search
def test_own_and_the_agents_memories_are_seen_and_nobody_elses(client: APIClient, search: Any) -> None:
    remember(client, "hirokis", agent_id="kana", user_id="hiroki")
    remember(client, "aois", agent_id="kana", user_id="aoi")
    remember(client, "kanas", agent_id="kana")
    remember(client, "yunos", agent_id="yuno")
    remember(client, "yunos-hirokis", agent_id="yuno", user_id="hiroki")
    assert seen(search(client, {"agent_id": "kana", "user_id": "hiroki"})) == {"hirokis", "kanas"}
    assert seen(search(client, {"agent_id": "kana"})) == {"kanas"}
    assert seen(search(client, {"agent_id": "kana", "user_id": "nobody"})) <= {"kanas"}


@each_search
def test_domain_and_universal_memories_reach_those_they_are_for(client: APIClient, search: Any) -> None:
    for agent_id, domain, related in (
        ("sender", "tea", []),
        ("same", "tea", []),
        ("related", "art", ["tea"]),
        ("far", "art", []),
    ):
        created = client.post(f"{API}/agents", {"agent_id": agent_id, "domain": domain, "related_domains": related})
        assert created.status_code == 201
        remember(client, f"{agent_id}-user", agent_id=agent_id, user_id="hiroki")
    remember(client, "private", agent_id="sender")
    remember(client, "of-domain", agent_id="sender", scope_level="domain")
    remember(client, "of-all", agent_id="sender", scope_level="universal")
    remember(client, "of-art", agent_id="sender", scope_level="domain", scope_domain="art")
    hiroki = {"user_id": "hiroki"}
    assert seen(search(client, {"agent_id": "same", **hiroki})) == {"same-user", "of-domain", "of-all"}
    assert seen(search(client, {"agent_id": "related", **hiroki})) == {"related-user", "of-domain", "of-all", "of-art"}
    assert seen(search(client, {"agent_id": "far", **hiroki})) == {"far-user", "of-all", "of-art"}
    own = {"sender-user", "private", "of-domain", "of-all", "of-art"}
    assert seen(search(client, {"agent_id": "sender", **hiroki})) == own
    narrow = client_with_key(agent_ids=["same"])
    assert seen(search(narrow, {"agent_id": "same", **hiroki})) == {"same-user"}, "its key may not touch `sender`"
    pair = client_with_key(agent_ids=["same", "sender"], user_id="hiroki")
    assert seen(search(pair, {"agent_id": "same"})) == {"same-user", "of-domain", "of-all"}


@each_search
def test_a_key_bound_to_a_user_sees_that_user_alone(client: APIClient, search: Any) -> None:
    remember(client, "hirokis", agent_id="kana", user_id="hiroki")
    remember(client, "aois", agent_id="kana", user_id="aoi")
    bound = client_with_key(agent_ids=["kana"], user_id="hiroki")
    assert seen(search(bound, {"agent_id": "kana"})) == {"hirokis"}
    listed = bound.get(f"{API}/memories?agent_id=kana").json()["results"]
    assert [memory["user_id"] for memory in listed] == ["hiroki"]
    for other in ("aoi", ""):
        assert (
            bound.post(f"{API}/memories/search", {"agent_id": "kana", "user_id": other, "query": "x"}).status_code
            == 403
        )
        assert bound.get(f"{API}/memories?agent_id=kana&user_id={other}").status_code == 403
        assert bound.post(f"{API}/memories", {"agent_id": "kana", "user_id": other, "content": "x"}).status_code == 403


@each_search
def test_project_memories_stay_in_their_project(client: APIClient, search: Any) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana"})
    remember(client, "anywhere", agent_id="kana")
    remember(client, "of-atlas", agent_id="kana", scope_project="atlas")
    remember(client, "of-comet", agent_id="kana", scope_project="comet")
    assert seen(search(client, {"agent_id": "kana"})) == {"anywhere", "of-atlas", "of-comet"}
    assert client.patch(f"{API}/agents/kana", {"current_project": "atlas"}).status_code == 200
    assert seen(search(client, {"agent_id": "kana"})) == {"anywhere", "of-atlas"}
    if search is not SEARCHES["retrieve"]:
        assert seen(search(client, {"agent_id": "kana", "project": "comet"})) == {"anywhere", "of-comet"}
    later = client.post(f"{API}/memories", {"agent_id": "kana", "content": "written meanwhile"})
    assert later.json()["scope_project"] == "atlas"


def test_messages_of_others_are_never_recalled(client: APIClient) -> None:
    for user_id in ("hiroki", "aoi"):
        session = client.post(f"{API}/sessions", {"agent_id": "kana", "user_id": user_id}).json()
        body = {"role": "user", "content": f"{user_id} forgot an umbrella stand"}
        client.post(f"{API}/sessions/{session['id']}/messages", body)
    names = {"agent_id": "kana", "user_id": "hiroki"}
    searched = answered(
        client.post(f"{API}/memories/search", {**names, "query": "umbrella stand", "include_messages": True})
    )
    assert [result["message"]["content"] for result in searched["results"]] == ["hiroki forgot an umbrella stand"]
    context = answered(client.post(f"{API}/context", {**names, "message": "umbrella stand"}))
    assert "aoi" not in json.dumps(context["messages"])
    agents_own = {"agent_id": "kana", "message": "umbrella stand"}
    assert "forgot" not in json.dumps(answered(client.post(f"{API}/context", agents_own))["messages"])


def test_a_session_of_another_user_gives_no_context(client: APIClient) -> None:
    session = client.post(f"{API}/sessions", {"agent_id": "kana", "user_id": "aoi"}).json()
    body = {"agent_id": "kana", "user_id": "hiroki", "session_id": session["id"], "message": "hello"}
    assert client.post(f"{API}/context", body).status_code == 404


def test_a_memory_cannot_name_anothers_messages_as_its_source(client: APIClient) -> None:
    session = client.post(f"{API}/sessions", {"agent_id": "kana", "user_id": "aoi"}).json()
    stored = client.post(f"{API}/sessions/{session['id']}/messages", {"role": "user", "content": "a secret"}).json()
    body = {"agent_id": "kana", "user_id": "hiroki", "content": "x", "source_message_ids": [stored["results"][0]["id"]]}
    assert client.post(f"{API}/memories", body).status_code == 400


def test_an_id_that_is_taken_tells_strangers_nothing(client: APIClient, planted: Planted) -> None:
    taken = {"agent_id": "kana", "user_id": "aoi", "session_id": planted.ids["session_id"]}
    assert client.post(f"{API}/sessions", taken).status_code == 409
    stranger = client_with_key(agent_ids=["other", "kana"], user_id="aoi")
    assert stranger.post(f"{API}/sessions", {**taken}).status_code == 201, "as a free one"


def test_an_unknown_agent_is_made_only_by_a_key_for_all(db: None) -> None:
    everybody, narrow = client_with_key(), client_with_key(agent_ids=["planned"])
    bound = client_with_key(user_id="hiroki")
    body = {"agent_id": "planned", "content": "first words"}
    assert narrow.get(f"{API}/memories?agent_id=planned").json()["results"] == []
    assert narrow.post(f"{API}/memories", body).status_code == 403
    assert bound.post(f"{API}/memories", body).status_code == 403
    assert everybody.get(f"{API}/agents/planned").status_code == 404, "a read makes nothing"
    assert everybody.post(f"{API}/memories", body).status_code == 201
    assert narrow.post(f"{API}/memories", {**body, "content": "second words"}).status_code == 201


# What crosses agents (SPEC M2)


def alpha(client: APIClient) -> APIClient:
    for agent_id in ("alpha", "beta"):
        assert client.post(f"{API}/agents", {"agent_id": agent_id, "domain": "tea"}).status_code == 201
    return client_with_key(agent_ids=["alpha"])


@pytest.mark.parametrize("level", ["domain", "universal"])
def test_what_a_key_of_one_agent_shares_waits_for_a_curator(client: APIClient, level: str) -> None:
    narrow = alpha(client)
    shared = remember(narrow, "planted", agent_id="alpha", scope_level=level, pinned=True)
    assert (shared["status"], shared["pinned"]) == ("pending", False)
    own = remember(narrow, "own", agent_id="alpha")
    assert own["status"] == "active"
    assert narrow.patch(f"{API}/memories/{own['id']}", {"scope_level": level}).status_code == 403
    assert narrow.post(f"{API}/memories/{shared['id']}/approve", {}).status_code == 403
    assert seen(SEARCHES["context"](client, {"agent_id": "beta", "user_id": "hiroki"})) == set()


def test_a_key_of_one_agent_changes_nothing_that_others_read(client: APIClient) -> None:
    narrow = alpha(client)
    shared = remember(client, "shared", agent_id="alpha", scope_level="universal")
    address = f"{API}/memories/{shared['id']}"
    body = {"content": "Something else", "tags": ["x"]}
    assert narrow.patch(address, body).status_code == 403
    assert narrow.delete(address).status_code == 403
    for verb in ("pin", "archive", "supersede"):
        assert narrow.post(f"{address}/{verb}", {"content": "Other"} if verb == "supersede" else {}).status_code == 403
    assert client.get(address).json() == shared | {"strength": client.get(address).json()["strength"]}
    assert client.patch(address, {"tags": ["x"]}).status_code == 200
    before = client.get(address).json()
    edit = Memory.objects.get(pk=shared["id"]).revisions.latest("number")
    by = replace(command("x"), agent_ids=frozenset({"alpha"}))
    with pytest.raises(Forbidden, match="other agents"):
        undo_revision(revision=edit, by=by, reason="", now=datetime.now(UTC))
    assert client.get(address).json() == before
    assert client.post(f"{address}/archive", {}).status_code == 200
    assert remember(narrow, "shared", agent_id="alpha")["id"] != shared["id"], "its repeat does not bring it back"
    assert client.get(address).json()["status"] == "archived"


def test_a_pin_does_not_cross_to_other_agents(client: APIClient) -> None:
    alpha(client)
    remember(client, "pinned", agent_id="alpha", scope_level="universal", pinned=True)
    about = {"user_id": "hiroki", "message": "Lorem ipsum dolor"}
    for agent_id, entries in (("alpha", {"pinned"}), ("beta", set())):
        items = receipt_items(client, answered(client.post(f"{API}/context", {"agent_id": agent_id, **about})))
        assert {item["layer"] for item in items if item["layer"] == "pinned"} == entries, agent_id
    found = SEARCHES["context"](client, {"agent_id": "beta", "user_id": "hiroki"})
    assert seen(found) == {"pinned"}, "it is found as any other"
