"""Nothing is done twice, nothing is lost, and nothing is numbered twice, with eight writers at once (SPEC Q3)."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.actions import forgetting
from conversations.models import Message, Session
from memoryhub.api import idempotency
from memoryhub.api.idempotency import IdempotencyRecord
from memoryhub.auth.accounts import sign_in
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.oidc import Identity
from memoryhub.auth.principals import command
from memoryhub.db import pool
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Offer
from memoryhub.runtime.processes import wait_until
from memoryhub.search import maintenance
from memoryhub.search.bm25 import WORDS_VERSION
from memoryhub.tenancy.models import Actor, Agent
from strength.actions.curation import apply_transition
from strength.models import Memory, MemoryIndex, MemoryNumbers, MemoryRevision
from tests.conftest import client_with_key
from tests.examples import examples
from tests.factories.planting import API

THREADS = 8
REPEATS = examples(200)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def session_id(transactional_db: None) -> str:
    return str(client_with_key().post(f"{API}/sessions", {"agent_id": "kana", "user_id": "hiroki"}).json()["id"])


@pytest.fixture
def many(transactional_db: None) -> Sequence[APIClient]:
    """Return one client per thread, all with the same key."""
    first = client_with_key()
    clients = [first]
    for _ in range(THREADS - 1):
        client = APIClient()
        client.credentials(**first._credentials)
        client.default_format = "json"
        clients.append(client)
    return clients


def at_once(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """Return what `run_worker` returns in each of several threads that start together, each with a connection of its own."""
    barrier = threading.Barrier(threads)

    def run(number: int) -> Any:
        barrier.wait()
        try:
            return work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


@pytest.mark.property
def test_repeated_client_message_ids_make_one_row_each(many: Sequence[APIClient], session_id: str) -> None:
    def work(number: int) -> list[tuple[str, Any]]:
        seen = []
        for turn in range(REPEATS):
            identity = f"message {(turn + number * 25) % REPEATS}"  # the threads meet on some and not on others
            body = {"role": "user", "content": f"text of {identity}", "client_message_id": identity}
            answer = many[number].post(f"{API}/sessions/{session_id}/messages", body)
            assert answer.status_code in (200, 201), answer.content
            seen.append((identity, answer.status_code, answer.json()["results"][0]))
        return seen

    answers = [each for seen in at_once(work) for each in seen]
    assert Message.objects.count() == REPEATS
    assert Counter(status for _, status, _ in answers) == {201: REPEATS, 200: (THREADS - 1) * REPEATS}
    rows: dict[str, set[str]] = {}
    for identity, _, row in answers:
        rows.setdefault(identity, set()).add(json.dumps(row, sort_keys=True))
    assert {len(versions) for versions in rows.values()} == {1}
    check_numbering(session_id, REPEATS)


def check_numbering(session_id: str, count: int) -> None:
    """Fail where the session's messages are not numbered 1 to `count`."""
    numbers = list(Message.objects.filter(session_id=session_id).order_by("seq").values_list("seq", flat=True))
    assert numbers == list(range(1, count + 1))
    assert client_with_key().get(f"{API}/sessions/{session_id}").json()["message_count"] == count


def test_eight_writers_leave_no_gap_in_seq(many: Sequence[APIClient], session_id: str) -> None:
    def work(number: int) -> None:
        for turn in range(25):
            batch = [{"role": "user", "content": f"{number} {turn} {part}"} for part in range(1 + turn % 3)]
            assert many[number].post(f"{API}/sessions/{session_id}/messages", {"messages": batch}).status_code == 201

    at_once(work)
    check_numbering(session_id, THREADS * sum(1 + turn % 3 for turn in range(25)))
    for number in range(THREADS):
        own = Message.objects.filter(content__startswith=f"{number} ").order_by("seq")
        said = [tuple(map(int, message.content.split()))[1:] for message in own]
        assert said == sorted(said), "one writer's messages keep their order"


