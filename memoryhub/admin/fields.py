"""Form fields that store what was typed.

A browser sends every line end as CRLF, and Django's own fields trim texts, split lists at commas and
take JSON that PostgreSQL refuses. An edit must change what a person changed and nothing else.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, time
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from memoryhub.validators import UnusableJSON, parse_json

MAX_JSON_BYTES = 64_000
MAX_REASON_LENGTH = 1000
MAX_PROSE_LENGTH = 100_000
MAX_NAMES = 50
MAX_FIELD_NAME_LENGTH = 100


def with_plain_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def within_calendar(moment: datetime | None) -> datetime | None:
    """Return a datetime in UTC; raise ValidationError where it is out of range."""
    try:
        return moment and moment.astimezone(UTC)
    except OverflowError:
        raise ValidationError(_("This is outside the calendar: years are 1 to 9999 in UTC.")) from None


class DayTimeField(forms.SplitDateTimeField):
    """A day with a time, which may be left out: then the day's beginning."""

    def compress(self, data_list: Any) -> Any:
        if data_list and data_list[0] and not data_list[1]:
            data_list = [data_list[0], time.min]
        return super().compress(data_list)


class ProseField(forms.CharField):
    """Text stored as typed: not trimmed, and unchanged where only line ends differ."""

    def __init__(self, *, rows: int = 8, **kwargs: Any) -> None:
        widget = UnfoldAdminTextareaWidget(attrs={"rows": rows, "dir": "auto"})
        super().__init__(**{"strip": False, "widget": widget, "max_length": MAX_PROSE_LENGTH, **kwargs})

    def to_python(self, value: Any) -> str:
        return with_plain_line_ends(super().to_python(value) or "")

    def clean(self, value: Any) -> str:
        text: str = super().clean(value)
        if self.required and not text.strip():
            raise ValidationError(_("This must contain more than white space."), code="required")
        return text

    def has_changed(self, initial: Any, data: Any) -> bool:
        return with_plain_line_ends(initial or "") != with_plain_line_ends(data or "")


class ReasonField(forms.CharField):
    """Reason of a change; stored in the revision and the audit trail."""

    def __init__(self, **kwargs: Any) -> None:
        defaults = {
            "required": False,
            "label": _("Reason"),
            "max_length": MAX_REASON_LENGTH,
            "widget": UnfoldAdminTextInputWidget(),
            "help_text": _("Kept with the change; optional."),
        }
        super().__init__(**{**defaults, **kwargs})


class LinesField(forms.CharField):
    """List of short texts, one per line."""

    def __init__(self, *, max_lines: int, max_line_length: int, **kwargs: Any) -> None:
        self.max_lines, self.max_line_length = max_lines, max_line_length
        widget = UnfoldAdminTextareaWidget(attrs={"rows": 3, "dir": "auto"})
        longest = 2 * max_lines * max_line_length  # with blanks and empty lines
        defaults = {"required": False, "widget": widget, "help_text": _("One per line."), "max_length": longest}
        super().__init__(**{**defaults, **kwargs})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list | tuple) else value

    def clean(self, value: Any) -> Any:
        lines = _lines(super().clean(value))
        if len(lines) > self.max_lines:
            raise ValidationError(_("At most %(most)d lines."), params={"most": self.max_lines}, code="most")
        if any(len(line) > self.max_line_length for line in lines):
            problem = _("A line may have at most %(longest)d characters.")
            raise ValidationError(problem, params={"longest": self.max_line_length}, code="longest")
        return lines

    def has_changed(self, initial: Any, data: Any) -> bool:
        return not self.disabled and list(initial or []) != _lines(data or "")


def _lines(text: str) -> list[str]:
    return [line.strip() for line in with_plain_line_ends(text).split("\n") if line.strip()]


class ObjectField(forms.JSONField):
    """A JSON object that can be stored; `check` raises ValidationError for one that cannot be used."""

    def __init__(self, *, check: Callable[[dict[str, Any]], None] | None = None, **kwargs: Any) -> None:
        self.check = check
        widget = UnfoldAdminTextareaWidget(attrs={"rows": 6, "spellcheck": "false"})
        super().__init__(**{"required": False, "widget": widget, **kwargs})

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, InvalidJSONInput):
            return value
        return json.dumps(value, ensure_ascii=False, indent=2) if value else ""

    def bound_data(self, data: Any, initial: Any) -> Any:
        return InvalidJSONInput(data or "")

    def to_python(self, value: Any) -> Any:
        if isinstance(value, dict):
            return value
        text = (value or "").strip()
        if len(text.encode("utf-8", "replace")) > MAX_JSON_BYTES:
            raise ValidationError(
                _("At most %(longest)d bytes of JSON."), params={"longest": MAX_JSON_BYTES}, code="longest"
            )
        try:
            parsed = parse_json(text.encode("utf-8", "replace"))
        except UnusableJSON as error:
            raise ValidationError(str(error), code="invalid") from error
        if not isinstance(parsed, dict):
            raise ValidationError(_("This must be a JSON object: {…}."), code="object")
        return parsed

    def clean(self, value: Any) -> Any:
        parsed = super().clean(value)
        if self.check is not None:
            self.check(parsed)
        return parsed

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(self.to_python(data) != (initial or {}))
        except ValidationError:
            return True


def text_values(max_length: int) -> Callable[[dict[str, Any]], None]:
    """Return a check that an object maps a few short names to texts."""

    def check(value: dict[str, Any]) -> None:
        is_valid = len(value) <= MAX_NAMES and all(
            0 < len(name) <= MAX_FIELD_NAME_LENGTH and isinstance(text, str) and 0 < len(text) <= max_length
            for name, text in value.items()
        )
        if not is_valid:
            problem = _("At most %(most)d names, each with a text of at most %(longest)d characters.")
            raise ValidationError(problem, params={"most": MAX_NAMES, "longest": max_length})

    return check
