"""The real server over the test's database, a real Chromium, and the people who sit before it.

One browser serves a worker; each module has rows and a server of its own, and its tests share them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import Group, Permission, User
from django.db import connection

from tests import database
from tests.browser.chromium import MISSING, PATIENCE_MS, chromium, find_chromium
from tests.browser.seeing import Watch
from tests.browser.stage import Stage, of_demo, set_stage
from tests.serving import Web, serving

KEN = "ken"
MAYA = "maya"

PASSWORD = "a long password"
LOCALES = {"en": "en-US", "ja": "ja-JP"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let Django's note pass that static files are sent by a synchronous iterator, as memoryhub.asgi does."""
    note = pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume synchronous iterators")
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(note)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Give this machine's Chromium; skip where there is none."""
    program = find_chromium()
    if program is None:
        pytest.skip(MISSING)
    with chromium(program) as running:
        yield running


@pytest.fixture(scope="module")
def transactional_db(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Give a module a copy of the stage's database, which lasts until its end; pytest-django's own lasts for a test."""
    with django_db_blocker.unblock():
        set_up = database.template("stage", lambda: set_stage(datetime.now(UTC)))
        name = f"{connection.settings_dict['NAME']}-stage"
        database.copy(set_up, name)
        with database.connected_to(name):
            yield
        database.drop(name)


@pytest.fixture(scope="module")
def stage(browser: Any, transactional_db: None) -> Stage:
    """Give the demo and one row of every sort, which the tests of a module share."""
    return Stage(datetime.now(UTC), *map(of_demo, (MAYA, KEN)))


@pytest.fixture(scope="module")
def web(stage: Stage) -> Iterator[Web]:
    """Serve the stage on a port of loopback."""
    with serving() as web:
        yield web


@pytest.fixture
def page_as(browser: Any, web: Web) -> Iterator[Callable[..., Any]]:
    """Return a maker of pages of people with the named groups or permissions: see `Desk.page_as`."""
    with desk(browser, web) as at:
        yield at.page_as


@pytest.fixture
def page(page_as: Callable[..., Any]) -> Any:
    """Return the page of an administrator."""
    return page_as()


@dataclass
class Desk:
    """Windows of one browser, each of somebody, and what went wrong in them."""

    browser: Any
    web: Web
    watch: Watch
    windows: list[Any] = field(default_factory=list)

    def page_as(
        self, *names: str | None, language: str = "en", width: int = 1280, dark: bool = False, zone: str = "UTC"
    ) -> Any:
        """Return a page of somebody with these groups or permissions; no name: an administrator; None: nobody.

        `language` is "en" or "ja", `width` the window's in pixels, `zone` its clock's.
        """
        window = self.browser.new_context(
            base_url=self.web.url,
            locale=LOCALES[language],
            timezone_id=zone,
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        self.windows.append(window)
        window.set_default_timeout(PATIENCE_MS)
        self.watch.over(window)
        if names != (None,):
            window.add_cookies([session_cookie(person(*names), self.web)])  # type: ignore[arg-type]
        return window.new_page()


@contextmanager
def desk(browser: Any, web: Web) -> Iterator[Desk]:
    """Open windows, and close them at the end; fails where something went wrong in one of them."""
    at = Desk(browser, web, Watch(web.url))
    yield at
    for window in at.windows:
        window.close()
    at.watch.check()


def person(*names: str) -> User:
    """Return somebody with these groups or permissions alone; without any, an administrator."""
    username = "boss" if not names else "-".join(["with", *sorted(names)])[:150]
    known = User.objects.filter(username=username).first()
    if known is not None:
        return known
    if not names:
        return User.objects.create_superuser(username, password=PASSWORD)
    made = User.objects.create_user(username, password=PASSWORD, is_staff=True)
    for name in names:
        group = Group.objects.filter(name=name).first()
        if group is not None:
            made.groups.add(group)
        else:
            made.user_permissions.add(Permission.objects.get(codename=name))
    return made


def session_cookie(user: User, web: Web) -> dict[str, str]:
    """Log somebody in and return the cookie that says so."""
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[-1]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return {"name": settings.SESSION_COOKIE_NAME, "value": session.session_key, "url": web.url}
