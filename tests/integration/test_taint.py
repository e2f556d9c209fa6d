"""Texts of an untrusted key, by whatever route, are read back marked or not at all, and enter no trusted prompt.

The model repeats every marked word that it is shown, as a model that obeys it would: what is made of it must be marked too.
"""

import base64
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from conversations.domain.layers import USER_MESSAGE
from conversations.models import Message
from memoryhub.jobs.models import Job
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.webhooks.actions.delivery import TEST_PLACE
from memoryhub.webhooks.models import Delivery
from strength.models import Memory, MemoryNumbers, Tombstone
from summaries.actions.entries import trusted_texts
from summaries.models import Document, Project, RoutingDecision
from tests.conftest import client_with_key, run_jobs
from tests.database import prepared
from tests.factories.payloads import MARK, SHAPES, UNIT
from tests.factories.planting import API, made
from tests.factories.routes import closed_routes
from tests.fakes.llm_server import Asked, LLMServer, Reply, smallest

WHO = {"agent_id": "kana", "user_id": "hiroki"}
WHOSE = "?agent_id=kana&user_id=hiroki"
QUERY = "Who is our gyokuro supplier?"
AT_ONCE = 10
"""Texts of one walk: writing takes half of the time, reading the other half however much was written."""

QUICK = ("6700 characters", "next line")

Send = Callable[[str, str, Any], Any]


@dataclass
class Place:
    """A user's memory before the attack: ids by the name that addresses use."""

    ids: dict[str, str] = field(default_factory=dict)


def trusted_rows() -> Place:
    """Return the rows that the attack is on; cheap from the second time on."""
    return prepared("attacked", lambda: _trusted_rows(client_with_key(name="planter")))


def _trusted_rows(client: APIClient) -> Place:
    """Write a session with a summary, memories, and a project with a document that is too long for a context."""
    made(
        client.post(
            f"{API}/agents",
            {
                "agent_id": "kana",
                "policy": {"project_routing": "auto", "write_profile": True, "write_profile_after": 1},
            },
        )
    )
    session = made(client.post(f"{API}/sessions", {**WHO, "metadata": {"project": "tea-shop"}}))["id"]
    messages = made(
        client.post(
            f"{API}/sessions/{session}/messages",
            {
                "messages": [
                    {"role": "user", "content": "Which gyokuro supplier do we have?"},
                    {"role": "assistant", "content": "The gyokuro supplier is the farm in Uji."},
                ]
            },
        )
    )["results"]
    memory = made(client.post(f"{API}/memories", {**WHO, "content": "The gyokuro supplier is the farm in Uji."}))
    revision = made(client.get(f"{API}/memories/{memory['id']}/revisions"))["results"][0]
    made(client.post(f"{API}/projects", {**WHO, "name": "tea-shop", "description": "Our gyokuro supplier, and tea."}))
    document = f"{API}/projects/tea-shop/documents/detail-supply.md{WHOSE}"
    text = "# Supply\n\n" + "".join(f"- Gyokuro supplier {n}: the farm in Uji.\n" for n in range(400))
    made(client.put(document, {"text": text}))
    receipt = made(client.post(f"{API}/context", {**WHO, "message": QUERY}))["receipt_id"]
    route = made(client.post(f"{API}/projects/route", {**WHO, "message": QUERY}))["id"]
    bulk = {**WHO, "verb": "pin", "text": "of no memory"}
    batch = made(client.post(f"{API}/memories/bulk", bulk), 202)["batch"]
    run_all_jobs()
    expected = made(client.post(f"{API}/expectations", {"receipt_id": receipt, "memory_id": memory["id"]}))["id"]
    hook = made(client.post(f"{API}/webhooks", {"agent_id": "kana", "url": "https://example.org/hook"}))["id"]
    delivery = Delivery.objects.create(endpoint_id=hook, place=TEST_PLACE, kind="webhook.test", status=204)
    return Place(
        {"session_id": session, "message_id": messages[0]["id"], "memory_id": memory["id"], "agent_id": "kana",
         "model": "kana",
         "revision_id": revision["id"], "project_name": "tea-shop", "document_name": "detail-supply.md",
         "receipt_id": receipt, "route_id": route, "batch_id": batch, "expectation_id": expected,
         "webhook_id": hook, "delivery_id": str(delivery.pk)},
    )  # fmt: skip


def run_all_jobs() -> None:
    """Run all jobs, also those that wait for more of the same, and those that these enqueue."""
    for _ in range(6):
        Job.objects.filter(state="queued").update(due_at=datetime.now(UTC) - timedelta(seconds=1))
        if not run_jobs():
            return


