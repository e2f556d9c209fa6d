"""Every page of the admin opens, for whoever may see it, quickly, and shows texts as texts."""

import gzip
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from string import ascii_lowercase
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path, reverse
from pytest_django.fixtures import Settings

from conversations.actions.sessions import open_session
from conversations.models import ChatTurn, DeletedMessage, Message, MessageIndex, Receipt, Session
from memoryhub import urls
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.actions import create_agent, issue_key
from memoryhub.auth.models import AgentLimit, ApiKey, AuditEntry, CallSum, OAuthClient, OAuthToken
from memoryhub.auth.principals import Scope
from memoryhub.db.positions import Position
from memoryhub.db.shared_cache import SharedValue
from memoryhub.importexport.foreign.models import Import, ImportedRow, UploadedPiece
from memoryhub.llm.usage.models import CapReached
from memoryhub.search.models import ClusteringState, FrequentTerms, TermStatistic
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.unfold import ADMINISTRATION, AREAS, address_of
from memoryhub.webhooks.models import Delivery, Event
from strength.models import (
    Memory,
    MemoryChange,
    MemoryIndex,
    MemoryNumbers,
    MemoryRevision,
    MemorySource,
    NewsPlace,
    PerspectiveStrength,
    ProfileVersion,
    ReflectionCursor,
    ReviewComment,
    ReviewHold,
    ReviewInstructions,
    ReviewPlan,
    SavedView,
    SleepState,
    StrategyCursor,
    StrengthPoint,
    UseReport,
)
from summaries.models import DocumentEntry, DocumentVersion, ProjectCursor, Summary, SummaryDraft, SummaryVersion
from tests.integration.admin.conftest import BY, NOW, SCRIPT, SECRET_USER, Hub, list_of, logged_in, page_of

# Shown inside a memory's page, or of no use to people: hashed terms, vectors, clocks, and what counts once.
PARTS = {
    MemoryNumbers,
    PerspectiveStrength,
    MemorySource,
    MemoryRevision,
    ReviewPlan,
    ReviewComment,
    StrengthPoint,
    SummaryVersion,
    ProfileVersion,
    DocumentEntry,
    DocumentVersion,
    SavedView,
    ReviewInstructions,
    NewsPlace,
    Delivery,
    AgentLimit,  # on the page of its account
}
MACHINERY = {
    Position,
    CallSum,
    OAuthClient,  # on the page of its grants
    OAuthToken,
    CapReached,  # the caps themselves are on the page of spending
    Event,
    DeletedMessage,
    ReviewHold,
    MessageIndex,
    MemoryIndex,
    TermStatistic,
    FrequentTerms,
    ClusteringState,
    SleepState,
    ReflectionCursor,
    StrategyCursor,
    UseReport,
    ProjectCursor,
    SummaryDraft,
    MemoryChange,
    Import,  # a page of its own
    ImportedRow,
    UploadedPiece,
    SharedValue,
}
MOST_QUERIES = 25
REGISTERED = sorted(admin.site._registry, key=lambda model: model._meta.label)


def named(model: Any) -> str:
    return str(model._meta.label)


def test_every_model_is_registered_shown_inside_another_or_machinery() -> None:
    packages = ("memoryhub", "conversations", "summaries", "strength")
    configs = (config for config in apps.get_app_configs() if config.name.partition(".")[0] in packages)
    ours = {model for config in configs for model in config.get_models()}
    assert ours - set(REGISTERED) == PARTS | MACHINERY


def test_lists_open_without_rows(boss: Client) -> None:
    answered = {named(model): boss.get(list_of(model)).status_code for model in REGISTERED}
    assert set(answered.values()) == {200}, answered


