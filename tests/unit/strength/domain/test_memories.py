"""Kinds, namespaces, scopes and equal texts."""

import pytest

from strength.domain.memories import (
    Kind,
    MemoryRefused,
    ScopeLevel,
    changed_values,
    check_metadata,
    check_scope,
    content_digest,
    default_namespace,
    restorable_values,
    split_metadata_filter,
)


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_a_place(kind: Kind) -> None:
    assert default_namespace(kind).endswith("/{actorId}/")


def test_places_of_extraction_are_as_specified() -> None:
    places = [
        default_namespace(kind) for kind in (Kind.FACT, Kind.PREFERENCE, Kind.SUMMARY, Kind.EPISODE, Kind.REFLECTION)
    ]
    folders = ["facts", "preferences", "summaries", "episodes", "reflections"]
    assert places == [f"/{folder}/{{actorId}}/" for folder in folders]


def test_white_space_around_a_text_makes_no_other_memory() -> None:
    assert content_digest(" likes tea\n") == content_digest("likes tea")
    assert content_digest("likes tea") != content_digest("Likes tea")


@pytest.mark.parametrize("level", [ScopeLevel.DOMAIN, ScopeLevel.UNIVERSAL])
def test_a_persons_memories_never_leave_the_person(level: ScopeLevel) -> None:
    with pytest.raises(MemoryRefused, match="never shared") as caught:
        check_scope(level, domain="cooking", user_id="hiroki")
    assert caught.value.field == "scope_level"


def test_scope_domain_needs_a_domain() -> None:
    with pytest.raises(MemoryRefused) as caught:
        check_scope(ScopeLevel.DOMAIN, domain="", user_id="")
    assert caught.value.field == "scope_domain"
    check_scope(ScopeLevel.DOMAIN, domain="cooking", user_id="")
    check_scope(ScopeLevel.UNIVERSAL, domain="", user_id="")
    check_scope(ScopeLevel.PROJECT, domain="", user_id="hiroki")


def test_revision_tells_curated_values_that_differ() -> None:
    before, after = ({"content": "a", "pinned": False, "strength": 1}, {"content": "b", "pinned": False, "strength": 2})
    assert changed_values(before, after) == ({"content": "a"}, {"content": "b"})


def test_restoring_takes_curated_values_alone() -> None:
    assert restorable_values({"content": "a", "strength": 3}) == {"content": "a"}


def test_metadata_have_a_greatest_length_in_bytes() -> None:
    check_metadata({"a": "é" * 2_040})
    with pytest.raises(MemoryRefused, match="at most 4096 bytes") as caught:
        check_metadata({"a": "é" * 2_050})
    assert caught.value.field == "metadata"


def test_metadata_filters_are_split_into_what_is_contained_and_what_is_compared() -> None:
    assert split_metadata_filter({}) == ({}, [])
    assert split_metadata_filter({"a": 1, "b": {}, "c": {"d": [2]}}) == ({"a": 1, "b": {}, "c": {"d": [2]}}, [])
    contained, conditions = split_metadata_filter({"a": {"b": {"$gt": 1, "$lte": 2}}, "c": {"$ne": None, "d": 3}})
    assert contained == {"c": {"d": 3}}
    assert [(each.path, each.operator, each.value) for each in conditions] == [
        (("a", "b"), "$gt", 1),
        (("a", "b"), "$lte", 2),
        (("c",), "$ne", None),
    ]
    for wrong in ({"$eq": 1}, {"a": {"$in": [1]}}):
        with pytest.raises(MemoryRefused, match="is no operator") as caught:
            split_metadata_filter(wrong)
        assert caught.value.field == "metadata"
