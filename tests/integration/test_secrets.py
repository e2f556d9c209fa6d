"""No secret that a text holds is stored, by whatever way the text comes in, nor one that a model repeats (SPEC M13)."""

import json
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules
from rest_framework.test import APIClient

from conversations.models import Message
from memoryhub.auth.actions import issue_key
from memoryhub.auth.principals import Scope, command
from memoryhub.importexport.native.stored_texts import NOT_TEXTS, screen_actor, text_columns
from memoryhub.mcp.calls import TOOLS, Address, call_tool
from memoryhub.tenancy.models import Actor
from strength.actions.review_team import write_comment
from strength.models import Memory, ReviewComment
from summaries.actions.entries import trusted_texts
from summaries.models import Document
from tests.conftest import client_with_key
from tests.database import dumped, everywhere
from tests.factories.planting import API, made
from tests.factories.secrets import SECRETS, made_secrets
from tests.fakes.llm_server import Asked, LLMServer, Reply, smallest
from tests.integration.memoryhub.importexport.conftest import empty_the_installation, exported, run
from tests.integration.test_taint import ASSEMBLES_AGAIN, WHO, attack, run_all_jobs, trusted_rows

pytestmark = pytest.mark.django_db

SUBJECT = "The gyokuro supplier has a key."
AT_ONCE = 9
"""Secrets of one text."""

NOT_SCREENED = {
    "conversations_message.client_message_id": "an id that the client chooses",
    "memoryhub_actor.policy": "an operator's settings",
    "memoryhub_agent.domain": "an operator's settings",
    "memoryhub_agent.policy": "an operator's settings",
    "memoryhub_agent.system_prompt": "an operator's settings",
    "memoryhub_agent.topics_include": "an operator's settings",
    "strength_perspectivestrength.perspective": "a name that the client chooses",
    "strength_task.perspective": "a name that the client chooses",
}
"""Columns whose texts are stored as they are, and why."""

TAKES_AWAY = ("delete", "session-forget", "project-archive", "project-merge", "memory-reject")
"""Writes after which there would be nothing left to search."""


class Repeating:
    """A model that repeats every secret that it is shown, in every place of its answer."""

    def __init__(self, secrets: Iterable[tuple[str, str, str]]) -> None:
        self.secrets = [*secrets]

    def __call__(self, asked: Asked) -> Reply:
        shown = [text for _kind, text, secret in self.secrets if secret in asked.text or secret in asked.system]
        words = f"{SUBJECT} {' '.join(shown)}"
        return Reply(words) if asked.schema is None else Reply(data=self._filled(asked.schema, words))

    def _filled(self, schema: dict[str, Any], words: str) -> Any:
        kind = schema.get("type")
        if "enum" in schema or "const" in schema or "anyOf" in schema:
            return smallest(schema)
        if kind == "object":
            return {name: self._filled(each, words) for name, each in schema["properties"].items()}
        if kind == "array":
            return [self._filled(schema["items"], words)]
        return {"string": words, "integer": 1, "number": 0.95}.get(kind, True)


def stored(secrets: Iterable[tuple[str, str, str]]) -> dict[str, list[str]]:
    """Return the kinds of the secrets that the database holds, by the columns that hold them."""
    found, contents = dict[str, list[str]](), b"".join(dumped().values())
    for kind, _text, secret in secrets:
        if secret.encode() in contents or secret.encode().hex().encode() in contents:
            for column in everywhere(secret) - NOT_SCREENED.keys():
                found.setdefault(column, []).append(kind)
    return found


def send_everywhere(
    llm: LLMServer, secrets: list[tuple[str, str, str]], *, is_trusted: bool, at_once: int = AT_ONCE
) -> None:
    llm.answer(Repeating(secrets))
    place = trusted_rows()
    for start in range(0, len(secrets), at_once):
        text = "\n".join([SUBJECT, *(text for _kind, text, _secret in secrets[start : start + at_once])])
        without = {*TAKES_AWAY, *(ASSEMBLES_AGAIN if start else ())}
        attack(client_with_key(is_trusted=is_trusted), place, text, without=without)
    run_all_jobs()


