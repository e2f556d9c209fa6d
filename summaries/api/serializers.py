"""Summaries as they come in and go out over REST."""

from typing import Any

from rest_framework import serializers

from memoryhub.api.fields import (
    MomentField,
    ReasonSerializer,
    StrictSerializer,
    StringField,
    TenantQuery,
    TenantSerializer,
    TextField,
)
from memoryhub.api.pagination import MAX_LIMIT
from summaries.domain.summaries import LONGEST_TEXT
from summaries.models import Summary, SummaryVersion


class SummaryListQuery(TenantQuery):
    """Whose summaries are listed."""

    limit = serializers.IntegerField(required=False, min_value=1, max_value=MAX_LIMIT)
    cursor = StringField(required=False)


class SummaryOut(serializers.ModelSerializer):
    """What a session was about; `message_count` is the last message that it covers."""

    summary = serializers.CharField(source="text")
    session_id = serializers.UUIDField()
    agent_id = serializers.CharField(source="actor.agent_id", read_only=True)
    user_id = serializers.CharField(source="actor.user_id", read_only=True)

    class Meta:
        model = Summary
        fields = (
            "id", "session_id", "agent_id", "user_id", "summary", "message_count", "start_time", "end_time", "model",
            "generator", "trust", "locked", "version", "created_at", "updated_at",
        )  # fmt: skip


class SummaryVersionOut(serializers.ModelSerializer):
    """A summary as it was after one change."""

    summary = serializers.CharField(source="text")
    by = serializers.SerializerMethodField()

    class Meta:
        model = SummaryVersion
        fields = (
            "id", "number", "verb", "by", "reason", "summary", "message_count", "model", "generator", "trust", "locked",
            "created_at",
        )  # fmt: skip

    def get_by(self, version: SummaryVersion) -> dict[str, str]:
        """Return who made the change."""
        return {"kind": version.who_kind, "id": version.who_id, "name": version.who_name}


class WindowSerializer(StrictSerializer):
    """A time from one moment to another, either of which may be left open."""

    first, last = "start_time", "end_time"

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the values; raises a validation error for a time that ends before it begins."""
        first, last = attrs.get(self.first), attrs.get(self.last)
        if first is not None and last is not None and first > last:
            raise serializers.ValidationError({self.last: ["must not lie before the beginning."]})
        return attrs


class SummaryOrderIn(WindowSerializer):
    """Of which time a summary is wanted; without any, of the session up to now."""

    start_time = MomentField(required=False, allow_null=True, default=None)
    end_time = MomentField(required=False, allow_null=True, default=None)


class JobIdOut(serializers.Serializer):
    """The job that does it."""

    job_id = serializers.UUIDField()


class SummaryPatch(ReasonSerializer):
    """What a person changes; a new text locks the summary unless `locked` is false."""

    summary = TextField(required=False, max_length=LONGEST_TEXT)
    locked = serializers.BooleanField(required=False)


class SummaryRestoreIn(ReasonSerializer):
    """Which version to bring back."""

    number = serializers.IntegerField(min_value=1, max_value=2**31 - 1)


DigestIn = type(
    "DigestIn",
    (TenantSerializer, WindowSerializer),
    {
        "__doc__": "Of which sessions a digest is wanted: those of a time, or of a project.",
        "__module__": __name__,
        "first": "from",
        "last": "to",
        "from": MomentField(required=False, allow_null=True, default=None),
        "to": MomentField(required=False, allow_null=True, default=None),
        "project": TextField(required=False, allow_null=True, max_length=255, default=None),
    },
)
"""Made by hand: `from` is a word of Python's own."""


class DigestOut(serializers.Serializer):
    """One text about several sessions."""

    digest = serializers.CharField(source="text")
    generator = serializers.CharField()
    model = serializers.CharField()
    session_ids = serializers.ListField(child=serializers.UUIDField())
    left_out = serializers.IntegerField(help_text="How many sessions did not fit, the oldest.")
    start_time = serializers.DateTimeField()
    end_time = serializers.DateTimeField()
