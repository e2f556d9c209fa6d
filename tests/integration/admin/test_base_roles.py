"""The two roles, over every address of the admin as the URLconf has it; and nobody raises himself."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.db import transaction
from django.test import Client
from django.urls import URLResolver, get_resolver, reverse

from memoryhub.admin import base
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.roles import ADMINISTRATOR, CURATOR, ROLES, apply_roles, is_granted, roles_out_of_sync
from memoryhub.unfold import ADMINISTRATION, address_of, may_open
from memoryhub.unfold import SCREENS as SCREENS_OF_SIDEBAR
from tests.integration.admin.conftest import Hub, form_of, list_of, logged_in, page_of

PASSWORD = "a long password"
CODES_OF_TALKS = [f"{verb}_{model}" for verb in ("view", "add", "change", "delete") for model in ("receipt", "session")]

# Every model with a screen: what a curator may do there. A new one is decided about here.
NOTHING, READS, ALL = "nothing", "reads", "all"
SCREENS = {
    "strength_memory": ALL, "strength_merge": ALL, "strength_sleeprun": ALL, "strength_tombstone": ALL,
    "strength_task": ALL, "strength_profile": ALL, "strength_expectation": ALL, "strength_reviewrule": ALL, "summaries_summary": ALL, "summaries_project": ALL, "summaries_document": ALL,
    "summaries_routingdecision": ALL, "summaries_projectevent": ALL,
    "conversations_session": READS, "conversations_message": READS, "conversations_receipt": READS,
    "conversations_chatturn": READS, "memoryhub_agent": READS, "memoryhub_actor": READS,
    "memoryhub_apikey": NOTHING, "memoryhub_oauthgrant": NOTHING, "memoryhub_auditentry": NOTHING, "memoryhub_embeddingspace": NOTHING,
    "memoryhub_idempotencyrecord": NOTHING, "memoryhub_ledgerentry": NOTHING, "memoryhub_tokenfactors": NOTHING,
    "memoryhub_job": NOTHING, "memoryhub_worker": NOTHING, "memoryhub_schedulestate": NOTHING,
    "auth_user": NOTHING, "auth_group": NOTHING, "memoryhub_failedlogin": NOTHING, "memoryhub_invitation": NOTHING,
    "webhooks_endpoint": NOTHING,
}  # fmt: skip
# What is done to a row by a button, where it is not as the screen.
ACTIONS = {
    "conversations_session_end": ALL, "conversations_session_forget": ALL, "memoryhub_actor_erase": NOTHING, "memoryhub_actor_export": NOTHING,
}  # fmt: skip
# Pages that belong to no single model.
PAGES = {
    "news": ALL, "review": ALL, "review_alike": ALL, "talk": ALL, "learnt": ALL, "playground": ALL, "what_if": ALL, "keep_expectation": ALL, "instructions": NOTHING, "own_password": ALL, "own_sessions": ALL, "own_sign_in": ALL, "time_zone": ALL, "palette": ALL, "sleep": ALL, "sleep_undo": ALL,
    "summaries_session_summarise": ALL,
    "oauth_consent": NOTHING, "spending": NOTHING, "spending_totals": NOTHING, "importer": NOTHING, "import_page": NOTHING, "import_chunk": NOTHING,
}  # fmt: skip
# Django's and the kit's own addresses, for whoever may log in, and the login itself.
FOR_ALL_STAFF = {
    "index", "password_change", "password_change_done", "jsi18n", "autocomplete", "view_on_site", "app_list", "search",
    "toggle_sidebar", "", "logout",
}  # fmt: skip
# Ways in, for who is not logged in yet.
WAYS_IN = {"login_page", "oidc_begin", "oidc_callback", "second_step", "invitation"}
FOR_EVERYBODY = {"login", "logout", *WAYS_IN}


@dataclass(frozen=True)
class Address:
    """One address of the admin: its name without the namespace, and the names of its variable parts."""

    name: str
    places: tuple[str, ...]
    is_of_site: bool

    @property
    def screen(self) -> str:
        """Return the longest screen that the name begins with; nothing where it is a page's."""
        if not self.is_of_site:
            return ""
        fitting = [screen for screen in SCREENS if self.name.startswith(f"{screen}_")]
        return max(fitting, key=len, default="")

    def url(self, keys: dict[str, str]) -> str:
        """Return the address, of a row where it is one's."""
        values = {place: keys.get(self.screen, str(uuid4())) for place in self.places}
        return reverse(f"admin:{self.name}" if self.is_of_site else self.name, kwargs=values)


