"""A change that is taken back leaves nothing of itself: neither in the memory's values nor in what stands beside them."""

from typing import Any

import pytest

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.principals import Principal, PrincipalKind, Scope, command
from memoryhub.tenancy.models import Actor
from strength.actions.curation import apply_transition, delete_memory, edit_memory, restore_revision
from strength.actions.memories import NewMemory, supersede_memory, write_memory
from strength.actions.revisions import ChangedSince, undo_revision
from strength.domain.memories import DuplicateMemory
from strength.models import Memory, MemoryIndex, MemoryRevision, Tombstone
from tests.conftest import NOW
from tests.integration.strength.conftest import numbers

BY = command("test")
STRANGER = Principal(PrincipalKind.KEY, "k", "stranger", frozenset(Scope), is_trusted=False)


@pytest.fixture
def actor(db: None) -> Actor:
    return actor_for_writing(BY, "kana", "hiroki", now=NOW)


def remember(actor: Actor, text: str, by: Principal = BY, **options: Any) -> Memory:
    return write_memory(actor=actor, new=NewMemory(content=text, **options), by=by, now=NOW)[0]


def stands(memory: Memory) -> dict[str, Any]:
    """Return all that a change of a memory may change, but for its version and the times."""
    row = Memory.objects.get(pk=memory.pk)
    names = ("content", "content_digest", "status", "trust", "locked", "pinned", "supersedes", "superseded_by_id",
             "valid_to", "tags", "kind", "namespace")  # fmt: skip
    kept = ("digest", "decision", "memory_id", "held_back", "who_name", "created_at")
    return {
        **{name: getattr(row, name) for name in names},
        "strength": numbers(row).strength,
        "decisions": sorted(Tombstone.objects.filter(actor=row.actor).values_list(*kept)),
        "index": list(MemoryIndex.objects.filter(memory=row).values_list("status", "pinned", "valid_to", "tags")),
    }


def latest(memory: Memory) -> MemoryRevision:
    return MemoryRevision.objects.filter(memory=memory).order_by("-number")[0]


def undo(memory: Memory) -> None:
    undo_revision(revision=latest(memory), by=BY, reason="not so", now=NOW)


@pytest.mark.parametrize(
    ("before", "verb"),
    [
        ("untrusted", "approve"),
        ("untrusted", "reject"),
        ("unsure", "approve"),
        ("unsure", "reject"),
        ("", "pin"),
        ("pin", "unpin"),
        ("pin", "archive"),
        ("archive", "reactivate"),
    ],
)
@pytest.mark.parametrize("is_decided", [False, True])
def test_a_decision_is_taken_back_whole(actor: Actor, before: str, verb: str, is_decided: bool) -> None:
    text = "Likes matcha ice cream"
    if is_decided:
        delete_memory(memory=remember(actor, text), expected_version=None, by=BY, reason="", now=NOW)
    options: dict[str, Any] = {"untrusted": {"by": STRANGER}, "unsure": {"confidence": 0.1}}.get(before, {})
    if is_decided and before not in ("untrusted", "unsure"):
        memory = remember(actor, "Likes mango ice cream")
    else:
        memory = (
            remember(actor, text, **options)
            if not is_decided
            else remember(actor, text, needs_approval=True, **options)
        )
    if before in ("pin", "archive"):
        memory = apply_transition(memory=memory, verb=before, by=BY, reason="", now=NOW)
    stood = stands(memory)
    apply_transition(memory=memory, verb=verb, by=BY, reason="", now=NOW)
    assert stands(memory) != stood
    undo(memory)
    assert stands(memory) == stood
    assert latest(memory).verb == "undo" and latest(memory).reason == "not so"


def test_an_edit_is_taken_back_with_its_lock_and_its_decisions(actor: Actor) -> None:
    memory = remember(actor, "Likes matcha ice cream")
    delete_memory(memory=remember(actor, "Hates soup"), expected_version=None, by=BY, reason="", now=NOW)
    stood = stands(memory)
    edit_memory(memory=memory, values={"content": "Hates soup"}, expected_version=None, by=BY, reason="", now=NOW)
    assert stands(memory)["locked"] and stands(memory)["decisions"] != stood["decisions"]
    undo(memory)
    assert stands(memory) == stood


