"""Messages that a model is sent, and how questions are told apart."""

from conversations.actions.chat import body_digest, key_digest
from conversations.domain.formats import split_system

TURNS = [{"role": "user", "content": "Hello"}]


def test_the_system_prompt_stands_apart_in_both_forms() -> None:
    assert split_system("anthropic", "You are Kana.", TURNS) == ("You are Kana.", TURNS)
    assert split_system("anthropic", None, TURNS) == ("", TURNS)
    system = {"role": "system", "content": "You are Kana."}
    assert split_system("openai", None, [system, *TURNS]) == ("You are Kana.", TURNS)


def test_digests_tell_questions_and_keys_apart() -> None:
    assert body_digest("a", None) == body_digest("a", None) != body_digest("a", "")
    assert len({key_digest("key:1", "one"), key_digest("key:2", "one"), key_digest("key:1", "two")}) == 3
