"""Many memories are changed by a few statements, and stand afterwards as if each had been changed alone."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.models import TextField
from django.db.models.functions import Cast
from django.test.utils import CaptureQueriesContext

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import Principal, PrincipalKind, curator
from memoryhub.tenancy.models import Actor
from strength.actions.curation import apply_transition
from strength.actions.curation_sets import curate_many, delete_many, relabel_many, undo_many
from strength.actions.memories import NewMemory, write_memory
from strength.actions.sleep import SleepRequest, sleep
from strength.domain.memories import Kind, Labels
from strength.domain.sleep import Trigger
from strength.models import Memory, MemoryIndex, MemoryNumbers, MemoryRevision, Tombstone
from tests.integration.strength.conftest import BY, NOW

pytestmark = pytest.mark.django_db
ANN = curator(1, "Ann")
LATER = NOW + timedelta(days=2)
VERBS = ["pin", "unpin", "archive", "reactivate", "reject"]


def user(name: str) -> Actor:
    return actor_for_writing(BY, "kana", name, now=NOW)


def remember(actor: Actor) -> list[Memory]:
    """Write memories in all states, with and without a validity, a sleep before; the same for each actor."""

    def new(content: str, **values: Any) -> Memory:
        return write_memory(actor=actor, new=NewMemory(content=content, **values), by=BY, now=NOW)[0]

    memories = [new(f"plain {number}") for number in range(4)]
    memories += [new(f"weak {number}", strength=0.02) for number in range(3)]
    memories += [
        new("pinned", pinned=True),
        new("dated", valid_from=NOW - timedelta(days=1), valid_to=NOW + timedelta(days=9)),
    ]
    rejected, archived = new("rejected"), new("archived", strength=3.0)
    sleep(actor=actor, request=SleepRequest(Trigger.COMMAND, BY, NOW + timedelta(days=1)))
    apply_transition(memory=rejected, verb="reject", by=ANN, reason="", now=NOW + timedelta(days=1))
    apply_transition(memory=archived, verb="archive", by=ANN, reason="", now=NOW + timedelta(days=1))
    pending = Principal(kind=PrincipalKind.KEY, id="k", name="app", is_trusted=False)
    waiting = write_memory(actor=actor, new=NewMemory(content="waits"), by=pending, now=NOW)[0]
    return [*memories, rejected, archived, waiting]


def read(actor: Actor) -> list[Memory]:
    return list(Memory.objects.of([actor.pk]).select_related("actor__agent").order_by("content"))


def seen(actor: Actor) -> dict[str, Any]:
    """Return all that is stored of an actor's memories, without ids."""
    texts = dict(Memory.objects.of([actor.pk]).values_list("pk", "content"))
    columns = [
        "content",
        "status",
        "namespace",
        "kind",
        "tags",
        "pinned",
        "trust",
        "version",
        "updated_at",
        "superseded_by_id",
        "locked",
    ]
    revised = [
        "number",
        "verb",
        "changed_before",
        "changed_after",
        "after",
        "beside",
        "reason",
        "who_name",
        "created_at",
    ]
    numbered: Any = MemoryNumbers.objects.with_strength().filter(actor_id=actor.pk)

    def plain(rows: list[tuple[Any, ...]]) -> list[str]:
        return sorted(str(row).replace(actor.user_id, "user") for row in rows)

    return {
        "memories": plain(list(Memory.objects.of([actor.pk]).values_list(*columns))),
        "numbers": plain([(texts[key], round(strength, 9), mark > -1e9, level) for key, strength, mark, level in
                          numbered.values_list("memory_id", "strength_now", "mark", "consolidation_level")]),
        "index": plain([(texts[key], *row) for key, *row in MemoryIndex.objects.filter(actor_id=actor.pk).values_list(
            "memory_id", "status", "pinned", "namespace", "kind", "tags")]),
        "revisions": plain([(texts.get(key), *row) for key, *row in MemoryRevision.objects.filter(
            actor_id=actor.pk).values_list("memory_id", *revised)]),
        "audit": plain(list(AuditEntry.objects.filter(user_id=actor.user_id, object_kind="memory", at=LATER).values_list(
            "verb", "reason", "details", "who_name"))),
        "tombstones": plain(list(Tombstone.objects.filter(actor_id=actor.pk).values_list(
            "decision", "digest", "kind", "created_at", "held_back"))),
    }  # fmt: skip


def both(act: Callable[..., Any], **values: Any) -> tuple[Actor, Actor]:
    """Do the same to one user's memories together, and to another's one by one."""
    together, alone = user("together"), user("alone")
    for actor in (together, alone):
        remember(actor)
    result = act(memories=read(together), **values)
    single = [act(memories=[memory], **values) for memory in read(alone)]
    assert len(result.changed) == sum(len(each.changed) for each in single)
    errors = {str(error): len(rows) for error, rows in result.skipped}
    counted: dict[str, int] = {}
    for each in single:
        for error, rows in each.skipped:
            counted[str(error)] = counted.get(str(error), 0) + len(rows)
    assert errors == counted
    return together, alone


