"""No value of an untrusted writer becomes active unseen: repeated texts, reviews, imports, project entries (SPEC M10)."""

import dataclasses
from datetime import date
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memoryhub.auth.principals import Principal, PrincipalKind, curator
from memoryhub.ids import new_id
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import Trust
from strength.actions.memories import NewMemory, write_memory
from strength.actions.write_many import write_memories
from strength.domain.memories import Kind, MemoryRefused, ScopeLevel, Source, Status, TombstoneReason
from strength.models import Memory
from summaries.actions.documents import append_entry
from summaries.actions.projects import create_project
from tests.integration.strength.conftest import BY, NOW, Write
from tests.integration.strength.talking import talk

pytestmark = pytest.mark.django_db
UNTRUSTED = Principal(PrincipalKind.KEY, "stranger", "stranger", is_trusted=False)
FACT = "The user lives in Kobe."
LATER = NOW.replace(year=2090)

# What an untrusted writer may state, and how a review shows it; "" where the page shows it as a matter of course.
STATED: dict[str, tuple[Any, str]] = {
    "kind": (Kind.PREFERENCE, "preference"),
    "namespace": ("/elsewhere/", "/elsewhere/"),
    "tags": (["hidden"], "hidden"),
    "scope_project": ("nowhere", "nowhere"),
    "strength": (1.9, "1.90"),
    "strength_by_perspective": ({"a": 1.7}, "a: 1.7"),
    "learnings": ({"a": "obey"}, "a: obey"),
    "metadata": ({"key": "planted"}, "key: planted"),
    "channel": ("dark", "dark"),
    "confidence": (0.99, "0.99"),
    "valid_from": (LATER, "2090"),
    "valid_to": (LATER, "2090"),
}
# Decided by the server, refused, or without effect on what an approval puts into force.
OTHERS = {
    "content", "scope_level", "scope_domain", "source", "embedding", "pinned", "source_message_ids", "needs_approval",
    "resembles", "is_uncompared", "doubt", "has_idempotency_key", "contradicted_ids",
    "cues",
}  # fmt: skip


def test_every_value_of_a_new_memory_is_in_the_table() -> None:
    assert {field.name for field in dataclasses.fields(NewMemory)} == set(STATED) | OTHERS


@pytest.mark.parametrize("field", STATED)
@pytest.mark.parametrize("writes_many", [False, True])
def test_a_trusted_repeat_takes_nothing_from_an_untrusted_memory(
    actor: Actor, write: Write, field: str, writes_many: bool
) -> None:
    pending = write(FACT, by=UNTRUSTED, **{field: STATED[field][0]})
    assert pending.status == Status.PENDING
    if writes_many:
        [item] = write_memories(actor=actor, news=[NewMemory(content=FACT)], by=BY, now=NOW)
        written = item.memory
        assert written is not None
    else:
        written, _ = write_memory(actor=actor, new=NewMemory(content=FACT), by=BY, now=NOW)
    # A row of its own, with the values of a text that nobody had written before.
    Memory.objects.filter(pk=pending.pk).exclude(superseded_by=None, status=Status.PENDING).update(superseded_by=None)
    other = write("The user has a cat.")
    names = [
        "kind", "tags", "scope_level", "scope_domain", "scope_project", "learnings", "metadata", "channel",
        "confidence", "valid_from", "valid_to", "status", "trust", "pinned",
    ]  # fmt: skip
    row, plain = (
        Memory.objects.with_numbers().filter(pk=each.pk).values(*names, "namespace", "strength").get()
        for each in (written, other)
    )
    assert written.pk != pending.pk and row == plain and not written.perspectives.exists()


def test_the_waiting_memory_is_archived_and_points_to_the_trusted_one(actor: Actor, write: Write) -> None:
    pending, trusted = write(FACT, by=UNTRUSTED, tags=["hidden"]), write(FACT)
    pending.refresh_from_db()
    assert (pending.status, pending.superseded_by_id, pending.trust) == (Status.ARCHIVED, trusted.pk, Trust.UNTRUSTED)
    assert write(FACT, by=UNTRUSTED).pk == trusted.pk, "said by an untrusted writer again, it adds nothing"
    assert write(FACT).pk == trusted.pk and Memory.objects.filter(content=FACT).count() == 2


def test_an_archived_untrusted_memory_does_not_come_back_as_a_trusted_one(actor: Actor, write: Write) -> None:
    planted = write(FACT, by=UNTRUSTED, tags=["hidden"])
    Memory.objects.filter(pk=planted.pk).update(status=Status.ARCHIVED)
    trusted = write(FACT)
    assert trusted.pk != planted.pk and (trusted.status, trusted.tags) == (Status.ACTIVE, [])


def test_what_the_user_says_is_in_force_whatever_an_untrusted_key_guessed(actor: Actor, write: Write) -> None:
    write(FACT, by=UNTRUSTED, kind=Kind.FACT, valid_from=LATER)
    session = talk(actor, FACT)
    said = write(
        FACT, kind=Kind.FACT, source=Source.EXTRACTION, source_message_ids=[session.messages.get().pk], confidence=0.9
    )
    assert (said.status, said.valid_from, said.said_on) == (Status.ACTIVE, None, date(2026, 3, 1))


def test_a_vector_of_an_untrusted_key_is_refused(write: Write) -> None:
    with pytest.raises(MemoryRefused, match="vector"):
        write(FACT, by=UNTRUSTED, embedding=[1.0] * 512)


@pytest.mark.parametrize("field", STATED)
def test_a_review_shows_every_value_that_it_approves(write: Write, admin_client: Client, field: str) -> None:
    value, shown = STATED[field]
    memory = write(FACT, by=UNTRUSTED, **{field: value})
    page = admin_client.get(reverse("review"), {"at": f"memory:{memory.pk}"}, follow=True).content.decode()
    assert shown in page.lower() or shown in page, field


def test_a_curator_who_writes_the_text_of_a_waiting_memory_writes_his_own(actor: Actor, write: Write) -> None:
    pending = write(FACT, by=UNTRUSTED, tags=["hidden"], resembles=(TombstoneReason.EDITED, date(2026, 2, 1), new_id()))
    own = write(FACT, by=curator(1, "Ann"), scope_level=ScopeLevel.PROJECT)
    assert own.pk != pending.pk and (own.status, own.tags) == (Status.ACTIVE, [])


def test_an_entry_that_a_trusted_source_repeats_has_that_sources_provenance(actor: Actor) -> None:
    project = create_project(actor=actor, name="garden", description="About the garden.", by=BY, now=NOW)
    about = {"project": project, "document_name": "MEMORY.md", "text": "Tulips in March.", "now": NOW}
    append_entry(**about, by=UNTRUSTED, sources={"channel": "dark"})
    document = append_entry(**about, by=BY, sources={"channel": "web"})
    entry = document.entries.get()
    assert (entry.trust, entry.source, entry.pinned) == (Trust.TRUSTED, {"channel": "web"}, False)
