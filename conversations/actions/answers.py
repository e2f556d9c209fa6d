"""Store the answer to a stored question, or that there is none; an answer that was paid for is tried several times."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import Error, OperationalError, transaction
from django.db.models import Q

from conversations.actions.messages import abandon, add_messages
from conversations.domain.layers import RECALL, WORKING
from conversations.domain.messages import NewMessage, Role, TurnState
from conversations.models import ChatTurn, Message, Session, answers_to_trusted
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Principal
from memoryhub.db.limits import DatabaseAway, OutOfTime, time_limit
from memoryhub.db.pool import release_connection, run_in_background, run_in_thread
from memoryhub.db.prepared import PreparedQuery
from memoryhub.errors import DomainError
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.types import Completion
from memoryhub.tenancy.policy import Trust

STORE_RETRIES: Final = 5
STORE_RETRY_SECONDS: Final = 1.0
STORED_WITHIN: Final = 2.0
"""Seconds that an answer waits to be stored where it may reach the client unstored."""

UNTRUSTED: Final = PreparedQuery(
    lambda: Message.objects.filter(trust=Trust.UNTRUSTED).order_by().values_list("pk", flat=True)
)

log = logging.getLogger(__name__)


class TurnSuperseded(DomainError):
    """Another call has taken the question over, or the server stops; this answer is not stored."""

    code = "idempotency_in_progress"


class ChatFailed(Exception):
    """The model gave no answer; the question is kept. `error` has the code and whether a retry may help."""

    def __init__(self, turn: ChatTurn, error: ProviderError) -> None:
        super().__init__(str(error))
        self.turn = turn
        self.error = error


def store_or_later(
    turn: ChatTurn, completion: Completion, by: Principal, *, may_outlive: bool, truncated: bool = False
) -> ChatTurn:
    """Store an answer; where that takes long and it `may_outlive` its turn, return it unstored and go on."""
    later = partial(_store_with_retries, turn, completion, by, truncated=truncated)
    if not may_outlive:
        return later()
    try:
        with time_limit(time.monotonic() + STORED_WITHIN):
            now = datetime.now(UTC)
            return store_answer(turn=turn, completion=completion, by=by, now=now, truncated=truncated)
    except (DatabaseAway, OutOfTime):
        run_in_background(_stored(turn, later))
        return unstored(copy(turn), completion, truncated=truncated)


async def _stored(turn: ChatTurn, store: Callable[[], ChatTurn]) -> None:
    """Store an answer that the client has; a program that keeps its conversation shows a lost one again."""
    try:
        await run_in_thread(store)
    except Exception as error:
        log.error("an answer was not stored", extra={"turn": str(turn.pk), "error": type(error).__name__})


def unstored(turn: ChatTurn, completion: Completion, *, truncated: bool = False) -> ChatTurn:
    """Return a turn with an answer that is not stored."""
    metadata = {"truncated": True} if truncated else {}
    turn.answer = Message(id=None, content=completion.text, blocks=completion.blocks or None, metadata=metadata)
    turn.model = completion.model[:255]
    turn.usage = {"input_tokens": completion.input_tokens, "output_tokens": completion.output_tokens}
    return turn


def _store_with_retries(turn: ChatTurn, completion: Completion, by: Principal, *, truncated: bool = False) -> ChatTurn:
    """Store an answer; it was paid for, so a database that is busy or down is tried several times."""
    for _ in range(STORE_RETRIES):
        try:
            return store_answer(turn=turn, completion=completion, by=by, now=datetime.now(UTC), truncated=truncated)
        except OperationalError:
            with release_connection():
                time.sleep(STORE_RETRY_SECONDS)
    return store_answer(turn=turn, completion=completion, by=by, now=datetime.now(UTC), truncated=truncated)


@transaction.atomic
def store_answer(
    *, turn: ChatTurn, completion: Completion, by: Principal, now: datetime, truncated: bool = False
) -> ChatTurn:
    """Store an answer at the end of the session, marked if it was cut. Raises TurnSuperseded, UnknownRow.

    It is no more trusted than the question and the messages of untrusted writers in its context, which it may repeat.
    """
    by = replace(by, is_trusted=by.is_trusted and not _may_repeat_untrusted(turn))
    flags = {"truncated": True} if truncated else {}
    session = Session.objects.select_related("actor__agent").filter(actor_id=turn.actor_id, pk=turn.session_id).first()
    if session is None:
        raise UnknownRow("The session was deleted at the same time.")
    stored = add_messages(
        session=session,
        batch=[
            NewMessage(
                role=Role.ASSISTANT,
                content=completion.text,
                blocks=completion.blocks or None,
                metadata={"model": completion.model, **flags},
            )
        ],
        by=by,
        now=now,
        triggers=("turn", "answer"),
    )
    if _is_abandoned(turn):
        abandon(stored.messages[0], now)
    usage = {"input_tokens": completion.input_tokens, "output_tokens": completion.output_tokens}
    if not close_turn(
        turn, TurnState.ANSWERED, now, answer=stored.messages[0], model=completion.model[:255], usage=usage
    ):
        raise TurnSuperseded("The question was asked again meanwhile; that answer counts.")
    # The client gets what the model wrote, also a secret that is not stored.
    stored.messages[0].content, stored.messages[0].blocks = completion.text, completion.blocks or None
    return turn


def _may_repeat_untrusted(turn: ChatTurn) -> bool:
    """Return whether the question is untrusted, or a message of an untrusted writer was in the context.

    An earlier answer that is untrusted for its own context does not count: otherwise one message of an untrusted writer
    would keep all that a session answers out of memory.
    """
    where = Q(actor_id=turn.actor_id)
    if turn.receipt is None:
        return UNTRUSTED.first(where & Q(session_id=turn.session_id)) is not None
    items = [item for item in turn.receipt.items if item["included"] and item["layer"] in (RECALL, WORKING)]
    shown = [turn.question_id, *(UUID(item["source_id"]) for item in items if item["source_id"])]
    untrusted = set(UNTRUSTED.rows(where & Q(id__in=shown)))
    return bool(untrusted - answers_to_trusted(turn.actor_id, list(untrusted)))


def _is_abandoned(turn: ChatTurn) -> bool:
    """Return whether the client took another branch, asked again, or shows another answer to the question.

    A later question alone abandons nothing: clients may send one before the answer has come.
    """
    current = Message.objects.of([turn.actor_id]).filter(session_id=turn.session_id).current()
    if not current.filter(pk=turn.question_id).exists():
        return True
    if turn.question.client_message_id is None:
        return False
    later = current.filter(seq__gt=turn.question.seq).exclude(client_message_id=None)
    shown_next = later.order_by("seq").values_list("role", flat=True).first()
    repeated = ChatTurn.objects.filter(
        actor_id=turn.actor_id, created_at__gt=turn.created_at, question=turn.question_id
    )
    return shown_next == Role.ASSISTANT or repeated.exists()


def store_failure(*, turn: ChatTurn, error: ProviderError, now: datetime) -> ChatFailed:
    with suppress(Error):  # the client is to know why there is no answer
        close_turn(turn, TurnState.FAILED, now, error=error.code[:64])
    return ChatFailed(turn, error)


def close_turn(turn: ChatTurn, state: TurnState, now: datetime, **values: Any) -> bool:
    """Store the final state of a turn, unless another call has taken it over."""
    values = {"state": state, "finished_at": now, **values}
    rows = ChatTurn.objects.filter(pk=turn.pk, actor_id=turn.actor_id, attempt=turn.attempt, state=TurnState.ANSWERING)
    if not rows.update(**values):
        return False
    for name, value in values.items():
        setattr(turn, name, value)
    return True
