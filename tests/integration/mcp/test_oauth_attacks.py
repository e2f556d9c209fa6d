"""Attacks on the OAuth server for MCP clients, one test a kind."""

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from memoryhub.auth import grants
from memoryhub.auth.models import ApiKey, AuditEntry, CallSum, OAuthClient, OAuthGrant, OAuthToken
from memoryhub.auth.roles import CURATOR
from memoryhub.auth.throttling import KeyRateThrottle
from memoryhub.mcp import application
from tests.integration.mcp.conftest import connected, new_key
from tests.integration.mcp.oauth import PASSWORD, REDIRECT, Browser, Flow, answer
from tests.serving import Web


@pytest.fixture
def flow(oauth: Web) -> Flow:
    flow = Flow(oauth.url)
    assert flow.register().status_code == 201
    return flow


def revoked_for() -> list[str]:
    return list(AuditEntry.objects.filter(verb="revoke", object_kind="oauth_grant").values_list("reason", flat=True))


def test_a_401_leads_to_the_metadata(oauth: Web) -> None:
    response = httpx2.post(f"{oauth.url}/mcp/helper/ann", json={}, timeout=60)
    address = f"{oauth.url}/.well-known/oauth-protected-resource/mcp"
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer ")
    assert f'resource_metadata="{address}"' in response.headers["www-authenticate"]
    for found in (address, f"{oauth.url}/.well-known/oauth-protected-resource", f"{address}/helper/ann"):
        resource = httpx2.get(found).json()
        assert (resource["resource"], resource["authorization_servers"]) == (f"{oauth.url}/mcp", [oauth.url])
    for name in ("oauth-authorization-server", "oauth-authorization-server/mcp", "openid-configuration"):
        server = httpx2.get(f"{oauth.url}/.well-known/{name}").json()
        assert server["issuer"] == oauth.url
        assert server["code_challenge_methods_supported"] == ["S256"]
        assert server["scopes_supported"] == ["read", "write"]
        assert {server[f"{name}_endpoint"] for name in ("authorization", "token", "registration", "revocation")} == {
            f"{oauth.url}/{path}" for path in ("authorize", "token", "register", "revoke")
        }


def test_without_the_setting_there_is_no_oauth(web: Web) -> None:
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/authorize"):
        assert httpx2.get(web.url + path).status_code == 404
    assert httpx2.post(f"{web.url}/register", json={}).status_code in (403, 404)
    response = httpx2.post(f"{web.url}/mcp", json={})
    assert (response.status_code, "resource_metadata" in response.headers["www-authenticate"]) == (401, False)


def test_a_token_stops_when_oauth_is_turned_off(flow: Flow, browser: Browser, settings: Any) -> None:
    token = flow.connect(browser)["access_token"]
    assert flow.ping(token) == 200
    settings.OAUTH_URL = ""
    assert flow.ping(token) == 401


def test_the_host_header_changes_no_address(oauth: Web) -> None:
    for host in ("localhost", "127.0.0.1:1"):
        answered = httpx2.get(f"{oauth.url}/.well-known/oauth-authorization-server", headers={"Host": host})
        assert answered.json()["token_endpoint"] == f"{oauth.url}/token"
    answered = httpx2.get(f"{oauth.url}/.well-known/oauth-authorization-server", headers={"Host": "evil.example"})
    assert answered.status_code == 421


