"""Digests that tell questions and keys apart."""

from conversations.actions.chat import key_digest
from conversations.actions.questions import body_digest


def test_digests_tell_questions_and_keys_apart() -> None:
    assert body_digest("a", None) == body_digest("a", None) != body_digest("a", "")
    assert len({key_digest("key:1", "one"), key_digest("key:2", "one"), key_digest("key:1", "two")}) == 3