@pytest.mark.parametrize("is_trusted", [True, False])
def test_no_way_in_stores_a_secret(llm: LLMServer, is_trusted: bool) -> None:
    secrets = made_secrets(len(SECRETS), seed=int(is_trusted))[int(is_trusted) :: len(SECRETS) // AT_ONCE]
    send_everywhere(llm, secrets, is_trusted=is_trusted)
    assert stored(secrets) == {}


@pytest.mark.long
@pytest.mark.slow
def test_of_400_secrets_none_is_stored(llm: LLMServer) -> None:
    secrets = made_secrets(400)
    send_everywhere(llm, secrets, is_trusted=True, at_once=40)
    assert stored(secrets) == {}


def test_what_an_agent_keeps_is_stored_everywhere(client: APIClient, llm: LLMServer) -> None:
    """The control: the walk that finds nothing finds what is kept."""
    [secret] = made_secrets(1)
    place = trusted_rows()
    made(client.patch(f"{API}/agents/kana", {"policy": {"secrets": "keep"}}))
    llm.answer(Repeating([secret]))
    attack(client_with_key(), place, f"{SUBJECT} {secret[1]}", without=(*TAKES_AWAY, "agent", "actors"))
    run_all_jobs()
    assert {
        "conversations_message.content", "conversations_message.blocks", "conversations_message.metadata",
        "conversations_receipt.query", "conversations_session.title", "strength_memory.content",
        "strength_memoryrevision.after", "strength_task.query", "strength_task.result", "summaries_document.text",
        "summaries_project.description", "summaries_routingdecision.message",
    } <= stored([secret]).keys()  # fmt: skip


def screened(*options: str) -> str:
    out = StringIO()
    call_command("screen", *options, stdout=out)
    return out.getvalue()


@pytest.fixture
def kept(client: APIClient, llm: LLMServer) -> list[tuple[str, str, str]]:
    """Return secrets that were stored everywhere while the agent kept them."""
    secrets = made_secrets(AT_ONCE, seed=3)
    place = trusted_rows()
    made(client.patch(f"{API}/agents/kana", {"policy": {"secrets": "keep"}}))
    llm.answer(Repeating(secrets))
    text = "\n".join([SUBJECT, *(text for _kind, text, _secret in secrets)])
    attack(client_with_key(), place, text, without=(*TAKES_AWAY, "agent", "actors"))
    run_all_jobs()
    made(client.patch(f"{API}/agents/kana", {"policy": {}}))
    return secrets


def test_what_is_stored_already_is_screened(kept: list[tuple[str, str, str]], client: APIClient) -> None:
    before = dumped()
    assert screened("--dry-run", "--agent", "kana").startswith("0 secrets") is False
    assert dumped() == before
    screened("--agent", "kana")
    assert stored(kept) == {}
    assert screened().startswith("0 secrets removed")
    # What was changed is found by its other words, and by no word of a secret.
    found = made(client.post(f"{API}/memories/search", {**WHO, "query": "gyokuro supplier key"}))
    assert "[secret removed: " in json.dumps(found)


def test_a_run_that_was_stopped_is_repeated(kept: list[tuple[str, str, str]]) -> None:
    def stop(_count: int) -> None:
        raise KeyboardInterrupt

    actor = Actor.objects.select_related("agent").get(user_id="hiroki")
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            screen_actor(actor, by=command("test"), now=timezone.now(), batch_size=1, progress=stop)
    assert stored(kept) != {}
    screened("--batch-size", "7")
    assert stored(kept) == {}


def test_comments_of_people_are_screened(client: APIClient) -> None:
    [(_kind, _text, secret)] = made_secrets(1)
    made(client.post(f"{API}/agents", {"agent_id": "kana", "policy": {"secrets": "keep"}}))
    memory = Memory.objects.select_related("actor__agent").get(
        pk=made(client.post(f"{API}/memories", {**WHO, "content": "Likes tea"}))["id"]
    )
    author = User.objects.create_superuser("aya")
    write_comment(row=memory, text=f"Ask Ken, {secret}", author=author, by=command("test"), now=timezone.now())
    assert secret in ReviewComment.objects.get().text
    made(client.patch(f"{API}/agents/kana", {"policy": {}}))
    assert screened("--agent", "kana").startswith("1 secrets removed")
    assert ReviewComment.objects.get().text == "Ask Ken, [secret removed: OpenAI key]"
    assert screened().startswith("0 secrets removed")


def test_two_memories_that_differ_in_secrets_alone_are_kept_apart(client: APIClient) -> None:
    made(client.post(f"{API}/agents", {"agent_id": "kana", "policy": {"secrets": "keep"}}))
    for _kind, _text, secret in made_secrets(2 * len(SECRETS))[:: len(SECRETS)]:
        made(client.post(f"{API}/memories", {**WHO, "content": f"The key is {secret}"}))
    made(client.patch(f"{API}/agents/kana", {"policy": {}}))
    screened()
    removed = "The key is [secret removed: OpenAI key]"
    assert set(Memory.objects.values_list("content", flat=True)) == {removed, f"{removed} (2)"}


def test_lines_keep_their_trust_when_a_document_is_screened(client: APIClient) -> None:
    made(client.post(f"{API}/agents", {"agent_id": "kana", "policy": {"secrets": "keep"}}))
    made(client.post(f"{API}/projects", {**WHO, "name": "tea-shop", "description": "Tea."}))
    entries = "projects/tea-shop/documents/decisions.md/entries?agent_id=kana&user_id=hiroki"
    [(_kind, _text, secret)] = made_secrets(1)
    made(client.post(f"{API}/{entries}", {"text": "We sell gyokuro."}))
    made(client_with_key(is_trusted=False).post(f"{API}/{entries}", {"text": f"Attack: {secret}"}))
    made(client.patch(f"{API}/agents/kana", {"policy": {}}))
    before = trusted_texts([Document.objects.get(name="decisions.md")])
    screened()
    document = Document.objects.get(name="decisions.md")
    assert "Attack: [secret removed: OpenAI key]" in document.text
    assert trusted_texts([document]) == before


def test_every_text_column_of_an_actor_is_screened_or_named() -> None:
    """A new column is screened; a name in the table that no column has is removed."""
    columns = {name for model in apps.get_models() for name in (each.attname for each in model._meta.concrete_fields)}
    assert columns >= NOT_TEXTS
    assert {"content", "blocks", "metadata", "author"} == set(text_columns(Message))
    assert {"text"} == set(text_columns(Document))


def test_tools_of_a_model_store_no_secret(client: APIClient) -> None:
    """By MCP, and as calls and results of a session's tools, in both vendors' forms."""
    [(kind, text, secret)] = made_secrets(1)
    key, _new = issue_key(name="mcp", scopes=list(Scope), agent_ids=["kana"], by=command("test"), now=timezone.now())
    made(client.post(f"{API}/agents", {"agent_id": "kana"}))
    made(client.post(f"{API}/projects", {**WHO, "name": "tea-shop", "description": "Tea."}))
    autodiscover_modules("mcp")
    tools = {tool.name: tool for tool in TOOLS}
    address = Address("kana", "hiroki")

    def call(name: str, /, **arguments: Any) -> Any:
        done = call_tool(tools[name], api_key=key, address=address, idempotency_key=f"k-{name}", arguments=arguments)
        return json.loads(done)

    memory = call("remember", content=text)
    call("correct", memory_id=UUID(memory["id"]), content=f"Now {text}")
    call("project_file", command="write", project="tea-shop", name="detail-keys.md", text=f"# Keys\n\n{text}\n")
    session = made(client.post(f"{API}/sessions", WHO))["id"]
    use = {"type": "tool_use", "id": "c1", "name": "run", "input": {"command": f"export KEY={secret}", secret: 1}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": text}]}
    function = {"name": "run", "arguments": json.dumps({"env": {"API_KEY": secret}})}
    messages = [
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "tool_calls": [{"id": "c2", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c2", "content": text},
    ]
    made(client.post(f"{API}/sessions/{session}/messages", {"messages": messages}))
    assert stored([(kind, text, secret)]) == {}


def test_an_imported_export_is_screened(kept: list[tuple[str, str, str]], client: APIClient, tmp_path: Path) -> None:
    made(client.patch(f"{API}/agents/kana", {"policy": {"secrets": "keep"}}))
    file = tmp_path / "export.jsonl"
    file.write_bytes(exported("kana"))
    empty_the_installation()
    made(client_with_key().post(f"{API}/agents", {"agent_id": "kana"}))
    run("import", file)
    assert Message.objects.exists() and Memory.objects.exists()
    assert stored(kept) == {}
