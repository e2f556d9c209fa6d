"""What a person tried last in the playground, kept for some minutes in this process's memory alone."""

import secrets
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from django.core.cache import cache
from django.http import HttpRequest

from conversations.admin.weighing import Outcome
from memoryhub.tenancy.models import Actor

KEPT_SECONDS: Final = 900
TOKEN_BYTES: Final = 16


@dataclass(frozen=True)
class Run:
    """What a run was asked, and what came of it: what the next is compared with."""

    settings: dict[str, str] = field(repr=False)
    outcome: Outcome
    actor_id: UUID | None = None


def _place(request: HttpRequest, token: str) -> str:
    return f"playground:{request.user.pk}:{token}"


def keep_run(request: HttpRequest, run: Run) -> str:
    """Keep a run for this person; return the token that it is known by."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    cache.set(_place(request, token), run, KEPT_SECONDS)
    return token


def run_kept(request: HttpRequest, token: str) -> Run | None:
    """Return a run of this person's, as long as it is known; what was erased since is known no more."""
    is_one = 0 < len(token) <= 64 and token.replace("-", "").replace("_", "").isalnum() and token.isascii()
    run: Run | None = cache.get(_place(request, token)) if is_one else None
    if run is None or run.actor_id is None or Actor.objects.filter(pk=run.actor_id).exists():
        return run
    cache.delete(_place(request, token))
    return None
