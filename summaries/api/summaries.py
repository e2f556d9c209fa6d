"""REST views and serializers of session summaries."""

import math
from typing import Any, Final
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers, status
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.models import Session
from memoryhub.api.errors import is_model_missing, llm_problem
from memoryhub.api.fields import (
    ChangedByOut,
    MomentField,
    OwnedOut,
    ReasonSerializer,
    StrictSerializer,
    TenantQuery,
    TenantSerializer,
    TextField,
)
from memoryhub.api.pagination import PageQuery, page_of
from memoryhub.api.views import IF_MATCH, ApiView, etag, operation
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Scope
from memoryhub.llm.errors import ProviderError
from summaries.actions.summaries import SUMMARIES
from summaries.actions.summarizers import digest
from summaries.actions.triggers import enqueue_summary
from summaries.domain.summaries import MAX_TEXT_LENGTH
from summaries.models import Summary, SummaryVersion


class SummaryOut(OwnedOut, serializers.ModelSerializer):
    """Summary of a session; `message_count` is the last message that it covers."""

    summary = serializers.CharField(source="text")
    session_id = serializers.UUIDField()

    class Meta:
        model = Summary
        fields = (
            "id", "session_id", "agent_id", "user_id", "summary", "message_count", "start_time", "end_time", "model",
            "generator", "trust", "locked", "version", "created_at", "updated_at",
        )  # fmt: skip


class SummaryVersionOut(ChangedByOut, serializers.ModelSerializer):
    """A summary as it was after one change."""

    summary = serializers.CharField(source="text")

    class Meta:
        model = SummaryVersion
        fields = (
            "id", "number", "verb", "by", "reason", "summary", "message_count", "model", "generator", "trust", "locked",
            "created_at",
        )  # fmt: skip


class WindowSerializer(StrictSerializer):
    """Time window, open at either end."""

    first, last = "start_time", "end_time"

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        first, last = attrs.get(self.first), attrs.get(self.last)
        if first is not None and last is not None and first > last:
            raise serializers.ValidationError({self.last: ["must not lie before the beginning."]})
        return attrs


class SummaryOrderIn(WindowSerializer):
    """Time window of the summary; without one, the session up to now."""

    start_time = MomentField(required=False, allow_null=True, default=None)
    end_time = MomentField(required=False, allow_null=True, default=None)


class JobIdOut(serializers.Serializer):
    """Job that was enqueued."""

    job_id = serializers.UUIDField()


class SummaryPatch(ReasonSerializer):
    """Changes of a summary; a new text locks it unless `locked` is false."""

    summary = TextField(required=False, max_length=MAX_TEXT_LENGTH)
    locked = serializers.BooleanField(required=False)


class SummaryRestoreIn(ReasonSerializer):
    """Version to restore."""

    number = serializers.IntegerField(min_value=1, max_value=2**31 - 1)


DigestIn = type(
    "DigestIn",
    (TenantSerializer, WindowSerializer),
    {
        "__doc__": "Sessions of a digest, by time window or project.",
        "__module__": __name__,
        "first": "from",
        "last": "to",
        "from": MomentField(required=False, allow_null=True, default=None),
        "to": MomentField(required=False, allow_null=True, default=None),
        "project": TextField(required=False, allow_null=True, max_length=255, default=None),
    },
)
"""Built with `type`, since the field `from` is a Python keyword."""


class DigestOut(serializers.Serializer):
    """One text about several sessions."""

    digest = serializers.CharField(source="text")
    generator = serializers.CharField()
    model = serializers.CharField()
    session_ids = serializers.ListField(child=serializers.UUIDField())
    left_out = serializers.IntegerField(help_text="How many sessions did not fit, the oldest.")
    start_time = serializers.DateTimeField()
    end_time = serializers.DateTimeField()


OPERATOR_WAIT_SECONDS: Final = 600.0
"""Retry-After where an operator has to act first."""

IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="`*`: only if there is none yet."
)


def unavailable_problem(error: ProviderError) -> APIException:
    """Name a wait also where no model is configured or the spending cap is reached."""
    wait = error.retry_after_seconds or (OPERATOR_WAIT_SECONDS if is_model_missing(error) else None)
    return llm_problem(error, wait_seconds=None if wait is None else math.ceil(wait))


