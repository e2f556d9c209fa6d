"""Strict JSON parsing, and serializer fields shared by the apps' APIs."""

import json
import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import cached_property
from heapq import nsmallest
from typing import IO, Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.exceptions import ValidationError as InvalidValue
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ParseError
from rest_framework.fields import empty, get_error_detail
from rest_framework.parsers import BaseParser

from memoryhub.api.problems import payload_too_large
from memoryhub.look_alikes import is_blank
from memoryhub.tenancy.namespaces import MAX_OWNER_LENGTH, namespace_owner
from memoryhub.tenancy.policy import AGENT_ID_PATTERN, MAX_AGENT_ID, MAX_USER_ID
from memoryhub.validators import UnusableJSON, parse_mended_json
from memoryhub.zones import day_end


class StrictJSONParser(BaseParser):
    """Parser for `application/json`; errors are a 400 with the position, or a 413.

    Characters of texts that cannot be stored are replaced, and the request notes in how many (`REPLACED`).
    """

    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> Any:
        """Return the parsed body; an empty body is an empty object. Raises ParseError, Problem (413)."""
        try:
            body = stream.read(settings.MAX_BODY_BYTES + 1)
        except RequestDataTooBig:
            raise payload_too_large() from None
        if len(body) > settings.MAX_BODY_BYTES:
            raise payload_too_large()
        try:
            document, replaced = parse_mended_json(body)
        except UnusableJSON as error:
            raise ParseError(str(error)) from None
        if replaced and parser_context:
            setattr(parser_context["request"]._request, REPLACED, replaced)
        return document


REPLACED: Final = "replaced_texts"
"""The attribute of a request with the number of its texts in which characters were replaced."""

MAX_JSON_BYTES = 64_000
MAX_ENTRIES = 1_000
MAX_UNKNOWN_FIELDS = 20
"""Unknown fields that an error names."""

_HOST = re.compile(r"[\w.:-]{1,253}\Z")
_FORBIDDEN_IN_URLS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


class StringField(serializers.CharField):
    """String that rejects numbers, which DRF would convert."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        value: str = super().to_internal_value(data)
        return value


class PatternField(StringField, serializers.RegexField):
    """String that matches a pattern; the error says what is allowed."""

    def __init__(self, regex: str, *, allowed: str, **kwargs: Any) -> None:
        super().__init__(regex, error_messages={"invalid": f"must be {allowed}."}, **kwargs)


@extend_schema_field(OpenApiTypes.URI)
class URLField(StringField):
    """HTTP(S) URL; hosts without a dot are allowed."""

    default_error_messages = {
        "address": "must be an address that begins with http:// or https:// and a host, without white space or "
        "control characters."
    }

    def to_internal_value(self, data: Any) -> str:
        value = super().to_internal_value(data)
        is_address = value.startswith(("http://", "https://")) and not _FORBIDDEN_IN_URLS.search(value)
        try:
            parts = urlsplit(value)
            is_address = is_address and _HOST.match(parts.hostname or "") is not None and parts.port != 0
        except ValueError:  # brackets without an address, or an invalid port
            is_address = False
        if not is_address:
            self.fail("address")
        return value


class IdField(serializers.UUIDField):
    """Id as a string; numbers, which DRF would convert, are rejected."""

    def to_internal_value(self, data: Any) -> UUID:
        if not isinstance(data, str):
            self.fail("invalid", value=data)
        value: UUID = super().to_internal_value(data)
        return value


class MomentField(serializers.DateTimeField):
    """ISO 8601 datetime with an offset; DRF would take naive ones for UTC, and dates for midnight."""

    default_error_messages = {
        "invalid": "must be a time with its offset, such as 2026-03-01T09:00:00Z or 2026-03-01T09:00:00+09:00."
    }

    def enforce_timezone(self, value: datetime) -> datetime:
        if value.utcoffset() is None:
            self.fail("invalid")
        moment: datetime = super().enforce_timezone(value)
        return moment


MAX_MOMENT_LENGTH = 40


@extend_schema_field({"type": "string", "maxLength": MAX_MOMENT_LENGTH})
class MomentOrDayField(MomentField):
    """ISO 8601 datetime with an offset, or a day, whose end in the user's time zone is meant."""

    default_error_messages = {"invalid": "must be a time with its offset, such as 2026-03-01T09:00:00+09:00, or a day."}

    def to_internal_value(self, value: Any) -> datetime | date:  # type: ignore[override]
        if isinstance(value, str) and len(value) > MAX_MOMENT_LENGTH:
            self.fail("invalid")
        try:
            if isinstance(value, str) and len(value) == 10:
                return date.fromisoformat(value)
            moment: datetime = super().to_internal_value(value)
        except ValueError:
            self.fail("invalid")
        return moment


def moment_of(value: datetime | date, zone: tzinfo) -> datetime:
    """Return the moment that a MomentOrDayField means."""
    return value if isinstance(value, datetime) else day_end(value, zone) - timedelta(microseconds=1)


class AgentIdField(StringField):
    """Agent id: a slug of at most 255 characters."""

    default_error_messages = {"slug": "must be 1 to 255 letters, digits, - or _."}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_length": MAX_AGENT_ID, **kwargs})

    def to_internal_value(self, data: Any) -> str:
        value = super().to_internal_value(data)
        if not AGENT_ID_PATTERN.match(value):
            self.fail("slug")
        return value