@pytest.mark.parametrize("verb", VERBS)
def test_a_set_is_changed_and_undone_like_each_alone(verb: str) -> None:
    change = {"versions": {}, "verb": verb, "by": ANN, "reason": "tidy", "now": LATER}
    together, alone = both(curate_many, **change)
    assert seen(together) == seen(alone)
    batches = MemoryRevision.objects.exclude(batch=None).order_by("number")
    for actor in (together, alone):
        for batch in sorted(set(batches.filter(actor_id=actor.pk).values_list("batch", flat=True)), key=str):
            done = undo_many(
                revisions=batches.filter(batch=batch), batch=batch, by=ANN, reason="", now=LATER + timedelta(hours=1)
            )
            assert not done.skipped
    assert seen(together) == seen(alone)


@pytest.mark.parametrize("verb", [*VERBS, "relabel"])
def test_revisions_of_a_set_equal_those_of_each_alone_in_every_field(verb: str) -> None:
    actor = actor_for_writing(BY, "kana", None, now=NOW)
    day, second = timedelta(days=1), timedelta(microseconds=7)
    texts: dict[str, list[UUID]] = {"set": [], "alone": []}
    for way, keys in texts.items():
        for number, confidence in enumerate([1.0, 0.1, 1e-7, None]):
            values: dict[str, Any] = {
                "scope_level": "domain", "scope_domain": "home", "scope_project": "tea", "locked": True,
                "metadata": {"é": [1, 2.5, None, {"b": "\\"}]}, "learnings": {"cook": 'a "quote"'}, "cues": "cup\n茶",
                "tags": ["b", 'a "b"', "茶, {x}"], "confidence": confidence, "kind": Kind.PREFERENCE,
                "valid_from": NOW - day, "valid_to": NOW + 9 * day + number * second,
                "status": "archived" if verb == "reactivate" else "active", "pinned": verb == "unpin",
                "supersedes": [actor.pk],
            }  # fmt: skip
            new = NewMemory(content=f"{number} 茶 \\ {way}", namespace=f"/{way}/")
            memory = write_memory(actor=actor, new=new, by=BY, now=NOW)[0]
            Memory.objects.filter(pk=memory.pk).update(**values)
            keys.append(memory.pk)
    change: dict[str, Any] = {"versions": {}, "by": ANN, "reason": "tidy", "now": LATER}
    act = partial(relabel_many, labels=LABELS[0]) if verb == "relabel" else partial(curate_many, verb=verb)
    batches = []
    for keys in (texts["set"], *([key] for key in texts["alone"])):
        memories = list(Memory.objects.filter(pk__in=keys).select_related("actor__agent"))
        batches.append(act(memories=memories, **change).batch)
    undone = {"by": ANN, "reason": "", "now": LATER + day}
    for batch in batches:
        revisions = MemoryRevision.objects.filter(batch=batch).exclude(verb="undo")
        assert len(undo_many(revisions=revisions, batch=batch, **undone).changed) == revisions.count() > 0

    def stored(way: str) -> list[tuple[str, ...]]:
        names = ("changed_before", "changed_after", "after", "beside")
        rows = MemoryRevision.objects.filter(memory__in=texts[way]).order_by("memory__content", "number")
        columns = [Cast(name, TextField()) for name in names]
        listed = rows.values_list("number", "verb", "who_kind", "who_id", "who_name", "reason", "created_at", *columns)
        return [tuple(str(value).replace(way, "way") for value in row) for row in listed]

    assert stored("set") == stored("alone")
    assert [row[1] for row in stored("set")] == ["create", verb, "undo"] * 4


LABELS = [
    Labels(add_tags=("tea",)),
    Labels(add_tags=("tea",), remove_tags=("old",), kind=Kind.FACT, namespace="/facts/{actorId}/"),
    Labels(kind=Kind.NOTE, namespace="/archive/{actorId}/"),
    Labels(add_tags=("tea", f"ghp_{'a1B2c3D4e5F6' * 3}")),
]


@pytest.mark.parametrize("labels", LABELS, ids=["tags", "all", "namespace", "secret"])
def test_labels_of_a_set_are_changed_and_undone_like_those_of_each_alone(labels: Labels) -> None:
    together, alone = both(relabel_many, versions={}, labels=labels, by=ANN, reason="tidy", now=LATER)
    assert seen(together) == seen(alone)
    changed = MemoryRevision.objects.filter(actor_id=together.pk, verb="relabel")
    assert changed.count() == 11, "all but the rejected one"
    assert not changed.filter(after__tags__icontains="ghp_").exists(), "secrets are removed from tags"
    assert not Memory.objects.filter(actor_id=together.pk, locked=True).exists(), "jobs may rewrite the texts"
    for actor in (together, alone):
        revisions = MemoryRevision.objects.filter(actor_id=actor.pk, verb="relabel")
        for batch in sorted(set(revisions.values_list("batch", flat=True)), key=str):
            rows = revisions.filter(batch=batch)
            assert not undo_many(revisions=rows, batch=batch, by=ANN, reason="", now=LATER).skipped
    assert seen(together) == seen(alone)
    assert not Memory.objects.filter(actor_id=together.pk, tags__contains=["tea"]).exists()


