"""Screen what an action is about to store for secrets, by the policy of its actor (SPEC M13).

Every action that stores a text of a client, a person or a model asks here first, before it counts, compares or indexes
the text. What is removed is counted in the audit trail by kind, never named.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Model

from memoryhub.auth import audit
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import Principal
from memoryhub.privacy.screening import screen, screen_json
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import SecretsPolicy

VERB: Final = "redact"


class Screening:
    """Screens texts of one actor; counts what was removed, and keeps whether one of them needs a review."""

    def __init__(self, actor: Actor | None) -> None:
        policy = effective_policy(SecretsPolicy, actor.agent if actor else None, actor)
        self.actor, self.mode = actor, policy.secrets
        self.removed = Counter[str]()
        self.needs_review = False

    def text(self, text: str) -> str:
        """Return a text as it is to be stored."""
        if self.mode == SecretsPolicy.KEEP:
            return text
        found = screen(text)
        self.needs_review |= found.is_doubtful or bool(found.removed and self.mode == SecretsPolicy.REVIEW)
        if not found.removed or self.mode == SecretsPolicy.REVIEW:
            return text
        self.removed.update(found.removed)
        return found.text

    def json(self, value: Any) -> Any:
        """Return a JSON value with its texts and keys as they are to be stored."""
        return screen_json(value, self.text)

    def fields(self, values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        """Return values with some of them, texts or JSON, as they are to be stored."""
        return {**values, **{name: self.json(values[name]) for name in names if name in values}}

    def record(self, *, by: Principal, row: Model, now: datetime) -> None:
        """Count what was removed, in the transaction that stores the row."""
        if self.removed:
            audit.record(by=by, verb=VERB, row=row, actor=self.actor, details={"removed": dict(self.removed)}, now=now)


def screen_answer(body: str, actor_id: UUID | None) -> str:
    """Return an answer in JSON as it is to be recorded: a model's words, and a question in a context, are in it too."""
    if not screen(body).removed:
        return body
    actor = Actor.objects.select_related("agent").filter(pk=actor_id).first() if actor_id else None
    return json.dumps(Screening(actor).json(json.loads(body)), ensure_ascii=False)


def removed_since(moment: datetime) -> Counter[str]:
    """Return how many secrets were removed since a moment, by kind."""
    counts = Counter[str]()
    entries = AuditEntry.objects.filter(verb=VERB, at__gte=moment)
    for details in entries.values_list("details", flat=True):
        counts.update(details.get("removed", {}))
    return counts
