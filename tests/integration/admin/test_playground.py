"""The playground: the context that a call would get, what entered and what did not, and no trace in anybody's memory."""

import json
import logging
import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from conversations.actions.context import ContextRequest, assemble_context
from conversations.actions.sessions import open_session
from conversations.admin.context_breakdown import SOURCE_PAGES
from conversations.admin.playground import CACHE_SECONDS, PERMISSIONS, SAVE_PERMISSION, SUGGESTED_MAX_TOKENS
from conversations.models import Receipt
from memoryhub.auth.access import actor_for_writing, tenant_for_reading
from memoryhub.auth.erasure import erase_user
from memoryhub.auth.models import AuditEntry
from memoryhub.db.shared_cache import SharedValue
from memoryhub.embeddings import spaces
from memoryhub.llm.errors import ProviderUnavailable
from memoryhub.tenancy.models import Actor
from strength.models import MemoryNumbers
from summaries.actions.projects import create_project
from summaries.models import ProjectEvent, RoutingDecision
from tests.integration.admin.conftest import BY, NOW, SCRIPT, SECRET_USER, Hub, logged_in, page_of

QUESTION = "matcha ice cream in Kyoto?"
MAY = tuple(need.partition(".")[2] for need in PERMISSIONS)
MOST_BYTES = 400_000
MOST_QUERIES = 26
# The shortest and the longest in tokens of 20,000 random codes.
FEW_TOKENS, MANY_TOKENS = "307913548cade585", "4b2e0b6d7f0c0c6f"
RTL = "\u202e\u05e9\u05dc\u05d5\u05dd"


def run(browser: Client, hub: Hub, **values: Any) -> Any:
    """Ask the playground for the hub's user."""
    asked = {"agent": hub.agent.pk, "user": SECRET_USER, "message": QUESTION, **values}
    return browser.post(reverse("playground"), asked)


def without_nonce(text: str) -> str:
    return re.sub(r"(?<=remembered-)[0-9a-f]{16}", "NONCE", text)


def rows_of(response: Any) -> dict[str, Any]:
    """Return the candidates by their source."""
    return {row["source_id"]: row for group in response.context["groups"] for row in group["rows"]}


@pytest.mark.parametrize("format", ["anthropic", "openai", "text"])
def test_it_shows_the_context_that_a_call_gets(boss: Client, hub: Hub, format: str) -> None:
    told = run(
        boss,
        hub,
        session=str(hub.session.pk),
        format=format,
        max_tokens="3000",
        include_clock="false",
        **{"as": "json"},
    )
    request = ContextRequest(
        message=QUESTION, session=hub.session, format=format, options={"max_tokens": 3000, "include_clock": False}
    )
    tenant = tenant_for_reading(BY, hub.agent.pk, SECRET_USER)
    got = assemble_context(tenant=tenant, request=request, by=BY, now=NOW).assembly
    sent: dict[str, Any] = {"messages": got.messages, **({"system": got.system} if got.system is not None else {})}
    assert json.loads(without_nonce(told.content.decode())) == json.loads(without_nonce(json.dumps(sent)))
    assert told["Content-Type"] == "application/json" and "no-store" in told["Cache-Control"]


def test_it_shows_every_candidate_with_its_score_and_why(boss: Client, hub: Hub) -> None:
    response = run(boss, hub, session=str(hub.session.pk))
    text, row = response.content.decode(), rows_of(response)[str(hub.memory.pk)]
    assert row["included"] and row["score"] is not None and len(row["parts"]) == 3
    assert abs(sum(part["value"] for part in row["parts"]) - row["score"]) < 0.001
    assert page_of(hub.memory) in text and "included whole" in text and "Likes matcha ice cream" in text
    budget = response.context["budget"]
    assert sum(share["tokens"] for share in budget["shares"]) >= budget["total"] > 0
    assert budget["limit"] == 80_000 and 'role="img"' in text and 'id="budget-table"' in text


