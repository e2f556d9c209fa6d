"""Base of the screens of texts that jobs write and people edit: saving locks; lock, rewrite, versions, delete."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import clock, principal
from memoryhub.admin.columns import column
from memoryhub.admin.history import HistoryAdmin, address
from memoryhub.admin.labels import PRINCIPAL_KINDS
from memoryhub.admin.object_actions import (
    Done,
    object_action,
    submitted_number,
    submitted_reason,
    submitted_text,
)
from memoryhub.auth.tenancy import UnknownRow


class WrittenTextAdmin(HistoryAdmin):
    """Screens of rows with `text`, `locked`, `generator` and `version`; the app's actions make every change."""

    version_model: ClassVar[type[Model]]
    version_field: ClassVar[str]
    """Foreign key of `version_model` to the row."""
    stored_text: ClassVar[str]
    """Field of a version that holds its text, which lists of versions do not load."""
    versions_name: ClassVar[Any]
    verbs: ClassVar[Mapping[str, Any]]
    generators: ClassVar[Mapping[str, Any]]

    def edit(self, row: Any, **values: Any) -> Any:
        raise NotImplementedError

    def remove(self, row: Any, **values: Any) -> None:
        raise NotImplementedError

    def write_anew(self, row: Any, **values: Any) -> None:
        raise NotImplementedError

    shown_locked = column(
        _("locked"),
        lambda row: ("locked", _("locked")) if row.locked else "",
        ordering="locked",
        colours={"locked": "warning"},
    )

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Any:
        former, cleaned = row.version, form.cleaned_data
        saved = self.edit(
            row, values=form.changed_values(frozenset({"text"})), expected_version=cleaned["expected_version"],
            by=principal(request), reason=cleaned["reason"], now=clock(),
        )  # fmt: skip
        if saved.version != former:
            words = gettext("The text was saved, as version %(number)d, and locked.")
            undo = address("restore", saved, number=former, version=saved.version, exactly=1)
            self.offer_undo(request, words % {"number": saved.version}, undo)
        return saved

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        with suppress(UnknownRow):
            self.remove(
                obj,
                expected_version=None,
                by=principal(request),
                reason=submitted_reason(request),
                now=clock(),
            )

    def deleted_along(self, rows: Sequence[Any]) -> Mapping[Any, int]:
        return {self.versions_name: self._versions(rows).count()}

    def _versions(self, rows: Sequence[Any]) -> QuerySet[Any]:
        actors = [each.actor_id for each in rows]
        whose = {"actor_id__in": actors, f"{self.version_field}__in": [each.pk for each in rows]}
        return self.version_model._default_manager.filter(**whose)

    @object_action()
    def lock_view(self, request: HttpRequest, row: Any, reason: str) -> Done:
        locked, former = submitted_text(request, "locked") == "1", row.version
        saved = self.edit(
            row, values={"locked": locked}, expected_version=submitted_number(request, "version"),
            by=principal(request), reason=reason, now=clock(),
        )  # fmt: skip
        words = gettext("It is locked.") if locked else gettext("It is unlocked.")
        undo = address("lock", saved, locked=0 if locked else 1, version=saved.version)
        logged = "lock" if locked else "unlock"
        return Done(words, undo=undo if saved.version != former else None, logged=logged)

    @object_action()
    def rewrite_view(self, request: HttpRequest, row: Any, reason: str) -> Done:
        self.write_anew(row, by=principal(request), now=clock())
        words = gettext(
            "It will be written anew in the background. What it says now stays among its versions."
        )
        return Done(words)

    def versions_of(self, row: Any, before: int, number: int) -> list[dict[str, Any]]:
        rows = self._versions([row]).filter(number__lt=before).defer(self.stored_text)
        return [
            {
                "number": each.number,
                "verb": self.verbs.get(each.verb, each.verb),
                "who": each.who_name,
                "who_kind": PRINCIPAL_KINDS[each.who_kind],
                "at": each.created_at,
                "why": each.reason,
                "is_now": each.number == row.version,
                "note": ", ".join(
                    [str(self.generators[each.generator]), *([each.model] if each.model else [])]
                ),
                "what_changed": address("compare", row, **{"from": each.number - 1, "to": each.number}),
            }
            for each in rows[:number]
        ]

    def text_at(self, row: Any, number: int) -> str | None:
        version = self._versions([row]).filter(number=number).first()
        return version.text if version else None