@pytest.mark.property
@pytest.mark.parametrize("kind", ["messages", "memories"])
def test_repeated_idempotency_keys_do_the_work_once(many: Sequence[APIClient], session_id: str, kind: str) -> None:
    address = f"{API}/sessions/{session_id}/messages" if kind == "messages" else f"{API}/memories"

    def body(turn: int) -> dict[str, Any]:
        if kind == "messages":
            return {"role": "user", "content": f"text {turn}"}
        return {"agent_id": "kana", "user_id": "hiroki", "content": f"text {turn}"}

    def work(number: int) -> list[tuple[int, bool, int, str, str | None]]:
        seen = []
        for step in range(REPEATS):
            turn = (step + number * 25) % REPEATS
            answer = many[number].post(address, body(turn), headers={"Idempotency-Key": f"key {turn}"})
            replayed = answer.headers.get("Idempotent-Replay") == "true"
            seen.append((turn, replayed, answer.status_code, answer.content.decode(), answer.headers.get("ETag")))
        return seen

    answers = [each for seen in at_once(work) for each in seen]
    model = Message if kind == "messages" else Memory
    assert model.objects.count() == REPEATS
    assert IdempotencyRecord.objects.count() == REPEATS
    assert {status for _, _, status, _, _ in answers} == {201}
    assert sum(replayed for _, replayed, _, _, _ in answers) == (THREADS - 1) * REPEATS
    texts: dict[int, set[tuple[str, str | None]]] = {}
    for turn, _, _, text, etag in answers:
        texts.setdefault(turn, set()).add((canonical(text), etag))
    assert {len(each) for each in texts.values()} == {1}
    if kind == "memories":
        assert set(MemoryNumbers.objects.values_list("access_count", flat=True)) == {0}, "a repeat reinforces nothing"
    else:
        check_numbering(session_id, REPEATS)


