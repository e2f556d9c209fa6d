"""New names: ids that follow from the old ones, and every reference with them."""

from uuid import UUID, uuid4

from memoryhub.ids import new_id
from memoryhub.importexport.native.importer import IdMap, TargetNames, namespace, owners, renamed_id
from memoryhub.tenancy.policy import actor_id

ACTOR = actor_id("kana", "ann")


def test_new_ids_keep_their_order_in_time_and_are_always_the_same() -> None:
    old = [UUID(int=(milliseconds << 80) | (7 << 76) | (2 << 62) | 5) for milliseconds in range(100)]
    new = [renamed_id(each, ACTOR) for each in old]
    assert new == sorted(new) == [renamed_id(each, ACTOR) for each in old]
    assert {each.version for each in new} == {7} and {each.variant for each in new} == {old[0].variant}
    assert renamed_id(old[0], actor_id("kana", "bob")) != new[0] != old[0]


def test_every_reference_follows_and_texts_do_not() -> None:
    renaming, memory, stranger = IdMap(), new_id(), uuid4()
    renaming.add(memory, ACTOR)
    new = str(renamed_id(memory, ACTOR))
    value = {"ids": [str(memory), str(stranger)], str(memory): 1, "text": f"see {memory}", "n": {"m": [str(memory)]}}
    assert renaming.rewrite(value, {}) == {
        "ids": [new, str(stranger)],
        new: 1,
        "text": f"see {memory}",
        "n": {"m": [new]},
    }
    assert renaming.id("x" * 36) == "x" * 36


def test_the_actor_itself_follows() -> None:
    renaming = IdMap()
    renaming.add_actor(actor_id("kana", "old"), ACTOR)
    assert renaming.id(str(actor_id("kana", "old"))) == str(ACTOR)


def test_namespaces_get_the_new_owner_and_nothing_else() -> None:
    named = owners(("kana", "ann"), ("kana", "é/2"))
    assert namespace("/facts/ann/", named) == "/facts/%C3%A9%2F2/"
    assert namespace("/facts/anna/ann/x/", named) == "/facts/anna/%C3%A9%2F2/x/"
    assert namespace(None, named) is None
    assert IdMap().rewrite({"namespace": "/facts/ann/", "content": "/facts/ann/"}, named) == {
        "namespace": "/facts/%C3%A9%2F2/",
        "content": "/facts/ann/",
    }
    assert owners(("kana", ""), ("yuno", "")) == {"kana": "yuno"}


def test_names_that_are_left_out_stay() -> None:
    assert TargetNames().of("kana", "ann") == ("kana", "ann")
    assert TargetNames("yuno").of("kana", "") == ("yuno", "")
    assert TargetNames(None, "").of("kana", "ann") == ("kana", "")
