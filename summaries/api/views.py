"""Session summaries over REST."""

import math
from typing import Any, Final
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.models import Session
from memoryhub.api.etags import IF_MATCH, etag, expected_version
from memoryhub.api.pagination import PageQuery, page_of
from memoryhub.api.problems import Problem
from memoryhub.api.views import ApiView
from memoryhub.auth.domain import Scope
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.providers.errors import ProviderError
from memoryhub.providers.spending import SpendCapReached
from summaries import metrics as metrics  # its collector registers itself
from summaries.actions.curate import delete_summary, edit_summary, restore_version
from summaries.actions.digesting import NothingToDigest, digest
from summaries.actions.ordering import NothingToSummarize, SummaryLocked, order_summary
from summaries.api.serializers import (
    DigestIn,
    DigestOut,
    JobIdOut,
    SummaryListQuery,
    SummaryOrderIn,
    SummaryOut,
    SummaryPatch,
    SummaryRestoreIn,
    SummaryVersionOut,
)
from summaries.domain.rolling import NoRoom
from summaries.models import Summary, SummaryVersion

NO_MODEL: Final = "not_configured"
SET_UP_SECONDS: Final = 600.0
"""When to ask again where an operator has to act first."""

IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="`*`: only if there is none yet."
)


def conflict(code: str) -> Any:
    """Return what makes a 409 of an exception."""
    return lambda error: Problem(status.HTTP_409_CONFLICT, code, str(error))


def llm_problem(error: ProviderError) -> APIException:
    """503 where nobody can be asked, for today or until it is set up; 502 where one did not answer as it should."""
    is_missing = isinstance(error, SpendCapReached) or error.code == NO_MODEL
    wait = error.retry_after_seconds or (SET_UP_SECONDS if is_missing else None)
    failed = Problem(
        status.HTTP_503_SERVICE_UNAVAILABLE if is_missing else status.HTTP_502_BAD_GATEWAY,
        "llm_unavailable" if is_missing else "llm_failed",
        str(error),
        reason=error.code,
        retryable=not error.permanent,
    )
    if wait is not None:
        failed.wait = math.ceil(wait)  # type: ignore[attr-defined]
    return failed


class SummaryView(ApiView):
    """What views of one session's summary share."""

    problems = {
        NothingToSummarize: conflict("no_messages"),
        SummaryLocked: conflict("summary_locked"),
    }

    def session(self, session_id: UUID) -> Session:
        """Return the session with this id if the key may see it."""
        return self.owned(Session.objects.all(), session_id)

    def summary(self, session_id: UUID) -> Summary:
        """Return a session's summary; 404 where it has none."""
        session = self.session(session_id)
        found = Summary.objects.of(session.actor_id).filter(session_id=session.pk).first()
        if found is None:
            raise UnknownRow(f"The session {session_id} has no summary yet.")
        found.actor = session.actor
        return found

    @staticmethod
    def answer(summary: Summary) -> Response:
        """Return a summary with its ETag."""
        return Response(SummaryOut(summary).data, headers={"ETag": etag(summary.version)})


class OneSummary(SummaryView):
    """Read, order, put right and delete a session's summary."""

    scopes = {"GET": Scope.READ, "POST": Scope.WRITE, "PATCH": Scope.WRITE, "DELETE": Scope.WRITE}

    @extend_schema(responses=SummaryOut)
    def get(self, request: Request, session_id: UUID) -> Response:
        """Return a session's summary."""
        return self.answer(self.summary(session_id))

    @extend_schema(request=SummaryOrderIn, responses={202: JobIdOut})
    def post(self, request: Request, session_id: UUID) -> Response:
        """Write the summary in the background, due or not; with a time, of what was said then alone."""
        values = self.validated(SummaryOrderIn)
        job_id = order_summary(session=self.session(session_id), by=self.principal, now=self.now, **values)
        return Response({"job_id": job_id}, status=status.HTTP_202_ACCEPTED)

    @extend_schema(request=SummaryPatch, responses=SummaryOut, parameters=[IF_MATCH])
    def patch(self, request: Request, session_id: UUID) -> Response:
        """Put the text right, which locks it against rewriting, or lock and unlock it."""
        values = self.validated(SummaryPatch)
        reason = values.pop("reason")
        if "summary" in values:
            values["text"] = values.pop("summary")
        edited = edit_summary(
            summary=self.summary(session_id), values=values, expected_version=expected_version(request),
            by=self.principal, reason=reason, now=self.now,
        )  # fmt: skip
        return self.answer(edited)

    @extend_schema(responses={204: None}, parameters=[IF_MATCH])
    def delete(self, request: Request, session_id: UUID) -> Response:
        """Delete the summary with its versions; its text leaves the receipts as well."""
        delete_summary(
            summary=self.summary(session_id), expected_version=expected_version(request), by=self.principal,
            now=self.now,
        )  # fmt: skip
        return Response(status=status.HTTP_204_NO_CONTENT)


class SummaryVersions(SummaryView):
    """What a summary was."""

    scopes = {"GET": Scope.READ}

    @extend_schema(
        operation_id="summary_versions_list", parameters=[PageQuery], responses=page_of(SummaryVersionOut)
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """List a summary's versions, newest first."""
        summary = self.summary(session_id)
        rows = SummaryVersion.objects.filter(actor_id=summary.actor_id, summary=summary)
        return self.page(rows, SummaryVersionOut, ordering=("-number",))


class SummaryRestore(SummaryView):
    """Bring back a version."""

    scopes = {"POST": Scope.WRITE}

    @extend_schema(request=SummaryRestoreIn, responses=SummaryOut, parameters=[IF_MATCH])
    def post(self, request: Request, session_id: UUID) -> Response:
        """Bring back what a version says, and lock it."""
        values = self.validated(SummaryRestoreIn)
        summary = self.summary(session_id)
        rows = SummaryVersion.objects.filter(actor_id=summary.actor_id, summary=summary)
        version = rows.filter(number=values["number"]).first()
        if version is None:
            raise UnknownRow(f"No version {values['number']} of this summary.")
        restored = restore_version(
            summary=summary, version=version, expected_version=expected_version(request), by=self.principal,
            reason=values["reason"], now=self.now,
        )  # fmt: skip
        return self.answer(restored)


class Summaries(ApiView):
    """List summaries."""

    scopes = {"GET": Scope.READ}

    @extend_schema(
        operation_id="summaries_list", parameters=[SummaryListQuery], responses=page_of(SummaryOut)
    )
    def get(self, request: Request) -> Response:
        """List an actor's summaries, that of the latest conversation first."""
        tenant = self.reading(self.validated(SummaryListQuery, request.query_params.dict()))
        rows = Summary.objects.of(tenant.actor_id).select_related("actor")
        return self.page(rows, SummaryOut, ordering=("-end_time", "-id"))


class SummariesDigest(ApiView):
    """One text about several sessions."""

    scopes = {"POST": Scope.WRITE}
    problems = {
        NothingToDigest: conflict("no_summaries"),
        NoRoom: conflict("no_room"),
        ProviderError: llm_problem,
    }
    idempotent_in_transaction = False

    @extend_schema(request=DigestIn, responses=DigestOut)
    def post(self, request: Request) -> Response:
        """Make a digest of an actor's trusted summaries, of a time or a project; it is answered and not kept."""
        values = self.validated(DigestIn)
        made = digest(
            tenant=self.reading(values), since=values["from"], until=values["to"], project=values["project"],
        )  # fmt: skip
        return Response(DigestOut(made).data)
