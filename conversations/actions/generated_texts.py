"""Changes of texts that jobs write and people correct: session summaries and profiles (SPEC U1, ADR 39).

Every change keeps a version, which holds the state after it. Editing a text locks it against jobs, unless the values
say otherwise; an untrusted key may change untrusted texts alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Final, Generic, TypeVar

from django.db import transaction
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.actions.receipts import forget_sources
from memoryhub.api.idempotency import forget_answers
from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow, lock_actor
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.models import NumberedVersion
from memoryhub.auth.principals import Forbidden, Principal, PrincipalKind, TextVerb
from memoryhub.auth.screening import Screening
from memoryhub.tenancy.policy import Trust

Row = TypeVar("Row", bound=Any)

PERSON_GENERATOR: Final = "person"
"""The generator of a text that a person wrote, as programs have theirs."""


class WrittenTexts(ABC, Generic[Row]):
    """Texts of one kind: rows with `text`, `locked`, `generator`, `model`, `trust` and `version`.

    `versioned_fields` are the fields besides `locked` that versions store and restore.
    """

    versioned_fields: ClassVar[tuple[str, ...]]
    no_version: ClassVar[Any]

    @abstractmethod
    def lock(self, row: Row) -> Row:
        """Return the row as it is now, locked in the order in which its job locks. Raises UnknownRow."""

    def changed(self, row: Row) -> None:
        """Enqueue what follows a change."""

    def forget(self, row: Row) -> None:
        """Delete what belongs to a row that is deleted."""

    @transaction.atomic
    def edit(
        self,
        row: Row,
        *,
        values: Mapping[str, Any],
        expected_version: int | None,
        by: Principal,
        reason: str = "",
        now: datetime,
    ) -> Row:
        """Change `text` or `locked`. Raises VersionMismatch, UnknownRow, Forbidden."""
        row = self._locked(row, expected_version, by)
        former_text, was_locked = row.text, row.locked
        if "text" in values:
            row.text = values["text"]
        is_new_text = row.text != former_text
        row.locked = values.get("locked", was_locked or is_new_text)
        if not is_new_text and row.locked == was_locked:
            return row
        if is_new_text:
            forget_answers(actor=row.actor, row_ids=[row.pk])
            row.generator, row.model = PERSON_GENERATOR, ""
            if by.kind is PrincipalKind.CURATOR:
                row.trust = Trust.TRUSTED
        verb = TextVerb.EDIT if is_new_text else TextVerb.LOCK if row.locked else TextVerb.UNLOCK
        return self.save_version(row, verb=verb, by=by, reason=reason, now=now)

    @transaction.atomic
    def restore(
        self,
        row: Row,
        *,
        number: int,
        expected_version: int | None,
        by: Principal,
        reason: str = "",
        with_lock: bool = False,
        now: datetime,
    ) -> Row:
        """Restore a version and lock it; `with_lock` restores whether it was locked. Raises as `edit`."""
        version = row.versions.filter(actor_id=row.actor_id, number=number).first()
        if version is None:
            raise UnknownRow(format_lazy(self.no_version, number=number))
        row = self._locked(row, expected_version, by)
        former_text = row.text
        for name in self.versioned_fields:
            setattr(row, name, getattr(version, name))
        if not by.is_trusted:
            row.trust = Trust.UNTRUSTED
        row.locked = version.locked if with_lock else True
        if row.text != former_text:
            forget_answers(actor=row.actor, row_ids=[row.pk])
        return self.save_version(row, verb=TextVerb.RESTORE, by=by, reason=reason, now=now)

    @transaction.atomic
    def delete(self, row: Row, *, expected_version: int | None, by: Principal, reason: str = "", now: datetime) -> None:
        """Delete a row with its versions, and its text from receipts and recorded answers. Raises as `edit`."""
        row = self._locked(row, expected_version, by)
        forget_sources([row.pk])
        forget_answers(actor=row.actor, row_ids=[row.pk])
        audit.record(by=by, verb=TextVerb.DELETE, row=row, reason=reason, now=now)
        self.forget(row)
        self.changed(row)
        row.delete()

    def _locked(self, row: Row, expected_version: int | None, by: Principal) -> Row:
        lock_actor(row.actor_id)
        locked = self.lock(row)
        if not by.is_trusted and locked.trust == Trust.TRUSTED:
            raise Forbidden(_("An untrusted key may not change trusted data; a curator can."))
        if expected_version is not None and locked.version != expected_version:
            raise VersionMismatch(locked.version)
        return locked

    def save_version(self, row: Row, *, verb: TextVerb, by: Principal, reason: str, now: datetime, **more: Any) -> Row:
        """Save a locked row, and record its change as a version and in the audit trail (SPEC U1, A11)."""
        screening = Screening(row.actor)
        for name in self.versioned_fields:
            setattr(row, name, screening.json(getattr(row, name)))
        row.version, row.updated_at = row.version + 1, now
        row.save()
        row.versions.create(
            actor_id=row.actor_id,
            number=row.version,
            verb=verb,
            locked=row.locked,
            **{name: getattr(row, name) for name in self.versioned_fields},
            **NumberedVersion.made(by, reason, now),
            **more,
        )
        audit.record(by=by, verb=verb, row=row, reason=reason, now=now)
        screening.record(by=by, row=row, now=now)
        self.changed(row)
        return row
