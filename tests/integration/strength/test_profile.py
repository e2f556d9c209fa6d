"""The profile layer: what is standing about a user is in every context, whatever is asked (SPEC L5, X3)."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from conversations.actions.context import ContextRequest, assemble_context
from conversations.models import Receipt
from memoryhub.auth.access import actor_for_writing, tenant_for_reading
from memoryhub.auth.principals import curator
from memoryhub.tenancy.models import Actor
from strength.actions.curation import apply_transition
from strength.actions.memories import NewMemory, write_memory
from strength.actions.sleep import SleepRequest
from strength.actions.sleep_runs import preview_sleep
from strength.actions.usage import use_memories
from strength.domain.sleep import Trigger
from strength.models import Memory
from tests.integration.strength.conftest import BY, NOW, Sleep, Write
from tests.integration.strength.talking import talk

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
CASES = json.loads((Path(__file__).parents[3] / "bench" / "decisions.json").read_text())["likings"]


def assembled(actor: Actor, message: str, at: datetime = NOW + DAY, **options: Any) -> Any:
    tenant = tenant_for_reading(BY, actor.agent_id, actor.user_id)
    request = ContextRequest(message=message, session=options.pop("session", None), options=options)
    return assemble_context(tenant=tenant, request=request, by=BY, now=at, dry_run=True).assembly


def profile(assembly: Any) -> list[str]:
    return [item.excerpt for item in assembly.items if item.layer == "profile" and item.included]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["language"])
def test_a_liking_of_another_device_answers_every_question_for_a_recommendation(
    actor: Actor, write: Write, case: dict[str, Any]
) -> None:
    actor.agent.language = case["language"]
    actor.agent.save()
    write(case["liking"], kind="preference")
    device = talk(actor, "Hello!", channel="device-b")
    for count in (0, 14, 186):
        if count:
            talk(actor, *(f"Message {number} of {count}" for number in range(count)), session=device, at=NOW)
        for question in case["questions"]:
            said = str(assembled(actor, question, session=device).messages)
            assert case["liking"] in said, (count, question)


@pytest.mark.slow
def test_the_strongest_and_the_newest_of_many_are_within_the_tokens(actor: Actor, write: Write) -> None:
    likings = [
        write(f"Likes dish number {number} of the card", kind="preference", at=NOW - 3 * DAY) for number in range(250)
    ]
    facts = [write(f"Has visited town number {number}", kind="fact", at=NOW - 3 * DAY) for number in range(250)]
    for used in (likings[7], facts[9]):
        use_memories(memories=[used], perspective=None, task=None, by=BY, now=NOW)
    newest = [write("Is vegan now", kind="preference"), write("Moved to Kobe", kind="fact")]
    pinned = write("Allergic to nuts", kind="fact", pinned=True)

    assembly = assembled(actor, "What would you recommend?", profile_max_tokens=400)

    items = [item for item in assembly.items if item.layer == "profile"]
    assert sum(item.tokens for item in items if item.included) <= 400
    assert {item.reason for item in items} == {"included", "limit"}
    assert not assembly.metadata.compression_applied
    assert {each.content for each in (likings[7], facts[9], *newest)} <= set(profile(assembly)[:6])
    assert [item.source_id for item in assembly.items if item.layer == "pinned"] == [str(pinned.pk)]
    assert assembly.metadata.profile_count == len(profile(assembly)) > 12


def test_nights_do_not_take_a_standing_liking_from_the_profile(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    liking = write("Likes citrus scents", kind="preference")
    notes = [write(f"Said hello on day {number}") for number in range(3)]
    likings = [write(f"Likes dish number {number} of the card", kind="preference") for number in range(60)]
    begun, later = NOW + DAY, NOW + 90 * DAY
    sleep_at(begun)

    preview = preview_sleep(actor=actor, request=SleepRequest(Trigger.COMMAND, BY, later))
    run = sleep_at(later)

    held = 400 // 8
    assert preview.archived_count == run.archived_count == len(notes) + len(likings) + 1 - held
    active = set(Memory.objects.active().values_list("content", flat=True))
    assert liking.content in active and likings[-1].content in active and len(active) == held
    assert liking.content in profile(assembled(actor, "Any recommendations?", at=later))
    actor.policy = {"include_profile": False, "max_archived_share": 1.0}
    actor.save()
    assert sleep_at(later + DAY).archived_count == held, "without a profile they fade as others do"


def test_only_what_holds_and_is_trusted_is_in_and_of_this_user_alone(actor: Actor, write: Write) -> None:
    write("Likes tea", kind="preference")
    write("Waits for approval", kind="fact", confidence=0.1)
    write("Has ended", kind="fact", valid_to=NOW)
    for verb in ("archive", "reject"):
        apply_transition(memory=write(f"To {verb}", kind="fact"), verb=verb, by=curator(1, "Ann"), reason="", now=NOW)
    for user_id in ("", "somebody-else"):
        other = actor_for_writing(BY, actor.agent_id, user_id, now=NOW)
        write_memory(actor=other, new=NewMemory(content="Of another", kind="fact"), by=BY, now=NOW)  # type: ignore[arg-type]

    assert profile(assembled(actor, "What would you recommend?")) == ["Likes tea"]
    own = Actor.objects.get(agent_id=actor.agent_id, user_id="")
    assert profile(assembled(own, "What would you recommend?")) == []


QUESTIONS = (
    "What do you know about me?", "Tell me everything you remember about me.", "Who am I?", "What have I told you so far?",
    "Sum me up.", "私について何を知っていますか？", "私のこと、覚えてる？", "これまでに話したことを教えて。", "私って誰？",
    "僕についてまとめて。",
)  # fmt: skip
NOTES = ("Sister: Marta", "Plays the cello", "Works nights at the bakery", "Allergic to penicillin", "Flat 12 B")


@pytest.mark.parametrize("question", QUESTIONS)
def test_all_that_is_known_answers_any_wording(actor: Actor, write: Write, question: str) -> None:
    for text in NOTES:
        write(text)
    assembly = assembled(actor, question)
    assert all(text in str(assembly.messages) for text in NOTES)


def test_while_all_memories_fit_they_are_listed_by_kind_the_strongest_first(actor: Actor, write: Write) -> None:
    for strength, text in enumerate(NOTES, start=1):
        write(text, strength=strength)
    write("Lives in Kobe", kind="fact"), write("Likes tea", kind="preference")
    write("Uses metric units", kind="decision"), write("Waits for approval", kind="note", confidence=0.1)

    block = assembled(actor, "Hm?").messages[0]["content"][0]["text"]

    strongest = "\n".join(
        f"{number}. {text} (since 1 March 2026)" for number, text in enumerate(reversed(NOTES), start=1)
    )
    assert block.split("\n", 1)[1].rsplit("\n", 1)[0] == (
        "## The user's wishes\n1. Likes tea (since 1 March 2026)\n\n"
        "## About the user\n1. Lives in Kobe (since 1 March 2026)\n"
        "### Decisions\n1. Uses metric units (since 1 March 2026)\n"
        f"### Notes\n{strongest}"
    )


def test_beyond_their_share_other_kinds_alternate_with_preferences_and_facts(actor: Actor, write: Write) -> None:
    for number in range(60):
        write(f"Note number {number} of the year"), write(f"Fact number {number} of the year", kind="fact")
    liking = write("Likes tea", kind="preference")
    entered = profile(assembled(actor, "Hm?", profile_max_tokens=400))
    assert entered[0] == liking.content
    notes, facts = (sum(text.startswith(kind) for text in entered) for kind in ("Note", "Fact"))
    assert 5 <= notes <= facts <= notes + 2
    assert len(profile(assembled(actor, "Hm?"))) == 121


def test_a_memory_is_in_one_layer_and_likings_are_wishes(actor: Actor, write: Write) -> None:
    write("Likes green tea", kind="preference")
    write("Lives in Kobe", kind="fact")
    assembly = assembled(actor, "Which green tea do I like?")

    assert [(item.layer, item.excerpt) for item in assembly.items[1:-1]] == [
        ("semantic", "Likes green tea"),
        ("profile", "Lives in Kobe"),
    ]
    block = assembly.messages[0]["content"][0]["text"]
    assert "## The user's wishes\n1. Likes green tea (since 1 March 2026)" in block
    assert "## About the user\n1. Lives in Kobe (since 1 March 2026)" in block
    assert profile(assembled(actor, "Which green tea do I like?", include_profile=False)) == []
    assert profile(assembled(actor, "Hm?", profile_max_tokens=0)) == []


def test_the_profile_is_in_the_receipt_and_its_use_counts(client: APIClient, actor: Actor, write: Write) -> None:
    memory = write("Likes citrus scents", kind="preference")
    body = {"agent_id": actor.agent_id, "user_id": actor.user_id, "message": "What would you recommend?"}
    answer = client.post("/api/v1/context", body).json()
    assert answer["metadata"]["profile_count"] == 1
    (item,) = [
        each
        for each in client.get(f"/api/v1/receipts/{answer['receipt_id']}").json()["items"]
        if each["source_id"] == str(memory.pk)
    ]
    assert (item["layer"], item["included"], item["reason"]) == ("profile", True, "included")
    assert Receipt.objects.get().source_ids == [memory.pk]


def test_retrieve_returns_the_strongest_of_a_namespace_whatever_is_asked(
    client: APIClient, actor: Actor, write: Write
) -> None:
    weak, strong = (write(f"Likes {what}", kind="preference") for what in ("tea", "citrus scents"))
    use_memories(memories=[strong], perspective=None, task=None, by=BY, now=NOW)
    body = {"agent_id": actor.agent_id, "user_id": actor.user_id, "query": "What would you recommend?"}

    def found(**config: Any) -> list[str]:
        prefix = "/preferences/{actorId}/"
        answer = client.post("/api/v1/memories/retrieve", {**body, "config": {prefix: config}})
        assert answer.status_code == 200, answer.content
        (rows,) = answer.json()["namespaces"].values()
        return [each["memory"]["content"] for each in rows]

    assert found(top_k=5, relevance_score=0.15) == []
    assert found(top_k=5, order="strength") == [strong.content, weak.content]
    assert found(top_k=1, order="strength") == [strong.content]
    assert Memory.objects.select_related("numbers").get(pk=strong.pk).numbers.candidate_count == 2


def test_notes_learnings_and_decisions_are_retrieved_by_default(client: APIClient, actor: Actor, write: Write) -> None:
    for kind in ("note", "learning", "decision"):
        write(f"The {kind} about the lighthouse", kind=kind)
    body = {"agent_id": actor.agent_id, "user_id": actor.user_id, "query": "What about the lighthouse?"}
    found = client.post("/api/v1/memories/retrieve", body).json()["namespaces"]
    assert {prefix for prefix, rows in found.items() if rows} == {
        f"/{kind}s/hiroki/" for kind in ("note", "learning", "decision")
    }
