"""A person who is limited to some agents sees and changes nothing of the others, at any address of the admin (ADR 70)."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.test import Client
from django.urls import reverse
from psycopg.pq import TransactionStatus

from conversations.models import ChatTurn
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.config import Provider, SignInConfig
from memoryhub.auth.models import AgentLimit, ApiKey, AuditEntry, agents_of
from memoryhub.auth.roles import ADMINISTRATOR, CURATOR
from memoryhub.auth.row_security import conditions
from memoryhub.tenancy.models import Actor
from memoryhub.webhooks.models import Endpoint
from strength.actions.memories import NewMemory, write_memory
from strength.admin.review import review_badge
from strength.models import Memory
from tests.conftest import client_with_key
from tests.database import prepared
from tests.factories.planting import Planted, plant
from tests.fakes.llm_server import LLMServer, Reply
from tests.integration.admin.conftest import BY, SECRET_USER, Hub, form_of, list_of, logged_in, page_of
from tests.integration.admin.test_base_roles import CLOSABLE, FOR_EVERYBODY, Address, addresses, browser_of, may, person
from tests.integration.admin.test_talk import events
from tests.serving import Web, serving

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def two(db: None) -> tuple[Planted, Planted]:
    """Return the rows of two agents; people are limited to the first."""

    def make() -> tuple[Planted, Planted]:
        client = client_with_key(name="planter")
        return (
            plant(client, agent_id="alpha-4711", user_id="anna-4711"),
            plant(client, agent_id="beta-8822", user_id="bert-8822"),
        )

    return prepared("two agents", make)


def limited(*agent_ids: str, name: str = "mika") -> User:
    made = person(CURATOR, name)
    AgentLimit.objects.create(person=made, agent_ids=list(agent_ids), source=AgentLimit.Source.GRANTED)
    return made


def keys_of(planted: Planted) -> dict[str, str]:
    """Return the key of a row of an agent for each screen that has rows of agents."""
    keys = {}
    for model in admin.site._registry:
        columns = {field.column for field in model._meta.local_concrete_fields}
        rows = model._default_manager.all()
        if model is Actor:
            row = rows.filter(pk=planted.actor_id).first()
        elif "actor_id" in columns:
            row = rows.filter(actor_id=planted.actor_id).first()
        elif "agent_id" in columns:
            row = rows.filter(agent_id=planted.agent_id).first()
        else:
            row = rows.first()
        if row is not None:
            keys[f"{model._meta.app_label}_{model._meta.model_name}"] = str(row.pk)
    return keys


def status_of(browser: Client, method: str, url: str, data: Any) -> int:
    with transaction.atomic():
        status: int = getattr(browser, method)(url, data).status_code
        transaction.set_rollback(True)
    return status


@pytest.mark.long
def test_a_limited_person_may_do_with_rows_of_the_agent_what_others_may(two: Any) -> None:
    one, keys = two[0], keys_of(two[0])
    free, mika = browser_of(person(CURATOR)), browser_of(limited(one.agent_id))
    values, wrong = hostile_values(one, keys), []
    for each in CLOSABLE:
        for method, url, data in (attack for attack in attacks(each, keys, values) if "?" not in attack[1]):
            expected, got = (status_of(browser, method, url, data) for browser in (free, mika))
            if expected != got:
                wrong.append((each.name, method, data.get("action", data != {}), expected, got))
    assert wrong == []


def marks_of(planted: Planted, *sent: Any) -> list[str]:
    """Return what no answer may hold; a page may repeat a name that was sent to it."""
    return [planted.agent_mark, planted.user_mark, *([] if planted.user_id in str(sent) else [planted.user_id])]


def dump_of(planted: Planted) -> dict[str, str]:
    """Return a digest of an agent's rows for each limited table."""
    digests = {}
    actors = "SELECT id FROM memoryhub_actor WHERE agent_id = %s"
    with connection.cursor() as cursor:
        for table, condition in conditions().items():
            where = "agent_id = %s" if "current_setting" in condition else f"actor_id IN ({actors})"
            cursor.execute(
                f'SELECT md5(string_agg(row::text, chr(10) ORDER BY row::text)) FROM "{table}" row WHERE {where}',
                [planted.agent_id],
            )
            digests[table] = cursor.fetchone()[0]
    return digests


