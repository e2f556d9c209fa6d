"""Times in lists: relative to now, with the full time and its zone as the hint, and the day on phones."""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, Final

from django.contrib import admin
from django.core.exceptions import FieldDoesNotExist
from django.db.models import DateTimeField, IntegerField, Model
from django.utils.formats import date_format, number_format
from django.utils.html import format_html
from django.utils.timezone import localtime, now
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.zones import rounded_age

PAST: Final = {
    "minute": _("%(count)d min"),
    "hour": _("%(count)d h"),
    "day": _("%(count)d d"),
    "month": _("%(count)d mo"),
    "year": _("%(count)d y"),
}
FUTURE: Final = {
    "minute": _("in %(count)d min"),
    "hour": _("in %(count)d h"),
    "day": _("in %(count)d d"),
    "month": _("in %(count)d mo"),
    "year": _("in %(count)d y"),
}


def full_time(moment: datetime) -> str:
    """Return a moment in the person's zone, which it names."""
    return date_format(localtime(moment), "DATETIME_FORMAT")


def relative_time(moment: datetime, at: datetime) -> str:
    """Return a moment as its distance from `at`, such as `3 d`; the full time is its hint.

    The day stands behind it for style sheets to show where there are no hints.
    """
    unit, count = rounded_age(moment, at)
    words = (PAST if count > 0 else FUTURE)[unit] % {"count": abs(count)} if count else gettext("just now")
    return format_html(
        '<time datetime="{}" title="{}" class="hub-when">{}</time> <span class="hub-date">{}</span>',
        moment.isoformat(),
        full_time(moment),
        words,
        date_format(localtime(moment), "SHORT_DATE_FORMAT"),
    )


@cache
def list_column(model: type[Model], name: Any) -> Any:
    """Return a list's column; in place of a field, one that shows moments relative to now, and groups digits."""
    try:
        field = model._meta.get_field(name)
    except (FieldDoesNotExist, TypeError, AttributeError):
        return name
    if isinstance(field, DateTimeField):
        return _column(field, lambda moment: relative_time(moment, now()))
    if isinstance(field, IntegerField) and not field.primary_key:
        return _column(field, lambda number: number_format(number, use_l10n=True, force_grouping=True))
    return name


def _column(field: Any, show: Callable[[Any], str]) -> Callable[[Any], str | None]:
    @admin.display(description=field.verbose_name, ordering=field.name)
    def column(row: Any) -> str | None:
        value = getattr(row, field.name)
        return None if value is None else show(value)

    column.__name__ = field.name  # the cell's class, which style sheets and tests go by
    return column
