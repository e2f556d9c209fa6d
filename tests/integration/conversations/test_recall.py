"""Recall of messages: by their day, after a question, and by the author whom a question names."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.actions import recall
from conversations.actions.recall import search_messages
from conversations.models import Message, MessageIndex, Session
from memoryhub.embeddings.spaces import text_query
from memoryhub.search.fusion import DEFAULT_POLICY
from memoryhub.tenancy.models import Actor

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}


def say(client: APIClient, *messages: dict[str, Any], **who: str) -> str:
    """Store a session of these messages; return its id."""
    session: str = client.post(f"{API}/sessions", {**WHO, **who}).json()["id"]
    add(client, session, *messages)
    return session


def add(client: APIClient, session: str, *messages: dict[str, Any]) -> None:
    batch = [{"role": "user", **message} for message in messages]
    answer = client.post(f"{API}/sessions/{session}/messages", {"messages": batch})
    assert answer.status_code == 201, answer.content


def recalled(query: str) -> dict[str, float]:
    """Return the recalled messages' relevance by their text, most relevant first."""
    actor = Actor.objects.get(user_id="hiroki")
    found = search_messages(actor_id=actor.pk, query=text_query(query), limit=50)
    return {each.message.content: each.relevance for each in found}


def without_vectors() -> None:
    """Let words decide alone, so that relevance is a matter of the formula."""
    MessageIndex.objects.update(vector=None)


@pytest.mark.parametrize(
    ("contents", "query"),
    [
        (("I went to the harbour.", "I baked some bread.", "I read a book."), "What happened on 8 May 2023?"),
        (("I went to the harbour.", "I baked some bread.", "I read a book."), "What happened in May?"),
        (("港へ行きました。", "パンを焼きました。", "本を読みました。"), "2023年5月8日に何がありましたか？"),
        (("港へ行きました。", "パンを焼きました。", "本を読みました。"), "5月には何がありましたか？"),
    ],
    ids=["English day", "English month", "Japanese day", "Japanese month"],
)
def test_message_is_found_by_its_date(client: APIClient, contents: tuple[str, ...], query: str) -> None:
    days = ["2023-05-08", "2023-08-05", "2022-11-18"]
    for content, day in zip(contents, days, strict=True):
        say(client, {"content": content, "created_at": f"{day}T12:00:00Z"})

    found = recalled(query)

    assert next(iter(found)) == contents[0]
    assert all(found[contents[0]] > relevance for content, relevance in found.items() if content != contents[0])


@pytest.mark.parametrize(
    ("contents", "query"),
    [
        (("I baked some bread.", "I went to the harbour.", "I read a book."), "What did we talk about two days ago?"),
        (("パンを焼きました。", "港へ行きました。", "本を読みました。"), "おととい何を話した？"),
    ],
    ids=["English", "Japanese"],
)
def test_context_recalls_the_day_that_a_question_names_by_its_distance(
    client: APIClient, contents: tuple[str, ...], query: str
) -> None:
    for days_ago, content in zip((3, 2, 1), contents, strict=True):
        moment = timezone.now() - timedelta(days=days_ago)
        say(client, {"content": content, "created_at": f"{moment:%Y-%m-%dT%H:%M:%SZ}"})

    body = {**WHO, "message": query, "options": {"working_memory_limit": 1}}
    receipt = client.get(f"{API}/receipts/{client.post(f'{API}/context', body).json()['receipt_id']}").json()

    scores = {item["excerpt"]: item["final_score"] for item in receipt["items"] if item["layer"] == "recall"}
    assert max(scores, key=lambda excerpt: scores[excerpt]) == contents[1]


def test_message_without_a_date_of_its_own_is_found_by_today(client: APIClient) -> None:
    say(client, {"content": "I went to the harbour."})
    row = Message.objects.get()

    assert list(recalled(f"What was said on {row.created_at:%-d %B %Y}?")) == ["I went to the harbour."]


def test_reply_outranks_the_question_it_answers(client: APIClient) -> None:
    question, reply = "Where did you buy the green lamp?", "At the flea market."
    say(client, {"content": question}, {"role": "assistant", "content": reply}, {"content": "Oh."})

    found = recalled("Where did you buy the green lamp?")

    assert list(found)[:2] == [reply, question]


