"""Ways in, in a real browser: the provider, the second factor, an invitation."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache

from memoryhub.auth.accounts import invite
from memoryhub.auth.config import Provider, SignInConfig
from memoryhub.auth.principals import command
from memoryhub.auth.second_factor import has_second_factor, turn_off
from tests.browser.chromium import expect
from tests.browser.conftest import PASSWORD, desk, person
from tests.browser.seeing import accessible, scrolls_sideways
from tests.browser.stage import Stage
from tests.fakes.oidc_server import CLIENT_ID, CLIENT_SECRET, OidcServer
from tests.integration.admin.test_sign_in_second_factor import code
from tests.serving import Web

DESK = {"language": "en", "width": 1280, "dark": False}
PHONE = {"language": "ja", "width": 360, "dark": True}
SEEN = pytest.mark.parametrize(
    "seen", [pytest.param(DESK, id="desk"), pytest.param(PHONE, id="phone", marks=pytest.mark.slow)]
)
BY = command("test")


@pytest.fixture
def server(settings: Any) -> Iterator[OidcServer]:
    cache.clear()
    with OidcServer() as server:
        settings.SIGN_IN = SignInConfig(
            Provider(
                issuer=server.issuer,
                client_id=CLIENT_ID,
                client_secret=CLIENT_SECRET,
                name="Example",
                scopes=("openid",),
                groups_claim="groups",
                roles={"team": "curator"},
            )
        )
        yield server


@pytest.fixture
def stranger(browser: Any, web: Web, server: OidcServer) -> Iterator[Callable[..., Any]]:
    """Return a maker of windows of nobody, which may go to the provider and back."""
    with desk(browser, web) as at:
        yield lambda **seen: at.page_as(None, **seen)
        at.watch.problems[:] = [each for each in at.watch.problems if server.issuer not in each]


def fine(page: Any) -> None:
    assert not scrolls_sideways(page)
    accessible(page)


@pytest.mark.slow
@SEEN
def test_somebody_signs_in_by_the_provider(stranger: Any, server: OidcServer, seen: dict[str, Any]) -> None:
    page = stranger(**seen)
    server.person = {"sub": f"no-{seen['language']}", "email": "no@example.org", "groups": []}
    page.goto("/admin/strength/memory/")
    fine(page)
    button = page.get_by_role("link", name=re.compile("Example"))
    button.click()
    expect(page.get_by_text("no@example.org")).to_be_visible()
    fine(page)
    server.person = {"sub": f"yes-{seen['language']}", "groups": ["team"]}
    page.goto("/admin/strength/memory/")
    button.click()
    expect(page).to_have_url(re.compile("/admin/strength/memory/$"))
    page.goto("/admin/sign-in/")
    fine(page)
    server.is_broken = True
    cache.clear()
    page.context.clear_cookies()
    page.goto("/admin/login/oidc/")
    fine(page)


@SEEN
def test_a_second_factor_is_set_up_and_asked_for(page_as: Any, stage: Stage, seen: dict[str, Any]) -> None:
    boss = person()
    turn_off(boss, by=BY, now=datetime.now(UTC))
    cache.clear()
    page = page_as(**seen)
    page.goto("/admin/sign-in/")
    fine(page)
    secret = page.locator("code").inner_text()
    page.locator("#id_password").fill(PASSWORD)
    page.locator("#id_code").fill(code(secret))
    page.locator("button[value=on]").click()
    codes = page.locator("#recovery-codes").inner_text().split()
    assert len(codes) == 10
    fine(page)
    page.locator("a[href='/admin/sign-in/']").click()
    expect(page.locator("button[value=renew]")).to_be_visible()
    fine(page)
    page.context.clear_cookies()
    page.goto("/admin/strength/memory/")
    page.locator("#id_username").fill("boss")
    page.locator("#id_password").fill(PASSWORD)
    page.locator("#login-form button[type=submit]").click()
    expect(page.locator("#id_code")).to_be_visible()
    fine(page)
    for value in ("000000", codes[0]):
        page.locator("#id_code").fill(value)
        page.locator("#code-form button[type=submit]").click()
    expect(page).to_have_url(re.compile("/admin/strength/memory/$"))
    page.goto("/admin/sign-in/")
    page.locator("#id_code").fill(codes[1])
    page.locator("button[value=off]").click()
    expect(page.locator("button[value=on]")).to_be_visible()
    assert not has_second_factor(boss)


@SEEN
def test_an_invited_person_gets_in_and_sets_up_what_is_required(
    page_as: Any, stage: Stage, settings: Any, seen: dict[str, Any]
) -> None:
    settings.SIGN_IN = SignInConfig(needs_second_factor=True)
    cache.clear()
    name, now = f"rin-{seen['language']}", datetime.now(UTC)
    _, token = invite(
        email=f"{name}@example.org",
        role="curator",
        valid_for=timedelta(days=1),
        inviter=User.objects.get(username="aya"),
        by=BY,
        now=now,
    )
    page = page_as(None, **seen)
    page.goto(f"/admin/invitation/{token}/")
    fine(page)
    assert page.locator("#id_username").input_value() == name
    for field in ("#id_password1", "#id_password2"):
        page.locator(field).fill(PASSWORD)
    page.locator("#account-form button[type=submit]").click()
    fine(page)
    page.locator("#id_code").fill(code(page.locator("code").inner_text()))
    page.locator("#code-form button[type=submit]").click()
    page.locator("a[href='/admin/']").click()
    expect(page).to_have_url(re.compile("/admin/$"))
    page.goto(f"/admin/invitation/{token}/")
    fine(page)


@pytest.mark.slow
@SEEN
def test_an_invitation_is_made_and_its_link_shown(page_as: Any, stage: Stage, seen: dict[str, Any]) -> None:
    page = page_as(**seen)
    page.goto("/admin/memoryhub/invitation/add/")
    page.locator("#id_email").fill("new@example.org")
    page.locator("[name=_save]").click()
    assert "/admin/invitation/" in page.locator("#issued-link").input_value()
    fine(page)
