"""Routing decisions in the admin: put right with one click, from the list and from the page, and taken back."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from conversations.actions.chat import prepare_turn
from conversations.actions.questions import Question
from conversations.actions.sessions import open_session
from conversations.models import ChatTurn
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.models import AuditEntry
from memoryhub.tenancy.models import Actor
from summaries.actions.corrections import NotCorrected, correct_routing, undo_correction
from summaries.actions.documents import append_entry
from summaries.actions.projects import create_project
from summaries.actions.routing import route_message
from summaries.models import Project, RoutingDecision
from tests.integration.admin.conftest import BY, SCRIPT, Hub, list_of, page_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LISTED = list_of(RoutingDecision)
MOST_QUERIES = 25


@pytest.fixture
def actor(db: None) -> Actor:
    """Return a user with two projects."""
    actor = actor_for_writing(BY, "kana", "hiroki", now=NOW)
    create_project(actor=actor, name="tea-shop", description="Tea and sencha of Uji.", by=BY, now=NOW)
    create_project(actor=actor, name="coffee-bar", description="Espresso and beans.", by=BY, now=NOW)
    return actor


def routed(actor: Actor, message: str = f"Which beans {SCRIPT}?", channel: str = "slack") -> RoutingDecision:
    return route_message(actor=actor, message=message, channel=channel, by=BY, now=NOW)


def told(answer: Any) -> str:
    return " ".join(str(message) for message in answer.context["messages"])


def undo_of(answer: Any) -> str:
    """Return where the button beside the latest message posts to."""
    tags = [message.extra_tags for message in answer.context["messages"] if message.extra_tags]
    assert tags, "nothing can be taken back"
    return str(tags[-1].removeprefix("undo:"))


def said(decision: RoutingDecision) -> str | None:
    decision.refresh_from_db()
    return decision.corrected_project.name if decision.corrected_project else None


def test_list_offers_the_likely_projects_and_one_click_puts_right(boss: Client, actor: Actor) -> None:
    decision = routed(actor)
    answer = boss.get(LISTED)
    shown = answer.content.decode()
    (row,) = answer.context["cl"].result_list
    assert row.offered == ["coffee-bar", "tea-shop"], "the one that was found first"
    address = f"{page_of(decision, 'correct')}?project=tea-shop"
    assert "<bdi>Confirm: coffee-bar</bdi>" in shown and "<bdi>tea-shop</bdi>" in shown
    assert "Confirm: coffee-bar</button>" in boss.get(page_of(decision)).content.decode()
    assert f'formaction="{address}"' in shown and 'form="correct-form"' in shown and SCRIPT not in shown
    done = boss.post(address, {"next": LISTED, "reason": "It is about tea."}, follow=True)
    assert done.redirect_chain[-1][0] == LISTED and said(decision) == "tea-shop"
    assert AuditEntry.objects.get(verb="correct").reason == "It is about tea."
    assert "/uncorrect/?corrected_to=tea-shop" in done.content.decode(), "the list has the way back too"
    back = boss.post(undo_of(done), follow=True)
    assert back.redirect_chain[-1][0] == LISTED and said(decision) is None, "it leads to where it was pressed"


def followed(boss: Client, decision: RoutingDecision) -> str:
    form = boss.get(page_of(decision)).context["adminform"]
    shown = {field.field["name"]: field.contents() for each in form for line in each for field in line}
    return str(shown["shown_action"])


def test_that_the_user_was_told_is_said_of_answered_guesses_alone(boss: Client, actor: Actor) -> None:
    session, _ = open_session(actor=actor, session_id=None, channel="slack", by=BY, now=NOW)
    rows = {"actor": actor, "session": session, "message": "Beans?", "created_at": NOW, "confidence": "medium"}
    guess = RoutingDecision.objects.create(**rows, action="route_and_disclose")
    sure = RoutingDecision.objects.create(**{**rows, "confidence": "high"}, action="route")
    assert followed(boss, guess) == "routed, as a guess" and followed(boss, sure) == "routed"
    question = Question(message="Beans?", session_id=session.pk, with_memory=False)
    turn = prepare_turn(actor=actor, question=question, by=BY, now=NOW)
    ChatTurn.objects.update(routing={"id": str(guess.pk)})
    assert turn and followed(boss, guess) == "routed, as a guess", "nobody answered yet"
    ChatTurn.objects.update(state="answered")
    assert followed(boss, guess) == "routed, and disclosed to the user"
    ChatTurn.objects.update(routing={"id": str(sure.pk)})
    assert followed(boss, guess) == "routed, as a guess" and followed(boss, sure) == "routed"
    listed = boss.get(LISTED, {"action": "route_and_disclose"})
    assert [row.pk for row in listed.context["cl"].result_list] == [guess.pk]
    text = listed.content.decode() + boss.get(page_of(guess)).content.decode()
    assert "routed, as a guess" in text and "user was told" not in text
    assert "route_and_disclose " not in text.lower() and f"<bdi>{guess}" not in text


def test_correction_is_taken_back_and_that_too(boss: Client, actor: Actor) -> None:
    decision = routed(actor)
    done = boss.post(page_of(decision, "correct"), {"project": "tea-shop"}, follow=True)
    back = boss.post(undo_of(done), follow=True)
    assert said(decision) is None and decision.corrected_by == "" and decision.corrected_at is None
    assert AuditEntry.objects.filter(verb="uncorrect").count() == 1
    boss.post(undo_of(back))
    assert said(decision) == "tea-shop"
    boss.post(undo_of(back))
    late = boss.post(f"{page_of(decision, 'uncorrect')}?corrected_to=coffee-bar", follow=True)
    assert "undone at the same time" in told(late) and said(decision) == "tea-shop"


def test_second_correction_goes_back_to_the_first(boss: Client, actor: Actor) -> None:
    decision = routed(actor)
    boss.post(page_of(decision, "correct"), {"project": "tea-shop"})
    second = boss.post(
        page_of(decision, "correct"), {"take": "chosen", "chosen": "coffee-bar", "project": ""}, follow=True
    )
    assert said(decision) == "coffee-bar"
    boss.post(undo_of(second))
    assert said(decision) == "tea-shop"


def test_new_project_is_made_for_a_message_and_goes_with_its_correction(boss: Client, actor: Actor) -> None:
    decision = routed(actor, "Let us start a bakery in Kyoto.")
    shown = boss.get(page_of(decision))
    name = shown.context["new_name"]
    assert name and f'value="{name}"' in shown.content.decode()
    done = boss.post(page_of(decision, "correct"), {"take": "new", "new_name": name}, follow=True)
    assert said(decision) == name and Project.objects.filter(name=name).exists()
    back = boss.post(undo_of(done), follow=True)
    assert said(decision) is None and not Project.objects.not_deleted().filter(name=name).exists()
    assert "was undone" in told(back)


def test_new_project_that_was_used_meanwhile_stays(boss: Client, actor: Actor) -> None:
    decision = routed(actor, "Let us start a bakery in Kyoto.")
    done = boss.post(page_of(decision, "correct"), {"take": "new", "new_name": "bakery"}, follow=True)
    project = Project.objects.get(name="bakery")
    append_entry(project=project, document_name="MEMORY.md", text="Melon bread.", by=BY, now=NOW)
    boss.post(undo_of(done))
    assert said(decision) is None and Project.objects.filter(name="bakery").exists()


def test_a_project_that_another_hand_made_never_goes_with_a_correction(boss: Client, actor: Actor) -> None:
    """Nor does it where the address says that it was made for the message: addresses are anybody's to write."""
    decision = routed(actor, "Let us start a bakery in Kyoto.")
    create_project(actor=actor, name="bakery", description="", by=BY, now=datetime.now(UTC))
    boss.post(page_of(decision, "correct"), {"project": "bakery"})
    back = boss.post(f"{page_of(decision, 'uncorrect')}?corrected_to=bakery&made=1", follow=True)
    assert said(decision) is None and Project.objects.filter(name="bakery").exists()
    assert "the project bakery is kept" in told(back)
    boss.post(undo_of(back))
    assert said(decision) == "bakery", "what stays can be said again"