class SummaryView(ApiView):
    """Base of the views of one session's summary."""

    def session(self, session_id: UUID) -> Session:
        return self.owned(Session.objects.all(), session_id)

    def summary(self, session_id: UUID) -> Summary:
        """Return a session's summary; 404 where it has none."""
        session = self.session(session_id)
        summary = Summary.objects.of(session.actor_id).filter(session_id=session.pk).first()
        if summary is None:
            raise UnknownRow(f"The session {session_id} has no summary yet.")
        summary.actor = session.actor
        return summary

    @staticmethod
    def answer(summary: Summary) -> Response:
        return Response(SummaryOut(summary).data, headers={"ETag": etag(summary.version)})


class OneSummary(SummaryView):
    @operation("summary_get", Scope.READ, responses=SummaryOut)
    def get(self, request: Request, session_id: UUID) -> Response:
        """Return a session's summary."""
        return self.answer(self.summary(session_id))

    @operation("summary_create", Scope.WRITE, request=SummaryOrderIn, responses={202: JobIdOut})
    def post(self, request: Request, session_id: UUID) -> Response:
        """Write the summary in the background, due or not; with a time window, of its messages alone."""
        values = self.validated(SummaryOrderIn)
        job_id = enqueue_summary(session=self.session(session_id), by=self.principal, now=self.now, **values)
        return Response({"job_id": job_id}, status=status.HTTP_202_ACCEPTED)

    @operation("summary_update", Scope.WRITE, request=SummaryPatch, responses=SummaryOut, parameters=[IF_MATCH])
    def patch(self, request: Request, session_id: UUID) -> Response:
        """Edit the text, which locks it against rewriting, or lock and unlock it."""
        values = self.validated(SummaryPatch)
        reason = values.pop("reason")
        if "summary" in values:
            values["text"] = values.pop("summary")
        edited = SUMMARIES.edit(self.summary(session_id), values=values, reason=reason, **self.change)
        return self.answer(edited)

    @operation("summary_delete", Scope.WRITE, responses={204: None}, parameters=[IF_MATCH])
    def delete(self, request: Request, session_id: UUID) -> Response:
        """Delete the summary with its versions; its text is removed from receipts as well."""
        SUMMARIES.delete(self.summary(session_id), **self.change)
        return Response(status=status.HTTP_204_NO_CONTENT)


class SummaryVersions(SummaryView):
    @operation("summary_versions_list", Scope.READ, parameters=[PageQuery], responses=page_of(SummaryVersionOut))
    def get(self, request: Request, session_id: UUID) -> Response:
        """List a summary's versions, newest first."""
        summary = self.summary(session_id)
        return self.page(summary.versions.all(), SummaryVersionOut, ordering=("-number",))


class SummaryRestore(SummaryView):
    @operation("summary_restore", Scope.WRITE, request=SummaryRestoreIn, responses=SummaryOut, parameters=[IF_MATCH])
    def post(self, request: Request, session_id: UUID) -> Response:
        """Restore a version's text, and lock the summary."""
        values = self.validated(SummaryRestoreIn)
        restored = SUMMARIES.restore(
            self.summary(session_id), number=values["number"], reason=values["reason"], **self.change
        )
        return self.answer(restored)


class Summaries(ApiView):
    @operation("summaries_list", Scope.READ, parameters=[TenantQuery, PageQuery], responses=page_of(SummaryOut))
    def get(self, request: Request) -> Response:
        """List an actor's summaries, that of the latest session first."""
        tenant = self.reading(self.query(TenantQuery))
        rows = Summary.objects.of(tenant.actor_id).select_related("actor")
        return self.page(rows, SummaryOut, ordering=("-end_time", "-id"))


class SummariesDigest(ApiView):
    problems = {ProviderError: unavailable_problem}
    idempotent_in_transaction = False

    @operation("summaries_digest", Scope.WRITE, request=DigestIn, responses=DigestOut)
    def post(self, request: Request) -> Response:
        """Return a digest of an actor's trusted summaries, of a time window or a project; it is not stored."""
        values = self.validated(DigestIn)
        result = digest(
            tenant=self.reading(values), since=values["from"], until=values["to"], project=values["project"]
        )
        return Response(DigestOut(result).data)
