"""Extraction of a session's messages over REST: order it, and see how far it is."""

from typing import Any
from uuid import UUID

from django.conf import settings
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.models import Session
from memoryhub.api.errors import llm_problem
from memoryhub.api.fields import NoBody
from memoryhub.api.views import ApiView, operation
from memoryhub.auth.principals import Scope
from memoryhub.llm.client import NOT_CONFIGURED
from memoryhub.llm.errors import ProviderUnavailable
from strength.actions.extraction import enqueue_extraction, extraction_state


class ExtractionJobOut(serializers.Serializer):
    job_id = serializers.UUIDField()


class StrategyStateOut(serializers.Serializer):
    """Progress of a strategy: the `seq` up to which it has read, and the messages that it passed over."""

    strategy = serializers.CharField()
    is_on = serializers.BooleanField()
    read_until = serializers.IntegerField()
    passed_after = serializers.IntegerField()
    passed_until = serializers.IntegerField()


class ExtractionOut(serializers.Serializer):
    """The state of a session's extraction; `is_complete`: every strategy that is on has read every message."""

    session_id = serializers.UUIDField()
    message_count = serializers.IntegerField()
    is_complete = serializers.BooleanField()
    strategies = StrategyStateOut(many=True)
    job_id = serializers.UUIDField(allow_null=True, help_text="The latest job of the actor, if any is kept.")
    job_state = serializers.CharField(allow_null=True)


class SessionExtract(ApiView):
    @operation("session_extract", Scope.WRITE, request=NoBody, responses={202: ExtractionJobOut})
    def post(self, request: Request, session_id: UUID) -> Response:
        """Extract memories from a session's unread messages in the background, before those of other sessions."""
        session: Any = self.owned(Session.objects.all(), session_id)
        if settings.LLM.provider == "none":
            error = ProviderUnavailable(str(NOT_CONFIGURED), code="not_configured", permanent=True)
            raise llm_problem(error, wait_seconds=None)
        return Response({"job_id": str(enqueue_extraction(session=session))}, status=202)


class SessionExtraction(ApiView):
    @operation("session_extraction", Scope.READ, responses=ExtractionOut)
    def get(self, request: Request, session_id: UUID) -> Response:
        """Return how far the extraction of a session is."""
        session: Any = self.owned(Session.objects.all(), session_id)
        return Response(ExtractionOut(extraction_state(session=session)).data)