@pytest.mark.parametrize("model", REGISTERED, ids=named)
def test_screen_opens_and_is_searched_and_filtered(boss: Client, hub: Hub, model: Any, rf: Any) -> None:
    for row in model._default_manager.all()[:3]:
        assert boss.get(page_of(row)).status_code == 200
    request = rf.get("/")
    request.user = User.objects.get(username="boss")
    allowed = admin.site._registry[model].has_add_permission(request)
    assert boss.get(list_of(model, "add")).status_code == (200 if allowed else 403)
    for word in ("Kyoto", "抹茶", str(hub.memory.pk), "'\"%_\\"):
        assert boss.get(list_of(model), {"q": word}).status_code == 200
    listed = boss.get(list_of(model))
    assert listed.status_code == 200
    for spec in listed.context["cl"].filter_specs:
        for name in spec.expected_parameters():
            assert boss.get(list_of(model), {name: "1"}, follow=True).status_code == 200, name


@pytest.mark.parametrize("model", REGISTERED, ids=named)
def test_a_list_sorted_by_any_of_its_columns_holds_the_same_rows(boss: Client, hub: Hub, model: Any, rf: Any) -> None:
    screen, held = admin.site._registry[model], []
    for number in range(1 + len(screen.list_display)):
        request = rf.get("/", {"o": number} if number else {})
        request.user, request.session = User.objects.get(username="boss"), boss.session
        rows = screen.get_changelist_instance(request).get_queryset(request)
        held.append(sorted(str(row.pk) for row in rows))
    assert held == [held[0]] * len(held)


def test_first_page_counts_and_links(boss: Client, hub: Hub) -> None:
    with CaptureQueriesContext(connection) as queries:
        response = boss.get(reverse("admin:index"))
    figures = {str(tile.title): str(tile.figure) for tile in response.context["tiles"]}
    assert figures["Agents"] == "1" and figures["Messages"] == "3" and figures["Active"] == "1"
    assert len(queries) <= MOST_QUERIES
    assert reverse("docs") in response.content.decode()
    for tile in response.context["tiles"]:
        assert boss.get(tile.href).status_code == 200


def test_a_question_that_was_broken_off_is_shown_as_that(boss: Client, hub: Hub) -> None:
    ChatTurn.objects.update(until=datetime.now(UTC) + timedelta(hours=1))
    assert "broken off" not in boss.get(list_of(ChatTurn)).content.decode()
    ChatTurn.objects.update(until=NOW)
    assert "broken off" in boss.get(list_of(ChatTurn)).content.decode(), "asked long ago, and never answered"