def test_a_run_leaves_no_trace(boss: Client, hub: Hub) -> None:
    create_project(actor=hub.actor, name="kyoto", description="matcha ice cream", by=BY, now=NOW)

    def traces() -> list[Any]:
        tables = (Receipt, AuditEntry, RoutingDecision, ProjectEvent, Actor)
        numbers = MemoryNumbers.objects.values_list("candidate_count", "access_count", "strength")
        return [*(table.objects.count() for table in tables), list(numbers)]

    before = traces()
    for project in ("", "auto", "kyoto", "-"):
        response = run(boss, hub, project=project, session=str(hub.session.pk))
        assert response.status_code == 200 and "result" in response.context
    assert run(boss, hub, user="nobody-yet", project="auto").context["result"]
    assert traces() == before


def test_keeping_a_receipt_is_asked_for_and_told(boss: Client, hub: Hub) -> None:
    before = MemoryNumbers.objects.get(memory=hub.memory).candidate_count
    response = run(boss, hub, keep="1", max_tokens="5000")
    kept = response.context["kept"]
    assert page_of(kept) in response.content.decode()
    assert kept.metadata["is_trial"] and kept.metadata["asked"]["options"] == {"max_tokens": 5000}
    entry = AuditEntry.objects.get(verb="keep")
    assert (entry.object_kind, entry.object_id) == ("receipt", str(kept.pk))
    assert MemoryNumbers.objects.get(memory=hub.memory).candidate_count == before
    assert "A dry run from the playground: nothing was sent." in boss.get(page_of(kept)).content.decode()


@pytest.mark.parametrize(
    ("project", "words"),
    [
        ("", "the agent’s current project, or the one found by routing"),
        ("-", "no project"),
        ("auto", "found by the message"),
        ("kyoto", "<bdi>kyoto</bdi>"),
    ],
)
def test_a_receipt_says_which_project_was_asked_for(boss: Client, hub: Hub, project: str, words: str) -> None:
    kept = run(boss, hub, keep="1", project=project).context["kept"]
    assert f"Requested project: {words}<" in boss.get(page_of(kept)).content.decode()
    again = boss.post(reverse("playground"), {"receipt": str(kept.pk)})
    assert again.context["form"]["project"].value() == project


def test_a_receipt_older_than_that_says_nothing_of_it(boss: Client, hub: Hub) -> None:
    hub.receipt.metadata.pop("asked")
    hub.receipt.save()
    page = boss.get(page_of(hub.receipt))
    assert page.status_code == 200 and "Requested project" not in page.content.decode()


def test_no_project_is_told_from_none_named(boss: Client, hub: Hub) -> None:
    first = run(boss, hub)
    page = run(boss, hub, project="-", run=first.context["run"]).content.decode()
    assert "Project: the agent’s current project, or the one found by routing → no project" in page


def test_nothing_is_kept_for_somebody_nobody_knows(boss: Client, hub: Hub) -> None:
    before = Receipt.objects.count()
    response = run(boss, hub, user="nobody-yet", keep="1")
    assert response.context["kept"] is None and Receipt.objects.count() == before
    assert not Actor.objects.filter(user_id="nobody-yet").exists()
    assert "This user does not exist, so no receipt can be stored." in response.content.decode()


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"agent": "nobody"}, "agent"),
        ({"message": " "}, "message"),
        ({"session": "no id"}, "session"),
        ({"session": "01a2041d-6fda-7559-8b1f-cd8818c2f155"}, "session"),
        ({"max_tokens": "10"}, "max_tokens"),
        ({"max_tokens": "1000", "message": "word " * 2_000}, "max_tokens"),
        ({"token_safety_margin": "2"}, "token_safety_margin"),
        ({"recall_limit": "201"}, "recall_limit"),
        ({"format": "letters"}, "format"),
        ({"user": "x\x00"}, "user"),
    ],
)
def test_what_is_wrong_stands_beside_its_field(boss: Client, hub: Hub, values: Any, field: str) -> None:
    response = run(boss, hub, **values)
    assert response.status_code == 200 and list(response.context["form"].errors) == [field]
    assert "result" not in response.context


