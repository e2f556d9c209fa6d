"""Screen what an action is about to store for secrets, by the policy of its actor (SPEC M13).

Every action that stores a text of a client, a person or a model asks here first, before it counts, compares or indexes
the text. What is removed is counted in the audit trail by kind, never named.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db.models import Model, QuerySet
from prometheus_client.core import GaugeMetricFamily

from memoryhub.auth import audit
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import Principal
from memoryhub.jobs.status import DatabaseCollector
from memoryhub.llm.usage.spending import today_start
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

    def withholds(self, text: str) -> bool:
        """Return whether a stored text is kept out of other sessions: it states a password, or has a secret."""
        if self.mode == SecretsPolicy.KEEP:
            return False
        found = screen(text)
        return found.is_doubtful or bool(found.removed)

    def json(self, value: Any) -> Any:
        """Return a JSON value with its texts and keys as they are to be stored."""
        return screen_json(value, self.text)

    def columns(self, model: type[Model], values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values of a model's columns as they are to be stored, cut to the columns' lengths.

        A mark may be longer than its secret.
        """
        return {name: _cut(self.json(value), model._meta.get_field(name)) for name, value in values.items()}

    def record(self, *, by: Principal, row: Model, now: datetime) -> None:
        """Count what was removed, in the transaction that stores the row."""
        if self.removed:
            audit.record(by=by, verb=VERB, row=row, actor=self.actor, details={"removed": dict(self.removed)}, now=now)


def _cut(value: Any, field: Any) -> Any:
    if isinstance(field, ArrayField):
        return [_cut(item, field.base_field) for item in value]
    return value[: field.max_length] if isinstance(value, str) and field.max_length else value


def screen_answer(body: str, actor_id: UUID | None) -> str:
    """Return an answer in JSON as it is to be recorded: a model's words, and a question in a context, are in it too."""
    if not screen(body).removed:
        return body
    actor = Actor.objects.select_related("agent").filter(pk=actor_id).first() if actor_id else None
    return json.dumps(Screening(actor).json(json.loads(body)), ensure_ascii=False)


def screened_entries() -> QuerySet[AuditEntry]:
    """Return the entries of the audit trail about texts from which secrets were removed."""
    return AuditEntry.objects.filter(verb=VERB)


def _families(now: datetime | None) -> Iterator[GaugeMetricFamily]:
    removed = GaugeMetricFamily("memoryhub_secrets_removed_today", "Secrets removed this UTC day.", labels=["kind"])
    if now is not None:
        counts = Counter[str]()
        for details in screened_entries().filter(at__gte=today_start(now, UTC)).values_list("details", flat=True):
            counts.update(details["removed"])
        for kind, count in sorted(counts.items()):
            removed.add_metric([kind], count)
    yield removed


REMOVED = DatabaseCollector(_families)
