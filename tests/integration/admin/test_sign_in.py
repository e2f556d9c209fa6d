"""Sign-in by a real OpenID provider on loopback: who is let in, as what, and what of a provider is not believed."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from memoryhub.auth.config import Provider, SignInConfig
from memoryhub.auth.models import AgentLimit, AuditEntry, FailedLogin, agents_of
from memoryhub.jobs.queue import enqueue
from tests.conftest import run_jobs
from tests.fakes.oidc_server import CLIENT_ID, CLIENT_SECRET, GONE, OidcServer
from tests.integration.admin.conftest import NOW

pytestmark = pytest.mark.django_db
ROLES = {"admins": "administrator", "team": "curator"}
KEI = {"sub": "kei-1", "preferred_username": "kei", "email": "kei@example.org", "groups": ["team"]}


@pytest.fixture
def server(settings: Any) -> Iterator[OidcServer]:
    cache.clear()
    with OidcServer() as server:
        settings.SIGN_IN = SignInConfig(provider_of(server))
        server.person = dict(KEI)
        yield server


def provider_of(server: OidcServer, **values: Any) -> Provider:
    usual = {
        "issuer": server.issuer,
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "name": "Example",
        "scopes": ("openid", "profile", "email"),
        "groups_claim": "groups",
        "roles": ROLES,
    }
    return Provider(**{**usual, **values})


def sent_to_provider(browser: Client, address: str = "") -> Any:
    """Follow the button and what the provider answers; return the address that the browser is sent back to."""
    begun = browser.get(address or reverse("oidc_begin"))
    assert begun.status_code == 302, begun.content.decode()
    answered = requests.get(begun["Location"], allow_redirects=False, timeout=60)
    assert answered.status_code == 302, answered.text
    return urlsplit(answered.headers["Location"])


def sign_in(browser: Client, address: str = "") -> Any:
    back = sent_to_provider(browser, address)
    return browser.get(f"{back.path}?{back.query}")


def who(browser: Client) -> str:
    """Return who is logged in."""
    page = browser.get(reverse("admin:index"))
    return "" if page.status_code == 302 else str(page.context["user"].username)


def roles_of(name: str) -> set[str]:
    return set(User.objects.get(username=name).groups.values_list("name", flat=True))


def test_somebody_of_a_known_group_gets_an_account_with_its_role(server: OidcServer) -> None:
    browser = Client()
    answer = sign_in(browser, f"{reverse('oidc_begin')}?next=/admin/strength/memory/")
    assert (answer.status_code, answer["Location"]) == (302, "/admin/strength/memory/")
    kei = User.objects.get(username="kei")
    assert (kei.email, kei.is_staff, kei.is_superuser, kei.has_usable_password()) == (
        "kei@example.org",
        True,
        False,
        False,
    )
    assert roles_of("kei") == {"curator"} and who(browser) == "kei"
    assert browser.get("/admin/strength/memory/").status_code == 200
    assert browser.get(reverse("admin:memoryhub_apikey_changelist")).status_code == 403
    assert [(row.verb, row.details) for row in AuditEntry.objects.order_by("id")] == [
        ("create", {"by": "oidc"}),
        ("update", {"fields": ["groups"], "role": "curator", "before": None}),
    ]
    sign_in(Client())
    assert User.objects.count() == 1 and AuditEntry.objects.count() == 2


def test_nothing_but_who_it_is_is_kept_of_the_provider_s_answer(server: OidcServer) -> None:
    server.person["phone_number"] = "+81-3"
    sign_in(Client())
    link = SocialAccount.objects.get()
    assert (link.provider, link.uid, link.extra_data) == (server.issuer, "kei-1", {"role": "curator"})
    assert not EmailAddress.objects.exists()


@pytest.mark.parametrize(
    ("groups", "has"),
    [(["admins", "team"], {"administrator"}), (["team", "others"], {"curator"}), ("team", {"curator"})],
)
def test_the_first_group_of_the_table_decides(server: OidcServer, groups: Any, has: set[str]) -> None:
    server.person["groups"] = groups
    sign_in(Client())
    assert roles_of("kei") == has


@pytest.mark.parametrize("groups", [[], ["others"], None, 7, [["team"]], {"team": 1}, GONE])
@pytest.mark.parametrize("language", ["en", "ja"])
def test_without_a_known_group_there_is_no_account_and_a_page_says_so(
    server: OidcServer, groups: Any, language: str
) -> None:
    server.person["groups"] = groups
    if groups is GONE:
        del server.person["groups"]
    back = sent_to_provider(browser := Client())
    page = browser.get(f"{back.path}?{back.query}", headers={"accept-language": language})
    assert page.status_code == 403 and "kei@example.org" in page.content.decode()
    assert ("none of your groups" if language == "en" else "グループ") in page.content.decode()
    assert not User.objects.exists() and who(browser) == ""


def test_roles_follow_the_groups_at_the_next_sign_in(server: OidcServer) -> None:
    browser, elsewhere = Client(), Client()
    sign_in(browser)
    sign_in(elsewhere)
    server.person["groups"] = ["admins"]
    sign_in(browser)
    assert roles_of("kei") == {"administrator"}
    assert who(elsewhere) == "", "a session of the rights before"
    assert browser.get(reverse("admin:memoryhub_apikey_changelist")).status_code == 200
    server.person["groups"] = ["others"]
    assert sign_in(elsewhere).status_code == 403
    assert roles_of("kei") == set() and not User.objects.get().is_staff
    assert (who(browser), who(elsewhere)) == ("", "")
    server.person["groups"] = ["team"]
    assert sign_in(browser).status_code == 302
    assert roles_of("kei") == {"curator"} and who(browser) == "kei"


def test_what_a_person_gave_by_hand_stays_when_a_group_goes(server: OidcServer) -> None:
    sign_in(Client())
    readers = Group.objects.create(name="readers")
    User.objects.get().groups.add(readers)
    server.person["groups"] = []
    browser = Client()
    assert sign_in(browser).status_code == 302 and who(browser) == "kei"
    assert roles_of("kei") == {"readers"}


AGENTS = {"kana": ("kana", "kana-dev"), "yuno": ("yuno",), "all": ("*",)}


@pytest.mark.parametrize(
    ("groups", "has"),
    [
        (["team", "kana"], {"kana", "kana-dev"}),
        (["team", "kana", "yuno"], {"kana", "kana-dev", "yuno"}),
        (["team", "kana", "all"], None),
        (["team"], set()),
        (["admins"], None),
    ],
)
def test_agents_follow_the_groups_at_each_sign_in(
    server: OidcServer, settings: Any, groups: list[str], has: set[str] | None
) -> None:
    settings.SIGN_IN = SignInConfig(provider_of(server, agents=AGENTS))
    for before in (["team", "yuno"], ["team", "all"], groups):
        server.person["groups"] = before
        sign_in(Client())
    kei = User.objects.get(username="kei")
    assert agents_of(kei) == has
    said = AuditEntry.objects.filter(details__has_key="agents").order_by("at", "id")
    expected = [["yuno"], None, *([] if "all" in groups else [sorted(has or ())])]
    assert list(said.values_list("details__agents", flat=True)) == expected
    settings.SIGN_IN = SignInConfig(provider_of(server))
    sign_in(Client())
    assert agents_of(kei) == has, "a setting that is missing lifts no limit"


def test_without_the_setting_an_administrator_changes_what_the_provider_limited(
    server: OidcServer, boss: Client
) -> None:
    sign_in(Client())
    kei = User.objects.get(username="kei")
    AgentLimit.objects.create(person=kei, agent_ids=["kana"], source="provider")
    page = boss.get(f"/admin/auth/user/{kei.pk}/change/")
    assert page.context["adminform"].form.fields["agents"].disabled is False


def test_what_an_administrator_granted_outlives_a_provider_without_agents(server: OidcServer) -> None:
    sign_in(Client())
    kei = User.objects.get(username="kei")
    AgentLimit.objects.create(person=kei, agent_ids=["kana"], source="granted")
    sign_in(Client())
    assert agents_of(kei) == {"kana"}


def test_who_is_closed_here_stays_closed(server: OidcServer) -> None:
    sign_in(Client())
    User.objects.update(is_active=False)
    browser = Client()
    assert sign_in(browser).status_code == 403 and who(browser) == ""
    User.objects.update(is_active=True, is_staff=False)
    assert sign_in(browser).status_code == 403 and who(browser) == ""


@pytest.mark.parametrize("is_verified", [True, False])
def test_an_e_mail_address_or_a_name_takes_over_nobody_s_account(server: OidcServer, is_verified: bool) -> None:
    boss = User.objects.create_superuser("Kei", email="kei@example.org", password="a long password")
    server.person["email_verified"] = is_verified
    browser = Client()
    sign_in(browser)
    assert who(browser) == "kei-2" and roles_of("kei-2") == {"curator"}
    assert not SocialAccount.objects.filter(user=boss).exists()
    server.person["sub"] = "somebody-else"
    sign_in(browser)
    assert who(browser) == "kei-3"


@pytest.mark.parametrize(
    "spoilt",
    [
        {"iss": "http://127.0.0.1:1"},
        {"aud": "another client"},
        {"aud": [CLIENT_ID, "another client"], "azp": "another client"},
        {"aud": [CLIENT_ID, "another client"]},
        {"nonce": "another"},
        {"nonce": GONE},
        {"nonce": 7},
        {"exp": 1_700_000_000},
        {"exp": GONE},
        {"iat": 4_000_000_000},
        {"sub": ""},
        {"sub": GONE},
        {"sub": "x" * 192},
        {"signed": "none"},
        {"signed": "HS256"},
        {"signed": "other key"},
        {"issuer_of_discovery": "https://elsewhere.example"},
    ],
)
def test_a_token_that_is_not_for_this_sign_in_is_refused(server: OidcServer, spoilt: dict[str, Any]) -> None:
    browser = Client()
    back = sent_to_provider(browser)
    cache.clear()
    server.spoil(**spoilt)
    # The code was asked for before, so that what is refused is what comes now.
    page = browser.get(f"{back.path}?{back.query}")
    assert page.status_code == 400 and "did not confirm" in page.content.decode()
    assert not User.objects.exists() and who(browser) == ""


def test_a_state_is_of_one_browser_and_good_once(server: OidcServer) -> None:
    browser, other = Client(), Client()
    back = sent_to_provider(browser)
    assert other.get(f"{back.path}?{back.query}").status_code == 400
    assert browser.get(f"{back.path}?{back.query}").status_code == 302
    assert browser.get(f"{back.path}?{back.query}").status_code == 400
    assert browser.get(f"{back.path}?code=x&state=y").status_code == 400
    assert browser.get(back.path).status_code == 400
    server.person = {}
    assert sign_in(browser).status_code == 400


def test_the_request_has_pkce_a_nonce_and_only_the_scopes_of_the_settings(server: OidcServer) -> None:
    begun = Client().get(f"{reverse('oidc_begin')}?scope=offline_access&auth_params=prompt%3Dnone&process=connect")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(begun["Location"]).query).items()}
    assert set(asked["scope"].split()) == {"openid", "profile", "email"} and "prompt" not in asked
    assert asked["code_challenge_method"] == "S256" and len(asked["nonce"]) >= 32 and len(asked["state"]) >= 32
    assert asked["redirect_uri"] == "http://testserver/admin/login/oidc/callback/"


def test_groups_are_read_from_a_path_and_from_userinfo(server: OidcServer, settings: Any) -> None:
    settings.SIGN_IN = SignInConfig(provider_of(server, groups_claim="realm_access.roles"))
    server.person = {**KEI, "groups": ["admins"], "realm_access": {"roles": ["team"]}}
    server.in_token = {"sub"}
    sign_in(Client())
    assert roles_of("kei") == {"curator"} and "/userinfo" in server.asked


def test_keys_are_kept_and_new_ones_are_found(server: OidcServer) -> None:
    for _ in range(3):
        sign_in(Client())
    assert server.asked.count("/keys") == server.asked.count("/.well-known/openid-configuration") == 1
    server.rotate()
    assert sign_in(Client()).status_code == 302
    assert server.asked.count("/keys") == 2


def test_a_provider_that_is_away_is_said_and_passwords_go_on(server: OidcServer) -> None:
    server.is_broken = True
    page = Client().get(reverse("oidc_begin"))
    assert page.status_code == 400 and "doctor" in page.content.decode()
    User.objects.create_superuser("boss", password="a long password")
    form = {"username": "boss", "password": "a long password"}
    assert Client().post(reverse("admin:login"), form).status_code == 302


@pytest.mark.parametrize("wanted", ["//elsewhere.example/", "https://elsewhere.example/", "javascript:alert(1)"])
def test_the_way_back_leads_to_no_other_site(server: OidcServer, wanted: str) -> None:
    answer = sign_in(Client(), f"{reverse('oidc_begin')}?next={wanted}")
    assert answer["Location"] == reverse("admin:index")


def test_a_sign_in_is_begun_by_this_site_alone(server: OidcServer) -> None:
    answer = Client().get(reverse("oidc_begin"), headers={"sec-fetch-site": "cross-site"})
    assert answer["Location"] == reverse("admin:login")
    assert not Session.objects.exists()


@pytest.mark.parametrize(("language", "words"), [("en", "Sign in with Example"), ("ja", "Exampleでサインイン")])
def test_the_login_page_has_the_button_and_keeps_the_way(server: OidcServer, language: str, words: str) -> None:
    page = Client().get(f"{reverse('admin:login')}?next=/admin/review/", headers={"accept-language": language})
    assert words in page.content.decode()
    assert f"{reverse('oidc_begin')}?next=%2Fadmin%2Freview%2F" in page.content.decode()


def test_without_a_provider_there_is_no_button_and_no_way(client: Any, db: None) -> None:
    browser = Client()
    assert "login/oidc" not in browser.get(reverse("admin:login")).content.decode()
    assert browser.get(reverse("oidc_begin"))["Location"] == reverse("admin:login")
    assert browser.get(reverse("oidc_callback"))["Location"] == reverse("admin:login")


@pytest.mark.parametrize(
    "address",
    ["accounts/login/", "accounts/signup/", "accounts/password/reset/", "accounts/email/", "accounts/2fa/", "admin/account/emailaddress/", "admin/socialaccount/socialapp/", "admin/mfa/authenticator/"],
)  # fmt: skip
def test_pages_of_allauth_are_not_there(client: Any, db: None, address: str) -> None:
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss"))
    assert browser.get(f"/{address}").status_code == 404


def test_a_locked_account_stays_locked_for_passwords_and_the_provider_does_not_unlock_others(
    server: OidcServer,
) -> None:
    User.objects.create_superuser("boss", password="a long password")
    form = {"username": "boss", "password": "wrong"}
    answers = [Client().post(reverse("admin:login"), form).status_code for _ in range(5)]
    assert answers == [200] * 4 + [429]
    assert sign_in(Client()).status_code == 302
    form["password"] = "a long password"
    assert Client().post(reverse("admin:login"), form).status_code == 429
    assert FailedLogin.objects.get().failures_since_start == 5


def test_a_new_password_ends_the_sessions_of_the_provider_too(server: OidcServer) -> None:
    browser = Client()
    sign_in(browser)
    kei = User.objects.get()
    kei.set_password("another long password")
    kei.save()
    assert who(browser) == ""


def test_a_person_connects_the_own_account_and_nobody_else_s(server: OidcServer) -> None:
    boss = User.objects.create_superuser("boss", password="a long password")
    browser = Client()
    browser.force_login(boss)
    page = reverse("own_sign_in")
    assert "Connect with Example" in browser.get(page).content.decode()
    connect = f"{reverse('oidc_begin')}?connect=1"
    back = sent_to_provider(browser, connect)
    # Whoever is logged in by then is not who asked.
    other = User.objects.create_superuser("other", password="a long password")
    assert sign_in(browser, connect)["Location"] == page
    assert SocialAccount.objects.get().user == boss
    browser.logout()
    browser.force_login(other)
    browser.get(f"{back.path}?{back.query}")
    sign_in(browser, connect)
    assert SocialAccount.objects.count() == 1
    stranger = Client()
    sign_in(stranger)
    assert who(stranger) == "boss"
    assert User.objects.get(username="boss").is_superuser
    stranger.post(page, {"what": "disconnect"})
    assert not SocialAccount.objects.exists()
    fields = [row.details["fields"] for row in AuditEntry.objects.filter(verb="update", object_id=str(boss.pk))]
    assert fields.count(["Single sign-on"]) == 2


def test_who_has_no_password_cannot_disconnect(server: OidcServer) -> None:
    browser = Client()
    sign_in(browser)
    browser.post(reverse("own_sign_in"), {"what": "disconnect"})
    assert SocialAccount.objects.exists()


def test_cookies_and_policies_of_the_pages_are_as_everywhere(server: OidcServer) -> None:
    browser = Client()
    begun = browser.get(reverse("oidc_begin"))
    cookie = begun.cookies["sessionid"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax"
    server.person["groups"] = []
    page = sign_in(browser)
    assert "no-store" in page["Cache-Control"]
    assert "script-src 'self'" in page["Content-Security-Policy"]
    assert not re.search(r"<(script|style)(?![^>]*(src|nonce))", page.content.decode())


def test_expired_sign_ins_do_not_come_back(server: OidcServer) -> None:
    browser = Client()
    back = sent_to_provider(browser)
    session = browser.session
    states = session["socialaccount_states"]
    session["socialaccount_states"] = {
        key: (state, at - timedelta(minutes=11).total_seconds(), of) for key, (state, at, of) in states.items()
    }
    session.save()
    assert browser.get(f"{back.path}?{back.query}").status_code == 400


def test_sign_ins_that_were_begun_and_left_are_forgotten(server: OidcServer) -> None:
    for _ in range(3):
        Client().get(reverse("oidc_begin"))
    browser = Client()
    sign_in(browser)
    assert Session.objects.count() == 4
    Session.objects.exclude(pk=browser.session.session_key).update(expire_date=NOW)
    enqueue("forget_old_sessions")
    run_jobs()
    assert Session.objects.count() == 1 and who(browser) == "kei"