def test_anothers_session_is_refused(boss: Client, hub: Hub) -> None:
    other = actor_for_writing(BY, hub.agent.pk, "somebody-else", now=NOW)
    session, _ = open_session(actor=other, session_id=None, channel="api", by=BY, now=NOW)
    assert list(run(boss, hub, session=str(session.pk)).context["form"].errors) == ["session"]


def test_layers_are_switched_and_options_sent(boss: Client, hub: Hub) -> None:
    layers = dict.fromkeys(("include_semantic_memory", "include_profile"), "false")
    off = run(boss, hub, **layers, cache="true", memory_placement="with_user_message")
    assert str(hub.memory.pk) not in rows_of(off)
    assert "cache_control" in off.context["prompt"]["as_json"]


def test_gaps_are_told_in_words(boss: Client, hub: Hub) -> None:
    other, _ = open_session(actor=hub.actor, session_id=None, channel="api", by=BY, now=NOW)
    told = run(boss, hub, session=str(other.pk), project="nowhere").content.decode()
    assert "There is no such project" in told
    assert (
        "This user does not exist yet: this is what a new user would get."
        in run(boss, hub, user="new").content.decode()
    )


class Away:
    """An embedder that nobody reaches."""

    name, is_local = "hashing", True

    def embed(self, texts: Any) -> Any:
        raise ProviderUnavailable("nobody there", code="unreachable")


def test_an_embedder_that_is_away_is_told(boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaces, "provider_of", lambda space: Away())
    response = run(boss, hub, message="matcha ice cream, never asked before")
    assert "found by their words alone" in response.content.decode()
    assert rows_of(response)[str(hub.memory.pk)]["included"]


def test_another_budget_is_compared_with_the_run_before(boss: Client, hub: Hub) -> None:
    hub.say(*("A long story about the garden. " * 40 for _ in range(6)))
    first = run(boss, hub, session=str(hub.session.pk))
    assert not first.context["compared"] and 2_000 in first.context["budgets"]
    second = run(boss, hub, session=str(hub.session.pk), run=first.context["run"], instead="max_tokens=1000")
    text = second.content.decode()
    assert second.context["compared"] and second.context["budget"]["limit_before"] == 80_000
    assert [str(what) for what, _was, _now in second.context["changed"]] == ["Token limit"]
    assert "was included before" in text and "left out: the token limit was reached" in text
    assert second.context["form"]["max_tokens"].value() == "1000"


def frame_of(response: Any) -> Any:
    return next(share for share in response.context["budget"]["shares"] if share["layer"] == "frame")


def test_an_error_leaves_the_run_before_to_compare_with(boss: Client, hub: Hub) -> None:
    first = run(boss, hub)
    refused = run(boss, hub, run=first.context["run"], max_tokens="10")
    assert "result" not in refused.context
    large = run(boss, hub, run=refused.context["run"], max_tokens="1000", message="word " * 2_000)
    assert "result" not in large.context
    assert f'name="run" value="{large.context["run"]}"' in large.content.decode()
    good = run(boss, hub, run=large.context["run"], max_tokens="2000")
    assert good.context["compared"] and good.context["budget"]["limit_before"] == 80_000


def test_a_receipt_is_compared_with_after_an_error_too(boss: Client, hub: Hub) -> None:
    kept = run(boss, hub, keep="1", max_tokens="5000").context["kept"]
    Receipt.objects.filter(pk=kept.pk).update(query=" ")
    refused = boss.post(reverse("playground"), {"receipt": str(kept.pk)})
    assert list(refused.context["form"].errors) == ["message"]
    assert run(boss, hub, run=refused.context["run"]).context["budget"]["limit_before"] == 4_000
    erase_user(agent_id=hub.agent.pk, user_id=SECRET_USER, by=BY, now=NOW)
    assert SECRET_USER not in boss.get(f"{reverse('playground')}?run={refused.context['run']}").content.decode()