def addresses() -> list[Address]:
    """Return every address below /admin/, as the URLconf has it."""
    return [
        each
        for pattern in get_resolver().url_patterns
        if isinstance(pattern, URLResolver) and str(pattern.pattern) == "admin/"
        for each in _below(pattern, is_of_site=pattern.app_name == "admin")
    ]


def _below(resolver: URLResolver, *, is_of_site: bool) -> Iterator[Address]:
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            yield from _below(pattern, is_of_site=is_of_site)
        else:
            places = tuple(pattern.pattern.converters) or tuple(pattern.pattern.regex.groupindex)
            yield Address(pattern.name or "", places, is_of_site)


def may(address: Address) -> str:
    """Return what a curator may do at an address."""
    if address.screen:
        return ACTIONS.get(address.name, SCREENS[address.screen])
    return ALL if address.is_of_site else PAGES[address.name]


CLOSABLE = [
    each
    for each in addresses()
    if each.name
    not in FOR_ALL_STAFF | FOR_EVERYBODY | {"own_password", "own_sessions", "own_sign_in", "time_zone", "palette"}
]


def person(role: str, name: str = "kei") -> User:
    made = User.objects.create_user(name, password=PASSWORD, is_staff=True)
    made.groups.add(Group.objects.get(name=role))
    return made


def keys_of_rows() -> dict[str, str]:
    """Return a row's key for each screen that has rows."""
    firsts = {
        f"{model._meta.app_label}_{model._meta.model_name}": model._default_manager.first()
        for model in admin.site._registry
    }
    return {name: str(row.pk) for name, row in firsts.items() if row is not None}


def browser_of(user: User) -> Client:
    """Return a plain browser: what an empty POST comes to is another test's to watch."""
    browser = Client()
    browser.force_login(user)
    return browser


def answered(browser: Client, method: str, url: str) -> int:
    """Return the status of an answer; whatever it changed is taken back."""
    with transaction.atomic():
        status: int = getattr(browser, method)(url).status_code
        transaction.set_rollback(True)
    return status


# The table against the URLconf.


def test_every_address_is_decided_about() -> None:
    unknown = {
        each.name
        for each in addresses()
        if not each.screen
        and each.name not in (FOR_ALL_STAFF | FOR_EVERYBODY if each.is_of_site else {*PAGES, *WAYS_IN})
    }
    assert unknown == set(), "Say in SCREENS, PAGES or FOR_ALL_STAFF who may open these."
    assert set(SCREENS) == {f"{model._meta.app_label}_{model._meta.model_name}" for model in admin.site._registry}
    assert set(PAGES) | WAYS_IN == {each.name for each in addresses() if not each.is_of_site}


def test_a_curator_gets_403_wherever_an_administrator_alone_may_be(hub: Hub) -> None:
    browser, keys = browser_of(person(CURATOR)), keys_of_rows()
    closed = [each for each in CLOSABLE if may(each) == NOTHING]
    assert len(closed) > 50
    open_ = [
        (each.name, method)
        for each in closed
        for method in ("get", "post")
        if answered(browser, method, each.url(keys)) != 403
    ]
    assert open_ == []


def test_a_curator_opens_all_else_and_changes_what_is_the_curators(hub: Hub) -> None:
    curator, boss, keys = browser_of(person(CURATOR)), browser_of(_superuser()), keys_of_rows()
    wrong = []
    for each in (each for each in CLOSABLE if may(each) != NOTHING):
        for method in ("get", "post"):
            status = answered(curator, method, each.url(keys))
            assert status < 500, (each.name, method)
            is_change = method == "post" or each.name.rpartition("_")[2] in {"add", "delete"}
            if status == 403 and not (may(each) == READS and is_change):
                # Nobody may, whoever he is: what is not added or edited by hand.
                wrong += [(each.name, method)] * (answered(boss, method, each.url(keys)) != 403)
    assert wrong == []


def test_an_administrator_is_refused_nothing_that_a_superuser_may(hub: Hub) -> None:
    browser, boss, keys = browser_of(person(ADMINISTRATOR)), browser_of(_superuser()), keys_of_rows()
    keys["auth_user"] = str(User.objects.get(username="kei").pk)
    refused = [each for each in CLOSABLE if answered(browser, "get", each.url(keys)) == 403]
    wrong = {each.name for each in refused if answered(boss, "get", each.url(keys)) != 403}
    assert wrong == {"auth_user_delete"}, "Nobody deletes the own account; all else is open."


