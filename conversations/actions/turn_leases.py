"""Leases of turns: a process that answers a question renews its turn, so that a dead one is replaced within seconds."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import Error

from conversations.domain.messages import TurnState
from conversations.models import ChatTurn
from memoryhub.db.pool import run_in_background, run_in_thread

LEASE: Final = timedelta(seconds=20)
"""Time after which another call with the same key may take a turn over that nobody renews."""

RENEWAL_SECONDS: Final = 5.0


@contextmanager
def renewed(turn: ChatTurn) -> Iterator[None]:
    """Renew a turn's lease in the background while the body runs."""
    renewal = run_in_background(_renew(turn))
    try:
        yield
    finally:
        renewal.cancel()


async def _renew(turn: ChatTurn) -> None:
    while True:
        await asyncio.sleep(RENEWAL_SECONDS)
        with suppress(Error):  # the next one may get through
            await run_in_thread(_extend, turn)


def _extend(turn: ChatTurn) -> None:
    rows = ChatTurn.objects.filter(pk=turn.pk, actor_id=turn.actor_id, attempt=turn.attempt)
    rows.filter(state=TurnState.ANSWERING).update(until=datetime.now(UTC) + LEASE)