class UserIdField(StringField):
    """User id: at most 255 printable characters; empty means the agent itself."""

    default_error_messages = {
        "control": "must not hold control characters.",
        "encoded": f"must have at most {MAX_OWNER_LENGTH} characters once percent-encoded.",
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"required": False, "allow_blank": True, "max_length": MAX_USER_ID, **kwargs})

    def to_internal_value(self, data: Any) -> str:
        value = super().to_internal_value(data)
        # U+FFFD may stand for NUL: another id than the client meant.
        if any(ord(character) < 32 or character in "\x7f\ufffd" for character in value):
            self.fail("control")
        if len(namespace_owner("", value)) > MAX_OWNER_LENGTH:
            self.fail("encoded")
        return value


class TextField(StringField):
    """Text stored exactly as given, never trimmed; what renders as nothing counts as empty."""

    default_error_messages = {"empty": "must hold more than white space."}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"trim_whitespace": False, **kwargs})

    def to_internal_value(self, data: Any) -> str:
        value = super().to_internal_value(data)
        if not self.allow_blank and is_blank(value):
            self.fail("empty")
        return value


class OneOf(serializers.ChoiceField):
    """Choice field; the error lists the valid choices."""

    def __init__(self, choices: Any, **kwargs: Any) -> None:
        super().__init__(choices, **kwargs)
        words = ", ".join(str(word) for word in self.choices)
        self.error_messages["invalid_choice"] = f'"{{input}}" is not one of {words}.'


class ObjectField(serializers.JSONField):
    """A JSON object of bounded size, stored as given."""

    default_error_messages = {"object": "must be a JSON object.", "long": "must have at most {longest} bytes as JSON."}

    def __init__(self, *, max_bytes: int = MAX_JSON_BYTES, **kwargs: Any) -> None:
        self.max_bytes = max_bytes
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        value = super().to_internal_value(data)
        if not isinstance(value, dict):
            self.fail("object")
        if len(json.dumps(value, ensure_ascii=False).encode()) > self.max_bytes:
            self.fail("long", longest=self.max_bytes)
        return value


class ItemsField(serializers.ListField):
    """List whose length is checked before its items are; DRF would collect an error for each of a million first."""

    def to_internal_value(self, data: Any) -> Any:
        if self.max_length is not None and isinstance(data, list) and len(data) > self.max_length:
            message = self.error_messages["max_length"].format(max_length=self.max_length)
            raise serializers.ValidationError(message, code="max_length")
        return super().to_internal_value(data)


class EntriesField(serializers.DictField):
    """Object of values of one kind, with a bounded number of entries."""

    default_error_messages = {"many": f"must have at most {MAX_ENTRIES} entries."}

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and len(data) > MAX_ENTRIES:
            self.fail("many")
        return super().to_internal_value(data)


def _unknown_field(name: Any, known: Sequence[str]) -> str:
    nearest = get_close_matches(str(name)[:100].lower(), known, n=1)
    hint = f"Did you mean {nearest[0]}?" if nearest else f"There are: {', '.join(known)}." if known else ""
    return f"is not a known field. {hint}".rstrip()


class StrictSerializer(serializers.Serializer):
    """Serializer that rejects unknown keys, so that a misspelt option is an error."""

    # Faster than REST framework's own: what does not depend on the body is computed once, and only fields that the
    # body has are validated (three of a message's nine). Bodies are never partial, so defaults always apply.

    @cached_property
    def _readers(self) -> dict[str, tuple[Any, Any]]:
        """Return the fields that a body may have, each with the serializer's own check of it."""
        return {
            name: (field, getattr(self, f"validate_{name}", None))
            for name, field in self.fields.items()
            if not field.read_only
        }

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            return super().to_internal_value(data)
        if unknown := data.keys() - self._readers.keys():
            named, known = nsmallest(MAX_UNKNOWN_FIELDS, unknown), list(self._readers)
            problems: dict[str, Any] = {name: [_unknown_field(name, known)] for name in named}
            for name, (field, _check) in self._readers.items():  # an unknown field may be a required one, misspelt
                if field.required and name not in data:
                    problems[name] = [ErrorDetail(field.error_messages["required"], "required")]
            raise serializers.ValidationError(problems)
        values: dict[str, Any] = {}
        errors: dict[str, Any] = {}
        for name, (field, check) in self._readers.items():
            try:
                if name in data or field.required:
                    value = field.run_validation(data.get(name, empty))
                elif field.default is empty:
                    continue
                else:
                    value = field.default() if callable(field.default) else field.default
                values[field.source] = value if check is None else check(value)
            except serializers.ValidationError as error:
                errors[name] = error.detail
            except InvalidValue as error:
                errors[name] = get_error_detail(error)
        if errors:
            raise serializers.ValidationError(errors)
        return values

    def _read_only_defaults(self) -> dict[str, Any]:
        return {}  # bodies have no such fields, and searching for them took as long as validation


class NoBody(StrictSerializer):
    """Request without a body."""


class TenantQuery(serializers.Serializer):
    """Agent and user whose rows are listed, as query parameters."""

    agent_id = AgentIdField()
    user_id = UserIdField()


class TenantSerializer(StrictSerializer, TenantQuery):
    """Agent and user, as most bodies carry them."""


class OwnedOut(serializers.Serializer):
    """Agent and user that a row belongs to."""

    agent_id = serializers.CharField(source="actor.agent_id", read_only=True)
    user_id = serializers.CharField(source="actor.user_id", read_only=True)


class ChangedByOut(serializers.Serializer):
    by = serializers.SerializerMethodField()

    def get_by(self, version: Any) -> dict[str, str]:
        return {"kind": version.who_kind, "id": version.who_id, "name": version.who_name}


class ReasonSerializer(StrictSerializer):
    """Reason of a curated change; stored in the revision and the audit trail."""

    reason = TextField(required=False, allow_blank=True, max_length=1000, default="")
