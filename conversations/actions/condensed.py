"""What a session was about, as told by whoever keeps summaries (`settings.SESSION_SUMMARIES`).

The socket through which those above read summaries without knowing who writes them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from memoryhub.tenancy.domain import Trust


@dataclass(frozen=True)
class Condensed:
    """The summary of one session as it is now; `message_count` is the last `seq` that it covers."""

    session_id: UUID
    text: str = field(repr=False)
    trust: Trust
    message_count: int
    generator: str
    updated_at: datetime


Teller = Callable[..., Condensed | None]


def condensed(*, actor_id: UUID, session_id: UUID) -> Condensed | None:
    """Return a session's summary; None where there is none yet, or nobody writes any."""
    if not settings.SESSION_SUMMARIES:
        return None
    return cast(Teller, import_string(settings.SESSION_SUMMARIES))(actor_id=actor_id, session_id=session_id)
