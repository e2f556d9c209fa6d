"""A key's cap on its chat: no more answers that day, told in each vendor's form; nothing else of the key is stopped."""

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.models import Message
from memoryhub.auth.models import ApiKey
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.tenancy.models import Agent
from tests.conftest import client_with_key
from tests.factories.planting import API
from tests.fakes.llm_server import LLMServer, Reply

pytestmark = pytest.mark.usefixtures("one_day")
ASKED: dict[str, dict[str, Any]] = {
    "chat": {"agent_id": "kana", "user_id": "hiroki", "message": "Tea?"},
    "openai/chat/completions": {
        "model": "kana", "user": "hiroki", "messages": [{"role": "user", "content": "Tea?"}],
    },
    "openai/responses": {"model": "kana", "user": "hiroki", "input": "Tea?"},
    "anthropic/v1/messages": {
        "model": "kana", "metadata": {"user_id": "hiroki"}, "max_tokens": 50,
        "messages": [{"role": "user", "content": "Tea?"}],
    },
}  # fmt: skip


@pytest.fixture
def capped(db: None, llm: LLMServer) -> APIClient:
    Agent.objects.create(agent_id="kana")
    llm.answer(Reply("Green."))
    return client_with_key(name="capped", daily_token_cap=1)


@pytest.mark.parametrize("path", ASKED)
def test_a_key_that_used_up_its_day_gets_no_more_answers(capped: APIClient, llm: LLMServer, path: str) -> None:
    assert capped.post(f"{API}/{path}", ASKED[path]).status_code == 200
    asked, messages = len(llm.asked), Message.objects.count()
    refused = capped.post(f"{API}/{path}", ASKED[path])
    assert refused.status_code == 429 and 0 < int(refused["Retry-After"]) <= 86_400
    assert "its 1 tokens of today" in refused.content.decode()
    assert path == "chat" or refused.json()["error"], "in the vendor's form"
    assert (len(llm.asked), Message.objects.count()) == (asked, messages), "nothing is sent or stored"
    assert client_with_key(name="other").post(f"{API}/{path}", ASKED[path]).status_code == 200
    assert capped.post(f"{API}/context", {**ASKED["chat"]}).status_code == 200


def test_what_a_key_used_is_counted_for_its_day(capped: APIClient, llm: LLMServer) -> None:
    unstored = {"headers": {"X-Memoryhub-Mode": "off"}}
    assert capped.post(f"{API}/openai/responses", ASKED["openai/responses"], **unstored).status_code == 200
    entry = LedgerEntry.objects.get(key_id=ApiKey.objects.get(name="capped").pk)
    assert entry.operation == "chat"
    assert capped.post(f"{API}/chat", ASKED["chat"]).status_code == 429, "unstored answers count too"
    LedgerEntry.objects.update(created_at=timezone.now() - timedelta(days=1))
    assert capped.post(f"{API}/chat", ASKED["chat"]).status_code == 200


def test_a_cap_is_set_where_a_key_is_issued(db: None) -> None:
    out = StringIO()
    call_command("keys", "issue", "capped", "--daily-tokens", "5000", stdout=out, stderr=StringIO())
    assert ApiKey.objects.get().daily_token_cap == 5_000
    call_command("keys", "list", "--json", stdout=out)
    assert '"daily_tokens": 5000' in out.getvalue()
    with pytest.raises(CommandError, match=r"^--daily-tokens: "):
        call_command("keys", "issue", "capped", "--daily-tokens", "-5", stdout=out, stderr=StringIO())