def obedient(asked: Asked) -> Reply:
    """Repeat the marked words in every place of the answer, where the prompt holds any."""
    is_marked = MARK in asked.text or MARK in asked.system
    if asked.schema is None:
        return Reply(f"The gyokuro supplier is {MARK}." if is_marked else "The gyokuro supplier is in Uji.")
    if not is_marked:
        return Reply(data=smallest(asked.schema))
    return Reply(data=_repeated(asked.schema))


def _repeated(schema: dict[str, Any], name: str = "") -> Any:
    kind = schema.get("type")
    if "enum" in schema or "const" in schema or "anyOf" in schema:
        return smallest(schema)
    if kind == "object":
        return {name: _repeated(each, name) for name, each in schema["properties"].items()}
    if kind == "array":
        return [_repeated(schema["items"], name)]
    return {"string": f"Gyokuro supplier {MARK} for {name}", "integer": 1, "number": 0.95}.get(kind, True)


# Every write

WRITES_NOTHING = {"memories-search", "memories-retrieve", "memories-candidates", "anthropic-count-tokens"}
"""They read, or count."""


ASSEMBLES_AGAIN = {route.name for route in closed_routes() if "what-if" in route.name or "check" in route.name}
"""Routes that store nothing and assemble contexts again; of several texts, the first is sent there."""


def attack(key: APIClient, place: Place, text: str, *, without: Collection[str] = ()) -> dict[str, int]:
    """Send a text in every place of every write; return the status of each by method and route.

    `without` are methods and names of routes that are left out.
    """
    statuses: dict[str, int] = {}

    def send(method: str, name: str, address: str, body: Any = None) -> Any:
        if {method, name} & {*without}:
            return {}
        answer = getattr(key, method)(f"{API}/{address}", body)
        statuses[f"{method} {name}"] = answer.status_code
        assert answer.status_code < 500, (method, name, answer.content[:500])
        return answer.json() if answer.content and answer.status_code < 300 else {}

    _attack_conversations(send, place, text)
    _attack_memories(send, place, text)
    _attack_projects(send, place, text)
    _attack_imports(send, place, text)
    _attack_rules(send, place, text)
    return statuses


def _attack_conversations(send: Any, place: Place, text: str) -> None:
    said = {
        "role": "user",
        "content": text,
        "author": text[:255].strip() or MARK,
        "client_message_id": text[:255],
        "metadata": {"note": text[:1_000]},
    }
    answered = {"role": "assistant", "content": [{"type": "text", "text": text}, {"type": "image", "name": text[:255]}]}
    metadata = {"project": "tea-shop", "note": text[:1_000]}
    own = send("post", "sessions", "sessions", {**WHO, "title": text[:500], "metadata": metadata})["id"]
    place.ids["untrusted_session_id"] = own
    send("post", "messages", f"sessions/{own}/messages", {"messages": [said, answered]})
    theirs = {"messages": [{**said, "client_message_id": f"{text[:250]}2"}]}
    send("post", "messages", f"sessions/{place.ids['session_id']}/messages", theirs)
    for verb, body in (("post", {"start_time": "2020-01-01T00:00:00Z"}), ("patch", {"summary": text[:20_000]})):
        for session in (own, place.ids["session_id"]):
            send(verb, "summary", f"sessions/{session}/summary", body)
    send(
        "post",
        "summary-restore",
        f"sessions/{place.ids['session_id']}/summary/restore",
        {"number": 1, "reason": text[:1_000]},
    )
    send("delete", "summary", f"sessions/{place.ids['session_id']}/summary")
    renamed = {"title": text[:500], "metadata": metadata}
    send("patch", "session", f"sessions/{place.ids['session_id']}", renamed)
    message = Message.objects.filter(session=place.ids["session_id"]).latest("seq")  # its own
    send("delete", "message", f"messages/{message.pk}")
    send("post", "session-forget", f"sessions/{place.ids['session_id']}/forget", {"from_seq": 1, "to_seq": 9})
    send("delete", "session", f"sessions/{place.ids['session_id']}")
    send("post", "summaries-digest", "summaries/digest", {**WHO, "project": text[:255]})
    short = text[:255].strip() or MARK
    asked = {**WHO, "message": text, "author": short, "perspective": text[:100]}
    place.ids["untrusted_receipt_id"] = send("post", "context", "context", asked).get("receipt_id", "")
    send("post", "chat", "chat", {**asked, "session_id": own, "project": "auto"})
    shown = [
        {"role": "system", "content": text},
        {"role": "user", "name": short, "content": text},
        {"role": "assistant", "content": text},
        {"role": "user", "content": f"{text} Anything else?"},
    ]
    completion = {"model": "kana", "user": "hiroki", "messages": shown}
    send("post", "openai-chat-completions", "openai/chat/completions", completion)
    responses = {
        "model": "kana",
        "user": "hiroki",
        "instructions": text,
        "input": shown,
        "metadata": {"session_id": short},
    }
    send("post", "openai-responses", "openai/responses", responses)
    named = {"model": "kana", "system": text, "max_tokens": 100, "metadata": {"user_id": "hiroki"}}
    send("post", "anthropic-messages", "anthropic/v1/messages", {**named, "messages": shown[1:]})
    send("post", "session-extract", f"sessions/{own}/extract", {})
    send("post", "session-end", f"sessions/{own}/end", {})


