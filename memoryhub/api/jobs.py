"""Jobs, as whoever caused them may watch them."""

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memoryhub.api.views import ApiView
from memoryhub.auth.domain import Scope
from memoryhub.jobs.domain import State
from memoryhub.jobs.models import Job


class ProgressOut(serializers.Serializer):
    """How far long work has come."""

    done = serializers.IntegerField()
    total = serializers.IntegerField(allow_null=True)


class JobOut(serializers.Serializer):
    """A job as clients see it: `failed` would fail again, `dead` was given up on after three attempts."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    state = serializers.ChoiceField(choices=[state.value for state in State])
    attempts = serializers.IntegerField()
    error = serializers.CharField(help_text="What went wrong last; empty where nothing did.")
    progress = ProgressOut(allow_null=True)
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class OneJob(ApiView):
    """One job of an agent or user that the key may touch."""

    scopes = {"GET": Scope.READ}

    @extend_schema(responses=JobOut)
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return where a job is on its way."""
        return Response(JobOut(self.owned(Job.objects.all(), job_id)).data)
