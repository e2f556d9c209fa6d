"""`Idempotency-Key` on POST: the response of the first call is recorded and replayed (SPEC H2).

A concurrent repeat waits for the first, without a database connection. The change and the recorded response commit
together, so a crash between the two cannot make a repeat do the work again.

Views that call a provider hold neither transaction nor connection meanwhile (`idempotent_in_transaction = False`).
Their repeats wait within one process only: two servers may do the work twice, and the response recorded first wins.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

from django.db import IntegrityError, connection, models, transaction
from django.db.models import Q
from django.db.models.expressions import RawSQL
from psycopg.types.json import Jsonb
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from memoryhub.api.problems import Problem
from memoryhub.auth.models import ApiKey
from memoryhub.auth.screening import screen_answer
from memoryhub.db.pool import process_lock, release_connection
from memoryhub.db.prepared import PreparedQuery, prepared_cursor
from memoryhub.ids import new_id
from memoryhub.tenancy.models import Actor
from memoryhub.validators import text_problem


class IdempotencyRecord(models.Model):
    """Response to one call, replayed for a day to the same key on the same route."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, null=True, related_name="+")
    api_key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="+")
    route = models.CharField(max_length=200)
    key = models.CharField(max_length=255)
    body_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField(default=dict)
    body = models.JSONField(null=True)
    is_read = models.BooleanField(default=False, help_text="A search or a context: it may contain others' texts.")
    created_at = models.DateTimeField()

    class Meta:
        app_label = "memoryhub"
        indexes = [models.Index(fields=["created_at"], name="idempotency_by_age")]
        constraints = [models.UniqueConstraint(name="idempotency_once", fields=["api_key", "route", "key"])]

    def __str__(self) -> str:
        return f"{self.route} {self.status}"


RECORDS: Final = PreparedQuery(lambda: IdempotencyRecord.objects.order_by())
RETENTION = timedelta(hours=24)
MAX_KEY_LENGTH = 255
MAX_WAIT_MS = 30_000
MAX_WAITING = 8
"""Repeats of one key that wait in a process, each in a thread; others are answered at once."""
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.02, 0.25
MAX_ROUTE_LENGTH = 200
PURGE_BATCH_SIZE = 100
RECORDED_HEADERS = ("ETag", "Location", "Receipt-Id")
IN_PROGRESS = "The first call with this key still runs."


# Stores a response, and deletes some expired ones.
INSERT_RECORD: Final = """
WITH expired AS (
    DELETE FROM memoryhub_idempotencyrecord WHERE id IN (
        SELECT id FROM memoryhub_idempotencyrecord WHERE created_at < %s LIMIT %s FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO memoryhub_idempotencyrecord
    (id, actor_id, api_key_id, route, key, body_digest, status, headers, body, is_read, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s::jsonb, %s, %s)
"""


def answer_once(
    request: Request,
    *,
    route: str,
    in_transaction: bool,
    act: Callable[[], Response],
    actor_id: Callable[[], UUID | None],
) -> Response:
    """Run `act`, or return the recorded answer where this key was used on this route before."""
    key, call = request.headers.get("Idempotency-Key"), None
    if key is not None and isinstance(request.auth, ApiKey):
        content = [request.data, sorted(request.query_params.lists())]
        call = keyed_call(request.auth, route=route, key=key, content=content)
    return answer_call(call, in_transaction=in_transaction, act=act, actor_id=actor_id)


def answer_call(
    call: "Call | None", *, in_transaction: bool, act: Callable[[], Response], actor_id: Callable[[], UUID | None]
) -> Response:
    """Run `act`, or return the recorded answer of the first call with this key; None: a call without one."""
    if call is None:
        # A refused write is rolled back as a whole, including an agent that it created.
        with transaction.atomic() if in_transaction else nullcontext():
            return act()
    with _database_lock(call) if in_transaction else _process_lock(call):
        now = datetime.now(UTC)
        if earlier := _find_record(call, now):
            return _replay(earlier, call)
        if in_transaction:
            with transaction.atomic():
                response = act()
                _record(call, response, actor_id(), now, is_read=False)
            return response
        response, about = act(), actor_id()
        # For a user without rows the response is not stored: it repeats the user's words, and erasure would miss it.
        return response if about is None else _record_first(call, response, about, now)


@dataclass(frozen=True)
class Call:
    """A call with an idempotency key: principal, route and body digest."""

    api_key: ApiKey
    route: str
    key: str
    digest: str

    def __str__(self) -> str:
        return f"{self.api_key.pk}|{self.route}|{self.key}"