def text_of(response: Any) -> str:
    content = b"".join(response) if response.streaming else response.content
    return content.decode(errors="replace") + json.dumps(dict(response.headers), default=str)


def hostile_values(other: Planted, keys: dict[str, str]) -> dict[str, Any]:
    """Return what forms, filters and actions may be sent about another agent, under every name that they have."""
    ids = list(keys.values())
    return {
        "agent": other.agent_id, "agent_id": other.agent_id, "user": other.user_id, "user_id": other.user_id,
        "actor": other.actor_id, "actor_id": other.actor_id, "session": other.ids["session_id"],
        "session_id": other.ids["session_id"], "memory": other.ids["memory_id"], "receipt": other.ids["receipt_id"],
        "project": "tea-house", "text": "green tea", "q": "green tea", "message": "green tea?", "query": "green tea",
        "reason": "because", "confirm": "yes", "post": "yes", "verb": "archive", "ids": ids, "item": ids, "items": ids,
        "_selected_action": ids, "select_across": "1",
        "content": "overwritten", "summary": "overwritten", "keeps_nothing": "on",
    }  # fmt: skip


def attacks(each: Address, keys: dict[str, str], values: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    url = each.url(keys)
    yield "get", url, {}
    yield "get", f"{url}?{urlencode(values, doseq=True)}", {}
    yield "get", f"{url}?actor__agent__agent_id__exact={values['agent']}&agent={values['agent']}", {}
    yield "post", url, {}
    yield "post", url, values
    if each.name == "autocomplete":
        for query in autocompletes():
            yield "get", f"{url}?{urlencode(query)}", {}
    if each.name.endswith("_changelist"):
        model_admin = next(row for row in admin.site._registry.values() if list_of(row.model) == url)
        for action in model_admin.actions:
            name = action if isinstance(action, str) else action.__name__
            for file_format in ("jsonl", "csv"):
                yield "post", url, {**values, "action": name, "index": "0", "format": file_format}


def autocompletes() -> Iterator[dict[str, str]]:
    """Return the query of each field that a form or filter may ask choices of."""
    for model in admin.site._registry:
        for field in model._meta.get_fields():
            if field.is_relation and field.concrete:
                names = {"app_label": model._meta.app_label, "model_name": model._meta.model_name or ""}
                yield {**names, "field_name": field.name, "term": ""}


@pytest.mark.long
def test_a_limited_person_sees_and_changes_nothing_of_another_agent(two: Any) -> None:
    one, other = two
    keys, mika = keys_of(other), browser_of(limited(one.agent_id))
    values, before = hostile_values(other, keys), dump_of(other)
    leaks, changes = [], []
    for each in [each for each in addresses() if each.name not in FOR_EVERYBODY | {"", "app_list"}]:
        for method, url, data in attacks(each, keys, values):
            with transaction.atomic():
                response = getattr(mika, method)(url, data)
                text = text_of(response)
                is_failed = connection.connection.info.transaction_status == TransactionStatus.INERROR
                if not is_failed and dump_of(other) != before:
                    changes.append((each.name, method, data != {}))
                transaction.set_rollback(True)
            if response.status_code >= 500 or any(mark in text for mark in marks_of(other, url, data)):
                leaks.append((each.name, method, response.status_code, data != {}, "?" in url))
    assert (leaks, changes) == ([], [])


@pytest.mark.long
def test_the_attack_finds_what_an_unlimited_person_sees(two: Any) -> None:
    """Without this, a sweep that reaches nothing would pass as well."""
    other = two[1]
    keys, free = keys_of(other), browser_of(person(CURATOR))
    values = hostile_values(other, keys)
    shown = set()
    for each in [each for each in CLOSABLE if may(each) != "nothing"]:
        for method, url, data in attacks(each, keys, values):
            with transaction.atomic():
                text = text_of(getattr(free, method)(url, data))
                transaction.set_rollback(True)
            if any(mark in text for mark in marks_of(other, url, data)):
                shown.add(each.name)
        if len(shown) > 30:
            break
    assert len(shown) > 30


def test_the_same_person_finds_all_of_the_own_agent(two: Any) -> None:
    one, _other = two
    free, mika = browser_of(person(CURATOR)), browser_of(limited(one.agent_id, one.agent_id, "not-there-yet"))
    for each in [each for each in CLOSABLE if each.name.endswith("_changelist") and may(each) != "nothing"]:
        rows = [set(browser.get(each.url({})).context["cl"].result_list) for browser in (free, mika)]
        keys = {row.pk for row in rows[0] if getattr(row, "agent_id", None) == one.agent_id}
        keys |= {row.pk for row in rows[0] if str(getattr(row, "actor_id", row.pk)) == one.actor_id}
        assert keys <= {row.pk for row in rows[1]} and (keys or each.name == "strength_reviewrule_changelist"), each


def test_people_without_a_limit_and_administrators_see_everything(two: Any) -> None:
    other = two[1]
    boss = User.objects.create_superuser("boss", password="a long password")
    AgentLimit.objects.create(person=boss, agent_ids=["kana"], source=AgentLimit.Source.GRANTED)
    administrator = limited("kana", name="rin")
    administrator.groups.set(Group.objects.filter(name=ADMINISTRATOR))
    for user in (boss, administrator, person(CURATOR)):
        assert other.user_mark in logged_in(user).get(list_of(Memory)).content.decode()


def test_a_limited_person_is_refused_where_the_database_is_not_prepared(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE strength_memory DISABLE ROW LEVEL SECURITY")
    browser = logged_in(limited("alpha-4711"))
    for address in (reverse("admin:index"), list_of(Memory), reverse("talk")):
        page = browser.get(address)
        assert page.status_code == 403 and "not prepared" in page.content.decode()
    assert browser.get(reverse("own_sessions")).status_code == 200, "it is about the own account alone"
    assert logged_in(person(CURATOR)).get(list_of(Memory)).status_code == 200


def test_a_page_about_all_agents_says_why_it_is_closed(two: Any) -> None:
    mika = limited(two[0].agent_id)
    mika.user_permissions.add(*Permission.objects.filter(codename__startswith="view_"))
    browser = browser_of(mika)
    for address in (reverse("admin:index"), list_of(User)):
        assert browser.get(address).status_code == 200, address
    for address in (list_of(ApiKey), list_of(Endpoint), page_of(person(CURATOR))):
        with transaction.atomic():
            page = browser.get(address)
            transaction.set_rollback(True)
        assert page.status_code == 403 and "limited to some agents" in page.content.decode(), address


def test_an_administrator_limits_a_person_on_the_page_of_the_account(db: None) -> None:
    mika = person(CURATOR, "mika")
    boss = logged_in(User.objects.create_superuser("boss", password="a long password"))
    form = form_of(boss.get(page_of(mika)))
    boss.post(page_of(mika), {**form, "agents": "kana\n yuno \n"})
    assert agents_of(mika) == {"kana", "yuno"}
    entry = AuditEntry.objects.get(details__has_key="agents")
    assert (entry.who_name, entry.details["agents"]) == ("boss", ["kana", "yuno"])
    assert form_of(boss.get(page_of(mika)))["agents"].split() == ["kana", "yuno"]
    boss.post(page_of(mika), {**form, "agents": ""})
    assert agents_of(mika) is None


def test_the_provider_s_limits_are_shown_and_not_changed(db: None, settings: Any) -> None:
    values: dict[str, Any] = {"issuer": "https://login.example.org", "client_id": "hub", "client_secret": "x"}
    values |= {"name": "Example", "scopes": ("openid",), "groups_claim": "groups", "roles": {}}
    settings.SIGN_IN = SignInConfig(Provider(**values, agents={"team": ("kana",)}))
    mika = limited("kana")
    AgentLimit.objects.update(source=AgentLimit.Source.PROVIDER)
    boss = logged_in(User.objects.create_superuser("boss", password="a long password"))
    page = boss.get(page_of(mika))
    assert "groups at the sign-in provider decide" in page.content.decode()
    boss.post(page_of(mika), {**form_of(page), "agents": ""})
    assert agents_of(mika) == {"kana"}


def test_no_one_is_limited_in_a_database_that_is_not_prepared(db: None) -> None:
    mika = person(CURATOR, "mika")
    boss = logged_in(User.objects.create_superuser("boss", password="a long password"))
    with connection.cursor() as cursor:
        cursor.execute("DROP POLICY limited_people ON strength_memory")
    page = boss.post(page_of(mika), {**form_of(boss.get(page_of(mika))), "agents": "kana"})
    assert "not prepared" in str(page.context["adminform"].form.errors["agents"])
    assert not AgentLimit.objects.exists()


def test_limited_people_have_no_way_to_lift_their_limit(two: Any) -> None:
    mika = limited(two[0].agent_id)
    mika.user_permissions.add(*Permission.objects.filter(content_type__app_label="auth"))
    browser = browser_of(mika)
    form = form_of(logged_in(User.objects.create_superuser("boss", password="a long password")).get(page_of(mika)))
    with transaction.atomic():
        assert browser.post(page_of(mika), {**form, "agents": ""}).status_code == 403
        transaction.set_rollback(True)
    assert agents_of(mika) == {two[0].agent_id}


def test_news_by_mail_are_those_of_the_agents(two: Any) -> None:
    limited(two[0].agent_id)
    person(CURATOR)

    def waiting(name: str) -> str:
        out = StringIO()
        call_command("news", to=[name], url="https://hub.example.org", stdout=out, stderr=out)
        return out.getvalue()

    assert "Pending: 1 " in waiting("mika") and "Pending: 2 " in waiting("kei")
    with connection.cursor() as cursor:
        cursor.execute("COMMENT ON POLICY limited_people ON strength_memory IS 'another'")
    out = StringIO()
    with pytest.raises(CommandError, match=r"mika \(The database is not prepared"):
        call_command("news", to=["mika", "kei"], url="https://hub.example.org", stdout=out, stderr=out)
    assert "kei: " in out.getvalue(), "the others have theirs"


@pytest.fixture
def web(transactional_db: None) -> Iterator[Web]:
    with serving() as web:
        yield web


def test_an_answer_in_pieces_is_made_in_the_limits(web: Web, hub: Hub, llm: LLMServer) -> None:
    llm.answer(Reply("Matcha ice cream, of course."))
    other = actor_for_writing(BY, "yuno", SECRET_USER, now=NOW)
    write_memory(actor=other, new=NewMemory(content="Likes matcha ice cream of Uji"), by=BY, now=NOW)
    roles: set[tuple[str, str]] = set()
    execute = CursorWrapper.execute

    def noted(cursor: Any, *args: Any, **options: Any) -> Any:
        with cursor.db.connection.cursor() as look:
            if look.connection.info.transaction_status != TransactionStatus.INERROR:
                look.execute("SELECT current_user, current_setting('memoryhub.agents', TRUE)")
                roles.add(look.fetchone())
        return execute(cursor, *args, **options)

    browser = logged_in(limited("kana"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CursorWrapper, "execute", noted)
        heard = events(web, browser, agent="kana", user_id=SECRET_USER)
    assert "Matcha ice cream, of course." in heard[-1][1]["html"] and "Uji" not in str(heard)
    assert ChatTurn.objects.latest("created_at").answer is not None
    assert {agents for role, agents in roles if role == "memoryhub_limited"} == {"{kana}"}


def test_a_large_selection_of_a_limited_person_is_no_job(two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strength.admin.bulk.MAX_SELECTED", 1)
    ids = list(Memory.objects.filter(actor_id=two[0].actor_id).values_list("pk", flat=True)[:2])
    chosen = {"action": "pin", "_selected_action": ids, "post": "yes"}
    page = browser_of(limited(two[0].agent_id)).post(list_of(Memory), chosen, follow=True)
    assert "Choose at most 1 memories at once" in page.content.decode()


def test_pages_of_the_own_account_count_nothing(two: Any) -> None:
    for user, count in ((limited(two[0].agent_id), "0"), (person(CURATOR), "4")):
        page = logged_in(user).get(reverse("own_sessions"))
        assert review_badge(page.wsgi_request) == count