def _attack_memories(send: Any, place: Place, text: str) -> None:
    short = text[:100].strip() or MARK
    content = {
        "content": text[:100_000],
        "tags": [short],
        "learning": text[:10_000],
        "perspective": short,
        "learnings": {"general": text[:10_000]},
        "pinned": True,
        "confidence": 1.0,
    }
    for kind in ("preference", "fact", "episode", "learning"):
        made_of = {"strength_by_perspective": {short: 5.0}, "source_message_ids": [place.ids["message_id"]]}
        memory = send("post", "memories", "memories", {**WHO, **content, "kind": kind, **made_of})
    place.ids["untrusted_memory_id"] = memory["id"]
    shared = {"agent_id": "kana", "content": f"{text[:90_000]} shared", "scope_level": "universal"}
    send("post", "memories", "memories", shared)
    batch = {**WHO, "memories": [{"content": f"{text[:90_000]} batch", "metadata": {"note": text[:1_000]}}]}
    send("post", "memories-batch", "memories/batch", batch)
    for verb in ("pin", "reject"):
        send("post", "memories-bulk", "memories/bulk", {**WHO, "verb": verb, "reason": short, "status": "all"})
    labels = {"add_tags": [short], "remove_tags": [short], "namespace": "/facts/{actorId}/"}
    send("post", "memories-bulk", "memories/bulk", {**WHO, "verb": "relabel", "labels": labels, "reason": short})
    send("post", "memories-bulk-undo", f"memories/bulk/{place.ids['batch_id']}/undo", {"reason": short})
    for key in (memory["id"], place.ids["memory_id"]):
        send("post", "memory-supersede", f"memories/{key}/supersede", {"content": f"{text[:90_000]}!", "reason": short})
        send("patch", "memory", f"memories/{key}", {"content": f"{text[:90_000]}?", "tags": [short], "reason": short})
        tried = {"verb": "edit", "values": {"content": f"{text[:90_000]}??"}}
        send("post", "memory-what-if", f"memories/{key}/what-if", tried)
        for verb in ("approve", "pin", "unpin", "archive", "reactivate", "reject"):
            if verb != "reject" or key == place.ids["memory_id"]:
                send("post", f"memory-{verb}", f"memories/{key}/{verb}", {"reason": short})
        send("post", "memory-used", f"memories/{key}/used", {"perspective": short, "task_id": short})
        send("post", "memory-impact", f"memories/{key}/impact", {"impact_type": "task_success"})
        send("post", "memories-used", "memories/used", {"ids": [key], "perspective": short})
        send("post", "memories-strengths", "memories/strengths", {"updates": [{"id": key, "strength": 9}]})
        send("post", "memories-archive", "memories/archive", {"ids": [place.ids["memory_id"]], "reason": short})
    restored = {"revision_id": place.ids["revision_id"], "reason": short}
    send("post", "memory-restore", f"memories/{place.ids['memory_id']}/restore", restored)
    send("delete", "memory", f"memories/{place.ids['memory_id']}")
    send("post", "profile", "profile", WHO)
    send("patch", "profile", f"profile{WHOSE}", {"text": text[:20_000], "reason": short})
    send("post", "profile-restore", "profile/restore", {**WHO, "number": 1, "reason": short})
    send("delete", "profile", f"profile{WHOSE}")
    task = send("post", "tasks", "tasks", {**WHO, "query": text[:100_000], "perspective": short})["task_id"]
    place.ids["task_id"] = task
    result = {
        "result": {"text": text[:5_000]},
        "learning_content": text[:100_000],
        "learning_text": text[:10_000],
        "used_memory_ids": [place.ids["memory_id"]],
        "extract_learning": True,
        "run_sleep_phase": True,
    }
    send("post", "task-complete", f"tasks/{task}/complete", result)
    drawn = send("post", "tasks", "tasks", {**WHO, "query": text[:100_000]})["task_id"]
    send("post", "task-complete", f"tasks/{drawn}/complete", {"result": text[:5_000], "extract_learning": True})
    send("post", "sleep-runs", "sleep-runs", WHO)
    other = "0198d1a2-0000-7000-8000-000000000000"
    send("post", "sleep-run-undo", f"sleep-runs/{other}/undo", {"reason": short})
    send("post", "merge-what-if", f"merges/{other}/what-if", {})
    expected = {"receipt_id": place.ids["untrusted_receipt_id"], "memory_id": place.ids["memory_id"]}
    send("post", "expectations", "expectations", expected)
    send("post", "expectations-check", "expectations/check", WHO)
    send("delete", "expectation", f"expectations/{place.ids['expectation_id']}")
    for verb in ("accept", "dismiss", "undo"):
        send("post", f"merge-{verb}", f"merges/{other}/{verb}", {"reason": short})


