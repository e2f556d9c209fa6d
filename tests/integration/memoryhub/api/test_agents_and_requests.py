"""Agents, actors, and what all requests share: idempotency, throttling, problems, pages, health (SPEC A1, H2, O4)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from django.conf import settings
from rest_framework.test import APIClient

from memoryhub.api.idempotency import IdempotencyRecord
from memoryhub.auth.models import ApiKey, AuditEntry
from memoryhub.auth.principals import Scope
from memoryhub.auth.throttling import KeyRateThrottle
from memoryhub.jobs.models import Job
from strength.models import Memory
from summaries.domain.projects import EventKind
from summaries.models import ProjectEvent
from tests.conftest import client_with_key
from tests.factories.planting import plant

API = "/api/v1"
STRATEGIES = ("semantic", "user_preference", "summary", "episodic", "reflection")


def made(client: APIClient, **values: Any) -> Any:
    response = client.post(f"{API}/agents", {"agent_id": "kana", **values})
    assert response.status_code == 201, response.content
    return response.json()


# A1


def test_agent_has_defaults(client: APIClient) -> None:
    agent = made(client)
    assert agent["strategies"] == dict.fromkeys(STRATEGIES, True)
    assert (agent["name"], agent["language"], agent["policy"], agent["retrieval_config"]) == ("kana", "en", {}, None)
    assert client.get(f"{API}/agents/kana").json() == agent


@pytest.mark.parametrize("values", [{"system_prompt": "Obey."}, {"policy": {"untrusted_channels": []}}, {}])
def test_untrusted_key_changes_no_agent(client: APIClient, values: dict[str, Any]) -> None:
    """Not even with the scope `admin`: the prompt and whom to trust would decide what is believed."""
    agent = made(client)
    untrusted = client_with_key(is_trusted=False)
    for answer in (
        untrusted.patch(f"{API}/agents/kana", values),
        untrusted.post(f"{API}/agents", {"agent_id": "new", **values}),
    ):
        assert answer.status_code == 403, answer.content
    assert client.get(f"{API}/agents/kana").json() == agent
    assert client.get(f"{API}/agents/new").status_code == 404


def test_agent_has_what_was_given(client: APIClient) -> None:
    given = {
        "name": "Kana", "language": "ja", "system_prompt": "あなたは Kana です。", "domain": "tea", "related_domains": ["art"],
        "current_project": "atlas", "fixed_user_id": "owner", "policy": {"recall_limit": 0}, "topics_include": ["tea"], "topics_exclude": ["health"],
        "retrieval_config": {"/facts/{actorId}/": {"top_k": 3}},
    }  # fmt: skip
    agent = made(client, **given, strategies={"episodic": False})
    assert {key: agent[key] for key in given} == given
    assert agent["strategies"] == {**dict.fromkeys(STRATEGIES, True), "episodic": False}


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"strategies": {"astrology": True}}, "strategies.astrology"),
        ({"policy": {"nonsense": 1}}, "policy.nonsense"),
        ({"policy": {"recall_limit": 201}}, "policy.recall_limit"),
        ({"policy": {"recall_limit": True}}, "policy.recall_limit"),
        ({"policy": {"daily_decay_targets": {str(n): 0 for n in range(6)}}}, "policy.daily_decay_targets"),
        ({"policy": {"consolidation_thresholds": [0, 5, 4, 30, 60, 100]}}, "policy.consolidation_thresholds"),
        ({"policy": {"archive_threshold": -0.1}}, "policy.archive_threshold"),
        ({"language": "fr"}, "language"),
        ({"retrieval_config": {"/facts/x": {}}}, "retrieval_config"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_unknown_and_wrong_values_are_400(client: APIClient, values: dict[str, Any], field: str) -> None:
    refused = client.post(f"{API}/agents", {"agent_id": "kana", **values})
    assert refused.status_code == 400, refused.content
    assert [error["field"] for error in refused.json()["errors"]] == [field]
    made(client)
    changed = client.patch(f"{API}/agents/kana", values)
    assert changed.status_code == 400
    assert [error["field"] for error in changed.json()["errors"]] == [field]


def test_agent_twice_is_409(client: APIClient) -> None:
    made(client)
    again = client.post(f"{API}/agents", {"agent_id": "kana"})
    assert (again.status_code, again.json()["code"]) == (409, "agent_exists")


def test_what_is_polled_is_304_until_it_changes(client: APIClient) -> None:
    planted = plant(client, agent_id="kana", user_id="hiroki")
    feed, job = f"{API}/changes?agent_id=kana&user_id=hiroki", f"{API}/jobs/{planted.ids['job_id']}"
    rows = (("imports", "import_id"), ("memories/bulk", "batch_id"), ("sleep-runs", "run_id"))
    addresses, tags = [feed, job, *(f"{API}/{path}/{planted.ids[name]}" for path, name in rows)], {}
    for address in addresses:
        whole = client.get(address)
        assert (whole.status_code, whole["ETag"][:3]) == (200, 'W/"'), address
        for known in (whole["ETag"], f'"another", {whole["ETag"].removeprefix("W/")}', "*"):
            again = client.get(address, headers={"If-None-Match": known})
            assert (again.status_code, again.content, again["ETag"]) == (304, b"", whole["ETag"]), address
            assert "Content-Length" not in again, "0 would be the length of the answer that the client has"
            assert again["RateLimit"] and "Content-Type" not in again.headers
        tags[address] = whole["ETag"]
    Job.objects.filter(pk=planted.ids["job_id"]).update(attempts=7)
    changed = {name for name in tags if client.get(name, headers={"If-None-Match": tags[name]}).status_code == 200}
    assert changed == {job}
    assert "ETag" not in client.get(f"{API}/jobs/{uuid4()}").headers


def test_reading_only_what_is_not_there_is_304_where_it_is(client: APIClient) -> None:
    planted = plant(client, agent_id="kana", user_id="hiroki")
    whose = f"?agent_id={planted.agent_id}&user_id={planted.user_id}"
    project = f"{API}/projects/{planted.ids['project_name']}"
    addresses = [
        f"{API}/agents/kana",
        f"{API}/actors{whose}",
        f"{API}/memories/{planted.ids['memory_id']}",
        f"{API}/sessions/{planted.ids['session_id']}/summary",
        f"{project}{whose}",
        f"{project}/documents/MEMORY.md{whose}",
    ]
    for address in addresses:
        whole = client.get(address)
        assert whole.status_code == 200 and whole["ETag"], address
        for ask in (client.get, client.head):
            read = ask(address, headers={"If-None-Match": " * "})
            assert (read.status_code, read.content, read["ETag"]) == (304, b"", whole["ETag"]), address
        # What people did not decide about changes beneath the same tag, so a tag is not compared.
        assert client.get(address, headers={"If-None-Match": whole["ETag"]}).status_code == 200
    only_new = {"If-None-Match": "*"}
    reads = ProjectEvent.objects.filter(kind=EventKind.READ)
    before = reads.count()
    client.get(f"{project}/documents/MEMORY.md{whose}", headers=only_new)
    assert reads.count() == before, "nothing was sent, so nothing was read"
    assert client.get(f"{API}/actors?agent_id=kana&user_id=nobody", headers=only_new).status_code == 200
    assert client.get(f"{API}/agents/nobody", headers=only_new).status_code == 404
    assert client.get(f"{API}/agents", headers=only_new).status_code == 200, "a list is no row"


def test_agents_are_edited_against_an_etag(client: APIClient) -> None:
    made(client)
    seen = client.get(f"{API}/agents/kana")["ETag"]
    changed = client.patch(f"{API}/agents/kana", {"name": "K"}, headers={"If-Match": seen})
    assert (changed.status_code, changed.json()["name"]) == (200, "K")
    assert changed["ETag"] != seen
    stale = client.patch(f"{API}/agents/kana", {"name": "L"}, headers={"If-Match": seen})
    assert (stale.status_code, stale.json()["code"]) == (412, "version_mismatch")
    assert client.get(f"{API}/agents/kana").json()["name"] == "K"


def test_agents_are_listed_by_cursor(client: APIClient) -> None:
    for number in range(5):
        made(client, agent_id=f"agent-{number}")
    first = client.get(f"{API}/agents?limit=2").json()
    second = client.get(first["next"]).json()
    third = client.get(second["next"]).json()
    names = [agent["agent_id"] for page in (first, second, third) for agent in page["results"]]
    assert names == [f"agent-{number}" for number in range(5)]
    assert third["next"] is None
    assert client.get(third["previous"]).json()["results"] == second["results"]


def test_a_cursor_counts_for_its_list_and_filters(client: APIClient) -> None:
    for user_id in ("hiroki", "hiroki", "hiroki", "aoi"):
        opened = client.post(f"{API}/sessions", {"agent_id": "kana", "user_id": user_id})
        assert opened.status_code == 201
    mine = f"{API}/sessions?agent_id=kana&user_id=hiroki"
    cursor = parse_qs(urlsplit(client.get(f"{mine}&limit=1").json()["next"]).query)["cursor"][0]
    assert len(client.get(f"{mine}&limit=2&cursor={cursor}").json()["results"]) == 2, "a page's size may change"
    for other in (f"{API}/sessions?agent_id=kana&user_id=aoi", f"{API}/memories?agent_id=kana&user_id=hiroki"):
        refused = client.get(f"{other}&cursor={cursor}")
        assert (refused.status_code, refused.json()["code"]) == (400, "cursor_invalid")


def test_users_override_with_known_values_only(client: APIClient) -> None:
    made(client)
    address = f"{API}/actors?agent_id=kana&user_id=hiroki"
    assert client.patch(address, {"policy": {"recall_limit": 1}}).json()["effective_policy"]["recall_limit"] == 1
    for wrong in ({"nonsense": 1}, {"recall_limit": "x"}, {"score_weights": {"similarity": 1}}):
        assert client.patch(address, {"policy": wrong}).status_code == 400
    assert client.get(address).json()["policy"] == {"recall_limit": 1}


def test_writes_are_audited_by_whom(client: APIClient) -> None:
    writer = client_with_key(name="the writer")
    writer.post(f"{API}/memories", {"agent_id": "kana", "user_id": "hiroki", "content": "a secret"})
    entry = AuditEntry.objects.filter(object_kind="memory").get()
    assert (entry.who_name, entry.verb, entry.agent_id, entry.user_id) == ("the writer", "create", "kana", "hiroki")
    assert "secret" not in str(list(AuditEntry.objects.values()))


# A10


def test_last_use_of_a_key_is_kept(client: APIClient) -> None:
    reader = client_with_key(name="reader")
    assert ApiKey.objects.get(name="reader").last_used_at is None
    reader.get(f"{API}/agents")
    assert datetime.now(UTC) - ApiKey.objects.get(name="reader").last_used_at < timedelta(minutes=1)  # type: ignore[operator]


def test_key_is_stored_nowhere(client: APIClient) -> None:
    reader = client_with_key(name="reader")
    text = reader._credentials["HTTP_AUTHORIZATION"].split()[1]
    row = ApiKey.objects.get(name="reader")
    assert row.prefix in text
    assert text.rsplit("_", 1)[1] not in str(ApiKey.objects.filter(name="reader").values().get())


# H2


def test_idempotency_counts_per_key_route_and_day(client: APIClient) -> None:
    body = {"agent_id": "kana", "content": "once"}
    headers = {"Idempotency-Key": "k"}
    first = client.post(f"{API}/memories", body, headers=headers)
    assert client.post(f"{API}/memories", body, headers=headers).headers["Idempotent-Replay"] == "true"
    reordered = {"content": "once", "agent_id": "kana"}
    assert client.post(f"{API}/memories", reordered, headers=headers).json() == first.json()
    session = client.post(f"{API}/sessions", {"agent_id": "kana"}, headers=headers)
    assert session.status_code == 201, "another route"
    other = client_with_key().post(f"{API}/memories", body, headers=headers)
    assert (other.status_code, other.json()["access_count"]) == (200, 1), "another API key"
    different = client.post(f"{API}/memories", {**body, "content": "twice"}, headers=headers)
    assert (different.status_code, different.json()["code"]) == (422, "idempotency_key_reused")
    IdempotencyRecord.objects.update(created_at=datetime.now(UTC) - timedelta(hours=24, seconds=1))
    assert client.post(f"{API}/memories", {**body, "content": "twice"}, headers=headers).status_code == 201


def test_refused_calls_are_not_recorded(client: APIClient) -> None:
    headers = {"Idempotency-Key": "k"}
    assert client.post(f"{API}/memories", {"agent_id": "kana"}, headers=headers).status_code == 400
    assert client.post(f"{API}/memories", {"agent_id": "kana", "content": "now"}, headers=headers).status_code == 201
    assert Memory.objects.count() == 1


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_unusable_idempotency_keys_are_refused(client: APIClient, key: str) -> None:
    refused = client.post(f"{API}/memories", {"agent_id": "kana", "content": "x"}, headers={"Idempotency-Key": key})
    assert (refused.status_code, refused.json()["code"]) == (400, "idempotency_key_invalid")


def test_throttled_calls_are_429_with_a_wait(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyRateThrottle, "rate", "3/minute", raising=False)
    hasty, other = client_with_key(), client_with_key()
    answers = [hasty.get(f"{API}/agents") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    remaining = [re.fullmatch(r'"key";r=(\d+);t=(\d+)', answer["RateLimit"]) for answer in answers]
    assert [match and match[1] for match in remaining] == ["2", "1", "0", "0", "0"]
    assert all(match and 0 < int(match[2]) <= 60 for match in remaining)
    assert {answer["RateLimit-Policy"] for answer in answers} == {'"key";q=3;w=60'}
    refused = hasty.get(f"{API}/agents")
    assert 0 < int(refused["Retry-After"]) <= 60
    assert refused["RateLimit"].endswith(f";t={refused['Retry-After']}")
    assert refused.json()["code"] == "throttled"
    assert refused["Content-Type"] == "application/problem+json"
    assert other.get(f"{API}/agents").status_code == 200, "a rate per key"


def test_quota_is_in_answers_of_errors_and_streams_but_not_in_those_without_a_key(client: APIClient) -> None:
    assert client.get(f"{API}/agents/nobody")["RateLimit"].startswith('"key";r=')
    assert client.post(f"{API}/agents", {"agent_id": "a b"})["RateLimit"].startswith('"key";r=')
    client.post(f"{API}/memories", {"agent_id": "kana", "content": "Tea is green."})
    exported = client.get(f"{API}/actors/export", {"agent_id": "kana", "user_id": ""})
    assert exported.streaming and exported["RateLimit"].startswith('"key";r=')
    for answer in (APIClient().get(f"{API}/agents"), APIClient().get("/healthz")):
        assert "RateLimit" not in answer


def test_a_repeated_answer_has_the_quota_of_now(client: APIClient) -> None:
    key = {"Idempotency-Key": "once"}
    body = {"agent_id": "kana", "content": "Tea is green."}
    first, second = (client.post(f"{API}/memories", body, headers=key) for _ in range(2))
    assert second["Idempotent-Replay"] == "true"
    left = [int(answer["RateLimit"].split("r=")[1].split(";")[0]) for answer in (first, second)]
    assert left[1] == left[0] - 1


def test_problems_have_all_members(client: APIClient) -> None:
    problem = client.post(f"{API}/sessions", {"agent_id": "a b", "channel": "x y"}).json()
    assert (problem["type"], problem["title"], problem["status"], problem["code"]) == (
        "urn:memoryhub:problem:invalid",
        "Invalid",
        400,
        "invalid",
    )
    assert {error["field"] for error in problem["errors"]} == {"agent_id", "channel"}
    missing = client.get(f"{API}/sessions/0198d1a2-0000-7000-8000-000000000000").json()
    assert (missing["status"], missing["code"], missing["errors"]) == (404, "not_found", [])
    for address in (f"{API}/sessions/abc", f"{API}/", f"{API}/memory"):
        assert "/api/v1/docs" in client.get(address).json()["detail"]


@pytest.mark.parametrize("cookie", [None, "ja"])
def test_problems_are_english_whatever_language_is_asked_for(client: APIClient, cookie: str | None) -> None:
    if cookie:
        client.cookies[settings.LANGUAGE_COOKIE_NAME] = cookie
    asked = {"agent_id": "kana", "name": "", "language": "fr", "strategies": 1}
    english = client.post(f"{API}/agents", asked, headers={"accept-language": "en"})
    answer = client.post(f"{API}/agents", asked, headers={"accept-language": "ja"})
    assert answer.status_code == 400 and answer.json() == english.json()
    assert answer.content.isascii() and "Expected a dictionary" in answer.content.decode()
    assert answer["Content-Language"] == "en" and "Accept-Language" not in answer.get("Vary", "")
    for address in ("agents", "nowhere"):
        told = APIClient().get(f"{API}/{address}", headers={"accept-language": "ja"})
        assert told.status_code in (401, 404) and told.content.isascii()
    assert client.get("/admin/login/", headers={"accept-language": "ja"})["Content-Language"] == "ja"


def test_server_errors_tell_nothing(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("secret insides")

    monkeypatch.setattr("conversations.api.views.open_session", broken)
    client.raise_request_exception = False
    answer = client.post(f"{API}/sessions", {"agent_id": "kana"})
    assert (answer.status_code, answer["Content-Type"]) == (500, "application/problem+json")
    assert "secret" not in answer.content.decode()


# O4, H1


def test_health_needs_no_key(client: APIClient) -> None:
    anybody = APIClient()
    assert anybody.get("/healthz").json() == {"status": "ok"}
    ready = anybody.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert b"context_assembly_latency_ms" in anybody.get("/metrics").content


def test_schema_describes_every_call_and_no_list_as_an_array(client: APIClient) -> None:
    schema = APIClient().get(f"{API}/schema?format=json").json()
    assert schema["openapi"].startswith("3.")
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            for status, answer in operation["responses"].items():
                for content in answer.get("content", {}).values():
                    assert content["schema"].get("type") != "array", (
                        f"{method} {path} {status}: a list is a page with next, previous, results"
                    )


def test_schema_says_how_to_send_a_key(client: APIClient) -> None:
    schema = APIClient().get(f"{API}/schema?format=json").json()
    assert schema["components"]["securitySchemes"] == {"apiKey": {"type": "http", "scheme": "bearer"}}
    assert all(
        operation["security"] == [{"apiKey": []}] for path in schema["paths"].values() for operation in path.values()
    )
    shapes = schema["components"]["schemas"]
    content = shapes["MessageInRequest"]["properties"]["content"]
    assert [choice["type"] for choice in content["oneOf"]] == ["string", "array"]
    assert content["oneOf"][1]["items"] == {"$ref": "#/components/schemas/BlockInRequest"}
    assert set(shapes["BlockInRequest"]["properties"]) == {
        "type", "text", "name", "media_type", "url", "data",
        "id", "input", "tool_use_id", "toolset_name", "content", "is_error", "caller",
        "source", "image_url", "citations", "cache_control", "thinking", "signature",
    }  # fmt: skip
    assert shapes["BlockInRequest"]["required"] == ["type"]


def test_schema_says_what_can_be_sent(client: APIClient) -> None:
    schema = APIClient().get(f"{API}/schema?format=json").json()
    operations = {
        (method, path.removeprefix(f"{API}/")): operation
        for path, each in schema["paths"].items()
        for method, operation in each.items()
    }
    for (method, path), operation in operations.items():
        headers = {each["name"] for each in operation.get("parameters", []) if each["in"] == "header"}
        assert ("Idempotency-Key" in headers) == (method == "post"), (method, path)
    compared = {key for key, each in operations.items() if "If-Match" in str(each.get("parameters"))}
    entries = "projects/{project_name}/documents/{document_name}/entries"
    for key in (
        ("patch", "agents/{agent_id}"),
        ("patch", "actors"),
        ("post", "memories/{memory_id}/supersede"),
        ("post", entries),
    ):
        assert key in compared, key
    assert set(operations["delete", "actors"]["responses"]) == {"200"}
    body = operations["post", "sessions/{session_id}/messages"]["requestBody"]["content"]["application/json"]
    shape = schema["components"]["schemas"][body["schema"]["$ref"].rpartition("/")[2]]
    assert shape["oneOf"] == [
        {"$ref": "#/components/schemas/MessageInRequest"},
        {"$ref": "#/components/schemas/BatchInRequest"},
    ]


def test_idempotency_counts_the_query_too(client: APIClient) -> None:
    """Calls that name the tenant in the query are different calls, not repeats."""
    for user in ("aoi", "hiroki"):
        assert client.post(f"{API}/projects", {"agent_id": "kana", "user_id": user, "name": "atlas"}).status_code == 201

    def append(user: str) -> Any:
        address = f"{API}/projects/atlas/documents/decisions.md/entries?agent_id=kana&user_id={user}"
        return client.post(address, {"text": "We ship on Friday."}, headers={"Idempotency-Key": "k"})

    assert append("aoi").status_code == 201
    assert append("aoi").headers["Idempotent-Replay"] == "true"
    assert append("hiroki").status_code == 422


def test_page_of_the_interface_needs_no_network(client: APIClient) -> None:
    page = APIClient().get(f"{API}/docs")
    assert page.status_code == 200
    # Not every "//": the nonce is base64, which has slashes.
    addresses = re.findall(r"""(?:src|href|action)=["']([^"']+)|url\(["']?([^"')]+)""", page.content.decode())
    assert addresses, "a page that loads nothing shows nothing"
    assert all(re.match("(/(?!/)|data:)", source or style) for source, style in addresses), addresses


def test_a_key_of_one_user_reads_no_system_prompt(client: APIClient) -> None:
    values = {"system_prompt": "The vault's code is 4711.", "topics_include": ["tea"]}
    assert client.post("/api/v1/agents", {"agent_id": "kana", **values}).status_code == 201
    bound = client_with_key(user_id="ann", scopes=[Scope.READ])

    for path in ("/api/v1/agents", "/api/v1/agents/kana"):
        answer = bound.get(path)
        assert answer.status_code == 200 and "kana" in answer.content.decode()
        assert "4711" not in answer.content.decode()
        assert "4711" in client.get(path).content.decode()


def test_a_misspelt_policy_value_is_answered_with_the_nearest(client: APIClient) -> None:
    made(client)
    answer = client.patch(f"{API}/agents/kana", {"policy": {"timezone": "Europe/Berlin"}})
    assert answer.json()["errors"][0]["detail"] == "is not a policy value. Did you mean time_zone?"