def test_a_text_that_the_namespace_has_already_and_a_tag_too_many_are_left_out() -> None:
    actor = user("together")
    tags = [f"tag {number}" for number in range(50)]
    news = [
        NewMemory(content="twice", namespace="/a/"), NewMemory(content="twice", namespace="/b/"),
        NewMemory(content="full", namespace="/a/", tags=tags), NewMemory(content="once", namespace="/a/"),
    ]  # fmt: skip
    memories = [write_memory(actor=actor, new=each, by=BY, now=NOW)[0] for each in news]
    labels = Labels(add_tags=("tea",), namespace="/b/")
    result = relabel_many(memories=memories, versions={}, labels=labels, by=ANN, reason="", now=LATER)
    left_out = {str(error) for error, _rows in result.skipped}
    assert left_out == {"Another memory in this namespace has the same text.", "A memory has at most 50 tags."}
    places = dict(Memory.objects.filter(pk__in=[row.pk for row in memories]).values_list("pk", "namespace"))
    assert [places[row.pk] for row in memories] == ["/a/", "/b/", "/a/", "/b/"]
    assert Memory.objects.get(pk=memories[1].pk).tags == ["tea"]


def test_a_set_is_deleted_like_each_alone() -> None:
    together, alone = both(delete_many, by=ANN, reason="tidy", now=LATER)
    assert seen(together) == seen(alone) and not read(together)
    assert Tombstone.objects.filter(actor_id=together.pk).count() == 12


def test_what_was_read_in_another_version_and_what_changed_since_is_skipped() -> None:
    actor = user("together")
    memories = [memory for memory in remember(actor) if memory.content.startswith("plain")]
    versions = {str(memory.pk): memory.version for memory in memories} | {str(memories[0].pk): 7}
    result = curate_many(memories=memories, versions=versions, verb="archive", by=ANN, reason="", now=LATER)
    assert [memory.pk for memory in result.changed] == [memory.pk for memory in memories[1:]]
    apply_transition(memory=memories[1], verb="reactivate", by=ANN, reason="", now=LATER)
    revisions = MemoryRevision.objects.filter(batch=result.batch)
    undone = undo_many(revisions=revisions, batch=result.batch, by=ANN, reason="", now=LATER)
    assert len(undone.changed) == 2 and len(undone.skipped) == 1
    assert {row.status for row in read(actor) if row.content.startswith("plain")} == {"active"}


def test_one_whose_text_is_in_use_again_is_left_out_and_the_others_return() -> None:
    actor = user("together")
    memories = [memory for memory in remember(actor) if memory.content.startswith("plain")]
    curate_many(memories=memories, versions={}, verb="archive", by=ANN, reason="", now=LATER)
    Memory.objects.filter(pk=memories[0].pk).update(status="active")
    Memory.objects.filter(pk=memories[1].pk).update(content_digest=Memory.objects.get(pk=memories[0].pk).content_digest)
    result = curate_many(memories=read(actor), versions={}, verb="reactivate", by=ANN, reason="", now=LATER)
    assert memories[1].pk not in {memory.pk for memory in result.changed}
    assert Memory.objects.filter(pk__in=[memory.pk for memory in memories[2:]], status="active").count() == 2


@pytest.mark.parametrize("verb", ["archive", "relabel", "delete"])
def test_more_memories_take_no_more_statements(verb: str) -> None:
    counts = []
    for count in (10, 40):
        actor = user(f"user {count}")
        new = [NewMemory(content=f"memory {number}") for number in range(count)]
        memories = [write_memory(actor=actor, new=each, by=BY, now=NOW)[0] for each in new]
        with CaptureQueriesContext(connection) as statements:
            if verb == "delete":
                delete_many(memories=memories, by=ANN, reason="", now=LATER)
            elif verb == "relabel":
                labels = Labels(add_tags=("tea",))
                relabel_many(memories=memories, versions={}, labels=labels, by=ANN, reason="", now=LATER)
            else:
                batch = curate_many(memories=memories, versions={}, verb=verb, by=ANN, reason="", now=LATER).batch
                revisions = MemoryRevision.objects.filter(batch=batch).select_related("actor__agent")
                undo_many(revisions=revisions, batch=batch, by=ANN, reason="", now=LATER)
        counts.append(len(statements))
    assert counts[0] == counts[1] <= 40