def _attack_projects(send: Any, place: Place, text: str) -> None:
    for number in range(12):  # as many as make the document longer than what is searched of it
        for name in ("detail-supply.md", "MEMORY.md", "timeline.md", "pinned.md", "detail-attack.md"):
            if number < 2 or name == "detail-supply.md":
                entry = {"text": f"{number} {text[:3_990]}", "pinned": True, "channel": "api"}
                send("post", "document-entries", f"projects/tea-shop/documents/{name}/entries{WHOSE}", entry)
    document = f"projects/tea-shop/documents/{place.ids['document_name']}"
    send("put", "document", f"{document}{WHOSE}", {"text": text, "reason": text[:1_000]})
    send("delete", "document", f"{document}{WHOSE}")
    send("post", "document-restore", f"{document}/restore{WHOSE}", {"number": 0})
    send("post", "document-compact", f"{document}/compact{WHOSE}", {})
    send("post", "projects", "projects", {**WHO, "name": "attack", "description": text[:200]})
    send("patch", "project", f"projects/tea-shop{WHOSE}", {"description": text[:200]})
    send("delete", "project", f"projects/tea-shop{WHOSE}")
    routed = send("post", "projects-route", "projects/route", {**WHO, "message": text})["id"]
    send("post", "route-correct", f"projects/routes/{routed}/correct", {"project": "tea-shop", "reason": text[:1_000]})

    _attack_lives_of_projects(send, place, text)


def _attack_lives_of_projects(send: Any, place: Place, text: str) -> None:
    reason = {"reason": text[:1_000].strip() or MARK}
    for verb in ("archive", "reactivate"):
        send("post", f"project-{verb}", f"projects/tea-shop/{verb}{WHOSE}", reason)
    send("post", "project-merge", f"projects/attack/merge{WHOSE}", {"into": "tea-shop", **reason})
    move = {"lines": [f"- 0 {text[:3_000]}"], "into": "tea-shop", "document": "MEMORY.md", **reason}
    send("post", "document-move", f"projects/tea-shop/documents/detail-attack.md/move{WHOSE}", move)
    other = "0198d1a2-0000-7000-8000-000000000000"
    send("post", "project-event-undo", f"projects/events/{other}/undo", reason)
    send("post", "route-misplaced", f"projects/routes/{place.ids['route_id']}/misplaced", reason)


def _attack_imports(send: Any, place: Place, text: str) -> None:
    file = json.dumps([{"id": "1", "memory": f"{text[:90_000]} imported", "user_id": "hiroki"}]).encode()
    begun = send("post", "imports", "imports", {**WHO, "file_name": "mem0.json", "format": "mem0"})
    place.ids["import_id"] = begun.get("id", "0198d1a2-0000-7000-8000-000000000000")
    content = base64.b64encode(file).decode()
    send("post", "import-chunks", f"imports/{place.ids['import_id']}/chunks", {"offset": 0, "content": content})
    send("post", "import-orders", f"imports/{place.ids['import_id']}/orders", {"verb": "run"})


