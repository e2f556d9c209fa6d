"""Keeping what a summary was: a version and an audit entry for every change (SPEC U1, A11)."""

from datetime import datetime
from typing import Final

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from summaries.domain.summaries import Verb
from summaries.models import Summary, SummaryVersion

TOLD: Final = ("text", "message_count", "start_time", "end_time", "model", "generator", "trust")
"""What a version brings back when it is restored."""


def keep_version(
    *,
    summary: Summary,
    verb: Verb,
    by: Principal,
    reason: str = "",
    seconds: float | None = None,
    now: datetime,
) -> SummaryVersion:
    """Write down a change that was just made to a locked row."""
    version = SummaryVersion.objects.create(
        actor_id=summary.actor_id,
        summary=summary,
        number=summary.version,
        verb=verb,
        locked=summary.locked,
        who_kind=by.kind,
        who_id=by.id,
        who_name=by.name[:150],
        reason=reason,
        seconds=seconds,
        created_at=now,
        **{name: getattr(summary, name) for name in TOLD},
    )
    audit.record(
        by=by, verb=verb, object_kind="summary", object_id=summary.pk, actor=summary.actor, reason=reason, now=now
    )  # fmt: skip
    return version