def canonical(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


def test_equal_texts_become_one_memory(many: Sequence[APIClient]) -> None:
    each = 10

    def work(number: int) -> list[tuple[int, str]]:
        seen = []
        for turn in range(each):
            answer = many[number].post(
                f"{API}/memories",
                {"agent_id": "kana", "user_id": "hiroki", "content": "likes tea"},
                headers={"Idempotency-Key": f"{number} {turn}"},  # without, it may be a retry, and no use
            )
            seen.append((answer.status_code, answer.json()["id"]))
        return seen

    answers = [answer for seen in at_once(work) for answer in seen]
    memory = Memory.objects.select_related("numbers").get()
    assert Counter(status for status, _ in answers) == {201: 1, 200: THREADS * each - 1}
    assert {identity for _, identity in answers} == {str(memory.id)}
    assert memory.numbers.access_count == THREADS * each - 1  # type: ignore[attr-defined]
    assert memory.numbers.strength == pytest.approx(1.0 + 0.1 * (THREADS * each - 1))  # type: ignore[attr-defined]
    assert MemoryRevision.objects.count() == 1


def test_first_writes_make_one_agent_and_one_actor(many: Sequence[APIClient]) -> None:
    def work(number: int) -> int:
        body = {"agent_id": "new-agent", "user_id": "new-user"}
        return int(many[number].post(f"{API}/sessions", body).status_code)

    assert set(at_once(work)) == {201}
    assert Agent.objects.count() == 1
    assert Actor.objects.count() == 1


def test_one_session_id_is_opened_once(many: Sequence[APIClient]) -> None:
    body = {"agent_id": "kana", "session_id": str(uuid4())}
    statuses = at_once(lambda number: many[number].post(f"{API}/sessions", body).status_code)
    assert Counter(statuses) == {201: 1, 200: THREADS - 1}
    assert AuditEntry.objects.filter(verb="open").count() == 1


def test_searches_with_the_same_results_count_each_time(many: Sequence[APIClient]) -> None:
    for number in range(5):
        many[0].post(f"{API}/memories", {"agent_id": "kana", "content": f"tea number {number}"})
    body = {"agent_id": "kana", "query": "tea number", "similarity_threshold": -1}

    def work(number: int) -> None:
        for _ in range(10):
            assert len(many[number].post(f"{API}/memories/search", body).json()["results"]) == 5

    at_once(work)
    assert set(MemoryNumbers.objects.values_list("candidate_count", flat=True)) == {THREADS * 10}


def test_one_of_many_editors_wins(many: Sequence[APIClient]) -> None:
    memory = many[0].post(f"{API}/memories", {"agent_id": "kana", "content": "first"})
    address = f"{API}/memories/{memory.json()['id']}"
    statuses = at_once(
        lambda number: (
            many[number].patch(address, {"content": f"by {number}"}, headers={"If-Match": memory["ETag"]}).status_code
        )
    )
    assert Counter(statuses) == {200: 1, 412: THREADS - 1}
    assert MemoryRevision.objects.count() == 2


def test_a_repeat_waits_for_the_first(many: Sequence[APIClient], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call is held back after its work; its repeat must answer after it, with its answer."""
    may_finish, is_working = threading.Event(), threading.Event()
    order: list[str] = []
    record = idempotency._record

    def slow(*args: Any, **kwargs: Any) -> None:
        is_working.set()
        assert may_finish.wait(60)
        record(*args, **kwargs)
        order.append("first recorded")

    monkeypatch.setattr(idempotency, "_record", slow)
    body = {"agent_id": "kana", "content": "only once"}

    def work(number: int) -> Any:
        if number == 1:
            assert is_working.wait(60)
            threading.Timer(0.5, may_finish.set).start()
        answer = many[number].post(f"{API}/memories", body, headers={"Idempotency-Key": "k"})
        order.append(f"answer {number}")
        return answer

    first, second = at_once(work, threads=2)
    assert order.index("first recorded") < order.index("answer 1")
    assert (first.status_code, second.status_code) == (201, 201)
    assert second.headers["Idempotent-Replay"] == "true"
    assert canonical(first.content.decode()) == canonical(second.content.decode())
    assert Memory.objects.count() == 1


def test_a_repeat_that_waits_too_long_is_told_so(many: Sequence[APIClient], monkeypatch: pytest.MonkeyPatch) -> None:
    may_finish, is_working = threading.Event(), threading.Event()
    record = idempotency._record
    monkeypatch.setattr(idempotency, "MAX_WAIT_MS", 200)

    def slow(*args: Any, **kwargs: Any) -> None:
        is_working.set()
        assert may_finish.wait(60)
        record(*args, **kwargs)

    monkeypatch.setattr(idempotency, "_record", slow)

    def work(number: int) -> Any:
        try:
            if number == 1:
                assert is_working.wait(60)
            body = {"agent_id": "kana", "content": "only once"}
            return many[number].post(f"{API}/memories", body, headers={"Idempotency-Key": "k"})
        finally:
            if number == 1:
                may_finish.set()

    first, second = at_once(work, threads=2)
    assert first.status_code == 201
    assert (second.status_code, second.json()["code"]) == (409, "idempotency_in_progress")


def test_a_failed_call_can_be_repeated(many: Sequence[APIClient], monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails leaves neither its work nor a record, and frees the key."""
    record = idempotency._record

    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the process died here")

    body = {"agent_id": "kana", "content": "only once"}
    monkeypatch.setattr(idempotency, "_record", broken)
    many[0].raise_request_exception = False
    assert many[0].post(f"{API}/memories", body, headers={"Idempotency-Key": "k"}).status_code == 500
    assert Memory.objects.count() == 0
    monkeypatch.setattr(idempotency, "_record", record)
    answers = at_once(lambda number: many[number].post(f"{API}/memories", body, headers={"Idempotency-Key": "k"}))
    assert {answer.status_code for answer in answers} == {201}
    assert Memory.objects.count() == 1


@pytest.mark.parametrize("work", ["repair", "reindex"])
def test_repairing_an_index_row_never_undoes_what_somebody_is_changing(
    many: Sequence[APIClient], work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory is archived, not committed yet, while its row, stale already, is being repaired."""
    repair = MemoryIndex.repair
    if work == "reindex":
        monkeypatch.setattr(MemoryIndex, "repair", lambda: 0)  # it would hide what reindex wrote
        repair = partial(maintenance.reindex, batch_size=10, progress=lambda count: None)
    many[0].post(f"{API}/memories", {"agent_id": "kana", "content": "likes tea"})
    memory = Memory.objects.get()
    MemoryIndex.objects.update(kind="fact", words_version=WORDS_VERSION - 1)
    changed = threading.Event()

    def change() -> None:
        with transaction.atomic():
            apply_transition(memory=memory, verb="archive", by=command("test"), reason="", now=timezone.now())
            changed.set()
            assert wait_until(somebody_waits, timeout_seconds=60)

    def repair_meanwhile() -> None:
        assert changed.wait(60)
        repair()

    at_once(lambda number: (change, repair_meanwhile)[number](), threads=2)

    row = MemoryIndex.objects.get()
    assert (row.status, row.kind) == ("archived", memory.kind)


def somebody_waits() -> bool:
    """Say whether another connection waits for this one to end its transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid)))"
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.slow
def test_a_user_erased_while_seven_write_is_never_half_there(many: Sequence[APIClient]) -> None:
    names = {"agent_id": "kana", "user_id": "hiroki"}
    statuses: Counter[int] = Counter()

    def write(client: APIClient, turn: int) -> None:
        session = client.post(f"{API}/sessions", names)
        statuses[session.status_code] += 1
        if session.status_code == 201:
            address = f"{API}/sessions/{session.json()['id']}/messages"
            answer = client.post(address, {"role": "user", "content": f"turn {turn}"})
            statuses[answer.status_code] += 1
        for path, body in (("memories", {"content": f"fact {turn}"}), ("context", {"message": f"fact {turn}"})):
            statuses[client.post(f"{API}/{path}", {**names, **body}).status_code] += 1

    def work(number: int) -> None:
        for turn in range(12):
            if number:
                write(many[number], turn)
            else:
                statuses[many[0].delete(f"{API}/actors?agent_id=kana&user_id=hiroki").status_code] += 1

    at_once(work)
    assert not [status for status in statuses if status >= 500], statuses
    many[0].delete(f"{API}/actors?agent_id=kana&user_id=hiroki")
    assert not Message.objects.exists()
    assert not Memory.objects.exists()


