"""A person lets a client of OAuth in: the page is readable everywhere, and the browser returns to the client."""

import time
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from memoryhub.auth.consent import ConsentRequest, consent_address
from memoryhub.auth.grants import register_client
from tests.browser.chromium import PATIENCE_MS
from tests.browser.conftest import LOCALES, person, session_cookie
from tests.browser.seeing import accessible, scrolls_sideways
from tests.browser.stage import MAYA, RELEASE, Stage
from tests.serving import Web

RETURN = "https://client.example/callback"


@pytest.mark.parametrize(
    ("language", "width", "dark", "connect"), [("en", 1280, False, "Connect"), ("ja", 360, True, "接続")]
)
def test_the_browser_returns_to_the_client(
    browser: Any, web: Web, stage: Stage, language: str, width: int, dark: bool, connect: str
) -> None:
    now = datetime.now(UTC)
    client = register_client(
        client_id=uuid4(), name="C" * 100, redirect_uris=[RETURN], secret="", metadata={}, now=now
    )  # fmt: skip
    asked = ConsentRequest(str(client.pk), f"{RETURN}?{'long=' * 60}", "c" * 43, ("read", "write"), "state")
    window = browser.new_context(
        base_url=web.url, locale=LOCALES[language], viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
    )  # fmt: skip
    try:
        window.set_default_timeout(PATIENCE_MS)
        window.add_cookies([session_cookie(person(), web)])
        consent(window.new_page(), consent_address(asked), connect)
    finally:
        window.close()


def consent(page: Any, address: str, connect: str) -> None:
    page.goto(address)
    assert not scrolls_sideways(page)
    accessible(page)
    page.locator("#id_agent_id").select_option(RELEASE)
    page.locator("#id_user_id").fill(MAYA)
    # No server answers there; a Content-Security-Policy that forbids the redirect would stop the request.
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("button", name=connect, exact=True).click()
    deadline = time.monotonic() + 20
    while not (sent := [url for url in asked if url.startswith(RETURN)]):
        assert time.monotonic() < deadline, asked
        page.wait_for_timeout(100)
    assert "code=mh_" in sent[0] and "state=state" in sent[0]