def test_breakdown_tells_own_relevance_from_what_neighbours_gave(client: APIClient) -> None:
    say(client, {"content": "Where did you buy the green lamp?"}, {"role": "assistant", "content": "At a fair."})
    body = {**WHO, "query": "green lamp buy", "include_messages": True}

    found = client.post(f"{API}/memories/search", body).json()["results"]

    scores = {each["message"]["content"]: each["score_breakdown"] for each in found}
    reply, question = scores["At a fair."], scores["Where did you buy the green lamp?"]
    assert reply["own_relevance"] < 0.01 < reply["relevance"]
    assert question["own_relevance"] > question["relevance"]


def test_reply_to_a_japanese_question_outranks_it(client: APIClient) -> None:
    question, reply = "緑のランプはどこで買いましたか。", "蚤の市です。"
    say(client, {"content": question}, {"role": "assistant", "content": reply})

    assert list(recalled("緑のランプはどこで買いましたか"))[:2] == [reply, question]
    assert MessageIndex.objects.get(seq=1).asks


def test_statement_outranks_what_follows_it(client: APIClient) -> None:
    said = "I bought the green lamp in Osaka."
    say(client, {"content": said}, {"role": "assistant", "content": "How nice."})

    assert next(iter(recalled("Where did you buy the green lamp?"))) == said


@pytest.fixture
def hikers(client: APIClient) -> None:
    """Let two people say much the same, each in a session of their own, and nobody say it too."""
    for author in ("Ann", "Bob", ""):
        say(client, {"content": f"Hiking in the mountains, says {author or 'nobody'}", "author": author})
    without_vectors()


def chance(relevance: float) -> float:
    """Return the relevance before its odds were multiplied."""
    return relevance / (relevance + DEFAULT_POLICY.message_odds * (1 - relevance))


def recalled_in_context(client: APIClient, message: str) -> str:
    """Return the context's block for a message of a new session, "" where nothing is recalled."""
    options = {"working_memory_limit": 1}
    answer = client.post(f"{API}/context", {**WHO, "message": message, "options": options})
    assert answer.status_code == 200, answer.content
    _, _, block = json.dumps(answer.json()["messages"], ensure_ascii=False).partition("## Earlier messages")
    return block


def test_weaker_answers_come_with_a_sure_one_and_never_alone(client: APIClient) -> None:
    say(
        client,
        {"content": "The green lamp is from the flea market in Lyon.", "created_at": "2024-05-02T10:00:00Z"},
        {"content": "We paid a lamp man twice.", "created_at": "2024-05-01T10:00:00Z"},
        {"content": "Good night.", "created_at": "2024-05-03T10:00:00Z"},
    )
    without_vectors()
    question = "Whom did we pay twice for the lamp?"
    sure, weaker, *_ = recalled(question).values()

    def with_floor(floor: float) -> str:
        address = f"{API}/agents/kana"
        assert client.patch(address, {"policy": {"recall_relevance_floor": floor}}).status_code == 200
        return recalled_in_context(client, question)

    assert with_floor((1 + sure) / 2) == ""
    both = with_floor((weaker + sure) / 2)
    # As they were said, whichever answers best.
    assert both.index("We paid a lamp man twice.") < both.index("flea market in Lyon")


def test_of_a_long_message_the_sentences_that_answer_are_recalled(client: APIClient) -> None:
    talk = " ".join(f"On day {number} we walked along the river." for number in range(9))
    long = f"{talk} The violin is at Moretti's. {talk}"
    say(client, {"content": long}, {"content": "Good night."})

    block = recalled_in_context(client, "Where is the violin, at Moretti's?")

    assert "The violin is at Moretti's." in block
    assert "user] … On day " in block


def test_question_that_names_one_author_prefers_that_authors_messages(hikers: None) -> None:
    """A name in small letters names nobody, and is the same word: what remains is what naming does."""
    unnamed, found = recalled("ann: hiking mountains"), recalled("Ann: hiking mountains")

    ann, bob, nobody = (f"Hiking in the mountains, says {who}" for who in ("Ann", "Bob", "nobody"))
    assert next(iter(found)) == ann
    assert found[ann] == pytest.approx(unnamed[ann])
    assert found[nobody] == pytest.approx(unnamed[nobody])
    assert chance(found[bob]) == pytest.approx(0.75 * chance(unnamed[bob]))


def test_question_that_names_two_authors_prefers_neither(hikers: None) -> None:
    assert recalled("Ann, Bob: hiking mountains") == pytest.approx(recalled("ann, bob: hiking mountains"))