def test_strangers_are_sent_to_the_login_everywhere(hub: Hub) -> None:
    browser, keys = Client(), keys_of_rows()
    wrong = []
    for each in (each for each in addresses() if each.name not in FOR_EVERYBODY | FOR_ALL_STAFF):
        for method in ("get", "post"):
            response = getattr(browser, method)(each.url(keys))
            if response.status_code != 302 or "/admin/login/" not in response["Location"]:
                wrong.append((each.name, method, response.status_code))
    assert wrong == []


def test_staff_without_a_role_see_an_empty_first_page_and_nothing_else(hub: Hub) -> None:
    browser, keys = (browser_of(User.objects.create_user("kei", password=PASSWORD, is_staff=True)), keys_of_rows())
    page = browser.get(reverse("admin:index"))
    assert page.context["tiles"] == [] and "Ask an administrator for a role" in page.content.decode()
    opened = [
        (each.name, method)
        for each in CLOSABLE
        for method in ("get", "post")
        if answered(browser, method, each.url(keys)) not in (403, 405)
    ]
    assert opened == []


def test_a_permission_opens_no_other_screen(hub: Hub) -> None:
    kei = User.objects.create_user("kei", password=PASSWORD, is_staff=True)
    kei.user_permissions.add(Permission.objects.get(codename="view_memory"))
    browser, keys = browser_of(kei), keys_of_rows()
    others = [each for each in CLOSABLE if each.screen not in {"", "strength_memory"}]
    assert {"summaries_summary", "summaries_project", "conversations_session"} <= {each.screen for each in others}
    opened = [each.name for each in others if answered(browser, "get", each.url(keys)) not in (403, 405)]
    assert opened == []


def test_the_sidebar_offers_a_page_to_those_for_whom_it_opens(db: None) -> None:
    needs = {page.name: page.needs for page in base.PAGES}
    pages = [name for name in SCREENS_OF_SIDEBAR if name in needs]
    assert len(pages) >= 3
    for name in pages:
        codes = [need.partition(".")[2] for need in needs[name]]
        for left_out in (None, *codes):
            user = User.objects.create_user(f"{name}-{left_out}", is_staff=True)
            user.user_permissions.set(
                Permission.objects.filter(codename__in=[code for code in codes if code != left_out])
            )
            assert may_open(name, SimpleNamespace(user=user)) is (left_out is None)


def test_the_sidebar_and_its_tabs_have_every_list(db: None) -> None:
    assert set(SCREENS_OF_SIDEBAR) >= {_name(model) for model in admin.site._registry}


def test_the_sidebar_shows_what_the_role_may_open(hub: Hub) -> None:
    def links(role: str) -> str:
        return browser_of(person(role, role)).get(reverse("admin:index")).content.decode()

    curator, administrator = links(CURATOR), links(ADMINISTRATOR)
    hidden = [list_of(model) for model in admin.site._registry if SCREENS[_name(model)] == NOTHING]
    hidden.append(reverse("spending"))
    assert not [link for link in hidden if f'href="{link}' in curator]
    leading = [address_of(area["screens"][0][1]) for area in ADMINISTRATION]
    assert not [link for link in leading if f'href="{link}' not in administrator]
    assert list_of(apps.get_model("strength", "Memory")) in curator


# The groups.


@pytest.mark.django_db
def test_roles_hold_what_the_table_says() -> None:
    for role in ROLES:
        held = set(Group.objects.get(name=role).permissions.values_list("content_type__app_label", "codename"))
        every = Permission.objects.values_list("content_type__app_label", "codename")
        assert held == {(app, code) for app, code in every if is_granted(role, app, code)} != set()
    assert roles_out_of_sync() == []


@pytest.mark.django_db
def test_nobody_gets_what_runs_code_or_reads_sessions() -> None:
    for app in ("django_q", "sessions", "contenttypes", "admin"):
        assert not Permission.objects.filter(group__name__in=ROLES, content_type__app_label=app).exists()
    of_talks = {code for code in CODES_OF_TALKS if is_granted(CURATOR, "conversations", code)}
    assert of_talks == {
        "view_receipt",
        "view_session",
        "add_receipt",
        "add_session",
        "change_session",
        "delete_session",
    }
    assert not is_granted(CURATOR, "auth", "view_user") and not is_granted(ADMINISTRATOR, "auth", "add_permission")


