"""The README's walk, call by call."""

from uuid import uuid4

from rest_framework.test import APIClient


def test_store_search_assemble_explain(client: APIClient) -> None:
    session = client.post("/api/v1/sessions", {"agent_id": "kana", "user_id": "hiroki", "channel": "slack"})
    assert session.status_code == 201, session.content
    address = f"/api/v1/sessions/{session.data['id']}/messages"
    stored = client.post(
        address,
        {
            "messages": [
                {"role": "user", "content": "I moved from Osaka to Kyoto last spring and love the temples."},
                {"role": "kana", "content": "Kyoto in spring is beautiful. Which temple do you like best?"},
                {"role": "user", "content": "好きな食べ物は抹茶アイスです。"},
            ]
        },
    )
    assert stored.status_code == 201, stored.content
    assert [row["seq"] for row in stored.data["results"]] == [1, 2, 3]
    memory = client.post(
        "/api/v1/memories",
        {"agent_id": "kana", "user_id": "hiroki", "kind": "preference", "content": "抹茶アイスが好き"},
    )
    assert memory.status_code == 201, memory.content
    found = client.post(
        "/api/v1/memories/search",
        {"agent_id": "kana", "user_id": "hiroki", "query": "どんなアイスが好き？", "include_messages": True},
    )
    assert found.status_code == 200, found.content
    assert found.data["results"][0]["memory"]["id"] == memory.data["id"]
    context = client.post(
        "/api/v1/context",
        {
            "agent_id": "kana",
            "user_id": "hiroki",
            "session_id": session.data["id"],
            "message": "京都でアイスを食べたい",
        },
    )
    assert context.status_code == 200, context.content
    assert context.data["metadata"]["total_tokens"] <= context.data["metadata"]["token_limit"]
    assert context.data["messages"][-1]["role"] == "user"
    receipt = client.get(f"/api/v1/receipts/{context.data['receipt_id']}")
    assert receipt.status_code == 200, receipt.content
    assert {item["layer"] for item in receipt.data["items"]} >= {"semantic", "working"}
    assert client.get(f"/api/v1/receipts/{uuid4()}").status_code == 404