def test_the_frame_is_compared_without_what_its_random_code_takes(
    boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = iter([FEW_TOKENS, MANY_TOKENS, MANY_TOKENS])
    monkeypatch.setattr("secrets.token_hex", lambda _bytes: next(codes))
    first = run(boss, hub)
    again = run(boss, hub, run=first.context["run"])
    assert frame_of(again)["tokens"] > frame_of(first)["tokens"], "the codes are not equally long in tokens"
    assert frame_of(again)["before"] == frame_of(again)["tokens"] and not frame_of(again)["more"]
    assert again.context["budget"]["total_before"] == again.context["budget"]["total"]
    layers = dict.fromkeys(("include_semantic_memory", "include_profile"), "false")
    fewer = run(boss, hub, run=again.context["run"], **layers)
    assert frame_of(fewer)["before"] == frame_of(again)["tokens"] and frame_of(fewer)["more"] < 0


def test_a_receipts_frame_is_told_and_its_random_code_is_no_change(
    boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = iter([FEW_TOKENS, MANY_TOKENS])
    monkeypatch.setattr("secrets.token_hex", lambda _bytes: next(codes))
    kept = run(boss, hub, keep="1").context["kept"]
    opened = boss.post(reverse("playground"), {"receipt": str(kept.pk)})
    assert 0 < frame_of(opened)["before"] < frame_of(opened)["tokens"] and not frame_of(opened)["more"]


def test_a_memory_is_pinned_from_here_and_one_comes_back_to_the_run(boss: Client, hub: Hub) -> None:
    first = run(boss, hub)
    row = rows_of(first)[str(hub.memory.pk)]
    assert [verb for verb, _label in row["verbs"]] == ["pin", "archive"]
    pinned = boss.post(row["curate"], {"verb": "pin", "next": first.context["next"]})
    assert pinned["Location"] == first.context["next"]
    form = boss.get(pinned["Location"])
    assert form.context["form"]["message"].value() == QUESTION
    assert f'name="run" value="{first.context["run"]}"' in form.content.decode()
    again = run(boss, hub, run=form.context["run"])
    row = rows_of(again)[str(hub.memory.pk)]
    assert row["layer"] == "pinned" and "was in: Related memories" in again.content.decode()
    boss.post(row["curate"], {"verb": "archive", "next": again.context["next"]})
    gone = run(boss, hub, run=boss.get(again.context["next"]).context["run"]).context["gone"]
    assert [each["text"] for each in gone] == ["Likes matcha ice cream"]


def test_coming_back_to_a_run_asks_nobody_and_changes_nothing(
    boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = spaces.provider_of, []
    monkeypatch.setattr(spaces, "provider_of", lambda space: asked.append(space) or real(space))  # type: ignore[func-returns-value]
    first = run(boss, hub, project="auto", message="matcha ice cream, asked anew")
    assert asked
    asked.clear()
    for _time in range(3):
        with CaptureQueriesContext(connection) as queries:
            page = boss.get(first.context["next"])
        statements = [query["sql"].lstrip() for query in queries]
        assert not [each for each in statements if not each.startswith(("SELECT", "(SELECT", "WITH"))]
        assert "result" not in page.context and page.context["run"] == first.context["run"]
        assert "These are the settings of the previous run" in page.content.decode()
    assert asked == []


def test_a_run_of_somebody_who_was_erased_is_known_no_more(boss: Client, hub: Hub) -> None:
    address = run(boss, hub, message="Who knows my secret?").context["next"]
    assert "my secret" in boss.get(address).content.decode()
    erase_user(agent_id=hub.agent.pk, user_id=SECRET_USER, by=BY, now=NOW)
    text = boss.get(address).content.decode()
    assert "my secret" not in text and SECRET_USER not in text
    assert "The previous run has expired" in text


def test_a_run_is_its_persons_alone(boss: Client, hub: Hub) -> None:
    address = run(boss, hub, message="Who knows my secret?").context["next"]
    assert "secret" in boss.get(address).content.decode() and "secret" not in address
    other = logged_in(User.objects.create_superuser("other", password="a long password"))
    page = other.get(address)
    assert page.status_code == 200 and "my secret" not in page.content.decode()
    assert CACHE_SECONDS <= 900


def test_a_receipt_is_opened_with_its_settings_and_compared(boss: Client, hub: Hub) -> None:
    kept = run(boss, hub, keep="1", max_tokens="5000", include_recall="false", project="-").context["kept"]
    page = boss.get(page_of(kept)).content.decode()
    assert reverse("playground") in page and str(kept.pk) in page
    hub.remember("Matcha ice cream is best in Uji")
    opened = boss.post(reverse("playground"), {"receipt": str(kept.pk)})
    form = opened.context["form"]
    values = [form[name].value() for name in ("message", "max_tokens", "include_recall", "project")]
    assert values == [QUESTION, "5000", "false", "-"]
    assert opened.context["compared"] and opened.context["changed"] == []
    assert any(row["change"] == "new" for row in rows_of(opened).values())
    assert boss.post(reverse("playground"), {"receipt": str(hub.receipt.pk)}).context["result"]


def test_hostile_and_huge_texts_are_shown_as_texts_and_cut(boss: Client, hub: Hub) -> None:
    hub.say(f"{SCRIPT}{RTL}" + '"<&' * 33_000, "日本語の長い話。" * 12_000)
    for number in range(12):
        hub.remember(f"{SCRIPT} {RTL} {number} {'matcha ' * 2_000}", pinned=number > 6)
    message = f"{SCRIPT} {RTL} matcha " + '"quoted" ' * 5_000
    response = run(boss, hub, message=message, session=str(hub.session.pk), max_tokens="1000000")
    text = response.content.decode()
    assert response.context["prompt"]["is_cut"] and response.context["prompt"]["as_json"] is None
    assert SCRIPT not in text and len(response.content) <= MOST_BYTES
    assert SCRIPT in run(boss, hub, message=message, **{"as": "json"}).content.decode()


def test_many_candidates_are_listed_up_to_a_number_and_the_rest_is_told(boss: Client, hub: Hub) -> None:
    for number in range(45):
        hub.remember(f"Pinned thing number {number}", pinned=True)
    with CaptureQueriesContext(connection) as queries:
        response = run(boss, hub, session=str(hub.session.pk))
    group = next(group for group in response.context["groups"] if group["layer"] == "pinned")
    assert (len(group["rows"]), group["left_out"], group["offered"]) == (40, 5, 45)
    assert "and 5 more that are not listed" in response.content.decode()
    assert len(queries) <= MOST_QUERIES and len(response.content) <= MOST_BYTES


def test_the_message_is_in_no_log(boss: Client, hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        run(boss, hub, message="zebra-secret")
    assert "zebra-secret" not in caplog.text


def test_who_may_see_all_that_it_shows_may_see_it_and_curating_takes_more(
    staff: Callable[..., Client], hub: Hub
) -> None:
    response = run(staff(*MAY), hub)
    assert response.status_code == 200 and not response.context["may_curate"]
    assert 'name="verb"' not in response.content.decode()


@pytest.mark.parametrize("missing", MAY)
def test_who_may_not_see_a_part_of_it_sees_none_and_no_way_to_it(
    staff: Callable[..., Client], hub: Hub, missing: str
) -> None:
    browser = staff(*(name for name in MAY if name != missing))
    assert browser.get(reverse("playground")).status_code == 403 and run(browser, hub).status_code == 403
    for page in (reverse("admin:index"), page_of(hub.receipt), page_of(hub.session)):
        assert reverse("playground") not in browser.get(page).content.decode()


def test_it_takes_the_permission_of_each_page_that_it_leads_to(staff: Callable[..., Client], hub: Hub) -> None:
    sources = {
        "{}.view_{}".format(*name.removeprefix("admin:").removesuffix("_change").split("_"))
        for name in SOURCE_PAGES.values()
    }
    assert sources | {"memoryhub.view_agent"} <= set(PERMISSIONS)
    browser = staff(*MAY)
    for page in (reverse("admin:index"), page_of(hub.receipt), page_of(hub.session)):
        assert reverse("playground") in browser.get(page).content.decode()


def test_keeping_a_receipt_takes_a_permission_of_its_own(staff: Callable[..., Client], hub: Hub) -> None:
    browser, before = staff(*MAY), Receipt.objects.count()
    assert "keep its receipt" not in run(browser, hub).content.decode()
    assert run(browser, hub, keep="1").status_code == 403 and Receipt.objects.count() == before
    User.objects.get(username="kei").delete()
    keeper = staff(*MAY, SAVE_PERMISSION.partition(".")[2])
    assert "keep its receipt" in run(keeper, hub).content.decode()
    assert run(keeper, hub, keep="1").context["kept"] and Receipt.objects.count() == before + 1


def test_a_session_prefills_the_form(boss: Client, hub: Hub) -> None:
    form = boss.get(reverse("playground"), {"session": str(hub.session.pk)}).context["form"]
    assert [form[name].value() for name in ("agent", "user")] == [hub.agent.pk, SECRET_USER]
    for wrong in ("x", "01a2041d-6fda-7559-8b1f-cd8818c2f155"):
        assert boss.get(reverse("playground"), {"session": wrong, "run": "../x"}).status_code == 200
    assert SUGGESTED_MAX_TOKENS


def test_it_opens_in_japanese(boss: Client, hub: Hub) -> None:
    response = boss.post(
        reverse("playground"),
        {"agent": hub.agent.pk, "user": SECRET_USER, "message": QUESTION},
        headers={"accept-language": "ja"},
    )
    assert response.status_code == 200 and response.context["result"]


def test_two_contexts_stand_side_by_side_after_one_more_click(boss: Client, hub: Hub) -> None:
    first = run(boss, hub, include_profile="false")
    token = first.context["run"]
    assert first.context["sides"] is None
    second = run(boss, hub, include_profile="false", run=token, instead="include_semantic_memory=false")
    sides = second.context["sides"]
    assert [each["text"] for each in sides["before"]["only"]] == [hub.memory.content]
    assert sides["now"]["only"] == [] and sides["now"]["total"] < sides["before"]["total"]
    ignored = run(boss, hub, instead="agent=yuno")
    assert ignored.context["form"]["agent"].value() == "kana"


def test_a_memory_says_what_became_of_it(boss: Client, hub: Hub) -> None:
    def fate(memory: object, **values: str) -> str:
        return str(run(boss, hub, memory=str(memory), **values).context["result"].notices[0])

    assert "was included, in: Related memories" in fate(hub.memory.pk)
    assert "was no candidate" in fate(uuid4())


def test_the_lists_of_an_agent_and_user_are_asked_for_alone(boss: Client, hub: Hub) -> None:
    query = {"agent": "kana", "user": hub.actor.user_id}
    found = boss.get(reverse("playground"), query, headers={"accept": "application/json"}).json()
    assert found["users"] == [hub.actor.user_id] and str(hub.session.pk) in dict(found["sessions"])


def test_runs_go_with_any_user(boss: Client, hub: Hub) -> None:
    run(boss, hub, message=f"{SECRET_USER} said something")
    assert SharedValue.objects.filter(cache="playground").exists()
    erase_user(agent_id=hub.actor.agent_id, user_id=hub.actor.user_id, by=BY, now=NOW)
    assert not SharedValue.objects.filter(cache="playground").exists()