def test_author_of_another_user_is_nobody(client: APIClient, hikers: None) -> None:
    say(client, {"content": "Hello", "author": "Mountains"}, user_id="aoi")

    assert recalled("Mountains hiking") == pytest.approx(recalled("mountains hiking"))


def test_authors_of_the_newest_sessions_are_looked_for(
    client: APIClient, hikers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = recalled("Ann, Bob: hiking mountains")
    monkeypatch.setattr(recall, "MAX_NAMES", 1)

    only_bob = recalled("Ann, Bob: hiking mountains")

    ann, bob = (f"Hiking in the mountains, says {who}" for who in ("Ann", "Bob"))
    assert only_bob[bob] == pytest.approx(both[bob])
    assert chance(only_bob[ann]) == pytest.approx(0.75 * chance(both[ann]))


def test_untrusted_author_changes_nothing_in_other_sessions(client: APIClient, hikers: None) -> None:
    before = recalled("Mountains, hiking")
    client.patch(f"{API}/agents/kana", {"policy": {"untrusted_channels": ["email"]}})
    say(client, {"content": "Hello", "author": "Mountains"}, channel="email")

    assert recalled("Mountains, hiking") == pytest.approx(before)
    assert Message.objects.get(author="Mountains").trust == "untrusted"
    assert Session.objects.get(channel="email").authors == []


def test_author_is_known_once_a_message_of_theirs_is_trusted(client: APIClient) -> None:
    agent = client.post(f"{API}/agents", {"agent_id": "kana", "policy": {"untrusted_channels": ["email"]}})
    session = say(client, {"content": "one", "author": "Ann"}, channel="email")
    changed = client.patch(f"{API}/agents/kana", {"policy": {}}, headers={"If-Match": agent["ETag"]})
    assert changed.status_code == 200, changed.content

    add(client, session, {"content": "two", "author": "Ann"})

    assert Session.objects.get().authors == ["Ann"]


def test_question_by_vector_alone_names_nobody(client: APIClient, hikers: None) -> None:
    dimension = 384
    body = {**WHO, "embedding": [1.0] * dimension, "include_messages": True}

    assert client.post(f"{API}/memories/search", body).status_code == 200


def test_only_what_was_spoken_has_index_rows(client: APIClient) -> None:
    say(
        client,
        {"role": "system", "content": "zebra rules", "author": "Boss"},
        {"role": "tool", "content": "zebra output", "author": "Grep"},
        {"role": "user", "content": "hello zebra", "author": "Ann"},
        {"role": "assistant", "content": "hello again"},
    )

    assert [row.seq for row in MessageIndex.objects.order_by("seq")] == [3, 4]
    assert Message.objects.count() == 4
    assert list(recalled("zebra")) == ["hello zebra", "hello again"]
    assert Session.objects.get().authors == ["Ann"]


def test_session_knows_each_speaker_once(client: APIClient) -> None:
    session = say(
        client,
        {"content": "one", "author": "Ann"},
        {"content": "two", "author": "Bob"},
        {"content": "three", "author": "Ann"},
        {"content": "four"},
    )
    add(client, session, {"role": "kana", "content": "five"}, {"content": "six", "author": "Ann"})
    add(client, session, {"content": "seven"})

    assert Session.objects.get().authors == ["Ann", "Bob", "kana"]


def test_index_row_says_how_the_message_stands_in_its_session(client: APIClient) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana", "policy": {"untrusted_channels": ["email"]}})
    session = say(client, {"content": "Really?", "author": "Ann"}, {"content": "Yes"}, channel="email")

    for row in MessageIndex.objects.select_related("message"):
        assert MessageIndex.copied_fields(row.message) == {
            name: getattr(row, name) for name in ("session_id", "seq", "trust", "author", "asks", "is_abandoned")
        }
    first, second = MessageIndex.objects.order_by("seq")
    assert (str(first.session_id), first.trust, first.author, first.asks) == (session, "untrusted", "Ann", True)
    assert (second.author, second.asks) == ("", False)


def test_erased_user_leaves_no_author(client: APIClient) -> None:
    say(client, {"content": "one", "author": "Ann"})
    say(client, {"content": "two", "author": "Bob"}, user_id="aoi")

    assert client.delete(f"{API}/actors?agent_id=kana&user_id=hiroki").status_code == 200

    assert list(Session.objects.values_list("authors", flat=True)) == [["Bob"]]
    assert list(MessageIndex.objects.values_list("author", flat=True)) == ["Bob"]