@pytest.mark.django_db
def test_every_migrate_mends_a_group_and_grants_what_is_new() -> None:
    group = Group.objects.get(name=CURATOR)
    group.permissions.set(Permission.objects.filter(codename__in=["view_job", "view_user"]))
    Group.objects.get(name=ADMINISTRATOR).delete()
    assert roles_out_of_sync() == [CURATOR, ADMINISTRATOR]
    for config in apps.get_app_configs():
        apply_roles(config)
    assert roles_out_of_sync() == []
    apply_roles(apps.get_app_config("strength"))
    assert roles_out_of_sync() == []


def _said_while_applying(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Apply the roles as after a migrate; return what was warned of."""
    caplog.clear()
    for config in apps.get_app_configs():
        apply_roles(config)
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.django_db
def test_what_a_role_takes_from_a_group_made_by_hand_is_told(caplog: pytest.LogCaptureFixture) -> None:
    group = Group.objects.get(name=CURATOR)
    group.permissions.add(*Permission.objects.filter(codename__in=["view_job", "view_user"]))
    told = _said_while_applying(caplog)
    assert len(told) == 2
    for app, codename in (("memoryhub", "view_job"), ("auth", "view_user")):
        line = f"the group curator is a role of the server: of {app} it lost {codename} and gained nothing"
        assert line in told
    assert _said_while_applying(caplog) == [], "once"


# People.


def new_person(browser: Client, **values: Any) -> Any:
    data = {"username": "mika", "usable_password": "true", "password1": PASSWORD, "password2": PASSWORD, **values}
    return browser.post(reverse("admin:auth_user_add"), data, follow=True)


def trail(kind: str = "person") -> list[tuple[str, str, str]]:
    rows = AuditEntry.objects.filter(object_kind=kind).order_by("at", "id")
    return list(rows.values_list("verb", "object_id", "who_name"))


def test_a_role_on_the_form_lets_a_new_person_in_at_once(db: None) -> None:
    browser = logged_in(person(ADMINISTRATOR))
    assert new_person(browser, role=CURATOR).status_code == 200
    mika = User.objects.get(username="mika")
    assert mika.is_staff and not mika.is_superuser
    assert [group.name for group in mika.groups.all()] == [CURATOR]
    assert trail() == [("create", str(mika.pk), "kei")]
    login = Client().post(reverse("admin:login"), {"username": "mika", "password": PASSWORD})
    assert login["Location"] == reverse("admin:index")


def test_a_person_without_a_role_may_not_log_in(db: None) -> None:
    new_person(logged_in(_superuser()), role="")
    mika = User.objects.get(username="mika")
    assert not mika.is_staff and not mika.groups.exists()


def test_an_administrator_makes_no_superuser(db: None) -> None:
    browser = logged_in(person(ADMINISTRATOR))
    new_person(browser, role=CURATOR, is_superuser="on")
    mika = User.objects.get(username="mika")
    form = form_of(browser.get(page_of(mika)))
    assert "is_superuser" not in form
    browser.post(page_of(mika), {**form, "is_superuser": "on", "email": "mika@example.org"})
    mika.refresh_from_db()
    assert not mika.is_superuser and mika.email == "mika@example.org"
    kei = User.objects.get(username="kei")
    browser.post(page_of(kei), {**form_of(browser.get(page_of(kei))), "is_superuser": "on"})
    kei.refresh_from_db()
    assert not kei.is_superuser


def test_an_administrator_touches_no_superuser(db: None) -> None:
    browser, boss = logged_in(person(ADMINISTRATOR)), _superuser()
    _refused_on(browser, boss)
    boss.is_active = False
    boss.save()
    _refused_on(browser, boss)


def test_an_administrator_touches_nobody_who_has_more(db: None) -> None:
    browser = logged_in(person(ADMINISTRATOR))
    other = person(CURATOR, "aya")
    other.user_permissions.add(Permission.objects.get(codename="add_schedule"))
    _refused_on(browser, other)
    other.is_active = False
    other.save()
    _refused_on(browser, other)


def _refused_on(browser: Client, other: User) -> None:
    before = (other.password, other.is_active)
    assert browser.get(page_of(other)).status_code == 200
    assert browser.post(page_of(other), {"username": "mine", "is_active": "on"}).status_code == 403
    password = reverse("admin:auth_user_password_change", args=[other.pk])
    new = {"password1": "another long one", "password2": "another long one", "usable_password": "true"}
    assert browser.get(password).status_code == 403 and browser.post(password, new).status_code == 403
    assert browser.post(page_of(other, "delete"), {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [other.pk], "post": "yes"}
    browser.post(list_of(User), chosen)
    other.refresh_from_db()
    assert (other.password, other.is_active) == before and trail() == []


def test_nobody_gives_what_he_has_not(db: None) -> None:
    stronger = Group.objects.create(name="stronger")
    stronger.permissions.add(Permission.objects.get(codename="add_schedule"))
    browser = logged_in(person(ADMINISTRATOR))
    kei = User.objects.get(username="kei")
    form = form_of(browser.get(page_of(kei)))
    schedule = Permission.objects.get(codename="add_schedule")
    for values in ({"groups": [stronger.pk]}, {"user_permissions": [schedule.pk]}):
        refused = browser.post(page_of(kei), {**form, **values})
        assert refused.status_code == 200 and set(values) <= set(refused.context["adminform"].form.errors)
    made = {"name": "mine", "permissions": [schedule.pk]}
    assert browser.post(list_of(Group, "add"), made).status_code == 200
    assert browser.post(page_of(stronger), {"name": "stronger", "permissions": []}).status_code == 403
    assert not Group.objects.filter(name="mine").exists() and not kei.user_permissions.exists()
    assert list(kei.groups.values_list("name", flat=True)) == [ADMINISTRATOR]


@pytest.mark.parametrize("role", ROLES)
def test_a_roles_group_is_nobodys_to_change(db: None, role: str) -> None:
    group = Group.objects.get(name=role)
    for browser in (logged_in(person(ADMINISTRATOR)), logged_in(_superuser())):
        page = browser.get(page_of(group))
        assert page.status_code == 200 and "built-in role" in page.content.decode()
        assert browser.post(page_of(group), {"name": "x", "permissions": []}).status_code == 403
        assert browser.post(page_of(group, "delete"), {"post": "yes"}).status_code == 403
    assert roles_out_of_sync() == []


def test_groups_of_ones_own_are_made_changed_and_deleted_and_the_trail_tells(db: None) -> None:
    browser = logged_in(person(ADMINISTRATOR))
    seen = Permission.objects.get(codename="view_memory")
    browser.post(list_of(Group, "add"), {"name": "readers", "permissions": [seen.pk]})
    group = Group.objects.get(name="readers")
    browser.post(page_of(group), {"name": "onlookers", "permissions": [seen.pk]})
    browser.post(page_of(group, "delete"), {"post": "yes"})
    assert [verb for verb, *_ in trail("group")] == ["create", "update", "delete"]


def test_accounts_are_changed_and_deleted_and_the_trail_tells(db: None) -> None:
    browser = logged_in(person(ADMINISTRATOR))
    mika = person(CURATOR, "mika")
    browser.post(page_of(mika), {**form_of(browser.get(page_of(mika))), "first_name": "Mika"})
    new = {"password1": "another long one", "password2": "another long one", "usable_password": "true"}
    browser.post(reverse("admin:auth_user_password_change", args=[mika.pk]), new)
    mika.refresh_from_db()
    assert mika.first_name == "Mika" and mika.check_password("another long one")
    browser.post(list_of(User), {"action": "delete_selected", "_selected_action": [mika.pk], "post": "yes"})
    assert [verb for verb, *_ in trail()] == ["update", "update", "delete"]
    assert not any("another long one" in str(row) for row in AuditEntry.objects.values_list("details", "reason"))


def test_people_change_their_own_password_and_the_trail_tells(db: None) -> None:
    kei = person(CURATOR)
    browser, page = logged_in(kei), reverse("admin:password_change")
    assert browser.get(page).status_code == 200
    assert browser.post(page, {"old_password": "wrong", "new_password1": "x", "new_password2": "x"}).status_code == 200
    assert trail() == []
    new = {"old_password": PASSWORD, "new_password1": "another long one", "new_password2": "another long one"}
    assert browser.post(page, new, follow=True).status_code == 200
    kei.refresh_from_db()
    assert kei.check_password("another long one") and trail() == [("update", str(kei.pk), "kei")]


def test_people_choose_their_language(db: None) -> None:
    browser = logged_in(person(CURATOR))
    assert reverse("set_language") in browser.get(reverse("admin:index")).content.decode()
    browser.post(reverse("set_language"), {"language": "ja", "next": reverse("admin:index")})
    assert '<html lang="ja"' in browser.get(reverse("admin:index")).content.decode()


def test_nobody_deletes_the_own_account(db: None) -> None:
    boss = _superuser()
    assert logged_in(boss).post(page_of(boss, "delete"), {"post": "yes"}).status_code == 403


def _superuser() -> User:
    return User.objects.create_superuser("root", password=PASSWORD)


def _name(model: Any) -> str:
    return f"{model._meta.app_label}_{model._meta.model_name}"