def _attack_rules(send: Any, place: Place, text: str) -> None:
    rules = {"system_prompt": text, "policy": {"untrusted_channels": [], "system_prompt": text[:10_000]}}
    send("post", "agents", "agents", {"agent_id": "attacker", **rules})
    send("post", "agent-what-if", "agents/kana/what-if", rules)
    send("post", "actor-what-if", "actors/what-if", {**WHO, "policy": rules["policy"]})
    send("patch", "agent", "agents/kana", {**rules, "domain": text[:255], "topics_include": [text[:255]]})
    send("patch", "actors", f"actors{WHOSE}", {"policy": rules["policy"]})
    send("delete", "actors", f"actors{WHOSE}")
    hook = f"webhooks/{place.ids['webhook_id']}"
    send("post", "webhooks", "webhooks", {"agent_id": "kana", "url": "https://example.org/hook", "with_texts": True})
    for verb in ("test", "rotate", "enable"):
        send("post", f"webhook-{verb}", f"{hook}/{verb}", {})
    send("post", "webhook-redeliver", f"{hook}/deliveries/{place.ids['delivery_id']}/redeliver", {})
    send("delete", "webhook", hook)


# Every read

WITHOUT_MARK = {
    ("receipt", "query"): "the request that the receipt is about",
    ("receipt", "asked"): "the request that the receipt is about",
    ("receipt-latest", "query"): "the request that the receipt is about",
    ("receipt-latest", "asked"): "the request that the receipt is about",
    ("receipt-latest", "excerpt"): "a message of the session that was asked in; the context marked it",
    ("expectations", "query"): "the request that the receipt is about",
    ("task", "task_result"): "the result that the task's own client sent",
    ("sessions", "title"): "a label that no prompt holds",
    ("sessions", "metadata"): "as the client sent it; no prompt holds it",
    ("session", "title"): "a label that no prompt holds",
    ("session", "metadata"): "as the client sent it; no prompt holds it",
    ("actors-export", ""): "all of it, for a backup; trust stands in rows of their own",
}
"""Places that show what an untrusted key has sent without saying so, and why they may."""

OF_A_MARKED_ROW = {"memory-revisions"}
"""They show the history of one row, which says itself that it is not trusted."""


def _opened(client: APIClient, address: str) -> Any:
    """Return a route's answer about the whole of the user, as far as it takes such parameters."""
    query: dict[str, Any] = {**WHO, "status": "all", "state": "all", "limit": 200}
    while True:
        answer = client.get(address, query)
        if answer.status_code != 400:
            return answer
        refused = query.keys() & {each["field"] for each in answer.json()["errors"]}
        if not refused:
            return answer
        query = {name: value for name, value in query.items() if name not in refused}


def read(client: APIClient, place: Place) -> Iterator[tuple[str, Any]]:
    """Yield every answer of every read, by route."""
    values = {**place.ids, "run_id": "0198d1a2-0000-7000-8000-000000000000", "merge_id": "", "job_id": ""}
    for route in closed_routes():
        if "get" not in route.methods or route.name in {"job", "sleep-run"}:
            continue
        for key in ("", "untrusted_"):
            at = {**values, **{n.removeprefix(key): v for n, v in values.items() if key and n.startswith(key)}}
            answer = _opened(client, route.address(at))
            assert answer.status_code in (200, 404), (route.name, answer.content[:300])
            if answer.status_code == 200:
                yield route.name, _parsed(answer)
    yield from _searched(client, place)


def _parsed(answer: Any) -> Any:
    body = answer.getvalue().decode()
    return json.loads(body) if answer["Content-Type"].startswith("application/json") else body


def _searched(client: APIClient, place: Place) -> Iterator[tuple[str, Any]]:
    for query in (QUERY, UNIT.replace(MARK, "")):
        named = {**WHO, "message": query}
        yield "context", made(client.post(f"{API}/context", {**named, "project": "tea-shop"}))
        yield "context", made(client.post(f"{API}/context", {**named, "project": "auto", "format": "openai"}))
        for rest in ({"include_messages": True, "limit": 50}, {"filters": {"status": "pending"}}):
            yield ("memories-search", made(client.post(f"{API}/memories/search", {**WHO, "query": query, **rest})))
        yield "memories-retrieve", made(client.post(f"{API}/memories/retrieve", {**WHO, "query": query}))
        task = made(client.post(f"{API}/tasks", {**WHO, "query": QUERY}))
        yield "tasks", task
        done = {"result": "The gyokuro supplier is in Uji.", "extract_learning": True}
        yield "task-complete", made(client.post(f"{API}/tasks/{task['task_id']}/complete", done))
    yield "chat", made(client.post(f"{API}/chat", {**WHO, "message": QUERY, "project": "tea-shop"}))
    yield "summaries-digest", client.post(f"{API}/summaries/digest", WHO).json()
    made(client.post(f"{API}/projects/tea-shop/documents/MEMORY.md/compact{WHOSE}", {}), 202)
    made(client.post(f"{API}/sleep-runs", WHO))
    run_all_jobs()