def test_first_page_estimates_what_is_dear_to_count(boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoryhub.admin.dashboard.MAX_COUNT_COST", 0.0)
    tiles = boss.get(reverse("admin:index")).context["tiles"]
    figures = {str(tile.title): tile.figure for tile in tiles}
    assert figures["Messages"].is_estimate and str(figures["Messages"]).startswith("about ")
    assert not figures["Jobs"].is_estimate, "it is counted by itself"


def test_first_page_shows_nothing_to_people_without_permissions(staff: Callable[..., Client], hub: Hub) -> None:
    assert staff().get(reverse("admin:index")).context["tiles"] == []


def test_lists_ask_as_much_for_many_rows_as_for_few(boss: Client, hub: Hub) -> None:
    models: list[Any] = [Agent, Actor, ApiKey, AuditEntry, Session, Message, Receipt, Memory]

    def queries() -> dict[str, int]:
        counts = {}
        for model in models:
            with CaptureQueriesContext(connection) as captured:
                assert boss.get(list_of(model)).status_code == 200
            counts[named(model)] = len(captured)
        return counts

    queries()
    few = queries()
    fill(hub)
    assert min(model._default_manager.count() for model in models) > 20
    assert queries() == few
    assert max(few.values()) <= MOST_QUERIES


def fill(hub: Hub) -> None:
    """Add a few dozen of everything."""
    hub.say(*(f"message {number}" for number in range(30)))
    for number in range(25):
        create_agent(agent_id=f"agent-{number}", values={}, by=BY, now=NOW)
        actor = actor_for_writing(BY, f"agent-{number}", f"user-{number}", now=NOW)
        open_session(actor=actor, session_id=None, channel="api", by=BY, now=NOW)
        issue_key(name=f"key {number}", scopes=[Scope.READ], agent_ids=["kana"], by=BY, now=NOW)
        hub.remember(f"memory {number}", strength_by_perspective={"cook": 0.5})
        hub.ask(f"question {number}")


def test_detail_pages_ask_as_much_for_a_long_story_as_for_a_short_one(boss: Client, hub: Hub) -> None:
    rows = [hub.memory, hub.session, hub.receipt]
    for row in rows:
        boss.get(page_of(row))

    def queries() -> list[int]:
        counts = []
        for row in rows:
            with CaptureQueriesContext(connection) as captured:
                boss.get(page_of(row))
            counts.append(len(captured))
        return counts

    few = queries()
    hub.say(*(f"message {number}" for number in range(30)))
    for _ in range(12):
        hub.ask("matcha ice cream")
        boss.post(page_of(hub.memory, "curate"), {"verb": "pin"})
        boss.post(page_of(hub.memory, "curate"), {"verb": "unpin"})
    boss.get(page_of(hub.memory))
    assert queries() == few and max(few) <= MOST_QUERIES


def test_hostile_texts_are_escaped_and_cut_in_lists(boss: Client, hub: Hub) -> None:
    rtl = "\u202e\u05e9\u05dc\u05d5\u05dd"
    long = f"{SCRIPT} {rtl} " + "word " * 19_000 + "THE-END"
    hub.say(long)
    memory = hub.remember(long, tags=[SCRIPT], learnings={SCRIPT: SCRIPT})
    hub.ask(f"{SCRIPT} {rtl} word")
    pages = [list_of(Memory), list_of(Message), list_of(Receipt), list_of(Session)]
    for page in pages:
        text = boss.get(page).content.decode()
        assert SCRIPT not in text and "THE-END" not in text and len(text) < 300_000
    for row in (memory, hub.session, hub.receipt, *Message.objects.all(), *Receipt.objects.all()):
        assert SCRIPT not in boss.get(page_of(row)).content.decode()
    assert "THE-END" in boss.get(page_of(memory, "text")).content.decode()


def test_lists_show_the_directions_of_texts_apart(boss: Client, hub: Hub) -> None:
    hub.remember("\u202eabc")
    assert "<bdi>\u202eabc</bdi>" in boss.get(list_of(Memory)).content.decode()


def test_pages_load_nothing_from_elsewhere(boss: Client, hub: Hub) -> None:
    for page in (reverse("admin:index"), list_of(Memory), page_of(hub.memory), list_of(ApiKey, "add")):
        text = boss.get(page).content.decode()
        loaded = re.findall(r'(?:src|href)="((?:https?:)?//[^"]+)"', text)
        assert loaded == []


def test_an_untitled_session_is_called_by_its_first_message_for_who_may_read_it(
    boss: Client, hub: Hub, staff: Callable[..., Client]
) -> None:
    Session.objects.update(title="")
    assert "I moved to Kyoto" in boss.get(list_of(Session)).content.decode()
    stranger = staff("view_session").get(list_of(Session)).content.decode()
    assert "I moved to Kyoto" not in stranger and "slack, " in stranger and str(hub.session.pk) + "</a>" not in stranger


def test_pages_are_called_what_people_wrote(boss: Client, hub: Hub) -> None:
    Session.objects.update(title="")
    session = boss.get(page_of(hub.session)).content.decode()
    assert re.search(r"<title>\s*I moved to Kyoto", session)
    agent = boss.get(page_of(hub.agent)).content.decode()
    assert "<bdi>kana</bdi>" in agent and ">Kana<" not in agent


def test_every_tab_leads_to_the_others(boss: Client, hub: Hub) -> None:
    for area in (*AREAS, *ADMINISTRATION):
        addresses = [address_of(name) for _title, name in area["screens"]]
        for address in addresses if len(addresses) > 1 else ():
            text = boss.get(address).content.decode()
            tabs = text.partition('id="tabs-items"')[2].partition("</nav>")[0]
            assert re.findall(r'href="([^"]+)"', tabs) == addresses, address


def test_actors_are_listed_by_agent_and_user(boss: Client, hub: Hub) -> None:
    text = boss.get(list_of(Actor)).content.decode()
    row = text.partition("<tbody")[2].partition("</th>")[0]
    assert f"kana / {SECRET_USER}" in re.sub(r"<[^>]*>", "", row)


def test_session_page_shows_messages_in_order_and_the_way_to_the_others(boss: Client, hub: Hub) -> None:
    hub.say(*(f"number {number}" for number in range(3, 210)))
    response = boss.get(page_of(hub.session))
    text = response.content.decode()
    assert text.index("I moved to Kyoto") < text.index("number 3") < text.index("number 40")
    assert "number 60" not in text
    following = boss.get(response.context["all_messages"])
    assert [row.seq for row in following.context["cl"].result_list][:3] == [1, 2, 3]


def test_receipt_page_lists_every_candidate(boss: Client, hub: Hub) -> None:
    page = boss.get(page_of(hub.receipt))
    text = page.content.decode()
    for item in hub.receipt.items:
        assert item["layer"] in text and item["reason"] in text
    assert page_of(hub.memory) in text
    figures = dict(page.context["figures"])
    assert figures["Assembled in"].endswith(" ms") and figures["Shortened to fit the limit"] == "no"
    assert figures["Unavailable"] == "Session summary"


def test_receipts_are_found_by_the_memory_in_them(boss: Client, hub: Hub) -> None:
    found = boss.get(list_of(Receipt), {"q": str(hub.memory.pk)}).context["cl"].result_list
    assert [row.pk for row in found] == [hub.receipt.pk]


def test_memory_page_tells_where_it_comes_from_and_where_it_was_used(boss: Client, hub: Hub) -> None:
    text = boss.get(page_of(hub.memory)).content.decode()
    assert f"{page_of(hub.session, 'timeline')}?at={hub.messages[1].pk}#message-{hub.messages[1].pk}" in text
    assert page_of(hub.receipt) in boss.get(page_of(hub.memory, "retrieved")).content.decode()


def test_strangers_are_sent_to_the_login(client: Any, hub: Hub) -> None:
    browser = Client()
    for page in (reverse("admin:index"), list_of(Memory), page_of(hub.memory), page_of(hub.memory, "curate")):
        response = browser.get(page)
        assert response.status_code == 302 and "/admin/login/" in response["Location"]


def test_login_leads_to_the_first_page_or_to_where_one_was_going(db: None) -> None:
    User.objects.create_superuser("boss", password="a long password")
    page, values = reverse("admin:login"), {"username": "boss", "password": "a long password"}
    assert Client().post(page, values)["Location"] == reverse("admin:index")
    assert Client().post(f"{page}?next={list_of(Memory)}", values)["Location"] == list_of(Memory)
    assert Client().post(f"{page}?next=//elsewhere.example/", values)["Location"] == reverse("admin:index")


def test_people_who_are_no_staff_are_refused(hub: Hub) -> None:
    browser = logged_in(User.objects.create_user("reader", password="a long password"))
    assert "/admin/login/" in browser.get(list_of(Memory))["Location"]
    assert "/admin/login/" in browser.post(page_of(hub.memory, "curate"), {"verb": "pin"})["Location"]
    hub.memory.refresh_from_db()
    assert not hub.memory.pinned


@pytest.mark.parametrize("model", REGISTERED, ids=named)
def test_staff_without_permissions_see_no_list(staff: Callable[..., Client], hub: Hub, model: Any) -> None:
    browser = staff()
    assert browser.get(list_of(model)).status_code == 403
    row = model._default_manager.first()
    if row is not None:
        assert browser.get(page_of(row)).status_code == 403


def test_people_who_may_look_see_every_page(staff: Callable[..., Client], hub: Hub) -> None:
    browser = staff(*(f"view_{model._meta.model_name}" for model in REGISTERED))
    for model in REGISTERED:
        assert browser.get(list_of(model)).status_code == 200
        for row in model._default_manager.all()[:1]:
            assert browser.get(page_of(row)).status_code == 200
            assert browser.post(page_of(row), {}).status_code == 403


def test_people_who_may_look_may_not_change(staff: Callable[..., Client], hub: Hub) -> None:
    browser = staff("view_memory", "view_apikey")
    page = browser.get(page_of(hub.memory))
    assert page.status_code == 200
    assert b'name="verb"' not in page.content and page_of(hub.receipt) not in page.content.decode()
    assert browser.post(page_of(hub.memory, "curate"), {"verb": "pin"}).status_code == 403
    assert browser.post(page_of(hub.memory, "restore"), {"number": "1"}).status_code == 403
    assert browser.post(page_of(hub.memory), {"content": "other"}).status_code == 403
    browser.post(list_of(Memory), {"action": "pin", "_selected_action": [hub.memory.pk]})
    browser.post(list_of(ApiKey), {"action": "revoke", "_selected_action": [hub.key.pk]})
    hub.memory.refresh_from_db()
    hub.key.refresh_from_db()
    assert not hub.memory.pinned and hub.memory.version == 1 and hub.key.revoked_at is None


def test_sessions_hide_messages_from_people_who_may_not_see_them(staff: Callable[..., Client], hub: Hub) -> None:
    page = staff("view_session").get(page_of(hub.session))
    assert page.status_code == 200 and "Kyoto last spring" not in page.content.decode()


def test_no_str_shows_a_user_or_a_text(hub: Hub) -> None:
    for model in REGISTERED:
        for row in model._default_manager.all():
            assert SECRET_USER not in str(row) and "matcha" not in str(row)


def test_pages_open_in_japanese(boss: Client, hub: Hub) -> None:
    for page in (reverse("admin:index"), list_of(Memory), page_of(hub.memory)):
        assert boss.get(page, headers={"accept-language": "ja"}).status_code == 200


# What pages call their rows, and numbers.

NAMED = {
    Session: "Kyoto",
    Receipt: "Receipt, ",
    ChatTurn: "answering, ",
    Summary: "Summary, ",
    Actor: f"kana / \u2068{SECRET_USER}\u2069",
    AuditEntry: "",
}


@pytest.mark.parametrize("model", NAMED, ids=named)
def test_a_page_is_called_by_name_or_words_and_not_by_an_id(boss: Client, hub: Hub, model: Any) -> None:
    row = model._default_manager.all()[0]
    if model is ChatTurn:
        ChatTurn.objects.update(until="9999-01-01T00:00Z")
    with CaptureQueriesContext(connection) as queries:
        text = boss.get(page_of(row)).content.decode()
    head = re.search(r'chevron_right</span>\s*<a href="[^"]*"[^>]*>\s*<bdi>([^<]*)</bdi>', text)
    assert head and head[1].lower().startswith(NAMED[model].lower()) and not re.search(r"[0-9a-f]{8}", head[1])
    assert len(queries) <= MOST_QUERIES


@pytest.mark.parametrize("language", ["en", "ja"])
def test_long_numbers_have_their_thousands_apart(boss: Client, hub: Hub, language: str) -> None:
    Session.objects.update(message_count=12_345)
    Message.objects.filter(pk=hub.messages[0].pk).update(token_count=23_456)
    Receipt.objects.update(total_tokens=34_567, token_limit=45_678)
    boss.cookies["django_language"] = language
    session, receipt = (boss.get(page_of(row)).content.decode() for row in (hub.session, hub.receipt))
    assert "12,345" in session and "23,456" in session and "34,567" in session and "45,678" in session
    assert "34,567" in receipt and "45,678" in receipt and "11,111" in receipt


# What goes wrong.


def boom(request: Any) -> Any:
    raise RuntimeError("a secret inside")


def closed(request: Any) -> Any:
    raise PermissionDenied("a secret reason")


def not_understood(request: Any) -> Any:
    raise BadRequest("a secret reason")


FAILING = [("500", boom), ("403", closed), ("400", not_understood)]


class Failing:
    """The addresses of the server, and some that fail; Django takes anything with these names for a URLconf."""

    urlpatterns = [
        *(path(f"{place}{name}", view) for place in ("admin/", "api/v1/", "") for name, view in FAILING),
        *urls.urlpatterns,
    ]
    handler400, handler403, handler404, handler500 = map(
        staticmethod, (urls.handler400, urls.handler403, urls.handler404, urls.handler500)
    )


@pytest.fixture
def visitor(settings: Settings) -> Client:
    """Return a browser that is shown what went wrong."""
    settings.ROOT_URLCONF = Failing
    return Client(raise_request_exception=False)


HEADINGS = {400: "cannot be understood", 403: "may not open", 404: "not found", 500: "Server error"}


@pytest.mark.parametrize("status", HEADINGS)
def test_errors_have_a_page_that_asks_for_nothing_else(visitor: Client, status: int) -> None:
    """No database is allowed here: what failed may be that."""
    for place in ("/", "/admin/"):
        response = visitor.get(f"{place}{'no/such' if status == 404 and place == '/' else status}")
        if status == 404 and place == "/admin/":
            continue  # the admin sends strangers to the login instead
        text = response.content.decode()
        assert response.status_code == status and HEADINGS[status] in text
        assert ('href="/admin/"' in text) is (place == "/admin/") and "secret" not in text
        assert (
            not re.search(r"(?:src|href)=\"(?!/admin/(?:review/|strength/memory/)?\"|data:)", text)
            and "@import" not in text
        )
        assert "<main" in text and 'lang="en"' in text and "prefers-color-scheme: dark" in text


def test_an_address_of_the_admin_that_nothing_serves_leads_back(boss: Client, settings: Settings) -> None:
    text = boss.get("/admin/no/such/page/").content.decode()
    assert HEADINGS[404] in text and 'href="/admin/"' in text


@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_form_of_before_the_login_says_so_and_leads_back(db: None, language: str) -> None:
    stale = Client(enforce_csrf_checks=True)
    response = stale.post("/admin/login/", {"username": "x"}, headers={"accept-language": language})
    text = response.content.decode()
    assert response.status_code == 403 and f'lang="{language}"' in text and 'href="/admin/"' in text
    assert ("Nothing was changed" in text) is (language == "en") and "CSRF" not in text


@pytest.mark.parametrize("status", HEADINGS)
def test_the_apis_errors_stay_problems(visitor: Client, status: int) -> None:
    response = visitor.get(f"/api/v1/{status}")
    assert response.status_code == status and response["Content-Type"] == "application/problem+json"
    assert response.json()["status"] == status and "secret" not in response.content.decode()


@pytest.mark.parametrize("model", [Memory, Message])
def test_a_page_of_a_list_is_at_most_40_kilobytes_on_the_wire(boss: Client, hub: Hub, model: type[Model]) -> None:
    chance = Random(1)
    texts = [" ".join("".join(chance.choices(ascii_lowercase, k=6)) for _ in range(20)) for _ in range(50)]
    hub.say(*texts)
    for text in texts:
        hub.remember(text)
    page = boss.get(list_of(model), headers={"accept-encoding": "gzip"})
    assert page.headers["Content-Encoding"] == "gzip" and "Accept-Encoding" in page.headers["Vary"]
    html = gzip.decompress(page.content).decode()
    assert sum(text[:60] in html for text in texts) >= 30, "a page of memories"
    assert len(page.content) <= 40_000