def keyed_call(api_key: ApiKey, *, route: str, key: str, content: Any) -> Call:
    """Return the call that a key names. Raises Problem (400) for a key that cannot be used."""
    check_key(key)
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
    return Call(api_key, route[:MAX_ROUTE_LENGTH], key, digest)


def check_key(key: str) -> None:
    """Validate the key. Raises Problem (400)."""
    if not 0 < len(key) <= MAX_KEY_LENGTH or text_problem(key):
        raise Problem(400, "idempotency_key_invalid", f"Idempotency-Key must have 1 to {MAX_KEY_LENGTH} characters.")


@contextmanager
def _database_lock(call: Call) -> Iterator[None]:
    """Hold a session-level advisory lock, so that no transaction has to stay open.

    One call of a key in each process asks for it, and gives its connection back in between: repeats that wait would
    otherwise take all connections from the others.
    """
    number = int.from_bytes(hashlib.sha256(str(call).encode()).digest()[:8], "big", signed=True)
    deadline = time.monotonic() + MAX_WAIT_MS / 1000
    with _process_lock(call):
        pause = MIN_PAUSE_SECONDS
        while not _ask("SELECT pg_try_advisory_lock(%s)", number):
            if time.monotonic() > deadline:
                raise _in_progress()
            with release_connection():
                time.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
        try:
            yield
        finally:
            _ask("SELECT pg_advisory_unlock(%s)", number)


def _ask(statement: LiteralString, number: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(statement, [number])
        return bool(cursor.fetchone()[0])


def _in_progress() -> Problem:
    return Problem(409, "idempotency_in_progress", IN_PROGRESS, wait_seconds=1)


@contextmanager
def _process_lock(call: Call) -> Iterator[None]:
    with process_lock(str(call), seconds=MAX_WAIT_MS / 1000, max_waiting=MAX_WAITING) as is_acquired:
        if not is_acquired:
            raise _in_progress()
        yield


def _find_record(call: Call, now: datetime) -> IdempotencyRecord | None:
    record = RECORDS.first(Q(api_key_id=call.api_key.pk, route=call.route, key=call.key))
    if record is not None and now - record.created_at > RETENTION:
        record.delete()
        return None
    return record


def _replay(record: IdempotencyRecord, call: Call) -> Response:
    if record.body_digest != call.digest:
        raise Problem(422, "idempotency_key_reused", "This Idempotency-Key was used with another body.")
    return Response(record.body, status=record.status, headers={**record.headers, "Idempotent-Replay": "true"})


def _record_first(call: Call, response: Response, about: UUID, now: datetime) -> Response:
    """Record the answer; return the one recorded first where another server was faster."""
    try:
        with transaction.atomic():
            _record(call, response, about, now, is_read=True)
    except IntegrityError:
        first = _find_record(call, now)
        if first is None:
            raise
        return _replay(first, call)
    return response


def _record(call: Call, response: Response, about: UUID | None, now: datetime, *, is_read: bool) -> None:
    if response.status_code >= 400:
        return
    headers = {name: response[name] for name in RECORDED_HEADERS if response.has_header(name)}
    body = None if response.data is None else screen_answer(JSONRenderer().render(response.data).decode(), about)
    values = [
        now - RETENTION, PURGE_BATCH_SIZE, new_id(), about, call.api_key.pk, call.route, call.key, call.digest,
        response.status_code, Jsonb(headers), body, is_read, now,
    ]  # fmt: skip
    with prepared_cursor() as cursor:
        cursor.execute(INSERT_RECORD, values)


def forget_searches(actor_ids: Iterable[UUID]) -> None:
    """Delete the recorded searches and contexts of users whose memories left them, as a sleep archives them."""
    IdempotencyRecord.objects.filter(actor_id__in=list(actor_ids), is_read=True).delete()


_ID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def forget_answers(*, actor: Actor, row_ids: Iterable[UUID]) -> int:
    """Delete recorded responses that may contain the text of rows that are deleted, or whose text is taken away.

    These are the responses with a row's id, and all recorded searches and contexts: of the rows' user, or of all
    users for an agent's own rows. A repeat of such a call is computed again. Returns their number.
    """
    has_id = RawSQL(
        "ARRAY(SELECT found[1] FROM regexp_matches(body::text, %s, 'g') AS found) && %s::text[]",
        [_ID, [str(row_id) for row_id in row_ids]],
        output_field=models.BooleanField(),
    )
    rows = IdempotencyRecord.objects.annotate(has_id=has_id)
    readers = Q(actor=actor) if actor.user_id else Q()
    about = Q(actor=actor, has_id=True)
    return rows.filter(readers & Q(is_read=True) | about).delete()[0]