def test_one_person_who_signs_in_twice_at_once_for_the_first_time_gets_one_account() -> None:
    identity = Identity("https://issuer.example", "kei-1", "kei", "kei@example.org", "", "", frozenset({"team"}))

    people = at_once(lambda _: sign_in(identity, roles={"team": "curator"}, now=timezone.now()))

    assert {person.pk for person in people} == set(User.objects.values_list("pk", flat=True))
    assert len(set(people)) == 1


def test_repeats_of_a_key_wait_without_a_connection_and_are_bounded(
    many: Sequence[APIClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of repeats, one asks for the lock; the others hold no connection, and those above the limit are refused."""
    may_finish, is_working = threading.Event(), threading.Event()
    record, released, refused = idempotency._record, list[int](), list[int]()
    monkeypatch.setattr(idempotency, "MAX_WAITING", len(many) - 3)

    def slow(*args: Any, **kwargs: Any) -> None:
        is_working.set()
        assert may_finish.wait(60)
        record(*args, **kwargs)

    monkeypatch.setattr(idempotency, "_record", slow)
    return_connection = pool.return_connection
    monkeypatch.setattr(pool, "return_connection", lambda: (released.append(1), return_connection()))
    body = {"agent_id": "kana", "content": "only once"}

    def work(number: int) -> int:
        if number:
            assert is_working.wait(60)
        answer = many[number].post(f"{API}/memories", body, headers={"Idempotency-Key": "k"})
        if answer.status_code == 409:
            assert answer.headers["Retry-After"] == "1"
            refused.append(number)
            if len(refused) == 2:
                may_finish.set()
        return int(answer.status_code)

    statuses = at_once(work, threads=len(many))
    assert sorted(statuses) == [201] * (len(many) - 2) + [409] * 2
    assert len(released) >= len(many) - 3
    assert Memory.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_long_deletions_of_one_user_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "STEP_MESSAGES", 2)
    client, names = client_with_key(), {"agent_id": "kana", "user_id": "hiroki"}
    for _ in range(2):
        session = client.post("/api/v1/sessions", names).json()["id"]
        said = [{"role": "user", "content": f"number {number}"} for number in range(5)]
        client.post(f"/api/v1/sessions/{session}/messages", {"messages": said})
        assert client.delete(f"/api/v1/sessions/{session}").status_code == 202

    def work(key: UUID) -> None:
        try:
            run(Offer(key, "forget_session"), worker=uuid4())
        finally:
            connection.close()

    jobs = Job.objects.filter(kind="forget_session")
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, jobs.values_list("pk", flat=True)))
    assert list(jobs.values_list("state", "attempts")) == [("done", 1)] * 2
    assert not Session.objects.exists()
