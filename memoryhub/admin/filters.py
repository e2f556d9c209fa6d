"""List filters shared by all screens."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateTimeFilter, TextFilter

DAY_BEGINS = "00:00:00"
DAY_ENDS = "23:59:59.999999"


class PeriodFilter(RangeDateTimeFilter):
    """Filter by a period; unfold's own compares naive times, and ignores a day without a time."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        first, last = self._bound("from", DAY_BEGINS), self._bound("to", DAY_ENDS)
        if first is not None:
            queryset = queryset.filter(**{f"{self.parameter_name}__gte": first})
        if last is not None:
            queryset = queryset.filter(**{f"{self.parameter_name}__lte": last})
        return queryset

    def _bound(self, which: str, default: str) -> datetime | None:
        name = f"{self.parameter_name}_{which}"
        day, time = (self.used_parameters.get(f"{name}_{part}") for part in (0, 1))
        try:
            moment = parse_datetime(f"{day}T{time or default}") if day else None
        except ValueError:
            return None
        return None if moment is None else timezone.make_aware(moment)


class UserFilter(TextFilter):
    """Filter by the exact id of a user."""

    title = _("user")
    parameter_name = "user"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        user_id = self.value()
        return queryset.filter(actor__user_id=user_id) if user_id else queryset