def unmarked(name: str, value: Any, path: tuple[str, ...] = (), is_marked: bool = False) -> Iterator[str]:
    """Yield where an answer shows the mark without saying that it is not trusted."""
    if isinstance(value, dict):
        is_marked = is_marked or value.get("trust") == "untrusted" or value.get("status") == "pending"
        is_marked = is_marked or value.get("layer") == USER_MESSAGE  # what was asked, in the receipt of that
        for key, each in value.items():
            yield from unmarked(name, key, (*path, "a key"), is_marked)
            yield from unmarked(name, each, (*path, key), is_marked)
    elif isinstance(value, list):
        for each in value:
            yield from unmarked(name, each, path, is_marked)
    elif isinstance(value, str) and MARK in value and not is_marked:
        places = {*path, ""}
        if name not in OF_A_MARKED_ROW and not any((name, each) in WITHOUT_MARK for each in places):
            at = value.index(MARK)
            yield f"{name} {'.'.join(path)}: {value[max(0, at - 60) : at + 60]!r}"


def walk(client: APIClient, llm: LLMServer, *texts: str) -> None:
    llm.answer(obedient)
    place = trusted_rows()
    for number, text in enumerate(texts):
        attack(client_with_key(is_trusted=False), place, text, without=ASSEMBLES_AGAIN if number else ())
    # Somebody trusted goes on in the session that a stranger has written into.
    answered = {**WHO, "session_id": place.ids["session_id"], "message": "And the gyokuro supplier?"}
    made(client.post(f"{API}/chat", answered))
    run_all_jobs()
    llm.asked.clear()
    found = [line for name, answer in read(client, place) for line in unmarked(name, answer)]
    assert not found, "\n".join(found)
    shown = [asked.text for asked in llm.asked if MARK in asked.text or MARK in asked.system]
    assert not shown, "\n\n".join(each[:3_000] for each in shown)


def believed() -> dict[str, list[Any]]:
    """Return everything that decides what a trusted context holds."""
    memories = Memory.objects.filter(trust="trusted").order_by("pk")
    numbers = MemoryNumbers.objects.filter(memory__trust="trusted").order_by("pk")
    documents = list(Document.objects.filter(version__gt=0).order_by("pk"))
    return {
        "agents": list(Agent.objects.order_by("pk").values_list()),
        "actors": list(Actor.objects.exclude(policy={}).values_list()),
        "memories": list(memories.values_list()),
        "numbers": list(numbers.values_list("memory", "strength", "mark", "access_count", "impact_score")),
        "tombstones": list(Tombstone.objects.values_list()),
        "projects": list(Project.objects.order_by("pk").values_list()),
        "texts": [text for text in trusted_texts(documents).values() if text],
        "corrections": list(RoutingDecision.objects.filter(corrected_by__gt="").values_list("pk")),
        "messages": list(Message.objects.filter(trust="trusted").order_by("pk").values_list()),
    }


def test_every_write_is_tried_and_changes_nothing_believed(client: APIClient, llm: LLMServer) -> None:
    """A new route that writes is tried with a marked text; the key has all scopes, `admin` too."""
    llm.answer(obedient)
    place = trusted_rows()
    before = believed()
    tried = attack(client_with_key(is_trusted=False), place, UNIT)
    writes = {f"{method} {route.name}" for route in closed_routes() for method in route.methods if method != "get"}
    assert writes - {f"post {name}" for name in WRITES_NOTHING} == set(tried)
    after = believed()
    assert {name: rows for name, rows in after.items() if rows != before[name]} == {}


@pytest.mark.parametrize("shape", [QUICK[0], pytest.param(QUICK[1], marks=pytest.mark.slow)])
def test_untrusted_text_is_marked_wherever_it_is_read(client: APIClient, llm: LLMServer, shape: str) -> None:
    walk(client, llm, SHAPES[shape])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(SHAPES), AT_ONCE))
def test_untrusted_text_of_any_shape_is_marked(client: APIClient, llm: LLMServer, first: int) -> None:
    assert len(SHAPES) == 40
    walk(client, llm, *list(SHAPES.values())[first : first + AT_ONCE])
