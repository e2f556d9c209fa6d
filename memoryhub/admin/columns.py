"""Columns and filters of lists: cells of texts and ids, declared displays, relative times, filters by type of field."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from typing import Any, Final

from django.contrib.admin.utils import get_fields_from_path
from django.core.exceptions import FieldDoesNotExist
from django.db.models import BooleanField, CharField, DateTimeField, IntegerField, Model, QuerySet, TextField
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format, number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime, make_aware, now
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters import admin as filters
from unfold.decorators import display

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


CENTS: Final = Decimal("0.0001")


def dollars(amount: Decimal | float | None) -> str:
    """Return an amount, rounded to a hundredth of a cent: sums are rounded where they are shown, and nowhere before."""
    if amount is None:
        return "-"
    rounded = Decimal(amount).quantize(CENTS, rounding=ROUND_HALF_UP)
    return f"{number_format(rounded, decimal_pos=4, force_grouping=True)} USD"


def full_time(moment: datetime) -> str:
    """Format a time in the user's time zone, which the text names."""
    return date_format(localtime(moment), "DATETIME_FORMAT")


def age(moment: datetime, at: datetime) -> str:
    """Format a time relative to `at`, such as `3 d`."""
    unit, count = rounded_age(moment, at)
    return str((PAST if count > 0 else FUTURE)[unit] % {"count": abs(count)} if count else gettext("just now"))


def relative_time(moment: datetime, at: datetime) -> str:
    """Format a time relative to `at`, such as `3 d`, with the full time as tooltip.

    The date follows in a separate element, which style sheets show where there are no tooltips.
    """
    return format_html(
        '<time datetime="{}" title="{}" class="hub-when">{}</time> <span class="hub-date">{}</span>',
        moment.isoformat(),
        full_time(moment),
        age(moment, at),
        date_format(localtime(moment), "SHORT_DATE_FORMAT"),
    )


# Cells

LONGEST_UNCUT: Final = 10
"""Characters that fit into the narrowest cell, also full-width ones; a longer text has a tooltip."""


def text_cell(text: str, whole: str = "") -> SafeString:
    """Return a text isolated for bidirectional text; lists show two lines of it, and `whole` (or it) as tooltip."""
    whole = whole or text
    if len(whole) <= LONGEST_UNCUT:
        return format_html("<bdi>{}</bdi>", text)
    return format_html('<bdi class="hub-clip" title="{}">{}</bdi>', whole, text)


def whole_text(text: str) -> SafeString:
    """Return a text with its line breaks, uncut, for the page of its row."""
    return format_html('<div dir="auto" class="break-words hub-lines">{}</div>', text)


def id_chip(text: str) -> SafeString:
    """Return an id or a name isolated for bidirectional text; lists show it as a chip, and all of it as tooltip."""
    if len(text) <= LONGEST_UNCUT:
        return format_html('<span class="hub-id"><bdi>{}</bdi></span>', text)
    return format_html('<span class="hub-id" title="{}"><bdi>{}</bdi></span>', text, text)


def owner_chips(agent_id: str, user_id: str) -> SafeString:
    """Return the ids of an agent, and of a user where there is one."""
    if not user_id:
        return id_chip(agent_id)
    return format_html('{} <span class="hub-slash">/</span> {}', id_chip(agent_id), id_chip(user_id))


# Columns


def column(
    description: Any, show: Callable[[Any], Any], *, ordering: Any = None, colours: Mapping[Any, str] | None = None
) -> Any:
    """Return an admin display of `show(row)`; with `colours` it returns a value and its label, which is coloured."""

    def shown(screen: Any, row: Any) -> Any:
        return show(row)

    label = None if colours is None else dict(colours)
    return display(shown, description=description, ordering=ordering, label=label)


def label_displays(
    show: Callable[[Any], tuple[Any, Any]], colours: Mapping[Any, str], *, description: Any, ordering: Any = None
) -> tuple[Any, Any]:
    """Return two displays of a value and its label: coloured for lists, as plain text for a row's page."""
    in_list = column(description, show, ordering=ordering, colours=colours)
    return in_list, column(description, lambda row: show(row)[1])


