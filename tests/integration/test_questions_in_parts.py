"""A message of several questions finds, and its context holds, what answers each of them."""

from typing import Any

import pytest
from rest_framework.test import APIClient

API = "/api/v1"
WHO = {"agent_id": "parts", "user_id": "noa"}
FACTS = {
    "en": (
        "Lena is my cousin, she is 164 cm tall.",
        "Marta is my boss, she is 165 cm tall.",
        "I will go to the Model Art Feast, it has nine hundred people.",
        "I will go to the Fintech Elite Forum, it has three thousand people.",
    ),
    "ja": (
        "レナは従姉妹で、身長は164センチです。",
        "マルタは上司で、身長は165センチです。",
        "模型芸術祭に行きます。九百人が参加します。",
        "金融技術会議に行きます。三千人が参加します。",
    ),
}
OTHERS = {
    "en": (
        "Peter is my neighbour, he is 169 cm tall.",
        "Jonas is my brother, he is 164 cm tall.",
        "I will go to a job fair, it has five hundred people.",
        "I will go on a hiking trip, it has nine hundred people.",
        "The dentist has moved to another street.",
    ),
    "ja": (
        "ペーターは隣人で、身長は169センチです。",
        "ヨナスは弟で、身長は164センチです。",
        "就職説明会に行きます。五百人が参加します。",
        "山歩きに行きます。九百人が参加します。",
        "歯医者が別の通りに移転しました。",
    ),
}
QUESTIONS = {
    "en": "Who is taller, Lena or Marta? And which has more people, the Model Art Feast or the Fintech Elite Forum?",
    "ja": "レナとマルタではどちらの身長が高いですか？それと、模型芸術祭と金融技術会議ではどちらの参加者が多いですか？",
}


def in_order(language: str) -> list[str]:
    """Return the facts between the other statements, so that none has another fact of its part next to it."""
    facts, others = FACTS[language], OTHERS[language]
    return [others[0], facts[0], others[1], facts[2], others[2], facts[1], others[3], facts[3], others[4]]


def found(client: APIClient, language: str) -> list[dict[str, Any]]:
    body = {**WHO, "query": QUESTIONS[language], "include_messages": True}
    results: list[dict[str, Any]] = client.post(f"{API}/memories/search", body).json()["results"]
    return results


@pytest.mark.parametrize("language", ["en", "ja"])
def test_each_question_has_its_messages_first(client: APIClient, language: str) -> None:
    session = client.post(f"{API}/sessions", WHO).json()["id"]
    batch = [{"role": "user", "content": text} for text in in_order(language)]
    client.post(f"{API}/sessions/{session}/messages", {"messages": batch})

    results = found(client, language)

    places = [FACTS[language].index(each["message"]["content"]) for each in results[:4]]
    assert sorted(places) == [0, 1, 2, 3]
    assert {place // 2 for place in places[:2]} == {0, 1}  # in turn
    relevances = [each["score_breakdown"]["relevance"] for each in results]
    assert relevances == sorted(relevances, reverse=True)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_context_has_the_memories_of_each_question(client: APIClient, language: str) -> None:
    for text in in_order(language):
        client.post(f"{API}/memories", {**WHO, "content": text})

    body = {**WHO, "message": QUESTIONS[language], "options": {"include_profile": False}}
    receipt_id = client.post(f"{API}/context", body).json()["receipt_id"]
    items = client.get(f"{API}/receipts/{receipt_id}").json()["items"]

    shown = [each["excerpt"] for each in items if each["layer"] == "semantic" and each["included"]]
    assert set(FACTS[language]) <= set(shown)
    assert [each["memory"]["content"] for each in found(client, language)[:4]] == shown[:4]