def test_an_old_way_back_does_not_delete_what_was_confirmed_since(boss: Client, actor: Actor) -> None:
    decision = routed(actor, "Let us start a bakery in Kyoto.")
    done = boss.post(page_of(decision, "correct"), {"take": "new", "new_name": "bakery"}, follow=True)
    boss.post(page_of(decision, "correct"), {"project": "bakery"})
    boss.post(undo_of(done))
    assert said(decision) is None and Project.objects.filter(name="bakery").exists()


def test_a_project_made_over_a_former_correction_goes_and_that_one_stands_again(boss: Client, actor: Actor) -> None:
    decision = routed(actor, "Let us start a bakery in Kyoto.")
    boss.post(page_of(decision, "correct"), {"project": "tea-shop"})
    done = boss.post(page_of(decision, "correct"), {"take": "new", "new_name": "bakery"}, follow=True)
    boss.post(undo_of(done))
    assert said(decision) == "tea-shop" and not Project.objects.not_deleted().filter(name="bakery").exists()


def test_making_a_project_needs_its_permission(staff: Any, actor: Actor) -> None:
    decision = routed(actor, "Let us start a bakery in Kyoto.")
    RoutingDecision.objects.filter(pk=decision.pk).update(proposed_name="bakery")
    corrector = staff("view_routingdecision", "change_routingdecision")
    for address in (LISTED, page_of(decision)):
        shown = corrector.get(address).content.decode()
        assert "correct-form" in shown and "take=new" not in shown and 'value="new"' not in shown
    refused = corrector.post(page_of(decision, "correct"), {"take": "new", "new_name": "bakery"})
    assert refused.status_code == 403
    assert said(decision) is None and Project.objects.not_deleted().count() == 2
    corrector.post(page_of(decision, "correct"), {"project": "tea-shop"})
    assert said(decision) == "tea-shop", "an existing one needs no more than before"