def choice_displays(
    field: str, labels: Mapping[Any, Any], colours: Mapping[str, str], *, description: Any
) -> tuple[Any, Any]:
    """Return the two displays of `label_displays` for a field, with its `labels` by value."""

    def show(row: Any) -> tuple[str, Any]:
        value = getattr(row, field)
        return str(value), labels.get(value, value)

    return label_displays(show, colours, description=description, ordering=field)


@cache
def list_column(model: type[Model], name: Any) -> Any:
    """Return a list's column; of date, integer and text fields, a display of relative times, grouped digits, cells."""
    try:
        field = model._meta.get_field(name)
    except (FieldDoesNotExist, TypeError, AttributeError):
        return name
    if isinstance(field, DateTimeField):
        return _column(field, lambda moment: relative_time(moment, now()))
    if isinstance(field, IntegerField) and not field.primary_key:
        return _column(field, lambda number: number_format(number, use_l10n=True, force_grouping=True))
    if isinstance(field, CharField | TextField) and not field.choices:
        return _column(field, lambda text: text_cell(text) if text else "")
    return name


def _column(field: Any, show: Callable[[Any], str]) -> Callable[[Any], str | None]:
    def shown(row: Any) -> str | None:
        value = getattr(row, field.name)
        return None if value is None else show(value)

    shown.__name__ = field.name  # becomes the cell's CSS class, used by style sheets and tests
    return display(shown, description=field.verbose_name, ordering=field.name)  # type: ignore[no-any-return]


# Filters


class PeriodFilter(filters.RangeDateTimeFilter):
    """Filter by a period; unfold's own compares naive times, and ignores a day without a time."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        first, last = self._bound("from", "00:00:00"), self._bound("to", "23:59:59.999999")
        if first is not None:
            queryset = queryset.filter(**{f"{self.parameter_name}__gte": first})
        if last is not None:
            queryset = queryset.filter(**{f"{self.parameter_name}__lte": last})
        return queryset

    def _bound(self, side: str, default: str) -> datetime | None:
        name = f"{self.parameter_name}_{side}"
        day, time = (self.used_parameters.get(f"{name}_{part}") for part in (0, 1))
        try:  # also refuses a time with a zone, which the page never sends
            moment = parse_datetime(f"{day}T{time or default}") if day else None
            return None if moment is None else make_aware(moment)
        except ValueError:
            return None


def since_query(field: str, since: datetime) -> str:
    """Return the part of a list's query string that filters by a PeriodFilter."""
    return f"{field}_from_0={localtime(since):%Y-%m-%d&{field}_from_1=%H:%M:%S}"


class UserFilter(filters.TextFilter):
    """Filter by the exact id of a user."""

    title = _("user")
    parameter_name = "user"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        user_id = self.value()
        return queryset.filter(actor__user_id=user_id) if user_id else queryset


def choice_filter(
    title: Any,
    parameter: str,
    choices: Callable[[], Iterable[tuple[str, Any]]],
    narrow: Callable[[QuerySet[Any], str], QuerySet[Any]] | None = None,
) -> type[filters.DropdownFilter]:
    """Return a filter by one of some choices, by default of rows with this value in the field `parameter`.

    `narrow(rows, choice)` replaces that filter; `choice` is "" if none was made.
    """

    class ChoiceFilter(filters.DropdownFilter):
        def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
            return list(choices())

        def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
            chosen = self.value() or ""
            if narrow is not None:
                return narrow(queryset, chosen)
            return queryset.filter(**{parameter: chosen}) if chosen else queryset

    ChoiceFilter.title, ChoiceFilter.parameter_name = title, parameter
    return ChoiceFilter


@cache
def list_filter(model: type[Model], name: Any) -> Any:
    """Return a list's filter; for a field's name, or a path to a field, with the filter class of its type."""
    if not isinstance(name, str):
        return name
    field: Any = get_fields_from_path(model, name)[-1]
    if field.is_relation:
        return name, filters.RelatedDropdownFilter
    if field.choices:
        return name, filters.ChoicesDropdownFilter
    by_type = {BooleanField: filters.BooleanRadioFilter, DateTimeField: PeriodFilter}
    return name, next(
        (filter_class for kind, filter_class in by_type.items() if isinstance(field, kind)), filters.FieldTextFilter
    )