def test_behind_tls_plain_requests_are_refused(oauth: Web, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    answered = httpx2.post(f"{oauth.url}/token", data={})
    assert (answered.status_code, answered.json()["code"]) == (403, "https_required")


def test_a_code_is_good_once_and_its_replay_ends_the_grant(flow: Flow, browser: Browser) -> None:
    code = flow.code(browser)
    tokens = flow.token(code=code).json()
    assert flow.ping(tokens["access_token"]) == 200
    replay = flow.token(code=code)
    assert (replay.status_code, replay.json()["error"]) == (400, "invalid_grant")
    assert flow.ping(tokens["access_token"]) == 401
    assert flow.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert revoked_for() == ["A used code was sent again."]


def test_of_two_parallel_uses_of_a_code_at_most_one_gets_tokens(flow: Flow, browser: Browser) -> None:
    code = flow.code(browser)
    with ThreadPoolExecutor(4) as threads:
        statuses = [one.status_code for one in threads.map(lambda _: flow.token(code=code), range(4))]
    assert statuses.count(200) <= 1 and set(statuses) <= {200, 400}
    assert OAuthToken.objects.filter(kind="refresh").count() <= 1


def test_a_code_expires(flow: Flow, browser: Browser) -> None:
    code = flow.code(browser)
    OAuthToken.objects.filter(kind="code").update(expires_at=timezone.now() - timedelta(seconds=1))
    assert flow.token(code=code).json()["error"] == "invalid_grant"
    assert ApiKey.objects.get(grant__isnull=False).expires_at < timezone.now() + grants.CODE_LIFETIME


@pytest.mark.parametrize("verifier", ["wrong" * 10, "", None])
def test_a_code_needs_its_verifier(flow: Flow, browser: Browser, verifier: str | None) -> None:
    assert flow.token(code=flow.code(browser), code_verifier=verifier).status_code == 400
    assert not OAuthToken.objects.exclude(kind="code").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"code_challenge": None, "code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"code_challenge": "short"},
        {"response_type": "token"},
        {"resource": "https://other.example/mcp"},
        {"resource": "https://127.0.0.1.evil.example/mcp"},
        {"resource": ""},
        {"scope": "admin"},
        {"redirect_uri": "https://client.example/callback/more"},
        {"redirect_uri": "https://client.example/callback?more=1"},
        {"redirect_uri": "https://evil.example/callback"},
        {"client_id": "00000000-0000-0000-0000-000000000000"},
        {"client_id": "\x00"},
        {"state": "s" * 3000},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_a_wrong_request_is_shown_and_redirects_nowhere(flow: Flow, changes: dict[str, Any]) -> None:
    response = flow.authorize(**changes)
    assert response.status_code == 400 and "location" not in response.headers, response.headers
    assert response.json()["error"] and "evil" not in response.headers.get("location", "")


def test_a_code_is_of_its_client_and_redirect_address(flow: Flow, browser: Browser) -> None:
    other = Flow(flow.url, verifier=flow.verifier)
    other.register(redirect_uris=[REDIRECT, "https://client.example/second"])
    code = flow.code(browser)
    assert other.token(code=code).json()["error"] == "invalid_grant"
    assert flow.token(code=code, redirect_uri="https://client.example/second").status_code == 400
    assert flow.token(code=code).status_code == 200


def test_the_state_comes_back_as_it_was_sent(flow: Flow, browser: Browser) -> None:
    page = flow.authorize(state="a b&c=d/é")
    got = answer(browser.consent(page.headers["location"]))
    assert (got["state"], got["iss"]) == ("a b&c=d/é", flow.url)


def test_cancelling_says_so_and_grants_nothing(flow: Flow, browser: Browser) -> None:
    got = answer(browser.consent(flow.authorize().headers["location"], deny="1"))
    assert (got["error"], got["state"]) == ("access_denied", "s 1&2")
    assert not OAuthGrant.objects.exists() and not ApiKey.objects.exists()


def test_refresh_tokens_rotate_and_reuse_ends_the_grant(flow: Flow, browser: Browser) -> None:
    first = flow.connect(browser)
    second = flow.refresh(first["refresh_token"]).json()
    assert second["refresh_token"] != first["refresh_token"] and flow.ping(second["access_token"]) == 200
    assert flow.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert flow.ping(second["access_token"]) == 401
    assert flow.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"
    assert revoked_for() == ["A used refresh was sent again."]


def test_a_refresh_token_is_of_its_client_and_resource(flow: Flow, browser: Browser) -> None:
    other = Flow(flow.url)
    other.register()
    tokens = flow.connect(browser)
    assert other.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert flow.refresh(tokens["refresh_token"], resource="https://other.example").json()["error"] == "invalid_target"
    assert flow.refresh(tokens["refresh_token"], scope="read").json()["error"] == "invalid_scope"
    assert flow.refresh(tokens["refresh_token"], resource=f"{flow.url}/mcp/helper/ann").status_code == 200


def test_a_code_for_another_resource_is_refused(flow: Flow, browser: Browser) -> None:
    code = flow.code(browser)
    assert flow.token(code=code, resource="https://other.example/mcp").json()["error"] == "invalid_target"


def test_codes_and_refresh_tokens_open_nothing_and_access_tokens_only_mcp(flow: Flow, browser: Browser) -> None:
    code = flow.code(browser)
    assert flow.ping(code) == 401
    tokens = flow.token(code=code).json()
    assert flow.ping(tokens["refresh_token"]) == 401
    assert flow.refresh(tokens["access_token"]).json()["error"] == "invalid_grant"
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert httpx2.get(f"{flow.url}/api/v1/agents", headers=headers).status_code == 401
    assert httpx2.get(f"{flow.url}/admin/", headers=headers).status_code == 302


def test_an_expired_access_token_is_refused(flow: Flow, browser: Browser) -> None:
    tokens = flow.connect(browser)
    OAuthToken.objects.filter(kind="access").update(expires_at=timezone.now())
    assert flow.ping(tokens["access_token"]) == 401
    assert flow.refresh(tokens["refresh_token"]).status_code == 200


def test_nothing_that_opens_is_stored(flow: Flow, browser: Browser) -> None:
    code = flow.code(browser)
    tokens = flow.token(code=code).json()
    flow.register(token_endpoint_auth_method="client_secret_post")
    stored = str([*OAuthToken.objects.values(), *OAuthClient.objects.values(), *ApiKey.objects.values()])
    stored += str(list(AuditEntry.objects.values()))
    for secret in (code, tokens["access_token"], tokens["refresh_token"], flow.client["client_secret"]):
        assert secret not in stored


def test_logs_hold_no_tokens(flow: Flow, browser: Browser, caplog: Any, capfd: Any) -> None:
    caplog.set_level("DEBUG")
    code = flow.code(browser)
    tokens = flow.token(code=code).json()
    flow.ping(tokens["access_token"])
    flow.token(code=code)
    flow.refresh(tokens["refresh_token"])
    # The test's own client logs its requests; the server's lines are those of its loggers.
    lines = [str(record.__dict__) for record in caplog.records if not record.name.startswith("http")]
    logged = "".join(lines) + "".join(capfd.readouterr())
    assert not [secret for secret in (code, tokens["access_token"], tokens["refresh_token"]) if secret in logged]


def test_a_confidential_client_needs_its_secret(oauth: Web, browser: Browser) -> None:
    flow = Flow(oauth.url)
    flow.register(token_endpoint_auth_method="client_secret_post")
    code, secret = flow.code(browser), flow.client["client_secret"]
    for wrong in (None, "", "wrong", secrets.token_hex(32)):
        assert flow.token(code=code, client_secret=wrong).status_code == 401
    assert flow.token(code=code, client_secret=secret).status_code == 200


def test_a_revoked_grant_stops_at_once(flow: Flow, browser: Browser) -> None:
    tokens = flow.connect(browser)
    form = {"client_id": flow.client["client_id"], "token": tokens["refresh_token"]}
    assert httpx2.post(f"{flow.url}/revoke", data={**form, "token": "unknown"}).status_code == 200
    assert flow.ping(tokens["access_token"]) == 200
    assert httpx2.post(f"{flow.url}/revoke", data=form).status_code == 200
    assert flow.ping(tokens["access_token"]) == 401
    assert flow.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_revoked_key_of_a_grant_stops_it(flow: Flow, browser: Browser) -> None:
    token = flow.connect(browser)["access_token"]
    ApiKey.objects.update(revoked_at=timezone.now())
    assert flow.ping(token) == 401


@pytest.mark.parametrize("change", ["inactive", "no staff", "no role", "other role"])
def test_a_person_without_access_loses_the_grants_at_once(flow: Flow, browser: Browser, change: str) -> None:
    tokens = flow.connect(browser)
    values = {"inactive": {"is_active": False}, "no staff": {"is_staff": False}}
    User.objects.update(**values.get(change, {"is_superuser": False}))
    if change == "other role":
        User.objects.get().groups.add(Group.objects.get_or_create(name=CURATOR)[0])
    assert flow.ping(tokens["access_token"]) == 401
    assert flow.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_consent_needs_a_log_in_and_the_page_s_token(flow: Flow, browser: Browser) -> None:
    address = flow.authorize().headers["location"]
    form = {"agent_id": "helper", "scopes": ["read"]}
    with httpx2.Client() as stranger:
        assert "/admin/login/" in stranger.get(address).headers["location"]
        assert stranger.post(address, data=form).status_code == 403
    browser.http.get(address)
    browser.consent(address, deny="1")
    assert browser.http.post(address, data=form).status_code == 403
    assert browser.http.post(address, data={**form, "csrfmiddlewaretoken": "x" * 64}).status_code == 403
    assert not OAuthGrant.objects.exists()


def test_the_page_of_consent_cannot_be_framed_and_sends_to_the_client_alone(flow: Flow, browser: Browser) -> None:
    address = flow.authorize().headers["location"]
    browser.consent(address, deny="1")
    page = browser.http.get(address)
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy and "form-action 'self' https://client.example;" in f"{policy};"
    assert page.headers["x-frame-options"] == "DENY" and "no-store" in page.headers["cache-control"]
    assert "client.example" not in browser.http.get("/admin/").headers["content-security-policy"]


@pytest.mark.parametrize("text", ["", "x", "eyJhIjoxfQ:1abcde:xxxxxxxx"])
def test_a_forged_request_for_consent_is_refused(browser: Browser, text: str) -> None:
    browser.http.get("/admin/connect/")
    login = browser.http.get(f"/admin/connect/?request={text}")
    browser._log_in(login.headers["location"])
    page = browser.http.get(f"/admin/connect/?request={text}")
    assert page.status_code == 400 and "<form method" not in page.text.split("<main")[-1]


def test_the_client_s_texts_are_escaped(flow: Flow, browser: Browser) -> None:
    flow.register(client_name="<script>alert(1)</script>\"'{{ 7*7 }}")
    browser.consent(flow.authorize().headers["location"], deny="1")
    page = browser.http.get(flow.authorize().headers["location"]).text
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page and "{{ 7*7 }}" in page
    assert "not verified" in page and "client.example" in page


@pytest.mark.parametrize(
    "metadata",
    [
        {"redirect_uris": ["http://client.example/callback"]},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": ["data:text/html,x"]},
        {"redirect_uris": ["file:///etc/passwd"]},
        {"redirect_uris": ["https://client.example/#fragment"]},
        {"redirect_uris": ["https://claude.ai@evil.example/"]},
        {"redirect_uris": ["http://localhost.evil.example/"]},
        {"redirect_uris": ["https://client.example/" + "x" * 600]},
        {"redirect_uris": []},
        {"redirect_uris": [f"https://client.example/{number}" for number in range(11)]},
        {"client_name": "x" * 101},
        {"client_name": "a\u202eb"},
        {"client_name": "a\x00b"},
        {"scope": "admin"},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {"response_types": ["token"]},
        {"grant_types": ["client_credentials"]},
        {"client_name": ["x"]},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_a_registration_outside_the_rules_is_refused(oauth: Web, metadata: dict[str, Any]) -> None:
    response = Flow(oauth.url).register(**metadata)
    assert response.status_code == 400 and response.json()["error"].startswith("invalid_")
    assert not OAuthClient.objects.exists()


@pytest.mark.parametrize(
    "uri",
    ["http://127.0.0.1:33418/", "http://localhost:6274/oauth/callback", "http://[::1]:1/", "com.example.app:/done"],
)
def test_programs_on_the_person_s_machine_may_register(oauth: Web, uri: str) -> None:
    assert Flow(oauth.url).register(redirect_uris=[uri]).status_code == 201


def test_huge_and_broken_registrations_are_refused(oauth: Web) -> None:
    assert Flow(oauth.url).register(client_uri="https://client.example/" + "x" * 20_000).status_code == 413
    for body in (b"", b"[]", b"{", b"\xff", b"null"):
        assert httpx2.post(f"{oauth.url}/register", content=body).status_code == 400
    assert httpx2.post(f"{oauth.url}/register", content=b'{"jwks":' + b"[" * 9_000).status_code == 400
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x", "application/json", "text/plain"):
        for path, status in (("/token", (400, 401)), ("/revoke", (400, 401)), ("/authorize", (405,))):
            sent = httpx2.post(f"{oauth.url}{path}", content=b"client_id=\x00&\xff", headers={"Content-Type": kind})
            assert sent.status_code in status, (path, kind)
    assert httpx2.post(f"{oauth.url}/token", content=b"x" * 20_000).status_code == 413


def test_registrations_of_one_address_are_limited(oauth: Web, monkeypatch: Any) -> None:
    monkeypatch.setattr(application, "LIMITS", {"/register": 2, "/token": 1})
    answers = [Flow(oauth.url).register() for _ in range(3)]
    assert [one.status_code for one in answers] == [201, 201, 429]
    assert 0 < int(answers[-1].headers["retry-after"]) <= 60
    assert [httpx2.post(f"{oauth.url}/token").status_code for _ in range(2)] == [401, 429]


def test_calls_of_an_address_at_another_host_count(oauth: Web) -> None:
    assert Flow(oauth.url).register().status_code == 201
    CallSum.objects.update(host="another", calls=9)
    answers = [Flow(oauth.url).register().status_code for _ in range(2)]
    assert answers == [429, 429], "one here, and nine there"
    CallSum.objects.filter(host="another").update(at=timezone.now() - timedelta(seconds=61))
    assert Flow(oauth.url).register().status_code == 201


def test_registrations_without_consent_fill_no_table(oauth: Web, browser: Browser, monkeypatch: Any) -> None:
    monkeypatch.setattr(grants, "MAX_UNUSED_CLIENTS", 3)
    used = Flow(oauth.url)
    used.connect(browser)
    for _ in range(5):
        assert Flow(oauth.url).register().status_code == 201
    assert OAuthClient.objects.count() == 4 and OAuthClient.objects.filter(pk=used.client["client_id"]).exists()


def test_a_grant_reaches_its_agent_and_user_alone(flow: Flow, browser: Browser) -> None:
    token, key = flow.connect(browser)["access_token"], new_key()

    async def attack() -> None:
        async with connected(f"{flow.url}/mcp/other/ann", key) as call:
            await call("remember", content="The other agent's secret.")
        for path in ("/mcp/other/ann", "/mcp/helper/bob", "/mcp/other"):
            async with connected(flow.url + path, token) as call:
                assert "secret" not in await call.refused("recall", query="secret")
        async with connected(f"{flow.url}/mcp", token) as call:
            assert (await call("recall", query="secret"))["memories"] == []

    asyncio.run(attack())


def test_all_tokens_of_a_grant_share_the_limit_of_one_key(flow: Flow, browser: Browser, monkeypatch: Any) -> None:
    first = flow.connect(browser)
    second = flow.refresh(first["refresh_token"]).json()
    other = Flow(flow.url).connect(browser)
    monkeypatch.setattr(KeyRateThrottle, "rate", "2/minute", raising=False)

    async def ask() -> list[str]:
        answers = []
        for tokens in (first, second, second, other):
            async with connected(f"{flow.url}/mcp", tokens["access_token"]) as call:
                result = await call.client.call_tool("recall", {"query": "tea"})
                answers.append("throttled" if result.is_error else "answered")
        return answers

    assert asyncio.run(ask()) == ["answered", "answered", "throttled", "answered"]


def test_a_consent_for_a_user_that_the_agent_does_not_have_asks_first(flow: Flow, browser: Browser) -> None:
    page = browser.consent(flow.authorize().headers["location"], user_id="someone-elses", new_user=None)
    assert page.status_code == 200 and "no such user" in page.text
    assert not OAuthGrant.objects.exists()


def test_a_person_grants_no_more_than_their_own_rights(flow: Flow, oauth: Web) -> None:
    curator = User.objects.create_user("curator", password=PASSWORD, is_staff=True)
    curator.groups.add(Group.objects.get_or_create(name=CURATOR)[0])
    with Browser(oauth.url, "curator") as browser:
        address = flow.authorize().headers["location"]
        browser._log_in(browser.http.get(address).headers["location"])
        assert browser.http.get(address).status_code == 403


def test_a_client_that_asks_for_less_gets_less(flow: Flow, browser: Browser) -> None:
    page = flow.authorize(scope="read")
    refused = browser.consent(page.headers["location"])
    assert refused.status_code == 200 and not OAuthGrant.objects.exists()
    code = answer(browser.consent(page.headers["location"], scopes=["read"], is_trusted=None))["code"]
    tokens = flow.token(code=code).json()
    key = ApiKey.objects.get()
    assert (tokens["scope"], key.scopes, key.is_trusted) == ("read", ["read"], False)


def test_expired_tokens_and_unused_clients_are_deleted(flow: Flow, browser: Browser) -> None:
    flow.connect(browser)
    old = timezone.now() - timedelta(days=2)
    unused = Flow(flow.url)
    unused.register()
    OAuthClient.objects.update(created_at=old)
    later = timezone.now() + timedelta(hours=2)
    assert set(grants.expired_tokens(later).values_list("kind", flat=True)) == {"code", "access"}
    assert [str(pk) for pk in grants.unused_clients(timezone.now()).values_list("pk", flat=True)] == [
        unused.client["client_id"]
    ]