def test_deleting_a_project_needs_its_permission(staff: Any, actor: Actor) -> None:
    decision = routed(actor, "Let us start a bakery in Kyoto.")
    maker = staff("view_routingdecision", "change_routingdecision", "add_project")
    assert 'value="new"' in maker.get(page_of(decision)).content.decode()
    done = maker.post(page_of(decision, "correct"), {"take": "new", "new_name": "bakery"}, follow=True)
    back = maker.post(undo_of(done), follow=True)
    assert said(decision) is None and Project.objects.filter(name="bakery").exists()
    assert "undone; the project bakery is kept" in told(back)


def test_names_that_cannot_be_are_told(boss: Client, actor: Actor) -> None:
    decision = routed(actor)
    for values, words in (
        ({"take": "new", "new_name": "Tea Shop!"}, "small letters"),
        ({"take": "new", "new_name": "tea-shop"}, "already"),
        ({"project": "nowhere"}, "No project of this name"),
        ({}, "No project of this name"),
    ):
        assert words in told(boss.post(page_of(decision, "correct"), values, follow=True)), values
    assert said(decision) is None and Project.objects.not_deleted().count() == 2


def test_an_empty_name_is_the_proposal(boss: Client, actor: Actor) -> None:
    decision = routed(actor, "抹茶 harbour walk")
    boss.post(page_of(decision, "correct"), {"take": "new", "new_name": ""})
    assert said(decision) not in (None, "tea-shop", "coffee-bar")


def test_filters_narrow_to_what_nobody_was_sure_of(boss: Client, actor: Actor) -> None:
    sure, unsure, right = routed(actor), routed(actor, "Hello."), routed(actor, "Hi.")
    RoutingDecision.objects.filter(pk=sure.pk).update(confidence="high")
    correct_routing(decision=right, project_name="tea-shop", by=BY, now=NOW)

    def found(state: str) -> set[Any]:
        return {row.pk for row in boss.get(LISTED, {"state": state}).context["cl"].result_list}

    assert found("unsure") == {unsure.pk}
    assert found("open") == {sure.pk, unsure.pk}
    assert found("corrected") == {right.pk}
    assert found("else") == {sure.pk, unsure.pk, right.pk}


def test_page_shows_the_examples_that_a_router_is_shown(boss: Client, actor: Actor) -> None:
    decision, other = routed(actor), routed(actor, "Which beans shall we buy?")
    assert "Nothing has been corrected yet" in boss.get(page_of(decision)).content.decode()
    correct_routing(decision=other, project_name="coffee-bar", by=BY, now=NOW)
    answer = boss.get(page_of(decision))
    (example,) = answer.context["examples"]
    assert example["project"] == "coffee-bar" and example["percent"] > 0 and not example["is_this"]
    assert page_of(other) in answer.content.decode() and SCRIPT not in answer.content.decode()
    assert boss.get(page_of(other)).context["examples"][0]["is_this"]