def test_a_restored_revision_is_taken_back(actor: Actor) -> None:
    memory = remember(actor, "Likes matcha ice cream")
    edit_memory(memory=memory, values={"content": "Hates soup"}, expected_version=None, by=BY, reason="", now=NOW)
    stood = stands(memory)
    first = MemoryRevision.objects.get(memory=memory, number=1)
    restore_revision(memory=memory, revision=first, expected_version=None, by=BY, reason="", now=NOW)
    undo(memory)
    assert stands(memory) == stood


def test_what_an_approval_ended_holds_again(actor: Actor) -> None:
    old = remember(actor, "Lives in Osaka")
    new = supersede_memory(
        memory=old, new=NewMemory(content="Lives in Kyoto", needs_approval=True), at=NOW, by=BY, reason="", now=NOW
    )
    stood = stands(old), stands(new)
    apply_transition(verb="approve", memory=new, values={}, expected_version=None, by=BY, reason="", now=NOW)
    assert stands(old)["superseded_by_id"] == new.pk
    undo(new)
    assert (stands(old), stands(new)) == stood


def test_what_was_changed_since_stays(actor: Actor) -> None:
    memory = remember(actor, "Likes matcha ice cream")
    apply_transition(memory=memory, verb="pin", by=BY, reason="", now=NOW)
    revision = latest(memory)
    apply_transition(memory=memory, verb="archive", by=BY, reason="", now=NOW)
    stood = stands(memory)
    with pytest.raises(ChangedSince):
        undo_revision(revision=revision, by=BY, reason="", now=NOW)
    assert stands(memory) == stood


def test_a_text_that_another_has_by_now_stays_away(actor: Actor) -> None:
    memory = remember(actor, "Likes matcha ice cream")
    edit_memory(memory=memory, values={"content": "Hates soup"}, expected_version=None, by=BY, reason="", now=NOW)
    remember(actor, "Likes matcha ice cream")
    with pytest.raises(DuplicateMemory):
        undo(memory)
    assert stands(memory)["content"] == "Hates soup"


def test_a_change_of_before_this_was_kept_is_taken_back_as_far_as_it_is_known(actor: Actor) -> None:
    memory = remember(actor, "Likes matcha ice cream")
    stood = stands(memory)
    apply_transition(memory=memory, verb="archive", by=BY, reason="", now=NOW)
    MemoryRevision.objects.update(beside={})
    undo(memory)
    assert stands(memory) == stood


def test_revisions_keep_no_text_beside(actor: Actor) -> None:
    delete_memory(memory=remember(actor, "Hates soup"), expected_version=None, by=BY, reason="", now=NOW)
    memory = remember(actor, "Likes matcha ice cream")
    edit_memory(memory=memory, values={"content": "Hates soup"}, expected_version=None, by=BY, reason="", now=NOW)
    beside = latest(memory).beside
    assert beside["decisions"] and "soup" not in str(beside) and "matcha" not in str(beside)


def test_an_approval_is_bound_to_what_it_ends(actor: Actor) -> None:
    """Who read a memory that waits before anything would end by it has not approved of the end (SPEC M10)."""
    old, waiting = remember(actor, "Lives in Osaka"), remember(actor, "Lives in Kyoto", needs_approval=True)
    read = waiting.version
    supersede_memory(
        memory=old, new=NewMemory(content="Lives in Kyoto", needs_approval=True), at=NOW, by=BY, reason="", now=NOW
    )
    assert Memory.objects.get(pk=waiting.pk).supersedes == [old.pk]
    with pytest.raises(VersionMismatch):
        apply_transition(verb="approve", memory=waiting, values={}, expected_version=read, by=BY, reason="", now=NOW)
    assert stands(old)["valid_to"] is None
    assert remember(actor, "Eats noodles", needs_approval=True).version == 1
