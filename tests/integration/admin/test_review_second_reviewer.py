"""A second reviewer: by policy, what waits becomes active when two people have approved it (ADR 67)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.actions import issue_key
from memoryhub.auth.models import ApiKey, AuditEntry, OAuthClient, OAuthGrant
from memoryhub.auth.principals import Forbidden, Principal, PrincipalKind, Scope, curator
from strength.actions.curation import apply_transition, edit_memory, relabel_memory, restore_revision
from strength.actions.curation_sets import curate_many
from strength.actions.forgetting import _await_review
from strength.actions.merges import undo as undo_batch
from strength.actions.revisions import undo_revision
from strength.actions.second_review import first_approvals_of
from strength.actions.what_if import what_if
from strength.admin.review import review_badge
from strength.domain.memories import FIRST_APPROVAL_VERB, FORGET_VERB, Labels, ScopeLevel, Status, WrongState
from strength.models import Memory, MemoryRevision, ReviewRule
from tests.factories.planting import API
from tests.integration.admin.conftest import BY, NOW, Hub, list_of, logged_in, page_of
from tests.integration.admin.test_review import STRANGER, fresh, press, queue, told, undo, waiting
from tests.integration.admin.test_review_alike import decide, page_for, versions, written
from tests.integration.admin.test_review_team import person
from tests.integration.memoryhub.importexport.conftest import empty_the_installation, exported, run

AYA, KEN = curator(900_001, "aya"), curator(900_002, "ken")


@pytest.fixture
def two(hub: Hub) -> Hub:
    """Return a hub whose agent asks for two people, of whom there are two."""
    return asks_for(hub, "all")


def asks_for(hub: Hub, mode: str, people: int = 2) -> Hub:
    for number in range(people):
        person(f"reviewer {number}")
    hub.agent.policy = {**hub.agent.policy, "second_reviewer": mode}
    hub.agent.save()
    hub.actor.agent = hub.agent
    return hub


def approve(memory: Memory, by: Principal, **options: Any) -> Memory:
    return apply_transition(memory=fresh_with_owner(memory), verb="approve", by=by, reason="", now=NOW, **options)


def fresh_with_owner(memory: Memory) -> Memory:
    return Memory.objects.select_related("actor__agent").get(pk=memory.pk)


def verbs(memory: Memory) -> list[str]:
    return list(memory.revisions.order_by("number").values_list("verb", flat=True))


def test_two_people_make_a_memory_active(two: Hub) -> None:
    memory = waiting(two, "Likes tea")
    assert approve(memory, AYA).status == Status.PENDING
    with pytest.raises(WrongState, match="You have approved it"):
        approve(memory, AYA)
    assert approve(memory, KEN).status == Status.ACTIVE
    assert verbs(memory) == ["create", FIRST_APPROVAL_VERB, "approve"]
    entries = AuditEntry.objects.filter(object_id=str(memory.pk)).order_by("id")
    assert [(each.verb, each.who_name) for each in entries][1:] == [(FIRST_APPROVAL_VERB, "aya"), ("approve", "ken")]


def test_the_fixed_bar_says_that_two_people_must_approve(boss: Client, two: Hub) -> None:
    memory = waiting(two, "Likes tea")
    both, one = "Two people must approve it before it may enter contexts.", "If approved, it may enter contexts."
    text = queue(boss).content.decode()
    assert both in text and one not in text
    approve(memory, AYA)
    text = queue(boss).content.decode()
    assert both not in text and one in text, "the other approval is the last"


@pytest.mark.parametrize(("mode", "people"), [("off", 2), ("all", 0), ("all", 1), ("shared", 2)])
def test_one_person_is_enough_elsewhere(hub: Hub, mode: str, people: int) -> None:
    asks_for(hub, mode, people)
    assert approve(waiting(hub, "Likes tea"), AYA).status == Status.ACTIVE


def test_what_other_agents_read_needs_two(hub: Hub) -> None:
    asks_for(hub, "shared")
    own = actor_for_writing(BY, hub.agent.pk, "", now=NOW)
    for level in (ScopeLevel.UNIVERSAL, ScopeLevel.DOMAIN):
        memory = written(own, f"Be brief, {level}.", scope_level=level)
        assert approve(memory, AYA).status == Status.PENDING
        assert approve(memory, KEN).status == Status.ACTIVE


def test_who_makes_it_one_that_other_agents_read_needs_another_too(hub: Hub) -> None:
    asks_for(hub, "shared")
    own = actor_for_writing(BY, hub.agent.pk, "", now=NOW)
    memory, universal = written(own, "Be brief."), {"scope_level": ScopeLevel.UNIVERSAL}
    changed = approve(memory, AYA, values=universal)
    assert (changed.status, changed.scope_level) == (Status.PENDING, ScopeLevel.UNIVERSAL)
    with pytest.raises(WrongState):
        approve(memory, AYA)
    assert approve(memory, KEN).status == Status.ACTIVE


def test_a_closed_account_does_not_count(two: Hub) -> None:
    memory = waiting(two, "Likes tea")
    assert approve(memory, AYA).status == Status.PENDING
    User.objects.filter(username="reviewer 1").update(is_active=False)
    assert approve(memory, AYA).status == Status.ACTIVE, "one reviewer is left, and is not held up"


def test_the_policy_of_another_tenant_has_no_effect(two: Hub) -> None:
    other = actor_for_writing(BY, "another", "maya", now=NOW)
    memory, mine = written(other, "Likes tea"), waiting(two, "Likes tea")
    assert approve(memory, AYA).status == Status.ACTIVE
    assert approve(mine, AYA).status == Status.PENDING


def edited(memory: Memory) -> None:
    edit_memory(memory=memory, values={"content": "Likes coffee"}, expected_version=None, by=KEN, reason="", now=NOW)


def undone(memory: Memory) -> None:
    undo_revision(revision=memory.revisions.get(number=memory.version), by=KEN, reason="", now=NOW)


def relabelled(memory: Memory) -> None:
    version = memory.version
    relabel_memory(memory=memory, labels=Labels(("tea",)), expected_version=version, by=KEN, reason="", now=NOW)


@pytest.mark.parametrize("change", [edited, undone, relabelled])
def test_a_change_drops_the_first_approval(two: Hub, change: Callable[[Memory], None]) -> None:
    memory = waiting(two, "Likes tea")
    approve(memory, AYA)
    change(fresh_with_owner(memory))
    assert approve(memory, KEN).status == Status.PENDING, "it is a first approval again"
    assert approve(memory, AYA).status == Status.ACTIVE


def test_who_corrects_the_text_gives_a_first_approval(two: Hub) -> None:
    memory = waiting(two, "Likes tee")
    approve(memory, AYA)
    changed = approve(memory, KEN, values={"content": "Likes tea"})
    assert (changed.status, changed.content, changed.locked) == (Status.PENDING, "Likes tea", True)
    with pytest.raises(WrongState):
        approve(memory, KEN)
    assert approve(memory, AYA).status == Status.ACTIVE


def test_a_rejection_by_anyone_ends_it_also_of_the_version_before(two: Hub) -> None:
    memory = waiting(two, "Likes tea")
    version = memory.version
    approve(memory, AYA)
    done = apply_transition(memory=memory, verb="reject", by=AYA, reason="", now=NOW, expected_version=version)
    assert done.status == Status.REJECTED


def test_undo_of_the_second_approval_needs_two_again(two: Hub) -> None:
    memory = waiting(two, "Likes tea")
    approve(memory, AYA)
    approve(memory, KEN)
    undone(fresh(memory))
    assert fresh(memory).status == Status.PENDING and approve(memory, KEN).status == Status.PENDING


def test_restoring_does_not_activate(two: Hub) -> None:
    memory = two.memory
    ask_again(memory)
    created = memory.revisions.get(verb="create")
    with pytest.raises(WrongState, match="Two people"):
        restore_revision(
            memory=fresh_with_owner(memory), revision=created, expected_version=None, by=AYA, reason="", now=NOW
        )


def ask_again(memory: Memory) -> None:
    """Let an active memory wait, as a user who wishes it to be forgotten."""
    _await_review([fresh_with_owner(memory)], verb=FORGET_VERB, reason="", by=BY, now=NOW)


def test_the_reasons_stay_after_the_first_approval(boss: Client, two: Hub) -> None:
    memory = waiting(two, "Likes tea")
    before = [str(reason) for reason in queue(boss).context["reasons"]]
    approve(memory, AYA)
    assert [str(reason) for reason in queue(boss).context["reasons"]] == before


def test_an_untrusted_key_and_a_key_of_some_agents_give_no_first_approval(two: Hub) -> None:
    memory = waiting(two, "Likes tea")
    with pytest.raises(Forbidden):
        approve(memory, STRANGER)
    shared = written(actor_for_writing(BY, two.agent.pk, "", now=NOW), "Be brief.", scope_level=ScopeLevel.UNIVERSAL)
    some = Principal(kind=PrincipalKind.KEY, id=str(two.key.pk), name="some", agent_ids=frozenset({two.agent.pk}))
    with pytest.raises(Forbidden):
        approve(shared, some)
    assert fresh(memory).version == memory.version and fresh(shared).version == shared.version


# Each way to decide


def test_the_review_names_the_first_and_hides_it_from_them(boss: Client, two: Hub) -> None:
    memory, person_two = waiting(two, "Likes tea"), logged_in(User.objects.get(username="reviewer 0"))
    answer = press(boss, "approve")
    assert answer.context["item"] is None and "waits for another person" in str(answer.context["done"]["words"])
    assert fresh(memory).status == Status.PENDING and answer.context["open"] == 0
    shown = queue(person_two)
    assert shown.context["memory"] == memory
    assert "Approved by boss; a second approval is needed." in shown.content.decode()
    again = press(boss, "approve", queue(boss, at=f"memory:{memory.pk}"))
    assert "You have approved it" in again.content.decode() and 'id="approve-form"' not in again.content.decode()
    assert (
        "Approved by boss, needs one more"
        in person_two.get(list_of(Memory) + "?status__exact=pending").content.decode()
    )
    assert "a second approval is needed" in person_two.get(page_of(memory)).content.decode()
    done = press(person_two, "approve")
    assert fresh(memory).status == Status.ACTIVE and str(done.context["done"]["words"]) == "Approved"


def test_undo_in_the_review_drops_the_first_approval(boss: Client, two: Hub) -> None:
    memory = waiting(two, "Likes tea")
    undo(boss, press(boss, "approve"))
    assert verbs(memory) == ["create", FIRST_APPROVAL_VERB, "undo"]
    assert queue(boss).context["memory"] == memory and approve(memory, KEN).status == Status.PENDING


def test_button_badge_and_review_count_the_same(boss: Client, two: Hub) -> None:
    for text in ("Likes tea", "Owns a canoe", "Has a cat"):
        waiting(two, text)
    press(boss, "approve")
    home = boss.get(reverse("admin:index"))
    assert "Start review, 2" in home.content.decode() and review_badge(home.wsgi_request) == "2"
    begun = boss.get(reverse("review") + "?start=1", follow=True)
    assert begun.context["place"] == 1 and begun.context["total"] == 2 and begun.context["done"]
    assert "of 2" in begun.content.decode() and "start" not in begun.request["QUERY_STRING"]


def test_row_button_and_memory_page(boss: Client, two: Hub) -> None:
    memory = waiting(two, "Likes tea")
    sent = {"verb": "approve", "version": memory.version}
    first = boss.post(page_of(memory, "curate"), sent, follow=True)
    assert "Approved by the first of two" in told(first) and fresh(memory).status == Status.PENDING
    again = boss.post(page_of(memory, "curate"), {**sent, "version": fresh(memory).version}, follow=True)
    assert "You have approved it" in told(again)
    other = logged_in(User.objects.get(username="reviewer 0"))
    other.post(page_of(memory, "curate"), sent)
    assert fresh(memory).status == Status.ACTIVE, "the version that the page showed has the same text"


def test_the_list_action_reports_and_undoes_as_a_batch(boss: Client, two: Hub) -> None:
    memories = [waiting(two, "Likes tea"), waiting(two, "Owns a canoe")]
    keys = [str(memory.pk) for memory in memories]
    sent = {"action": "approve", "_selected_action": keys, "post": "yes", **{f"version-{key}": "1" for key in keys}}
    answer = boss.post(list_of(Memory), sent, follow=True)
    assert "2 approved memories need the approval of another person too." in told(answer)
    batch = MemoryRevision.objects.filter(verb=FIRST_APPROVAL_VERB).values_list("batch", flat=True).first()
    assert batch is not None
    undo_batch(batch=batch, by=AYA, reason="", now=NOW)
    result = curate_many(memories=memories, versions=dict.fromkeys(keys, 3), verb="approve", by=KEN, reason="", now=NOW)
    assert result.first_approvals == 2 and {fresh(memory).status for memory in memories} == {Status.PENDING}


def test_a_decision_about_all_alike_and_its_rule_are_one_persons(boss: Client, two: Hub) -> None:
    first, second = versions(two.actor, 1, 2)
    answer = decide(boss, page_for(boss, first), "approve", rule="1")
    assert "2 approved memories need the approval" in told(answer) and fresh(second).status == Status.PENDING
    rule, third = ReviewRule.objects.get(), written(two.actor, "Version 3 of the library is out.")
    assert third.status == Status.PENDING and verbs(third) == ["create", FIRST_APPROVAL_VERB]
    boss_id = rule.person_id
    with pytest.raises(WrongState):
        approve(third, curator(boss_id, "boss"))
    for memory in (first, second, third):
        assert approve(memory, AYA).status == Status.ACTIVE


def test_keys_decide_as_themselves_and_clients_as_their_person(two: Hub, make_client: Callable[..., APIClient]) -> None:
    memory = waiting(two, "Likes tea")
    one, other = make_client(name="one"), make_client(name="other")
    address = f"{API}/memories/{memory.pk}/approve"
    answer = one.post(address, headers={"If-Match": '"1"'})
    assert (answer.status_code, answer.json()["status"], answer.headers["ETag"]) == (200, "pending", '"2"')
    refused = one.post(address)
    assert refused.status_code == 409 and "another person" in str(refused.json())
    assert other.post(address, headers={"If-Match": '"1"'}).json()["status"] == "active"

    aya, key = User.objects.get(username="reviewer 0"), ApiKey.objects.get(name="one")
    client = OAuthClient.objects.create(name="Claude", redirect_uris=["https://example.org/back"])
    OAuthGrant.objects.create(client=client, person=aya, key=key)
    again = waiting(two, "Owns a canoe")
    assert approve(again, curator(aya.pk, "aya")).status == Status.PENDING
    with pytest.raises(WrongState):
        approve(again, Principal(kind=PrincipalKind.KEY, id=str(key.pk), name="one"))


@pytest.mark.parametrize("is_personal", [True, False])
def test_a_person_and_the_keys_that_they_made_are_one(two: Hub, is_personal: bool) -> None:
    aya, ken = User.objects.filter(username__startswith="reviewer").order_by("username")
    made: dict[str, Any] = {
        "name": "made",
        "scopes": list(Scope),
        "agent_ids": None,
        "person": aya,
        "by": BY,
        "now": NOW,
    }
    by_keys = [issue_key(**made, is_personal=is_personal)[0].principal() for _number in range(2)]
    identities = [curator(aya.pk, "aya"), *by_keys]
    for number, first in enumerate(identities):
        memory = waiting(two, f"Owns canoe {number}")
        assert approve(memory, first).status == Status.PENDING
        for again in identities:
            with pytest.raises(WrongState, match="You have approved it"):
                approve(memory, again)
        assert approve(memory, curator(ken.pk, "ken")).status == Status.ACTIVE


@pytest.mark.django_db(transaction=True)
def test_a_first_approval_counts_on_its_installation_alone(two: Hub, tmp_path: Path) -> None:
    memory = waiting(two, "Likes tea")
    approve(memory, AYA)
    file = tmp_path / "export.jsonl"
    file.write_bytes(exported())
    assert "differs" not in run("import", file)
    empty_the_installation()
    run("import", file)
    assert exported() == file.read_bytes()
    moved = fresh_with_owner(memory)
    assert verbs(moved) == ["create", FIRST_APPROVAL_VERB] and not first_approvals_of([moved])
    assert approve(moved, KEN).status == Status.PENDING, "person 900001 is another one here"
    assert approve(moved, AYA).status == Status.ACTIVE


def test_what_if_shows_what_both_approvals_do(two: Hub) -> None:
    memory = waiting(two, "Likes matcha ice cream with tea")
    effect = what_if(
        memory=fresh_with_owner(memory), verb="approve", values={}, expected_version=1, by=AYA, now=timezone.now()
    )
    assert effect is not None and verbs(memory) == ["create"], "nothing is stored"


@pytest.mark.django_db(transaction=True)
def test_of_two_who_approve_at_once_one_is_first(hub: Hub) -> None:
    asks_for(hub, "all")
    for number in range(8):
        memory = fresh_with_owner(waiting(hub, f"Owns canoe {number}"))

        def work(by: Principal, memory: Memory = memory) -> str:
            try:
                done = apply_transition(
                    memory=memory, verb="approve", by=by, reason="", now=NOW, expected_version=memory.version
                )
                return str(done.status)
            finally:
                connection.close()

        with ThreadPoolExecutor(2) as threads:
            assert sorted(threads.map(work, [AYA, KEN])) == [Status.ACTIVE, Status.PENDING]
        assert verbs(memory) == ["create", FIRST_APPROVAL_VERB, "approve"]


def test_the_policy_page_states_whether_it_has_an_effect(boss: Client, hub: Hub) -> None:
    asks_for(hub, "all", people=0)
    assert "Fewer than two people may review" in boss.get(page_of(hub.agent)).content.decode()
    person("aya")
    assert "2 people may review" in boss.get(page_of(hub.actor)).content.decode()
    hub.agent.policy = {}
    hub.agent.save()
    assert "2 people may review" not in boss.get(page_of(hub.agent)).content.decode()