def test_examples_are_compared_as_the_router_compares_them(boss: Client, actor: Actor) -> None:
    """By their beginnings: what stands behind does not count."""
    beginning = "Which beans shall we buy? ".ljust(1_000, ".")
    same, like = routed(actor, beginning + "Kettle lid. " * 300), routed(actor, "Which beans shall we try?")
    for each, project in ((same, "tea-shop"), (like, "coffee-bar")):
        correct_routing(decision=each, project_name=project, by=BY, now=NOW)
    decision = routed(actor, beginning + "Paint the old fence. " * 200)
    examples = boss.get(page_of(decision)).context["examples"]
    assert [each["project"] for each in examples] == ["tea-shop", "coffee-bar"]
    assert examples[0]["percent"] == 100


def test_who_may_only_look_has_no_buttons(staff: Any, actor: Actor) -> None:
    decision = routed(actor)
    correct_routing(decision=decision, project_name="tea-shop", by=BY, now=NOW)
    viewer = staff("view_routingdecision")
    for address in (LISTED, page_of(decision)):
        shown = viewer.get(address).content.decode()
        assert "correct-form" not in shown and "uncorrect" not in shown and "tea-shop" in shown
    for button in ("correct", "uncorrect"):
        assert viewer.post(page_of(decision, button), {"project": "coffee-bar"}).status_code == 403
        assert viewer.get(page_of(decision, button)).status_code == 405
    assert said(decision) == "tea-shop"


def test_another_users_project_is_none_of_this_one(boss: Client, actor: Actor) -> None:
    stranger = actor_for_writing(BY, "kana", "mio", now=NOW)
    create_project(actor=stranger, name="secret", description="Beans.", by=BY, now=NOW)
    decision = routed(actor)
    (row,) = boss.get(LISTED).context["cl"].result_list
    assert "secret" not in row.offered and "secret" not in boss.get(page_of(decision)).content.decode()
    boss.post(page_of(decision, "correct"), {"project": "secret"})
    assert said(decision) is None


def test_pages_ask_as_often_for_many_rows(boss: Client, actor: Actor) -> None:
    decision = routed(actor)

    def asked() -> list[int]:
        numbers = []
        for address in (LISTED, page_of(decision)):
            with CaptureQueriesContext(connection) as queries:
                assert boss.get(address).status_code == 200
            numbers.append(len(queries))
        return numbers

    correct_routing(decision=routed(actor, "Beans?"), project_name="tea-shop", by=BY, now=NOW)
    asked()
    before = asked()
    for number in range(30):
        create_project(actor=actor, name=f"p-{number}", description=f"About {number}.", by=BY, now=NOW)
        correct_routing(decision=routed(actor, f"Beans {number}"), project_name="tea-shop", by=BY, now=NOW)
    assert asked() == before and max(before) <= MOST_QUERIES


def test_a_long_message_is_cut_in_the_list_and_whole_on_its_page(boss: Client, actor: Actor) -> None:
    decision = routed(actor, f"{SCRIPT} " + "beans \u202e " * 12_000 + "THE-END")
    listed, page = (boss.get(address).content.decode() for address in (LISTED, page_of(decision)))
    assert len(listed) < 400_000 and "THE-END" not in listed
    assert page.count("THE-END") == 1
    assert SCRIPT not in listed + page


def test_a_correction_that_is_none_cannot_be_taken_back(actor: Actor) -> None:
    with pytest.raises(NotCorrected):
        undo_correction(decision=routed(actor), corrected_to="tea-shop", by=BY, now=NOW)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("Its words match tea.", "teaの言葉が使われています。"),
        (
            "The language model was unavailable (timeout), so words decided. Its words match no project.",
            "どのプロジェクトの言葉とも合いません。",
        ),
        ("The user asks for beans.", "The user asks for beans."),
    ],
)
def test_what_the_router_says_itself_is_said_in_the_readers_language(
    boss: Client, hub: Hub, reason: str, shown: str
) -> None:
    decision = routed(hub.actor)
    RoutingDecision.objects.filter(pk=decision.pk).update(reason=reason)
    for address in (LISTED, page_of(decision)):
        page = boss.get(address, headers={"accept-language": "ja"}).content.decode()
        assert shown in page and ("Its words" not in page)
