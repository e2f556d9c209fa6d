"""Headers and cookies behind a proxy that speaks TLS, and a Content-Security-Policy without inline code on every page."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import drf_spectacular
import pytest
import unfold
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django.fixtures import Settings

from memoryhub.env import EnvironmentProblem, read_environment
from tests.integration.admin.conftest import Hub, boss, hub
from tests.integration.admin.test_base_roles import CLOSABLE, keys_of_rows

__all__ = ["boss", "hub"]

DEPLOYED = {
    "MEMORYHUB_TLS_PROXY": "127.0.0.1",
    "ALLOWED_HOSTS": "memory.example.org",
    "CSRF_TRUSTED_ORIGINS": "https://memory.example.org",
}
"""As docs/howto/running.md has it."""

FIXED = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
INLINE_CODE = re.compile(r"<script(?![^>]*\bsrc=)|\s(?:style|on[a-z]+)=[\"']|href=[\"']?javascript:", re.IGNORECASE)


def check_page(answer: Any, about: str) -> None:
    """Fail where a page allows inline code, or holds some that its policy refuses."""
    for name, value in FIXED.items():
        assert answer.headers.get(name) == value, (about, name)
    policy = answer["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "unsafe-inline" not in policy, about
    body = answer.content.decode()
    found = INLINE_CODE.search(body)
    assert found is None, (about, body[max(0, found.start() - 200) : found.end() + 100])
    for style in re.findall(r"<style[^>]*>", body):
        nonce = re.search(r'nonce="([^"]+)"', style)
        assert nonce and f"'nonce-{nonce[1]}'" in policy, (about, style, policy)


@pytest.mark.slow
def test_pages_of_the_admin_have_the_headers_and_no_inline_code(boss: Client, hub: Hub) -> None:
    keys, pages = keys_of_rows(), 0
    for address in [*(each.url(keys) for each in CLOSABLE), *map(reverse, ("admin:index", "own_password"))]:
        answer = boss.get(address)
        if answer.get("Content-Type", "").startswith("text/html") and answer.status_code != 302:
            check_page(answer, address)
            pages += 1
    assert pages > 60


def test_pages_without_a_login_have_them_too(client: Client, db: None) -> None:
    for address in (reverse("admin:login"), "/admin/nowhere/", "/nowhere", reverse("docs")):
        check_page(Client().get(address, follow=True), address)
    locked = [Client().post(reverse("admin:login"), {"username": "a", "password": "b"}) for _ in range(5)][-1]
    assert locked.status_code == 429
    check_page(locked, "429")


def test_a_nonce_is_used_once(boss: Client) -> None:
    policies = {boss.get(reverse("admin:index"))["Content-Security-Policy"] for _ in range(3)}
    assert len(policies) == 3


@pytest.mark.parametrize(
    ("package", "name", "changes"),
    [
        (drf_spectacular, "drf_spectacular/swagger_ui.html", {' nonce="{{ request.csp_nonce }}"': ""}),
        (
            unfold,
            "unfold/layouts/skeleton.html",
            {
                ' nonce="{{ request.csp_nonce }}"': "",
                '        <meta name="htmx-config" content=\'{"includeIndicatorStyles": false, "allowEval": false}\'>\n': "",
            },
        ),
        (
            unfold,
            "admin/actions.html",
            {
                "{width: changeListWidth + 'px'}": "'width: ' + changeListWidth + 'px'",
                "total_count=cl.shown_count|default:cl.result_count": "cl.result_count as total_count",
            },
        ),
    ],
)
def test_templates_of_packages_are_copied_with_few_changes(package: Any, name: str, changes: dict[str, str]) -> None:
    """A new version of the package fails here: copy its template again."""
    ours = (Path(settings.BASE_DIR) / "templates" / name).read_text()
    for ours_has, theirs_has in changes.items():
        assert ours_has in ours
        ours = ours.replace(ours_has, theirs_has)
    assert ours == (Path(package.__file__).parent / "templates" / name).read_text()


def test_the_documented_deployment_passes_djangos_deployment_check() -> None:
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = subprocess.run(
        command, cwd=settings.BASE_DIR, env={**os.environ, **DEPLOYED}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_one_switch_sets_cookies_redirect_and_hsts() -> None:
    """In a process of its own: settings are read once."""
    names = ["SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "LANGUAGE_COOKIE_SECURE", "SECURE_SSL_REDIRECT"]
    code = (
        "import django; django.setup(); from django.conf import settings as s; "
        f"print([getattr(s, name) for name in {names}], s.SECURE_HSTS_SECONDS)"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "memoryhub.settings"}
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=settings.BASE_DIR,
            env={**environment, **more},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for more in (DEPLOYED, {})
    ]
    assert said == ["[True, True, True, True] 31536000\n", "[False, False, False, False] 0\n"]


def test_plain_http_is_sent_to_tls_and_health_is_not(settings: Settings, db: None) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_HSTS_SECONDS = 60
    browser = Client()
    answer = browser.get("/admin/")
    assert (answer.status_code, answer["Location"]) == (301, "https://testserver/admin/")
    assert browser.get("/healthz").status_code == 200
    secure = browser.get(reverse("admin:login"), secure=True)
    assert secure["Strict-Transport-Security"].startswith("max-age=60")


def test_the_web_server_believes_the_named_proxies_alone() -> None:
    code = (
        "from memoryhub.env import read_environment; from memoryhub.web import configuration\n"
        "for value in ('', '10.0.0.2, 172.16.0.0/12'):\n"
        "    config = configuration(read_environment({'MEMORYHUB_TLS_PROXY': value}))\n"
        "    config.load()\n"
        "    trusted = getattr(config.loaded_app, 'trusted_hosts', ())\n"
        "    print([each in trusted for each in ('127.0.0.1', '10.0.0.2', '172.20.0.1')])"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=settings.BASE_DIR, capture_output=True, text=True, check=True
    )
    assert said.stdout == "[False, False, False]\n[False, True, True]\n"
    for wrong in ("1", "*", "proxy.example.org"):
        with pytest.raises(EnvironmentProblem, match="MEMORYHUB_TLS_PROXY"):
            read_environment({"MEMORYHUB_TLS_PROXY": wrong})


def test_people_are_logged_in_by_a_cookie_of_this_site(db: None) -> None:
    User.objects.create_user("kei", password="a long password", is_staff=True)
    browser = Client()
    browser.post(reverse("admin:login"), {"username": "kei", "password": "a long password"})
    cookie = browser.cookies["sessionid"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax"
